/* bench_child.h - runs the `pleat` command as a child and keeps its output. */
#ifndef PLEAT_TESTS_BENCH_CHILD_H
#define PLEAT_TESTS_BENCH_CHILD_H

#include <stddef.h>
#include <sys/types.h>

typedef struct bench_child {
    int status; /* exit status; -1 without an exit */
    char out[65536];
    char err[16384];
    pid_t pid;
    char out_path[64]; /* files for output while the child runs */
    char err_path[64];
} bench_child;

/* Run the command of the build under test with the words of `line` (split at blanks; ' groups
 * words). The test fails if it cannot be started. */
void bench_child_run(bench_child *child, const char *line);

/* The same in two steps. A started child takes signals like any program. */
void bench_child_start(bench_child *child, const char *line);
void bench_child_finish(bench_child *child);

/* Make a new file with this content. The name stays valid for seven more calls. */
const char *bench_child_file(const char *ending, const void *content, size_t n);

#endif

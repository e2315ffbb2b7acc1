/* bench_child.h - run the `pleat` command as a child and look at what it said. */
#ifndef PLEAT_TESTS_BENCH_CHILD_H
#define PLEAT_TESTS_BENCH_CHILD_H

#include <stddef.h>

typedef struct bench_child {
    int status; /* exit status; -1 if it did not exit */
    char out[65536];
    char err[16384];
} bench_child;

/* Runs the command of the build under test with the words of `line` (split at blanks; ' groups
 * words). Fails the test when it cannot be started. */
void bench_child_run(bench_child *child, const char *line);

/* A new file with that content; the name is kept until the next call but seven. */
const char *bench_child_file(const char *ending, const void *content, size_t n);

#endif

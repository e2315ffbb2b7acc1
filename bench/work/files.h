/* files.h - works that are files: where they are, of what kind, and their events.
 *
 * The kind is seen from the content, gzip or plain: a trace, a PyTorch snapshot (pickle), a log of
 * RMM or a problem of minimalloc (both CSV). Options may follow the name: FILE:key=value,key=value.
 * A file whose own name looks like that is found first. */
#ifndef PLEAT_BENCH_FILES_H
#define PLEAT_BENCH_FILES_H

#include "bench/work/inflate.h"
#include "bench/work/tape.h"

typedef struct bench_file_options {
    int device;           /* device=N: of a snapshot; default: the first with events (-1) */
    uint64_t scale;       /* scale=N: bytes a unit of minimalloc's sizes; default 1,024 */
    bool drops_failures;  /* failures=try|drop: of a snapshot or RMM's log; default: try */
    bench_limits limits;  /* inflate=SIZE, memory=SIZE; default: the usual ones */
    const char *given[3]; /* the keys that some kinds have not, for messages; NULL = not given */
} bench_file_options;

/* The file that a work names: the path itself, or a bundled trace by its bare name; with the
 * options behind it. */
bool bench_file_find(const char *work, char *path, size_t n);
/* The folder of the bundled traces: PLEAT_TRACES, the repository's or the installed one. */
bool bench_file_folder(char *path, size_t n);

/* Take what bench_file_find gave apart. `path` has n bytes. False and a message when an option is
 * unknown or its value is bad. */
bool bench_file_split(const char *found, char *path, size_t n, bench_file_options *out,
                      bench_failure *failure);

/* Read all events of what bench_file_find gave into an empty tape. False and a message with file
 * and place (line, or byte of the decompressed file) when anything is wrong. */
bool bench_file_read(const char *found, bench_tape *tape, bench_failure *failure);

#endif

/* files.h - works in files: finds the files, their kinds and their events.
 *
 * The content, gzip or plain, tells the kind: a trace, a PyTorch snapshot (pickle, JSON,
 * torch.save), a log of RMM or a problem of minimalloc (both CSV). Options may follow the name:
 * FILE:key=value,key=value. A file whose name looks like a work with options comes first. */
#ifndef PLEAT_BENCH_FILES_H
#define PLEAT_BENCH_FILES_H

#include <dirent.h>

#include "bench/import/snapshot.h"
#include "bench/work/inflate.h"
#include "bench/work/origin.h"
#include "bench/work/tape.h"
#include "bench/work/trace.h"

typedef struct bench_file_options {
    int device;           /* device=N, for snapshots; default: the first with events (-1) */
    bench_rank_name rank; /* rank=NAME, for snapshots of several ranks; "" = not given */
    uint64_t scale;       /* scale=N: bytes per unit of minimalloc's sizes; default 1,024 */
    bool drops_failures;  /* failures=try|drop: of a snapshot or RMM log; default: try */
    bench_blocks blocks;  /* blocks=device|host: of a trace; default: all, of one kind */
    bench_limits limits;  /* inflate=SIZE, memory=SIZE; default: the usual limits */
    const char *given[5]; /* given keys that only some kinds have, for messages; NULL = not given */
} bench_file_options;

/* Find the file of a work: the path itself, or a bundled trace by its bare name. Options stay
 * behind the name. */
bool bench_file_find(const char *work, char *path, size_t n);
/* List the bundled traces: the folder (PLEAT_TRACES, the repository's or the installed one) and the
 * files in it, sorted by name. Returns the number of traces; 0: no traces, or no folder. The caller
 * frees each entry, and `*entries`. */
unsigned bench_file_bundled(char *folder, size_t n, struct dirent ***entries);

/* Split a text from bench_file_find. `path` has n bytes. False and a message when an option is
 * unknown or its value is bad. */
bool bench_file_split(const char *found, char *path, size_t n, bench_file_options *out,
                      bench_failure *failure);

/* The ranks of a file of several snapshots (bench_snapshot_ranks), unless `found` names one. *n is
 * 0 for any other file. `names` are to be freed. False and a message when out of host memory. */
bool bench_file_ranks(const char *found, bench_rank_name **names, unsigned *n,
                      bench_failure *failure);

/* Is the file a snapshot? False and a message: the file's real kind, and the purpose of verify. */
bool bench_file_check_snapshot(const char *path, bench_failure *failure);

/* Read all events of a file found by bench_file_find into an empty tape, and the file's other facts
 * into a zeroed `origin`. `origin` and `progress` may be NULL. After an error false and a message
 * with file and place (line, or byte of the decompressed file). */
bool bench_file_read(const char *found, bench_progress *progress, bench_tape *tape,
                     bench_origin *origin, bench_failure *failure);

#endif

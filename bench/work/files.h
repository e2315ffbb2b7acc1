/* files.h - works that are files: finds them, their kind and their events.
 *
 * The content, gzip or plain, tells the kind: a trace, a PyTorch snapshot (pickle), a log of RMM or
 * a problem of minimalloc (both CSV). Options may follow the name: FILE:key=value,key=value. A file
 * whose own name looks like that comes first. */
#ifndef PLEAT_BENCH_FILES_H
#define PLEAT_BENCH_FILES_H

#include <dirent.h>

#include "bench/work/inflate.h"
#include "bench/work/origin.h"
#include "bench/work/tape.h"
#include "bench/work/trace.h"

typedef struct bench_file_options {
    int device;           /* device=N: of a snapshot; default: the first with events (-1) */
    uint64_t scale;       /* scale=N: bytes per unit of minimalloc's sizes; default 1,024 */
    bool drops_failures;  /* failures=try|drop: of a snapshot or RMM log; default: try */
    bench_blocks blocks;  /* blocks=device|host: of a trace; default: all, of one kind */
    bench_limits limits;  /* inflate=SIZE, memory=SIZE; default: the usual ones */
    const char *given[4]; /* keys given that not all kinds have, for messages; NULL = not given */
} bench_file_options;

/* Finds the file that a work names: the path itself, or a bundled trace by its bare name; options
 * are kept after it. */
bool bench_file_find(const char *work, char *path, size_t n);
/* The bundled traces: their folder (PLEAT_TRACES, the repository's or the installed one) and, by
 * the alphabet, the files in it. Returns how many; 0: there are none, or no folder. The caller
 * frees each entry, and `*entries`. */
unsigned bench_file_bundled(char *folder, size_t n, struct dirent ***entries);

/* Split what bench_file_find gave. `path` has n bytes. False and a message when an option is
 * unknown or its value is bad. */
bool bench_file_split(const char *found, char *path, size_t n, bench_file_options *out,
                      bench_failure *failure);

/* Is that file a snapshot? False and a message that says what it is, and what verify is for. */
bool bench_file_check_snapshot(const char *path, bench_failure *failure);

/* Read all events of what bench_file_find gave into an empty tape, and what else it tells into a
 * zeroed `origin`; that and `progress` may be NULL. On any error false and a message with file and
 * place (line, or byte of the decompressed file). */
bool bench_file_read(const char *found, bench_progress *progress, bench_tape *tape,
                     bench_origin *origin, bench_failure *failure);

#endif

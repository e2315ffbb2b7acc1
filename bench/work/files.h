/* files.h - works that are files: where they are, of what kind, and their events. */
#ifndef PLEAT_BENCH_FILES_H
#define PLEAT_BENCH_FILES_H

#include "bench/failure.h"
#include "bench/work/tape.h"

/* The file that a work names: the path itself, or a bundled trace by its bare name. */
bool bench_file_find(const char *work, char *path, size_t n);
/* The folder of the bundled traces: PLEAT_TRACES, the repository's or the installed one. */
bool bench_file_folder(char *path, size_t n);

/* Read all events of a file into an empty tape; the kind is seen from the content, gzip or plain.
 * False and a message with file and place when anything is wrong. */
bool bench_file_read(const char *path, bench_tape *tape, bench_failure *failure);

#endif

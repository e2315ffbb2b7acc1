/* folder.h - finds the command's own data folders, in the repository or installed, and makes
 * folders for results. */
#ifndef PLEAT_BENCH_FOLDER_H
#define PLEAT_BENCH_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/base/failure.h"

/* The folder `name` ("traces", "report"). Tried in order: the environment variable, the
 * repository's bench/NAME, the installed share/pleat/NAME. False when there is none or `path` is
 * short. */
bool bench_folder_find(const char *variable, const char *name, char *path, size_t n);

/* Make the folder and its missing parents. False: the failure names the folder that could not be
 * made. */
bool bench_folder_make(const char *path, bench_failure *failure);

#endif

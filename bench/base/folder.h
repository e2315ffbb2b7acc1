/* folder.h - folders: where the command's own data files are, beside the repository's command or
 * installed; and those that results go to. */
#ifndef PLEAT_BENCH_FOLDER_H
#define PLEAT_BENCH_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/base/failure.h"

/* The folder `name` ("traces", "report"): what the environment variable says, else the repository's
 * bench/NAME, else the installed share/pleat/NAME. False when there is none or `path` is short. */
bool bench_folder_find(const char *variable, const char *name, char *path, size_t n);

/* Make the folder, and those above it that are missing. False: the failure names the one that could
 * not be made. */
bool bench_folder_make(const char *path, bench_failure *failure);

#endif

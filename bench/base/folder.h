/* folder.h - where the command's own data files are: beside the repository's command, or installed.
 */
#ifndef PLEAT_BENCH_FOLDER_H
#define PLEAT_BENCH_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* The folder `name` ("traces", "report"): what the environment variable says, else the repository's
 * bench/NAME, else the installed share/pleat/NAME. False when there is none or `path` is short. */
bool bench_folder_find(const char *variable, const char *name, char *path, size_t n);

#endif

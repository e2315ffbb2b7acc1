/* folder.c - where the command's own data files are. */
#include "bench/base/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool bench_folder_find(const char *variable, const char *name, char *path, size_t n)
{
    /* build/pleat, build/NAME/pleat, PREFIX/bin/pleat */
    static const char *const from_command[] = { "../bench", "../../bench", "../share/pleat" };
    const char *given = getenv(variable);
    if (given && given[0]) {
        return (size_t)snprintf(path, n, "%s", given) < n;
    }
    char command[3072];
    ssize_t length = readlink("/proc/self/exe", command, sizeof command - 1);
    if (length <= 0) {
        return false;
    }
    command[length] = '\0';
    char *slash = strrchr(command, '/');
    if (!slash) {
        return false;
    }
    *slash = '\0';
    for (size_t i = 0; i < sizeof from_command / sizeof from_command[0]; i++) {
        char candidate[4096];
        snprintf(candidate, sizeof candidate, "%s/%s/%.64s", command, from_command[i], name);
        char *real = realpath(candidate, NULL);
        if (real) {
            bool fits = strlen(real) < n;
            if (fits) {
                memcpy(path, real, strlen(real) + 1);
            }
            free(real);
            return fits;
        }
    }
    return false;
}

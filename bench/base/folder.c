/* folder.c - where the command's own data files are, and folders for results. */
#include "bench/base/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

bool bench_folder_make(const char *path, bench_failure *failure)
{
    char part[4096];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        return bench_fail(failure, "'%.64s' is no name of a folder", path);
    }
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) { /* the root is there */
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        part[i] = '\0';
        struct stat st;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return bench_fail(failure, "%s: %s", part, strerror(errno));
        }
        if (stat(part, &st) == 0 && !S_ISDIR(st.st_mode)) {
            return bench_fail(failure, "%s: is a file, not a folder", part);
        }
        part[i] = path[i];
    }
    return true;
}

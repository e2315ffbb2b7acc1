/* files.c - works that are files: where they are, of what kind, and their events.
 *
 * The bundled traces are beside the repository's command, or installed. */
#include "bench/work/files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/work/trace.h"

bool bench_file_folder(char *path, size_t n)
{
    /* build/pleat, build/NAME/pleat, PREFIX/bin/pleat */
    static const char *const from_command[] = { "../bench/traces", "../../bench/traces",
                                                "../share/pleat/traces" };
    const char *given = getenv("PLEAT_TRACES");
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
        snprintf(candidate, sizeof candidate, "%s/%s", command, from_command[i]);
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

bool bench_file_find(const char *work, char *path, size_t n)
{
    if (access(work, F_OK) == 0 || strchr(work, '/')) {
        return (size_t)snprintf(path, n, "%s", work) < n;
    }
    static const char *const endings[] = { "", ".gz", ".trace.gz", ".trace" };
    char folder[2048];
    if (!bench_file_folder(folder, sizeof folder)) {
        return false;
    }
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(path, n, "%s/%s%s", folder, work, endings[i]);
        if (access(path, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

bool bench_file_read(const char *path, bench_tape *tape, bench_failure *failure)
{
    return bench_trace_read(path, tape, failure);
}

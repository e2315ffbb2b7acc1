/* callgrind.c - runs this command again under callgrind and reads the total. */
#include "bench/run/callgrind.h"

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 32 };

extern char **environ;

/* The line "summary: N" or "totals: N" of callgrind's file. */
static bool read_total(const char *path, uint64_t *out)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        return false;
    }
    char line[4096];
    bool is_found = false;
    while (!is_found && fgets(line, sizeof line, file)) {
        is_found = sscanf(line, "summary: %" SCNu64, out) == 1 ||
                   sscanf(line, "totals: %" SCNu64, out) == 1;
    }
    fclose(file);
    return is_found;
}

static bool spawn_and_wait(char *const *argv, bench_failure *failure)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return bench_fail(failure, "out of host memory");
    }
    pid_t child;
    int error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                                 1 /* O_WRONLY */, 0);
    error = error ? error : posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) {
        return bench_fail(failure, "%s: %s", argv[0], strerror(error));
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return bench_fail(failure, "%s: %s", argv[0], strerror(errno));
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 127) {
        return bench_fail(failure, "%s did not run", argv[0]);
    }
    return WEXITSTATUS(status) == 0 || bench_fail(failure, "the run under %s ended with status %d",
                                                  argv[0], WEXITSTATUS(status));
}

bool bench_callgrind(const char *symbol, const char *const *arguments, unsigned n,
                     uint64_t *instructions, bench_failure *failure)
{
    char command[4096];
    ssize_t length = readlink("/proc/self/exe", command, sizeof command - 1);
    char folder[] = "/tmp/pleat-callgrind-XXXXXX";
    if (length <= 0 || n > MOST_ARGUMENTS || !mkdtemp(folder)) {
        return bench_fail(failure, "cannot make a folder for callgrind: %s", strerror(errno));
    }
    command[length] = '\0';
    char path[64];
    char out_option[96];
    char toggle_option[96];
    snprintf(path, sizeof path, "%s/out", folder);
    snprintf(out_option, sizeof out_option, "--callgrind-out-file=%s", path);
    snprintf(toggle_option, sizeof toggle_option, "--toggle-collect=%s", symbol);
    char *argv[MOST_ARGUMENTS + 8] = { "valgrind", "--tool=callgrind", "-q",
                                       out_option, toggle_option,      command };
    for (unsigned i = 0; i < n; i++) {
        argv[6 + i] = (char *)(uintptr_t)arguments[i]; /* exec does not write to them */
    }
    bool ok = spawn_and_wait(argv, failure);
    if (ok && (!read_total(path, instructions) || *instructions == 0)) {
        ok = bench_fail(failure, "callgrind saw no call of %s: is the command stripped?", symbol);
    }
    unlink(path);
    rmdir(folder);
    return ok;
}

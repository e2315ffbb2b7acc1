/* callgrind.c - runs this command again under callgrind and reads the total. */
#include "bench/measure/callgrind.h"

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

/* A folder with callgrind's files. */
typedef struct report {
    char folder[sizeof "/tmp/pleat-callgrind-XXXXXX"];
    char path[64];
} report;

static bool open_report(report *r, bench_failure *failure)
{
    memcpy(r->folder, "/tmp/pleat-callgrind-XXXXXX", sizeof r->folder);
    if (!mkdtemp(r->folder)) {
        return bench_fail(failure, "cannot make a folder for callgrind: %s", strerror(errno));
    }
    snprintf(r->path, sizeof r->path, "%s/out", r->folder);
    return true;
}

/* The file of a dump: out.1, out.2, ... */
static const char *dump_path(const report *r, unsigned number, char *out, size_t n)
{
    snprintf(out, n, "%s.%u", r->path, number);
    return out;
}

static void close_report(const report *r)
{
    char path[96];
    unlink(r->path);
    for (unsigned i = 1; unlink(dump_path(r, i, path, sizeof path)) == 0; i++) {
    }
    rmdir(r->folder);
}

static bool run(const report *r, const char *symbol, bool dumps, const char *const *arguments,
                unsigned n, bench_failure *failure)
{
    char command[4096];
    ssize_t length = readlink("/proc/self/exe", command, sizeof command - 1);
    if (length <= 0 || n > MOST_ARGUMENTS) {
        return bench_fail(failure, "cannot name this command to callgrind");
    }
    command[length] = '\0';
    char out_option[96];
    char toggle_option[96];
    char dump_option[96];
    snprintf(out_option, sizeof out_option, "--callgrind-out-file=%s", r->path);
    snprintf(toggle_option, sizeof toggle_option, "--toggle-collect=%s", symbol);
    snprintf(dump_option, sizeof dump_option, "--dump-after=%s", symbol);
    char *argv[MOST_ARGUMENTS + 9] = { "valgrind", "--tool=callgrind", "-q", out_option,
                                       toggle_option };
    unsigned used = 5;
    if (dumps) {
        argv[used++] = dump_option;
    }
    argv[used++] = command;
    for (unsigned i = 0; i < n; i++) {
        argv[used++] = (char *)(uintptr_t)arguments[i]; /* exec does not write to them */
    }
    return spawn_and_wait(argv, failure);
}

bool bench_callgrind(const char *symbol, const char *const *arguments, unsigned n,
                     uint64_t *instructions, bench_failure *failure)
{
    report r;
    if (!open_report(&r, failure)) {
        return false;
    }
    bool ok = run(&r, symbol, false, arguments, n, failure);
    if (ok && (!read_total(r.path, instructions) || *instructions == 0)) {
        ok = bench_fail(failure, "callgrind saw no call of %s: is the command stripped?", symbol);
    }
    close_report(&r);
    return ok;
}

bool bench_callgrind_calls(const char *symbol, const char *const *arguments, unsigned n,
                           uint64_t *instructions, unsigned n_calls, bench_failure *failure)
{
    report r;
    if (!open_report(&r, failure)) {
        return false;
    }
    bool ok = run(&r, symbol, true, arguments, n, failure);
    char path[96];
    unsigned n_seen = 0;
    while (ok && n_seen < n_calls &&
           read_total(dump_path(&r, n_seen + 1, path, sizeof path), &instructions[n_seen])) {
        n_seen++;
    }
    if (ok && n_seen < n_calls) {
        ok = bench_fail(failure,
                        "callgrind saw %u calls of %s instead of %u: is the command "
                        "stripped?",
                        n_seen, symbol, n_calls);
    }
    close_report(&r);
    return ok;
}

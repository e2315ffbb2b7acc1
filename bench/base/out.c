/* out.c - see out.h.
 *
 * Buffered text may fail to be written as late as at the exit. So the exit checks, like coreutils'
 * close_stdout. The handler of SIGPIPE calls only functions allowed in a handler. */
#include "bench/base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_NOT_WRITTEN = 2 };

static const char what[] = "pleat: cannot write to standard output";

static void on_closed_pipe(int number)
{
    (void)number;
    static const char line[] = "pleat: cannot write to standard output: the reader of the pipe "
                               "has gone\n";
    ssize_t wrote = write(STDERR_FILENO, line, sizeof line - 1);
    (void)wrote; /* nobody is left to tell */
    _exit(EXIT_NOT_WRITTEN);
}

static void close_output(void)
{
    int had_failed = ferror(stdout);
    errno = 0;
    int error = fclose(stdout) != 0 ? errno : 0;
    if (!had_failed && error == 0) {
        return;
    }
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
    } else {
        fprintf(stderr, "%s\n", what);
    }
    _exit(EXIT_NOT_WRITTEN);
}

/* Reading alone: writes to standard output fail, and nothing written is nothing lost. */
static void hold_descriptors(void)
{
    static const int modes[] = { O_RDONLY, O_RDONLY, O_WRONLY };
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd) {
            fprintf(stderr, "pleat: descriptor %d is closed, and /dev/null cannot stand in: %s\n",
                    fd, strerror(errno));
            _exit(EXIT_NOT_WRITTEN);
        }
    }
}

void bench_out_guard(void)
{
    hold_descriptors();
    const struct sigaction action = { .sa_handler = on_closed_pipe };
    sigaction(SIGPIPE, &action, NULL);
    if (atexit(close_output) != 0) {
        fprintf(stderr, "pleat: out of host memory\n");
        _exit(EXIT_NOT_WRITTEN);
    }
}

bool bench_out_close(FILE *file, const char *path, bench_failure *failure)
{
    errno = 0;
    bool is_written = fflush(file) == 0 && !ferror(file);
    int error = errno;
    if (fclose(file) != 0 && is_written) {
        is_written = false;
        error = errno;
    }
    return is_written || bench_fail(failure, "%s: cannot be written: %s", path,
                                    error ? strerror(error) : "an earlier write failed");
}

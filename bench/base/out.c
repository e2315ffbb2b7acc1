/* out.c - reports lost output: standard output did not take the written text.
 *
 * Buffered text may fail to be written as late as at the exit. So the exit checks, like coreutils'
 * close_stdout. The handler of SIGPIPE calls only functions allowed in a handler. */
#include "bench/base/out.h"

#include <errno.h>
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
    /* A descriptor that was closed from the start loses nothing unless something was written. */
    if (!had_failed && (error == 0 || error == EBADF)) {
        return;
    }
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
    } else {
        fprintf(stderr, "%s\n", what);
    }
    _exit(EXIT_NOT_WRITTEN);
}

void bench_out_guard(void)
{
    const struct sigaction action = { .sa_handler = on_closed_pipe };
    sigaction(SIGPIPE, &action, NULL);
    if (atexit(close_output) != 0) {
        fprintf(stderr, "pleat: out of host memory\n");
        _exit(EXIT_NOT_WRITTEN);
    }
}

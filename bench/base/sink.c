/* sink.c - see sink.h. */
#include "bench/base/sink.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "api/base/replace.h"

enum { N_SIGNALS = 3, BUFFER_BYTES = 128 << 10 };

/* The file being written, for the handler of signals. */
static pl_replace output;
static struct sigaction actions_before[N_SIGNALS];

static void on_signal(int number)
{
    if (output.written[0]) {
        unlink(output.written);
    }
    _exit(128 + number);
}

static void watch_signals(const struct sigaction *action)
{
    static const int numbers[N_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < N_SIGNALS; i++) {
        sigaction(numbers[i], action ? action : &actions_before[i],
                  action ? &actions_before[i] : NULL);
    }
}

bool bench_sink_complain(const bench_sink *sink, bench_failure *failure)
{
    int error;
    const char *text = gzerror(sink->file, &error);
    return bench_fail(failure, "%s: %s", sink->path, error == Z_ERRNO ? strerror(errno) : text);
}

bool bench_sink_open(bench_sink *sink, const char *path, bool is_gzip, bool replaces,
                     bench_failure *failure)
{
    const struct sigaction action = { .sa_handler = on_signal };
    *sink = (bench_sink){ .path = path, .replaces = replaces };
    if (!replaces && access(path, F_OK) == 0) {
        return bench_fail(failure, "%s: is there already; --force replaces it", path);
    }
    watch_signals(&action);
    int error = pl_replace_open(&output, path);
    if (error) {
        watch_signals(NULL);
        return bench_fail(failure, "%s: %s", path, strerror(error));
    }
    sink->file = gzdopen(output.descriptor, is_gzip ? "wb" : "wbT");
    if (!sink->file) {
        close(output.descriptor);
        (void)pl_replace_end(&output, false);
        watch_signals(NULL);
        return bench_fail(failure, "%s: out of host memory", path);
    }
    gzbuffer(sink->file, BUFFER_BYTES);
    return true;
}

bool bench_sink_write(bench_sink *sink, const char *text, size_t n, bench_failure *failure)
{
    return n == 0 || gzwrite(sink->file, text, (unsigned)n) == (int)n ||
           bench_sink_complain(sink, failure);
}

/* Renames the finished file; without `replaces` only if nothing is there. */
static bool put_in_place(const bench_sink *sink, bench_failure *failure)
{
    if (!sink->replaces && link(output.written, sink->path) == 0) {
        return true;
    }
    if (!sink->replaces && (errno == EEXIST || access(sink->path, F_OK) == 0)) {
        return bench_fail(failure, "%s: is there already; --force replaces it", sink->path);
    }
    int error = pl_replace_end(&output, true);
    return error == 0 || bench_fail(failure, "%s: %s", sink->path, strerror(error));
}

bool bench_sink_close(bench_sink *sink, bool is_whole, bench_failure *failure)
{
    if (!sink->file) {
        return is_whole;
    }
    int closed = gzclose_w(sink->file);
    sink->file = NULL;
    bool ok = is_whole &&
              (closed == Z_OK || bench_fail(failure, "%s: %s", sink->path, strerror(errno)));
    ok = ok && put_in_place(sink, failure);
    (void)pl_replace_end(&output, false);
    watch_signals(NULL);
    return ok;
}

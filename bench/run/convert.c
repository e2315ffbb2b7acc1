/* convert.c - writes any work to a file, completely or not at all. */
#include "bench/run/convert.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/sink.h"

#define FIRST_POINTER UINT64_C(0x100000000000)
#define MICROSECONDS UINT64_C(1000000)
#define PROGRESS_EVENTS 65536u /* a power of two */

/* The name of a live block in the file. */
typedef struct name {
    uint64_t id; /* block number, or pointer */
    uint64_t bytes;
    uint32_t stream;
} name;

typedef struct writer {
    const bench_work *work;
    bench_format format;
    bench_progress *progress;
    bench_failure *failure;
    const char *path;
    bench_sink sink;
    name *names; /* by slot */
    uint64_t n_allocated;
    uint64_t next_pointer;
    uint64_t n_events;
} writer;

static bool ends_with(const char *text, size_t n, const char *ending)
{
    size_t cut = strlen(ending);
    return n > cut && memcmp(text + n - cut, ending, cut) == 0;
}

bool bench_format_find(const char *path, bench_format *format, bool *is_gzip,
                       bench_failure *failure)
{
    size_t n = strlen(path);
    *is_gzip = ends_with(path, n, ".gz");
    n -= *is_gzip ? 3 : 0;
    if (ends_with(path, n, ".trace")) {
        *format = BENCH_FORMAT_TRACE;
        return true;
    }
    if (ends_with(path, n, ".csv")) {
        *format = BENCH_FORMAT_RMM;
        return true;
    }
    return bench_fail(failure, "%s: the ending says the format: .trace, .trace.gz, .csv, .csv.gz",
                      path);
}

static bool complain(const writer *w)
{
    return bench_sink_complain(&w->sink, w->failure);
}

static bool write_trace(writer *w, const bench_event *event)
{
    name *block = &w->names[event->slot];
    int n;
    if (event->bytes == 0) {
        n = gzprintf(w->sink.file, "f %llu\n", (unsigned long long)block->id);
    } else {
        block->id = w->n_allocated++;
        n = gzprintf(w->sink.file, "a %llu %llu %lu%s\n", (unsigned long long)block->id,
                     (unsigned long long)event->bytes, (unsigned long)event->stream,
                     w->work->is_host ? " host" : "");
    }
    return n > 0 || complain(w);
}

static bool write_rmm(writer *w, const bench_event *event)
{
    name *block = &w->names[event->slot];
    if (event->bytes) {
        uint64_t rounded = (event->bytes + BENCH_BLOCK_UNIT - 1) / BENCH_BLOCK_UNIT;
        if (UINT64_MAX - w->next_pointer < rounded * BENCH_BLOCK_UNIT) {
            return bench_fail(w->failure, "%s: more than 2^64 bytes were allocated", w->path);
        }
        *block = (name){ .id = w->next_pointer, .bytes = event->bytes, .stream = event->stream };
        w->next_pointer += rounded * BENCH_BLOCK_UNIT;
    }
    uint64_t seconds = w->n_events / MICROSECONDS;
    return gzprintf(w->sink.file, "1,%02u:%02u:%02u.%06u,%s,0x%llx,%llu,%s%lx\n",
                    (unsigned)(seconds / 3600 % 24), (unsigned)(seconds / 60 % 60),
                    (unsigned)(seconds % 60), (unsigned)(w->n_events % MICROSECONDS),
                    event->bytes ? "allocate" : "free", (unsigned long long)block->id,
                    (unsigned long long)block->bytes, block->stream ? "0x" : "",
                    (unsigned long)block->stream) > 0 ||
           complain(w);
}

static bool write_mark(writer *w, const bench_event *event)
{
    return w->format == BENCH_FORMAT_RMM ||
           gzprintf(w->sink.file, "i %llu\n", (unsigned long long)event->bytes) > 0 || complain(w);
}

/* A log of RMM knows no uses. So a block is free right at its free. */
static bool write_use(writer *w, const bench_event *event)
{
    unsigned long use = bench_event_use(event);
    if (w->format == BENCH_FORMAT_RMM) {
        return true;
    }
    int n = event->slot == BENCH_USE
                ? gzprintf(w->sink.file, "u %lu %llu %lu\n", use,
                           (unsigned long long)w->names[bench_event_used_slot(event)].id,
                           (unsigned long)event->stream)
                : gzprintf(w->sink.file, "e %lu\n", use);
    return n > 0 || complain(w);
}

static bool write_event(writer *w, const bench_event *event)
{
    if (!bench_event_is_block(event)) {
        return event->slot == BENCH_MARK ? write_mark(w, event) : write_use(w, event);
    }
    if (!(w->format == BENCH_FORMAT_RMM ? write_rmm(w, event) : write_trace(w, event))) {
        return false;
    }
    if (w->n_events++ % PROGRESS_EVENTS == 0 && w->progress) {
        bench_progress_step(w->progress, (double)w->n_events / (double)w->work->n_events);
    }
    return true;
}

static bool write_events(writer *w)
{
    static const char header[] = "Thread,Time,Action,Pointer,Size,Stream\n";
    if (w->format == BENCH_FORMAT_RMM && gzputs(w->sink.file, header) < 0) {
        return complain(w);
    }
    bench_cursor cursor;
    if (!bench_cursor_open(w->work, &cursor, w->failure)) {
        return false;
    }
    const bench_event *entries;
    size_t n = 0;
    bool ok = true;
    while (ok && (n = bench_cursor_next(&cursor, &entries, w->failure)) != 0) {
        ok = n != SIZE_MAX;
        for (size_t i = 0; ok && i < n; i++) {
            ok = write_event(w, &entries[i]);
        }
    }
    bench_cursor_close(&cursor);
    return ok;
}

bool bench_convert(const bench_work *work, const char *path, bool replaces,
                   bench_progress *progress, bench_failure *failure)
{
    bool is_gzip;
    writer w = {
        .work = work,
        .progress = progress,
        .failure = failure,
        .path = path,
        .next_pointer = FIRST_POINTER,
    };
    if (!bench_format_find(path, &w.format, &is_gzip, failure)) {
        return false;
    }
    if (work->is_host && w.format == BENCH_FORMAT_RMM) {
        return bench_fail(failure, "%s: a log of RMM has no pinned memory: name a .trace", path);
    }
    w.names = calloc(work->n_slots, sizeof *w.names);
    if (!w.names) {
        return bench_fail(failure, "out of host memory");
    }
    bool ok = bench_sink_open(&w.sink, path, is_gzip, replaces, failure);
    ok = ok && write_events(&w);
    ok = bench_sink_close(&w.sink, ok, failure);
    free(w.names);
    return ok;
}

/* trace.c - read and check a trace, once, into a compact array.
 *
 * A replay runs over the array many times and never looks back at the text. Everything that can be
 * wrong with a trace is found here, with its line. */
#include "bench/trace.h"

#include <stdlib.h>
#include <string.h>

#include "bench/lines.h"
#include "bench/size.h"
#include "bench/trace_ids.h"

#define BLOCK_UNIT 512u

typedef struct reader {
    const char *path;
    bench_lines *lines;
    bench_failure *failure;
    bench_trace_ids ids;
    bench_trace *trace;
    size_t capacity;                      /* of trace->events */
    uint64_t streams[BENCH_MOST_STREAMS]; /* what the trace calls them */
    uint32_t last_stream;
    uint64_t live_bytes;
    const char *at; /* in the line */
    const char *end;
} reader;

/* Put "file:line: " in front of the message. */
static __attribute__((format(printf, 2, 3))) bool complain(reader *r, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    uint64_t line = bench_lines_number(r->lines);
    return bench_fail(r->failure, "%s:%llu: %s", r->path, (unsigned long long)(line ? line : 1),
                      text);
}

/* The line as it may be shown: short, and without what a terminal would obey. */
static const char *show(const char *begin, const char *end, char *out, size_t n)
{
    size_t length = (size_t)(end - begin);
    size_t shown = length < n - 4 ? length : n - 4;
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)begin[i];
        out[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    memcpy(out + shown, shown < length ? "..." : "", shown < length ? 4 : 1);
    return out;
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) {
        r->at++;
    }
}

/* The next field of the line, a decimal number of at most `most`. */
static bool number(reader *r, const char *what, uint64_t most, uint64_t *out)
{
    skip_blanks(r);
    const char *begin = r->at;
    uint64_t n = 0;
    bool is_huge = false;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        uint64_t digit = (uint64_t)(*r->at - '0');
        is_huge = is_huge || n > (UINT64_MAX - digit) / 10;
        n = n * 10 + digit;
    }
    const char *stop = r->at;
    while (stop < r->end && *stop != ' ' && *stop != '\t' && *stop != '\r') {
        stop++;
    }
    char shown[48];
    if (begin == stop) {
        return complain(r, "%s is missing", what);
    }
    if (r->at == begin || r->at != stop) {
        return complain(r, "%s is not a number: %s", what, show(begin, stop, shown, sizeof shown));
    }
    if (is_huge || n > most) {
        return complain(r, "%s %s is larger than %llu", what,
                        show(begin, stop, shown, sizeof shown), (unsigned long long)most);
    }
    *out = n;
    return true;
}

static bool line_ends(reader *r)
{
    skip_blanks(r);
    char shown[48];
    return r->at == r->end ||
           complain(r, "trailing text: %s", show(r->at, r->end, shown, sizeof shown));
}

static bool append(reader *r, bench_event event)
{
    bench_trace *trace = r->trace;
    if (trace->n_events == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 1u << 16;
        bench_event *events = realloc(trace->events, capacity * sizeof *events);
        if (!events) {
            return complain(r, "out of host memory");
        }
        trace->events = events;
        r->capacity = capacity;
    }
    trace->events[trace->n_events++] = event;
    return true;
}

/* The number of the stream that the trace calls `id`, which may be anything: a handle, say. */
static bool find_stream(reader *r, uint64_t id, uint32_t *out)
{
    bench_trace *trace = r->trace;
    uint32_t n = trace->n_streams;
    if (n > 0 && r->streams[r->last_stream] == id) {
        *out = r->last_stream;
        return true;
    }
    uint32_t i = 0;
    while (i < n && r->streams[i] != id) {
        i++;
    }
    if (i == BENCH_MOST_STREAMS) {
        return complain(r, "more than %u streams", BENCH_MOST_STREAMS);
    }
    r->streams[i] = id;
    trace->n_streams += i == n;
    r->last_stream = *out = i;
    return true;
}

static bool read_alloc(reader *r)
{
    uint64_t id;
    uint64_t bytes;
    uint64_t stream_id;
    uint32_t stream = 0;
    if (!number(r, "the id", UINT64_MAX, &id) ||
        !number(r, "the size", BENCH_LARGEST_BLOCK, &bytes) ||
        !number(r, "the stream", UINT64_MAX, &stream_id) || !line_ends(r)) {
        return false;
    }
    if (bytes == 0) {
        return complain(r, "the size is 0");
    }
    if (!find_stream(r, stream_id, &stream)) {
        return false;
    }
    bench_trace_id *entry = bench_trace_ids_get(&r->ids, id);
    if (!entry) {
        return complain(r, "out of host memory");
    }
    if (entry->bytes) {
        return complain(r, "id %llu is allocated twice", (unsigned long long)id);
    }
    uint64_t rounded = bench_round_up(bytes, BLOCK_UNIT);
    if (r->live_bytes + rounded > UINT64_C(1) << 60) {
        return complain(r, "more than 2^60 bytes are live");
    }
    if (r->ids.n_slots == UINT32_MAX || !bench_trace_ids_take(&r->ids, entry, rounded)) {
        return complain(r, "out of host memory");
    }
    r->live_bytes += rounded;
    bench_trace *trace = r->trace;
    if (r->live_bytes > trace->peak_live_bytes) {
        trace->peak_live_bytes = r->live_bytes;
    }
    return append(r, (bench_event){ .bytes = bytes, .slot = entry->slot, .stream = stream });
}

static bool read_free(reader *r)
{
    uint64_t id;
    if (!number(r, "the id", UINT64_MAX, &id) || !line_ends(r)) {
        return false;
    }
    size_t n_before = r->ids.n_entries;
    bench_trace_id *entry = bench_trace_ids_get(&r->ids, id);
    if (!entry) {
        return complain(r, "out of host memory");
    }
    if (!entry->bytes) {
        return complain(r,
                        r->ids.n_entries > n_before ? "unknown id %llu" : "id %llu is freed twice",
                        (unsigned long long)id);
    }
    r->live_bytes -= entry->bytes;
    bench_trace_ids_drop(&r->ids, entry);
    return append(r, (bench_event){ .bytes = 0, .slot = entry->slot });
}

static bool read_mark(reader *r)
{
    uint64_t n;
    if (!number(r, "the iteration", UINT64_MAX, &n) || !line_ends(r)) {
        return false;
    }
    r->trace->n_marks++;
    return true;
}

static bool read_line(reader *r)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at == '#') {
        return true;
    }
    const char *begin = r->at;
    char letter = *r->at++;
    bool is_word = r->at == r->end || *r->at == ' ' || *r->at == '\t' || *r->at == '\r';
    if (is_word && letter == 'a') {
        return read_alloc(r);
    }
    if (is_word && letter == 'f') {
        return read_free(r);
    }
    if (is_word && letter == 'i') {
        return read_mark(r);
    }
    char shown[48];
    return complain(r, "not a line of a trace: %s", show(begin, r->end, shown, sizeof shown));
}

static bool read_all(reader *r)
{
    int more;
    while ((more = bench_lines_next(r->lines, &r->at, &r->end, r->failure)) > 0) {
        if (!read_line(r)) {
            return false;
        }
    }
    if (more < 0) {
        return false;
    }
    r->trace->n_slots = r->ids.n_slots;
    return r->trace->n_slots > 0 || complain(r, "the trace holds no allocation");
}

static void set_name(bench_trace *trace, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(trace->name, sizeof trace->name, "%s", slash ? slash + 1 : path);
    static const char *const endings[] = { ".gz", ".trace" };
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(trace->name);
        size_t cut = strlen(endings[i]);
        if (n > cut && strcmp(trace->name + n - cut, endings[i]) == 0) {
            trace->name[n - cut] = '\0';
        }
    }
}

bool bench_trace_load(const char *path, bench_trace *out, bench_failure *failure)
{
    bench_trace trace = { .n_slots = 0 };
    set_name(&trace, path);
    reader r = { .path = path, .failure = failure, .trace = &trace };
    r.lines = bench_lines_open(path, failure);
    if (!r.lines) {
        return false;
    }
    bool ok = bench_trace_ids_init(&r.ids) ? read_all(&r) : complain(&r, "out of host memory");
    bench_trace_ids_fini(&r.ids);
    bench_lines_close(r.lines);
    if (ok) {
        *out = trace;
    } else {
        free(trace.events);
    }
    return ok;
}

void bench_trace_free(bench_trace *trace)
{
    free(trace->events);
    *trace = (bench_trace){ .n_slots = 0 };
}

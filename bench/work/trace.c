/* trace.c - reads and checks a trace once, into a compact array. */
#include "bench/work/trace.h"

#include <stdlib.h>
#include <string.h>

#include "bench/work/ids.h"
#include "bench/work/lines.h"
#include "bench/work/streams.h"

#define UNWANTED UINT32_MAX /* the slot of an unwanted live block */

typedef struct reader {
    const char *path;
    bench_lines *lines;
    bench_failure *failure;
    bench_ids ids;
    bench_ids uses;
    bench_streams streams;
    bench_tape *tape;
    bench_blocks wanted;
    bool has[2];    /* blocks of the device, of the host */
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

static bool out_of_memory(reader *r)
{
    return complain(r, "%s", bench_host_problem(&r->tape->host));
}

/* The line for a message: short, and without control characters. */
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

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && is_blank(*r->at)) {
        r->at++;
    }
}

/* The field at r->at is no number of at most `most`: says why. */
static bool refuse_number(reader *r, const char *what, uint64_t most)
{
    const char *begin = r->at;
    const char *stop = begin;
    bool has_digits_only = true;
    for (; stop < r->end && !is_blank(*stop); stop++) {
        has_digits_only = has_digits_only && *stop >= '0' && *stop <= '9';
    }
    char shown[48];
    if (begin == stop) {
        return complain(r, "%s is missing", what);
    }
    show(begin, stop, shown, sizeof shown);
    return has_digits_only
               ? complain(r, "%s %s is larger than %llu", what, shown, (unsigned long long)most)
               : complain(r, "%s is not a number: %s", what, shown);
}

/* The next field of the line, a decimal number of at most `most`. */
static bool number(reader *r, const char *what, uint64_t most, uint64_t *out)
{
    skip_blanks(r);
    const char *at = r->at;
    uint64_t n = 0;
    bool is_huge = false;
    for (unsigned digit; at < r->end && (digit = (unsigned)(*at - '0')) <= 9; at++) {
        is_huge = is_huge || (n >= UINT64_MAX / 10 && n > (UINT64_MAX - digit) / 10);
        n = n * 10 + digit;
    }
    if (at == r->at || (at < r->end && !is_blank(*at)) || is_huge || n > most) {
        return refuse_number(r, what, most);
    }
    r->at = at;
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

/* The word `host`, or nothing. */
static bool take_host(reader *r)
{
    static const char word[] = "host";
    size_t n = sizeof word - 1;
    skip_blanks(r);
    bool is_host = (size_t)(r->end - r->at) >= n && memcmp(r->at, word, n) == 0 &&
                   (r->at + n == r->end || is_blank(r->at[n]));
    r->at += is_host ? n : 0;
    return is_host;
}

/* Note a block of this kind. False: the block is of the second kind, and the caller has not chosen
 * a kind. */
static bool note_kind(reader *r, bool is_host)
{
    r->has[is_host] = true;
    return r->wanted != BENCH_BLOCKS_ALL || !r->has[!is_host] ||
           complain(r, "the trace has blocks of the device and of the host: name those that are "
                       "meant with :blocks=device or :blocks=host behind the file");
}

/* Is the block written to the tape? */
static bool is_wanted(const reader *r, bool is_host)
{
    return r->wanted == BENCH_BLOCKS_ALL || is_host == (r->wanted == BENCH_BLOCKS_HOST);
}

static bool write_alloc(reader *r, uint64_t bytes, uint64_t stream_id, uint32_t *slot)
{
    uint32_t stream = 0;
    if (!bench_streams_find(&r->streams, stream_id, &stream)) {
        return complain(r, "more than %u streams", BENCH_MOST_STREAMS);
    }
    return bench_tape_alloc(r->tape, bytes, stream, slot) || complain(r, "%s", r->tape->problem);
}

static bool read_alloc(reader *r)
{
    uint64_t id;
    uint64_t bytes;
    uint64_t stream_id;
    if (!number(r, "the id", UINT64_MAX, &id) ||
        !number(r, "the size", BENCH_LARGEST_BLOCK, &bytes) ||
        !number(r, "the stream", UINT64_MAX, &stream_id)) {
        return false;
    }
    bool is_host = take_host(r);
    if (!line_ends(r)) {
        return false;
    }
    if (bytes == 0) {
        return complain(r, "the size is 0");
    }
    if (!note_kind(r, is_host)) {
        return false;
    }
    bench_id *entry = bench_ids_get(&r->ids, id);
    if (!entry) {
        return out_of_memory(r);
    }
    if (entry->is_live) {
        return complain(r, "id %llu is allocated twice", (unsigned long long)id);
    }
    entry->slot = UNWANTED;
    if (is_wanted(r, is_host) && !write_alloc(r, bytes, stream_id, &entry->slot)) {
        return false;
    }
    entry->is_marked = is_host;
    bench_ids_begin(&r->ids, entry);
    return true;
}

static bool read_free(reader *r)
{
    uint64_t id;
    if (!number(r, "the id", UINT64_MAX, &id) || !line_ends(r)) {
        return false;
    }
    size_t n_before = r->ids.n_entries;
    bench_id *entry = bench_ids_get(&r->ids, id);
    if (!entry) {
        return out_of_memory(r);
    }
    if (!entry->is_live) {
        bool is_known = r->ids.n_entries <= n_before;
        return complain(r,
                        is_known               ? "id %llu is freed twice"
                        : r->ids.has_forgotten ? "id %llu is freed, but not live"
                                               : "unknown id %llu",
                        (unsigned long long)id);
    }
    bench_ids_end(&r->ids, entry);
    return entry->slot == UNWANTED || bench_tape_free(r->tape, entry->slot) ||
           complain(r, "%s", r->tape->problem);
}

static bool write_use(reader *r, uint32_t block, uint64_t stream_id, uint32_t *use)
{
    uint32_t stream = 0;
    if (!bench_streams_find(&r->streams, stream_id, &stream)) {
        return complain(r, "more than %u streams", BENCH_MOST_STREAMS);
    }
    return bench_tape_use(r->tape, block, stream, use) || complain(r, "%s", r->tape->problem);
}

static bool read_use(reader *r)
{
    uint64_t use_id;
    uint64_t id;
    uint64_t stream_id;
    if (!number(r, "the use", UINT64_MAX, &use_id) || !number(r, "the id", UINT64_MAX, &id) ||
        !number(r, "the stream", UINT64_MAX, &stream_id) || !line_ends(r)) {
        return false;
    }
    const bench_id *block = bench_ids_get(&r->ids, id);
    if (!block) {
        return out_of_memory(r);
    }
    if (!block->is_live) {
        return complain(r, "id %llu is used, but not live", (unsigned long long)id);
    }
    if (block->is_marked) {
        return complain(r, "id %llu is of the host: its uses are not told", (unsigned long long)id);
    }
    uint32_t slot = block->slot;
    bench_id *use = bench_ids_get(&r->uses, use_id);
    if (!use) {
        return out_of_memory(r);
    }
    if (use->is_live) {
        return complain(r, "use %llu begins twice", (unsigned long long)use_id);
    }
    use->slot = UNWANTED;
    if (slot != UNWANTED && !write_use(r, slot, stream_id, &use->slot)) {
        return false;
    }
    bench_ids_begin(&r->uses, use);
    return true;
}

static bool read_use_end(reader *r)
{
    uint64_t id;
    if (!number(r, "the use", UINT64_MAX, &id) || !line_ends(r)) {
        return false;
    }
    bench_id *use = bench_ids_get(&r->uses, id);
    if (!use) {
        return out_of_memory(r);
    }
    if (!use->is_live) {
        return complain(r, "use %llu ends, but does not go on", (unsigned long long)id);
    }
    bench_ids_end(&r->uses, use);
    return use->slot == UNWANTED || bench_tape_use_end(r->tape, use->slot) ||
           complain(r, "%s", r->tape->problem);
}

static bool read_mark(reader *r)
{
    uint64_t n;
    if (!number(r, "the iteration", UINT64_MAX, &n) || !line_ends(r)) {
        return false;
    }
    return bench_tape_mark(r->tape, n) || complain(r, "%s", r->tape->problem);
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
    if (is_word && letter == 'u') {
        return read_use(r);
    }
    if (is_word && letter == 'e') {
        return read_use_end(r);
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
    r->tape->is_host = r->has[1] && r->wanted != BENCH_BLOCKS_DEVICE;
    return r->tape->n_slots > 0 || complain(r, "the trace holds no %s",
                                            r->has[0] || r->has[1] ? "such block" : "allocation");
}

bool bench_trace_read(const char *path, const bench_limits *limits, bench_blocks wanted,
                      bench_tape *tape, bench_failure *failure)
{
    reader r = { .path = path, .failure = failure, .tape = tape, .wanted = wanted };
    r.lines = bench_lines_open(path, limits, failure);
    if (!r.lines) {
        return false;
    }
    bool ok = bench_ids_init(&r.ids, &tape->host, true) &&
                      bench_ids_init(&r.uses, &tape->host, true)
                  ? read_all(&r)
                  : out_of_memory(&r);
    bench_ids_fini(&r.ids);
    bench_ids_fini(&r.uses);
    bench_lines_close(r.lines);
    return ok;
}

/* fuzz.c - see fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "bench/works/files.h"

void fuzz_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fuzz: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

void fuzz_say(const char *format, ...)
{
    static int is_on = -1;
    if (is_on < 0) {
        is_on = getenv("PLEAT_FUZZ_SAY") != NULL;
    }
    if (is_on) {
        va_list args;
        va_start(args, format);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

const char *fuzz_plain_file(const uint8_t *data, size_t n)
{
    static char path[64];
    static int descriptor = -1;
    if (descriptor < 0) {
        descriptor = memfd_create("fuzz", MFD_CLOEXEC);
        fuzz_check(descriptor >= 0, "no file in memory");
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    }
    fuzz_check(ftruncate(descriptor, 0) == 0, "ftruncate");
    fuzz_check(pwrite(descriptor, data, n, 0) == (ssize_t)n, "pwrite");
    return path;
}

/* Packs the bytes by gzip, fast; the caller frees the result. */
static uint8_t *pack(const uint8_t *data, size_t n, size_t *n_packed)
{
    enum { GZIP = 15 + 16, LEAST_MEMORY = 1 };
    z_stream stream = { .next_in = (z_const Bytef *)data, .avail_in = (uInt)n };
    int result = deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP, LEAST_MEMORY,
                              Z_DEFAULT_STRATEGY);
    fuzz_check(result == Z_OK, "deflateInit2: %d", result);
    uLong room = deflateBound(&stream, (uLong)n);
    uint8_t *packed = malloc(room);
    fuzz_check(packed, "out of host memory");
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    result = deflate(&stream, Z_FINISH);
    fuzz_check(result == Z_STREAM_END, "deflate: %d", result);
    *n_packed = stream.total_out;
    deflateEnd(&stream);
    return packed;
}

const char *fuzz_file(const uint8_t *data, size_t n)
{
    char how = n > 0 ? (char)data[0] : '\0';
    size_t n_head = how == 'z' ? 1 : 3;
    if ((how != 'z' && how != 'c' && how != 'd') || n < n_head) {
        return fuzz_plain_file(data, n);
    }
    size_t n_packed;
    uint8_t *packed = pack(data + n_head, n - n_head, &n_packed);
    size_t place = how == 'z' ? 0 : ((size_t)data[1] << 8 | data[2]) % n_packed;
    if (how == 'd') {
        packed[place] ^= 0x41;
    }
    const char *path = fuzz_plain_file(packed, how == 'c' ? place : n_packed);
    free(packed);
    return path;
}

char *fuzz_text(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);
    fuzz_check(text, "out of host memory");
    if (n > 0) {
        memcpy(text, data, n);
    }
    text[n] = '\0';
    return text;
}

/* ---- properties ------------------------------------------------------------------------------ */

void fuzz_check_message(const char *text)
{
    fuzz_check(text[0] != '\0', "refused without a message");
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        fuzz_check(c >= 0x20 && c != 0x7f, "byte %#x in the message", c);
    }
}

/* Live bytes, rounded as the tape counts them. */
static uint64_t rounded(uint64_t bytes)
{
    return (bytes + BENCH_BLOCK_UNIT - 1) / BENCH_BLOCK_UNIT * BENCH_BLOCK_UNIT;
}

static void check_use(const bench_tape *tape, const uint64_t *live, const bench_event *event)
{
    if (event->slot != BENCH_MARK) {
        fuzz_check(bench_event_use(event) < tape->n_uses, "use %u", bench_event_use(event));
    }
    if (event->slot == BENCH_USE) {
        uint32_t slot = bench_event_used_slot(event);
        fuzz_check(slot < tape->n_slots && live[slot] != 0, "a use of slot %u", slot);
        fuzz_check(event->stream < tape->n_streams, "a use on stream %u", event->stream);
    }
}

void fuzz_check_tape(const bench_tape *tape)
{
    uint64_t *live = calloc((size_t)tape->n_slots + 1, sizeof *live);
    uint64_t n_events = 0;
    uint64_t bytes = 0;
    uint64_t peak = 0;
    fuzz_check(live, "out of host memory");
    for (size_t i = 0; i < tape->n_entries; i++) {
        const bench_event *event = &tape->entries[i];
        if (!bench_event_is_block(event)) {
            check_use(tape, live, event);
            continue;
        }
        n_events++;
        fuzz_check(event->slot < tape->n_slots, "slot %u of %u", event->slot, tape->n_slots);
        bool is_free = event->bytes == 0;
        fuzz_check(is_free == (live[event->slot] != 0), "event %zu: slot %u", i, event->slot);
        fuzz_check(is_free ||
                       (event->bytes <= BENCH_LARGEST_BLOCK && event->stream < tape->n_streams),
                   "event %zu: %llu bytes on stream %u", i, (unsigned long long)event->bytes,
                   event->stream);
        bytes += rounded(event->bytes) - (is_free ? live[event->slot] : 0);
        live[event->slot] = rounded(event->bytes);
        peak = bytes > peak ? bytes : peak;
    }
    free(live);
    fuzz_check(n_events == tape->n_events, "%llu events", (unsigned long long)tape->n_events);
    fuzz_check(bytes == tape->live_bytes && peak == tape->peak_live_bytes, "%llu bytes, peak %llu",
               (unsigned long long)tape->live_bytes, (unsigned long long)tape->peak_live_bytes);
    fuzz_check(tape->n_slots > 0 && tape->n_streams <= BENCH_MOST_STREAMS, "%u slots, %u streams",
               tape->n_slots, tape->n_streams);
}

void fuzz_read_work_file(const char *found)
{
    bench_tape tape;
    bench_failure failure = { .text = "" };
    bench_tape_init(&tape);
    if (bench_file_read(found, NULL, &tape, NULL, &failure)) {
        fuzz_check_tape(&tape);
    } else {
        fuzz_check_message(failure.text);
    }
    bench_tape_fini(&tape);
}

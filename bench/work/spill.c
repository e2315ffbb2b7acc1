/* spill.c - events that are too many for memory. */
#include "bench/work/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_EVENT = 16, BUFFER_BYTES = 1 << 16, PIECE = 4096 };

enum { KIND_FREE, KIND_ALLOC, KIND_ALLOC_ON, KIND_OTHER, KIND_BITS = 2 };

struct bench_spill {
    int file;
    uint64_t n_bytes;
    uint32_t stream; /* of the last allocation */
    unsigned char buffer[BUFFER_BYTES];
};

struct bench_spill_reader {
    const bench_spill *spill;
    uint64_t n_read; /* bytes of the file */
    uint32_t stream;
    size_t begin; /* of the bytes not yet decoded */
    size_t end;
    unsigned char buffer[BUFFER_BYTES];
    bench_event entries[PIECE];
};

static const char *folder(void)
{
    const char *named = getenv("TMPDIR");
    if (named && named[0] != '\0') {
        return named;
    }
    return access("/var/tmp", W_OK | X_OK) == 0 ? "/var/tmp" : "/tmp";
}

static const char *explain(int error)
{
    static _Thread_local char text[320];
    snprintf(text, sizeof text,
             "so many events need a temporary file in %.160s: %s; TMPDIR names another folder",
             folder(), strerror(error));
    return text;
}

bench_spill *bench_spill_create(const char **problem)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/pleat-events-XXXXXX", folder());
    bench_spill *spill = malloc(sizeof *spill);
    if (!spill) {
        *problem = "out of host memory";
        return NULL;
    }
    errno = ENAMETOOLONG;
    int file = (size_t)n < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (file < 0) {
        *problem = explain(errno);
        free(spill);
        return NULL;
    }
    unlink(path);
    spill->file = file;
    spill->n_bytes = 0;
    spill->stream = 0;
    return spill;
}

void bench_spill_destroy(bench_spill *spill)
{
    if (spill) {
        close(spill->file);
        free(spill);
    }
}

static bool write_buffer(bench_spill *spill, size_t n, const char **problem)
{
    for (size_t done = 0; done < n;) {
        ssize_t wrote = write(spill->file, spill->buffer + done, n - done);
        if (wrote < 0 && errno != EINTR) {
            *problem = explain(errno);
            return false;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    spill->n_bytes += n;
    return true;
}

static size_t put(unsigned char *out, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) {
        out[n++] = (unsigned char)(value | 0x80);
    }
    out[n++] = (unsigned char)value;
    return n;
}

static size_t encode(bench_spill *spill, const bench_event *event, unsigned char *out)
{
    uint64_t head = (uint64_t)event->slot << KIND_BITS;
    if (!bench_event_is_block(event)) {
        size_t n = put(out, (uint64_t)(BENCH_MARK - event->slot) << KIND_BITS | KIND_OTHER);
        n += event->slot == BENCH_USE ? put(out + n, event->stream) : 0;
        return n + put(out + n, event->bytes);
    }
    if (event->bytes == 0) {
        return put(out, head | KIND_FREE);
    }
    bool is_same = event->stream == spill->stream;
    size_t n = put(out, head | (is_same ? KIND_ALLOC : KIND_ALLOC_ON));
    if (!is_same) {
        n += put(out + n, event->stream);
        spill->stream = event->stream;
    }
    return n + put(out + n, event->bytes);
}

bool bench_spill_write(bench_spill *spill, const bench_event *entries, size_t n,
                       const char **problem)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (used > BUFFER_BYTES - LONGEST_EVENT) {
            if (!write_buffer(spill, used, problem)) {
                return false;
            }
            used = 0;
        }
        used += encode(spill, &entries[i], spill->buffer + used);
    }
    return write_buffer(spill, used, problem);
}

/* ---- reading --------------------------------------------------------------------------------- */

bench_spill_reader *bench_spill_open(const bench_spill *spill)
{
    bench_spill_reader *reader = malloc(sizeof *reader);
    if (reader) {
        reader->spill = spill;
        reader->n_read = 0;
        reader->stream = 0;
        reader->begin = reader->end = 0;
    }
    return reader;
}

void bench_spill_close(bench_spill_reader *reader)
{
    free(reader);
}

/* Move the undecoded bytes to the front and read behind them. */
static bool fill(bench_spill_reader *reader, const char **problem)
{
    size_t kept = reader->end - reader->begin;
    memmove(reader->buffer, reader->buffer + reader->begin, kept);
    reader->begin = 0;
    reader->end = kept;
    uint64_t left = reader->spill->n_bytes - reader->n_read;
    size_t wanted = left < BUFFER_BYTES - kept ? (size_t)left : BUFFER_BYTES - kept;
    while (wanted > 0) {
        ssize_t n = pread(reader->spill->file, reader->buffer + reader->end, wanted,
                          (off_t)reader->n_read);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            *problem = explain(n == 0 ? EIO : errno);
            return false;
        }
        n = n > 0 ? n : 0;
        reader->n_read += (size_t)n;
        reader->end += (size_t)n;
        wanted -= (size_t)n;
    }
    return true;
}

static uint64_t take(bench_spill_reader *reader)
{
    const unsigned char *at = reader->buffer + reader->begin;
    uint64_t value = *at & 0x7f;
    for (unsigned shift = 7; *at++ & 0x80; shift += 7) {
        value |= (uint64_t)(*at & 0x7f) << shift;
    }
    reader->begin = (size_t)(at - reader->buffer);
    return value;
}

static bench_event decode(bench_spill_reader *reader)
{
    uint64_t head = take(reader);
    unsigned kind = head & ((1u << KIND_BITS) - 1);
    uint32_t slot = (uint32_t)(head >> KIND_BITS);
    if (kind == KIND_FREE) {
        return (bench_event){ .slot = slot };
    }
    if (kind == KIND_OTHER) {
        bench_event event = { .slot = BENCH_MARK - slot };
        event.stream = event.slot == BENCH_USE ? (uint32_t)take(reader) : 0;
        event.bytes = take(reader);
        return event;
    }
    if (kind == KIND_ALLOC_ON) {
        reader->stream = (uint32_t)take(reader);
    }
    return (bench_event){ .bytes = take(reader), .slot = slot, .stream = reader->stream };
}

size_t bench_spill_next(bench_spill_reader *reader, const bench_event **entries,
                        const char **problem)
{
    size_t n = 0;
    while (n < PIECE) {
        bool is_short = reader->end - reader->begin < LONGEST_EVENT;
        if (is_short && reader->n_read < reader->spill->n_bytes && !fill(reader, problem)) {
            return SIZE_MAX;
        }
        if (reader->begin == reader->end) {
            break;
        }
        reader->entries[n++] = decode(reader);
    }
    *entries = reader->entries;
    return n;
}

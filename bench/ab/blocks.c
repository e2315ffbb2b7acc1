/* blocks.c - the blocks of a work over time.
 *
 * Two passes over its events: the first counts the blocks by size, to know which are the largest;
 * the second collects them. */
#include "bench/ab/blocks.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/size.h"

/* Sizes by their leading bits: 8 bins between a power of two and the next one. */
enum { BIN_BITS = 3, N_BINS = 64 << BIN_BITS, NOBODY = UINT32_MAX };

typedef struct block {
    uint64_t bytes;
    uint32_t stream;
    int32_t stack;
} block;

typedef struct entry {
    uint64_t event;
    uint64_t other_bytes; /* the most of the blocks that are not told, until the next entry */
    uint32_t block;
} entry;

typedef struct collector {
    const bench_work *work;
    uint64_t most;
    uint64_t n_in[N_BINS];
    unsigned cut;       /* blocks of larger bins are told one by one; */
    uint64_t n_room;    /* of this bin there is room for so many */
    uint32_t *block_of; /* by slot; NOBODY = not told */
    uint64_t *other_of; /* by slot: rounded bytes of a block that is not told, else 0 */
    block *blocks;
    entry *entries;
    uint64_t n_blocks, n_entries, n_all, n_events, other_bytes;
} collector;

static unsigned bin_of(uint64_t bytes)
{
    unsigned high = 63 - (unsigned)__builtin_clzll(bytes);
    uint64_t below = high >= BIN_BITS ? bytes >> (high - BIN_BITS) : bytes << (BIN_BITS - high);
    return high << BIN_BITS | (unsigned)(below & ((1U << BIN_BITS) - 1));
}

typedef void take_event(collector *c, const bench_event *event);

static bool pass(collector *c, take_event *take, bench_failure *failure)
{
    bench_cursor cursor;
    if (!bench_cursor_open(c->work, &cursor, failure)) {
        return false;
    }
    const bench_event *events;
    size_t n;
    while ((n = bench_cursor_next(&cursor, &events, failure)) > 0 && n != SIZE_MAX) {
        for (size_t i = 0; i < n; i++) {
            if (bench_event_is_block(&events[i])) {
                take(c, &events[i]);
            }
        }
    }
    bench_cursor_close(&cursor);
    return n == 0;
}

static void count(collector *c, const bench_event *event)
{
    if (event->bytes > 0) {
        c->n_in[bin_of(event->bytes)]++;
        c->n_all++;
    }
}

/* Where the bins of the largest blocks end. */
static void choose(collector *c)
{
    uint64_t n = 0;
    c->cut = N_BINS - 1;
    while (c->cut > 0 && n + c->n_in[c->cut] <= c->most) {
        n += c->n_in[c->cut--];
    }
    c->n_room = c->most - n;
}

static void note(collector *c, uint32_t of)
{
    c->entries[c->n_entries++] = (entry){ .event = c->n_events,
                                          .other_bytes = c->other_bytes,
                                          .block = of };
}

static void note_other(collector *c)
{
    if (c->n_entries > 0 && c->other_bytes > c->entries[c->n_entries - 1].other_bytes) {
        c->entries[c->n_entries - 1].other_bytes = c->other_bytes;
    }
}

static void begin_block(collector *c, const bench_event *event)
{
    unsigned bin = bin_of(event->bytes);
    bool is_told = bin > c->cut || (bin == c->cut && c->n_room > 0);
    c->n_room -= bin == c->cut && is_told;
    c->block_of[event->slot] = is_told ? (uint32_t)c->n_blocks : NOBODY;
    if (!is_told) {
        c->other_of[event->slot] = bench_round_up(event->bytes, BENCH_BLOCK_UNIT);
        c->other_bytes += c->other_of[event->slot];
        note_other(c);
        return;
    }
    c->blocks[c->n_blocks++] = (block){
        .bytes = event->bytes,
        .stream = event->stream,
        .stack = (int32_t)bench_origin_stack(&c->work->origin, c->n_events),
    };
    note(c, c->block_of[event->slot]);
}

static void collect(collector *c, const bench_event *event)
{
    if (event->bytes > 0) {
        begin_block(c, event);
    } else if (c->block_of[event->slot] != NOBODY) {
        note(c, c->block_of[event->slot]);
    } else {
        c->other_bytes -= c->other_of[event->slot];
    }
    c->n_events++;
}

/* ---- writing ---- */

typedef enum column { AT, OF, OTHER, BYTES, STREAM, STACK } column;

static long long value_of(const collector *c, column which, uint64_t i)
{
    switch (which) {
    case AT:
        return (long long)c->entries[i].event;
    case OF:
        return c->entries[i].block;
    case OTHER:
        return (long long)c->entries[i].other_bytes;
    case BYTES:
        return (long long)c->blocks[i].bytes;
    case STREAM:
        return c->blocks[i].stream;
    case STACK:
        break;
    }
    return c->blocks[i].stack;
}

static void write_column(const collector *c, column which, bool is_there, FILE *file)
{
    static const char *const names[] = { "at", "of", "other", "bytes", "stream", "stack" };
    uint64_t n = which < BYTES ? c->n_entries : c->n_blocks;
    fprintf(file, ",\"%s\":%s", names[which], is_there ? "[" : "null");
    for (uint64_t i = 0; is_there && i < n; i++) {
        fprintf(file, "%s%lld", i > 0 ? "," : "", value_of(c, which, i));
    }
    fputs(is_there ? "]" : "", file);
}

static bool write_text(const char *text, FILE *file)
{
    json_t *string = json_string(text);
    bool ok = string && json_dumpf(string, file, JSON_COMPACT | JSON_ENCODE_ANY) == 0;
    json_decref(string);
    return ok;
}

static bool write_object(const collector *c, FILE *file)
{
    const bench_origin *origin = &c->work->origin;
    uint64_t n_other = c->n_all - c->n_blocks;
    fputs("{\"blocks\":", file);
    bool ok = write_text(c->work->name, file);
    fprintf(file, ",\"n_events\":%llu,\"n_blocks\":%llu,\"n_other\":%llu",
            (unsigned long long)c->n_events, (unsigned long long)c->n_blocks,
            (unsigned long long)n_other);
    write_column(c, AT, n_other > 0, file);
    write_column(c, OF, true, file);
    write_column(c, OTHER, n_other > 0, file);
    write_column(c, BYTES, true, file);
    write_column(c, STREAM, true, file);
    write_column(c, STACK, true, file);
    fputs(",\"stacks\":[", file);
    for (uint32_t i = 0; ok && i < origin->n_stacks; i++) {
        fputs(i > 0 ? "," : "", file);
        ok = write_text(origin->stacks[i], file);
    }
    fputs("]}\n", file);
    return ok && !ferror(file);
}

static bool make_room(collector *c)
{
    uint64_t n = c->n_all < c->most ? c->n_all : c->most;
    size_t n_slots = (size_t)c->work->n_slots + 1;
    c->blocks = calloc(n + 1, sizeof *c->blocks);
    c->entries = calloc(2 * n + 1, sizeof *c->entries);
    c->block_of = calloc(n_slots, sizeof *c->block_of);
    c->other_of = calloc(n_slots, sizeof *c->other_of);
    return c->blocks && c->entries && c->block_of && c->other_of;
}

bool bench_blocks_write(const bench_work *work, uint64_t most, FILE *file, bench_failure *failure)
{
    collector c = { .work = work, .most = most };
    bool ok = pass(&c, count, failure);
    choose(&c);
    if (ok && !make_room(&c)) {
        ok = bench_fail(failure, "out of host memory");
    }
    ok = ok && pass(&c, collect, failure);
    if (ok && !write_object(&c, file)) {
        ok = bench_fail(failure, "the blocks of %.400s cannot be written: %s", work->name,
                        strerror(errno));
    }
    free(c.blocks);
    free(c.entries);
    free(c.block_of);
    free(c.other_of);
    return ok;
}

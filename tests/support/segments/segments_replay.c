/* segments_replay.c - see segments_replay.h. */
#include "tests/support/segments/segments_replay.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[PL_N_ACTIONS] = {
    [PL_ACTION_ALLOC] = "alloc",
    [PL_ACTION_FREE_REQUESTED] = "free_requested",
    [PL_ACTION_FREE_COMPLETED] = "free_completed",
    [PL_ACTION_SEGMENT_ALLOC] = "segment_alloc",
    [PL_ACTION_SEGMENT_FREE] = "segment_free",
    [PL_ACTION_SEGMENT_MAP] = "segment_map",
    [PL_ACTION_SEGMENT_UNMAP] = "segment_unmap",
};

__attribute__((format(printf, 2, 3))) static void complain(replay *r, const char *format, ...)
{
    va_list list;
    if (r->why[0] == '\0') {
        va_start(list, format);
        vsnprintf(r->why, sizeof r->why, format, list);
        va_end(list);
    }
}

static void complain_of(replay *r, const pl_event *e, const char *why)
{
    complain(r, "%s 0x%llx + %llu: %s", names[e->action], (unsigned long long)e->base,
             (unsigned long long)e->bytes, why);
}

/* ---- lists by address ------------------------------------------------------------------------ */

/* The index of the first range, or block, that ends above `base`. */
static size_t range_above(const replay_state *s, pleat_devptr base)
{
    size_t low = 0;
    for (size_t high = s->n_ranges; low < high;) {
        size_t at = (low + high) / 2;
        if (s->ranges[at].base + s->ranges[at].bytes <= base) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    return low;
}

static size_t block_above(const replay_state *s, pleat_devptr base)
{
    size_t low = 0;
    for (size_t high = s->n_blocks; low < high;) {
        size_t at = (low + high) / 2;
        if (s->blocks[at].base + s->blocks[at].bytes <= base) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    return low;
}

static void insert_range(replay *r, size_t at, replay_range range)
{
    replay_state *s = &r->told;
    if (s->n_ranges == REPLAY_MOST) {
        complain(r, "too many segments for the test");
        return;
    }
    memmove(&s->ranges[at + 1], &s->ranges[at], (s->n_ranges - at) * sizeof s->ranges[0]);
    s->ranges[at] = range;
    s->n_ranges++;
}

static void remove_range(replay_state *s, size_t at)
{
    s->n_ranges--;
    memmove(&s->ranges[at], &s->ranges[at + 1], (s->n_ranges - at) * sizeof s->ranges[0]);
}

static void insert_block(replay *r, size_t at, replay_block block)
{
    replay_state *s = &r->told;
    if (s->n_blocks == REPLAY_MOST) {
        complain(r, "too many blocks for the test");
        return;
    }
    memmove(&s->blocks[at + 1], &s->blocks[at], (s->n_blocks - at) * sizeof s->blocks[0]);
    s->blocks[at] = block;
    s->n_blocks++;
}

static void remove_block(replay_state *s, size_t at)
{
    s->n_blocks--;
    memmove(&s->blocks[at], &s->blocks[at + 1], (s->n_blocks - at) * sizeof s->blocks[0]);
}

/* Is every byte resident? */
static bool is_resident(const replay_state *s, pleat_devptr base, uint64_t bytes)
{
    pleat_devptr end = base + bytes;
    for (size_t i = range_above(s, base); i < s->n_ranges && base < end; i++) {
        if (s->ranges[i].base > base) {
            return false;
        }
        base = s->ranges[i].base + s->ranges[i].bytes;
    }
    return base >= end;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void gain(replay *r, const pl_event *e, bool is_whole)
{
    replay_state *s = &r->told;
    size_t at = range_above(s, e->base);
    if (at < s->n_ranges && s->ranges[at].base < e->base + e->bytes) {
        complain_of(r, e, "resident already");
        return;
    }
    insert_range(r, at, (replay_range){ e->base, e->bytes, e->stream, is_whole });
}

static bool holds_block(const replay_state *s, pleat_devptr base, uint64_t bytes)
{
    size_t at = block_above(s, base);
    return at < s->n_blocks && s->blocks[at].base < base + bytes;
}

static void lose_segment(replay *r, const pl_event *e)
{
    replay_state *s = &r->told;
    size_t at = range_above(s, e->base);
    const replay_range *range = &s->ranges[at];
    if (at == s->n_ranges || range->base != e->base || range->bytes != e->bytes ||
        range->stream != e->stream || !range->is_whole) {
        complain_of(r, e, "no such segment");
        return;
    }
    remove_range(s, at);
}

/* A run may be mapped in several parts, and unmapped in different parts. */
static void lose_run(replay *r, const pl_event *e)
{
    replay_state *s = &r->told;
    pleat_devptr end = e->base + e->bytes;
    if (!is_resident(s, e->base, e->bytes)) {
        complain_of(r, e, "not mapped");
        return;
    }
    for (size_t at = range_above(s, e->base); at < s->n_ranges && s->ranges[at].base < end;) {
        replay_range range = s->ranges[at];
        pleat_devptr range_end = range.base + range.bytes;
        if (range.is_whole || range.stream != e->stream) {
            complain_of(r, e, "a segment of another kind or stream");
            return;
        }
        remove_range(s, at);
        if (range.base < e->base) {
            insert_range(r, at++,
                         (replay_range){ range.base, e->base - range.base, range.stream, false });
        }
        if (range_end > end) {
            insert_range(r, at++, (replay_range){ end, range_end - end, range.stream, false });
        }
    }
}

static void give(replay *r, const pl_event *e)
{
    replay_state *s = &r->told;
    if (!is_resident(s, e->base, e->bytes)) {
        complain_of(r, e, "where no memory is");
    } else if (holds_block(s, e->base, e->bytes)) {
        complain_of(r, e, "over a block that is not gone");
    } else {
        insert_block(r, block_above(s, e->base),
                     (replay_block){ e->base, e->bytes, e->stream, e->private_in, true });
    }
}

static void end_block(replay *r, const pl_event *e, bool is_live)
{
    replay_state *s = &r->told;
    size_t at = block_above(s, e->base);
    replay_block *block = &s->blocks[at];
    if (at == s->n_blocks || block->base != e->base || block->bytes != e->bytes ||
        block->stream != e->stream || block->is_live != is_live) {
        complain_of(r, e, is_live ? "no such live block" : "no such block that was freed");
    } else if (is_live) {
        block->is_live = false;
    } else {
        remove_block(s, at);
    }
}

static void follow(pl_observer *observer, const pl_event *e)
{
    replay *r = (replay *)(void *)observer;
    if (r->why[0] != '\0') {
        return;
    }
    r->n_events[e->action]++;
    r->n_private += e->action == PL_ACTION_ALLOC && e->private_in != NULL;
    if (e->bytes == 0 || e->base == 0) {
        complain_of(r, e, "of nothing");
    }
    bool is_loss = e->action == PL_ACTION_SEGMENT_FREE || e->action == PL_ACTION_SEGMENT_UNMAP;
    if (is_loss && holds_block(&r->told, e->base, e->bytes)) {
        complain_of(r, e, "blocks are in it");
    }
    switch (e->action) {
    case PL_ACTION_SEGMENT_ALLOC:
    case PL_ACTION_SEGMENT_MAP:
        gain(r, e, e->action == PL_ACTION_SEGMENT_ALLOC);
        break;
    case PL_ACTION_SEGMENT_FREE:
        lose_segment(r, e);
        break;
    case PL_ACTION_SEGMENT_UNMAP:
        lose_run(r, e);
        break;
    case PL_ACTION_ALLOC:
        give(r, e);
        break;
    case PL_ACTION_FREE_REQUESTED:
    case PL_ACTION_FREE_COMPLETED:
        end_block(r, e, e->action == PL_ACTION_FREE_REQUESTED);
        break;
    case PL_N_ACTIONS:
        complain(r, "an action that is none");
        break;
    }
}

void replay_init(replay *r)
{
    memset(r, 0, sizeof *r);
    r->observer.tell = follow;
    r->observer.is_on = true;
}

void replay_release(replay *r, const pl_keeper *pool)
{
    for (size_t i = 0; i < r->told.n_blocks; i++) {
        replay_block *block = &r->told.blocks[i];
        block->private_in = block->private_in == pool ? NULL : block->private_in;
    }
}

/* ---- visits ---------------------------------------------------------------------------------- */

/* The told state as of the visit's first piece, and the seen state. */
typedef struct comparison {
    replay *r;
    replay_state told;
    replay_state seen;
    bool is_begun;
    bool is_full;
} comparison;

static void add_range(replay_state *s, const replay_range *range)
{
    replay_range *last = s->n_ranges > 0 ? &s->ranges[s->n_ranges - 1] : NULL;
    if (last && last->base + last->bytes == range->base && last->stream == range->stream) {
        last->bytes += range->bytes;
    } else {
        s->ranges[s->n_ranges++] = *range;
    }
}

static void see(void *context, const pl_piece *piece)
{
    comparison *c = context;
    replay_state *s = &c->seen;
    if (!c->is_begun) {
        c->told = c->r->told;
        c->is_begun = true;
    }
    c->is_full = c->is_full || s->n_ranges == REPLAY_MOST || s->n_blocks == REPLAY_MOST;
    if (piece->kind == PL_PIECE_HOLE || c->is_full) {
        return;
    }
    replay_range range = { piece->base, piece->bytes, piece->segment_stream, false };
    add_range(s, &range);
    if (piece->kind == PL_PIECE_LIVE) {
        s->blocks[s->n_blocks++] = (replay_block){ piece->base, piece->requested_bytes,
                                                   piece->stream, piece->private_in, true };
    } else if (piece->awaited_bytes > 0) {
        s->blocks[s->n_blocks++] = (replay_block){ piece->base, piece->awaited_bytes, NULL, NULL,
                                                   false };
    }
}

static void compare_ranges(replay *r, const replay_state *told, const replay_state *seen)
{
    static _Thread_local replay_state merged;
    merged.n_ranges = 0;
    for (size_t i = 0; i < told->n_ranges; i++) {
        add_range(&merged, &told->ranges[i]);
    }
    for (size_t i = 0; i < merged.n_ranges || i < seen->n_ranges; i++) {
        const replay_range *a = &merged.ranges[i];
        const replay_range *b = &seen->ranges[i];
        bool is_either = i < merged.n_ranges && i < seen->n_ranges;
        if (!is_either || a->base != b->base || a->bytes != b->bytes || a->stream != b->stream) {
            complain(r, "resident run %zu of %zu told, %zu seen: 0x%llx + %llu, 0x%llx + %llu", i,
                     merged.n_ranges, seen->n_ranges, (unsigned long long)a->base,
                     (unsigned long long)a->bytes, (unsigned long long)b->base,
                     (unsigned long long)b->bytes);
            return;
        }
    }
}

static void compare_blocks(replay *r, const replay_state *told, const replay_state *seen)
{
    for (size_t i = 0; i < told->n_blocks || i < seen->n_blocks; i++) {
        const replay_block *a = &told->blocks[i];
        const replay_block *b = &seen->blocks[i];
        bool is_either = i < told->n_blocks && i < seen->n_blocks;
        if (!is_either || a->base != b->base || a->bytes != b->bytes || a->is_live != b->is_live ||
            (b->is_live && (a->stream != b->stream || a->private_in != b->private_in))) {
            complain(r, "block %zu of %zu told, %zu seen: 0x%llx + %llu (%d), 0x%llx + %llu (%d)",
                     i, told->n_blocks, seen->n_blocks, (unsigned long long)a->base,
                     (unsigned long long)a->bytes, a->is_live, (unsigned long long)b->base,
                     (unsigned long long)b->bytes, b->is_live);
            return;
        }
    }
}

static int by_base(const void *a, const void *b)
{
    const replay_block *x = a;
    const replay_block *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static int by_range(const void *a, const void *b)
{
    const replay_range *x = a;
    const replay_range *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

/* A visit need not follow the order of addresses. */
static void sort_seen(replay_state *s)
{
    size_t n = s->n_ranges;
    qsort(s->blocks, s->n_blocks, sizeof s->blocks[0], by_base);
    qsort(s->ranges, n, sizeof s->ranges[0], by_range);
    s->n_ranges = 0;
    for (size_t i = 0; i < n; i++) {
        replay_range range = s->ranges[i];
        add_range(s, &range);
    }
}

void replay_compare(replay *r, pl_allocator *a, bool is_alone)
{
    comparison *c = calloc(1, sizeof *c);
    if (!c) {
        abort();
    }
    c->r = r;
    a->ops->visit(a, see, c);
    if (!c->is_begun && is_alone) {
        c->told = r->told;
        c->is_begun = true;
    }
    if (c->is_full) {
        complain(r, "more is seen than the test has room for");
    } else if (c->is_begun) {
        sort_seen(&c->seen);
        compare_ranges(r, &c->told, &c->seen);
        compare_blocks(r, &c->told, &c->seen);
        r->n_compared++;
    }
    free(c);
}

void replay_assert_good(const replay *r, const char *name)
{
    ck_assert_msg(r->why[0] == '\0', "%s: %s", name, r->why);
}

/* buffer_ops.c - operations on buffers (buffer.h).
 *
 * A change takes the buffer for itself (is_busy), so no live block changes while the lock is
 * dropped. To commit pages, the call requests a block at its address for each part without live
 * memory (place.h), with all remedies. If a request fails, all commits of the call are freed again.
 * To decommit pages, first the blocks are cut and noted, which may fail, then freed, which may not.
 * Guarded by the device lock, rank 20. */

#include "segments/pleat/buffers/buffer.h"
#include "segments/pleat/grow/grow.h"
#include "segments/pleat/ops/ops.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/lanes.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/shared.h"
#include "segments/pleat/streams/tick.h"

enum { PIECES = 64 }; /* the most blocks at the address of a request */

typedef struct span {
    pleat_devptr from;
    pleat_devptr to;
} span;

/* A change under way. */
typedef struct change {
    pl_space *space;
    pl_buffer *buffer;
    pl_segment *seg;
    pl_lane *plain; /* the first lane of the call's stream */
    size_t page;    /* what comes goes in pages of so many bytes; 0: nobody knows how it goes */
    span *made;     /* committed by the call so far */
    size_t n_made;
    size_t capacity;
} change;

/* ---- open ------------------------------------------------------------------------------------ */

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Look before asking the driver for addresses: uses of closed buffers may be over. Memory without a
 * tick gets one as soon as a call names its stream. Drops the lock. */
static void look_for_ends(pl_space *space)
{
    (void)pl_tick_poll(space, PL_TICK_QUERIES);
    pl_settle_want_ticks(space, NULL);
    pl_context_tick_record_if_due(space);
    (void)pl_settle_all(space);
}

/* A sleeping heap gets nothing, not even addresses, so sleep and wake find their lists
 * unchanged. */
static pleat_status reopen(pl_space *space, pl_keeper *heap, const pl_buffer_room *room,
                           pl_buffer **out)
{
    if (pl_keeper_is_shut(heap)) {
        return PLEAT_EASLEEP;
    }
    *out = pl_buffer_reopen(space, heap, room);
    return PLEAT_OK;
}

static pleat_status open_locked(pl_space *space, pl_keeper *heap, const pl_buffer_room *room,
                                pl_buffer **out)
{
    pleat_status st = reopen(space, heap, room, out);

    if (st == PLEAT_OK && *out == NULL) {
        look_for_ends(space);
        st = reopen(space, heap, room, out);
    }
    if (st != PLEAT_OK || *out != NULL) {
        return st;
    }
    st = pl_buffer_create(space, heap, room, out);
    if (st == PLEAT_ENOSPACE_VA && space->places.n_noted > 0) { /* closed buffers of all sizes */
        pl_hollow_let_go(space, 0, SIZE_MAX);
        st = pl_keeper_is_shut(heap) ? PLEAT_EASLEEP : pl_buffer_create(space, heap, room, out);
    }
    return st;
}

pleat_status pl_pleat_buffer_open(pl_allocator *a, pl_keeper *heap, size_t most_bytes,
                                  size_t page_bytes, size_t align_bytes, pleat_devptr *out)
{
    pl_space *space = (pl_space *)a;
    bool is_paged = page_bytes > 0;
    size_t page = is_paged ? round_up(page_bytes, space->granule_bytes) : space->granule_bytes;
    size_t most = round_up(most_bytes, page);
    size_t n = most >> space->granule_log2;
    size_t n_align = align_bytes >> space->granule_log2;
    pl_buffer_room room = {
        .n_want = (size_t)1 << (n == 1 ? 0 : 64 - __builtin_clzll(n - 1)),
        .n_least = n,
        .n_align = n_align > 0 ? n_align : 1,
    };
    pl_buffer *buffer;

    pl_space_enter(space);
    bool is_inside = pl_capturers_enter(space, false);
    pleat_status st = open_locked(space, heap, &room, &buffer);
    if (st == PLEAT_OK) {
        buffer->most_bytes = most;
        buffer->page_bytes = page;
        buffer->is_paged = is_paged;
        *out = pl_buffer_segment(buffer)->range.base;
    }
    pl_capturers_leave(space, is_inside);
    pl_space_leave(space);
    return st;
}

/* ---- one after the other --------------------------------------------------------------------- */

/* NULL: no open buffer begins at `base`. Drops the lock while other threads change the buffer. */
static pl_buffer *occupy(pl_space *space, pleat_devptr base)
{
    pl_buffer *buffer = pl_buffer_at(space, base);

    while (buffer != NULL && buffer->is_busy) {
        pl_space_wait(space);
        buffer = pl_buffer_at(space, base);
    }
    if (buffer == NULL || pl_buffer_segment(buffer)->range.base != base) {
        return NULL;
    }
    buffer->is_busy = true;
    return buffer;
}

static void vacate(pl_space *space, pl_buffer *buffer)
{
    buffer->is_busy = false;
    pl_space_wake(space);
}

/* ---- live blocks ----------------------------------------------------------------------------- */

/* The first live block of the buffer at or above *at and below `end`, or NULL. Moves *at behind the
 * block. May drop the lock. */
static pl_block *next_live(const change *c, pleat_devptr *at, pleat_devptr end, pl_pace *pace)
{
    while (*at < end) {
        const pl_block *b = pl_segment_find(c->seg, *at);
        *at = pl_block_end(b);
        if (b->state == PL_BLOCK_LIVE) {
            return c->seg->last[pl_segment_granule(c->seg, b->base)];
        }
        pl_pace_step(c->space, pace, 1);
    }
    return NULL;
}

/* ---- commit ---------------------------------------------------------------------------------- */

/* The first part of [gap->from, end) that is not live, up to the first PIECES blocks. False: none.
 * May drop the lock. */
static bool next_gap(const change *c, span *gap, pleat_devptr end)
{
    pl_pace pace;

    pl_pace_begin(c->space, &pace, false);
    while (gap->from < end) {
        const pl_block *b = pl_segment_find(c->seg, gap->from);
        if (b->state == PL_BLOCK_LIVE) {
            gap->from = pl_block_end(b);
            pl_pace_step(c->space, &pace, 1);
            continue;
        }
        for (int n = 0; b != NULL && b->base < end && b->state != PL_BLOCK_LIVE && n < PIECES;
             b = b->next, n++) {
            gap->to = pl_block_end(b) < end ? pl_block_end(b) : end;
            pl_lock_touch(1);
        }
        return true;
    }
    return false;
}

/* A request for the whole gap. */
static pleat_status fill(change *c, span gap)
{
    pl_space *space = c->space;
    pl_block *b = NULL;
    pl_request rq = {
        .lane = c->plain,
        .area = c->buffer->area,
        .keeper = c->buffer->area->keeper,
        .bytes = (size_t)(gap.to - gap.from),
        .usable = c->plain->number,
        .in = c->seg,
        .at = gap.from,
        .n_page = c->page >> space->granule_log2,
    };

    space->n_calls++;
    pleat_status st = pl_space_reserve_entries(space, &c->made, sizeof(*c->made), &c->capacity,
                                               c->n_made);
    st = st == PLEAT_OK ? pl_request_serve(space, &rq, &b) : st;
    if (st == PLEAT_OK) {
        c->made[c->n_made++] = gap;
        pl_buffer_enter(space, c->buffer, b, c->plain);
    }
    if (rq.wants_tick) {
        pl_tick_record(space, c->plain);
    }
    return st == PLEAT_ENOSPACE_VA ? PLEAT_EPENDING : st; /* the addresses are in use */
}

static void settle_made(change *c, bool is_kept)
{
    for (size_t i = 0; i < c->n_made; i++) {
        pleat_devptr at = c->made[i].from;
        if (is_kept) {
            pl_buffer_join(c->space, c->buffer, at);
        } else {
            pl_block *b = pl_segment_find(c->seg, at);
            pl_buffer_free(c->space, c->buffer, b, c->plain);
        }
        pl_space_breathe(c->space);
    }
    pl_meta_free(&c->space->meta, c->made);
}

/* Where the page that covers `at` ends, but not beyond `to`. Pages of a single granule count as a
 * single one. */
static pleat_devptr page_end(const change *c, pleat_devptr from, pleat_devptr at, pleat_devptr to)
{
    pleat_devptr end = at + c->page - (c->page > 0 ? (at - from) % c->page : 0);

    return c->page > c->space->granule_bytes && end < to ? end : to;
}

/* [from, to): offsets of pages. */
static pleat_status commit(change *c, uint64_t from, uint64_t to)
{
    pleat_devptr base = c->seg->range.base;
    span gap = { .from = base + from };
    pleat_status st = PLEAT_OK;

    while (st == PLEAT_OK && next_gap(c, &gap, base + to)) {
        pleat_devptr end = page_end(c, base + from, gap.from, base + to);
        gap.to = gap.to < end ? gap.to : end;
        st = fill(c, gap);
        gap.from = gap.to;
    }
    settle_made(c, st == PLEAT_OK);
    return st;
}

/* ---- decommit -------------------------------------------------------------------------------- */

/* Note the stream's use of live blocks in [from, to), unless the stream is the owner. */
static pleat_status note_uses(const change *c, pleat_devptr from, pleat_devptr to,
                              struct pl_capture *capture)
{
    pleat_status st = PLEAT_OK;
    pl_pace pace;

    pl_pace_begin(c->space, &pace, false);
    for (pl_block *b; st == PLEAT_OK && (b = next_live(c, &from, to, &pace)) != NULL;) {
        if (pl_lane_plain(b->lane) != c->plain->number) {
            st = pl_uses_add(c->space, b, c->plain, capture, false);
        }
    }
    return st;
}

/* The capture that the stream is in may end while the lock is dropped. */
static pleat_status record(const change *c, pleat_devptr from, pleat_devptr to)
{
    struct pl_capture *capture = c->plain->capture;

    if (capture == NULL) {
        return note_uses(c, from, to, NULL);
    }
    pl_capture_hold(capture);
    pleat_status st = note_uses(c, from, to, capture);
    pl_capture_drop(c->space, capture);
    return st;
}

static pleat_status decommit(const change *c, uint64_t from_offset, uint64_t to_offset)
{
    pleat_devptr from = c->seg->range.base + from_offset;
    pleat_devptr to = c->seg->range.base + to_offset;
    pl_pace pace;

    if (from >= to) {
        return PLEAT_OK;
    }
    pleat_status st = pl_buffer_cut(c->space, c->buffer, from);
    st = st == PLEAT_OK ? pl_buffer_cut(c->space, c->buffer, to) : st;
    st = st == PLEAT_OK ? note_uses(c, from, to, NULL) : st;
    if (st != PLEAT_OK) {
        pl_buffer_join(c->space, c->buffer, from);
        pl_buffer_join(c->space, c->buffer, to);
        return st;
    }
    pl_pace_begin(c->space, &pace, false);
    for (pl_block *b; (b = next_live(c, &from, to, &pace)) != NULL;) {
        pl_buffer_free(c->space, c->buffer, b, c->plain);
        pl_space_breathe(c->space);
    }
    return PLEAT_OK;
}

/* ---- changes --------------------------------------------------------------------------------- */

static uint64_t page_floor(const pl_buffer *buffer, uint64_t offset)
{
    return offset / buffer->page_bytes * buffer->page_bytes;
}

static uint64_t page_ceil(const pl_buffer *buffer, uint64_t offset)
{
    return page_floor(buffer, offset + buffer->page_bytes - 1);
}

/* The pages in which `bytes`, committed at once, are likely to go. 0: any parts may go. In a buffer
 * without pages, what one chunk can hold, and came at once, is likely to go at once. */
static size_t likely_page(const change *c, uint64_t bytes)
{
    size_t granule = c->space->granule_bytes;
    bool is_one = bytes > granule && bytes <= (uint64_t)granule << PL_MOST_ORDER;
    size_t page = is_one ? (size_t)bytes : 0;

    page = c->buffer->is_paged ? c->buffer->page_bytes : page;
    return page > 0 && c->space->options.chunks == PL_CHUNKS_GRANULE ? granule : page;
}

static pleat_status resize(change *c, uint64_t bytes)
{
    pl_buffer *buffer = c->buffer;
    uint64_t old = page_ceil(buffer, buffer->bytes);
    uint64_t new = page_ceil(buffer, bytes);

    c->page = buffer->is_paged ? likely_page(c, 0) : 0; /* other buffers end anywhere */
    pleat_status st = new > old ? commit(c, old, new) : decommit(c, new, old);

    buffer->bytes = st == PLEAT_OK ? bytes : buffer->bytes;
    return st;
}

static pleat_status commit_pages(change *c, uint64_t offset, uint64_t end)
{
    pl_buffer *buffer = c->buffer;
    uint64_t from = page_floor(buffer, offset);
    uint64_t to = page_ceil(buffer, end);

    c->page = likely_page(c, to - from);
    pleat_status st = commit(c, from, to);
    if (st == PLEAT_OK && end > buffer->bytes) {
        buffer->bytes = end;
    }
    return st;
}

static pleat_status decommit_pages(const change *c, uint64_t offset, uint64_t end)
{
    const pl_buffer *buffer = c->buffer;
    bool is_end = end >= buffer->bytes;
    uint64_t to = is_end ? page_ceil(buffer, end) : page_floor(buffer, end);

    return decommit(c, page_ceil(buffer, offset), to);
}

static pleat_status close(const change *c)
{
    pleat_status st = decommit(c, 0, c->buffer->most_bytes);

    if (st == PLEAT_OK) {
        pl_buffer_close(c->space, c->buffer);
        pl_hollow_note(c->space, c->buffer->area);
    }
    return st;
}

static pleat_status change_locked(change *c, const pl_buffer_change *wanted)
{
    pleat_devptr base = c->seg->range.base;
    uint64_t most = c->buffer->most_bytes;

    if (wanted->bytes > most || wanted->offset > most - wanted->bytes) {
        return PLEAT_EINVAL;
    }
    switch (wanted->what) {
    case PL_BUFFER_RESIZE:
        return resize(c, wanted->bytes);
    case PL_BUFFER_COMMIT:
        return commit_pages(c, wanted->offset, wanted->offset + wanted->bytes);
    case PL_BUFFER_DECOMMIT:
        return decommit_pages(c, wanted->offset, wanted->offset + wanted->bytes);
    case PL_BUFFER_RECORD:
        return record(c, base, base + most);
    case PL_BUFFER_CLOSE:
        break;
    }
    return close(c);
}

/* The call holds the stream's lane. */
static pleat_status occupy_and_change(pl_space *space, const pl_buffer_change *wanted,
                                      pl_lane *plain, const pl_capture_info *info)
{
    pl_capture_info now = *info;
    pleat_status st = pl_capture_see(space, plain, &now, NULL);
    pl_buffer *buffer = st == PLEAT_OK ? occupy(space, wanted->base) : NULL;

    if (buffer == NULL) {
        return st == PLEAT_OK ? PLEAT_EFOREIGN : st;
    }
    change c = {
        .space = space, .buffer = buffer, .seg = pl_buffer_segment(buffer), .plain = plain
    };
    st = change_locked(&c, wanted);
    vacate(space, buffer);
    if (wanted->what == PL_BUFFER_CLOSE) {
        pl_hollow_let_go(space, space->places.n_buffers + PL_HOLLOW_KEPT, PL_HOLLOW_SOME);
    }
    pl_tick_record_if_wanted(space, plain);
    return st;
}

pleat_status pl_pleat_buffer_change(pl_allocator *a, const pl_buffer_change *wanted,
                                    pl_stream *stream)
{
    pl_space *space = (pl_space *)a;
    pl_capture_info info;
    pl_lane *plain;

    pleat_status st = pl_capture_ask_about(space, stream, NULL, &info);
    if (st != PLEAT_OK || (info.is_capturing && wanted->what != PL_BUFFER_RECORD)) {
        return st != PLEAT_OK ? st : PLEAT_ECAPTURE;
    }
    pl_space_enter(space);
    bool is_inside = pl_capturers_enter(space, info.is_capturing);
    st = pl_lanes_of(space, stream, false, &plain);
    if (st == PLEAT_OK) {
        plain->n_refs++;
        st = occupy_and_change(space, wanted, plain, &info);
        plain->n_refs--;
    }
    pl_capturers_leave(space, is_inside);
    pl_space_leave(space);
    return st;
}

pleat_status pl_pleat_buffer_query(pl_allocator *a, pleat_devptr ptr, pleat_buffer_info *out)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    const pl_buffer *buffer = pl_buffer_at(space, ptr);
    if (buffer != NULL && ptr - pl_buffer_segment(buffer)->range.base >= buffer->most_bytes) {
        buffer = NULL;
    }
    if (buffer != NULL) {
        *out = (pleat_buffer_info){
            .base = pl_buffer_segment(buffer)->range.base,
            .most_bytes = buffer->most_bytes,
            .bytes = buffer->bytes,
            .page_bytes = buffer->page_bytes,
            .committed_bytes = buffer->committed_bytes,
            .n_runs = buffer->n_runs,
            .device = pl_device_ordinal(space->dev),
            .tag = pl_keeper_tag(buffer->area),
            .is_asleep = pl_keeper_is_asleep(buffer->area),
        };
    }
    pl_space_leave(space);
    return buffer != NULL ? PLEAT_OK : PLEAT_EFOREIGN;
}

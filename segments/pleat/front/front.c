/* front.c - see front.h. Guarded by the space's lock. The contents of a front are touched only
 * while the front is stopped. */
#include "segments/pleat/front/front.h"

#include <sched.h>

#include "segments/pleat/space/heap.h"
#include "segments/pleat/space/ops.h"
#include "segments/pleat/space/run.h"
#include "vmm/base/cancel.h"

/* ---- stopping -------------------------------------------------------------------------------- */

static _Thread_local char own; /* its address stands for the thread */

/* An owner stays inside for some dozen instructions, unless the system takes its processor away. */
static void wait_until_out(const pl_front *front)
{
    enum { N_YIELDS = 100, PAUSE_NS = 20000 };

    for (unsigned n = 0; atomic_load_explicit(&front->in_use, memory_order_acquire) != 0; n++) {
        if (n < N_YIELDS) {
            (void)sched_yield();
        } else {
            pl_sleep_ns(PAUSE_NS);
        }
    }
}

/* From now until pl_fronts_go no owner is inside a front. The calling thread is in no front. Calls
 * nest, also calls of several threads while the lock is dropped. */
void pl_fronts_stop(pl_space *space)
{
    bool any = false;

    space->n_stops++;
    for (pl_front *f = space->fronts; f != NULL; f = f->next) {
        atomic_store_explicit(&f->is_stopped, 1, memory_order_relaxed);
        any = any || f->owner != &own;
    }
    if (!any) {
        return;
    }
    pl_barrier_heavy();
    for (const pl_front *f = space->fronts; f != NULL; f = f->next) {
        wait_until_out(f);
    }
}

void pl_fronts_go(pl_space *space)
{
    if (--space->n_stops > 0) {
        return;
    }
    for (pl_front *f = space->fronts; f != NULL; f = f->next) {
        atomic_store_explicit(&f->is_stopped, 0, memory_order_release);
    }
}

/* ---- a live block ends ----------------------------------------------------------------------- */

void pl_live_leave(pl_space *space, pl_block *b)
{
    bool is_page = b->segment->area->buffer != NULL; /* such blocks are in no map */

    space->n_calls++;
    if (!is_page) {
        pl_ptrmap_remove(&space->blocks.live, b->base);
    }
    pl_usages_end(&space->blocks.usages, is_page ? PLEAT_SIZES_LARGE : pl_stats_pool(b->bytes),
                  b->bytes, b->requested);
    pl_space_tell_block(space, PL_ACTION_FREE_REQUESTED, b);
    pl_heap_end_live(b);
    if (__builtin_expect(b->segment->is_private, false)) {
        pl_segment_own(b->segment, b->base, pl_block_end(b));
    }
    pl_space_lane_at(space, b->lane)->n_live--;
}

/* ---- emptying -------------------------------------------------------------------------------- */

static void free_kept(pl_space *space, pl_lane *lane, pl_block *b)
{
    b->queue_next = NULL;
    b->holder = NULL;
    pl_lane_note_free(lane, b->bytes, space->n_calls);
    lane->n_live--;
    b->segment->area->n_used--;
    pl_ptrmap_remove(&space->blocks.live, b->base);
    pl_run_free(space, b, lane->number, pl_lane_stamp(space, lane));
    pl_lock_touch(1);
}

static void empty_magazine(pl_space *space, pl_lane *lane, pl_magazine *m)
{
    while (m->top != NULL) {
        pl_block *b = m->top;
        m->top = b->queue_next;
        free_kept(space, lane, b);
    }
    m->n = 0;
}

static void count_all_freed(pl_space *space, pl_front *front)
{
    uint64_t n = atomic_load_explicit(&front->n_freed, memory_order_relaxed);

    space->blocks.usages.n[PLEAT_SIZES_SMALL].freed += n;
    space->blocks.usages.bytes[PLEAT_SIZES_SMALL].freed += front->freed_bytes;
    space->blocks.usages.requested[PLEAT_SIZES_SMALL].freed += front->freed_requested;
    space->n_calls += 2 * n; /* most were asked for again */
    atomic_store_explicit(&front->n_freed, 0, memory_order_relaxed);
    front->freed_bytes = 0;
    front->freed_requested = 0;
}

static void give_all_room(pl_space *space, pl_front *front)
{
    pl_usages_give_room(&space->blocks.usages, front, front->room_n, front->room_bytes,
                        front->room_requested);
    atomic_store_explicit(&front->has_room, false, memory_order_relaxed);
}

static void count_late(pl_space *space, pl_front *front)
{
    for (; front->n_counted < pl_front_n_late(front); front->n_counted++) {
        unsigned i = (front->first_late + front->n_counted) % PL_FRONT_LATE;
        const pl_block *b = front->late[i].block;
        pl_usages_end(&space->blocks.usages, pl_stats_pool(b->bytes), b->bytes, b->requested);
        pl_lock_touch(1);
    }
}

static void free_late(pl_space *space, pl_front *front, pl_lane *lane)
{
    for (uint32_t n = pl_front_n_late(front); n > 0; n--) {
        bool is_counted;
        space->n_calls++;
        free_kept(space, lane, pl_front_take_late(front, n, &is_counted).block);
    }
}

static void empty(pl_space *space, pl_front *front)
{
    pl_lane *lane = pl_space_lane_at(space, front->lane);

    count_all_freed(space, front);
    count_late(space, front);
    give_all_room(space, front);
    free_late(space, front, lane);
    for (unsigned i = 0; i < PL_FRONT_BINS / 64; i++) {
        for (; front->filled[i] != 0; front->filled[i] &= front->filled[i] - 1) {
            unsigned bin = i * 64 + (unsigned)__builtin_ctzll(front->filled[i]);
            empty_magazine(space, lane, &front->magazines[bin]);
        }
    }
    atomic_store_explicit(&front->n_kept, 0, memory_order_relaxed);
    front->bytes = 0;
}

bool pl_fronts_have_blocks(const pl_space *space)
{
    bool any = false;

    for (const pl_front *f = space->fronts; f != NULL && !any; f = f->next) {
        any = atomic_load_explicit(&f->n_kept, memory_order_relaxed) > 0 || pl_front_n_late(f) > 0;
    }
    return any;
}

static bool has_anything(const pl_front *front)
{
    return atomic_load_explicit(&front->n_kept, memory_order_relaxed) > 0 ||
           pl_front_n_late(front) > 0 ||
           atomic_load_explicit(&front->n_freed, memory_order_relaxed) > 0 || front->room_n != 0 ||
           front->room_bytes != 0 || front->room_requested != 0;
}

/* The first front that has blocks or counts. */
static pl_front *next_full(const pl_space *space)
{
    pl_front *f = space->fronts;

    while (f != NULL && !has_anything(f)) {
        f = f->next;
    }
    return f;
}

/* Empty one front a hold: the lock is dropped in between. All fronts stay stopped. Fronts bound
 * meanwhile are stopped from the start. */
void pl_fronts_empty_all(pl_space *space)
{
    pl_lock_assert(&space->lock);
    pl_fronts_stop(space);
    for (pl_front *f; (f = next_full(space)) != NULL;) {
        empty(space, f);
        if (f->next != NULL) {
            pl_space_breathe(space);
        }
    }
    pl_fronts_go(space);
}

void pl_fronts_count(pl_space *space)
{
    if (space->fronts != NULL) {
        pl_fronts_empty_all(space);
    }
}

/* ---- room below the peaks -------------------------------------------------------------------- */

pl_front *pl_fronts_own(pl_front *from, uint32_t lane)
{
    while (from != NULL && (from->owner != &own || (lane != 0 && from->lane != lane))) {
        from = from->next;
    }
    return from;
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

static bool lend(pl_space *space, pl_front *front, int64_t bytes, int64_t requested)
{
    bool any = front->room_n > 0 || front->room_bytes > 0 || front->room_requested > 0;

    pl_usages_give_room(&space->blocks.usages, front, at_most(1, front->room_n),
                        at_most(bytes, front->room_bytes),
                        at_most(requested, front->room_requested));
    return any;
}

/* Count late blocks, and let all fronts but one give their room. While memory still grows, no front
 * has any room, so the fronts are asked before threads are stopped. */
static void collect(pl_space *space, const pl_front *except)
{
    bool any = false;

    for (const pl_front *f = space->fronts; f != NULL; f = f->next) {
        any = any || pl_front_n_late(f) > f->n_counted ||
              (f != except && atomic_load_explicit(&f->has_room, memory_order_relaxed));
    }
    if (!any) {
        return;
    }
    pl_fronts_stop(space);
    for (pl_front *f = space->fronts; f != NULL; f = f->next) {
        count_late(space, f);
        if (f != except) {
            give_all_room(space, f);
        }
    }
    pl_fronts_go(space);
}

void pl_fronts_begin(pl_space *space, unsigned pool, size_t bytes, size_t requested)
{
    pl_front *front = pl_fronts_own(space->fronts, 0);

    if (front != NULL && lend(space, front, (int64_t)bytes, (int64_t)requested) &&
        pl_usages_begin_below_peak(&space->blocks.usages, pool, bytes, requested)) {
        return;
    }
    collect(space, NULL);
    if (!pl_usages_begin_below_peak(&space->blocks.usages, pool, bytes, requested)) {
        pl_usages_begin(&space->blocks.usages, pool, bytes, requested);
    }
}

static int64_t lacking(int64_t n, int64_t room)
{
    return n > room ? n - room : 0;
}

static bool has_room(const pl_usage group[PLEAT_N_SIZES], int64_t n)
{
    return group[PLEAT_SIZES_ALL].room >= n && group[PLEAT_SIZES_SMALL].room >= n;
}

bool pl_fronts_serve(pl_space *space, pl_front *front, size_t bytes, pleat_devptr *out)
{
    if (!pl_front_has(front, bytes)) {
        return false;
    }
    const pl_block *top = front->magazines[pl_front_bin(bytes)].top;
    int64_t n = lacking(1, front->room_n);
    int64_t n_bytes = lacking((int64_t)top->bytes, front->room_bytes);
    int64_t n_requested = lacking((int64_t)bytes, front->room_requested);
    if (!has_room(space->blocks.usages.n, n) || !has_room(space->blocks.usages.bytes, n_bytes) ||
        !has_room(space->blocks.usages.requested, n_requested)) {
        collect(space, front);
    }
    pl_usages_take_room(&space->blocks.usages, front, n, n_bytes, n_requested);
    return pl_front_alloc(front, bytes, out);
}

/* ---- binding --------------------------------------------------------------------------------- */

static void unbind(pl_space *space, pl_front **at)
{
    pl_front *front = *at;

    empty(space, front);
    *at = front->next;
    space->n_fronts--;
    pl_space_lane_at(space, front->lane)->n_refs--;
    front->allocator = NULL;
    /* Last: now the owner may bind the front to another allocator, which sets is_stopped. */
    atomic_store_explicit(&front->key, 0, memory_order_release);
}

void pl_fronts_unbind(pl_space *space, uint32_t lane)
{
    if (space->fronts == NULL) {
        return;
    }
    pl_fronts_stop(space);
    pl_fronts_empty_all(space); /* one front a hold; no new blocks come */
    for (pl_front **at = &space->fronts; *at != NULL;) {
        if (lane == 0 || (*at)->lane == lane) {
            unbind(space, at);
        } else {
            at = &(*at)->next;
        }
    }
    pl_fronts_go(space);
}

void pl_pleat_front_unbind(pl_allocator *a, pl_front *front)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_front **at = &space->fronts;
    while (*at != NULL && *at != front) {
        at = &(*at)->next;
    }
    if (*at != NULL) { /* the caller owns the front, and is outside */
        unbind(space, at);
    }
    pl_space_leave(space);
}

/* Only where a call on the stream asks the driver nothing. */
static bool may_bind(const pl_space *space, const pl_lane *lane, const pl_stream *stream)
{
    bool is_zero = pl_stream_is_legacy(stream) && !pl_green_is_asked_about(space->dev);
    bool is_told = is_zero || lane->is_idle ||
                   (space->options.capture == PL_CAPTURE_TOLD && pl_stream_is_told(stream));

    return space->options.front == PL_FRONT_ON && !space->is_rounding && is_told &&
           space->n_fronts < PL_MOST_FRONTS && space->flights.torn.segment == NULL &&
           !space->flights.is_compacting && space->captures.n_capturers == 0 &&
           atomic_load_explicit(&space->captures.n_expected, memory_order_relaxed) == 0;
}

bool pl_pleat_front_bind(pl_allocator *a, pl_front *front, pl_stream *stream, uint64_t key)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_lane *lane = pl_space_lane_of(space, stream, false);
    bool is_bound = lane != NULL && lane->capture == NULL && !lane->is_gone &&
                    may_bind(space, lane, stream);
    if (is_bound) {
        for (unsigned bin = 0; bin < PL_FRONT_BINS; bin++) {
            front->magazines[bin] = (pl_magazine){ .credit = PL_CREDIT_AT_FIRST };
        }
        front->allocator = a;
        front->owner = &own;
        front->lane = lane->number;
        front->alloc = pl_front_alloc;
        front->free = pl_front_free;
        front->first_late = 0;
        front->n_counted = 0;
        front->next = space->fronts;
        space->fronts = front;
        space->n_fronts++;
        lane->n_refs++;
        atomic_store_explicit(&front->is_stopped, space->n_stops > 0, memory_order_relaxed);
        atomic_store_explicit(&front->key, key, memory_order_release);
    }
    pl_space_leave(space);
    return is_bound;
}

void pl_fronts_discard_tables(pl_space *space)
{
    pl_fronts_stop(space);
    pl_ptrmap_discard(&space->blocks.live, &space->meta);
    pl_fronts_go(space);
}

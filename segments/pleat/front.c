/* front.c - see front.h. Guarded by the space's lock and, for what a front has, by stopping it. */
#include "segments/pleat/front.h"

#include <sched.h>

#include "segments/pleat/run.h"
#include "vmm/base/cancel.h"

/* ---- the owner's side ------------------------------------------------------------------------ */

/* A magazine pays if of so many blocks that it takes one is asked for again: each that it takes
 * costs a credit, each that it gives earns so many. One that has none takes no more, until requests
 * of its size have been missed as often. */
enum { CREDIT_OF_A_HIT = 8, CREDIT_AT_FIRST = 8, MOST_CREDIT = 64 };
enum { N_EXACT_BINS = 128 };

/* Sizes up to 64 KiB have a bin for each rounded size, the others share the rest. */
static inline unsigned bin_of(size_t bytes)
{
    uint32_t units = (uint32_t)((bytes + PL_BLOCK_QUANTUM - 1) / PL_BLOCK_QUANTUM);

    return units < N_EXACT_BINS
               ? units
               : N_EXACT_BINS + (units * 0x9E3779B1U >> 16) % (PL_FRONT_BINS - N_EXACT_BINS);
}

static inline void count_kept(pl_front *front, uint32_t n, size_t bytes)
{
    uint32_t n_kept = atomic_load_explicit(&front->n_kept, memory_order_relaxed);

    atomic_store_explicit(&front->n_kept, n_kept + n, memory_order_relaxed);
    front->bytes += bytes;
}

static inline void count_hit(pl_front *front, const pl_block *b)
{
    uint64_t n_hits = atomic_load_explicit(&front->n_hits, memory_order_relaxed);

    atomic_store_explicit(&front->n_hits, n_hits + 1, memory_order_relaxed);
    front->hit_bytes += b->bytes;
    front->hit_requested += b->requested;
}

static bool front_alloc(pl_front *front, size_t bytes, pleat_devptr *out)
{
    unsigned bin = bin_of(bytes);
    pl_magazine *m = &front->magazines[bin];

    if (m->bytes != bytes) {
        return false;
    }
    pl_block *b = m->top;
    if (b == NULL) {
        m->credit = (int8_t)(m->credit + (m->credit < CREDIT_AT_FIRST));
        return false;
    }
    m->top = b->queue_next;
    if (--m->n == 0) {
        front->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    }
    m->credit = (int8_t)(m->credit + (m->credit < MOST_CREDIT ? CREDIT_OF_A_HIT : 0));
    b->queue_next = NULL;
    b->kept_in = NULL;
    count_kept(front, UINT32_MAX, (size_t)0 - b->bytes);
    count_hit(front, b);
    *out = b->base;
    return true;
}

/* May be any block, or have been one: the map was read without the lock. If it has this base and is
 * live it is the block at ptr, and if that is the caller's to free, nobody changes it now. */
static inline bool may_keep(const pl_front *front, const pl_block *b, pleat_devptr ptr)
{
    return b != NULL && b->base == ptr && b->state == PL_BLOCK_LIVE && b->lane == front->lane &&
           b->uses == NULL && b->kept_in == NULL && b->bytes <= PL_FRONT_MOST_BYTES &&
           !b->segment->is_private &&
           atomic_load_explicit(&front->n_kept, memory_order_relaxed) < PL_FRONT_BLOCKS &&
           front->bytes + b->bytes <= PL_FRONT_BYTES;
}

static bool front_free(pl_front *front, pleat_devptr ptr)
{
    const pl_space *space = (const pl_space *)front->allocator;
    pl_block *b = pl_ptrmap_peek(&space->live, ptr);

    if (!may_keep(front, b, ptr)) {
        return false;
    }
    unsigned bin = bin_of(b->requested);
    pl_magazine *m = &front->magazines[bin];
    if (m->bytes != b->requested) {
        if (m->n > 0) {
            return false;
        }
        m->bytes = (uint32_t)b->requested;
        m->credit = CREDIT_AT_FIRST;
    }
    if (m->n == PL_FRONT_DEPTH || m->credit <= 0) {
        return false;
    }
    m->credit--;
    m->n++;
    front->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    b->queue_next = m->top;
    b->kept_in = front;
    m->top = b;
    count_kept(front, 1, b->bytes);
    return true;
}

/* ---- stopping -------------------------------------------------------------------------------- */

static _Thread_local char own; /* its address stands for the thread */

/* An owner is inside for some dozen instructions, unless its processor was taken from it. */
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

/* From now until `go` no owner is inside. The calling thread's front is not in use. */
static void stop(pl_space *space)
{
    bool any = false;

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

static void go(pl_space *space)
{
    for (pl_front *f = space->fronts; f != NULL; f = f->next) {
        atomic_store_explicit(&f->is_stopped, 0, memory_order_release);
    }
}

/* ---- emptying -------------------------------------------------------------------------------- */

static void free_kept(pl_space *space, pl_lane *lane, pl_block *b)
{
    b->queue_next = NULL;
    b->kept_in = NULL;
    lane->n_frees++;
    lane->unticked_bytes += b->bytes;
    lane->n_lifetime += lane->n_lifetime < PL_LANE_YOUNG;
    lane->n_live--;
    b->segment->area->n_used--;
    pl_ptrmap_remove(&space->live, b->base);
    pl_usages_end(&space->usages, PLEAT_POOL_SMALL, b->bytes, b->requested);
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

static void count_hits(pl_space *space, pl_front *front)
{
    uint64_t n = atomic_load_explicit(&front->n_hits, memory_order_relaxed);

    space->usages.n[PLEAT_POOL_SMALL].freed += n;
    space->usages.bytes[PLEAT_POOL_SMALL].freed += front->hit_bytes;
    space->usages.requested[PLEAT_POOL_SMALL].freed += front->hit_requested;
    space->budget.n_events += 2 * n;
    atomic_store_explicit(&front->n_hits, 0, memory_order_relaxed);
    front->hit_bytes = 0;
    front->hit_requested = 0;
}

static void empty(pl_space *space, pl_front *front)
{
    pl_lane *lane = pl_space_lane_at(space, front->lane);

    count_hits(space, front);
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
        any = atomic_load_explicit(&f->n_kept, memory_order_relaxed) > 0;
    }
    return any;
}

void pl_fronts_empty_all(pl_space *space)
{
    pl_lock_assert(&space->lock);
    stop(space);
    for (pl_front *f = space->fronts; f != NULL; f = f->next) {
        empty(space, f);
    }
    go(space);
}

bool pl_fronts_yield(pl_space *space)
{
    bool any = pl_fronts_empty(space);

    if (space->fronts != NULL && pl_space_is_tight(space)) {
        pl_fronts_unbind(space, 0);
    }
    return any;
}

void pl_fronts_count(pl_space *space)
{
    bool any = false;

    for (const pl_front *f = space->fronts; f != NULL && !any; f = f->next) {
        any = atomic_load_explicit(&f->n_kept, memory_order_relaxed) > 0 ||
              atomic_load_explicit(&f->n_hits, memory_order_relaxed) > 0;
    }
    if (any) {
        pl_fronts_empty_all(space);
    }
}

/* ---- binding --------------------------------------------------------------------------------- */

static void unbind(pl_space *space, pl_front **at)
{
    pl_front *front = *at;

    empty(space, front);
    *at = front->next;
    space->n_fronts--;
    pl_space_lane_at(space, front->lane)->n_refs--;
    atomic_store_explicit(&front->key, 0, memory_order_relaxed);
    front->allocator = NULL;
    atomic_store_explicit(&front->is_stopped, 0, memory_order_release);
}

void pl_fronts_unbind(pl_space *space, uint32_t lane)
{
    if (space->fronts == NULL) {
        return;
    }
    stop(space);
    for (pl_front **at = &space->fronts; *at != NULL;) {
        if (lane == 0 || (*at)->lane == lane) {
            unbind(space, at);
        } else {
            at = &(*at)->next;
        }
    }
    go(space);
}

void pl_pleat_front_unbind(pl_allocator *a, pl_front *front)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    pl_front **at = &space->fronts;
    while (*at != NULL && *at != front) {
        at = &(*at)->next;
    }
    if (*at != NULL) { /* the owner's: it is not inside */
        unbind(space, at);
    }
    pl_lock_release(&space->lock);
}

/* Only where a call on the stream asks the driver nothing. */
static bool may_bind(const pl_space *space, const pl_stream *stream)
{
    bool is_told = pl_stream_is_legacy(stream) ||
                   (space->options.capture == PL_CAPTURE_TOLD && pl_stream_is_told(stream));

    return space->options.front == PL_FRONT_ON && is_told && space->n_fronts < PL_MOST_FRONTS &&
           space->torn.segment == NULL && !space->is_compacting && space->n_capturers == 0 &&
           !pl_space_is_tight(space) &&
           atomic_load_explicit(&space->n_expected, memory_order_relaxed) == 0;
}

bool pl_pleat_front_bind(pl_allocator *a, pl_front *front, pl_stream *stream, uint64_t key)
{
    pl_space *space = (pl_space *)a;
    uint32_t i = pl_lane_number(stream, false) - 1;

    pl_lock_acquire(&space->lock);
    pl_lane *lane = i < space->n_lane_rooms ? space->lanes[i] : NULL;
    bool is_bound = lane != NULL && lane->capture == NULL && !lane->is_gone &&
                    may_bind(space, stream);
    if (is_bound) {
        front->allocator = a;
        front->owner = &own;
        front->lane = lane->number;
        front->alloc = front_alloc;
        front->free = front_free;
        front->next = space->fronts;
        space->fronts = front;
        space->n_fronts++;
        lane->n_refs++;
        atomic_store_explicit(&front->key, key, memory_order_release);
    }
    pl_lock_release(&space->lock);
    return is_bound;
}

void pl_fronts_discard_tables(pl_space *space)
{
    stop(space);
    pl_ptrmap_discard(&space->live, &space->host);
    go(space);
}

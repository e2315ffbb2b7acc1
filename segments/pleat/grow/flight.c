/* flight.c - see flight.h: a flight's work under the lock, before and after its driver calls. */
#include "segments/pleat/grow/flight.h"

#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/run.h"

/* ---- the place ----------------------------------------------------------------------------- */

/* Reserve host memory for the steps that cannot fail later. Memory reserved for the request may be
 * used up, as the lock was dropped since. */
static pleat_status prepare(pl_space *space, pl_flight *f)
{
    pl_segment *seg = f->place.segment;
    pleat_devptr end = f->place.at + f->bytes + f->n_extra * space->granule_bytes;
    pleat_status st = pl_block_store_reserve(&space->blocks.store, 5);

    if (st == PLEAT_OK) {
        st = pl_ptrmap_reserve(&space->blocks.live, &space->meta, space->flights.n + 1);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    pl_segment_use_tables(&space->meta, seg, pl_segment_ceil(seg, end));
    f->spare = pl_block_store_get(&space->blocks.store);
    return PLEAT_OK;
}

/* Can the place still use b from `at` on? Others may have taken b while the lock was dropped. */
static bool is_still_there(const pl_flight *f, const pl_block *b, pleat_devptr at)
{
    if (b->state == PL_BLOCK_HOLE) {
        return pl_segment_floor(f->place.segment, at) == at;
    }
    return pl_run_may_use(b, f->usable);
}

static void carve_next(pl_space *space, pl_flight *f, pl_block *b, pleat_devptr at)
{
    pl_segment *seg = f->place.segment;
    pleat_devptr end = f->place.at + f->bytes;
    bool is_hole = b->state == PL_BLOCK_HOLE;

    if (is_hole) {
        end = pl_segment_ceil(seg, end) + f->n_extra * space->granule_bytes;
    }
    end = pl_block_end(b) < end ? pl_block_end(b) : end;
    size_t n_need = is_hole ? (size_t)((end - at) >> seg->granule_log2) : 0;
    size_t n_under = is_hole ? n_need : pl_segment_count_vacant(seg, at, end);
    b = pl_carve_out(space, b, at, end);
    f->first = f->first != NULL ? f->first : b;
    f->last = b;
    f->need += n_need;
    f->n_under += n_under;
    space->chunks.n_pinned += n_need;
    space->chunks.n_flying += n_under;
}

pleat_status pl_flight_reserve(pl_space *space, pl_flight *f)
{
    pleat_devptr end = f->place.at + f->bytes;
    pleat_devptr at = f->place.at;
    pleat_status st = prepare(space, f);

    if (st != PLEAT_OK) {
        return st;
    }
    f->is_quiet = true;
    pl_space_take_off(space, &f->flying);
    f->pace->alone++; /* the flight's own take-off does not count */
    for (pl_block *b = f->place.first; at < end; b = f->last->next) {
        st = is_still_there(f, b, at) ? pl_block_store_reserve(&space->blocks.store, 2)
                                      : PLEAT_EPENDING;
        pl_assert(st != PLEAT_EPENDING || f->pace->has_breathed);
        if (st != PLEAT_OK) {
            pl_flight_rollback(space, f);
            return st;
        }
        carve_next(space, f, b, at);
        at = pl_block_end(f->last);
        pl_pace_step(space, f->pace, 1);
    }
    return PLEAT_OK;
}

/* ---- chunks -------------------------------------------------------------------------------- */

static size_t free_granules(const pl_block *hole)
{
    return hole->was != PL_BLOCK_HOLE ? 0
                                      : pl_segment_granules_of(hole->segment, hole) - hole->n_given;
}

bool pl_flight_next_slot(const pl_flight *f, pl_block **hole, unsigned order, size_t *g)
{
    pl_block *b = *hole;

    while (free_granules(b) < (size_t)1 << order) {
        if (b == f->last) {
            return false;
        }
        b = b->next;
        pl_lock_touch(1);
    }
    *g = pl_segment_granule(b->segment, b->base) + b->n_given;
    b->n_given += (uint64_t)1 << order;
    *hole = b;
    return true;
}

/* Largest chunks first: then most chunks find room. */
void pl_flight_add_idle(pl_space *space, pl_flight *f)
{
    for (unsigned order = f->is_single ? 1 : PL_N_ORDERS; order-- > f->least_order;) {
        pl_block *hole = f->first;
        size_t n = (size_t)1 << order;
        size_t g;
        while (space->chunks.idle[order].n > 0 && pl_flight_missing(f) >= n &&
               pl_flight_next_slot(f, &hole, order, &g)) {
            pl_segment_put_chunk(hole->segment, g, pl_space_pop_idle(space, order), order);
            f->n_have += n;
            f->has_large = f->has_large || order > 0;
            pl_pace_step(space, f->pace, 1);
        }
    }
}

void pl_flight_add_created(pl_space *space, pl_flight *f, size_t most)
{
    size_t n = pl_flight_missing(f);

    n = n < most ? n : most;
    f->n_create += n;
    space->chunks.n_creating += n;
}

/* How many loose granules in a row from g on the lane may use, at most n. b covers g's start. */
static size_t usable_granules(const pl_segment *seg, const pl_block *b, size_t g, size_t n,
                              uint32_t lane)
{
    pleat_devptr low = pl_segment_address(seg, g);
    pleat_devptr want = pl_segment_address(seg, g + n);
    pleat_devptr end = low;

    for (; b != NULL && end < want && pl_run_may_use(b, lane); b = b->next) {
        pl_lock_touch(1);
        end = pl_block_end(b);
    }
    end = end < want ? end : want;
    n = end > low ? (size_t)((end - low) >> seg->granule_log2) : 0;
    return seg->is_private || seg->is_opening ? pl_segment_loose_run(seg, g, n) : n;
}

/* Count the room for each order. Chunks are placed from the largest to the smallest, and sizes are
 * powers of two. So chunks find room together if and only if, for each order k, chunks of order k
 * and above find room in units of order k. */
static void count_room(pl_space *space, pl_flight *f)
{
    for (const pl_block *b = f->first; b != NULL; b = b == f->last ? NULL : b->next) {
        for (unsigned k = 0; k < PL_N_ORDERS; k++) {
            f->room[k] += free_granules(b) >> k;
        }
        pl_pace_step(space, f->pace, 1);
    }
    f->knows_room = true;
}

static bool has_room(const pl_flight *f, unsigned order)
{
    bool has = pl_flight_missing(f) >= (size_t)1 << order && order >= f->least_order &&
               (order == 0 || !f->is_single);

    for (unsigned k = 0; k <= order && has; k++) {
        has = f->room[k] >= (size_t)1 << (order - k);
    }
    return has;
}

static void use_room(pl_flight *f, unsigned order)
{
    for (unsigned k = 0; k <= order; k++) {
        f->room[k] -= (size_t)1 << (order - k);
    }
}

enum { CHUNKS_AT_ONCE = 256 };

/* Blocks would pin a page's large chunk by parts: see recast.h. */
static bool is_too_large(const pl_flight *f, const pl_segment *seg, unsigned order)
{
    return seg->area->buffer != NULL && order > f->page_order;
}

/* A chunk of the order could be taken, but is too large, or finds no room. */
static void leave(pl_flight *f, const pl_segment *seg, unsigned order)
{
    if (is_too_large(f, seg, order)) {
        f->has_too_large = true;
    } else if (!f->is_single && (f->left_order == 0 || order < f->left_order)) {
        f->left_order = order;
    }
}

/* Count the leading chunks of the usable granules [g, g + n) that find room in the place: at most
 * CHUNKS_AT_ONCE chunks, each wholly in [g, g + n). A chunk begins with g. Returns their granules;
 * *n_chunks: the number of chunks. */
static size_t fitting_granules(pl_flight *f, const pl_segment *seg, size_t g, size_t n,
                               size_t *n_chunks)
{
    size_t n_have = f->n_have;
    size_t from = g;
    size_t end = g + n;
    size_t n_looks = CHUNKS_AT_ONCE;

    *n_chunks = 0;
    while (n_looks-- > 0 && g < end && pl_segment_chunk_to(seg, g) <= end &&
           has_room(f, seg->orders[g]) && !is_too_large(f, seg, seg->orders[g])) {
        use_room(f, seg->orders[g]);
        f->has_large = f->has_large || seg->orders[g] > 0;
        f->n_have += (size_t)1 << seg->orders[g];
        g = pl_segment_chunk_to(seg, g);
        (*n_chunks)++;
        pl_lock_touch(1);
    }
    f->n_have = n_have; /* take_run counts them */
    if (g == from && pl_segment_chunk_to(seg, g) <= end) {
        leave(f, seg, seg->orders[g]);
    }
    return g - from;
}

static void take_run(pl_space *space, pl_flight *f, pl_block *b, size_t g, size_t n)
{
    pl_segment *seg = b->segment;
    pleat_devptr at = pl_segment_address(seg, g);
    pleat_devptr end = pl_segment_address(seg, g + n);

    f->n_have += n;
    for (;;) {
        pleat_devptr stop = pl_block_end(b) < end ? pl_block_end(b) : end;
        b = pl_carve_take(space, b, at, stop);
        f->is_quiet = f->is_quiet && b->lane == PL_LANE_SETTLED;
        pl_queue_push(&f->victims, b);
        if (stop == end) {
            break;
        }
        at = stop;
        b = b->next;
    }
}

static pleat_status take_in_segment(pl_space *space, pl_flight *f, pl_segment *seg)
{
    size_t g = pl_segment_next_chunk(seg, 0);

    while (g != SIZE_MAX && pl_flight_missing(f) > 0 && seg != space->flights.torn.segment) {
        pleat_status st = pl_block_store_reserve(&space->blocks.store, 4);
        if (st != PLEAT_OK) {
            return st;
        }
        pl_block *b = pl_segment_find(seg, pl_segment_address(seg, g));
        size_t next = pl_segment_chunk_to(seg, g);
        size_t want = pl_flight_missing(f) > next - g ? pl_flight_missing(f) : next - g;
        size_t n = usable_granules(seg, b, g, want, f->usable);
        size_t n_chunks = n;
        if (seg->has_large) {
            n = fitting_granules(f, seg, g, n, &n_chunks);
        }
        if (n > 0) {
            take_run(space, f, b, g, n);
            f->n_taken += n_chunks;
            next = g + n;
        }
        pl_pace_step(space, f->pace, seg->has_large ? 1 + n_chunks : 1);
        g = pl_segment_next_chunk(seg, next);
    }
    return PLEAT_OK;
}

pleat_status pl_flight_add_taken(pl_space *space, pl_flight *f)
{
    pleat_status st = PLEAT_OK;

    space->places.n_walking++;
    pl_segment *seg = pl_space_lowest(space);
    for (; seg != NULL && st == PLEAT_OK; seg = pl_segment_above(seg)) {
        pl_pace_step(space, f->pace, 1);
        if (seg->has_large && !f->knows_room) {
            count_room(space, f);
        }
        bool is_worth = seg->n_loose > 0 && (seg->has_large || f->least_order == 0);
        st = is_worth ? take_in_segment(space, f, seg) : PLEAT_OK;
    }
    space->places.n_walking--;
    return st;
}

/* ---- commit and rollback ------------------------------------------------------------------- */

/* Remove the first victim, joined with victims right behind it: several free blocks, all settled or
 * of the flight's lane, may share a granule. */
static pl_block *pop_victims(pl_space *space, pl_flight *f)
{
    pl_block *b = f->victims.first;

    pl_queue_remove(&f->victims, b);
    while (f->victims.first != NULL && f->victims.first == b->next) {
        pl_block *next = b->next;
        pl_queue_remove(&f->victims, next);
        b->lane = next->lane != PL_LANE_SETTLED ? next->lane : b->lane;
        b->stamp = next->stamp > b->stamp ? next->stamp : b->stamp;
        b->is_strange = b->is_strange || next->is_strange;
        pl_segment_absorb(b->segment, &space->blocks.store, b, next);
        pl_lock_touch(1);
    }
    return b;
}

static void retire_victims(pl_space *space, pl_flight *f)
{
    while (f->victims.first != NULL) {
        pl_block *b = pop_victims(space, f);
        pl_segment *seg = b->segment;
        space->chunks.n_taken += pl_segment_granules_of(seg, b);
        pl_keeper_count(seg, 0, b->bytes);
        seg->n_resident -= pl_segment_granules_of(seg, b);
        pl_space_tell_run(space, PL_ACTION_SEGMENT_UNMAP, seg, b->base, b->bytes);
        pl_carve_make_stale(space, b);
        pl_pace_step(space, f->pace, 1);
    }
}

static void end_flight(pl_space *space, pl_flight *f)
{
    space->chunks.n_creating -= f->n_create;
    space->chunks.n_flying -= f->n_under;
    space->chunks.n_held += f->n_created;
    if (space->chunks.n_held > space->chunks.peak_held) {
        space->chunks.peak_held = space->chunks.n_held;
    }
    pl_space_land(space, &f->flying);
}

/* A hole has become resident: from now on b is in flight like a block that was free. */
static void install(pl_space *space, pl_flight *f, pl_block *b)
{
    pl_segment *seg = f->place.segment;

    if (b->was != PL_BLOCK_HOLE) {
        return;
    }
    size_t n = pl_segment_granules_of(seg, b);
    for (size_t g = pl_segment_granule(seg, b->base), end = g + n; g < end; g++) {
        seg->parts[g] &= (uint8_t)~PL_PART_TAKEN; /* for a rollback only */
        pl_pace_step(space, f->pace, 1);
    }
    b->was = PL_BLOCK_FREE;
    b->stamp = 0;
    pl_keeper_count(seg, b->bytes, 0);
    seg->n_resident += n;
    pl_space_tell_run(space, PL_ACTION_SEGMENT_MAP, seg, b->base, b->bytes);
}

/* Join the place's blocks into a single block. */
static pl_block *join_place(pl_space *space, pl_flight *f)
{
    pl_segment *seg = f->place.segment;
    pl_block *b = f->first;

    install(space, f, b);
    while (b != f->last) {
        pl_block *next = b->next;
        install(space, f, next);
        f->last = next == f->last ? b : f->last;
        b->is_strange = b->is_strange || next->is_strange;
        pl_segment_absorb(seg, &space->blocks.store, b, next);
        pl_pace_step(space, f->pace, 1);
    }
    return b;
}

pl_block *pl_flight_commit(pl_space *space, pl_flight *f)
{
    pl_segment *seg = f->place.segment;

    retire_victims(space, f);
    seg->has_large = seg->has_large || f->has_large;
    pl_block *b = join_place(space, f);
    pl_block_store_put(&space->blocks.store, f->spare);
    pl_segment_become(seg, &space->blocks.store, b, PL_BLOCK_LIVE);
    b->is_strange = b->is_strange || (pl_segment_is_apart(seg) && !f->is_quiet);
    if (pl_block_end(b) > f->place.at + f->bytes) {
        pl_block *tail = pl_segment_split(seg, &space->blocks.store, b, f->place.at + f->bytes);
        bool is_capture = f->usable == PL_LANE_SETTLED; /* a settled tail serves the capture next */
        bool is_settled = f->is_quiet && (is_capture || pl_space_has_many_lanes(space));
        pl_run_free(space, tail, is_settled ? PL_LANE_SETTLED : f->lane->number,
                    is_settled ? 0 : pl_lane_stamp(space, f->lane));
    }
    pl_run_refresh_beside(space, b, b);
    pl_space_pin(space, 0); /* the peak counts only memory that is granted */
    end_flight(space, f);
    return b;
}

/* Chunks become idle, even those still mapped at a hole that is now stale. Taken ones never left
 * their place. */
static void give_chunks_back(pl_space *space, pl_flight *f)
{
    pl_segment *seg = f->place.segment;

    for (pl_block *b = f->first; b != NULL; b = b == f->last ? NULL : b->next) {
        size_t g = pl_segment_granule(seg, b->base);
        size_t end = b->was == PL_BLOCK_HOLE ? g + b->n_given : g;
        while (g < end) {
            size_t to = g + ((size_t)1 << seg->orders[g]);
            if (!(seg->parts[g] & PL_PART_TAKEN)) {
                pl_space_push_idle(space, seg->chunks[g], seg->orders[g]);
            }
            pl_segment_clear_chunks(seg, g, to);
            g = to;
            pl_pace_step(space, f->pace, 1);
        }
    }
}

/* Put the place's blocks back from last to first, so that a merge never absorbs the next block. */
static void restore_place(pl_space *space, pl_flight *f)
{
    pl_block *b = f->last;

    while (b != NULL) {
        pl_block *prev = b == f->first ? NULL : b->prev;
        if (b->was != PL_BLOCK_FREE) {
            space->chunks.n_pinned -= pl_segment_granules_of(f->place.segment, b);
        }
        if (b->is_refused) {
            pl_carve_refuse(space, b);
        } else {
            pl_carve_put_back(space, b);
        }
        pl_pace_step(space, f->pace, 1);
        b = prev;
    }
}

/* A granule's blocks go back in one hold: until the last is back, no counter has the granule. */
static void restore_victims(pl_space *space, pl_flight *f)
{
    while (f->victims.first != NULL) {
        pl_block *b = f->victims.first;
        if (b->segment->is_private) {
            b = pop_victims(space, f); /* of whole granules */
        } else {
            pl_queue_remove(&f->victims, b);
        }
        pleat_devptr end = pl_block_end(b);
        pl_carve_restore(space, b);
        pl_lock_touch(1);
        if (f->victims.first == NULL || f->victims.first->base != end) {
            pl_pace_count(space, f->pace, 1);
        }
    }
}

void pl_flight_rollback(pl_space *space, pl_flight *f)
{
    pl_block_store_put(&space->blocks.store, f->spare);
    space->blocks.n_unmapping += f->has_refused;
    give_chunks_back(space, f);
    restore_place(space, f);
    space->blocks.n_unmapping -= f->has_refused;
    restore_victims(space, f);
    end_flight(space, f);
    if (space->flights.n == 0) {
        pl_space_pin(space, 0); /* others' blocks may keep granules of the flight pinned */
    }
}

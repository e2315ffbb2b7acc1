/* grow.c - growing: where memory comes from, and when a request gives up.
 *
 * THE PROMISE. With no other request in flight, "out of device memory" means L + P + T + m > C:
 *
 *   C  chunks that the driver or the limit gives
 *   L  granules with bytes of live blocks and requests in flight
 *   P  granules kept for captures, and granules without live bytes that other private pools touched
 *   T  tied granules, none if each chunk is one granule
 *   m  the least number of further granules that the request pins, over all places of its pool
 *
 * A place pins the holes under it and all granules of the loose chunks that the place touches, but
 * no tied granules.
 *
 * Why. Let the request be refused with PLEAT_ENOMEM_DEVICE. Then in the last attempt nobody else
 * was in flight (request.c waits for flights first). No block pended on another stream, as all
 * were settled or ordered before. The driver had refused to create beyond C since the request
 * began. So the lane may use every free block, and every granule held is idle, loose and takeable,
 * or counted in L + P + T.
 *
 * No run of any area of the request's pool holds the request: a resident fit was looked for in all
 * areas of both size classes. (Areas that released private pools left are the default pool's:
 * keeper.h. A pool's own free granules are pinned, but a place over them pins no further
 * granules.) In every such area pl_place_search considered the places that pin least. A new segment
 * is opened whenever ceil(bytes / granule) would fit under C but no gap is long enough.
 *
 * A place with L + P + T + its pins <= C would have been reserved, and its n_new granules exist:
 * C - L - P - T - (loose granules that the place pins) counts just the idle, loose and creatable
 * granules outside the place. All of these are collected before any is found missing, except large
 * chunks without room in the place. Such chunks were released before (pl_trim_gather), and granules
 * took their place. (Tied granules are at an end of a gap, where chunks reach beyond the gap: the
 * places at both ends cover most tied granules.) Hence no place had L + P + T + m <= C.
 *
 * One exception: the driver refuses to map, since no memory is left for page tables. Idle chunks go
 * back then, and the request tries once more. A second refusal is "out of device memory", too,
 * though free memory may be held.
 *
 * A private pool's request on a stream that is being captured may not take. For such a request
 * settled memory was unmapped instead (pl_trim_gather). Captures, cross_stream:settled and wait_ms
 * can forbid an order or a wait that the argument needs: then the verdict is PLEAT_EPENDING.
 *
 * Why growing ends. What it changes for the request sends the request back to the first row of
 * request.c, and each kind of change is bounded, whatever others do:
 *
 * - orders made instead of creating: fewer than lanes
 * - foiled attempts: after MOST_FOILED, an attempt is made in one hold, which none can foil
 * - rounding a place up: once, and once after each gathering; making way for page tables: once
 * - attempts to make a page of whole chunks: PL_WHOLE_TRIES, and one after each gathering
 *
 * Further changes use something up. A new segment uses addresses. A refusal by the driver lowers
 * full_at to the memory held. From then on the driver is asked again by a row of the table, once a
 * request, or for memory given back since, or after very many calls.
 *
 * Guarded by the device lock, dropped around driver calls and waits; nothing is reserved then. */
#include "segments/pleat/grow/grow.h"

#include "segments/pleat/buffers/buffer.h"
#include "segments/pleat/grow/flight.h"
#include "segments/pleat/grow/place.h"
#include "segments/pleat/grow/policy.h"
#include "segments/pleat/grow/recast.h"
#include "segments/pleat/grow/trim.h"
#include "segments/pleat/space/back.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/streams/handover.h"

enum {
    LEAST_SEGMENT = 64, /* granules */
    EXTRA_LOG2 = 8
};

/* ---- how much may be created ----------------------------------------------------------------- */

/* The most chunks that may be held, if the driver gives what the request expects. */
static size_t expected_cap(const pl_space *space, const pl_request *rq)
{
    return rq->ask == PL_ASK_NOW ? pl_space_ceiling(space) : pl_space_cap(space);
}

static size_t cap_of(const pl_space *space, const pl_request *rq)
{
    size_t cap = expected_cap(space, rq);

    return rq->n_done[PL_USED_RESERVE] > 0 || rq->is_capturing ? cap : pl_reserve_cap(space, cap);
}

/* How many granules to add to a run of n, at most `extra`, so that few chunks fill the run. The sum
 * becomes whole chunks of one order: the largest, up to `order`, whose sum is at least n. */
static size_t round_run(size_t n, size_t extra, unsigned order)
{
    size_t total = n + extra;

    if (order < PL_LARGE_ORDER) { /* small chunks gain too little for a growth cut short */
        return extra;
    }
    while (total >> order << order < n) {
        order--;
    }
    return (total >> order << order) - n;
}

/* Granules to map beyond a place that ends in a hole. In the segment's last hole: 1/256 of the
 * memory held. After may_round: as many as a large chunk needs. */
static size_t extra_of(const pl_space *space, const pl_request *rq, const pl_place *place,
                       size_t allowed, unsigned order)
{
    pleat_devptr end = pl_segment_ceil(place->segment, place->at + rq->bytes);
    const pl_block *b = pl_segment_hole_at(place->segment, place->at + rq->bytes - 1);
    size_t extra = rq->n_round;

    if (b == NULL) {
        return 0;
    }
    bool is_any = rq->keeper == NULL && rq->in == NULL;
    if (b->next == NULL && allowed > place->n_new && is_any && extra == 0) {
        allowed -= place->n_new;
        extra = space->chunks.n_held >> EXTRA_LOG2;
        extra = extra < allowed ? extra : allowed;
    }
    size_t room = (size_t)((pl_block_end(b) - end) >> place->segment->granule_log2);
    extra = extra < room ? extra : room;
    if (rq->n_round > 0) {
        return extra;
    }
    pleat_devptr low = pl_segment_floor(place->segment, place->at);
    low = low > b->base ? low : b->base;
    return round_run((size_t)((end - low) >> place->segment->granule_log2), extra, order);
}

/* ---- where ----------------------------------------------------------------------------------- */

pleat_status pl_grow_reserve_index(pl_space *space, const pl_request *rq, pl_area *area)
{
    uint32_t number = rq->lane->number;
    pleat_status st = rq->keeper != NULL ? pl_area_reserve_index(&space->meta, area, number)
                                         : PLEAT_OK;

    if (st == PLEAT_OK && rq->lane->is_capture) { /* where the blocks pend after the capture */
        st = pl_area_reserve_index(&space->meta, area, pl_lane_plain(number));
    }
    return st;
}

bool pl_grow_can_create(const pl_space *space, const pl_request *rq)
{
    return pl_request_granules(space, rq) <=
           pl_policy_headroom(space, cap_of(space, rq)) + space->chunks.n_idle;
}

/* Find a place in the own area. If idle and new chunks do not suffice, search all areas of the
 * pool. out->segment is NULL if no place was found, or if the own area should get more addresses
 * first. May drop the lock: pl_flight_reserve confirms a place found before. PLEAT_OK or
 * ENOMEM_HOST. */
static pleat_status find_place(pl_space *space, const pl_request *rq, pl_pace *pace, size_t cap,
                               pl_place *out)
{
    uint32_t lane = rq->usable;
    size_t pin_room = cap > space->chunks.n_pinned ? cap - space->chunks.n_pinned : 0;
    bool found = pl_place_search(space, pace, rq->area, lane, rq->bytes, pin_room, out);
    size_t n_new = found ? out->n_new : pl_request_granules(space, rq);

    if (n_new <= pl_policy_headroom(space, cap) + space->chunks.n_idle &&
        (found || !rq->is_out_of_va)) {
        return PLEAT_OK;
    }
    pl_area_cursor cursor = { 0 };
    for (pl_area *area; (area = pl_space_next_area(space, rq->keeper, &cursor)) != NULL;) {
        pl_place other;
        pl_pace_step(space, pace, 1);
        if (area != rq->area &&
            pl_place_search(space, pace, area, lane, rq->bytes, pin_room, &other) &&
            pl_place_beats(out, other.rank, other.at)) {
            *out = other;
        }
    }
    return out->segment != NULL ? pl_grow_reserve_index(space, rq, out->segment->area) : PLEAT_OK;
}

/* A segment reserves half more addresses than the device has memory, since a stream's blocks
 * spread. Small areas reserve an eighth of the memory. Pools are many: see pl_keeper_want. */
static pleat_status open_segment(pl_space *space, const pl_request *rq)
{
    size_t least = pl_request_granules(space, rq);
    size_t want = space->chunks.total_granules;

    want = rq->area->class == PL_CLASS_SMALL ? want / 8 : want + want / 2;
    want = want < LEAST_SEGMENT ? LEAST_SEGMENT : want;
    want = rq->keeper != NULL ? pl_keeper_want(space, rq->area) : want;
    return pl_space_open_segment(space, rq->area, want < least ? least : want, least, 1);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* May the lane wait for another lane's pending memory, instead of creating? Every wait must save
 * enough by itself: of many streams with a little memory, none is waited for. A refusal that others
 * met forces nobody to wait. */
static bool may_order_early(pl_space *space, const pl_request *rq, size_t n_missing)
{
    const pl_lane *other = pl_handover_richest(space, rq->lane, rq->turn, false);
    size_t n = other != NULL ? pl_handover_pending_bytes(other, false) >> space->granule_log2 : 0;
    size_t cap = rq->ask == PL_ASK_DONE ? pl_space_cap(space) : pl_space_ceiling(space);

    return n > 0 && rq->n_done[PL_ORDERED_FIRST] + 1 < space->streams.n_lanes &&
           space->chunks.n_loose > 0 &&
           pl_policy_may_order(space, cap, n < n_missing ? n : n_missing);
}

/* Collect the flight's chunks: idle chunks, then new chunks within the slack, then all chunks that
 * can be taken, then new chunks up to the cap. An ordered wait is better than the last step: then
 * *wants_order is set. The lock may be dropped on the way: a limit set meanwhile counts. */
static pleat_status collect(pl_space *space, pl_request *rq, pl_flight *f, size_t allowed,
                            bool *wants_order)
{
    pleat_status st = PLEAT_OK;

    *wants_order = false;
    pl_flight_add_idle(space, f);
    size_t room = pl_policy_headroom(space, cap_of(space, rq));
    pl_flight_add_created(space, f, allowed < room ? allowed : room);
    if (!rq->is_capturing && pl_flight_missing(f) > 0) {
        st = pl_flight_add_taken(space, f);
        if (pl_recast_is_due(rq, f)) {
            return st;
        }
        *wants_order = st == PLEAT_OK && pl_flight_missing(f) > 0 &&
                       may_order_early(space, rq, pl_flight_missing(f));
    }
    if (st == PLEAT_OK && !*wants_order) {
        pl_flight_add_created(space, f, pl_policy_headroom(space, cap_of(space, rq)));
    }
    return st;
}

/* Collect whole chunks for a page: either all that idle chunks leave missing are new, or none. */
static pleat_status collect_page(pl_space *space, const pl_request *rq, pl_flight *f,
                                 size_t allowed)
{
    f->least_order = pl_page_least_order(f);
    pl_flight_add_idle(space, f);
    size_t room = pl_policy_headroom(space, cap_of(space, rq));
    if (pl_flight_missing(f) <= (allowed < room ? allowed : room)) {
        pl_flight_add_created(space, f, allowed);
        return PLEAT_OK;
    }
    return pl_flight_add_taken(space, f);
}

/* No gap is long enough: reserve more addresses. If none are left, closed buffers give addresses
 * back. Buffers do so only while nobody flies, so pleat asks the buffers again in each pass. */
static pl_step extend(pl_attempt *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;

    t->st = open_segment(space, rq);
    if (t->st == PLEAT_ENOSPACE_VA && space->places.n_noted > 0) {
        pl_hollow_let_go(space, 0, SIZE_MAX);
        t->st = open_segment(space, rq);
    }
    if (t->st == PLEAT_OK) {
        return PL_STEP_AGAIN;
    }
    if (t->st != PLEAT_ENOSPACE_VA) {
        return PL_STEP_DONE;
    }
    if (!rq->is_out_of_va) {
        rq->is_out_of_va = true;
        return PL_STEP_AGAIN;
    }
    return PL_STEP_NEXT; /* pending or stale memory may interrupt a gap */
}

/* ---- one attempt ----------------------------------------------------------------------------- */

/* The flight has its chunks: create and map, then commit or roll back. */
static pl_step launch(pl_attempt *t, pl_flight *f)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;
    size_t n_held = space->chunks.n_held + space->chunks.n_creating - f->n_create;
    bool asks = f->n_create > 0 && !rq->is_capturing && pl_reserve_wants_to_know(space);
    struct pl_block_slab *full = pl_block_store_take_full(&space->blocks.store);
    uint64_t free_bytes;

    f->pace->is_unbroken = false; /* all is in flight, so nobody foils the request any more */
    if (full != NULL || asks) {
        pl_away(space);
        pl_block_slab_merge(full); /* here, as this call takes time anyway */
        asks = asks && pl_device_free_bytes(space->dev, &free_bytes) == PLEAT_OK;
        pl_back(space);
    }
    t->st = pl_flight_fly(space, f);
    if (asks) {
        pl_reserve_learn(space, n_held, free_bytes);
    }
    if (t->st == PLEAT_OK) {
        space->chunks.full_at = f->n_create > 0 ? SIZE_MAX : space->chunks.full_at;
        if (rq->in == NULL) { /* pages that come and go are taken at every slack */
            pl_policy_note_taken(space, rq->lane, f->n_taken);
        }
        rq->wants_tick = rq->wants_tick || (f->n_taken > 0 && !f->is_quiet);
        t->block = pl_flight_commit(space, f);
        return PL_STEP_DONE;
    }
    bool is_mapping = f->n_created == f->n_create;
    pl_flight_rollback(space, f);
    if (t->st != PLEAT_ENOMEM_DEVICE || (is_mapping && rq->n_done[PL_MADE_WAY] > 0)) {
        return PL_STEP_DONE;
    }
    if (is_mapping) { /* page tables need memory, too */
        rq->n_done[PL_MADE_WAY] = 1;
        (void)pl_trim_idle_to(space, 0);
        return PL_STEP_AGAIN;
    }
    rq->ask = rq->ask == PL_ASK_NOW ? PL_ASK_DONE : PL_ASK_NOT;
    space->chunks.full_at = space->chunks.n_held;
    space->chunks.full_call = space->n_calls;
    return PL_STEP_AGAIN;
}

/* Instead of creating, order the lane after another lane, for n_missing granules. */
static pl_step order_early(pl_space *space, pl_request *rq, size_t n_missing)
{
    size_t n_moved = 0;
    pl_lane *other = pl_handover_richest(space, rq->lane, rq->turn, false);

    rq->n_done[PL_ORDERED_FIRST]++;
    if (other == NULL ||
        pl_handover(space, rq->lane, other, n_missing, false, &n_moved) != PLEAT_OK ||
        n_moved == 0) {
        rq->n_done[PL_ORDERED_FIRST] = space->streams.n_lanes; /* try no more orders */
    }
    rq->wants_tick = rq->wants_tick || n_moved > 0;
    return PL_STEP_AGAIN;
}

/* An attempt that drops the lock may miss memory that is held by others for a moment. Such a
 * failure is no verdict. After MOST_FOILED such attempts the next attempt is made in one hold. */
enum { MOST_FOILED = 8 };

static pl_step fail(pl_attempt *t, const pl_pace *pace)
{
    if (!pl_pace_is_alone(t->space, pace)) {
        t->rq->n_done[PL_FOILED]++;
        return PL_STEP_AGAIN;
    }
    t->st = PLEAT_ENOMEM_DEVICE;
    return PL_STEP_NEXT;
}

/* Chunks could be taken, but all have more granules than are missing. If the place ends in a hole,
 * the place may get more granules than needed, once. */
static bool may_round(const pl_request *rq, const pl_flight *f, size_t n_missing)
{
    const pl_block *b = pl_segment_hole_at(f->place.segment, f->place.at + rq->bytes - 1);

    return f->left_order > 0 && (size_t)1 << f->left_order > n_missing && rq->n_round == 0 &&
           rq->n_page == 0 && b != NULL;
}

/* Cut out the place that was found. EPENDING: while the lock was dropped, others took part of the
 * place, a new keeper got the released area (keeper.h), or the heap began to go to sleep. */
static pleat_status reserve(pl_space *space, const pl_request *rq, pl_flight *f, size_t allowed)
{
    pl_segment *seg = f->place.segment;

    if (f->pace->has_breathed &&
        (pl_keeper_is_shut(rq->keeper) || seg->area->keeper != rq->keeper)) {
        return PLEAT_EPENDING;
    }
    if (f->pace->has_breathed) {
        f->place.first = pl_segment_find(seg, f->place.at);
    }
    f->n_extra = extra_of(space, rq, &f->place, allowed, f->most_order);
    return pl_flight_reserve(space, f); /* no pool gets the area of a flight */
}

/* After memory was gathered for the request, only single granules are created. If the driver
 * refused the rest, large chunks would be left over, might fit nowhere, and would not be gathered
 * again. */
static unsigned order_for(const pl_space *space, const pl_request *rq, size_t n_new)
{
    bool is_single = rq->n_done[PL_GATHERED] > 0 || rq->n_page == 1;

    if (rq->n_page > 1) { /* chunks left over fit the same place again */
        return PL_MOST_ORDER;
    }
    n_new = rq->in == NULL ? n_new : 0; /* a buffer may lose any part of what it gets at once */
    return is_single ? 0 : pl_policy_order(space, expected_cap(space, rq), n_new);
}

/* Reserve the place and collect its chunks. */
static pl_step use_place(pl_attempt *t, pl_flight *f, size_t cap)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;
    bool wants_order = false;
    size_t allowed = pl_policy_slack(space, cap, f->place.n_pin);
    size_t allowed_beyond = pl_policy_slack(space, pl_reserve_cap(space, cap), f->place.n_pin);

    f->most_order = order_for(space, rq, f->place.n_new);
    f->is_single = rq->n_page == 1;
    f->page_order = rq->n_done[PL_RECAST] == 0 ? f->most_order : PL_MOST_ORDER;
    allowed = allowed < rq->n_recast ? rq->n_recast : allowed;
    t->st = reserve(space, rq, f, allowed_beyond);
    if (t->st == PLEAT_EPENDING) {
        rq->n_done[PL_FOILED]++;
        return PL_STEP_AGAIN;
    }
    if (t->st != PLEAT_OK) {
        return PL_STEP_DONE;
    }
    bool is_whole = pl_page_is_whole(rq);
    t->st = is_whole ? collect_page(space, rq, f, allowed)
                     : collect(space, rq, f, allowed, &wants_order);
    bool is_to_recast = is_whole || pl_recast_is_due(rq, f);
    size_t n_missing = pl_flight_missing(f);
    if (t->st == PLEAT_OK && !wants_order && n_missing == 0) {
        return launch(t, f);
    }
    pl_flight_rollback(space, f);
    if (t->st == PLEAT_OK && is_to_recast) {
        return pl_recast(space, rq, n_missing);
    }
    if (wants_order) {
        return order_early(space, rq, n_missing);
    }
    if (t->st == PLEAT_OK && may_round(rq, f, n_missing)) {
        rq->n_round = f->n_extra + ((size_t)1 << f->left_order) - n_missing;
        return PL_STEP_AGAIN;
    }
    return t->st != PLEAT_OK ? PL_STEP_DONE : fail(t, f->pace);
}

pl_step pl_grow(pl_attempt *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;
    pl_pace pace;
    pl_flight f = { .lane = rq->lane, .usable = rq->usable, .bytes = rq->bytes, .pace = &pace };
    size_t cap = cap_of(space, rq);

    pl_pace_begin(space, &pace, rq->n_done[PL_FOILED] >= MOST_FOILED);
    t->st = rq->in != NULL ? pl_fixed_place(space, rq, &f.place)
                           : find_place(space, rq, &pace, cap, &f.place);
    if (t->st == PLEAT_EPENDING) { /* the request's only place is taken */
        bool fits = space->chunks.n_pinned + f.place.n_pin <= cap;
        t->st = fits ? PLEAT_ENOSPACE_VA : PLEAT_ENOMEM_DEVICE;
        return PL_STEP_NEXT;
    }
    if (t->st != PLEAT_OK) {
        return PL_STEP_DONE;
    }
    if (f.place.segment != NULL) {
        return use_place(t, &f, cap);
    }
    bool fits = space->chunks.n_pinned + pl_request_granules(space, rq) <= cap;
    return fits ? extend(t) : fail(t, &pace);
}

/* settle.c - ticks and fences: see settle.h and lane.h.
 *
 * The rule it upholds: memory that one stream freed reaches another only after a fence behind the
 * free has passed (settled), or after the other was made to wait for such a fence (ordered). The
 * host waits in pl_settle_wait* only. Guarded by the device lock, which is dropped around every
 * driver call. Lanes live as long as the space, so a pointer to one outlasts the lock. */
#include "segments/settle.h"

#include "segments/run.h"

enum { WAIT_TRIES = 4 };

static pl_tick *oldest_tick(pl_lane *lane)
{
    return &lane->ticks[lane->first_tick];
}

/* Will no recorded tick tell when the last free is settled? Its own may never have been recorded,
 * or its fence failed. */
static bool has_unticked_frees(const pl_lane *lane)
{
    uint64_t newest = lane->passed_tick;

    if (lane->n_ticks > 0) {
        newest = lane->ticks[(lane->first_tick + lane->n_ticks - 1) % PL_LANE_TICKS].number;
    }
    return (lane->pending.last != NULL && lane->pending.last->tick > newest) ||
           (lane->apart.last != NULL && lane->apart.last->tick > newest);
}

void pl_settle_tick(pl_space *space, pl_lane *lane)
{
    pl_fence *fence;

    pl_lock_assert(&space->lock);
    lane->n_frees = 0;
    if (lane->is_recording || lane->n_ticks == PL_LANE_TICKS) {
        return;
    }
    uint64_t number = lane->next_tick++;
    lane->is_recording = true;
    pl_lock_release(&space->lock);
    pleat_status st = pl_fence_record(lane->stream, &fence);
    pl_lock_acquire(&space->lock);
    lane->is_recording = false;
    if (st == PLEAT_OK && pl_fence_is_whole_device(fence)) {
        pl_fence_return(fence); /* no query would see it pass, and later ticks queue behind it */
    } else if (st == PLEAT_OK) {
        lane->ticks[(lane->first_tick + lane->n_ticks) % PL_LANE_TICKS] = (pl_tick){
            .number = number, .fence = fence
        };
        lane->n_ticks++;
    }
}

/* The tick has passed: everything up to it is settled. */
static void pass(pl_space *space, pl_lane *lane, uint64_t number)
{
    if (number <= lane->passed_tick) {
        return; /* a wait was faster */
    }
    lane->passed_tick = number;
    while (lane->pending.first != NULL && lane->pending.first->tick <= number) {
        pl_run_move(space, lane->pending.first, PL_LANE_SETTLED, 0);
    }
    while (lane->apart.first != NULL && lane->apart.first->tick <= number) {
        pl_run_move(space, lane->apart.first, PL_LANE_SETTLED, 0);
    }
}

static bool is_empty(const pl_lane *lane)
{
    return lane->pending.first == NULL && lane->apart.first == NULL;
}

static void rest_all(pl_space *space, pl_block_queue *queue, const pl_lane *plain)
{
    while (queue->first != NULL) {
        pl_run_move(space, queue->first, plain->number, plain->next_tick);
    }
}

bool pl_settle_rest(pl_space *space, pl_lane *lane)
{
    bool is_capturing = false;

    if (is_empty(lane)) {
        return false;
    }
    pl_lock_release(&space->lock);
    pleat_status st = pl_stream_is_still_capturing(lane->stream, &is_capturing);
    pl_lock_acquire(&space->lock);
    if (st == PLEAT_OK && is_capturing) {
        return false;
    }
    const pl_lane *plain = space->lanes[pl_lane_plain(lane->number) - 1];
    rest_all(space, &lane->pending, plain);
    rest_all(space, &lane->apart, plain);
    return true;
}

/* Take the oldest tick out of the ring; its fence is the caller's. */
static pl_tick pop_tick(pl_lane *lane)
{
    pl_tick tick = *oldest_tick(lane);

    lane->first_tick = (lane->first_tick + 1) % PL_LANE_TICKS;
    lane->n_ticks--;
    return tick;
}

bool pl_settle_poll(pl_space *space, pl_lane *lane)
{
    bool any = false;

    while (lane->n_ticks > 0 && !lane->is_polled) {
        bool passed = false;
        pl_fence *fence = oldest_tick(lane)->fence;
        lane->is_polled = true; /* nobody else pops it meanwhile */
        pl_lock_release(&space->lock);
        pleat_status st = pl_fence_query(fence, &passed);
        if (st != PLEAT_OK || passed) {
            pl_fence_return(fence); /* one that fails never passes */
        }
        pl_lock_acquire(&space->lock);
        lane->is_polled = false;
        if (st != PLEAT_OK) {
            (void)pop_tick(lane);
            break;
        }
        if (!passed) {
            break;
        }
        pass(space, lane, pop_tick(lane).number);
        any = true;
    }
    return any;
}

bool pl_settle_is_over(const pl_space *space, const pl_block *b)
{
    return b->lane == PL_LANE_SETTLED || b->tick <= space->lanes[b->lane - 1]->passed_tick;
}

/* ---- blocks that pend on several streams ------------------------------------------------- */

static pl_block_queue *queue_of(pl_space *space, bool is_private)
{
    return is_private ? &space->apart : &space->many;
}

static size_t *bytes_of(pl_space *space, const pl_block *b)
{
    return b->segment->is_private ? &space->n_apart_bytes : &space->n_many_bytes;
}

/* While a thread asks the driver about such a block, it is in no queue: as with a request in
 * flight, whoever finds no memory waits until it is back. */
static void pick_up(pl_space *space, pl_block *b)
{
    if (b != NULL) {
        pl_queue_remove(queue_of(space, b->segment->is_private), b);
    }
    space->n_flights++;
    pl_lock_release(&space->lock);
}

static void put_down(pl_space *space)
{
    pl_lock_acquire(&space->lock);
    space->n_flights--;
    pthread_cond_broadcast(&space->landed);
}

void pl_settle_drop_uses(pl_space *space, pl_block *b)
{
    pl_uses *uses = b->uses;

    if (uses == NULL) {
        return;
    }
    for (uint32_t i = 0; i < uses->n; i++) {
        pl_fence_return(uses->use[i].fence);
    }
    b->uses = NULL;
    pl_host_free(&space->host, uses);
}

static bool is_still_captured(const pl_use *use)
{
    bool is_capturing = false;

    return pl_stream_is_still_capturing(use->stream, &is_capturing) == PLEAT_OK && is_capturing;
}

/* A private pool is told of the end of its graphs by its release alone: there a captured use lasts
 * as long as the capture. Lock dropped. */
static bool is_in_capture(pl_use *use, bool is_private)
{
    if (use->is_captured && is_private) {
        use->is_captured = is_still_captured(use);
    }
    return use->is_captured;
}

/* Record what is not recorded, query the rest. True when every use is over. Lock dropped. */
static bool query_uses(pl_uses *uses, bool is_private)
{
    for (uint32_t i = 0; i < uses->n;) {
        pl_use *use = &uses->use[i];
        bool passed = false;
        if (is_in_capture(use, is_private)) {
            i++;
            continue;
        }
        if (use->fence == NULL) {
            (void)!pl_fence_record(use->stream, &use->fence); /* if not now, then next time */
        } else if (pl_fence_query(use->fence, &passed) != PLEAT_OK) {
            pl_fence_return(use->fence); /* it never passes: another is recorded */
            use->fence = NULL;
            passed = false;
        }
        if (!passed) {
            i++;
            continue;
        }
        pl_fence_return(use->fence);
        *use = uses->use[--uses->n];
    }
    return uses->n == 0;
}

/* What a private pool left behind was freed long ago: nothing was requested in it. */
static void tell_completed(const pl_space *space, const pl_block *b)
{
    if (b->requested > 0) {
        pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    }
}

/* The other streams are done with b: it pends on its owner alone, or on nobody. While there is one
 * lane only, all free memory is that lane's: settled blocks would not merge with the others. */
static void leave_many(pl_space *space, pl_block *b)
{
    const pl_lane *owner = space->lanes[b->lane - 1];
    bool is_over = b->requested == 0 || b->tick <= owner->passed_tick; /* the owner's use, too */
    bool is_settled = is_over && (b->requested == 0 || pl_space_has_many_lanes(space));
    uint64_t tick = is_over ? b->tick : owner->next_tick;

    *bytes_of(space, b) -= b->bytes;
    pl_settle_drop_uses(space, b);
    tell_completed(space, b);
    pl_run_free(space, b, is_settled ? PL_LANE_SETTLED : b->lane, is_settled ? 0 : tick);
}

/* Which uses are a graph's: a launch will touch the block long after its free. Lock dropped. */
static void mark_captured(pl_uses *uses)
{
    for (uint32_t i = 0; i < uses->n; i++) {
        uses->use[i].is_captured = is_still_captured(&uses->use[i]);
    }
}

void pl_settle_mark_captured(pl_space *space, pl_block *b)
{
    b->state = PL_BLOCK_MANY;
    *bytes_of(space, b) += b->bytes;
    pick_up(space, NULL);
    mark_captured(b->uses);
    put_down(space);
    *bytes_of(space, b) -= b->bytes;
}

void pl_settle_free_many(pl_space *space, pl_block *b, pl_lane *owner)
{
    b->state = PL_BLOCK_MANY;
    b->tick = owner->next_tick;
    *bytes_of(space, b) += b->bytes;
    pick_up(space, NULL);
    (void)query_uses(b->uses, b->segment->is_private);
    put_down(space);
    pl_queue_push(queue_of(space, b->segment->is_private), b);
}

static size_t count_many(const pl_block_queue *many)
{
    size_t n = 0;

    for (const pl_block *b = many->first; b != NULL; b = b->queue_next) {
        n++;
    }
    return n;
}

/* At most so many blocks, the longest unasked first, in any order of events. Out of the queue, a
 * block is this thread's. */
static bool poll_many(pl_space *space, bool is_private, size_t most)
{
    const pl_block_queue *many = queue_of(space, is_private);
    size_t n = count_many(many);
    bool any = false;

    for (n = n < most ? n : most; n > 0 && many->first != NULL; n--) {
        pl_block *b = many->first;
        pick_up(space, b);
        bool is_over = query_uses(b->uses, is_private);
        put_down(space);
        if (is_over) {
            leave_many(space, b);
            any = true;
        } else {
            pl_queue_push(queue_of(space, b->segment->is_private), b);
        }
    }
    return any;
}

bool pl_settle_poll_many(pl_space *space, size_t most)
{
    bool any = poll_many(space, false, most);

    return poll_many(space, true, most) || any;
}

static void unmark(pl_uses *uses, const pl_stream *stream)
{
    for (uint32_t i = 0; i < uses->n; i++) {
        if (uses->use[i].stream == stream) {
            uses->use[i].is_captured = false;
        }
    }
}

static void unmark_all(const pl_block_queue *queue, const pl_stream *stream)
{
    for (pl_block *b = queue->first; b != NULL; b = b->queue_next) {
        if (b->uses != NULL) {
            unmark(b->uses, stream);
        }
    }
}

void pl_settle_release_uses(pl_space *space, const pl_stream *stream)
{
    /* A block that some thread asks about now is in no queue, but comes back. */
    while (space->n_flights > 0) {
        pl_lock_wait(&space->lock, &space->landed);
    }
    unmark_all(&space->many, stream);
    unmark_all(&space->apart, stream);
    for (uint32_t i = 0; i < space->n_lane_rooms; i++) {
        if (space->lanes[i] != NULL) {
            unmark_all(&space->lanes[i]->kept, stream);
        }
    }
    (void)pl_settle_poll_many(space, SIZE_MAX); /* once to record the fences, */
    (void)pl_settle_poll_many(space, SIZE_MAX); /* once to see those that have passed already */
}

bool pl_settle_poll_all(pl_space *space, const pl_lane *user, size_t most_many)
{
    bool any = pl_settle_poll_many(space, most_many);

    for (uint32_t i = 0; i < space->n_lane_rooms; i++) {
        pl_lane *lane = space->lanes[i];
        if (lane != NULL && lane->is_capture) {
            any = pl_settle_rest(space, lane) || any;
        }
    }
    for (uint32_t i = 0; i < space->n_lane_rooms; i++) {
        pl_lane *lane = space->lanes[i];
        if (lane == NULL || lane->is_capture) {
            continue;
        }
        any = pl_settle_poll(space, lane) || any;
        if (lane != user && has_unticked_frees(lane)) {
            pl_settle_tick(space, lane);
        }
    }
    return any;
}

/* ---- ordering ---------------------------------------------------------------------------- */

/* Put a fence behind all that `other` has submitted and make `user` wait for it. Lock dropped. */
static pleat_status order_after(pl_stream *user, pl_stream *other)
{
    pl_fence *fence;
    pleat_status st = pl_fence_record(other, &fence);

    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_fence_order(user, fence);
    pl_fence_return(fence);
    return st;
}

static size_t whole_granules(const pl_block *b)
{
    const pl_segment *seg = b->segment;
    pleat_devptr low = pl_segment_ceil(seg, b->base);
    pleat_devptr high = pl_segment_floor(seg, pl_block_end(b));

    return high > low ? (size_t)((high - low) >> seg->granule_log2) : 0;
}

/* Move blocks of a queue that pend on another lane's ticks up to `upto` to `user`, those of at
 * least `least` whole granules, until n granules have come.
 * Returns how many have. */
static size_t adopt(pl_space *space, pl_lane *user, const pl_block_queue *pending, uint64_t upto,
                    size_t least, size_t n)
{
    size_t n_adopted = 0;
    pl_block *next;

    for (pl_block *b = pending->first; b != NULL && n_adopted < n; b = next) {
        size_t whole = whole_granules(b);
        next = b->queue_next; /* of another lane than b's new one: no merge touches it */
        bool is_wanted = b->tick <= upto && whole >= least;
        if (is_wanted && pl_area_reach(&space->host, b->segment->area, user->number) == PLEAT_OK) {
            pl_run_move(space, b, user->number, user->next_tick);
            n_adopted += whole;
        }
    }
    return n_adopted;
}

/* Whole granules first; if they do not suffice, all: small pieces join large runs. */
static bool adopt_enough(pl_space *space, pl_lane *user, pl_lane *other, uint64_t upto, size_t n)
{
    if (n != SIZE_MAX && adopt(space, user, &other->pending, upto, 1, n) >= n) {
        return true;
    }
    (void)adopt(space, user, &other->pending, upto, 0, SIZE_MAX);
    return other->pending.first == NULL;
}

/* The same of private pools' blocks too, which serve requests of their pool only. */
static bool adopt_any(pl_space *space, pl_lane *user, pl_lane *other, uint64_t upto, size_t n,
                      bool is_private)
{
    bool is_done = adopt_enough(space, user, other, upto, n);

    if (is_private) {
        (void)adopt(space, user, &other->apart, upto, 0, SIZE_MAX);
        is_done = is_done && other->apart.first == NULL;
    }
    return is_done;
}

static pleat_status reach_behind(pl_space *space, pl_lane *user, const pl_lane *other)
{
    if (other->number <= user->n_behind) {
        return PLEAT_OK;
    }
    uint32_t n = space->n_lane_rooms;
    uint64_t *grown = pl_host_realloc(&space->host, user->behind, n * sizeof(*grown));
    if (grown == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    for (uint32_t i = user->n_behind; i < n; i++) {
        grown[i] = 0;
    }
    user->behind = grown;
    user->n_behind = n;
    return PLEAT_OK;
}

pleat_status pl_settle_order(pl_space *space, pl_lane *user, pl_lane *other, size_t n_granules,
                             bool is_private)
{
    pleat_status st = reach_behind(space, user, other);

    if (st != PLEAT_OK) {
        return st;
    }
    uint32_t i = other->number - 1;
    if (adopt_any(space, user, other, user->behind[i], n_granules, is_private)) {
        return PLEAT_OK;
    }
    uint64_t covered = other->next_tick++; /* frees up to now; later ones are stamped higher */
    other->n_frees = 0;
    pl_lock_release(&space->lock);
    st = order_after(user->stream, other->stream);
    pl_lock_acquire(&space->lock);
    if (st != PLEAT_OK) {
        return st;
    }
    user->behind[i] = covered > user->behind[i] ? covered : user->behind[i];
    (void)adopt_any(space, user, other, covered, n_granules, is_private);
    return PLEAT_OK;
}

/* Make `user` wait for every use, then for the owner. Lock dropped. */
static pleat_status order_after_uses(const pl_lane *user, const pl_lane *owner, pl_uses *uses,
                                     bool is_private)
{
    pleat_status st = PLEAT_OK;

    for (uint32_t i = 0; i < uses->n && st == PLEAT_OK; i++) {
        pl_use *use = &uses->use[i];
        if (is_in_capture(use, is_private)) {
            return PLEAT_ECAPTURE;
        }
        st = use->fence != NULL ? pl_fence_order(user->stream, use->fence)
                                : order_after(user->stream, use->stream);
    }
    if (st == PLEAT_OK && owner != user) {
        st = order_after(user->stream, owner->stream);
    }
    return st;
}

pleat_status pl_settle_order_many(pl_space *space, pl_lane *user, bool is_private)
{
    const pl_block_queue *many = queue_of(space, is_private);
    pleat_status st = PLEAT_EPENDING;

    for (size_t n = count_many(many); n > 0 && many->first != NULL; n--) {
        pl_block *b = many->first;
        if (pl_area_reach(&space->host, b->segment->area, user->number) != PLEAT_OK) {
            return PLEAT_ENOMEM_HOST;
        }
        pick_up(space, b);
        pleat_status failed = order_after_uses(user, space->lanes[b->lane - 1], b->uses,
                                               is_private);
        put_down(space);
        if (failed == PLEAT_OK) {
            *bytes_of(space, b) -= b->bytes;
            pl_settle_drop_uses(space, b);
            tell_completed(space, b);
            pl_run_free(space, b, user->number, user->next_tick);
            return PLEAT_OK;
        }
        pl_queue_push(queue_of(space, b->segment->is_private), b);
        st = st == PLEAT_ESTREAM ? st : failed; /* that one can be waited for */
    }
    return st;
}

/* ---- the host waits ---------------------------------------------------------------------- */

pleat_status pl_settle_wait(pl_space *space, pl_lane *lane, uint32_t wait_ms)
{
    pl_fence *fence;
    uint64_t covered = lane->next_tick++;

    lane->n_frees = 0;
    pl_lock_release(&space->lock);
    pleat_status st = pl_fence_record(lane->stream, &fence);
    if (st == PLEAT_OK) {
        st = pl_fence_wait(fence, wait_ms);
        pl_fence_return(fence);
    }
    pl_lock_acquire(&space->lock);
    if (st != PLEAT_OK) {
        return st;
    }
    (void)pl_settle_poll(space, lane); /* the older ticks have passed too: pop them in order */
    pass(space, lane, covered);
    return PLEAT_OK;
}

/* Wait for what the stream has submitted so far. Lock dropped. *in_vain: it could not be asked. */
static pleat_status wait_for_stream(pl_stream *stream, uint32_t wait_ms, bool *in_vain)
{
    pl_fence *fence;
    pleat_status st = pl_fence_record(stream, &fence);

    *in_vain = st != PLEAT_OK;
    if (*in_vain) {
        return PLEAT_EPENDING;
    }
    st = pl_fence_wait(fence, wait_ms);
    pl_fence_return(fence);
    return st;
}

/* Waiting holds nothing: fences of its own stand for those of a block's uses, which any thread may
 * ask about meanwhile. One block in the queue after the other, until time is up. */
pleat_status pl_settle_wait_many(pl_space *space, bool is_private, uint32_t wait_ms, bool *any)
{
    pl_block_queue *many = queue_of(space, is_private);
    pleat_status st = PLEAT_OK;

    *any = poll_many(space, is_private, SIZE_MAX);
    size_t tries = WAIT_TRIES + WAIT_TRIES * count_many(many); /* a block may have many uses */
    for (; tries > 0 && many->first != NULL; tries--) {
        pl_block *b = many->first;
        const pl_use *use = &b->uses->use[0];
        pl_stream *stream = use->stream;
        bool in_vain = use->is_captured;
        pl_queue_remove(many, b); /* the next one's turn comes even if this is in vain */
        pl_queue_push(many, b);
        pl_lock_release(&space->lock);
        pleat_status failed = in_vain ? PLEAT_EPENDING : wait_for_stream(stream, wait_ms, &in_vain);
        pl_lock_acquire(&space->lock);
        st = failed != PLEAT_OK ? failed : st;
        if (failed != PLEAT_OK && !in_vain && wait_ms > 0) {
            break; /* that was the time there is */
        }
        *any = poll_many(space, is_private, SIZE_MAX) || *any;
    }
    return many->first == NULL ? PLEAT_OK : st;
}

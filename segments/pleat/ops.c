/* ops.c - the pleat allocator: allocate, free, and what users may ask of one device.
 *
 * An allocation gets the best resident fit; without one, the allocator grows (fit.h). A freed block
 * becomes free memory that pends on its stream (run.c). Beside the question whether the stream is
 * captured, the only driver calls of a free are a tick now and then, and queries of ticks. Guarded
 * by the space's lock, rank 20. */
#include "segments/pleat/ops.h"

#include "segments/pleat/buffer_ops.h"
#include "segments/pleat/capture_owner.h"
#include "segments/pleat/capture_see.h"
#include "segments/pleat/capturers.h"
#include "segments/pleat/checkpoint.h"
#include "segments/pleat/fit.h"
#include "segments/pleat/front.h"
#include "segments/pleat/kept.h"
#include "segments/pleat/lanes.h"
#include "segments/pleat/live.h"
#include "segments/pleat/look_ops.h"
#include "segments/pleat/private.h"
#include "segments/pleat/private_ops.h"
#include "segments/pleat/quick.h"
#include "segments/pleat/restore.h"
#include "segments/pleat/retire_op.h"
#include "segments/pleat/room.h"
#include "segments/pleat/room_ops.h"
#include "segments/pleat/rounding_op.h"
#include "segments/pleat/run.h"
#include "segments/pleat/settle.h"
#include "segments/pleat/share_op.h"
#include "segments/pleat/shared.h"
#include "segments/pleat/tick.h"
#include "segments/pleat/trim.h"
#include "segments/pleat/uses.h"

static pl_space *space_of(pl_allocator *a)
{
    return (pl_space *)a; /* base is its first member */
}

/* ---- allocate -------------------------------------------------------------------------------- */

/* Is the stream that the call names being captured? The driver is not asked where the caller tells,
 * nor where it was `asked` before. */
static pleat_status ask_capture(const pl_space *space, pl_stream *stream,
                                const pl_capture_info *asked, pl_capture_info *out)
{
    *out = (pl_capture_info){ .is_capturing = false };
    if (pl_capture_is_told(space, stream)) {
        return PLEAT_OK;
    }
    if (asked != NULL) {
        *out = *asked;
        return PLEAT_OK;
    }
    return pl_stream_capture(stream, out);
}

/* Undo an allocation whose block cannot be kept for its capture. */
static void take_back(pl_space *space, pl_block *b)
{
    pl_lane *lane = pl_space_lane_at(space, b->lane);

    pl_ptrmap_remove(&space->live, b->base);
    pl_fronts_end_live(space, b);
    pl_space_tell_block(space, PL_ACTION_FREE_REQUESTED, b);
    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    pl_room_end_live(b);
    lane->n_live--;
    b->segment->area->n_used--;
    pl_run_free(space, b, lane->number, pl_lane_stamp(space, lane));
}

/* A capture keeps what is allocated in it, except from a private pool. */
static pleat_status keep_for_capture(pl_space *space, pl_block *b, const pl_request *rq)
{
    if (!rq->is_capturing || pl_request_is_private(rq)) {
        return PLEAT_OK;
    }
    pleat_status st = pl_uses_add(space, b, rq->lane, rq->lane->capture, true);
    if (st == PLEAT_OK) {
        b->uses->birth = rq->lane->capture;
    }
    return st;
}

/* The number of the capture that the second lane's stream is in; 0 = not known. */
static uint64_t capture_of(const pl_space *space, const pl_lane *lane)
{
    const pl_capture *capture = pl_space_lane_at(space, pl_lane_plain(lane->number))->capture;

    return capture != NULL ? capture->number : 0;
}

static void commit(pl_space *space, pl_block *b, const pl_request *rq, size_t requested)
{
    b->requested = requested;
    b->lane = rq->lane->number;
    if (__builtin_expect(rq->lane->is_capture, false)) {
        b->tick = capture_of(space, rq->lane);
    }
    rq->lane->n_live++;
    b->segment->area->n_used++;
    pl_ptrmap_insert(&space->live, b->base, b);
    if (!pl_usages_begin_below_peak(&space->usages, pl_stats_pool(b->bytes), b->bytes, requested)) {
        pl_fronts_begin(space, pl_stats_pool(b->bytes), b->bytes, requested);
    }
    pl_room_begin_live(b);
    pl_space_tell_block(space, PL_ACTION_ALLOC, b);
}

/* Find a block for the request; one of a room, within what the room may have. */
static pleat_status find_block(pl_space *space, pl_request *rq, pl_block **out)
{
    pl_room *room = rq->pool != NULL ? rq->pool->room : NULL;

    if (room == NULL) {
        return pl_fit_find(space, rq, out);
    }
    pleat_status st = pl_room_promise(room, rq->bytes);
    if (st == PLEAT_OK) {
        st = pl_fit_find(space, rq, out);
        pl_room_forget_promise(room, rq->bytes);
    }
    return st;
}

/* The call names the request's stream, so it also records a tick that others wished for. */
static pleat_status alloc_locked(pl_space *space, pl_stream *stream, pl_request *rq,
                                 const pl_capture_info *info, size_t requested, pleat_devptr *out)
{
    pl_block *b = NULL;
    pl_lane *plain;

    rq->event = ++space->n_events;
    rq->tried.turn = ++space->n_turns;
    rq->tried.wait_turn = ++space->n_turns;
    pleat_status st = pl_lanes_of(space, stream, false, &plain);
    if (st != PLEAT_OK) {
        return st;
    }
    plain->n_refs++;
    st = pl_capture_see(space, plain, info, pl_private_of_graphs(rq->pool));
    st = st == PLEAT_OK ? pl_fit_prepare(space, plain, rq) : st;
    if (st == PLEAT_OK) {
        rq->lane->n_refs++;
        st = find_block(space, rq, &b);
        rq->lane->n_refs--;
    }
    if (st == PLEAT_OK) {
        commit(space, b, rq, requested);
        *out = b->base;
        st = keep_for_capture(space, b, rq);
        if (st != PLEAT_OK) {
            take_back(space, b);
        }
    }
    if (rq->wants_tick) {
        pl_tick_record(space, plain);
    } else {
        pl_tick_record_if_wanted(space, plain);
    }
    plain->n_refs--;
    return st;
}

/* The general way. Under the lock. */
static __attribute__((noinline)) pleat_status alloc_generally(pl_space *space, pl_private *pool,
                                                              size_t bytes, pl_stream *stream,
                                                              const pl_capture_info *info,
                                                              pleat_devptr *out)
{
    pl_request rq = {
        .pool = pool,
        .bytes = pl_space_round(space, bytes),
        .is_capturing = info->is_capturing,
    };
    bool is_inside = pl_capturers_enter(space, info->is_capturing);
    pleat_status st = alloc_locked(space, stream, &rq, info, bytes, out);

    pl_capturers_leave(space, is_inside);
    return st;
}

/* What the calling thread has put off. Returns its front before the stream, or NULL. */
static inline pl_front *catch_up(pl_space *space, const pl_stream *stream,
                                 const pl_capture_info *info)
{
    uint32_t lane = pl_lane_number(stream, false);

    if (__builtin_expect(space->fronts == NULL, true)) {
        return NULL;
    }
    pl_quick_free_all_late(space, info->is_capturing ? 0 : lane);
    return pl_fronts_own(space->fronts, lane);
}

static inline pleat_status alloc_from(pl_space *space, pl_private *pool, size_t bytes,
                                      pl_stream *stream, const pl_capture_info *asked,
                                      pleat_devptr *out)
{
    pl_capture_info info;
    pleat_status st = ask_capture(space, stream, asked, &info);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_lock_acquire(&space->lock);
    pl_front *front = catch_up(space, stream, &info);
    if (pool != NULL || info.is_capturing || space->is_rounding ||
        !pl_quick_alloc(space, front, stream, bytes, out)) {
        st = alloc_generally(space, pool, bytes, stream, &info, out);
    }
    pl_lock_release(&space->lock);
    return st;
}

static pleat_status op_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    return alloc_from(space_of(a), NULL, bytes, stream, NULL, out);
}

static pleat_status op_alloc_past(pl_allocator *a, pl_front *front, size_t bytes, pl_stream *stream,
                                  const pl_capture_info *asked, pleat_devptr *out)
{
    static const pl_capture_info at_rest = { .is_capturing = false };
    pl_space *space = space_of(a);
    bool is_told = pl_capture_is_told(space, stream);
    pl_capture_info answer;
    pleat_status st = is_told ? PLEAT_OK : ask_capture(space, stream, asked, &answer);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_lock_acquire(&space->lock);
    bool is_quick = (is_told || !answer.is_capturing) && !space->is_rounding;
    if (!is_quick || !pl_quick_alloc_past(space, front, stream, bytes, out)) {
        st = alloc_generally(space, NULL, bytes, stream, is_told ? &at_rest : &answer, out);
    }
    pl_lock_release(&space->lock);
    return st;
}

static pleat_status op_private_alloc(pl_allocator *a, pl_private *pool, size_t bytes,
                                     pl_stream *stream, pleat_devptr *out)
{
    return alloc_from(space_of(a), pool, bytes, stream, NULL, out);
}

static pleat_status op_alloc_asked(pl_allocator *a, pl_private *pool, size_t bytes,
                                   pl_stream *stream, const pl_capture_info *asked,
                                   pleat_devptr *out)
{
    return alloc_from(space_of(a), pool, bytes, stream, asked, out);
}

/* ---- free ------------------------------------------------------------------------------------ */

/* The error for `ptr`, which is not the base of a live block. */
static pleat_status not_live(pl_space *space, pleat_devptr ptr)
{
    pl_segment *seg = pl_space_segment_at(space, ptr);

    if (seg == NULL) {
        return PLEAT_EFOREIGN;
    }
    const pl_block *b = pl_segment_find(seg, ptr);
    bool is_other = b->state == PL_BLOCK_LIVE || b->state == PL_BLOCK_FLIGHT ||
                    seg->area->buffer != NULL;
    return is_other ? PLEAT_EFOREIGN : PLEAT_EDOUBLEFREE;
}

/* `plain`: the first lane of the stream that the free named. A block of its second lane that is
 * freed outside the capture pends on the first one. */
static void free_plainly(pl_space *space, pl_block *b, pl_lane *plain, bool is_capturing)
{
    pl_lane *lane = pl_space_lane_at(space, b->lane);
    size_t bytes = b->bytes;

    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    b->segment->area->n_used--;
    if (__builtin_expect(lane->is_capture, false)) {
        lane->is_mixed = lane->is_mixed || (is_capturing && b->tick != capture_of(space, lane));
        lane = is_capturing ? lane : plain;
    }
    pl_run_free(space, b, lane->number, pl_lane_stamp(space, lane));
    if (!is_capturing) {
        pl_settle_freed(space, lane, bytes);
    }
}

static void free_block(pl_space *space, pl_block *b, pl_lane *plain, bool is_capturing)
{
    pl_space_tell_block(space, PL_ACTION_FREE_REQUESTED, b);
    pl_room_end_live(b);
    pl_space_lane_at(space, b->lane)->n_live--;
    if (__builtin_expect(b->uses != NULL, false)) {
        size_t bytes = b->bytes;
        pl_shared_free(space, b, is_capturing ? plain->capture : NULL);
        if (!is_capturing) {
            pl_settle_freed(space, plain, bytes); /* when its uses are over it pends on its owner */
        }
        return;
    }
    free_plainly(space, b, plain, is_capturing);
}

/* A free on another stream than the owner counts as a use there; a free in a capture, outside
 * private pools, as a use by its graph. */
static pleat_status note_free(pl_space *space, pl_block *b, pl_lane *plain, bool is_capturing)
{
    bool is_foreign = pl_lane_plain(b->lane) != plain->number;
    bool is_kept = is_capturing && pl_private_told(b->segment->area) == NULL;

    if (!is_foreign && !is_kept) {
        return PLEAT_OK;
    }
    return pl_uses_add(space, b, plain, is_capturing ? plain->capture : NULL, is_kept);
}

/* For a call that names a stream and a block: find both, and note what the stream is doing. */
static pleat_status find_named(pl_space *space, pleat_devptr ptr, pl_stream *stream,
                               const pl_capture_info *info, pl_lane **plain, pl_block **b)
{
    *b = pl_checkpoint_await(space, ptr);
    if (*b == NULL) {
        return not_live(space, ptr);
    }
    if ((*b)->kept_in != NULL) {
        return PLEAT_EDOUBLEFREE;
    }
    pleat_status st = pl_lanes_of(space, stream, false, plain);
    if (st == PLEAT_OK) {
        (*plain)->n_refs++;
        st = pl_capture_see(space, *plain, info, NULL);
        (*plain)->n_refs--;
    }
    if (st == PLEAT_OK && info->is_capturing) { /* pl_capture_see may have dropped the lock */
        *b = pl_checkpoint_await(space, ptr);
        st = *b == NULL ? not_live(space, ptr) : PLEAT_OK;
        if (st == PLEAT_OK && pl_private_told((*b)->segment->area) != NULL) {
            pl_capture_see_use((*plain)->capture, (*b)->segment->area->pool);
        }
    }
    return st;
}

/* The general way. Under the lock. */
static __attribute__((noinline)) pleat_status free_generally(pl_space *space, pleat_devptr ptr,
                                                             pl_stream *stream,
                                                             const pl_capture_info *info)
{
    pl_lane *plain;
    pl_block *b;
    bool is_inside = pl_capturers_enter(space, info->is_capturing);
    pleat_status st = find_named(space, ptr, stream, info, &plain, &b);

    st = st == PLEAT_OK ? note_free(space, b, plain, info->is_capturing) : st;
    if (st == PLEAT_OK) {
        space->n_events++;
        pl_ptrmap_remove(&space->live, ptr);
        pl_fronts_end_live(space, b);
        free_block(space, b, plain, info->is_capturing);
    }
    pl_capturers_leave(space, is_inside);
    return st;
}

/* `stream` may be a guess, and its handle another stream's by now. That one's work is over as well
 * before anybody gets the block: it, or its use, pends on the lane of the stream that is gone. No
 * request names that stream any more, and no tick is recorded for it, so only a tick of the context
 * ends the waiting; and that stands behind the work of both. */
static inline pleat_status free_from(pl_space *space, pleat_devptr ptr, pl_stream *stream,
                                     const pl_capture_info *asked)
{
    pl_capture_info info;
    pleat_status st = ask_capture(space, stream, asked, &info);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_lock_acquire(&space->lock);
    (void)catch_up(space, stream, &info);
    if (info.is_capturing || !pl_quick_free(space, stream, ptr)) {
        st = free_generally(space, ptr, stream, &info);
    }
    pl_lock_release(&space->lock);
    return st;
}

static pleat_status op_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    return free_from(space_of(a), ptr, stream, NULL);
}

static pleat_status op_free_asked(pl_allocator *a, pleat_devptr ptr, pl_stream *stream,
                                  const pl_capture_info *asked)
{
    return free_from(space_of(a), ptr, stream, asked);
}

static pleat_status op_free_own(pl_allocator *a, pleat_devptr ptr)
{
    pl_space *space = space_of(a);
    bool is_known = pl_capture_all_told(space);

    pl_lock_acquire(&space->lock);
    if (space->fronts != NULL) {
        pl_quick_free_all_late(space, 0);
    }
    pleat_status st = pl_quick_free_own(space, ptr, is_known);
    pl_lock_release(&space->lock);
    return st;
}

static pleat_status op_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    pl_space *space = space_of(a);
    pl_capture_info info;
    pl_lane *plain;
    pl_block *b;
    pleat_status st = ask_capture(space, stream, NULL, &info);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_lock_acquire(&space->lock);
    bool is_inside = pl_capturers_enter(space, info.is_capturing);
    st = find_named(space, ptr, stream, &info, &plain, &b);
    if (st == PLEAT_OK) {
        bool is_foreign = pl_lane_plain(b->lane) != plain->number;
        if (is_foreign) {
            st = pl_uses_add(space, b, plain, info.is_capturing ? plain->capture : NULL, false);
        }
        pl_tick_record_if_wanted(space, plain);
    }
    pl_capturers_leave(space, is_inside);
    pl_lock_release(&space->lock);
    return st;
}

const pl_allocator_ops pl_pleat_ops = {
    .name = "pleat",
    .needs_vmm = true,
    .options = &pl_pleat_option_table,
    .create = pl_pleat_create,
    .destroy = pl_pleat_destroy,
    .alloc = op_alloc,
    .alloc_asked = op_alloc_asked,
    .alloc_past = op_alloc_past,
    .takes_guesses = true,
    .free = op_free,
    .free_asked = op_free_asked,
    .free_own = op_free_own,
    .front_bind = pl_pleat_front_bind,
    .front_unbind = pl_pleat_front_unbind,
    .record_stream = op_record_stream,
    .query = pl_pleat_query,
    .share = pl_pleat_share,
    .trim = pl_pleat_trim,
    .set_limit = pl_pleat_set_limit,
    .set_rounding = pl_pleat_set_rounding,
    .compact = pl_pleat_compact,
    .release_capture = pl_pleat_release_capture,
    .release_capture_of = pl_pleat_release_capture_of,
    .let_captures_go = pl_pleat_let_captures_go,
    .retire_stream = pl_pleat_retire_stream,
    .expect_captures = pl_pleat_expect_captures,
    .private_open = pl_pleat_private_open,
    .private_alloc = op_private_alloc,
    .private_rest = pl_pleat_private_rest,
    .private_release = pl_pleat_private_release,
    .private_gone = pl_pleat_private_gone,
    .private_reserved = pl_pleat_private_reserved,
    .private_save = pl_pleat_private_save,
    .private_restore = pl_pleat_private_restore,
    .roster_drop = pl_pleat_roster_drop,
    .private_alloc_at = pl_pleat_private_alloc_at,
    .buffer_open = pl_pleat_buffer_open,
    .buffer_change = pl_pleat_buffer_change,
    .buffer_query = pl_pleat_buffer_query,
    .room_open = pl_pleat_room_open,
    .room_set_limit = pl_pleat_room_set_limit,
    .room_read = pl_pleat_room_read,
    .room_sleep = pl_pleat_room_sleep,
    .room_wake = pl_pleat_room_wake,
    .room_share = pl_pleat_room_share,
    .room_retain = pl_pleat_room_retain,
    .room_kept = pl_pleat_room_kept,
    .stats = pl_pleat_stats,
    .reset_peaks = pl_pleat_reset_peaks,
    .visit = pl_pleat_visit,
    .visit_some = pl_pleat_visit_some,
    .check = pl_pleat_check,
};

/* free_op.c - how a block is freed, and how a use is recorded. Under the space's lock, rank 20.
 *
 * A freed block becomes free memory that pends on its stream (run.c). The driver is asked whether
 * the stream is captured. Further driver calls are only a tick now and then, and queries of
 * ticks. */
#include "segments/pleat/ops/ops.h"
#include "segments/pleat/space/back.h"

#include "segments/pleat/ops/quick.h"
#include "segments/pleat/pools/checkpoint.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/ledger.h"
#include "segments/pleat/space/live.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/lanes.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/shared.h"
#include "segments/pleat/streams/tick.h"

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

/* `plain`: the first lane of the stream that orders the free. If freed outside the capture, a block
 * of the second lane pends on the first. */
static void free_plainly(pl_space *space, pl_block *b, pl_lane *plain, bool is_capturing,
                         bool is_named)
{
    pl_lane *lane = pl_space_lane_at(space, b->lane);
    size_t bytes = b->bytes;

    pl_ledger_completed(space, b);
    if (__builtin_expect(lane->is_capture, false)) {
        lane->is_mixed = lane->is_mixed ||
                         (is_capturing && b->stamp != pl_capture_number_of(space, lane));
        lane = is_capturing ? lane : plain;
    }
    pl_run_free(space, b, lane->number, pl_lane_stamp(space, lane));
    if (!is_capturing) {
        (void)pl_settle_freed(space, lane, bytes, is_named);
    }
}

/* is_named: the call named the stream of `plain`, or the stream stays. */
static void free_block(pl_space *space, pl_block *b, pl_lane *plain, bool is_capturing,
                       bool is_named)
{
    pl_ledger_freed(space, b);
    if (__builtin_expect(b->uses != NULL, false)) {
        size_t bytes = b->bytes;
        pl_shared_free(space, b, is_capturing ? plain->capture : NULL);
        if (!is_capturing) {
            /* after its uses the block pends on its owner */
            (void)pl_settle_freed(space, plain, bytes, is_named);
        }
        return;
    }
    free_plainly(space, b, plain, is_capturing, is_named);
}

/* A free on a stream besides the owner counts as a use on the stream. A free in a capture, outside
 * private pools, counts as a use by the graph. */
static pleat_status note_free(pl_space *space, pl_block *b, pl_lane *plain, bool is_capturing)
{
    bool is_foreign = pl_lane_plain(b->lane) != plain->number;
    bool is_captured = is_capturing && pl_keeper_told(b->segment->area) == NULL;

    if (!is_foreign && !is_captured) {
        return PLEAT_OK;
    }
    return pl_uses_add(space, b, plain, is_capturing ? plain->capture : NULL, is_captured);
}

static pleat_status free_found(pl_space *space, pl_block *b, pl_lane *plain, bool is_capturing,
                               bool is_named)
{
    pleat_status st = note_free(space, b, plain, is_capturing);

    if (st == PLEAT_OK) {
        free_block(space, b, plain, is_capturing, is_named);
    }
    return st;
}

static void see_use(const pl_lane *plain, const pl_block *b, bool is_capturing)
{
    if (is_capturing && pl_keeper_told(b->segment->area) != NULL) {
        pl_capture_see_use(plain->capture, b->segment->area->keeper);
    }
}

/* The live block at ptr, once no restore is about to free it. May drop the lock. */
static pleat_status find_block(pl_space *space, pleat_devptr ptr, pl_block **b)
{
    *b = pl_checkpoint_await(space, ptr);
    if (*b == NULL) {
        return not_live(space, ptr);
    }
    return (*b)->is_claimed ? PLEAT_EDOUBLEFREE : PLEAT_OK;
}

/* For calls that name a stream and a block: find both, and note the capture of the stream. In a
 * capture the lock may be dropped until both are found. Meanwhile the lane stays, but the block may
 * go, and another call may see the capture end. */
static pleat_status find_named(pl_space *space, pleat_devptr ptr, pl_stream *stream,
                               pl_capture_info *info, pl_lane **plain, pl_block **b)
{
    pleat_status st = find_block(space, ptr, b);

    st = st == PLEAT_OK ? pl_lanes_of(space, stream, false, plain) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    bool may_drop = info->is_capturing;
    (*plain)->n_refs++;
    do {
        st = pl_capture_see(space, *plain, info, NULL);
        st = st == PLEAT_OK && may_drop ? find_block(space, ptr, b) : st;
    } while (st == PLEAT_OK && info->is_capturing && (*plain)->capture == NULL);
    (*plain)->n_refs--;
    if (st == PLEAT_OK) {
        see_use(*plain, *b, info->is_capturing);
    }
    return st;
}

/* The general way. Under the lock. */
static __attribute__((noinline)) pleat_status free_generally(pl_space *space, pleat_devptr ptr,
                                                             pl_stream *stream,
                                                             pl_capture_info *info)
{
    pl_lane *plain;
    pl_block *b;
    bool is_inside = pl_capturers_enter(space, info->is_capturing);
    pleat_status st = find_named(space, ptr, stream, info, &plain, &b);

    st = st == PLEAT_OK ? free_found(space, b, plain, info->is_capturing, true) : st;
    pl_capturers_leave(space, is_inside);
    return st;
}

/* `stream` may be a guess, and its handle may belong to a new stream by now. The work of both
 * streams is over before anybody gets the block. For the block, or its use, pends on the lane of
 * the gone stream. No request names the gone stream any more, and no tick is recorded. So only a
 * tick of the context ends the wait, and the tick stands behind the work of both streams. */
static inline pleat_status free_from(pl_space *space, pleat_devptr ptr, pl_stream *stream,
                                     const pl_capture_info *asked)
{
    pl_capture_info info;
    pleat_status st = pl_capture_ask_about(space, stream, asked, &info);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_space_enter(space);
    if (info.is_capturing || space->is_rounding || !pl_quick_free(space, stream, ptr)) {
        st = free_generally(space, ptr, stream, &info);
    }
    pl_space_leave(space);
    return st;
}

pleat_status pl_pleat_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    return free_from((pl_space *)a, ptr, stream, NULL);
}

pleat_status pl_pleat_free_asked(pl_allocator *a, pleat_devptr ptr, pl_stream *stream,
                                 const pl_capture_info *asked)
{
    return free_from((pl_space *)a, ptr, stream, asked);
}

/* May the block's stream be in a capture, and may the driver be asked? Not if the stream may be
 * gone. Then the answer to the last call that named the stream counts. */
static bool may_ask(const pl_space *space, const pl_lane *plain)
{
    return pl_due_stays(plain) && !pl_capture_is_told(space, plain->stream) && !plain->is_recording;
}

/* Ask like a tick: a retirement of the stream waits for the answer. Drops the lock. */
static pleat_status ask(pl_space *space, pl_lane *plain, pl_capture_info *info)
{
    plain->is_recording = true;
    pl_away(space);
    pleat_status st = pl_stream_capture(plain->stream, info);
    pl_back(space);
    plain->is_recording = false;
    pl_space_wake(space);
    return st;
}

/* The general way of a free that names no stream. Under the lock, and may drop the lock. */
static pleat_status free_own_generally(pl_space *space, pleat_devptr ptr)
{
    pl_block *b = pl_checkpoint_await(space, ptr);

    if (b == NULL) {
        return not_live(space, ptr);
    }
    if (b->is_claimed) {
        return PLEAT_EDOUBLEFREE;
    }
    pl_lane *plain = pl_space_lane_at(space, pl_lane_plain(b->lane));
    if (!may_ask(space, plain)) {
        bool is_capturing = plain->capture != NULL && !pl_capture_has_ended(plain->capture) &&
                            !pl_capture_is_told(space, plain->stream);
        see_use(plain, b, is_capturing);
        return free_found(space, b, plain, is_capturing, pl_due_stays(plain));
    }
    pl_capture_info info;
    plain->n_refs++;
    pleat_status st = ask(space, plain, &info);
    st = st == PLEAT_OK ? free_generally(space, ptr, plain->stream, &info) : st;
    plain->n_refs--;
    return st;
}

pleat_status pl_pleat_free_own(pl_allocator *a, pleat_devptr ptr)
{
    pl_space *space = pl_space_enter((pl_space *)a);
    bool is_told = pl_capture_all_told(space);

    bool is_done = !space->is_rounding && pl_quick_free_own(space, ptr, is_told);
    pleat_status st = is_done ? PLEAT_OK : free_own_generally(space, ptr);
    pl_space_leave(space);
    return st;
}

pleat_status pl_pleat_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    pl_space *space = (pl_space *)a;
    pl_capture_info info;
    pl_lane *plain;
    pl_block *b;
    pleat_status st = pl_capture_ask_about(space, stream, NULL, &info);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_space_enter(space);
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
    pl_space_leave(space);
    return st;
}

/* ops.c - the pleat allocator: allocations, and the table of operations.
 *
 * An allocation gets the best resident fit. If no block fits, the allocator grows (grow.h). Guarded
 * by the space's lock, rank 20. */

#include "segments/pleat/ops/ops.h"

#include "segments/pleat/compact/compact.h"
#include "segments/pleat/grow/grow.h"
#include "segments/pleat/grow/trim.h"
#include "segments/pleat/ops/quick.h"
#include "segments/pleat/pools/pool_ops.h"
#include "segments/pleat/sleep/tag_ops.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/ledger.h"
#include "segments/pleat/space/live.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/lanes.h"
#include "segments/pleat/streams/owner_ops.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/shared.h"
#include "segments/pleat/streams/tick.h"

/* ---- allocate -------------------------------------------------------------------------------- */

/* Undo an allocation if the block cannot be kept for its capture. */
static void take_back(pl_space *space, pl_block *b)
{
    pl_lane *lane = pl_space_lane_at(space, b->lane);

    pl_ledger_freed(space, b);
    pl_ledger_completed(space, b);
    pl_run_free(space, b, lane->number, pl_lane_stamp(space, lane));
}

/* A capture keeps the blocks that its calls allocate, except from a private pool. */
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

static void commit(pl_space *space, pl_block *b, const pl_request *rq, size_t requested)
{
    if (__builtin_expect(rq->lane->is_capture, false)) {
        b->stamp = pl_capture_number_of(space, rq->lane);
    }
    pl_ledger_born(space, rq->lane, b, requested);
}

/* The call names the request's stream, so a wished-for tick is recorded, too. */
static pleat_status alloc_locked(pl_space *space, pl_stream *stream, pl_request *rq,
                                 pl_capture_info *info, size_t requested, pleat_devptr *out)
{
    pl_block *b = NULL;
    pl_lane *plain;

    space->n_calls++;
    pleat_status st = pl_lanes_of(space, stream, false, &plain);
    if (st != PLEAT_OK) {
        return st;
    }
    plain->n_refs++;
    st = pl_capture_see(space, plain, info, pl_request_is_private(rq) ? rq->keeper : NULL);
    rq->is_capturing = info->is_capturing;
    st = st == PLEAT_OK ? pl_fit_prepare(space, plain, rq) : st;
    if (st == PLEAT_OK) {
        rq->lane->n_refs++;
        st = pl_request_serve(space, rq, &b);
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
static __attribute__((noinline)) pleat_status alloc_generally(pl_space *space, pl_keeper *keeper,
                                                              size_t bytes, pl_stream *stream,
                                                              pl_capture_info *info,
                                                              pleat_devptr *out)
{
    pl_request rq = { .keeper = keeper, .bytes = pl_space_round(space, bytes) };
    bool is_inside = pl_capturers_enter(space, info->is_capturing);
    pleat_status st = alloc_locked(space, stream, &rq, info, bytes, out);

    pl_capturers_leave(space, is_inside);
    return st;
}

static pleat_status op_alloc_asked(pl_allocator *a, pl_keeper *keeper, size_t bytes,
                                   pl_stream *stream, const pl_capture_info *asked,
                                   pleat_devptr *out)
{
    pl_space *space = (pl_space *)a;
    pl_capture_info info;
    pleat_status st = pl_capture_ask_about(space, stream, asked, &info);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_space_enter(space);
    if (keeper != NULL || info.is_capturing || space->is_rounding ||
        !pl_quick_alloc(space, stream, bytes, out)) {
        st = alloc_generally(space, keeper, bytes, stream, &info, out);
    }
    pl_space_leave(space);
    return st;
}

static pleat_status op_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    return op_alloc_asked(a, NULL, bytes, stream, NULL, out);
}

/* ---- the tables ------------------------------------------------------------------------------ */

static const pl_pool_ops pool_ops = {
    .open = pl_pleat_private_open,
    .rest = pl_pleat_private_rest,
    .release = pl_pleat_private_release,
    .gone = pl_pleat_private_gone,
    .reserved = pl_pleat_private_reserved,
    .save = pl_pleat_private_save,
    .restore = pl_pleat_private_restore,
    .drop_roster = pl_pleat_roster_drop,
    .alloc_at = pl_pleat_private_alloc_at,
};

static const pl_buffer_ops buffer_ops = {
    .open = pl_pleat_buffer_open,
    .change = pl_pleat_buffer_change,
    .query = pl_pleat_buffer_query,
};

static const pl_tag_ops tag_ops = {
    .open = pl_pleat_heap_open,
    .set_limit = pl_pleat_heap_set_limit,
    .read = pl_pleat_heap_read,
    .sleep = pl_pleat_heap_sleep,
    .wake = pl_pleat_heap_wake,
    .share = pl_pleat_heap_share,
    .retain = pl_pleat_heap_retain,
    .kept = pl_pleat_heap_kept,
};

const pl_allocator_ops pl_pleat_ops = {
    .name = "pleat",
    .needs_vmm = true,
    .options = &pl_pleat_option_table,
    .create = pl_pleat_create,
    .destroy = pl_pleat_destroy,
    .alloc = op_alloc,
    .alloc_asked = op_alloc_asked,
    .takes_guesses = true,
    .free = pl_pleat_free,
    .free_asked = pl_pleat_free_asked,
    .free_own = pl_pleat_free_own,
    .record_stream = pl_pleat_record_stream,
    .query = pl_pleat_query,
    .share = pl_pleat_share,
    .trim = pl_pleat_trim,
    .set_limit = pl_pleat_set_limit,
    .set_rounding = pl_pleat_set_rounding,
    .compact = pl_pleat_compact,
    .count_tied = pl_pleat_count_tied,
    .release_capture_of = pl_pleat_release_capture_of,
    .let_captures_go = pl_pleat_let_captures_go,
    .retire_stream = pl_pleat_retire_stream,
    .expect_captures = pl_pleat_expect_captures,
    .pools = &pool_ops,
    .buffers = &buffer_ops,
    .tags = &tag_ops,
    .stats = pl_pleat_stats,
    .reset_peaks = pl_pleat_reset_peaks,
    .visit = pl_pleat_visit,
    .visit_some = pl_pleat_visit_some,
    .check = pl_pleat_check,
};

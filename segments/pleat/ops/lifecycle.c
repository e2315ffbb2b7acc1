/* lifecycle.c - how a space is created and destroyed; its rounding. */
#include <string.h>

#include "segments/base/rounding.h"
#include "segments/pleat/buffers/buffer.h"
#include "segments/pleat/compact/still.h"
#include "segments/pleat/grow/policy.h"
#include "segments/pleat/ops/ops.h"
#include "segments/pleat/space/back.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"
#include "vmm/driver.h"

/* ---- create ---------------------------------------------------------------------------------- */

static bool is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

static void init_sizes(pl_space *space, pl_device *dev, const pl_allocator_options *options)
{
    space->dev = dev;
    space->options = pl_pleat_own(options);
    space->observer = options->observer;
    memcpy(space->roundup_divisions, options->roundup_divisions, sizeof space->roundup_divisions);
    space->is_rounding = pl_rounding_is_on(space->roundup_divisions);
    if (pl_device_is_host(dev)) { /* an order would hold up a stream, but not the host */
        space->options.cross_stream = PL_CROSS_SETTLED;
    }
    space->chunks.limit_bytes = options->limit_bytes;
    space->wait_ms = options->wait_ms;
    enum { SMALL_BYTES = 128 << 10, SMALL_PARTS = 16 /* of a granule */ };
    space->granule_bytes = pl_device_chunk_bytes(dev);
    size_t part = space->granule_bytes / SMALL_PARTS;
    space->small_bytes = part < SMALL_BYTES ? part : SMALL_BYTES;
    space->granule_log2 = (unsigned)__builtin_ctzll(space->granule_bytes);
    space->chunks.total_granules = (size_t)(pl_device_total_bytes(dev) >> space->granule_log2);
    space->chunks.reserve_granules = pl_reserve_of(space);
    space->chunks.limit_granules = options->limit_bytes == 0
                                       ? SIZE_MAX
                                       : (size_t)(options->limit_bytes >> space->granule_log2);
    space->chunks.full_at = SIZE_MAX;
    space->streams.newest_stamp = 1;
}

/* A driver gives no more chunks than the device has. */
static size_t idle_bytes(const pl_space *space, unsigned order)
{
    return ((space->chunks.total_granules >> order) + 1) * sizeof(pl_chunk);
}

static void unreserve_idle(pl_space *space)
{
    for (unsigned k = 0; k < PL_N_ORDERS; k++) {
        if (space->chunks.idle[k].chunks != NULL) {
            pl_meta_unreserve(&space->meta, space->chunks.idle[k].chunks, idle_bytes(space, k), 0);
        }
    }
}

static pleat_status reserve_idle(pl_space *space)
{
    for (unsigned k = 0; k < PL_N_ORDERS; k++) {
        space->chunks.idle[k].chunks = pl_meta_reserve(&space->meta, idle_bytes(space, k));
        if (space->chunks.idle[k].chunks == NULL) {
            unreserve_idle(space);
            return PLEAT_ENOMEM_HOST;
        }
    }
    return PLEAT_OK;
}

pleat_status pl_pleat_create(pl_device *dev, const pl_allocator_options *options,
                             pl_allocator **out)
{
    pl_meta meta;

    if (!pl_device_has_vmm(dev)) {
        return PLEAT_ENOVMM;
    }
    if (!pl_rounding_is_good(options->roundup_divisions)) {
        return PLEAT_ECONF;
    }
    if (!is_power_of_two(pl_device_chunk_bytes(dev))) {
        pl_driver_set_detail("chunk_granules has to be a power of two");
        return PLEAT_EINVAL;
    }
    pleat_status st = pl_meta_init(&meta);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_space *space = pl_meta_calloc(&meta, 1, sizeof(*space));
    if (space == NULL) {
        st = PLEAT_ENOMEM_HOST;
        goto undo_host;
    }
    pl_lock_init(&space->lock, PL_RANK_DEVICE);
    init_sizes(space, dev, options);
    space->meta = meta;
    st = reserve_idle(space);
    if (st != PLEAT_OK) {
        meta = space->meta;
        goto undo_space;
    }
    space->base.ops = &pl_pleat_ops;
    pl_block_store_init(&space->blocks.store, &space->meta);
    pl_space_init_segments(space);
    pl_ptrmap_init(&space->blocks.live);
    *out = &space->base;
    return PLEAT_OK;

undo_space:
    pl_lock_fini(&space->lock);
    pl_meta_free(&meta, space);
undo_host:
    (void)pl_meta_fini(&meta);
    return st;
}

/* ---- destroy --------------------------------------------------------------------------------- */

/* Wait for the recorded ticks of every lane, which disturbs no capture. */
static void wait_for_ticks(pl_space *space)
{
    for (uint32_t i = 0; i < space->streams.capacity; i++) {
        if (space->streams.lanes[i] != NULL) {
            (void)!pl_tick_wait(space, space->streams.lanes[i], UINT32_MAX);
        }
    }
}

/* Live, shared and captured blocks count as in use: nothing tells when their work is over. */
static bool is_block_over(const pl_space *space, const pl_block *b)
{
    switch (b->state) {
    case PL_BLOCK_FREE:
    case PL_BLOCK_STALE:
        return pl_settle_is_over(space, b);
    case PL_BLOCK_HOLE:
        return true;
    default:
        return false;
    }
}

/* In a private pool even settled blocks may still be used by the pool's graphs. */
static bool is_segment_over(const pl_space *space, const pl_segment *seg)
{
    if (seg->is_private) {
        return false;
    }
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        if (!is_block_over(space, b)) {
            return false;
        }
    }
    return true;
}

static bool is_all_over(const pl_space *space)
{
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        if (!is_segment_over(space, seg)) {
            return false;
        }
    }
    return true;
}

/* The allocator ends, so a refused call has no later chance: try twice. */
#define TWICE(call) ((call) == PLEAT_OK || (call) == PLEAT_OK)

/* Memory must not be unmapped while work runs on the memory. First wait for the ticks, which
 * disturbs no capture. If they do not cover everything, synchronise the whole context, gone streams
 * included. A capture under way breaks then, but pleat does not always know whether a capture has
 * ended. Returns whether all is over. */
static bool wait_for_streams(pl_space *space)
{
    pl_space_enter(space);
    wait_for_ticks(space);
    pl_space_leave(space);
    return is_all_over(space) || TWICE(pl_device_drain(space->dev));
}

static bool is_refused(const pl_block *b)
{
    return b->state == PL_BLOCK_STALE && b->is_refused;
}

static bool is_mapped(const pl_block *b)
{
    return b->state != PL_BLOCK_HOLE && !is_refused(b);
}

static void clear(const pl_space *space, pleat_devptr at, size_t n_granules, size_t *n_leaked)
{
    if (!TWICE(pl_mapping_clear(space->dev, at, n_granules << space->granule_log2))) {
        *n_leaked += n_granules;
    }
}

/* Unmap the longest mapped run that starts at b. Returns the block behind the run. */
static const pl_block *unmap_run(pl_space *space, const pl_block *b, size_t *n_leaked)
{
    const pl_block *first = b;

    while (b->next != NULL && is_mapped(b->next)) {
        b = b->next;
    }
    size_t bytes = (size_t)(pl_block_end(b) - first->base);
    if (pl_mapping_unmap(space->dev, first->base, bytes) != PLEAT_OK) {
        clear(space, first->base, bytes >> space->granule_log2, n_leaked);
    }
    return b->next;
}

/* A compaction's undo failed in the segment, or its heap sleeps. Some of the chunks are not mapped,
 * so every chunk is cleared by itself. */
static void unmap_torn(pl_space *space, const pl_segment *seg, size_t *n_leaked)
{
    for (size_t g = 0; g < seg->capacity; g = pl_segment_chunk_to(seg, g)) {
        if (seg->chunks[g] != 0 && seg->chunks[g] != PL_CHUNK_ASLEEP) {
            clear(space, pl_segment_address(seg, g), (size_t)1 << seg->orders[g], n_leaked);
        }
    }
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state == PL_BLOCK_STALE) {
            clear(space, b->base, b->bytes >> space->granule_log2, n_leaked);
        }
    }
}

static void unmap_segment(pl_space *space, const pl_segment *seg, size_t *n_leaked)
{
    const pl_block *b = seg->first;

    if (seg == space->flights.torn.segment || pl_keeper_is_shut(seg->area->keeper)) {
        unmap_torn(space, seg, n_leaked);
        return;
    }
    while (b != NULL) {
        if (is_mapped(b)) {
            b = unmap_run(space, b, n_leaked);
            continue;
        }
        if (is_refused(b)) {
            clear(space, b->base, b->bytes >> space->granule_log2, n_leaked);
        }
        b = b->next;
    }
}

static void release_chunk(pl_space *space, pl_chunk chunk, unsigned order, size_t *n_leaked)
{
    *n_leaked += !TWICE(pl_chunk_release_sized(space->dev, chunk, space->granule_bytes << order));
}

static void release_idle(pl_space *space, size_t *n_leaked)
{
    for (unsigned k = 0; k < PL_N_ORDERS; k++) {
        while (space->chunks.idle[k].n > 0) {
            release_chunk(space, pl_space_pop_idle(space, k), k, n_leaked);
        }
    }
}

/* Does the granule begin, or hold, a chunk of its own? */
static bool has_own_chunk(const pl_segment *seg, size_t g)
{
    return seg->chunks[g] != 0 && seg->chunks[g] != PL_CHUNK_ASLEEP;
}

static void release_segment(pl_space *space, const pl_segment *seg, size_t *n_leaked)
{
    for (size_t g = 0; g < seg->capacity; g = pl_segment_chunk_to(seg, g)) {
        if (has_own_chunk(seg, g)) {
            release_chunk(space, seg->chunks[g], seg->orders[g], n_leaked);
        }
    }
    *n_leaked += !TWICE(pl_range_release(space->dev, seg->reserved));
}

/* The segment may still be in use: leave its mappings and chunks to the driver. */
static void leave_segment(const pl_segment *seg, size_t *n_leaked)
{
    for (size_t g = 0; g < seg->capacity; g = pl_segment_chunk_to(seg, g)) {
        *n_leaked += has_own_chunk(seg, g);
    }
    (*n_leaked)++;
}

/* Try once more to undo a failed compaction. */
static void clear_scratch(pl_space *space, size_t *n_leaked)
{
    pl_space_enter(space);
    (void)!pl_torn_mend(space);
    if (pl_scratch_close(space) != PLEAT_OK && pl_scratch_close(space) != PLEAT_OK) {
        *n_leaked += 1 + space->flights.scratched.n;
    }
    pl_space_leave(space);
}

/* Everything is unmapped before any chunk is released: a taken chunk may be mapped in two
 * segments. */
static void release_memory(pl_space *space, bool is_over, size_t *n_leaked)
{
    for (pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        seg->is_left = !is_over && !is_segment_over(space, seg);
        if (!seg->is_left) {
            unmap_segment(space, seg, n_leaked);
        }
    }
    release_idle(space, n_leaked);
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        if (seg->is_left) {
            leave_segment(seg, n_leaked);
        } else {
            release_segment(space, seg, n_leaked);
        }
    }
}

static void free_lanes(pl_space *space)
{
    for (uint32_t i = 0; i < space->streams.capacity; i++) {
        pl_lane *lane = space->streams.lanes[i];
        for (; lane != NULL && lane->n_ticks > 0; lane->n_ticks--) {
            pl_fence_return(lane->ticks[lane->first_tick].fence);
            lane->first_tick = (lane->first_tick + 1) % PL_LANE_TICKS;
        }
        pl_meta_free(&space->meta, lane);
    }
    pl_meta_free(&space->meta, space->streams.lanes);
    pl_fence_return(space->streams.context.tick.fence);
}

static void free_uses(pl_space *space)
{
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        for (pl_block *b = seg->first; b != NULL; b = b->next) {
            pl_meta_free(&space->meta, b->uses);
        }
    }
}

/* Take back captures that were announced and not ended. */
static void forget_expected(pl_space *space)
{
    for (size_t n = atomic_load(&space->captures.n_expected); n > 0; n--) {
        pl_device_note_capture(space->dev, false);
    }
}

static void free_metadata(pl_space *space)
{
    forget_expected(space);
    free_uses(space);
    free_lanes(space);
    pl_capture_free_all(space);
    pl_capturers_forget_all(space);
    pl_buffer_destroy_all(space);
    for (int class = 0; class < PL_N_CLASSES; class ++) {
        for (unsigned i = 0; i < space->places.n_areas[class]; i++) {
            pl_area_destroy(&space->meta, space->places.areas[class][i]);
        }
    }
    pl_keeper_destroy_all(space);
    unreserve_idle(space);
    pl_ptrmap_fini(&space->blocks.live, &space->meta);
    pl_block_store_fini(&space->blocks.store);
}

pleat_status pl_pleat_destroy(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    *n_live = space->blocks.live.count + space->places.n_buffers;
    *n_leaked = 0;
    pl_space_leave(space);
    if (*n_live > 0 && !force) {
        return PLEAT_EBUSY;
    }
    bool is_over = space->places.segments.count == 0 || wait_for_streams(space);
    clear_scratch(space, n_leaked);
    release_memory(space, is_over, n_leaked);
    free_metadata(space);
    pl_lock_fini(&space->lock);
    pl_meta meta = space->meta;
    pl_meta_free(&meta, space);
    size_t left = pl_meta_fini(&meta);
    pl_assert(left == 0);
    (void)left;
    return PLEAT_OK;
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* The quick way knows no further size than the requested one, rounded to the quantum. So while
 * requests are made larger, every call takes the general way. Live blocks keep their size. */
void pl_pleat_set_rounding(pl_allocator *a, const unsigned divisions[PL_N_DIVISIONS])
{
    pl_space *space = pl_space_enter((pl_space *)a);

    memcpy(space->roundup_divisions, divisions, sizeof space->roundup_divisions);
    space->is_rounding = pl_rounding_is_on(divisions);
    pl_space_leave(space);
}

/* figures.c - the statistics of a device, and their peaks: see check.h. */
#include "segments/pleat/ops/check.h"

#include "segments/pleat/space/live.h"

/* ---- live blocks ----------------------------------------------------------------------------- */

static void read_group(const pl_usage group[PLEAT_N_SIZES], pleat_stat out[PLEAT_N_SIZES])
{
    uint64_t all_freed = group[PLEAT_SIZES_SMALL].freed + group[PLEAT_SIZES_LARGE].freed;

    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        uint64_t freed = i == PLEAT_SIZES_ALL ? all_freed : group[i].freed;
        uint64_t current = group[i].current;
        out[i] = (pleat_stat){
            .current = current,
            .peak = group[i].peak,
            .allocated = current + freed,
            .freed = freed,
        };
    }
}

void pl_usages_read(const pl_usages *u, pleat_stats *out)
{
    read_group(u->n, out->allocation);
    read_group(u->bytes, out->allocated_bytes);
    read_group(u->requested, out->requested_bytes);
}

static void reset_group(pl_usage group[PLEAT_N_SIZES])
{
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        group[i].peak = group[i].current;
    }
}

void pl_usages_reset_peaks(pl_usages *u)
{
    reset_group(u->n);
    reset_group(u->bytes);
    reset_group(u->requested);
}

/* ---- all figures ----------------------------------------------------------------------------- */

static size_t less(size_t n, size_t by)
{
    return n > by ? n - by : 0;
}

/* The part of the tally shown in the statistics. */
typedef struct freed {
    size_t n_free;
    size_t free_bytes;    /* for any stream at once */
    size_t pending_bytes; /* for one stream only */
    size_t n_shared;
    size_t shared_bytes; /* for no stream yet */
} freed;

/* With one stream, pending memory is as good as settled. */
static freed read_freed(const pl_space *space)
{
    const pl_tally *tally = &space->blocks.store.tally;
    const pl_space_streams *streams = &space->streams;
    size_t pending = pl_space_has_many_lanes(space)
                         ? streams->n_pending_bytes + streams->n_private_pending_bytes
                         : 0;

    return (freed){
        .n_free = tally->n_blocks[PL_BLOCK_FREE],
        .free_bytes = tally->bytes[PL_BLOCK_FREE] - pending,
        .pending_bytes = pending,
        .n_shared = tally->n_blocks[PL_BLOCK_SHARED],
        .shared_bytes = tally->bytes[PL_BLOCK_SHARED],
    };
}

/* Shared blocks count as active. The tally does not know their sizes: all count as large. */
static void add_shared(pleat_stat *group, size_t n)
{
    group->current += n;
    group->freed -= n;
    group->peak = group->peak > group->current ? group->peak : group->current;
}

static void fill_groups(const pl_space *space, const freed *f, pleat_stats *out)
{
    uint64_t resident = (uint64_t)space->chunks.n_held << space->granule_log2;
    uint64_t released = space->chunks.n_released << space->granule_log2;
    /* Free memory that cannot go back to the driver: live bytes share the granule or the chunk. */
    size_t bound = less(f->free_bytes + f->pending_bytes,
                        space->chunks.n_loose << space->granule_log2);
    static const int pools[] = { PLEAT_SIZES_ALL, PLEAT_SIZES_LARGE };

    for (int pool = 0; pool < PLEAT_N_SIZES; pool++) {
        out->active[pool] = out->allocation[pool];
        out->active_bytes[pool] = out->allocated_bytes[pool];
    }
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        int pool = pools[i];
        add_shared(&out->active[pool], f->n_shared);
        add_shared(&out->active_bytes[pool], f->shared_bytes);
        out->inactive_split[pool] = (pleat_stat){ .current = f->n_free, .peak = f->n_free };
        out->inactive_split_bytes[pool] = (pleat_stat){ .current = bound, .peak = bound };
        out->reserved_bytes[pool] = (pleat_stat){
            .current = resident,
            .peak = (uint64_t)space->chunks.peak_held << space->granule_log2,
            /* not bytes_created, which counts a flight's chunks before the flight has landed */
            .allocated = resident + released,
            .freed = released,
        };
        out->segment[pool] = (pleat_stat){
            /* segments stay until the end */
            .current = space->places.segments.count,
            .peak = space->places.segments.count,
            .allocated = space->places.segments.count,
        };
    }
}

/* Granules that are not loose are shown in one of four ways. Live granules have bytes of live
 * blocks. Pending granules have shared bytes only. Tied granules have settled or pending bytes
 * only. All further granules are pinned, except those of requests in flight, which may fail.
 * Granules of a sleeping heap have no memory, and are not shown. A flight that puts much back drops
 * the lock on the way. Until landing, its granules count in two ways. The peak is of granules that
 * are not loose. Another block may have come into a granule that a flight had pinned. */
static void fill_granules(const pl_space *space, pleat_stats *out)
{
    const pl_tally *tally = &space->blocks.store.tally;

    out->granule_bytes = space->granule_bytes;
    out->resident_bytes = (uint64_t)space->chunks.n_held << space->granule_log2;
    out->idle_bytes = (uint64_t)space->chunks.n_idle << space->granule_log2;
    out->live_granules = tally->n_live_granules - tally->n_live_asleep;
    out->peak_live_granules = out->live_granules > space->chunks.peak_shown
                                  ? out->live_granules
                                  : space->chunks.peak_shown;
    out->tied_granules = tally->n_tied_granules;
    size_t n_shared = tally->n_shared_granules - tally->n_shared_asleep;
    out->pinned_granules = less(space->chunks.n_pinned, space->chunks.n_flying +
                                                            out->live_granules + n_shared +
                                                            tally->n_tied_granules);
    out->n_taken_granules = space->chunks.n_taken;
}

void pl_figures_read(const pl_space *space, pleat_stats *out)
{
    freed f = read_freed(space);

    *out = (pleat_stats){ 0 };
    pl_usages_read(&space->blocks.usages, out);
    pl_stats_read_device(out, space->dev);
    out->num_device_alloc = out->ops_map; /* as PyTorch counts with expandable segments */
    out->num_device_free = out->ops_unmap;
    fill_groups(space, &f, out);
    fill_granules(space, out);
    out->free_bytes = f.free_bytes;
    out->pending_bytes = f.pending_bytes + f.shared_bytes;
    out->rounding_bytes = out->allocated_bytes[PLEAT_SIZES_ALL].current -
                          out->requested_bytes[PLEAT_SIZES_ALL].current;
    out->stale_bytes = space->blocks.store.tally.bytes[PL_BLOCK_STALE];
    /* not in meta.bytes: `idle`, with room for all chunks */
    out->metadata_bytes = space->meta.bytes + space->chunks.n_held * sizeof(pl_chunk);
}

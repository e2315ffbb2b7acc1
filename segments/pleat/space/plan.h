/* plan.h - driver work as data, and its executor: where operations drop the lock.
 *
 *   rule     an operation decides under the lock what is wanted
 *   plan     the operation writes driver work down, as an array of tasks
 *   flight   pl_fly drops the lock, does the tasks in order, and takes the lock again
 *   commit   the operation takes over the results, which cannot fail
 *
 * Meanwhile the things that a plan names belong to the operation: memory in flight, a lane with a
 * reference, a shared fence, beds between pl_still_begin and pl_still_end. */
#ifndef PLEAT_SEGMENTS_PLAN_H
#define PLEAT_SEGMENTS_PLAN_H

#include "segments/pleat/space/space.h"
#include "vmm/copy.h"
#include "vmm/keep.h"
#include "vmm/streams/graph_watch.h"

/* X(kind, call): what a task `t` of the kind does, on the device `dev` with granules of `granule`
 * bytes. */
/* clang-format off */
#define PL_TASK_LIST(X) \
    X(RESERVE, pl_range_reserve(dev, t->bytes, t->least_bytes, t->range)) \
    X(RETURN, pl_range_release(dev, *t->range)) \
    X(DROP, (pl_left_undo(dev, PL_LEFT_RANGE, t->range->base, t->range->bytes), PLEAT_OK)) \
    X(CREATE, create(dev, granule << t->order, t)) \
    X(RELEASE, release(dev, granule, t->pile)) \
    X(MAP, pl_mapping_map_mixed(dev, t->at, t->chunks, t->orders, t->n)) \
    X(UNMAP, pl_mapping_unmap(dev, t->at, granule * t->n)) \
    X(CLEAR, pl_mapping_clear(dev, t->at, granule * t->n)) \
    X(COPY, copy(dev, t->copies, t->n, t->is_over)) \
    X(OPEN, pl_keep_open(dev, t->folder, t->bytes, t->keep)) \
    X(SAVE, pl_keep_save(*t->keep, t->pieces, t->n)) \
    X(LOAD, pl_keep_load(*t->keep, t->pieces, t->n)) \
    X(READ, pl_keep_read(*t->keep, t->offset, t->bytes, t->to)) \
    X(CLOSE, (pl_keep_close(*t->keep), PLEAT_OK)) \
    X(RECORD, pl_fence_record(t->stream, t->fence)) \
    X(RECORD_ALL, pl_fence_record_context(dev, t->fence)) \
    X(QUERY, pl_fence_query_many(t->fence, t->n, t->passed)) \
    X(WAIT, pl_fence_wait_any(t->fence, t->n, t->wait_ms, t->passed)) \
    X(ORDER, pl_fence_order(t->stream, *t->fence)) \
    X(FINISH, pl_device_synchronize(dev)) \
    X(DRAIN, pl_device_drain(dev)) \
    X(FIND, pl_stream_get(dev, t->handle, t->found)) \
    X(ASK, pl_stream_capture(t->stream, t->info)) \
    X(WATCH, pl_graph_watch_begin(dev, t->info->graph, t->watch)) \
    X(MEET, pl_device_know_peers(dev)) \
    X(COUNT_FREE, pl_device_free_bytes(dev, t->free_bytes)) \
    X(MERGE, (pl_block_slab_merge(t->slab), PLEAT_OK)) \
    X(PAUSE, (pl_sleep_ns((long)t->n), PLEAT_OK))
/* clang-format on */

#define PL_TASK_AS_KIND(kind, call) PL_TASK_##kind,
typedef enum pl_task_kind { PL_TASK_NONE, PL_TASK_LIST(PL_TASK_AS_KIND) PL_N_TASKS } pl_task_kind;

enum { PL_PILE_CHUNKS = 64 };

/* Chunks that are mapped nowhere, held by the caller alone. */
typedef struct pl_pile {
    pl_chunk chunks[PL_PILE_CHUNKS];
    uint8_t orders[PL_PILE_CHUNKS];
    size_t n;
    size_t n_granules; /* of them */
} pl_pile;

/* Each kind has at most one operand of a union, so that long plans fit a small stack. */
typedef struct pl_task {
    pl_task_kind kind;
    bool is_done; /* result: done, and not wholly undone */
    bool is_torn; /* result: done or undone in part */
    uint8_t order;
    union {
        pleat_devptr at;
        size_t bytes;
        uint32_t wait_ms;
    };
    union {
        size_t n; /* granules, if the task is at an address */
        size_t least_bytes;
        uint64_t offset;
    };
    union {
        pl_chunk *chunks;
        pl_pile *pile; /* chunks that the driver refuses stay */
        pl_range *range;
        const pl_copy *copies;
        pl_keep **keep;
        pl_fence **fence;
        pl_stream **found;
        pl_capture_info *info;
        uint64_t *free_bytes;
        struct pl_block_slab *slab; /* or NULL */
    };
    union {
        const uint8_t *orders;
        size_t *n_created; /* of n chunks; NULL if n is 1 */
        bool *is_over;     /* false: copies may still run */
        const char *folder;
        const pl_keep_piece *pieces;
        void *to;
        pl_stream *stream;
        bool *passed;
        void *handle;
        pl_graph_watch **watch;
    };
} pl_task;

/* Do the tasks without the lock. A failure ends the plan: the tasks MAP and UNMAP before are
 * undone, from the last to the first. For that an UNMAP needs `chunks` and `orders`, unless it is
 * the last task. PLEAT_OK, or the failure. EPOISONED: something is not undone, as tasks tell. */
pleat_status pl_fly(pl_space *space, pl_task *plan, size_t n);

static inline pleat_status pl_fly_one(pl_space *space, pl_task task)
{
    return pl_fly(space, &task, 1);
}

/* Do a task without the lock, at the end of the allocator. */
pleat_status pl_perform(const pl_space *space, pl_task task);
/* The task ASK, before an operation takes the lock. Inlined, as many operations ask. */
static inline pleat_status pl_perform_ask(pl_stream *stream, pl_capture_info *out)
{
    return pl_stream_capture(stream, out);
}

static inline void pl_pile_put(pl_pile *pile, pl_chunk chunk, unsigned order)
{
    pile->chunks[pile->n] = chunk;
    pile->orders[pile->n++] = (uint8_t)order;
    pile->n_granules += (size_t)1 << order;
}
void pl_pile_make_idle(pl_space *space, const pl_pile *pile);
/* Release held chunks, without the lock. Chunks that the driver refuses are idle. So are all chunks
 * while the driver refuses to unmap stale addresses, or while addresses of an earlier compaction
 * stay mapped, which a trim unmaps first: the driver would keep a released chunk that is still
 * mapped somewhere, and no count would have it. Adds to *n_released. Returns the last failure. */
pleat_status pl_pile_release(pl_space *space, pl_pile *pile, size_t *n_released);
pleat_status pl_chunk_give_back(pl_space *space, pl_chunk chunk, unsigned order);

/* Unmap the scratch addresses of a compaction, whose caller excludes other compactions, and give
 * the addresses back. Drops the lock. PLEAT_OK; EPOISONED: the addresses are still mapped. */
pleat_status pl_scratch_close(pl_space *space);
/* If a compaction could not unmap its scratch addresses, ask the driver again, unless another
 * compaction runs, which has done so. What was set aside becomes idle. */
void pl_scratch_clear(pl_space *space);

#endif

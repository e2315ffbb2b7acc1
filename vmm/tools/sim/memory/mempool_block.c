/* mempool_block.c - blocks of pools: allocation and free in the order of streams.
 *
 * Allocation and free count as commands of their stream that touch the whole block. So the rules
 * for races find work not ordered after the allocation or before the free. */
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/hazard.h"

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + SIM_MEMPOOL_ALIGN - 1) & ~(SIM_MEMPOOL_ALIGN - 1);
}

/* Finds the piece where the block begins, or NULL; adds a dependency to the stream only if
 * needed. */
static sim_piece *find_place(sim_mempool *pool, sim_stream *stream, uint64_t bytes)
{
    if (pool->is_opportunistic) {
        sim_piece_settle_passed(pool);
    }
    sim_piece *first = sim_mempool_fit(pool, stream, bytes, false);
    if (first == NULL) {
        first = sim_mempool_grow(pool, bytes);
    }
    if (first == NULL && pool->inserts_dependencies) {
        first = sim_mempool_fit(pool, stream, bytes, true);
        if (first != NULL) {
            sim_mempool_depend(first, bytes, stream);
        }
    }
    return first;
}

static void count_in(sim_mempool *pool, const sim_piece *piece)
{
    pool->n_outstanding++;
    pool->used_bytes += piece->asked_bytes;
    if (pool->used_high < pool->used_bytes) {
        pool->used_high = pool->used_bytes;
    }
    sim.devices[pool->device].n_allocations++;
}

cu_result sim_mempool_alloc(sim_mempool *pool, sim_stream *stream, size_t bytes, cu_devptr *out)
{
    if (out == NULL || bytes == 0) {
        return CU_INVALID_VALUE;
    }
    if (bytes > sim.conf.capacity_bytes) {
        return CU_OUT_OF_MEMORY;
    }
    sim_stream_join_default(stream);
    (void)sim_stream_passed(&stream->deps);
    sim_piece *first = find_place(pool, stream, round_up(bytes));
    if (first == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    sim_piece *piece = sim_piece_take(pool, first, round_up(bytes));
    piece->asked_bytes = bytes;
    count_in(pool, piece);
    pleat_sim_access access = { piece->ptr, piece->bytes, true };
    sim_task task = { .kind = SIM_TASK_POOL_ALLOC, .n = 1, .accesses = &access };
    *out = piece->ptr;
    sim_work_submit(stream, &task, false);
    return CU_SUCCESS;
}

/* The pool's piece that holds `ptr`, or NULL. */
static sim_piece *find_piece(uint64_t ptr)
{
    const sim_mapping *mapping = sim_mapping_at(ptr);
    return mapping == NULL || mapping->handle->segment == NULL
               ? NULL
               : sim_piece_at(mapping->handle->segment, ptr);
}

sim_piece *sim_mempool_find_live(uint64_t ptr)
{
    sim_piece *piece = find_piece(ptr);
    return piece != NULL && piece->state == SIM_PIECE_LIVE && piece->ptr == ptr ? piece : NULL;
}

void sim_mempool_free(sim_piece *piece, sim_stream *stream)
{
    sim_mempool *pool = piece->segment->pool;
    pleat_sim_access access = { piece->ptr, piece->bytes, true };
    sim_task task = {
        .kind = SIM_TASK_POOL_RETIRE, .value = pool->index, .n = 1, .accesses = &access
    };
    sim_stream_join_default(stream);
    (void)sim_stream_passed(&stream->deps);
    sim_hazard_check_free(stream, piece->ptr, piece->bytes);
    pool->used_bytes -= piece->asked_bytes;
    piece->state = SIM_PIECE_PENDING;
    piece->slot = stream->slot;
    piece->position = stream->submitted + 1;
    piece->deps = sim_clock_ref(stream->deps);
    sim_piece_file(pool, piece);
    sim_work_submit(stream, &task, false);
}

void sim_mempool_free_now(sim_piece *piece)
{
    sim_mempool *pool = piece->segment->pool;
    sim_hazard_check_unmap(piece->ptr, piece->bytes, "cuMemFree");
    pool->used_bytes -= piece->asked_bytes;
    sim_piece_settle(pool, piece);
    sim_mempool_retire(pool->index);
}

bool sim_mempool_covers(const pleat_sim_access *accesses, size_t n, const pleat_sim_access **first)
{
    for (size_t i = 0; i < n; i++) {
        const pleat_sim_access *it = &accesses[i];
        const sim_piece *piece = it->bytes > 0 ? find_piece(it->ptr) : NULL;
        if (piece != NULL && (piece->state != SIM_PIECE_LIVE ||
                              it->ptr + it->bytes > piece->ptr + piece->asked_bytes)) {
            *first = it;
            return false;
        }
    }
    return true;
}

/* torch_refused.c - chunks of torch-expandable that the driver did not take back.
 *
 * They count as reserved, are mapped nowhere, and are offered again by torch_unmap.c. Room for them
 * is allocated before the driver is called, while a failure can still be returned. */
#include "segments/classic/torch/torch_cache.h"
#include "vmm/chunk.h"

pleat_status pl_torch_promise_refused(pl_torch *t, pl_torch_pool *pool, size_t n)
{
    pl_lock_assert(&t->base.lock);
    pl_torch_refused *refused = &pool->refused;
    size_t want = refused->n + refused->n_promised + n;
    if (want > refused->room) {
        size_t room = want < 2 * refused->room ? 2 * refused->room : want;
        pl_chunk *chunks = pl_meta_realloc(&t->base.meta, refused->chunks, room * sizeof *chunks);
        if (!chunks) {
            return PLEAT_ENOMEM_HOST;
        }
        refused->chunks = chunks;
        refused->room = room;
    }
    refused->n_promised += n;
    return PLEAT_OK;
}

void pl_torch_note_refused(pl_torch *t, pl_torch_pool *pool, size_t n_promised,
                           const pl_chunk *chunks, size_t n)
{
    pl_lock_assert(&t->base.lock);
    pl_torch_refused *refused = &pool->refused;
    pl_assert(n <= n_promised && n_promised <= refused->n_promised);
    refused->n_promised -= n_promised;
    for (size_t i = 0; i < n; i++) {
        refused->chunks[refused->n++] = chunks[i];
    }
    t->base.reserved_bytes += n * pool->page_bytes;
    if (n != 0) {
        pl_stats_add(t->base.stats.reserved_bytes, pool->index, n * pool->page_bytes);
    }
}

size_t pl_torch_release_chunks(pl_torch *t, pl_chunk *chunks, size_t n, size_t page_bytes)
{
    size_t n_refused = 0;
    for (size_t i = 0; i < n; i++) {
        if (pl_chunk_release_sized(t->base.dev, chunks[i], page_bytes) != PLEAT_OK) {
            chunks[n_refused++] = chunks[i];
        }
    }
    return n_refused;
}

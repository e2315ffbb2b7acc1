/* block.c - the store of blocks. Guarded by the device lock of its owner. */
#include "segments/block.h"

#include "vmm/base/assert.h"

enum { SLAB_BLOCKS = 512 };

typedef struct pl_block_slab {
    struct pl_block_slab *next;
    pl_block blocks[SLAB_BLOCKS];
} pl_block_slab;

void pl_block_store_init(pl_block_store *store, pl_host *host)
{
    *store = (pl_block_store){ .host = host };
}

void pl_block_store_fini(pl_block_store *store)
{
    while (store->slabs != NULL) {
        pl_block_slab *slab = store->slabs;
        store->slabs = slab->next;
        pl_host_free(store->host, slab);
    }
    store->spare = NULL;
    store->n_spare = 0;
}

pleat_status pl_block_store_grow(pl_block_store *store, size_t n)
{
    while (store->n_spare < n) {
        pl_block_slab *slab = pl_host_alloc(store->host, sizeof(*slab));
        if (slab == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        slab->next = store->slabs;
        store->slabs = slab;
        for (size_t i = 0; i < SLAB_BLOCKS; i++) {
            pl_block_store_put(store, &slab->blocks[i]);
        }
    }
    return PLEAT_OK;
}

pl_block *pl_block_store_get(pl_block_store *store)
{
    pl_block *b = store->spare;

    pl_assert(b != NULL);
    store->spare = b->next;
    store->n_spare--;
    b->next = NULL;
    b->prev = NULL;
    b->queue_prev = NULL;
    b->queue_next = NULL;
    b->uses = NULL;
    b->requested = 0;
    b->tick = 0;
    b->was = PL_BLOCK_LIVE;
    b->is_indexed = false;
    b->is_captured = false;
    return b;
}

void pl_block_store_put(pl_block_store *store, pl_block *b)
{
    b->next = store->spare;
    store->spare = b;
    store->n_spare++;
}

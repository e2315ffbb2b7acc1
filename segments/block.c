/* block.c - the store of blocks. Guarded by the device lock of its owner. */
#include "segments/block.h"

#include "vmm/base/assert.h"

enum { LINE_BYTES = 64, SLAB_BYTES = 65536 };

/* A size that jemalloc gives without loss. Blocks begin with a line of the cache. */
typedef struct pl_block_slab {
    struct pl_block_slab *next;
    char room[SLAB_BYTES - sizeof(struct pl_block_slab *)];
} pl_block_slab;

_Static_assert(sizeof(pl_block) == 2 * LINE_BYTES, "a block fills two lines");

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
        uintptr_t end = (uintptr_t)slab + sizeof(*slab);
        uintptr_t at = ((uintptr_t)slab->room + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
        for (; at + sizeof(pl_block) <= end; at += sizeof(pl_block)) {
            pl_block_store_put(store, (pl_block *)at);
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
    b->tick = 0;
    b->was = PL_BLOCK_LIVE;
    b->is_indexed = false;
    b->is_apart = false;
#if PLEAT_DEBUG_LEVEL >= 1
    b->requested = SIZE_MAX; /* what nobody wrote yet shows, should it be read */
#endif
    return b;
}

void pl_block_store_put(pl_block_store *store, pl_block *b)
{
    b->next = store->spare;
    store->spare = b;
    store->n_spare++;
}

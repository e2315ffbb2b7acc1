/* block.c - the store of blocks. Guarded by its owner's device lock. */
#include "segments/pleat/block.h"

#include <stddef.h>

#include "segments/base/ptrmap.h"
#include "vmm/base/assert.h"

enum { LINE_BYTES = 64, SLAB_BYTES = 65536 };

/* jemalloc gives this size without loss. Blocks start on cache lines. */
typedef struct pl_block_slab {
    struct pl_block_slab *next;
    char room[SLAB_BYTES - sizeof(struct pl_block_slab *)];
} pl_block_slab;

enum { SLAB_BLOCKS = (SLAB_BYTES - LINE_BYTES) / sizeof(pl_block) };

_Static_assert(sizeof(pl_block) == 2 * LINE_BYTES, "a block fills two lines");
_Static_assert((int)LINE_BYTES == (int)PL_PTRMAP_ALIGN &&
                   offsetof(pl_block, base) == PL_PTRMAP_KEY_AT,
               "the live map finds a block's address");

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
    pl_block_store_init(store, store->host);
}

pleat_status pl_block_store_grow(pl_block_store *store, size_t n)
{
    while (store->n_spare < n) {
        pl_block_slab *slab = pl_host_alloc(store->host, sizeof(*slab));
        if (slab == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        slab->next = NULL;
        *(store->newest != NULL ? &store->newest->next : &store->slabs) = slab;
        store->newest = slab;
        if (store->carved == NULL) {
            store->carved = slab;
        }
        store->n_spare += SLAB_BLOCKS;
    }
    return PLEAT_OK;
}

pl_block *pl_block_store_carve(pl_block_store *store)
{
    if (store->n_carved == SLAB_BLOCKS) {
        store->carved = store->carved->next;
        store->n_carved = 0;
    }
    uintptr_t base = (uintptr_t)store->carved->room + LINE_BYTES - 1;
    return (pl_block *)(base / LINE_BYTES * LINE_BYTES) + store->n_carved++;
}

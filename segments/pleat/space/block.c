/* block.c - the store of blocks. Guarded by its owner's device lock. */
#include "segments/pleat/space/block.h"

#include <stddef.h>

#include "segments/base/ptrmap.h"
#include "vmm/base/lock.h"

enum { LINE_BYTES = 64, SLAB_BYTES = 2 << 20 /* a huge page */, PART_BYTES = 1 << 16 };

/* Aligned to its size. The system provides the memory as it is touched; memory counts as used in
 * parts. A block is two lines that processors fetch as a pair, never halves of two blocks. */
typedef struct pl_block_slab {
    struct pl_block_slab *next;
    size_t n_parts;
    char pad[sizeof(pl_block) - sizeof(struct pl_block_slab *) - sizeof(size_t)];
    pl_block blocks[];
} pl_block_slab;

enum {
    SLAB_BLOCKS = SLAB_BYTES / sizeof(pl_block) - 1,
    PART_BLOCKS = PART_BYTES / sizeof(pl_block),
    SLAB_PARTS = SLAB_BYTES / PART_BYTES,
};

_Static_assert(sizeof(pl_block) == 2 * LINE_BYTES, "a block fills two lines");
_Static_assert((int)LINE_BYTES == (int)PL_PTRMAP_ALIGN &&
                   offsetof(pl_block, base) == PL_PTRMAP_KEY_AT,
               "the live map finds a block's address");

void pl_block_store_init(pl_block_store *store, pl_meta *meta)
{
    *store = (pl_block_store){ .meta = meta };
}

void pl_block_store_fini(pl_block_store *store)
{
    while (store->slabs != NULL) {
        pl_block_slab *slab = store->slabs;
        store->slabs = slab->next;
        pl_meta_unreserve(store->meta, slab, SLAB_BYTES, slab->n_parts * PART_BYTES);
    }
    pl_block_store_init(store, store->meta);
}

static bool add_slab(pl_block_store *store)
{
    pl_block_slab *slab = pl_meta_reserve_aligned(store->meta, SLAB_BYTES);
    if (slab == NULL) {
        return false;
    }
    *(store->newest != NULL ? &store->newest->next : &store->slabs) = slab;
    store->newest = slab;
    if (store->carved == NULL) {
        store->carved = slab;
        store->small_paged = slab;
    }
    return true;
}

pleat_status pl_block_store_grow(pl_block_store *store, size_t n)
{
    while (store->n_spare < n) {
        bool is_full = store->newest == NULL || store->newest->n_parts == SLAB_PARTS;
        if (is_full && !add_slab(store)) {
            return PLEAT_ENOMEM_HOST;
        }
        pl_block_slab *slab = store->newest;
        slab->n_parts++;
        pl_meta_use(store->meta, PART_BYTES);
        store->n_spare += slab->n_parts < SLAB_PARTS ? PART_BLOCKS
                                                     : SLAB_BLOCKS - (SLAB_PARTS - 1) * PART_BLOCKS;
    }
    return PLEAT_OK;
}

pl_block *pl_block_store_carve(pl_block_store *store)
{
    if (store->n_carved == SLAB_BLOCKS) {
        store->carved = store->carved->next;
        store->n_carved = 0;
    }
    return &store->carved->blocks[store->n_carved++];
}

pleat_status pl_block_store_set_aside(pl_block_store *store, size_t n, pl_block **aside)
{
    for (; n > 0; n--) {
        if (pl_block_store_reserve(store, 1) != PLEAT_OK) {
            return PLEAT_ENOMEM_HOST;
        }
        pl_block *b = pl_block_store_get(store);
        b->next = *aside;
        *aside = b;
    }
    return PLEAT_OK;
}

void pl_block_store_put_back(pl_block_store *store, size_t n, pl_block **aside)
{
    for (; *aside != NULL && n > 0; n--) {
        pl_block *b = *aside;
        *aside = b->next;
        pl_block_store_put(store, b);
        pl_lock_touch(1);
    }
}

pl_block_slab *pl_block_store_take_full(pl_block_store *store)
{
    pl_block_slab *slab = store->small_paged;
    if (slab == store->carved) {
        return NULL;
    }
    store->small_paged = slab->next;
    return slab;
}

void pl_block_slab_merge(pl_block_slab *slab)
{
    if (slab != NULL) {
        pl_meta_merge_pages(slab, SLAB_BYTES);
    }
}

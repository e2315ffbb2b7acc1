/* nvtx.c - see nvtx.h. */
#include "api/parts/nvtx.h"

#ifdef PLEAT_HAVE_NVTX

#include <nvtx3/nvToolsExtMem.h>
#include <pthread.h>

#include "api/base/text.h"
#include "segments/base/tree.h"

enum { NAME_BYTES = 50 /* compute-sanitizer takes no longer name */ };

/* Addresses of one kind: heaps of resident memory, or blocks. */
typedef struct range {
    pl_tree_node node; /* in a tree by base */
    pleat_devptr base;
    uint64_t bytes;
    nvtxMemHeapHandle_t handle; /* heaps */
    pleat_pool_id pool;         /* heaps */
    bool is_told;               /* blocks */
} range;

struct pl_nvtx {
    pl_meta *meta;             /* const */
    nvtxDomainHandle_t domain; /* const */
    int device;                /* const */
    bool is_off;               /* lock: host memory was short */
    pl_tree heaps;             /* lock */
    pl_tree blocks;            /* lock */
};

/* NVTX's own first call is made by any number of threads, but reads its state without an order
 * between them; after once, all is only read. */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load_tool(void)
{
    NVTX_EXT_MEM_VERSIONED_ID(nvtxExtMemInitOnce)();
}

bool pl_nvtx_is_offered(void)
{
    static const unsigned needed[] = {
        NVTX3EXT_CBID_nvtxMemHeapRegister,
        NVTX3EXT_CBID_nvtxMemHeapUnregister,
        NVTX3EXT_CBID_nvtxMemRegionsRegister,
        NVTX3EXT_CBID_nvtxMemRegionsUnregister,
    };
    (void)pthread_once(&once, load_tool);
    const intptr_t *slots = NVTX_EXT_MEM_VERSIONED_ID(nvtxExtMemSlots) + 1; /* the first: a state */
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (slots[needed[i]] == NVTX_EXTENSION_DISABLED) {
            return false;
        }
    }
    return true;
}

/* ---- sets of ranges -------------------------------------------------------------------------- */

static range *entry(const pl_tree_node *node)
{
    return node ? PL_TREE_ENTRY(node, range, node) : NULL;
}

static bool is_before(const pl_tree_node *a, const pl_tree_node *b)
{
    return entry(a)->base < entry(b)->base;
}

static pleat_devptr end_of(const range *r)
{
    return r->base + r->bytes;
}

static range *next(const range *r)
{
    return entry(pl_tree_next(&r->node));
}

/* The first range that ends after `at`; the set is disjoint. */
static range *first_after(const pl_tree *set, pleat_devptr at)
{
    range key = { .base = at };
    range *r = entry(pl_tree_floor(set, &key.node));
    if (!r) {
        return entry(pl_tree_first(set));
    }
    return end_of(r) > at ? r : next(r);
}

static range *add(pl_nvtx *nvtx, pl_tree *set, pleat_devptr base, uint64_t bytes)
{
    range *r = pl_meta_calloc(nvtx->meta, 1, sizeof *r);
    if (r) {
        r->base = base;
        r->bytes = bytes;
        pl_tree_insert(set, &r->node);
    }
    return r;
}

static void drop(pl_nvtx *nvtx, pl_tree *set, range *r)
{
    pl_tree_remove(set, &r->node);
    pl_meta_free(nvtx->meta, r);
}

/* ---- what the tool hears --------------------------------------------------------------------- */

static void tell_heap(const pl_nvtx *nvtx, range *heap)
{
    char name[NAME_BYTES];
    pl_text text;
    pl_text_init(&text, name, sizeof name);
    pl_text_add(&text, "pleat device %d", nvtx->device);
    if (heap->pool.first != 0 || heap->pool.second != 0) {
        pl_text_add(&text, " pool %llu.%llu", (unsigned long long)heap->pool.first,
                    (unsigned long long)heap->pool.second);
    }
    const nvtxMemVirtualRangeDesc_t where = { .size = heap->bytes, .ptr = (void *)heap->base };
    const nvtxMemHeapDesc_t desc = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof desc,
        .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
        .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .typeSpecificDescSize = sizeof where,
        .typeSpecificDesc = &where,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name,
    };
    heap->handle = nvtxMemHeapRegister(nvtx->domain, &desc);
}

static void tell_region(const pl_nvtx *nvtx, const range *heap, const range *block)
{
    const nvtxMemVirtualRangeDesc_t where = { .size = block->bytes, .ptr = (void *)block->base };
    const nvtxMemRegionsRegisterBatch_t batch = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof batch,
        .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .heap = heap->handle,
        .regionCount = 1,
        .regionDescElementSize = sizeof where,
        .regionDescElements = &where,
    };
    nvtxMemRegionsRegister(nvtx->domain, &batch);
}

static void untell_region(const pl_nvtx *nvtx, const range *block)
{
    const nvtxMemRegionRef_t which = { .pointer = (void *)block->base };
    const nvtxMemRegionsUnregisterBatch_t batch = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof batch,
        .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
        .refCount = 1,
        .refElementSize = sizeof which,
        .refElements = &which,
    };
    nvtxMemRegionsUnregister(nvtx->domain, &batch);
}

/* The heap with its regions. */
static void untell(const pl_nvtx *nvtx, const range *heap)
{
    for (range *b = first_after(&nvtx->blocks, heap->base); b && b->base < end_of(heap);
         b = next(b)) {
        if (b->is_told) {
            untell_region(nvtx, b);
            b->is_told = false;
        }
    }
    nvtxMemHeapUnregister(nvtx->domain, heap->handle);
}

/* The blocks that lie in the heap whole, as far as the tool does not know them. */
static void tell_regions(const pl_nvtx *nvtx, const range *heap)
{
    for (range *b = first_after(&nvtx->blocks, heap->base); b && end_of(b) <= end_of(heap);
         b = next(b)) {
        if (b->base >= heap->base && !b->is_told) {
            tell_region(nvtx, heap, b);
            b->is_told = true;
        }
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

static void withdraw(pl_nvtx *nvtx)
{
    for (range *heap; (heap = entry(pl_tree_first(&nvtx->heaps))) != NULL;) {
        untell(nvtx, heap);
        drop(nvtx, &nvtx->heaps, heap);
    }
    for (range *block; (block = entry(pl_tree_first(&nvtx->blocks))) != NULL;) {
        drop(nvtx, &nvtx->blocks, block);
    }
}

static void give_up(pl_nvtx *nvtx)
{
    withdraw(nvtx);
    nvtx->is_off = true;
}

/* Make heaps that adjoin one, from `heap` up to `last`. */
static void join(pl_nvtx *nvtx, range *heap, range *last)
{
    pleat_devptr end = end_of(last);
    untell(nvtx, heap);
    while (end_of(heap) < end) {
        range *other = next(heap);
        untell(nvtx, other);
        heap->bytes += other->bytes;
        drop(nvtx, &nvtx->heaps, other);
    }
    tell_heap(nvtx, heap);
    tell_regions(nvtx, heap);
}

/* Name the block, if all of it is resident. */
static void cover(pl_nvtx *nvtx, range *block)
{
    range *heap = first_after(&nvtx->heaps, block->base);
    range *last = heap;
    if (!heap || heap->base > block->base) {
        return;
    }
    while (end_of(last) < end_of(block)) {
        range *other = next(last);
        if (!other || other->base != end_of(last)) {
            return;
        }
        last = other;
    }
    if (last != heap) {
        join(nvtx, heap, last);
    } else {
        tell_region(nvtx, heap, block);
        block->is_told = true;
    }
}

static void come(pl_nvtx *nvtx, const pl_event *event, pleat_pool_id pool)
{
    range *heap = add(nvtx, &nvtx->heaps, event->base, event->bytes);
    if (!heap) {
        give_up(nvtx);
        return;
    }
    heap->pool = pool;
    tell_heap(nvtx, heap);
    for (range *b = first_after(&nvtx->blocks, heap->base);
         b && b->base < event->base + event->bytes; b = next(b)) {
        if (!b->is_told) {
            cover(nvtx, b);
        }
    }
}

/* Part of the heap goes: [base, end), and with it what lies there. */
static bool cut(pl_nvtx *nvtx, range *heap, pleat_devptr base, pleat_devptr end)
{
    range *rest = NULL;
    pleat_devptr high = end_of(heap);
    if (high > end) {
        rest = add(nvtx, &nvtx->heaps, end, high - end);
        if (!rest) {
            return false;
        }
        rest->pool = heap->pool;
    }
    untell(nvtx, heap);
    if (heap->base < base) {
        heap->bytes = base - heap->base;
        tell_heap(nvtx, heap);
        tell_regions(nvtx, heap);
    } else {
        drop(nvtx, &nvtx->heaps, heap);
    }
    if (rest) {
        tell_heap(nvtx, rest);
        tell_regions(nvtx, rest);
    }
    return true;
}

static void go(pl_nvtx *nvtx, pleat_devptr base, pleat_devptr end)
{
    for (range *heap; (heap = first_after(&nvtx->heaps, base)) != NULL && heap->base < end;) {
        if (!cut(nvtx, heap, base, end)) {
            give_up(nvtx);
        }
    }
}

static void begin(pl_nvtx *nvtx, const pl_event *event)
{
    range *block = add(nvtx, &nvtx->blocks, event->base, event->bytes);
    if (block) {
        cover(nvtx, block);
    } else {
        give_up(nvtx);
    }
}

static void finish(pl_nvtx *nvtx, const pl_event *event)
{
    range *block = first_after(&nvtx->blocks, event->base);
    if (block && block->base == event->base) {
        if (block->is_told) {
            untell_region(nvtx, block);
        }
        drop(nvtx, &nvtx->blocks, block);
    }
}

void pl_nvtx_tell(pl_nvtx *nvtx, const pl_event *event, pleat_pool_id pool)
{
    if (nvtx->is_off) {
        return;
    }
    switch (event->action) {
    case PL_ACTION_SEGMENT_ALLOC:
    case PL_ACTION_SEGMENT_MAP:
        come(nvtx, event, pool);
        break;
    case PL_ACTION_SEGMENT_FREE:
    case PL_ACTION_SEGMENT_UNMAP:
        go(nvtx, event->base, event->base + event->bytes);
        break;
    case PL_ACTION_ALLOC:
        begin(nvtx, event);
        break;
    case PL_ACTION_FREE_COMPLETED:
        finish(nvtx, event);
        break;
    default:
        break; /* a block that was given back may be in use until FREE_COMPLETED */
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

pl_nvtx *pl_nvtx_open(pl_meta *meta, int device)
{
    pl_nvtx *nvtx = pl_meta_calloc(meta, 1, sizeof *nvtx);
    if (nvtx) {
        nvtx->meta = meta;
        nvtx->device = device;
        nvtx->domain = nvtxDomainCreateA("pleat");
        pl_tree_init(&nvtx->heaps, is_before);
        pl_tree_init(&nvtx->blocks, is_before);
    }
    return nvtx;
}

void pl_nvtx_close(pl_nvtx *nvtx)
{
    if (nvtx) {
        withdraw(nvtx);
        nvtxDomainDestroy(nvtx->domain);
        pl_meta_free(nvtx->meta, nvtx);
    }
}

#else /* nobody can ask */

bool pl_nvtx_is_offered(void)
{
    return false;
}

pl_nvtx *pl_nvtx_open(pl_meta *meta, int device)
{
    (void)meta;
    (void)device;
    return NULL;
}

void pl_nvtx_tell(pl_nvtx *nvtx, const pl_event *event, pleat_pool_id pool)
{
    (void)nvtx;
    (void)event;
    (void)pool;
}

void pl_nvtx_close(pl_nvtx *nvtx)
{
    (void)nvtx;
}

#endif

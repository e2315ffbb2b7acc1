/* tool.c - see tool.h. */
#include "tests/support/tool/tool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtMem.h>

enum { MOST = 1 << 17 };

typedef struct range {
    uint64_t base;
    uint64_t bytes;
    char name[64];
} range;

/* Both in the order of their bases. */
static range heaps[MOST];
static range regions[MOST];
static tool_counts counts;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char domain;

static void must(int holds, const char *rule, uint64_t ptr)
{
    if (!holds) {
        fprintf(stderr, "tool: %s: 0x%llx\n", rule, (unsigned long long)ptr);
        abort();
    }
}

/* The index of the first range that ends after ptr. */
static unsigned find(const range *all, unsigned n, uint64_t ptr)
{
    unsigned low = 0;
    while (low < n) {
        unsigned mid = low + (n - low) / 2;
        if (all[mid].base + all[mid].bytes > ptr) {
            n = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

static range *insert(range *all, unsigned *n, uint64_t base, uint64_t bytes, const char *rule)
{
    unsigned i = find(all, *n, base);
    must(*n < MOST, "there is room for all", base);
    must(bytes > 0 && (i == *n || all[i].base >= base + bytes), rule, base);
    memmove(all + i + 1, all + i, (*n - i) * sizeof *all);
    all[i] = (range){ .base = base, .bytes = bytes };
    ++*n;
    return &all[i];
}

static uint64_t take_out(range *all, unsigned *n, uint64_t base, const char *rule)
{
    unsigned i = find(all, *n, base);
    must(i < *n && all[i].base == base, rule, base);
    uint64_t bytes = all[i].bytes;
    memmove(all + i, all + i + 1, (*n - i - 1) * sizeof *all);
    --*n;
    return bytes;
}

static nvtxMemHeapHandle_t heap_register(nvtxDomainHandle_t in, const nvtxMemHeapDesc_t *desc)
{
    const nvtxMemVirtualRangeDesc_t *where = desc->typeSpecificDesc;
    uint64_t base = (uintptr_t)where->ptr;
    must((void *)in == &domain && desc->extCompatID == NVTX_EXT_COMPATID_MEM &&
             desc->structSize == sizeof *desc &&
             desc->usage == NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR &&
             desc->type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS &&
             desc->typeSpecificDescSize == sizeof *where &&
             desc->messageType == NVTX_MESSAGE_TYPE_ASCII && strlen(desc->message.ascii) > 0 &&
             strlen(desc->message.ascii) < 50,
         "a heap is well described", base);
    pthread_mutex_lock(&mutex);
    range *heap = insert(heaps, &counts.n_heaps, base, where->size, "heaps are disjoint");
    memcpy(heap->name, desc->message.ascii, strlen(desc->message.ascii) + 1);
    counts.n_heaps_ever++;
    pthread_mutex_unlock(&mutex);
    return (nvtxMemHeapHandle_t)where->ptr;
}

static void heap_unregister(nvtxDomainHandle_t in, nvtxMemHeapHandle_t handle)
{
    uint64_t base = (uintptr_t)handle;
    pthread_mutex_lock(&mutex);
    unsigned i = find(heaps, counts.n_heaps, base);
    must((void *)in == &domain && i < counts.n_heaps && heaps[i].base == base,
         "a heap that goes is known", base);
    unsigned r = find(regions, counts.n_regions, base);
    must(r == counts.n_regions || regions[r].base >= base + heaps[i].bytes,
         "a heap goes without regions", base);
    (void)take_out(heaps, &counts.n_heaps, base, "a heap that goes is known");
    pthread_mutex_unlock(&mutex);
}

static void regions_register(nvtxDomainHandle_t in, const nvtxMemRegionsRegisterBatch_t *batch)
{
    const nvtxMemVirtualRangeDesc_t *where = batch->regionDescElements;
    uint64_t heap = (uintptr_t)batch->heap;
    must((void *)in == &domain && batch->extCompatID == NVTX_EXT_COMPATID_MEM &&
             batch->structSize == sizeof *batch &&
             batch->regionType == NVTX_MEM_TYPE_VIRTUAL_ADDRESS &&
             batch->regionDescElementSize == sizeof *where,
         "regions are well described", heap);
    pthread_mutex_lock(&mutex);
    unsigned h = find(heaps, counts.n_heaps, heap);
    must(h < counts.n_heaps && heaps[h].base == heap, "a region's heap is known", heap);
    for (size_t i = 0; i < batch->regionCount; i++) {
        uint64_t base = (uintptr_t)where[i].ptr;
        must(base >= heap && base + where[i].size <= heap + heaps[h].bytes,
             "a region lies in its heap", base);
        insert(regions, &counts.n_regions, base, where[i].size, "regions are disjoint");
        counts.n_regions_ever++;
        counts.region_bytes += where[i].size;
    }
    pthread_mutex_unlock(&mutex);
}

static void regions_unregister(nvtxDomainHandle_t in, const nvtxMemRegionsUnregisterBatch_t *batch)
{
    must((void *)in == &domain && batch->extCompatID == NVTX_EXT_COMPATID_MEM &&
             batch->structSize == sizeof *batch &&
             batch->refType == NVTX_MEM_REGION_REF_TYPE_POINTER &&
             batch->refElementSize == sizeof batch->refElements[0],
         "regions that go are well described", 0);
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < batch->refCount; i++) {
        uint64_t base = (uintptr_t)batch->refElements[i].pointer;
        counts.region_bytes -= take_out(regions, &counts.n_regions, base,
                                        "a region that goes is known");
    }
    pthread_mutex_unlock(&mutex);
}

static nvtxDomainHandle_t domain_create(const char *name)
{
    (void)name;
    return (nvtxDomainHandle_t)&domain;
}

/* ---- what NVTX calls ---- */

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    nvtxExtModuleInfo_t *module);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned n = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &n)) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    return 1;
}

/* PLEAT_TEST_TOOL=lame: a tool without the memory extension. */
int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module)
{
    const char *kind = getenv("PLEAT_TEST_TOOL");
    if (module->moduleId != NVTX_EXT_MODULEID_MEM || (kind && strcmp(kind, "lame") == 0)) {
        return 0;
    }
    intptr_t *slots = module->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = (intptr_t)heap_register;
    slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = (intptr_t)heap_unregister;
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)regions_register;
    slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = (intptr_t)regions_unregister;
    return 1;
}

/* ---- what suites call ---- */

__attribute__((visibility("default"))) tool_counts tool_count(void)
{
    pthread_mutex_lock(&mutex);
    tool_counts now = counts;
    pthread_mutex_unlock(&mutex);
    return now;
}

__attribute__((visibility("default"))) uint64_t tool_region_bytes(uint64_t ptr)
{
    pthread_mutex_lock(&mutex);
    unsigned i = find(regions, counts.n_regions, ptr);
    uint64_t bytes = i < counts.n_regions && regions[i].base == ptr ? regions[i].bytes : 0;
    pthread_mutex_unlock(&mutex);
    return bytes;
}

__attribute__((visibility("default"))) const char *tool_heap_name(uint64_t ptr)
{
    pthread_mutex_lock(&mutex);
    unsigned i = find(heaps, counts.n_heaps, ptr);
    const char *name = i < counts.n_heaps && heaps[i].base <= ptr ? heaps[i].name : NULL;
    pthread_mutex_unlock(&mutex);
    return name;
}

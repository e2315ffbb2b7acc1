/* umf_provider.c - pleat_umf.h as a program with UMF uses it; runs on the simulator. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <umf/ipc.h>
#include <umf/memory_pool.h>
#include <umf/pools/pool_proxy.h>

#include "pleat_umf.h"

enum { MIB = 1 << 20 };

#define EXPECT(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "umf_provider.c:%d: not so: %s (%s)\n", __LINE__, #what,               \
                    pleat_last_error()->text);                                                     \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

static uint64_t live_blocks(pleat instance)
{
    pleat_stats stats;
    EXPECT(pleat_device_stats(instance, 0, &stats) == PLEAT_OK);
    return stats.allocation[PLEAT_SIZES_ALL].current;
}

static umf_memory_provider_handle_t make(const pleat_umf_params *params)
{
    umf_memory_provider_handle_t provider;
    EXPECT(pleat_umf_create(params, &provider) == UMF_RESULT_SUCCESS);
    return provider;
}

static void check_memory(pleat instance, umf_memory_provider_handle_t provider)
{
    size_t page = 0;
    const char *name = NULL;
    const char *text = NULL;
    int32_t error = 0;
    void *ptr = NULL;
    EXPECT(umfMemoryProviderGetMinPageSize(provider, NULL, &page) == UMF_RESULT_SUCCESS);
    EXPECT(page == PLEAT_UMF_PAGE);
    EXPECT(umfMemoryProviderGetRecommendedPageSize(provider, MIB, &page) == UMF_RESULT_SUCCESS);
    EXPECT(page >= 4096);
    EXPECT(umfMemoryProviderGetName(provider, &name) == UMF_RESULT_SUCCESS);
    EXPECT(strcmp(name, "PLEAT") == 0);
    for (size_t alignment = 512; alignment <= 4 * MIB; alignment *= 2) {
        EXPECT(umfMemoryProviderAlloc(provider, 3 * MIB, alignment, &ptr) == UMF_RESULT_SUCCESS);
        EXPECT((uintptr_t)ptr % alignment == 0 && live_blocks(instance) == 1);
        EXPECT(umfMemoryProviderFree(provider, ptr, 3 * MIB) == UMF_RESULT_SUCCESS);
        EXPECT(live_blocks(instance) == 0);
    }
    for (size_t bytes = 512 * (size_t)MIB; bytes <= (size_t)1 << 45; bytes *= 8) {
        EXPECT(umfMemoryProviderAlloc(provider, bytes, 512, &ptr) ==
               UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    }
    umfMemoryProviderGetLastNativeError(provider, &text, &error);
    EXPECT(error == PLEAT_ENOMEM_DEVICE && strlen(text) > 20);
}

/* Through UMF's pools. Memory counted by UMF itself is freed, too. */
static void check_pool(pleat instance, umf_memory_provider_handle_t provider)
{
    umf_memory_pool_handle_t pool;
    EXPECT(umfPoolCreate(umfProxyPoolOps(), provider, NULL, 0, &pool) == UMF_RESULT_SUCCESS);
    void *plain = umfPoolMalloc(pool, 5 * MIB);
    void *aligned = umfPoolAlignedMalloc(pool, 10000, 4096);
    EXPECT(plain != NULL && (uintptr_t)aligned % 4096 == 0 && live_blocks(instance) == 2);
    EXPECT(umfFree(plain) == UMF_RESULT_SUCCESS);
    EXPECT(umfPoolFree(pool, aligned) == UMF_RESULT_SUCCESS);
    EXPECT(umfPoolMalloc(pool, (size_t)1 << 45) == NULL);
    EXPECT(live_blocks(instance) == 0);
    EXPECT(umfPoolDestroy(pool) == UMF_RESULT_SUCCESS);
}

/* This process opens a name of its own memory, and finds the same bytes at a different address. */
static void check_sharing(umf_memory_provider_handle_t provider)
{
    umf_memory_pool_handle_t pool;
    umf_ipc_handle_t handle;
    umf_ipc_handler_handle_t handler;
    size_t bytes;
    void *opened;
    EXPECT(umfPoolCreate(umfProxyPoolOps(), provider, NULL, 0, &pool) == UMF_RESULT_SUCCESS);
    char *ptr = (char *)umfPoolMalloc(pool, 5 * MIB);
    EXPECT(ptr != NULL);
    memset(ptr, 7, 5 * MIB);
    EXPECT(umfGetIPCHandle(ptr, &handle, &bytes) == UMF_RESULT_SUCCESS);
    EXPECT(umfPoolGetIPCHandler(pool, &handler) == UMF_RESULT_SUCCESS);
    EXPECT(umfOpenIPCHandle(handler, handle, &opened) == UMF_RESULT_SUCCESS);
    EXPECT(opened != ptr && ((char *)opened)[5 * MIB - 1] == 7);
    EXPECT(umfCloseIPCHandle(opened) == UMF_RESULT_SUCCESS);
    EXPECT(umfPutIPCHandle(handle) == UMF_RESULT_SUCCESS);
    EXPECT(umfFree(ptr) == UMF_RESULT_SUCCESS);
    EXPECT(umfPoolDestroy(pool) == UMF_RESULT_SUCCESS);
}

int main(void)
{
    pleat gpu;
    pleat host;
    umf_memory_provider_handle_t none;
    EXPECT(pleat_create("driver:sim,sim:[capacity:256M,backing:memory],shareable:True", &gpu) ==
           PLEAT_OK);
    EXPECT(pleat_create("driver:sim,memory:host", &host) == PLEAT_OK);
    EXPECT(pleat_umf_create(&(pleat_umf_params){ .instance = gpu, .device = 9 }, &none) ==
           UMF_RESULT_ERROR_INVALID_ARGUMENT);
    pleat_umf_params of_gpu = { .instance = gpu };
    pleat_umf_params of_host = { .instance = host, .is_host = 1, .stream = PLEAT_HOST_UNUSED };
    umf_memory_provider_handle_t provider = make(&of_gpu);
    check_memory(gpu, provider);
    check_pool(gpu, provider);
    check_sharing(provider);
    EXPECT(umfMemoryProviderDestroy(provider) == UMF_RESULT_SUCCESS);
    provider = make(&of_host);
    check_pool(host, provider);
    EXPECT(umfMemoryProviderDestroy(provider) == UMF_RESULT_SUCCESS);
    EXPECT(pleat_destroy(gpu, 0) == PLEAT_OK);
    EXPECT(pleat_destroy(host, 0) == PLEAT_OK);
    puts("UMF: memory, pools, sharing, pinned memory");
    return EXIT_SUCCESS;
}

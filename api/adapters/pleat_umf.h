/* pleat_umf.h - pleat as a memory provider of UMF, the Unified Memory Framework.
 *
 * C11 and C++. Header only over pleat.h and UMF's own headers (1.0 or later): needs libpleat and
 * libumf. A provider is a device of an instance, and a stream.
 *
 *   pleat_umf_params params = { .instance = gpu, .device = 0, .stream = stream };
 *   umf_memory_provider_handle_t provider;
 *   pleat_umf_create(&params, &provider);
 *   umfPoolCreate(umfProxyPoolOps(), provider, NULL, 0, &pool);      // or a pool of UMF's own
 *
 * Use the proxy pool, which passes requests on: pleat is a cache itself. A pool that keeps freed
 * memory hides it from the rest of the program. The provider neither owns nor ends the instance;
 * the instance outlives the provider.
 *
 * Handles for other processes are names (pleat_share.h): the instance needs `shareable:True`. All
 * handles of UMF have one size, so memory over more than PLEAT_UMF_MOST_CHUNKS pieces has no
 * handle. Merging, splitting and purging are not offered, since pleat needs none of them.
 *
 * Source: the operations of memory providers in UMF 1.2. */
#ifndef PLEAT_UMF_H
#define PLEAT_UMF_H

#include <stdint.h>
#include <string.h>

#include <umf/memory_provider.h>
#include <umf/memory_provider_ops.h>

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLEAT_UMF_ALIGNMENT = 256, /* of every address; more is had by asking for more */
    PLEAT_UMF_PAGE = 512,
    PLEAT_UMF_CACHE_LINE = 128,
    PLEAT_UMF_MOST_CHUNKS = 256,
    PLEAT_UMF_NAME_BYTES = 136 + 24 * PLEAT_UMF_MOST_CHUNKS
};

/** Parameters of a provider. The caller keeps them, alive and unchanged, as long as the provider
 *  lives. */
typedef struct pleat_umf_params {
    pleat instance;
    int device;
    int is_host;  /* the instance has memory:host: pinned memory, which the program may use, too */
    void *stream; /* freed memory serves others once this stream's work so far is over; NULL =
                     the legacy default stream; is_host and PLEAT_HOST_UNUSED: at once */
} pleat_umf_params;

/* A name as it travels to other processes. */
typedef struct pleat_umf_name {
    uint64_t bytes;
    char name[PLEAT_UMF_NAME_BYTES];
} pleat_umf_name;

static inline umf_result_t pleat_umf_result(pleat_status status)
{
    switch (status) {
    case PLEAT_OK:
        return UMF_RESULT_SUCCESS;
    case PLEAT_ENOMEM_HOST:
    case PLEAT_ENOMEM_DEVICE: /* UMF has one result for "out of memory", whatever the memory */
    case PLEAT_EPENDING:
    case PLEAT_ENOSPACE_VA:
        return UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    case PLEAT_EINVAL:
    case PLEAT_EFOREIGN:
    case PLEAT_EDOUBLEFREE:
    case PLEAT_EDEVICE:
    case PLEAT_ESIZE:
        return UMF_RESULT_ERROR_INVALID_ARGUMENT;
    case PLEAT_ENOTSUP:
        return UMF_RESULT_ERROR_NOT_SUPPORTED;
    default:
        return UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC;
    }
}

static inline umf_result_t pleat_umf_initialize(const void *params, void **provider)
{
    pleat_device_info info;
    const pleat_umf_params *given = (const pleat_umf_params *)params;
    if (given == NULL) {
        return UMF_RESULT_ERROR_INVALID_ARGUMENT;
    }
    pleat_status st = pleat_device_query(given->instance, given->device, &info);
    if (st == PLEAT_OK) {
        *provider = (void *)(uintptr_t)given;
    }
    return pleat_umf_result(st);
}

static inline umf_result_t pleat_umf_finalize(void *provider)
{
    (void)provider;
    return UMF_RESULT_SUCCESS;
}

static inline pleat_status pleat_umf_take(const pleat_umf_params *own, size_t bytes, uintptr_t *out)
{
    void *host = NULL;
    pleat_devptr at = 0;
    pleat_status st = own->is_host
                          ? pleat_host_alloc(own->instance, own->device, bytes, &host)
                          : pleat_block_alloc(own->instance, own->device, bytes, own->stream, &at);
    *out = own->is_host ? (uintptr_t)host : (uintptr_t)at;
    return st;
}

static inline umf_result_t pleat_umf_alloc(void *provider, size_t bytes, size_t alignment,
                                           void **out)
{
    uintptr_t at = 0;
    size_t more = alignment > PLEAT_UMF_ALIGNMENT ? alignment - PLEAT_UMF_ALIGNMENT : 0;
    if ((alignment & (alignment - 1)) != 0) {
        return UMF_RESULT_ERROR_INVALID_ALIGNMENT;
    }
    if (bytes > SIZE_MAX - more) {
        return UMF_RESULT_ERROR_INVALID_ARGUMENT;
    }
    pleat_status st = pleat_umf_take((const pleat_umf_params *)provider, bytes + more, &at);
    if (st == PLEAT_OK) {
        *out = (void *)(more > 0 ? (at + alignment - 1) & ~(uintptr_t)(alignment - 1) : at);
    }
    return pleat_umf_result(st);
}

/* UMF does not pass the alignment: the block that contains the address tells where it begins. */
static inline umf_result_t pleat_umf_free(void *provider, void *ptr, size_t bytes)
{
    const pleat_umf_params *own = (const pleat_umf_params *)provider;
    pleat_block_info info;
    (void)bytes;
    if (ptr == NULL) {
        return UMF_RESULT_SUCCESS;
    }
    pleat_status st = pleat_block_query(own->instance, own->device, (uintptr_t)ptr, &info);
    if (st == PLEAT_OK) {
        st = own->is_host ? pleat_host_free(own->instance, own->device,
                                            (void *)(uintptr_t)info.base, own->stream)
                          : pleat_block_free(own->instance, own->device, info.base, own->stream);
    }
    return pleat_umf_result(st);
}

static inline umf_result_t pleat_umf_get_error(void *provider, const char **message, int32_t *error)
{
    (void)provider;
    if (message != NULL) {
        *message = pleat_last_error()->text;
    }
    if (error != NULL) {
        *error = (int32_t)pleat_last_error()->status;
    }
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t pleat_umf_get_page(void *provider, size_t bytes, size_t *out)
{
    const pleat_umf_params *own = (const pleat_umf_params *)provider;
    pleat_stats stats;
    (void)bytes;
    pleat_status st = pleat_device_stats(own->instance, own->device, &stats);
    if (st == PLEAT_OK) {
        *out = (size_t)stats.granule_bytes;
    }
    return pleat_umf_result(st);
}

static inline umf_result_t pleat_umf_get_least_page(void *provider, const void *ptr, size_t *out)
{
    (void)provider;
    (void)ptr;
    *out = PLEAT_UMF_PAGE;
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t pleat_umf_get_cache_line(void *provider, size_t *out)
{
    (void)provider;
    *out = PLEAT_UMF_CACHE_LINE;
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t pleat_umf_get_name(void *provider, const char **name)
{
    (void)provider;
    *name = "PLEAT";
    return UMF_RESULT_SUCCESS;
}

/* ---- other processes ---- */

static inline umf_result_t pleat_umf_get_name_size(void *provider, size_t *bytes)
{
    (void)provider;
    *bytes = sizeof(pleat_umf_name);
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t pleat_umf_export(void *provider, const void *ptr, size_t bytes,
                                            void *out)
{
    const pleat_umf_params *own = (const pleat_umf_params *)provider;
    pleat_umf_name *name = (pleat_umf_name *)out;
    size_t needed = 0;
    memset(name, 0, sizeof *name);
    pleat_status st = pleat_share_export_range(own->instance, own->device, (uintptr_t)ptr, bytes,
                                               PLEAT_SHARE_SERVE, name->name, sizeof name->name,
                                               &needed);
    if (st == PLEAT_OK && needed > sizeof name->name) {
        return UMF_RESULT_ERROR_NOT_SUPPORTED;
    }
    name->bytes = needed;
    return pleat_umf_result(st);
}

/* A name holds nothing. */
static inline umf_result_t pleat_umf_unexport(void *provider, void *name)
{
    (void)provider;
    (void)name;
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t pleat_umf_open(void *provider, void *from, void **out)
{
    const pleat_umf_params *own = (const pleat_umf_params *)provider;
    const pleat_umf_name *name = (const pleat_umf_name *)from;
    pleat_devptr at = 0;
    if (name->bytes > sizeof name->name) {
        return UMF_RESULT_ERROR_INVALID_ARGUMENT;
    }
    pleat_status st = pleat_share_open(own->instance, own->device, name->name, (size_t)name->bytes,
                                       &at);
    if (st == PLEAT_OK) {
        *out = (void *)(uintptr_t)at;
    }
    return pleat_umf_result(st);
}

static inline umf_result_t pleat_umf_close(void *provider, void *ptr, size_t bytes)
{
    const pleat_umf_params *own = (const pleat_umf_params *)provider;
    (void)bytes;
    return pleat_umf_result(
        pleat_share_close(own->instance, own->device, (uintptr_t)ptr, own->stream));
}

/* ---- the provider ---- */

/** Fill in the operations, for programs that call umfMemoryProviderCreate themselves, with a
 *  pleat_umf_params. */
static inline void pleat_umf_fill(umf_memory_provider_ops_t *ops)
{
    memset(ops, 0, sizeof *ops);
    ops->version = UMF_PROVIDER_OPS_VERSION_CURRENT;
    ops->initialize = pleat_umf_initialize;
    ops->finalize = pleat_umf_finalize;
    ops->alloc = pleat_umf_alloc;
    ops->free = pleat_umf_free;
    ops->get_last_native_error = pleat_umf_get_error;
    ops->get_recommended_page_size = pleat_umf_get_page;
    ops->get_min_page_size = pleat_umf_get_least_page;
    ops->get_name = pleat_umf_get_name;
    ops->ext_get_ipc_handle_size = pleat_umf_get_name_size;
    ops->ext_get_ipc_handle = pleat_umf_export;
    ops->ext_put_ipc_handle = pleat_umf_unexport;
    ops->ext_open_ipc_handle = pleat_umf_open;
    ops->ext_close_ipc_handle = pleat_umf_close;
#if UMF_PROVIDER_OPS_VERSION_CURRENT >= 0x10002
    ops->get_cache_line_size = pleat_umf_get_cache_line;
#endif
}

/** Make a provider of a device of an instance; its end: umfMemoryProviderDestroy. */
static inline umf_result_t pleat_umf_create(const pleat_umf_params *params,
                                            umf_memory_provider_handle_t *out)
{
    umf_memory_provider_ops_t ops; /* UMF copies them */
    pleat_umf_fill(&ops);
    return umfMemoryProviderCreate(&ops, params, out);
}

#ifdef __cplusplus
}
#endif

#endif

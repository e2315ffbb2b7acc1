/* request.h - one request of a work, for device memory or for pinned memory of the host. */
#ifndef PLEAT_BENCH_REQUEST_H
#define PLEAT_BENCH_REQUEST_H

#include "api/pleat.h"

/* Why the last request failed. */
static inline const char *bench_request_error(void)
{
    const pleat_error *error = pleat_last_error();
    return error->text && error->text[0] ? error->text : pleat_status_text(error->status);
}

/* The program may use pinned memory at once. So pinned memory is in no stream's order. */
static inline pleat_status bench_request_alloc(pleat instance, bool is_host, uint64_t bytes,
                                               void *stream, pleat_devptr *out)
{
    if (!is_host) {
        return pleat_block_alloc(instance, 0, bytes, stream, out);
    }
    void *ptr = NULL;
    pleat_status st = pleat_host_alloc(instance, 0, bytes, &ptr);
    *out = (uintptr_t)ptr;
    return st;
}

static inline pleat_status bench_request_free(pleat instance, bool is_host, pleat_devptr ptr,
                                              void *stream)
{
    return is_host ? pleat_host_free(instance, 0, (void *)(uintptr_t)ptr, stream)
                   : pleat_block_free(instance, 0, ptr, stream);
}

#endif

/* device.c - the calls about a whole device of an instance: trimming, limits, figures, checks.
 *
 * Only calls that need the driver (memory_info, set_limit, describe, release_capture) open a
 * device. Asking for statistics must not make a context of 300 MiB. */
#include <pthread.h>
#include <string.h>

#include "api/base/sized.h"
#include "api/instance/instance.h"
#include "vmm/driver.h"
#include "vmm/streams/stream.h"

static pleat_status refuse_null(const char *function, const char *what)
{
    return pl_error_set(PLEAT_EINVAL, 0, "%s: `%s` is NULL", function, what);
}

/* Enter and find the device if it is open; *gpu is NULL for a device never used. */
static pleat_status begin_found(pleat handle, int device, pl_use *use, pl_gpu **gpu)
{
    pl_driver_clear_error();
    *use = pl_use_enter(handle);
    if (!use->instance) {
        return pl_error_status();
    }
    pleat_status st = pl_use_check_device(use->instance, device);
    if (st != PLEAT_OK) {
        pl_use_leave(*use);
        return st;
    }
    *gpu = pl_use_find_gpu(use->instance, device);
    return PLEAT_OK;
}

pleat_status pleat_device_trim(pleat handle, int device, uint64_t keep_bytes, bool wait,
                               uint64_t *released)
{
    pl_use use;
    pl_gpu *gpu;
    uint64_t bytes = 0;
    if (wait) {
        pthread_testcancel(); /* lets a thread be cancelled that does nothing but wait here */
    }
    pleat_status st = begin_found(handle, device, &use, &gpu);
    if (st != PLEAT_OK) {
        return st;
    }
    if (gpu) {
        pl_imports_claim(&gpu->imports, gpu->dev);
        pl_imports_collect(&gpu->imports);
        pl_imports_unclaim(&gpu->imports);
        st = gpu->ops->trim(gpu->allocator, keep_bytes, wait, &bytes);
        pl_gpu_debug_walk(gpu);
    }
    if (st != PLEAT_OK) {
        pl_error_set(st, keep_bytes, "device %d could not be trimmed: %s", device,
                     pleat_status_text(st));
    } else if (released) {
        *released = bytes;
    }
    pl_use_leave(use);
    return st;
}

/* Why a compaction did not come about, or stopped. */
static pleat_status note_compaction(pleat_status st, const pl_gpu *gpu, int device)
{
    if (st == PLEAT_ENOTSUP && !gpu->ops->compact) {
        return pl_error_set(st, 0, "device %d: %s cannot move live memory", device, gpu->ops->name);
    }
    if (st == PLEAT_EBUSY) {
        return pl_error_set(st, 0,
                            "device %d: live memory is not moved while mappings are observed: it "
                            "may be registered (pleat_mapping_unobserve)",
                            device);
    }
    return st == PLEAT_OK ? st
                          : pl_error_set(st, 0, "device %d could not be compacted: %s", device,
                                         pleat_status_text(st));
}

pleat_status pleat_device_compact_sized(pleat handle, int device, size_t out_bytes,
                                        pleat_compaction *out)
{
    static const pl_sized kind = PL_SIZED_COMPACTION;
    pl_use use;
    pl_gpu *gpu;
    pleat_compaction told = { .n_split = 0 };
    pleat_status st = pl_sized_check(&kind, out_bytes, out);
    st = st == PLEAT_OK ? begin_found(handle, device, &use, &gpu) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    if (gpu) {
        st = note_compaction(pl_gpu_compact(gpu, 0, &told), gpu, device);
    }
    pl_use_leave(use);
    if (st == PLEAT_OK) {
        pl_sized_write(&kind, &told, out_bytes, out);
    }
    return st;
}

pleat_status pleat_device_set_limit(pleat handle, int device, uint64_t bytes)
{
    pl_use use;
    pl_gpu *gpu = pl_use_open(handle, device, &use);
    if (!gpu) {
        return pl_error_status();
    }
    pleat_status st = gpu->ops->set_limit(gpu->allocator, bytes);
    if (st == PLEAT_OK) {
        atomic_store(&gpu->limit_bytes, bytes);
    } else {
        pl_error_set(st, bytes,
                     "device %d: the limit of %llu bytes cannot be kept, so it stays as it was: %s",
                     device, (unsigned long long)bytes,
                     st == PLEAT_ENOMEM_DEVICE ? "live blocks need more" : pleat_status_text(st));
    }
    pl_gpu_debug_walk(gpu);
    pl_use_leave(use);
    return st;
}

pleat_status pleat_device_memory_info(pleat handle, int device, uint64_t *free_bytes,
                                      uint64_t *total_bytes)
{
    pl_use use;
    uint64_t n_free;
    if (!free_bytes || !total_bytes) {
        return refuse_null("pleat_device_memory_info", free_bytes ? "total_bytes" : "free_bytes");
    }
    pl_gpu *gpu = pl_use_open(handle, device, &use);
    if (!gpu) {
        return pl_error_status();
    }
    pleat_status st = pl_device_free_bytes(gpu->dev, &n_free);
    if (st == PLEAT_OK) {
        *free_bytes = n_free;
        *total_bytes = pl_device_total_bytes(gpu->dev);
    } else {
        pl_error_set(st, 0, "device %d: the driver does not tell what is free", device);
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_device_stats_sized(pleat handle, int device, size_t out_bytes, pleat_stats *out)
{
    static const pl_sized kind = PL_SIZED_STATS;
    pl_use use;
    pl_gpu *gpu;
    pleat_stats stats;
    pleat_status st = pl_sized_check(&kind, out_bytes, out);
    st = st == PLEAT_OK ? begin_found(handle, device, &use, &gpu) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    memset(&stats, 0, sizeof stats);
    if (gpu) {
        gpu->ops->stats(gpu->allocator, &stats);
        stats.metadata_bytes += pl_history_host_bytes(&gpu->history);
        stats.num_ooms = atomic_load(&gpu->n_ooms);
    }
    pl_use_leave(use);
    pl_sized_write(&kind, &stats, out_bytes, out);
    return PLEAT_OK;
}

pleat_status pleat_device_reset_peaks(pleat handle, int device)
{
    pl_use use;
    pl_gpu *gpu;
    pleat_status st = begin_found(handle, device, &use, &gpu);
    if (st != PLEAT_OK) {
        return st;
    }
    if (gpu) {
        gpu->ops->reset_peaks(gpu->allocator);
    }
    pl_use_leave(use);
    return PLEAT_OK;
}

pleat_status pleat_device_release_capture(pleat handle, int device, void *stream)
{
    pl_use use;
    pl_stream *known;
    pleat_status st = PLEAT_OK;
    pl_gpu *gpu = pl_use_open(handle, device, &use);
    if (!gpu) {
        return pl_error_status();
    }
    if (gpu->ops->release_capture_of) {
        st = gpu->ops->release_capture_of(gpu->allocator, stream);
    } else {
        st = pl_stream_get(gpu->dev, stream, &known);
        if (st == PLEAT_OK) {
            st = gpu->ops->release_capture(gpu->allocator, known);
            pl_stream_put(known);
        }
    }
    if (st != PLEAT_OK) {
        pl_error_set(st, 0,
                     "device %d: what was freed while the stream %p was captured could not "
                     "be released: %s",
                     device, stream, pleat_status_text(st));
    }
    pl_gpu_debug_walk(gpu);
    pl_use_leave(use);
    return st;
}

/* The caller holds the stream; this function lets go. */
static void retire_known(pl_gpu *gpu, pl_stream *known)
{
    if (gpu->ops->retire_stream && !pl_stream_is_legacy(known)) {
        gpu->ops->retire_stream(gpu->allocator, known);
        pl_gpu_debug_walk(gpu);
    } else {
        pl_stream_put(known);
    }
}

/* Peer devices may have seen the stream, too. */
static void retire_elsewhere(pl_instance *instance, int device, void *stream)
{
    for (int i = 0; i < instance->n_devices; i++) {
        pl_gpu *gpu = i != device ? pl_use_find_gpu(instance, i) : NULL;
        pl_stream *known = gpu ? pl_stream_known(gpu->dev, stream) : NULL;
        if (known) {
            retire_known(gpu, known);
        }
    }
}

pleat_status pleat_stream_retire(pleat handle, int device, void *stream)
{
    pl_use use;
    pl_gpu *gpu;
    pl_stream *known;
    pleat_status st = begin_found(handle, device, &use, &gpu);
    if (st != PLEAT_OK) {
        return st;
    }
    if (gpu && gpu->ops->retire_stream) {
        st = pl_stream_get(gpu->dev, stream, &known);
        if (st == PLEAT_OK) {
            retire_known(gpu, known);
        }
    }
    retire_elsewhere(use.instance, device, stream);
    if (st != PLEAT_OK) {
        pl_error_set(st, 0, "device %d: the stream %p cannot be retired: %s", device, stream,
                     st == PLEAT_EDRIVER ? "the driver does not know it; retire it before it is "
                                           "destroyed"
                                         : pleat_status_text(st));
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_device_query_sized(pleat handle, int device, size_t out_bytes,
                                      pleat_device_info *out)
{
    static const pl_sized kind = PL_SIZED_DEVICE_INFO;
    pl_use use;
    pleat_status st = pl_sized_check(&kind, out_bytes, out);
    pl_gpu *gpu = st == PLEAT_OK ? pl_use_open(handle, device, &use) : NULL;
    if (!gpu) {
        return pl_error_status();
    }
    pleat_device_info info = {
        .name = pl_device_name(gpu->dev),
        .driver = pl_driver_kind_of(use.instance->drv) == PL_DRIVER_SIM ? "sim" : "cuda",
        .allocator = gpu->ops->name,
        .note = gpu->note,
        .total_bytes = pl_device_total_bytes(gpu->dev),
        .granule_bytes = pl_device_granule_bytes(gpu->dev),
        .limit_bytes = atomic_load(&gpu->limit_bytes),
    };
    pl_use_leave(use);
    pl_sized_write(&kind, &info, out_bytes, out);
    return PLEAT_OK;
}

pleat_status pleat_check(pleat handle, int *broken)
{
    pl_use use;
    int first = 0;
    if (!broken) {
        return refuse_null("pleat_check", "broken");
    }
    use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    for (int i = 0; i < use.instance->n_devices && first == 0; i++) {
        pl_gpu *gpu = pl_use_find_gpu(use.instance, i);
        first = gpu ? gpu->ops->check(gpu->allocator) : 0;
    }
    *broken = first;
    pl_use_leave(use);
    return PLEAT_OK;
}

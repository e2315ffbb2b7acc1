/* block.c - the hot calls: allocate, free, record a stream, look a pointer up.
 *
 * Each enters the instance, finds device and stream and calls the allocator; everything that says
 * why something failed lies in cold functions behind. Holds no lock. */
#include "api/callback.h"
#include "api/oom.h"
#include "vmm/driver.h"
#include "vmm/stream.h"

static const size_t most_bytes = (size_t)1 << 60;

/* What every call on a block needs. */
typedef struct block_call {
    pl_use use;
    pl_gpu *gpu;
    pl_stream *stream;
} block_call;

/* ---- why something failed ---- */

__attribute__((cold, noinline)) static pleat_status refuse_size(size_t bytes, const void *out)
{
    if (!out) {
        return pl_error_set(PLEAT_EINVAL, bytes, "pleat_block_alloc: `out` is NULL");
    }
    if (bytes == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "a block of zero bytes was requested");
    }
    return pl_error_set(PLEAT_ESIZE, bytes,
                        "%llu bytes were requested: more than 2^60, which no device holds",
                        (unsigned long long)bytes);
}

__attribute__((cold, noinline)) static pleat_status refuse_stream(const pl_gpu *gpu, void *stream,
                                                                  pleat_status st)
{
    return pl_error_set(st, 0, "device %d: the stream %p cannot be used: %s", gpu->ordinal, stream,
                        st == PLEAT_EDRIVER ? "the driver does not know it"
                                            : pleat_status_text(st));
}

/* Where else in the instance the address lies, for the text only. */
static void say_whereabouts(pl_instance *instance, int device, pleat_devptr ptr, pl_text *text)
{
    for (int i = 0; i < instance->n_devices; i++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, i);
        pleat_block_info info;
        if (!gpu || gpu->ops->query(gpu->allocator, ptr, &info) != PLEAT_OK) {
            continue;
        }
        if (i != device) {
            pl_text_add(text, "; it belongs to device %d", i);
        } else if (info.base != ptr) {
            pl_text_add(text, "; it lies inside the block that begins at 0x%llx",
                        (unsigned long long)info.base);
        }
        return;
    }
}

__attribute__((cold, noinline)) static pleat_status refuse_pointer(pl_instance *instance,
                                                                   int device, pleat_devptr ptr,
                                                                   pleat_status st)
{
    char where[128];
    pl_text text;
    pl_text_init(&text, where, sizeof where);
    if (ptr == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "the pointer is NULL");
    }
    if (st == PLEAT_EFOREIGN) {
        say_whereabouts(instance, device, ptr, &text);
    }
    return pl_error_set(st, 0, "0x%llx on device %d: %s%s", (unsigned long long)ptr, device,
                        pleat_status_text(st), where);
}

/* ---- memory is short ---- */

static bool is_shortage(pleat_status st)
{
    return st == PLEAT_ENOMEM_DEVICE || st == PLEAT_EPENDING;
}

static pleat_status report_shortage(block_call *call, size_t bytes, pleat_status st)
{
    char sentence[PL_ERROR_TEXT_BYTES];
    pl_driver_error driver = *pl_driver_last_error();
    pl_text text;
    pl_text_init(&text, sentence, sizeof sentence);
    pleat_verdict verdict = pl_oom_explain(call->gpu, bytes, st, &text);
    pl_error_set_verdict(st, bytes, verdict, sentence, &driver);
    if (st == PLEAT_ENOMEM_DEVICE) {
        pleat_error kept = *pleat_last_error();
        atomic_fetch_add(&call->gpu->n_ooms, 1);
        pl_error_copy_text(sentence, sizeof sentence);
        pl_callback_oom(call->use.instance, call->gpu->ordinal, bytes, sentence);
        pl_error_restore(&kept, sentence); /* the callback's own failures are not the caller's */
    }
    return st;
}

/* The application is asked for memory as long as it frees some; a bound keeps one that always
 * claims to from holding the request for ever. */
__attribute__((cold, noinline)) static pleat_status alloc_short(block_call *call, size_t bytes,
                                                                pleat_status st, pleat_devptr *out)
{
    enum { MAX_ROUNDS = 64 };
    pl_instance *instance = call->use.instance;
    for (unsigned i = 0; i < MAX_ROUNDS && is_shortage(st); i++) {
        if (!pl_callback_pressure(instance, call->gpu->ordinal, bytes)) {
            break;
        }
        if (pl_use_is_forked(instance)) {
            return pl_error_set(PLEAT_EFORKED, 0, "a callback forked, and this is the child");
        }
        pl_driver_clear_error();
        st = call->gpu->ops->alloc(call->gpu->allocator, bytes, call->stream, out);
    }
    if (st == PLEAT_OK) {
        return st;
    }
    if (is_shortage(st) || st == PLEAT_ENOSPACE_VA) {
        return report_shortage(call, bytes, st);
    }
    return pl_error_set(st, bytes, "device %d: %llu bytes could not be allocated: %s",
                        call->gpu->ordinal, (unsigned long long)bytes, pleat_status_text(st));
}

/* ---- the calls ---- */

/* Enter and find the device and the stream; on failure nothing is held. */
static inline pleat_status begin(pleat handle, int device, void *stream, block_call *call)
{
    pl_driver_clear_error();
    pleat_status st = pl_use_enter(handle, &call->use);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_use_gpu(call->use.instance, device, &call->gpu);
    if (st == PLEAT_OK) {
        st = pl_stream_get(call->gpu->dev, stream, &call->stream);
        if (st == PLEAT_OK) {
            return st;
        }
        refuse_stream(call->gpu, stream, st);
    }
    pl_use_leave(&call->use);
    return st;
}

/* The same for a block that should exist: a device never used has none, and is not opened. */
static inline pleat_status begin_known(pleat handle, int device, pleat_devptr ptr, void *stream,
                                       block_call *call)
{
    pl_driver_clear_error();
    pleat_status st = pl_use_enter(handle, &call->use);
    if (st != PLEAT_OK) {
        return st;
    }
    call->gpu = pl_use_find_gpu(call->use.instance, device);
    if (call->gpu && ptr != 0) {
        st = pl_stream_get(call->gpu->dev, stream, &call->stream);
        if (st == PLEAT_OK) {
            return st;
        }
        refuse_stream(call->gpu, stream, st);
    } else {
        st = pl_use_check_device(call->use.instance, device);
        if (st == PLEAT_OK) {
            st = refuse_pointer(call->use.instance, device, ptr, PLEAT_EFOREIGN);
        }
    }
    pl_use_leave(&call->use);
    return st;
}

static inline void end(block_call *call, pleat_status st)
{
    if (st != PLEAT_EFORKED) {
        pl_gpu_debug_walk(call->gpu);
    }
    pl_use_leave(&call->use);
}

pleat_status pleat_block_alloc(pleat handle, int device, size_t bytes, void *stream,
                               pleat_devptr *out)
{
    block_call call;
    pleat_devptr ptr;
    if (bytes - 1 >= most_bytes || !out) { /* zero wraps round */
        return refuse_size(bytes, out);
    }
    pleat_status st = begin(handle, device, stream, &call);
    if (st != PLEAT_OK) {
        return st;
    }
    st = call.gpu->ops->alloc(call.gpu->allocator, bytes, call.stream, &ptr);
    if (__builtin_expect(st != PLEAT_OK, 0)) {
        st = alloc_short(&call, bytes, st, &ptr);
    }
    if (st == PLEAT_OK) {
        *out = ptr;
    }
    end(&call, st);
    return st;
}

pleat_status pleat_block_free(pleat handle, int device, pleat_devptr ptr, void *stream)
{
    block_call call;
    pleat_status st = begin_known(handle, device, ptr, stream, &call);
    if (st != PLEAT_OK) {
        return st;
    }
    st = call.gpu->ops->free(call.gpu->allocator, ptr, call.stream);
    if (__builtin_expect(st != PLEAT_OK, 0)) {
        st = refuse_pointer(call.use.instance, device, ptr, st);
    }
    end(&call, st);
    return st;
}

pleat_status pleat_block_record_stream(pleat handle, int device, pleat_devptr ptr, void *stream)
{
    block_call call;
    pleat_status st = begin_known(handle, device, ptr, stream, &call);
    if (st != PLEAT_OK) {
        return st;
    }
    st = call.gpu->ops->record_stream(call.gpu->allocator, ptr, call.stream);
    if (__builtin_expect(st != PLEAT_OK, 0)) {
        st = refuse_pointer(call.use.instance, device, ptr, st);
    }
    end(&call, st);
    return st;
}

pleat_status pleat_block_query(pleat handle, int device, pleat_devptr ptr, pleat_block_info *out)
{
    pl_use use;
    pleat_block_info info;
    if (!out) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_block_query: `out` is NULL");
    }
    pl_driver_clear_error();
    pleat_status st = pl_use_enter(handle, &use);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_use_check_device(use.instance, device);
    if (st == PLEAT_OK) {
        pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
        st = gpu && ptr != 0 ? gpu->ops->query(gpu->allocator, ptr, &info) : PLEAT_EFOREIGN;
        if (st == PLEAT_OK) {
            *out = info;
        } else {
            st = refuse_pointer(use.instance, device, ptr, st);
        }
    }
    pl_use_leave(&use);
    return st;
}

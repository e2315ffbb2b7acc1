/* open.c - the calls of pleat_share.h that open and close memory of other processes.
 *
 * A thread claims the device's imports (imports.h) before reading or changing them. While asking
 * another process a thread holds no claim and no lock: if the other process is stopped, only the
 * asking thread waits. */
#include "api/instance/instance.h"
#include "api/instance/whereabouts.h"
#include "api/share/ask.h"

/* Descriptors that the program has received. */
typedef struct given_fds {
    const int *fds;
    size_t n;
} given_fds;

static pleat_status given_fd(void *given, size_t i, int *fd)
{
    *fd = ((const given_fds *)given)->fds[i];
    return PLEAT_OK;
}

static pleat_status map_given(pl_gpu *gpu, const pl_name *name, const pl_shared_chunk *chunks,
                              const given_fds *given, pl_import **out)
{
    pl_fd_source source = { given_fd, (void *)(uintptr_t)given };
    return pl_imports_map(&gpu->imports, gpu->dev, name->process, chunks, (size_t)name->n, source,
                          out);
}

static pleat_status map_asking(pl_gpu *gpu, const pl_name *name, const pl_shared_chunk *chunks,
                               pl_import **out)
{
    pl_asker asker;
    pleat_status st = pl_asker_begin(&asker, name, chunks);
    if (st == PLEAT_OK) {
        pl_fd_source source = { pl_asker_fd, &asker };
        st = pl_imports_map(&gpu->imports, gpu->dev, name->process, chunks, (size_t)name->n, source,
                            out);
        pl_asker_end(&asker);
    }
    return st;
}

/* The asker has worded ESHARE already. */
static pleat_status refuse(const pl_name *name, pleat_status st)
{
    if (st == PLEAT_OK || st == PLEAT_ESHARE) {
        return st;
    }
    return pl_error_set(st, name->block_bytes,
                        "memory that process %d shared on its device %d, %llu chunks, could not be "
                        "mapped here: %s",
                        name->pid, name->device, (unsigned long long)name->n,
                        pleat_status_text(st));
}

static bool reopen(pl_gpu *gpu, const pl_name *name, const pl_shared_chunk *chunks,
                   pleat_devptr *base)
{
    pl_imports_claim(&gpu->imports, gpu->dev);
    pl_imports_collect(&gpu->imports);
    bool is_there = pl_imports_reopen(&gpu->imports, name->process, chunks, (size_t)name->n, base);
    pl_imports_unclaim(&gpu->imports);
    return is_there;
}

/* `given` NULL: the process of the name is asked. */
static pleat_status open_chunks(pl_gpu *gpu, const pl_name *name, const pl_shared_chunk *chunks,
                                const given_fds *given, pleat_devptr *out)
{
    pleat_devptr base;
    pl_import *mapped;
    if (!reopen(gpu, name, chunks, &base)) {
        pleat_status st = given ? map_given(gpu, name, chunks, given, &mapped)
                                : map_asking(gpu, name, chunks, &mapped);
        if (st != PLEAT_OK) {
            return refuse(name, st);
        }
        pl_imports_claim(&gpu->imports, gpu->dev);
        base = pl_imports_add(&gpu->imports, mapped);
        pl_imports_unclaim(&gpu->imports);
    }
    *out = base + name->skip_bytes;
    return PLEAT_OK;
}

static pleat_status open_on(pl_gpu *gpu, const void *from, const pl_name *name,
                            const given_fds *given, pleat_devptr *out)
{
    size_t bytes = (size_t)name->n * sizeof(pl_shared_chunk);
    pl_shared_chunk *chunks = pl_imports_alloc(&gpu->imports, bytes);
    if (!chunks) {
        return refuse(name, PLEAT_ENOMEM_HOST);
    }
    pl_name_read_chunks(from, name, chunks);
    pleat_status st = open_chunks(gpu, name, chunks, given, out);
    pl_imports_drop(&gpu->imports, chunks);
    return st;
}

/* Is the memory on that device? Says where it is. */
static pleat_status check_device(pleat handle, const void *from, size_t name_bytes, int device)
{
    int found = -1;
    pleat_status st = pleat_share_device(handle, from, name_bytes, &found);
    if (st == PLEAT_OK && found != device) {
        st = pl_error_set(PLEAT_EDEVICE, 0,
                          "the memory lies on device %d, not on %d: open it there", found, device);
    }
    return st;
}

static pleat_status open_name(pleat handle, int device, const void *from, size_t name_bytes,
                              const given_fds *given, pleat_devptr *out)
{
    pl_name name;
    if (!out) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_share_open: `out` is NULL");
    }
    pl_driver_clear_error();
    pleat_status st = check_device(handle, from, name_bytes, device);
    if (st != PLEAT_OK || !pl_name_read(from, name_bytes, &name)) {
        return st;
    }
    if (given && (!given->fds || given->n != name.n)) {
        return pl_error_set(
            PLEAT_EINVAL, 0, "pleat_share_open_fds: the name needs %llu descriptors, not %llu",
            (unsigned long long)name.n, (unsigned long long)(given->fds ? given->n : 0));
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    st = gpu ? open_on(gpu, from, &name, given, out) : pl_error_status();
    pl_use_leave(use);
    return st;
}

pleat_status pleat_share_open(pleat handle, int device, const void *name, size_t name_bytes,
                              pleat_devptr *out)
{
    return open_name(handle, device, name, name_bytes, NULL, out);
}

pleat_status pleat_share_open_fds(pleat handle, int device, const void *name, size_t name_bytes,
                                  const int *fds, size_t n, pleat_devptr *out)
{
    given_fds given = { fds, n };
    return open_name(handle, device, name, name_bytes, &given, out);
}

/* ---- close ---- */

static pleat_status refuse_close(pl_instance *instance, int device, pleat_devptr ptr)
{
    char where[192];
    pl_text text;
    pl_text_init(&text, where, sizeof where);
    pl_whereabouts_say(instance, device, ptr, &text);
    return pl_error_set(PLEAT_EFOREIGN, 0, "0x%llx on device %d: nothing is open there%s",
                        (unsigned long long)ptr, device, where);
}

static pleat_status close_on(pl_gpu *gpu, pleat_devptr ptr, void *stream)
{
    pl_stream *known;
    pleat_status st = pl_stream_get(gpu->dev, stream, &known);
    if (st != PLEAT_OK) {
        return pl_error_set(st, 0, "device %d: the stream %p cannot be used: %s", gpu->ordinal,
                            stream, pleat_status_text(st));
    }
    pl_imports_claim(&gpu->imports, gpu->dev);
    st = pl_imports_close(&gpu->imports, ptr, known);
    if (st != PLEAT_OK) {
        pl_stream_put(known);
    } else {
        pl_imports_collect(&gpu->imports);
    }
    pl_imports_unclaim(&gpu->imports);
    if (st == PLEAT_EFOREIGN) {
        return refuse_close(gpu->instance, gpu->ordinal, ptr);
    }
    return st == PLEAT_OK
               ? st
               : pl_error_set(st, 0, "0x%llx on device %d stays open: %s", (unsigned long long)ptr,
                              gpu->ordinal, pleat_status_text(st));
}

pleat_status pleat_share_close(pleat handle, int device, pleat_devptr ptr, void *stream)
{
    pl_driver_clear_error();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pleat_status st = pl_use_check_device(use.instance, device);
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    if (st == PLEAT_OK && gpu) {
        st = close_on(gpu, ptr, stream);
    } else if (st == PLEAT_OK) {
        st = refuse_close(use.instance, device, ptr);
    }
    pl_use_leave(use);
    return st;
}

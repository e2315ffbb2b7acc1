/* export.c - the calls of pleat_share.h that name blocks and read names: they check, find out which
 * device it is, and word refusals. Nothing here holds a lock across a driver call. */
#include <string.h>
#include <unistd.h>

#include "api/instance.h"
#include "api/share/ask.h"
#include "api/share/serve.h"

enum { FEW_CHUNKS = 16 }; /* a block of so many needs no host memory to be named */

static pleat_status refuse_name(const char *function)
{
    return pl_error_set(PLEAT_EINVAL, 0,
                        "%s: this is no name of a shared block: it was cut or changed on its way, "
                        "or made by another version of the library",
                        function);
}

/* ---- export ---- */

typedef struct block_chunks {
    pl_shared_chunk few[FEW_CHUNKS];
    pl_shared_chunk *all; /* these, or host memory */
    size_t n;
    pleat_devptr base;
    pleat_block_info block;
} block_chunks;

static pleat_status get_chunks(pl_gpu *gpu, pleat_devptr ptr, block_chunks *out)
{
    size_t capacity = FEW_CHUNKS;
    out->all = out->few;
    for (;;) {
        pleat_status st = gpu->ops->share(gpu->allocator, ptr, out->all, capacity, &out->n,
                                          &out->base, &out->block);
        if (st == PLEAT_OK && out->n <= capacity) {
            return PLEAT_OK;
        }
        if (out->all != out->few) {
            pl_imports_drop(&gpu->imports, out->all);
        }
        if (st != PLEAT_OK) {
            return st;
        }
        capacity = out->n;
        out->all = pl_imports_alloc(&gpu->imports, capacity * sizeof *out->all);
        if (!out->all) {
            return PLEAT_ENOMEM_HOST;
        }
    }
}

static void drop_chunks(pl_gpu *gpu, block_chunks *chunks)
{
    if (chunks->all != chunks->few) {
        pl_imports_drop(&gpu->imports, chunks->all);
    }
}

static pleat_status refuse_block(const pl_gpu *gpu, pleat_devptr ptr, pleat_status st)
{
    if (st == PLEAT_ENOTSUP) {
        return pl_error_set(st, 0,
                            "device %d: the instance was made without shareable:True, or the "
                            "device cannot share: no other process can open its memory",
                            gpu->ordinal);
    }
    return pl_error_set(st, 0, "0x%llx on device %d cannot be shared: %s", (unsigned long long)ptr,
                        gpu->ordinal, pleat_status_text(st));
}

static pleat_status fill_name(pl_use use, const pl_gpu *gpu, pleat_devptr ptr,
                              const block_chunks *chunks, unsigned flags, pl_name *out)
{
    pl_bus_place place;
    pl_name name = { .instance = use.instance->handle, .device = gpu->ordinal };
    if (!pl_serve_process(name.process)) {
        return pl_error_set(PLEAT_ESHARE, 0, "the system gives no random bytes for a name");
    }
    pleat_status st = pl_driver_bus_place(use.instance->drv, gpu->ordinal, &place);
    if (st != PLEAT_OK) {
        return refuse_block(gpu, ptr, st);
    }
    name.pid = getpid();
    name.user = geteuid();
    name.is_served = (flags & PLEAT_SHARE_SERVE) != 0;
    name.domain = place.domain;
    name.bus = place.bus;
    name.slot = place.slot;
    name.is_simulated = pl_driver_is_simulator(use.instance->drv);
    name.n = chunks->n;
    name.skip_bytes = ptr - chunks->base;
    name.block_bytes = chunks->block.base + chunks->block.bytes - ptr;
    *out = name;
    return PLEAT_OK;
}

static pleat_status export_block(pl_use use, pl_gpu *gpu, pleat_devptr ptr, unsigned flags,
                                 void *to, size_t capacity, size_t *needed)
{
    pl_name name;
    block_chunks chunks;
    pleat_status st = get_chunks(gpu, ptr, &chunks);
    if (st != PLEAT_OK) {
        return refuse_block(gpu, ptr, st);
    }
    st = fill_name(use, gpu, ptr, &chunks, flags, &name);
    if (st == PLEAT_OK && (flags & PLEAT_SHARE_SERVE) != 0) {
        st = pl_serve_start();
    }
    if (st == PLEAT_OK) {
        *needed = pl_name_bytes(chunks.n);
        if (*needed <= capacity) {
            pl_name_write(&name, chunks.all, to);
        }
    }
    drop_chunks(gpu, &chunks);
    return st;
}

pleat_status pleat_share_export(pleat handle, int device, pleat_devptr ptr, unsigned flags,
                                void *name, size_t capacity, size_t *needed)
{
    if (!needed || (!name && capacity > 0)) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_share_export: `%s` is NULL",
                            needed ? "name" : "needed");
    }
    if (ptr == 0 || (flags & ~(unsigned)PLEAT_SHARE_SERVE) != 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_share_export: %s",
                            ptr == 0 ? "the pointer is NULL" : "unknown flags");
    }
    pl_driver_clear_error();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pleat_status st = pl_use_check_device(use.instance, device);
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    if (st == PLEAT_OK && !gpu) {
        st = pl_error_set(PLEAT_EFOREIGN, 0, "device %d has no blocks: it was never used", device);
    } else if (st == PLEAT_OK && !gpu->ops->share) {
        st = pl_error_set(PLEAT_ENOTSUP, 0,
                          "device %d: blocks of %s cannot be shared; those of allocator:pleat can",
                          device, gpu->ops->name);
    } else if (st == PLEAT_OK) {
        st = export_block(use, gpu, ptr, flags, name, capacity, needed);
    }
    pl_use_leave(use);
    return st;
}

/* ---- descriptors ---- */

static pleat_status refuse_own(const pl_name *name, pleat_status st, const char *why)
{
    return pl_error_set(st, 0, "no descriptors for memory that process %d shared: %s", name->pid,
                        why);
}

static pleat_status make_fds(pl_gpu *gpu, const void *from, const pl_name *name, int *fds)
{
    pleat_status st = PLEAT_OK;
    size_t n = 0;
    const char *at = (const char *)from + sizeof *name;
    for (; n < name->n && st == PLEAT_OK; n += st == PLEAT_OK ? 1 : 0) {
        pl_shared_chunk chunk;
        memcpy(&chunk, at + n * sizeof chunk, sizeof chunk);
        st = pl_share_export(gpu->dev, &chunk, &fds[n]);
    }
    if (st == PLEAT_OK) {
        return PLEAT_OK;
    }
    pl_talk_close(fds, n);
    return refuse_own(name, st,
                      st == PLEAT_ESHARE ? "it went back to the driver since; keep the block until "
                                           "everybody has closed it"
                                         : "the driver gives none; perhaps the process has none "
                                           "left (ulimit -n)");
}

pleat_status pleat_share_fds(pleat handle, const void *from, size_t name_bytes, int *fds,
                             size_t capacity)
{
    pl_name name;
    uint64_t process[2];
    if (!pl_name_read(from, name_bytes, &name)) {
        return refuse_name("pleat_share_fds");
    }
    if (!fds || capacity < name.n) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_share_fds: the name needs %llu descriptors",
                            (unsigned long long)name.n);
    }
    pl_driver_clear_error();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, name.device);
    pleat_status st;
    if (!pl_serve_process(process) || memcmp(process, name.process, sizeof process) != 0) {
        st = refuse_own(&name, PLEAT_ESHARE, "this is another process");
    } else if (pl_handle_word(handle) != pl_handle_word(name.instance) || !gpu) {
        st = refuse_own(&name, PLEAT_ESHARE, "another instance has it");
    } else {
        st = make_fds(gpu, from, &name, fds);
    }
    pl_use_leave(use);
    return st;
}

/* ---- which device ---- */

static bool lies_there(const pl_name *name, const pl_bus_place *place)
{
    return name->domain == place->domain && name->bus == place->bus && name->slot == place->slot;
}

/* The device that has the memory; the error is worded. */
static pleat_status find_device(pl_instance *instance, const pl_name *name, int *out)
{
    if ((name->is_simulated != 0) != pl_driver_is_simulator(instance->drv)) {
        return pl_error_set(PLEAT_ENOTSUP, 0,
                            "process %d shared memory of %s GPU, and this one is on %s", name->pid,
                            name->is_simulated != 0 ? "a simulated" : "a real",
                            name->is_simulated != 0 ? "a real one" : "a simulated one");
    }
    for (int i = 0; i < instance->n_devices; i++) {
        pl_bus_place place;
        pleat_status st = pl_driver_bus_place(instance->drv, i, &place);
        if (st != PLEAT_OK) {
            return pl_error_set(st, 0, "the driver does not tell where device %d is", i);
        }
        if (lies_there(name, &place)) {
            *out = i;
            return PLEAT_OK;
        }
    }
    return pl_error_set(PLEAT_EDEVICE, 0,
                        "the memory that process %d shared lies on the GPU at %04x:%02x:%02x, its "
                        "device %d, which this process does not see (CUDA_VISIBLE_DEVICES?)",
                        name->pid, (unsigned)name->domain, (unsigned)name->bus,
                        (unsigned)name->slot, name->device);
}

pleat_status pleat_share_device(pleat handle, const void *from, size_t name_bytes, int *device)
{
    pl_name name;
    int found = 0;
    if (!device) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_share_device: `device` is NULL");
    }
    if (!pl_name_read(from, name_bytes, &name)) {
        return refuse_name("pleat_share_device");
    }
    pl_driver_clear_error();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pleat_status st = find_device(use.instance, &name, &found);
    if (st == PLEAT_OK) {
        *device = found;
    }
    pl_use_leave(use);
    return st;
}

uint64_t pleat_share_bytes(const void *from, size_t name_bytes)
{
    pl_name name;
    return pl_name_read(from, name_bytes, &name) ? name.block_bytes : 0;
}

size_t pleat_share_n_fds(const void *from, size_t name_bytes)
{
    pl_name name;
    return pl_name_read(from, name_bytes, &name) ? (size_t)name.n : 0;
}

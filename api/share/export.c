/* export.c - the calls of pleat_share.h that name memory and read names.
 *
 * They check arguments, find the device, and word refusals. No lock is held across a driver call.
 * */
#include <string.h>
#include <unistd.h>

#include "api/instance/instance.h"
#include "api/share/ask.h"
#include "api/share/serve.h"
#include "api/tag/scope.h"

static pleat_status refuse_name(const char *function)
{
    return pl_error_set(PLEAT_EINVAL, 0,
                        "%s: this is no name of shared memory: it was cut or changed on its way, "
                        "or made by another version of the library",
                        function);
}

/* ---- the named memory ---- */

enum { FEW_CHUNKS = 16 }; /* a block of so many needs no host memory to be named */

/* Memory to be named. */
typedef struct wanted {
    const char *tag; /* NULL = the memory at: */
    pleat_devptr ptr;
    uint64_t bytes; /* 0 = as far as it goes */
    pl_keeper *heap;
} wanted;

typedef struct finding {
    pl_share_list list;
    pl_shared_chunk few[FEW_CHUNKS];
    pl_shared_block one;
    void *more; /* replaces the arrays above; NULL = they suffice */
} finding;

static void drop(pl_gpu *gpu, finding *f)
{
    pl_imports_drop(&gpu->imports, f->more);
}

/* Room for as many as the list has counted. */
static bool have_room(pl_gpu *gpu, finding *f)
{
    pl_share_list *list = &f->list;
    size_t chunk_bytes = list->n_chunks * sizeof *list->chunks;
    pl_imports_drop(&gpu->imports, f->more);
    f->more = pl_imports_alloc(&gpu->imports, chunk_bytes + list->n_blocks * sizeof *list->blocks);
    if (!f->more) {
        return false;
    }
    list->chunks = f->more;
    list->blocks = (pl_shared_block *)(void *)((char *)f->more + chunk_bytes);
    list->most_chunks = list->n_chunks;
    list->most_blocks = list->n_blocks;
    return true;
}

static size_t name_bytes_of(const pl_share_list *list)
{
    return pl_name_bytes(list->n_chunks, list->n_blocks);
}

static pleat_status list(pl_gpu *gpu, const wanted *w, pl_share_list *out)
{
    pleat_status st = w->tag ? gpu->ops->tags->share(gpu->allocator, w->heap, out)
                             : gpu->ops->share(gpu->allocator, w->ptr, w->bytes, out);
    return st == PLEAT_OK && !pl_device_is_exportable(gpu->dev) ? PLEAT_ENOTSUP : st;
}

/* Shared chunks cannot move. So chunks are only looked at until their number is known, and shared
 * only if the name fits. Meanwhile more chunks may come. */
static pleat_status find(pl_gpu *gpu, const wanted *w, size_t capacity, finding *f)
{
    pl_share_list *out = &f->list;
    f->more = NULL;
    *out = (pl_share_list){ .chunks = f->few,
                            .blocks = &f->one,
                            .most_chunks = FEW_CHUNKS,
                            .most_blocks = 1,
                            .is_look = true };
    for (;;) {
        pleat_status st = list(gpu, w, out);
        bool is_all = out->n_chunks <= out->most_chunks && out->n_blocks <= out->most_blocks;
        bool is_over = name_bytes_of(out) > capacity || (is_all && !out->is_look);
        if (st == PLEAT_OK && is_over) {
            return PLEAT_OK;
        }
        if (st == PLEAT_OK && !is_all && !have_room(gpu, f)) {
            st = PLEAT_ENOMEM_HOST;
        }
        if (st != PLEAT_OK) {
            drop(gpu, f);
            return st;
        }
        out->is_look = false;
    }
}

/* ---- export ---- */

static pleat_status refuse_export(const pl_gpu *gpu, const wanted *w, pleat_status st)
{
    const char *why = pleat_status_text(st);
    if (st == PLEAT_ENOTSUP) {
        return pl_error_set(st, 0,
                            "device %d: the instance was made without shareable:True, or the "
                            "device cannot share: no other process can open its memory",
                            gpu->ordinal);
    }
    if (w->tag) {
        return pl_error_set(st, 0, "device %d, tag \"%s\": it cannot be shared: %s", gpu->ordinal,
                            w->tag,
                            st == PLEAT_EFOREIGN  ? "it has no live block there"
                            : st == PLEAT_EASLEEP ? "it sleeps; wake it first"
                                                  : why);
    }
    if (st == PLEAT_EFOREIGN && w->bytes > 0) {
        why = "they are not all live memory of one block, or committed pages of one buffer";
        return pl_error_set(st, 0, "%llu bytes from 0x%llx on device %d cannot be shared: %s",
                            (unsigned long long)w->bytes, (unsigned long long)w->ptr, gpu->ordinal,
                            why);
    }
    return pl_error_set(st, 0, "0x%llx on device %d cannot be shared: %s",
                        (unsigned long long)w->ptr, gpu->ordinal, why);
}

static uint64_t bytes_of(const pl_share_list *list)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < list->n_chunks; i++) {
        bytes += list->chunks[i].bytes;
    }
    return bytes;
}

static pleat_status fill_name(pl_use use, const pl_gpu *gpu, const wanted *w,
                              const pl_share_list *list, unsigned flags, pl_name *out)
{
    pl_bus_place place;
    pl_name name = { .instance = use.instance->handle, .device = gpu->ordinal };
    if (!pl_serve_process(name.process)) {
        return pl_error_set(PLEAT_ESHARE, 0, "the system gives no random bytes for a name");
    }
    pleat_status st = pl_driver_bus_place(use.instance->drv, gpu->ordinal, &place);
    if (st != PLEAT_OK) {
        return refuse_export(gpu, w, st);
    }
    name.pid = getpid();
    name.user = geteuid();
    name.is_served = (flags & PLEAT_SHARE_SERVE) != 0;
    name.domain = place.domain;
    name.bus = place.bus;
    name.slot = place.slot;
    name.is_simulated = pl_driver_is_simulator(use.instance->drv);
    name.n = list->n_chunks;
    name.n_blocks = list->n_blocks;
    name.skip_bytes = w->tag ? 0 : list->blocks[0].offset;
    name.block_bytes = w->tag ? bytes_of(list) : list->blocks[0].bytes;
    *out = name;
    return PLEAT_OK;
}

/* Where the name goes. */
typedef struct target {
    unsigned flags;
    void *name;
    size_t capacity;
    size_t *needed;
} target;

static pleat_status write_name(pl_use use, const pl_gpu *gpu, const wanted *w,
                               const pl_share_list *list, const target *to)
{
    pl_name name;
    pleat_status st = fill_name(use, gpu, w, list, to->flags, &name);
    if (st == PLEAT_OK) {
        pl_name_write(&name, list->chunks, list->blocks, to->name);
    }
    return st;
}

static pleat_status export_found(pl_use use, pl_gpu *gpu, const wanted *w, const target *to)
{
    finding f;
    pleat_status st = find(gpu, w, to->capacity, &f);
    if (st != PLEAT_OK) {
        return refuse_export(gpu, w, st);
    }
    if ((to->flags & PLEAT_SHARE_SERVE) != 0) {
        st = pl_serve_start();
    }
    size_t needed = name_bytes_of(&f.list);
    if (st == PLEAT_OK && needed <= to->capacity) {
        st = write_name(use, gpu, w, &f.list, to);
    }
    if (st == PLEAT_OK) {
        *to->needed = needed;
    }
    drop(gpu, &f);
    return st;
}

static pleat_status export_on(pl_use use, pl_gpu *gpu, wanted *w, const target *to)
{
    if (!gpu->ops->share || (w->tag && !gpu->ops->tags)) {
        return pl_error_set(PLEAT_ENOTSUP, 0,
                            "device %d: memory of %s cannot be shared; that of allocator:pleat can",
                            gpu->ordinal, gpu->ops->name);
    }
    w->heap = w->tag ? pl_tags_find(&gpu->tags, pl_tag_find(w->tag)) : NULL;
    if (w->tag && !w->heap) {
        return refuse_export(gpu, w, PLEAT_EFOREIGN);
    }
    return export_found(use, gpu, w, to);
}

static pleat_status check_target(const char *function, const target *to)
{
    if (!to->needed || (!to->name && to->capacity > 0)) {
        return pl_error_set(PLEAT_EINVAL, 0, "%s: `%s` is NULL", function,
                            to->needed ? "name" : "needed");
    }
    return (to->flags & ~(unsigned)PLEAT_SHARE_SERVE) == 0
               ? PLEAT_OK
               : pl_error_set(PLEAT_EINVAL, 0, "%s: unknown flags", function);
}

static pleat_status export(pleat handle, int device, wanted *w, const target *to)
{
    pl_driver_clear_error();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu;
    pleat_status st = pl_use_find_used(use.instance, device, "it has no blocks", &gpu);
    if (st == PLEAT_OK) {
        st = export_on(use, gpu, w, to);
    }
    pl_use_leave(use);
    return st;
}

static pleat_status export_at(const char *function, pleat handle, int device, wanted *w,
                              const target *to)
{
    pleat_status st = check_target(function, to);
    if (st == PLEAT_OK && w->ptr == 0) {
        st = pl_error_set(PLEAT_EINVAL, 0, "%s: the pointer is NULL", function);
    }
    return st == PLEAT_OK ? export(handle, device, w, to) : st;
}

pleat_status pleat_share_export(pleat instance, int device, pleat_devptr ptr, unsigned flags,
                                void *name, size_t capacity, size_t *needed)
{
    wanted w = { .ptr = ptr };
    target to = { flags, name, capacity, needed };
    return export_at("pleat_share_export", instance, device, &w, &to);
}

pleat_status pleat_share_export_range(pleat instance, int device, pleat_devptr ptr, uint64_t bytes,
                                      unsigned flags, void *name, size_t capacity, size_t *needed)
{
    wanted w = { .ptr = ptr, .bytes = bytes };
    target to = { flags, name, capacity, needed };
    if (bytes == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_share_export_range: 0 bytes");
    }
    return export_at("pleat_share_export_range", instance, device, &w, &to);
}

pleat_status pleat_share_export_tag(pleat instance, int device, const char *tag, unsigned flags,
                                    void *name, size_t capacity, size_t *needed)
{
    wanted w = { .tag = tag };
    target to = { flags, name, capacity, needed };
    pleat_status st = check_target("pleat_share_export_tag", &to);
    if (st == PLEAT_OK && pl_tag_find(tag) == 0) {
        st = pl_error_set(PLEAT_EINVAL, 0, "there is no tag \"%s\": nothing was allocated in it",
                          tag ? tag : "");
    }
    return st == PLEAT_OK ? export(instance, device, &w, &to) : st;
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

/* The device that has the memory. On failure the error is worded. */
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

size_t pleat_share_n_blocks(const void *from, size_t name_bytes)
{
    pl_name name;
    return pl_name_read(from, name_bytes, &name) ? (size_t)name.n_blocks : 0;
}

pleat_status pleat_share_block(const void *from, size_t name_bytes, size_t index,
                               pleat_devptr *there, uint64_t *bytes, uint64_t *offset)
{
    pl_name name;
    pl_shared_block block;
    if (!pl_name_read(from, name_bytes, &name)) {
        return refuse_name("pleat_share_block");
    }
    if (index >= name.n_blocks || !there || !bytes || !offset) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_share_block: block %zu of %llu%s", index,
                            (unsigned long long)name.n_blocks,
                            there && bytes && offset ? "" : ", or a NULL pointer");
    }
    pl_name_read_block(from, &name, index, &block);
    *there = block.base;
    *bytes = block.bytes;
    *offset = block.offset - name.skip_bytes;
    return PLEAT_OK;
}

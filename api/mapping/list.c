/* list.c - the pieces of memory under a pointer: chunks of the allocator, or opened memory of other
 * processes. Holds no lock. */
#include "api/instance/instance.h"

enum { FEW_CHUNKS = 64 }; /* up to this number, no host memory */

/* Where the pieces go. */
typedef struct listed {
    pleat_devptr ptr;
    pleat_mapping *out;
    size_t capacity;
    unsigned flags;
} listed;

/* The chunks of the list lie side by side, and the request begins in the first one. */
static void write_pieces(const listed *to, const pl_share_list *list)
{
    uint64_t offset = list->blocks[0].offset;
    uint64_t left = list->blocks[0].bytes;
    pleat_devptr base = to->ptr - offset;
    for (size_t i = 0; i < list->n_chunks; i++) {
        uint64_t bytes = list->chunks[i].bytes;
        uint64_t used = bytes - offset < left ? bytes - offset : left;
        if (i < to->capacity) {
            to->out[i] = (pleat_mapping){ base, bytes, offset, used, to->flags, 0 };
        }
        base += bytes;
        left -= used;
        offset = 0;
    }
}

static bool have_room(pl_gpu *gpu, pl_share_list *list, void **more)
{
    pl_imports_drop(&gpu->imports, *more);
    *more = pl_imports_alloc(&gpu->imports, list->n_chunks * sizeof *list->chunks);
    list->chunks = *more;
    list->most_chunks = list->n_chunks;
    return *more != NULL;
}

static pleat_status find(pl_gpu *gpu, pleat_devptr ptr, uint64_t bytes, pl_share_list *list,
                         unsigned *flags)
{
    pleat_status st = gpu->ops->share ? gpu->ops->share(gpu->allocator, ptr, bytes, list)
                                      : PLEAT_EFOREIGN;
    *flags = (pl_device_is_exportable(gpu->dev) ? (unsigned)PLEAT_MAPPING_EXPORTABLE : 0U) |
             (pl_device_is_rdma(gpu->dev) ? (unsigned)PLEAT_MAPPING_RDMA : 0U);
    if (st == PLEAT_EFOREIGN && atomic_load(&gpu->imports.n_opens) > 0) {
        pl_imports_claim(&gpu->imports, gpu->dev);
        st = pl_imports_list(&gpu->imports, ptr, bytes, list);
        pl_imports_unclaim(&gpu->imports);
        *flags = PLEAT_MAPPING_OPENED;
    }
    return st == PLEAT_EFOREIGN && !gpu->ops->share ? PLEAT_ENOTSUP : st;
}

static pleat_status list_on(pl_gpu *gpu, uint64_t bytes, listed *to, size_t *n)
{
    void *more = NULL;
    pl_shared_chunk few[FEW_CHUNKS];
    pl_shared_block one;
    pl_share_list list = {
        .chunks = few, .most_chunks = FEW_CHUNKS, .blocks = &one, .most_blocks = 1, .is_look = true
    };
    pleat_status st = find(gpu, to->ptr, bytes, &list, &to->flags);
    while (st == PLEAT_OK && list.n_chunks > list.most_chunks) {
        st = have_room(gpu, &list, &more) ? find(gpu, to->ptr, bytes, &list, &to->flags)
                                          : PLEAT_ENOMEM_HOST;
    }
    if (st == PLEAT_OK) {
        write_pieces(to, &list);
        *n = list.n_chunks;
    }
    pl_imports_drop(&gpu->imports, more);
    return st;
}

static pleat_status refuse(const pl_gpu *gpu, pleat_devptr ptr, uint64_t bytes, pleat_status st)
{
    if (st == PLEAT_ENOTSUP) {
        return pl_error_set(st, 0,
                            "device %d: %s does not tell what lies under its memory; "
                            "allocator:pleat does",
                            gpu->ordinal, gpu->ops->name);
    }
    return pl_error_set(st, 0, "%llu bytes from 0x%llx on device %d are not listed: %s",
                        (unsigned long long)bytes, (unsigned long long)ptr, gpu->ordinal,
                        st == PLEAT_EFOREIGN ? "they are not all live memory of one block, "
                                               "committed pages of one buffer, or open here"
                                             : pleat_status_text(st));
}

pleat_status pleat_mapping_list(pleat handle, int device, pleat_devptr ptr, uint64_t bytes,
                                pleat_mapping *out, size_t capacity, size_t *n)
{
    if (!n || (!out && capacity > 0) || ptr == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_mapping_list: `%s` is NULL",
                            !n         ? "n"
                            : ptr == 0 ? "ptr"
                                       : "out");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu;
    pleat_status st = pl_use_find_used(use.instance, device, "it has no blocks", &gpu);
    if (st == PLEAT_OK) {
        listed to = { .ptr = ptr, .out = out, .capacity = capacity };
        st = list_on(gpu, bytes, &to, n);
        if (st != PLEAT_OK) {
            refuse(gpu, ptr, bytes, st);
        }
    }
    pl_use_leave(use);
    return st;
}

/* left.c - see left.h. The list is guarded by the device's lock, which is dropped for driver calls:
 * a thread takes the whole list, and puts back what is refused again. */
#include "vmm/left.h"

#include "vmm/device_state.h"
#include "vmm/mapping.h"
#include "vmm/range.h"

struct pl_left {
    struct pl_left *next; /* in the order of the undos */
    pl_left_kind kind;
    uint64_t what;
    uint64_t bytes;
};

static bool give_back(pl_device *dev, pl_left_kind kind, uint64_t what, uint64_t bytes)
{
    pl_range range = { .base = what, .bytes = bytes };

    switch (kind) {
    case PL_LEFT_MAPPING:
        return pl_cu_mem_unmap(dev->drv, what, bytes) == CU_SUCCESS ||
               pl_mapping_clear(dev, what, bytes) == PLEAT_OK;
    case PL_LEFT_HANDLE:
        return pl_cu_mem_release(dev->drv, what) == CU_SUCCESS;
    case PL_LEFT_RANGE:
        return pl_range_release(dev, range) == PLEAT_OK;
    case PL_LEFT_OBJECT:
        return pl_cu_user_object_release(dev->drv, (cu_user_object)(uintptr_t)what, 1) ==
               CU_SUCCESS;
    case PL_LEFT_EVENT:
        return pl_cu_event_destroy(dev->drv, (cu_event)(uintptr_t)what) == CU_SUCCESS;
    case PL_LEFT_STREAM:
        return pl_cu_stream_destroy(dev->drv, (cu_stream)(uintptr_t)what) == CU_SUCCESS;
    case PL_LEFT_CONTEXT:
        break;
    }
    return pl_cu_primary_release(dev->drv, (cu_device)what) == CU_SUCCESS;
}

/* Ranges try twice themselves. Most calls need no context, so they are made without one, too. */
static bool try_twice(pl_device *dev, pl_left_kind kind, uint64_t what, uint64_t bytes)
{
    pl_scope scope;
    bool is_inside = pl_scope_begin(dev, &scope) == PLEAT_OK;
    bool is_gone = give_back(dev, kind, what, bytes) ||
                   (kind != PL_LEFT_RANGE && give_back(dev, kind, what, bytes));

    if (is_inside) {
        pl_scope_end(dev, &scope);
    }
    return is_gone;
}

static void append_locked(pl_device *dev, struct pl_left *first)
{
    struct pl_left **end = &dev->left;

    pl_lock_assert(&dev->lock);
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = first;
}

void pl_left_undo(pl_device *dev, pl_left_kind kind, uint64_t what, uint64_t bytes)
{
    if (try_twice(dev, kind, what, bytes)) {
        return;
    }
    pl_lock_acquire(&dev->lock);
    struct pl_left *left = pl_meta_alloc(&dev->meta, sizeof(*left));
    if (left != NULL) {
        *left = (struct pl_left){ .kind = kind, .what = what, .bytes = bytes };
        append_locked(dev, left);
        pl_count_add(&dev->n_left, 1);
    }
    pl_lock_release(&dev->lock);
    if (left == NULL && kind != PL_LEFT_RANGE) {
        pl_device_lose(dev);
    } else {
        pl_count_add(&dev->n.n_undo_failures, 1);
    }
}

static struct pl_left *take_all(pl_device *dev)
{
    pl_lock_acquire(&dev->lock);
    struct pl_left *first = dev->left;
    dev->left = NULL;
    pl_lock_release(&dev->lock);
    return first;
}

static void put_back(pl_device *dev, struct pl_left *gone, struct pl_left *refused)
{
    pl_lock_acquire(&dev->lock);
    append_locked(dev, refused);
    while (gone != NULL) {
        struct pl_left *next = gone->next;
        pl_meta_free(&dev->meta, gone);
        pl_count_sub(&dev->n_left, 1);
        gone = next;
    }
    pl_lock_release(&dev->lock);
}

void pl_left_retry(pl_device *dev)
{
    struct pl_left *gone = NULL;

    if (pl_count_get(&dev->n_left) == 0) {
        return;
    }
    struct pl_left *refused = take_all(dev);
    for (struct pl_left **at = &refused; *at != NULL;) {
        struct pl_left *one = *at;
        if (try_twice(dev, one->kind, one->what, one->bytes)) {
            *at = one->next;
            one->next = gone;
            gone = one;
        } else {
            at = &one->next;
        }
    }
    put_back(dev, gone, refused);
}

size_t pl_left_fini(pl_device *dev)
{
    size_t n_held = 0;

    pl_left_retry(dev);
    while (dev->left != NULL) {
        struct pl_left *next = dev->left->next;
        n_held += dev->left->kind != PL_LEFT_RANGE;
        pl_meta_free(&dev->meta, dev->left);
        dev->left = next;
    }
    return n_held;
}

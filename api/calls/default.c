/* default.c - the default instance and the malloc-like pair on it.
 *
 * The first use makes the instance from PLEAT_CONF. The instance lives as long as the process:
 * nothing runs at exit. If the program destroys the instance, the next use makes a new one. In a
 * forked child the parent's instance returns EFORKED. The handle is one atomic word. A flag under
 * the api lock guards the making, which calls the driver. */
#include "api/calls/default.h"

#include "api/calls/block.h"
#include "api/instance/slot.h"

static _Atomic uint64_t default_word; /* atomic: generation << 32 | slot; 0 = none yet */

static pleat unpack(uint64_t word)
{
    return (pleat){ .slot = (uint32_t)word, .generation = (uint32_t)(word >> 32) };
}

/* Returns PLEAT_OK; EFORKED; the result of pleat_create. */
__attribute__((cold, noinline)) static pleat_status make_default(pleat *out)
{
    pl_api_claim(&pl_api_state.is_making_default);
    pleat handle = unpack(atomic_load(&default_word));
    pleat_status st = pl_slot_probe(handle);
    if (st == PLEAT_EGONE) {
        st = pleat_create(NULL, &handle);
        if (st == PLEAT_OK) {
            atomic_store(&default_word, pl_handle_word(handle));
        }
    } else if (st == PLEAT_EFORKED) {
        (void)pl_use_enter(handle); /* refused: the call sets the error's text */
    }
    pl_api_unclaim(&pl_api_state.is_making_default);
    if (st == PLEAT_OK) {
        *out = handle;
    }
    return st;
}

pleat_status pleat_default(pleat *out)
{
    if (!out) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_default: `out` is NULL");
    }
    return make_default(out);
}

pleat pl_default_peek(void)
{
    return unpack(atomic_load_explicit(&default_word, memory_order_acquire));
}

typedef pleat_status alloc_fn(pleat handle, int device, size_t bytes, void *stream,
                              pleat_devptr *out);

static inline __attribute__((always_inline)) void *malloc_by(alloc_fn *alloc, size_t bytes,
                                                             int device, void *stream)
{
    pleat_devptr ptr;
    pleat handle = pl_default_peek();
    if (handle.generation == 0 && make_default(&handle) != PLEAT_OK) {
        return NULL;
    }
    pleat_status st = alloc(handle, device, bytes, stream, &ptr);
    if (st == PLEAT_EGONE && make_default(&handle) == PLEAT_OK) {
        st = alloc(handle, device, bytes, stream, &ptr);
    }
    return st == PLEAT_OK ? (void *)(uintptr_t)ptr : NULL;
}

void *pleat_malloc(size_t bytes, int device, void *stream)
{
    return malloc_by(pleat_block_alloc, bytes, device, stream);
}

/* Flat, since every tensor comes this way. */
__attribute__((flatten)) void *pl_default_malloc_patiently(size_t bytes, int device, void *stream)
{
    return malloc_by(pl_block_alloc_patiently, bytes, device, stream);
}

void pleat_free(void *ptr, size_t bytes, int device, void *stream)
{
    (void)bytes; /* the block knows its size */
    pleat handle = pl_default_peek();
    if (!ptr) {
        return;
    }
    pleat_status st = pleat_block_free(handle, device, (pleat_devptr)(uintptr_t)ptr, stream);
    (void)st; /* pleat_last_error has it */
}

/* front.h - the fronts of the calling thread (segments/base/fronts.h), and the calls they serve.
 *
 * A thread has a few fronts: one for each stream, found by the stream's handle. If a thread names
 * more streams than it has fronts, the handle decides which streams share a front. A call on the
 * general path binds a front to its own arguments. The front's key is the instance, its generation
 * and the device. The key goes with the instance, so a front serves no call on an instance that is
 * gone. A thread that ends empties its fronts.
 *
 * While requests are routed into pools, or a history is recorded, calls take the general path. */
#ifndef PLEAT_API_FRONT_H
#define PLEAT_API_FRONT_H

#include "api/instance/instance.h"
#include "segments/base/fronts.h"

/* PATIENCE: general calls before the next try to bind a front. */
enum { PL_FRONTS_OF_THREAD = 2, PL_FRONT_PATIENCE = 1024 };

typedef struct pl_fronts {
    pl_front front[PL_FRONTS_OF_THREAD];
    unsigned n_offers[PL_FRONTS_OF_THREAD]; /* since it was bound last */
    bool is_taken;                          /* the list's lock */
    struct pl_fronts *next;                 /* const: of all */
} pl_fronts;

/* NULL before the thread's first front is bound. */
extern _Thread_local pl_fronts *pl_fronts_self;

/* Hide the calling thread's fronts while allocations carry a tag, or show them again. Hidden fronts
 * keep blocks until another thread empties them. */
void pl_fronts_hide(bool hides);

/* A request on the stream succeeded on the general path, without a front: bind one for the next
 * requests. */
void pl_front_offer(pl_instance *instance, pl_gpu *gpu, pl_stream *on, const void *stream);

static inline unsigned pl_front_place(const void *stream)
{
    return ((uintptr_t)stream >> 4 ^ (uintptr_t)stream >> 12) % PL_FRONTS_OF_THREAD;
}

/* Slots are below 2^16, devices below 2^15. No key is 0, the key of an unbound front; the key of a
 * zero handle is not 0 either. The parts are added, not or-ed: so device 2^15, which does not exist
 * but may be named, differs from device 0. */
static inline uint64_t pl_front_key(pleat handle, int device)
{
    return pl_handle_word(handle) + (UINT64_C(1) << 31) + ((uint64_t)(uint32_t)device << 16);
}

/* What a bound front's key was made of. */
static inline pleat pl_front_handle(uint64_t key)
{
    return (pleat){ .slot = (uint32_t)key & UINT16_MAX, .generation = (uint32_t)(key >> 32) };
}

static inline int pl_front_device(uint64_t key)
{
    return (int)(key >> 16 & INT16_MAX);
}

static inline bool pl_front_is_for(const pl_front *front, uint64_t key, const void *stream)
{
    return atomic_load_explicit(&front->key, memory_order_relaxed) == key &&
           front->stream == stream;
}

/* The call is not for the front that the thread used last. */
pl_front *pl_front_find(uint64_t key, const void *stream);

/* The bound front of the thread for device and stream; NULL = none. */
static inline pl_front *pl_front_of(pleat handle, int device, const void *stream)
{
    pl_front *front = pl_caller_self.front;
    uint64_t key = pl_front_key(handle, device);
    if (__builtin_expect(pl_front_is_for(front, key, stream), 1)) {
        return front;
    }
    return front == &pl_front_none ? NULL : pl_front_find(key, stream);
}

/* Enter the front. False: the call must take the general path. Key and bars are read inside, since
 * a thread that changes them waits until nobody is inside. */
static inline bool pl_front_go_in(pl_front *front, uint64_t key)
{
    if (!pl_front_enter(front)) {
        return false;
    }
    if (__builtin_expect(atomic_load_explicit(&front->key, memory_order_relaxed) == key, 1)) {
        const pl_gpu *gpu = front->user; /* not before the key fits: the user may be gone */
        unsigned bars = atomic_load_explicit(&gpu->pools.n_routes, memory_order_relaxed) |
                        atomic_load_explicit(&gpu->history.observer.is_on, memory_order_relaxed);
        if (__builtin_expect(bars == 0, 1)) {
            return true;
        }
    }
    pl_front_leave(front);
    return false;
}

/* The thread's front for device and stream, with the thread inside; NULL = the call must take the
 * general path. Mostly the front used last fits, so its key is read only once, inside. */
static inline pl_front *pl_front_go_in_for(pleat handle, int device, const void *stream)
{
    pl_front *front = pl_caller_self.front;
    uint64_t key = pl_front_key(handle, device);
    if (__builtin_expect(front->stream == stream && pl_front_go_in(front, key), 1)) {
        return front;
    }
    if (front == &pl_front_none) {
        return NULL;
    }
    front = pl_front_find(key, stream);
    return front && pl_front_go_in(front, key) ? front : NULL;
}

#endif

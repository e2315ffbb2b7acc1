/* front.h - the fronts of the calling thread (segments/base/front.h), and which call they serve.
 *
 * A thread has a few fronts, one of them for each stream that it names, found by the stream's
 * handle. Where there are more streams than fronts, the handle says which front they share. A front
 * is bound in a call that went the long way, to what that call named, and is known by a key: the
 * instance, its generation and the device. The key goes when the instance does, so a front serves
 * no call on an instance that is gone. A thread that ends empties its fronts.
 *
 * While requests are routed into pools, or a history is recorded, calls go the long way. */
#ifndef PLEAT_API_FRONT_H
#define PLEAT_API_FRONT_H

#include "api/instance.h"
#include "segments/base/front.h"

/* PATIENCE: long ways before it is tried again to bind a front. */
enum { PL_FRONTS_OF_THREAD = 2, PL_FRONT_PATIENCE = 1024 };

typedef struct pl_fronts {
    pl_front front[PL_FRONTS_OF_THREAD];
    unsigned n_offers[PL_FRONTS_OF_THREAD]; /* since it was bound last */
    bool is_taken;                          /* the list's lock */
    struct pl_fronts *next;                 /* const: of all */
} pl_fronts;

/* NULL before the thread's first front is bound. */
extern _Thread_local pl_fronts *pl_fronts_self;

/* The calling thread uses its fronts no more, as what it allocates carries a tag; or again. What
 * they keep stays there; others may empty them. */
void pl_fronts_hide(bool hides);

/* A request on the stream went the long way, without a front, and succeeded: the next ones may not
 * have to. */
void pl_front_offer(pl_instance *instance, pl_gpu *gpu, pl_stream *on, const void *stream);

static inline unsigned pl_front_place(const void *stream)
{
    return ((uintptr_t)stream >> 4 ^ (uintptr_t)stream >> 12) % PL_FRONTS_OF_THREAD;
}

/* Slots are numbers below 2^16, devices below 2^15. No key is 0, as an unbound front's is: also not
 * that of a zero handle. The parts are added: so device 2^15, which a caller may name though there
 * is none, has not the key of device 0. */
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

/* The thread's front for such a call; NULL = none is bound. */
static inline pl_front *pl_front_of(pleat handle, int device, const void *stream)
{
    pl_front *front = pl_caller_self.front;
    uint64_t key = pl_front_key(handle, device);
    if (__builtin_expect(pl_front_is_for(front, key, stream), 1)) {
        return front;
    }
    return front == &pl_front_none ? NULL : pl_front_find(key, stream);
}

/* Go into it. False: the call must go the long way. Whom it is for, and what may forbid it, is
 * looked at inside, as who changes that then waits until nobody is. */
static inline bool pl_front_go_in(pl_front *front, uint64_t key)
{
    if (!pl_front_enter(front)) {
        return false;
    }
    if (__builtin_expect(atomic_load_explicit(&front->key, memory_order_relaxed) == key, 1)) {
        const pl_gpu *gpu = front->user; /* not before the key fits: it may be gone */
        unsigned bars = atomic_load_explicit(&gpu->pools.n_routes, memory_order_relaxed) |
                        atomic_load_explicit(&gpu->history.observer.is_on, memory_order_relaxed);
        if (__builtin_expect(bars == 0, 1)) {
            return true;
        }
    }
    pl_front_leave(front);
    return false;
}

/* The thread's front for such a call, with the thread inside; NULL = the call must go the long
 * way. The front that was used last is mostly the one, and its key is looked at once, inside. */
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

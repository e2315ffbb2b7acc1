/* order.h - the streams that may still use freed memory, in caches that give free memory to any
 * stream.
 *
 * Every free is numbered. A free piece of memory remembers its lanes (one bit per stream that used
 * the piece) and the number of its last free. Nothing else is done, no driver call and no host
 * allocation, until another stream wants the memory. Then a fence is recorded on each stream that
 * used the memory, and the host or the new stream waits for the fences. A fence covers all earlier
 * frees of its stream, so later pieces need no further fence. A merged piece has the lanes of both
 * parts and the later number, which errs on the safe side.
 *
 * All streams of the device from the 64th on share one lane. A wait for one of these streams is a
 * wait for them all. Memory held by their captures stays held until the allocator is destroyed.
 *
 * Guarded by the lock of the allocator (rank 20), which is dropped around driver calls. */
#ifndef PLEAT_SEGMENTS_CLASSIC_ORDER_H
#define PLEAT_SEGMENTS_CLASSIC_ORDER_H

#include "vmm/base/lock.h"
#include "vmm/device.h"
#include "vmm/streams/stream.h"

enum { PL_ORDER_LANES = 64, PL_ORDER_CROWD = 63 };

typedef struct pl_order_uses {
    uint64_t lanes;  /* one bit per stream that used the memory */
    uint64_t number; /* of the last free; 0 while the memory is live or was never used */
} pl_order_uses;

typedef struct pl_order {
    pl_device *dev;                  /* const */
    pl_lock *lock;                   /* const */
    uint64_t clock;                  /* lock: frees so far */
    uint64_t passed[PL_ORDER_LANES]; /* lock: the lane's uses up to this number are over */
    /* lock: [a][b]: lane a waits on the GPU for lane b's uses up to this number */
    uint64_t ordered[PL_ORDER_LANES][PL_ORDER_LANES];
    uint64_t n_releases[PL_ORDER_LANES]; /* lock: how often release_capture named the lane */
} pl_order;

/* The capture in which memory was allocated. The memory belongs to the capture's graph until the
 * capture is released, also after the memory's free. */
typedef struct pl_birth {
    uint64_t lane;    /* 0 = in no capture */
    uint64_t release; /* n_releases at the allocation */
} pl_birth;

void pl_order_init(pl_order *order, pl_device *dev, pl_lock *lock);

static inline uint64_t pl_order_lane(const pl_stream *stream)
{
    unsigned index = pl_stream_index(stream);
    return UINT64_C(1) << (index < PL_ORDER_CROWD ? index : PL_ORDER_CROWD);
}

/* The stream's lane; 0 if other streams share the lane. */
static inline uint64_t pl_order_own_lane(const pl_stream *stream)
{
    return pl_order_lane(stream) & ~(UINT64_C(1) << PL_ORDER_CROWD);
}

/* Memory is freed. Its uses end with the work submitted so far. */
static inline void pl_order_end(pl_order *order, pl_order_uses *uses)
{
    uses->number = ++order->clock;
}

/* Did no other stream than `user` use the memory? Then `user` need not wait. */
static inline bool pl_order_is_own(const pl_order_uses *uses, const pl_stream *user)
{
    return (uses->lanes & ~pl_order_lane(user)) == 0 && (uses->lanes >> PL_ORDER_CROWD) == 0;
}

/* The lanes with uses not known to be over. `user`, if not NULL, excludes its own lane. */
uint64_t pl_order_open(const pl_order *order, const pl_order_uses *uses, const pl_stream *user);
/* pl_order_open without the lanes that `user` already waits for on the GPU. */
uint64_t pl_order_unordered(const pl_order *order, const pl_order_uses *uses,
                            const pl_stream *user);

/* The uses of a piece that is merged from two. */
pl_order_uses pl_order_join(const pl_order *order, const pl_order_uses *a, const pl_order_uses *b);

/* Wait on the host until the lanes' uses so far are over, at most wait_ms for each stream
 * (pl_fence_wait). Waits for all lanes even if one fails, and returns the first failure. PLEAT_OK;
 * EPENDING; ECAPTURE (a stream is being captured); ENOMEM_HOST; EDRIVER. The lock is dropped
 * meanwhile. */
pleat_status pl_order_wait(pl_order *order, uint64_t lanes, uint32_t wait_ms);

/* pl_order_wait, but ignores EPENDING and ECAPTURE and returns the first other failure. */
pleat_status pl_order_wait_each(pl_order *order, uint64_t lanes, uint32_t wait_ms);

/* Make `user` wait on the GPU for the lanes' uses so far. If a stream is out of reach, the host
 * waits instead. Returns as above, but stops at the first failure. Lock dropped meanwhile. */
pleat_status pl_order_after(pl_order *order, uint64_t lanes, pl_stream *user);

/* Wait on the host for all work of the device's streams, as far as that is possible. */
void pl_order_wait_all(pl_order *order);

/* The birth of memory allocated now for `stream`, which is being captured. */
pl_birth pl_order_birth(const pl_order *order, const pl_stream *stream);
/* The lane whose capture the memory still belongs to, or 0. */
uint64_t pl_order_born_in(const pl_order *order, pl_birth birth);
/* The graphs of the stream's captures are gone. Returns the stream's lane. If other streams share
 * the lane, returns 0 and releases nothing, since their graphs may remain. */
uint64_t pl_order_release(pl_order *order, const pl_stream *stream);

/* Which lanes are being captured now? No lanes need no driver call. A stream out of reach
 * (destroyed, or another thread's default stream) counts as not captured. The lock is dropped
 * meanwhile. PLEAT_OK; EDRIVER. */
pleat_status pl_order_captured(pl_order *order, uint64_t lanes, uint64_t *captured);

#endif

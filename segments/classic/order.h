/* order.h - who may still be using memory that was freed, for caches whose memory any stream gets.
 *
 * Every free is numbered. What a free piece of memory remembers is which streams used it (a bit
 * each: its lanes) and the number of the last free among them. No driver call is made, and no host
 * memory needed, until another stream wants the memory: only then a fence is recorded on the
 * streams that used it, and the host waits for it, or the new stream is made to. One such fence
 * covers all earlier frees of its stream, so the next pieces cost nothing. Merging pieces is the
 * union of their lanes and the later number, which errs on the safe side.
 *
 * The streams of the device from the 64th on share one lane: a wait for one of them is a wait for
 * all, and what a capture of one of them holds stays held until the end.
 *
 * Guarded by the lock of the allocator (rank 20), which is dropped around driver calls. */
#ifndef PLEAT_SEGMENTS_CLASSIC_ORDER_H
#define PLEAT_SEGMENTS_CLASSIC_ORDER_H

#include "vmm/base/lock.h"
#include "vmm/device.h"
#include "vmm/stream.h"

enum { PL_ORDER_LANES = 64, PL_ORDER_CROWD = 63 };

typedef struct pl_order_uses {
    uint64_t lanes;  /* a bit for each */
    uint64_t number; /* of the last free; 0 while the memory is live or was never used */
} pl_order_uses;

typedef struct pl_order {
    pl_device *dev;                  /* const */
    pl_lock *lock;                   /* const */
    uint64_t clock;                  /* lock: frees so far */
    uint64_t passed[PL_ORDER_LANES]; /* lock: a lane's uses up to this number are over */
    /* lock: [later][earlier]: the lane waits on the GPU for the other's uses up to this number */
    uint64_t ordered[PL_ORDER_LANES][PL_ORDER_LANES];
    uint64_t n_releases[PL_ORDER_LANES]; /* lock: of what the lane's captures held */
} pl_order;

/* What was allocated in a capture is its graph's, whenever it is freed, until that is released. */
typedef struct pl_birth {
    uint64_t lane;    /* 0 = in no capture */
    uint64_t release; /* n_releases then */
} pl_birth;

void pl_order_init(pl_order *order, pl_device *dev, pl_lock *lock);

static inline uint64_t pl_order_lane(const pl_stream *stream)
{
    unsigned index = pl_stream_index(stream);
    return UINT64_C(1) << (index < PL_ORDER_CROWD ? index : PL_ORDER_CROWD);
}

/* The stream's lane, except for one of the crowd, which has none to itself: 0. */
static inline uint64_t pl_order_own_lane(const pl_stream *stream)
{
    return pl_order_lane(stream) & ~(UINT64_C(1) << PL_ORDER_CROWD);
}

/* The memory is being freed: its uses end with what was submitted so far. */
static inline void pl_order_end(pl_order *order, pl_order_uses *uses)
{
    uses->number = ++order->clock;
}

/* Is `user` the only one who used it? Then it may have it as it is. */
static inline bool pl_order_is_own(const pl_order_uses *uses, const pl_stream *user)
{
    return (uses->lanes & ~pl_order_lane(user)) == 0 && (uses->lanes >> PL_ORDER_CROWD) == 0;
}

/* The lanes whose uses are not known to be over; without those of `user`, unless it is NULL. */
uint64_t pl_order_open(const pl_order *order, const pl_order_uses *uses, const pl_stream *user);
/* The same without those that `user` waits for on the GPU already. */
uint64_t pl_order_unordered(const pl_order *order, const pl_order_uses *uses,
                            const pl_stream *user);

/* What is known of both, for merged memory. */
pl_order_uses pl_order_join(const pl_order *order, const pl_order_uses *a, const pl_order_uses *b);

/* Wait on the host until the lanes' uses so far are over, at most wait_ms each (pl_fence_wait).
 * PLEAT_OK; EPENDING; ECAPTURE (a stream is being captured); ENOMEM_HOST; EDRIVER: the first
 * failure; the other lanes were waited for all the same. Lock dropped meanwhile. */
pleat_status pl_order_wait(pl_order *order, uint64_t lanes, uint32_t wait_ms);

/* The same, one lane after the other, so that one which cannot be waited for does not keep the
 * rest. Returns what is no reason of its own: neither ECAPTURE nor EPENDING. */
pleat_status pl_order_wait_each(pl_order *order, uint64_t lanes, uint32_t wait_ms);

/* Make `user` wait on the GPU for the lanes' uses so far; on the host for streams that are gone.
 * As above; the first failure ends it. */
pleat_status pl_order_after(pl_order *order, uint64_t lanes, pl_stream *user);

/* Wait for everything that is running on the device's streams, as far as that can be done. */
void pl_order_wait_all(pl_order *order);

/* Of memory that the stream, which is being captured, asks for now. */
pl_birth pl_order_birth(const pl_order *order, const pl_stream *stream);
/* The lane whose capture has it still, or 0. */
uint64_t pl_order_born_in(const pl_order *order, pl_birth birth);
/* The stream's graphs are gone. A lane of several streams is not released: another one's may be
 * there. Returns the lane, or 0. */
uint64_t pl_order_release(pl_order *order, const pl_stream *stream);

/* Which of the lanes are being captured right now; nobody is asked for no lane. A stream that
 * cannot be asked, since it was destroyed or is another thread's own, is not. Lock dropped
 * meanwhile.
 * PLEAT_OK; EDRIVER. */
pleat_status pl_order_captured(pl_order *order, uint64_t lanes, uint64_t *captured);

#endif

/* pool.h - the private pools of one device, with names, users and routes.
 *
 * The allocator has the memory (segments/pleat/space/private.h); this table only decides which pool
 * serves a request. A routed request holds its pool until the request is over, so a pool without
 * users lives on until its last request. The lock is not held for filters, `forget`, and calls of
 * the allocator that need the driver. A route that has ended stays in the list while one of its
 * filters runs. pleat_pool_end waits for running filters, except when called by a filter.
 * The calls are in api/pool.
 *
 *   I1  n_routes counts the routes that have not ended, the table's and each pool's
 *   I2  a pool with users, routes or holds has its pl_keeper; one without any has none
 *   I3  every route's pool has a user
 *   I4  every pool is in the list of its name's head, and the one that was read last is `seen`
 *   I5  pools that are gone are queued in the order of going; beyond PL_POOLS_GONE of them the
 *       first is forgotten, so a program may have any number of pools in turn */
#ifndef PLEAT_API_POOL_H
#define PLEAT_API_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/pleat.h"
#include "segments/base/allocator.h"
#include "segments/base/tree.h"
#include "vmm/base/lock.h"
#include "vmm/base/meta.h"

struct pl_gpu;
typedef struct pl_pool pl_pool;
typedef struct pl_route pl_route;

enum {
    PL_POOLS_GONE = 256,
    PL_POOLS_GONE_TOLD = 16, /* gone pools that pl_pools_read shows */
    PL_POOLS_HEADS = 1024,   /* a power of two */
};

typedef struct pl_pools {
    _Atomic unsigned n_routes; /* atomic: every request reads it; written under the lock */
    struct pl_gpu *gpu;        /* const */
    pl_lock lock;              /* rank 10 */
    pl_cond filtered;          /* signals that an ended route's last filter call is over */
    pl_meta meta;              /* lock: opened by the first use */
    bool has_meta;             /* lock */
    pl_pool *oldest;           /* lock: in order of first use, gone pools included */
    pl_pool *newest;           /* lock: the other end of that order */
    pl_pool **heads;           /* lock: [PL_POOLS_HEADS], by name; NULL before the first pool */
    pl_pool *seen;             /* lock: the pool whose statistics were read last, or NULL */
    unsigned seen_index;       /* lock: its place in the order of first use */
    pl_pool *gone_first;       /* lock: in order of going */
    pl_pool *gone_last;        /* lock */
    unsigned n_gone;           /* lock */
    unsigned n_pools;          /* lock: gone pools included */
    uint64_t n_numbers;        /* lock: pools ever made */
    pl_route *routes;          /* lock: newest first */
    pl_cond turned;            /* signals that a pool is open again, or that nobody is inside */
    pl_tree checkpoints;       /* lock: by number */
} pl_pools;

/* ENOMEM_HOST (the system refuses a mutex). */
void pl_pools_init(pl_pools *pools, struct pl_gpu *gpu);
/* No routes and no requests are left; nor are checkpoints. */
void pl_pools_fini(pl_pools *pools);
/* Call before the allocator is destroyed, since the allocator has the checkpoints' memory. */
void pl_pools_forget_checkpoints(pl_pools *pools);

static inline bool pl_pools_are_routed(const pl_pools *pools)
{
    return __builtin_expect(atomic_load_explicit(&pools->n_routes, memory_order_relaxed) != 0, 0);
}

/* *out: the pool of a request on the stream, held until pl_pool_leave; NULL = the default pool.
 * Calls filters. PLEAT_OK, or EFORKED in a child forked by a filter: the child touches nothing of
 * its parent. */
pleat_status pl_pools_route(pl_pools *pools, void *stream, pl_pool **out);
void pl_pool_leave(pl_pools *pools, pl_pool *pool);
/* Bytes resident in all pools; *largest: the pool with the most. */
uint64_t pl_pools_held(pl_pools *pools, pleat_pool_id *largest);

typedef struct pl_pool_figures {
    pleat_pool_id id;
    pleat_stat reserved[PLEAT_N_SIZES];
} pl_pool_figures;

/* Read all existing pools and the last PL_POOLS_GONE_TOLD gone pools, in no order, at one moment.
 * *out, NULL for none, goes back through pl_pools_drop. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_pools_read(pl_pools *pools, pl_pool_figures **out, size_t *n);
void pl_pools_drop(pl_pools *pools, pl_pool_figures *figures);

/* For a pool that the caller holds. */
pl_keeper *pl_pool_private(const pl_pool *pool);

#endif

/* pool_state.h - the inside of the pools' table, for the files of this folder only.
 *
 * Rules I1..I5 are pool.h's. The table's lock (rank 10) guards the fields marked "lock". */
#ifndef PLEAT_API_POOL_STATE_H
#define PLEAT_API_POOL_STATE_H

#include <pthread.h>

#include "api/instance/instance.h"
#include "api/parts/pool.h"

struct pl_pool {
    pl_pool *next;                  /* lock: younger */
    pl_pool *previous;              /* lock: older */
    pl_pool *gone_next;             /* lock: the pool that went next */
    pl_pool *gone_previous;         /* lock: the pool that went before */
    pl_pool *head_next;             /* lock: in the list of the same head, younger first */
    pl_pool *head_previous;         /* lock */
    uint64_t number;                /* const: in order of first use */
    pleat_pool_id id;               /* const */
    pl_keeper *in;                  /* lock; const while the pool is held. NULL = gone */
    unsigned n_users;               /* lock: begun and not yet released */
    unsigned n_routes;              /* lock */
    unsigned n_holds;               /* lock: requests under way */
    unsigned n_inside;              /* lock: requests that may allocate now */
    unsigned n_closers;             /* lock: restores that wait until no request is inside */
    bool is_closed;                 /* lock: a restore runs: nobody goes inside */
    pleat_stat past[PLEAT_N_SIZES]; /* lock: total of its earlier lives; current is 0 */
};

struct pl_route {
    pl_route *next;         /* lock: begun earlier */
    pl_pool *pool;          /* const */
    pleat_route_fn accepts; /* const; NULL = everything */
    pleat_forget_fn forget; /* const */
    void *context;          /* const */
    pthread_t thread;       /* const: the thread that began the route */
    unsigned n_calls;       /* lock: running calls of `accepts` */
    bool has_ended;         /* lock */
    bool is_left;           /* lock: the last call removes the route */
};

/* In the table, by number. */
typedef struct pl_checkpoint {
    pl_tree_node node;  /* in pl_pools.checkpoints */
    uint64_t number;    /* const */
    pleat_pool_id id;   /* const: of its pool */
    pl_roster roster;   /* const: the allocator's memory */
    unsigned n_readers; /* lock: running calls that read the checkpoint */
} pl_checkpoint;

/* Number of pools, of any device, that this thread is inside of. */
extern _Thread_local unsigned pl_pools_inside_here;

/* checkpoint.c: an empty table. */
void pl_pools_init_checkpoints(pl_pools *pools);
/* pool.c, under the lock. NULL if no pool has that name. */
pl_pool *pl_pools_find(const pl_pools *pools, pleat_pool_id id);
/* The pool of that name with its memory, made if need be. PLEAT_OK; ENOMEM_HOST; all results of the
 * allocator. */
pleat_status pl_pools_open(pl_pools *pools, pleat_pool_id id, pl_pool **out);
/* Opens the host memory for pools and routes at the first use. PLEAT_OK; ENOMEM_HOST. */
pleat_status pl_pools_open_meta(pl_pools *pools);

/* pool.c, without the lock. Removes one user. PLEAT_OK; EPOOL; EBUSY. */
pleat_status pl_pools_release(pl_pools *pools, pleat_pool_id id);

/* pool.c, under the lock. The caller holds the pool, and goes inside once the pool is open. */
void pl_pool_go_in(pl_pools *pools, pl_pool *pool);
/* pool.c, without the lock: undoes a hold. pl_pool_leave also goes out. */
void pl_pool_let_go(pl_pools *pools, pl_pool *pool);
/* pool.c, without the lock. Adds a user to the pool of that name, made if need be. */
pleat_status pl_pools_add_user(pl_pools *pools, pleat_pool_id id);

/* pool.c, without the lock. 0: no pool has that name. */
unsigned pl_pools_count_users(pl_pools *pools, pleat_pool_id id);

/* inside.c, without the lock. Hold the named pool and go inside; NULL: none. Undone by
 * pl_pool_leave. */
pl_pool *pl_pools_enter(pl_pools *pools, pleat_pool_id id);
/* Like pl_pools_enter, but close the pool once nobody is inside: waits at most wait_ms and a few
 * milliseconds. PLEAT_OK; EPOOL; EBUSY. */
pleat_status pl_pools_close(pl_pools *pools, pleat_pool_id id, uint32_t wait_ms, pl_pool **out);
void pl_pool_reopen(pl_pools *pools, pl_pool *pool);

/* pool_calls.c, for public calls. The device if it exists; NULL and PLEAT_OK if it was never
 * used. */
pleat_status pl_pools_find_gpu(pl_use use, int device, pl_gpu **out);
/* Returns st. */
pleat_status pl_pools_refuse(int device, pleat_pool_id id, pleat_status st, const char *why);

/* route.c, without the lock. Adds a route like `made_as` to the pool of that name, made if need
 * be. */
pleat_status pl_pools_begin_route(pl_pools *pools, pleat_pool_id id, const pl_route *made_as);
/* False: no route goes to a pool of that name. */
bool pl_pools_end_route(pl_pools *pools, pleat_pool_id id);
/* The list, linked by `next`, belongs to the caller. */
void pl_pools_forget_routes(pl_pools *pools, pl_route *route);
void pl_route_forget_context(const pl_route *route);

/* stats.c, under the lock. Bytes that the pool holds and has held, in all its lives. */
void pl_pool_read_reserved(const pl_pools *pools, const pl_pool *pool,
                           pleat_stat out[PLEAT_N_SIZES]);

/* stats.c, without the lock. The pool at place `index` in the order of first use; false: none. */
bool pl_pools_read_one(pl_pools *pools, unsigned index, pleat_pool_id *id,
                       pleat_stat reserved[PLEAT_N_SIZES]);

#endif

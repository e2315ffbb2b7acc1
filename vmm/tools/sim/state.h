/* state.h - the whole simulator: one global, one lock, devices, contexts, threads.
 *
 * sim.lock guards everything below. Every exported function holds the lock from its beginning to
 * its end (call.h). No callback runs while it is held. Thread state belongs to its thread. */
#ifndef PLEAT_SIM_STATE_H
#define PLEAT_SIM_STATE_H

#include <pthread.h>

#include "vmm/driver_abi.h"
#include "vmm/tools/sim/conf.h"
#include "vmm/tools/sim/memory/pool.h"
#include "vmm/tools/sim/memory/space.h"

typedef struct sim_stream sim_stream;
typedef struct sim_capture sim_capture;

/* A device's primary context, or one of cuCtxCreate or cuGreenCtxCreate, retained once. */
typedef struct sim_context {
    int device;
    unsigned n_retained;
    uint32_t index;              /* of a created one, in sim.contexts */
    uint64_t generation;         /* counts activations, to recognise stale references */
    struct sim_context *primary; /* a green context's retained primary context, else NULL */
    unsigned n_multiprocessors;  /* of a green one */
    sim_stream *legacy;          /* made at first use */
    unsigned n_capturing;        /* blocking streams that are being captured */
} sim_context;

/* One submission in the device's order. Names the stream that has work due once depth has
 * passed. */
typedef struct sim_submission {
    uint32_t slot; /* UINT32_MAX: no work, only time went on */
    uint64_t position;
} sim_submission;

typedef struct sim_device {
    sim_context context;
    uint64_t physical_bytes;
    uint64_t peak_physical_bytes;
    uint64_t mapped_bytes;
    uint64_t imported_bytes;
    uint64_t n_handles;
    uint64_t n_mappings;
    uint64_t n_linear;      /* allocations of cuMemAlloc, and pools' segments */
    uint64_t n_allocations; /* of cuMemAlloc; of pools until the free has passed */
    sim_submission *order;  /* ring of order_mask + 1 */
    uint64_t order_mask;
    uint64_t n_submitted;
    int memory_fd;              /* backing:memory */
    uint64_t memory_used_bytes; /* offsets handed out */
} sim_device;

typedef struct sim_state {
    pthread_mutex_t lock;
    bool is_configured;
    bool is_initialized; /* cuInit succeeded */
    int broken;          /* lock: the answer of each call; 0: nothing is broken */
    bool is_forked;      /* a child of the process that initialised */
    bool is_copied;      /* by a fork since the last reset: what lives was made by the parent */
    sim_conf conf;
    uint64_t epoch; /* number of resets */
    sim_device devices[SIM_MAX_DEVICES];
    sim_space space;
    uint64_t access_epoch; /* grows whenever addresses lose mapping or access */

    uint64_t n_calls[SIM_CONF_ENTRIES]; /* by sim_entry */
    uint64_t n_cu_calls;
    uint64_t call_number; /* of the call in progress, as in the log */
    int entry;            /* its sim_entry */
    double cost_us;

    sim_pool contexts; /* created ones */
    sim_pool handles;
    sim_pool mappings;
    sim_pool streams; /* the index is the stream's slot */
    sim_pool events;
    sim_pool graphs;
    sim_pool user_objects;
    sim_pool mempools; /* indexes are never reused, so a destroyed pool's handle is recognised */

    sim_stream **active; /* streams with unfinished work, in no order */
    uint32_t n_active;
    uint32_t n_blocked; /* streams with due work that waits for other streams */
    uint64_t n_unfinished;
    uint64_t
        worker;    /* id of the only stream with work so far; 0: none; UINT64_MAX: there are more */
    bool has_aged; /* work with accesses has ended by `depth` alone: nothing later is compared */
    uint64_t n_streams; /* created and not destroyed */
    uint64_t n_events;
    uint64_t n_graphs;
    uint64_t n_user_objects;
    uint64_t host_bytes;   /* pinned on the host */
    uint64_t n_lost;       /* objects lost with their context */
    sim_capture *captures; /* list of captures in progress */
    uint64_t next_stream_id;
    uint64_t next_capture_id;
} sim_state;

extern sim_state sim;

enum { SIM_CONTEXT_STACK = 4096 };

typedef struct sim_context_ref {
    sim_context *context;
    uint64_t generation;
} sim_context_ref;

/* The driver's notes about a thread, cleared at first use after a reset. */
typedef struct sim_thread {
    uint64_t epoch;
    unsigned number; /* 1, 2, ... in order of first call */
    unsigned depth;
    sim_context_ref stack[SIM_CONTEXT_STACK];
    int capture_mode;
    struct {
        sim_stream *stream;
        uint64_t generation;
    } streams[SIM_MAX_DEVICES]; /* per-thread default streams */
} sim_thread;

sim_thread *sim_thread_self(void);
/* The thread's current context. Returns CU_SUCCESS, INVALID_CONTEXT or CONTEXT_IS_DESTROYED. */
cu_result sim_context_current(sim_context **out);

/* Free everything and start afresh with `conf`. */
void sim_state_reset(const sim_conf *conf);
/* Configures from PLEAT_SIM unless already configured. False: see sim_error_text. */
bool sim_state_configure(void);
void sim_state_lock(void);
void sim_state_unlock(void);

/* The text behind pleat_sim_error. */
char *sim_error_text(void);
enum { SIM_ERROR_BYTES = 256 };

static inline sim_device *sim_device_at(int ordinal)
{
    return ordinal >= 0 && ordinal < sim.conf.n_devices ? &sim.devices[ordinal] : NULL;
}

/* Can work on device `from` get access to the memory of device `to`? Both exist. */
static inline bool sim_device_reaches(int from, int to)
{
    return from == to || sim.conf.peers == SIM_PEERS_ALL ||
           (sim.conf.peers == SIM_PEERS_PAIRS && from / 2 == to / 2);
}

#endif

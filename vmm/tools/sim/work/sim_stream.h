/* sim_stream.h - streams, their operations, and the operations' ends.
 *
 * An operation has a position on its stream, from 1. A stream's operations finish in order:
 *
 *   1 ... finished | unfinished, in the ring ... submitted
 *                            ^ due: depth has passed for what is up to here
 *
 * S1  finished <= submitted; the ring holds exactly the operations in between
 * S2  a stream is in sim.active if and only if finished < submitted
 * S3  an operation finishes only after its own stream's earlier ones and its dependencies
 * S4  a slot goes to another stream only when finished == submitted; positions go on
 *
 * Dependencies are vector clocks (sim_clock.h). Stream waits and the legacy default stream add to
 * the clocks. */
#ifndef PLEAT_SIM_STREAM_H
#define PLEAT_SIM_STREAM_H

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/sim/state.h"
#include "vmm/tools/sim/work/sim_clock.h"

typedef enum sim_task_kind {
    SIM_TASK_WORK,
    SIM_TASK_FILL,
    SIM_TASK_VERIFY,
    SIM_TASK_SET,   /* memset with `value` */
    SIM_TASK_READ,  /* device to host */
    SIM_TASK_WRITE, /* host to device */
    SIM_TASK_COPY,  /* device to device: writes the first access with the second */
    SIM_TASK_WRITE_VALUE,
    SIM_TASK_FREE,        /* cuMemFreeAsync of memory from cuMemAlloc at address `value` */
    SIM_TASK_POOL_ALLOC,  /* the driver's own: a block of a pool begins */
    SIM_TASK_POOL_RETIRE, /* the driver's own: a block of pool number `value` ends */
    SIM_TASK_LAUNCH_END,  /* the driver's own: a launch with user objects is over */
} sim_task_kind;

/* A piece of work. The maker of the access list owns the list. */
typedef struct sim_task {
    sim_task_kind kind;
    uint64_t value;          /* seed, byte, 64-bit value */
    struct sim_holds *holds; /* of SIM_TASK_LAUNCH_END */
    void *host;
    bool is_peer_s; /* check each access with the device that owns the memory */
    bool lasts;     /* until ended or waited for; not counted */
    size_t n;
    const pleat_sim_access *accesses;
    const uint64_t *serials; /* of a graph: sim_late_note_blocks; NULL: not captured */
    uint64_t place;          /* of a graph: where the work was captured */
} sim_task;

typedef struct sim_op {
    uint64_t begin; /* the hull of all accesses; begin == end: none */
    uint64_t end;
    uint64_t call;  /* its number in the log */
    uint64_t place; /* the operation's (scope.h); 0: unknown */
    uint64_t access_epoch;
    sim_clock *deps;
    sim_task *task; /* NULL: work with at most one access, described in the op */
    bool is_write;
    bool is_counted;  /* takes part in depth */
    bool is_reported; /* a hazard was recorded for the op: not checked at its end */
    bool is_driver_s; /* no access of the program, so not checked at its end */
    bool lasts;       /* ends only by an explicit end or by a wait */
} sim_op;

enum { SIM_PRIORITY_GREATEST = -5 };

struct sim_stream {
    uint64_t submitted;
    uint64_t finished;
    uint64_t due;
    sim_op *ring; /* position p is at p & ring_mask */
    uint64_t ring_mask;
    uint64_t n_ring; /* its size, 0 before the first operation */
    sim_clock *deps; /* what comes before the next operation, besides the own stream's */
    sim_context *context;
    uint64_t generation; /* of the context */
    uint32_t slot;
    uint32_t active_index; /* while in sim.active */
    cu_stream handle;
    unsigned thread; /* the default stream's thread, in a created context; 0 = none */
    uint64_t id;
    int priority;
    bool is_live;     /* not destroyed */
    bool is_detached; /* its green context was destroyed */
    bool is_blocking;
    bool is_legacy;
    bool is_blocked;     /* due work waits for other streams */
    uint64_t blind_call; /* the last call before its last kernel of which no access is known */
    uint64_t needed;     /* scratch of a synchronisation */
    uint64_t walked;

    sim_capture *capture;
    uint64_t capture_position;
    sim_clock *capture_deps;
};

static inline sim_stream *sim_stream_at(uint32_t slot)
{
    return sim_pool_at(&sim.streams, slot);
}

static inline sim_op *sim_stream_op(const sim_stream *stream, uint64_t position)
{
    return &stream->ring[position & stream->ring_mask];
}

static inline bool sim_stream_is_idle(const sim_stream *stream)
{
    return stream->finished == stream->submitted;
}

/* sim_stream.c */
/* The stream behind a handle: a created stream of any context, or a default stream of the current
 * context. Returns CU_SUCCESS, INVALID_HANDLE, STREAM_DETACHED (*out is the stream) or the result
 * of sim_context_current. */
cu_result sim_stream_find(cu_stream handle, sim_stream **out);
/* A priority outside SIM_PRIORITY_GREATEST to 0 is taken as the next one in there. It changes
 * nothing. */
/* A created stream that is not destroyed, or NULL. Names no dead handle's hazard. */
sim_stream *sim_stream_peek(cu_stream handle);
cu_result sim_stream_create(sim_context *context, unsigned flags, int priority, cu_stream *out);
void sim_stream_destroy(sim_stream *stream);
sim_stream *sim_stream_legacy(sim_context *context);
/* Destroys all streams of a context that goes away. */
void sim_stream_drop_context(sim_context *context);
/* The green context goes away, so its streams can only be destroyed. */
void sim_stream_detach_context(sim_context *context);
void sim_stream_fini(void);
/* Gives back slot and resources once a destroyed stream is idle. */
void sim_stream_settle(sim_stream *stream);
/* Makes the next command of `stream` follow the legacy default stream's rule. */
void sim_stream_join_default(sim_stream *stream);
/* Raises the clock to all work submitted to `stream`, and to all its waits. */
void sim_stream_gather(sim_stream *stream, sim_clock **clock);
/* The same for all streams of a context, including destroyed streams with pending work. */
void sim_stream_gather_context(const sim_context *context, sim_clock **clock);
/* Has everything that the clock names finished? Removes finished entries. */
bool sim_stream_passed(sim_clock **clock);

/* sim_work.c */
void sim_work_submit(sim_stream *stream, const sim_task *task, bool is_counted);
/* Finish all work needed by the position and the clock, in an order that respects dependencies. */
/* As a synchronisation does. False: the call would have to wait, under waits:refuse. */
bool sim_work_finish_until(sim_stream *stream, uint64_t position, const sim_clock *clock);
void sim_work_finish_all(void);
bool sim_work_finish_clock(const sim_clock *clock);
/* Finish the stream up to the position, whatever waits:refuse says. */
void sim_work_end(sim_stream *stream, uint64_t position);
/* The work writes `bytes` at `ptr`, where it was taken to write one byte. False: it does not. */
bool sim_work_extend(sim_op *op, uint64_t ptr, uint64_t bytes);
/* As if n operations had been submitted to the device. */
void sim_work_advance(sim_device *device, uint64_t n);
void sim_work_init(sim_device *device);

/* task.c */
sim_task *sim_task_copy(const sim_task *task);
/* For a graph, whose launches look at the blocks again. */
sim_task *sim_task_capture(const sim_task *task);
/* Does a task's effect on contents, at the task's end; its addresses are known to be accessible. */
void sim_task_run(const sim_task *task);
void sim_task_free(sim_task *task); /* NULL is fine */

#endif

/* capture.h - memory that a stream capture has seen.
 *
 * A graph bakes addresses in. So a block that is allocated, freed or recorded as used while its
 * stream is captured belongs to that capture, whichever of the capture's streams it was: after its
 * free nobody uses it, and its chunks are never taken, until the graph is gone. Where it can, the
 * driver tells that the graph, all executables made of it and every launch are over
 * (vmm/graph_watch.h). Otherwise the owner of the graph says so, by the handle of a stream that
 * took part; of several captures on one stream this means the oldest. Launches may be under way
 * then, on any stream: a tick of the context covers them.
 *
 * A private pool's blocks are not kept for a graph: they wait for the end of the capture only.
 *
 * pleat asks what a stream is doing in calls that name the stream; between two of them, what the
 * earlier one saw counts. */
#ifndef PLEAT_SEGMENTS_CAPTURE_H
#define PLEAT_SEGMENTS_CAPTURE_H

#include "segments/pleat/space/space.h"
#include "vmm/graph_watch.h"

/* There may be very many captures, one for each living graph. So lists find them: by id; those
 * under way, which are few, as each has a stream that was seen in it; those of a pool; and by
 * handle those that an owner may release (pl_participant). */
typedef enum pl_capture_list {
    PL_CAPTURES_ALL,
    PL_CAPTURES_UNDER_WAY,
    PL_CAPTURES_OF_POOL,
    PL_N_CAPTURE_LISTS
} pl_capture_list;

typedef struct pl_capture_link {
    struct pl_capture *prev;
    struct pl_capture *next;
} pl_capture_link;

/* A stream took part in a capture. */
typedef struct pl_part {
    struct pl_capture *capture;
    struct pl_participant *participant;
    struct pl_part *next;  /* the capture's parts */
    struct pl_part *older; /* the participant's parts, by the captures' numbers */
    struct pl_part *newer;
} pl_part;

/* A stream's handle, and its captures that are neither released nor disowned. */
typedef struct pl_participant {
    void *handle; /* const */
    struct pl_participant *next;
    pl_part *oldest;
    pl_part *newest;
} pl_participant;

/* I1  n_refs counts the lanes that were last seen in the capture, the uses that name it and, if it
 *     has one, its pool; without any it is freed
 * I2  `waiting` holds the blocks that wait for the capture: their last use names it
 * I3  the capture is in the lists that its state demands                                    */
typedef struct pl_capture {
    struct pl_capture *next; /* in space.captures */
    pl_capture_link links[PL_N_CAPTURE_LISTS];
    uint64_t id;             /* const: the driver's; 0 = none */
    uint64_t number;         /* const: in order of first sight */
    pl_graph_watch *watch;   /* const; NULL = the driver does not tell when the graph is gone */
    struct pl_private *pool; /* the first that its requests used; NULL = none */
    bool has_ended;          /* as far as pleat saw or was told */
    bool is_broken;          /* invalidated: no graph comes of it */
    unsigned n_lanes;        /* that were last seen in it */
    bool is_released;        /* its graph counts as gone */
    bool is_disowned;        /* its owner says that its graph is gone, the driver not yet */
    uint64_t over_tick;      /* released: its launches are over when the context passes this */
    pl_part *parts;          /* its streams', as long as its owner may release it */
    uint32_t n_refs;
    pl_block_queue waiting;
} pl_capture;

/* A capture seen for the first time, which owns `watch` (NULL = none). NULL: no host memory. */
pl_capture *pl_capture_create(pl_space *space, uint64_t id, pl_graph_watch *watch);

static inline void pl_capture_hold(pl_capture *capture)
{
    capture->n_refs++;
}
void pl_capture_drop(pl_space *space, pl_capture *capture);
/* May blocks that wait for it go on? is_private: blocks of private pools. */
static inline bool pl_capture_is_over(const pl_capture *capture, bool is_private)
{
    return is_private ? capture->has_ended : capture->is_released;
}
/* `lane` is a stream's second one: is the stream in a capture that is not known to have ended? */
bool pl_capture_is_lasting(const pl_space *space, const pl_lane *lane);

/* Would a tick of the context break a capture that is known or announced? */
static inline bool pl_capture_forbids_tick(const pl_space *space)
{
    return space->n_capturing > 0 || space->n_expected > 0;
}
/* A call saw a capture that nobody announced. */
void pl_capture_note_unannounced(pl_space *space);
/* May another thread have begun such a capture that no call has named yet? The calling thread has
 * not: it is in this call. */
bool pl_capture_may_have_begun(const pl_space *space);
/* Set the error's detail: which capture forbids a tick of the context, and what to do about it, as
 * it may have ended long ago. False if no capture is known or announced. */
bool pl_capture_name_lasting(const pl_space *space);

/* Has the driver said that its graph is gone? */
static inline bool pl_capture_is_gone(const pl_capture *capture)
{
    return capture->watch != NULL && pl_graph_watch_is_gone(capture->watch);
}
/* Note that the capture has ended. Blocks that wait for it do not go on yet. */
void pl_capture_end(pl_space *space, pl_capture *capture);
/* The same for all under way whose graph is gone; blocks go on at the next pl_capture_look. */
void pl_capture_end_gone(pl_space *space);
/* It is released, or being freed: it counts as disowned no longer. */
void pl_capture_own_up(pl_space *space, pl_capture *capture);
/* Unlink it from its pool, if any, when the graph or the pool is gone. May free it. */
void pl_capture_leave_pool(pl_space *space, pl_capture *capture);
/* Unlink some captures from a pool that is going. True: no capture refers to it any more. */
bool pl_capture_forget_pool(pl_space *space, const struct pl_private *pool);
void pl_capture_free_all(pl_space *space); /* at the end of the space */

#endif

/* capture.h - memory that a stream capture has seen.
 *
 * A graph bakes addresses in. What was allocated, freed or recorded as used while its stream was
 * captured belongs to that capture, whichever streams were forked into it: after its free it is
 * used by nobody, and never taken, until the graph is gone. That the driver tells, where it can
 * (vmm/graph_watch.h): when the graph, all executables made of it and every launch are over. Else
 * the owner of the graph says so, by the handle of a stream that took part: of several captures on
 * one stream the oldest is meant. Launches may be under way then, on any stream: a tick of the
 * context covers them.
 *
 * Private pools' memory is not kept for a capture: there only the capture itself has to be over.
 *
 * What a stream is doing is asked in calls that name it; in between it is what it was seen doing
 * last. */
#ifndef PLEAT_SEGMENTS_CAPTURE_H
#define PLEAT_SEGMENTS_CAPTURE_H

#include "segments/pleat/space.h"
#include "vmm/graph_watch.h"

/* There may be very many, one for each graph that lives. So they are found by lists: by id, those
 * under way (a stream is seen in each of them, so they are few), those of a pool, and by handle
 * those whose owner may say that they are gone. */
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

/* That a stream took part in a capture. */
typedef struct pl_part {
    struct pl_capture *capture;
    struct pl_participant *participant;
    struct pl_part *next;  /* of the capture */
    struct pl_part *older; /* of the participant, by the captures' numbers */
    struct pl_part *newer;
} pl_part;

/* A handle with such captures that are neither released nor disowned. */
typedef struct pl_participant {
    void *handle; /* const */
    struct pl_participant *next;
    pl_part *oldest;
    pl_part *newest;
} pl_participant;

/* I1  n_refs counts the lanes that see it, the uses that name it and, if it has one, its pool;
 *     without any it is gone
 * I2  `waiting` holds blocks whose last use names it
 * I3  it is in the lists that its state says                                                */
typedef struct pl_capture {
    struct pl_capture *next; /* in space.captures */
    pl_capture_link links[PL_N_CAPTURE_LISTS];
    uint64_t id;             /* const: the driver's; 0 = it does not tell */
    uint64_t number;         /* const: in order of first sight */
    pl_graph_watch *watch;   /* const; NULL = the driver does not tell */
    struct pl_private *pool; /* the first that its requests went to; NULL = none */
    bool has_ended;          /* as far as was seen or told */
    bool is_broken;          /* no graph comes of it */
    unsigned n_lanes;        /* that see it now */
    bool is_released;        /* its graph is gone */
    bool is_disowned;        /* so its owner says; the driver has not said it yet */
    uint64_t over_tick;      /* released: its launches are over when the context passes */
    pl_part *parts;          /* its streams', as long as its owner may say that it is gone */
    uint32_t n_refs;
    pl_block_queue waiting;
} pl_capture;

/* One that was not known. `watch`, or NULL, is its own. NULL: no host memory. */
pl_capture *pl_capture_create(pl_space *space, uint64_t id, pl_graph_watch *watch);

static inline void pl_capture_hold(pl_capture *capture)
{
    capture->n_refs++;
}
void pl_capture_drop(pl_space *space, pl_capture *capture);
/* May what waits for it go on? */
static inline bool pl_capture_is_over(const pl_capture *capture, bool is_private)
{
    return is_private ? capture->has_ended : capture->is_released;
}
/* lane is a stream's second one: is its stream in a capture that is not known to have ended? */
bool pl_capture_is_lasting(const pl_space *space, const pl_lane *lane);

/* Is a capture known of, or announced, that would be broken by a tick of the context? */
static inline bool pl_capture_forbids_tick(const pl_space *space)
{
    return space->n_capturing > 0 || space->n_expected > 0;
}
/* Whoever reads the error learns which capture forbids a tick of the context, and what to do about
 * it: it may have ended long ago. False: none does that is known. */
bool pl_capture_name_lasting(const pl_space *space);

/* Has the driver said that its graph is gone? */
static inline bool pl_capture_is_gone(const pl_capture *capture)
{
    return capture->watch != NULL && pl_graph_watch_is_gone(capture->watch);
}
/* It is under way no more, as far as is known. What waits for it does not go on yet. */
void pl_capture_end(pl_space *space, pl_capture *capture);
/* The same of each under way whose graph is gone; what waits for it is left to the next look. */
void pl_capture_end_gone(pl_space *space);
/* It is released, or no more: it does not count as disowned any longer. */
void pl_capture_own_up(pl_space *space, pl_capture *capture);
/* Its graph is gone, or the pool is: neither knows the other any more. */
void pl_capture_leave_pool(pl_space *space, pl_capture *capture);
/* The pool is no more. Some at a time; true: no capture knows it any more. */
bool pl_capture_forget_pool(pl_space *space, const struct pl_private *pool);
void pl_capture_free_all(pl_space *space); /* with the space */

#endif

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

/* A call that names the lane's stream has asked what it is doing: lane->capture says it from now
 * on. `pool`: the request's. May drop the lock when the capture is new. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_see(pl_space *space, pl_lane *lane, const pl_capture_info *info,
                            struct pl_private *pool);

static inline void pl_capture_hold(pl_capture *capture)
{
    capture->n_refs++;
}
void pl_capture_drop(pl_space *space, pl_capture *capture);
/* The lane's stream is gone: if the capture was seen in no other one, that has ended. */
void pl_capture_lose_lane(pl_space *space, pl_lane *lane);
/* May what waits for it go on? */
static inline bool pl_capture_is_over(const pl_capture *capture, bool is_apart)
{
    return is_apart ? capture->has_ended : capture->is_released;
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

/* ---- capture_end.c --------------------------------------------------------------------------- */

/* Which graphs has the driver said to be gone? Some captures are looked at, the next ones the next
 * time. True: something was released. */
bool pl_capture_look(pl_space *space);
/* The same of all captures, letting the lock go in between, but not for ever: others may go on
 * destroying graphs. */
void pl_capture_look_well(pl_space *space);
/* One under way whose graph is gone has ended. What waits for it is left to the next look. */
void pl_capture_end_gone(pl_space *space);
/* The captures of the pool's requests have ended. */
void pl_capture_end_of_pool(pl_space *space, const struct pl_private *pool);
/* The pool is no more. Some at a time; true: no capture knows it any more. */
bool pl_capture_forget_pool(pl_space *space, const struct pl_private *pool);
void pl_capture_free_all(pl_space *space); /* with the space */

/* The graph captured with that stream's handle is gone, says its owner. PLEAT_OK; ECAPTURE. */
pleat_status pl_pleat_release_capture_of(pl_allocator *a, void *handle);
/* No capture that has ended keeps memory of the default pool any more. */
void pl_pleat_let_captures_go(pl_allocator *a);

#endif

/* capture.h - memory of stream captures.
 *
 * A graph bakes addresses in. So a block belongs to a capture if a call allocated, freed or
 * recorded the block while the call's stream was captured, with whichever stream of the capture.
 * After the free nobody uses the block, and its chunks are never taken, until the graph is gone. A
 * capable driver tells when the graph, its executables and all launches are over
 * (vmm/streams/graph_watch.h). Otherwise the owner of the graph says so, by the handle of a stream
 * of the capture. Of several captures on the stream, the oldest is meant. Launches may be under way
 * then on any stream, so a tick of the context covers the launches.
 *
 * Blocks of a private pool wait for the end of the capture only, not for the graph.
 *
 * pleat asks about a stream in calls that name the stream. Between two calls, the last answer
 * counts. */
#ifndef PLEAT_SEGMENTS_CAPTURE_H
#define PLEAT_SEGMENTS_CAPTURE_H

#include "segments/pleat/space/space.h"
#include "vmm/streams/graph_watch.h"

/* A stream took part in a capture. */
typedef struct pl_part {
    struct pl_capture *capture;
    struct pl_participant *participant;
    struct pl_part *next;  /* the capture's parts */
    struct pl_part *older; /* the participant's parts, by the captures' numbers */
    struct pl_part *newer;
} pl_part;

/* A stream's handle, and its captures, without released and disowned captures. */
typedef struct pl_participant {
    void *handle; /* const */
    struct pl_participant *next;
    pl_part *oldest;
    pl_part *newest;
} pl_participant;

/* There may be very many captures, one for each living graph. So lists find captures by id, by
 * pool, and by a handle that an owner may release (pl_participant). A list of captures under way is
 * short: a stream was last seen in each of them. */
/* I1  n_refs counts the lanes that were last seen in the capture, the uses that name it and, if it
 *     has one, its pool; without any it is freed
 * I2  the last use of each block that waits for its clock names the capture
 * I3  the capture is in the lists that its state demands                                    */
typedef struct pl_capture {
    LIST_ENTRY(pl_capture) all;
    LIST_ENTRY(pl_capture) with_id;
    LIST_ENTRY(pl_capture) under_way;
    LIST_ENTRY(pl_capture) of_pool;
    uint64_t id;             /* const: given by the driver, or 0 */
    uint64_t number;         /* const: in order of first sight */
    pl_graph_watch *watch;   /* const; NULL = the driver does not tell when the graph is gone */
    struct pl_private *pool; /* the first pool of its requests; NULL = none */
    bool is_broken;          /* invalidated: will have no graph */
    unsigned n_lanes;        /* lanes last seen in the capture */
    bool is_disowned;        /* gone for the owner, not yet for the driver */
    uint64_t over_tick;      /* released: launches are over when the context passes this */
    pl_part *parts;          /* its streams', while the owner may release the capture */
    uint32_t n_refs;
    pl_clock clock; /* passes pl_capture_stage */
} pl_capture;

/* The stamps of a capture's clock. The end is as far as pleat saw or was told. The graph counts as
 * gone when the capture is released. */
typedef enum pl_capture_stage {
    PL_CAPTURE_UNDER_WAY,
    PL_CAPTURE_ENDED,
    PL_CAPTURE_RELEASED,
} pl_capture_stage;

static inline bool pl_capture_has_ended(const pl_capture *capture)
{
    return capture->clock.passed >= PL_CAPTURE_ENDED;
}
static inline bool pl_capture_is_released(const pl_capture *capture)
{
    return capture->clock.passed >= PL_CAPTURE_RELEASED;
}
/* What blocks wait for after their free. is_private: blocks of private pools, which outlive their
 * graphs. */
static inline uint64_t pl_capture_stamp(bool is_private)
{
    return is_private ? PL_CAPTURE_ENDED : PL_CAPTURE_RELEASED;
}

/* A capture seen for the first time, owner of `watch` (NULL = none). NULL: no host memory. */
pl_capture *pl_capture_create(pl_space *space, uint64_t id, pl_graph_watch *watch);

static inline void pl_capture_hold(pl_capture *capture)
{
    capture->n_refs++;
}
void pl_capture_drop(pl_space *space, pl_capture *capture);
/* May blocks go on after the wait for the capture? is_private: as for pl_capture_stamp. */
static inline bool pl_capture_is_over(const pl_capture *capture, bool is_private)
{
    return pl_capture_stamp(is_private) <= capture->clock.passed;
}
/* `lane`: the second lane of a stream. Is the stream in a capture without a known end? */
bool pl_capture_is_lasting(const pl_space *space, const pl_lane *lane);

/* Would a tick of the context break a known or announced capture? */
static inline bool pl_capture_forbids_tick(const pl_space *space)
{
    return space->captures.n_capturing > 0 || space->captures.n_expected > 0;
}
/* Set the error's detail: which capture forbids a tick of the context, and how to end the capture,
 * which may be over long ago. False if no capture is known or announced. */
bool pl_capture_name_lasting(const pl_space *space);

/* Has the driver said that the graph is gone? */
static inline bool pl_capture_is_gone(const pl_capture *capture)
{
    return capture->watch != NULL && pl_graph_watch_is_gone(capture->watch);
}
/* Note the end of the capture. Blocks of the capture do not go on yet. */
void pl_capture_end(pl_space *space, pl_capture *capture);
/* The capture, which has ended, is released: see over_tick. Blocks do not go on yet. */
void pl_capture_lose_graph(pl_capture *capture, uint64_t over_tick);
/* Note the end of all captures under way whose graph is gone. Blocks go on at the next
 * pl_capture_look. */
void pl_capture_end_gone(pl_space *space);
/* The capture is released, or being freed, so no longer disowned. */
void pl_capture_own_up(pl_space *space, pl_capture *capture);
/* Unlink the capture from its pool, if any, when the graph or the pool is gone. May free the
 * capture. */
void pl_capture_leave_pool(pl_space *space, pl_capture *capture);
/* Unlink some captures from a pool before its end. True: no capture refers to the pool any more. */
bool pl_capture_forget_pool(pl_space *space, const struct pl_private *pool);
void pl_capture_free_all(pl_space *space); /* at the end of the space */

/* ---- lists ---- */

/* The capture with this id. NULL: none, or the id is 0. */
pl_capture *pl_capture_find(pl_space *space, uint64_t id);

/* Note that a stream with the handle took part in the capture. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_take_part(pl_space *space, pl_capture *capture, void *handle);
/* Forget which streams took part: the owner has released the capture, or need not any more. */
void pl_capture_forget_parts(pl_space *space, pl_capture *capture);
/* The stream's oldest capture that is not released or disowned; NULL = none. */
pl_capture *pl_capture_find_of_stream(pl_space *space, const void *handle);

#endif

/* sim_event.h - events: a point on a stream, in its own time or within a capture. */
#ifndef PLEAT_SIM_EVENT_H
#define PLEAT_SIM_EVENT_H

#include "vmm/tools/sim/work/sim_stream.h"

/* Flags that pleat does not use, including 1, blocking synchronisation. */
enum { SIM_EVENT_INTERPROCESS = 4 };

typedef struct sim_event {
    uint32_t index;
    bool is_live;
    unsigned flags;
    bool is_shared; /* known to other processes: sim_ipc.h */
    sim_context *context;
    bool is_recorded;
    uint32_t slot;     /* of the stream; with a capture, position and deps count in the capture */
    uint64_t position; /* 0: no stream's work; `slot` need not exist */
    sim_clock *deps;
    uint64_t stamp;      /* the device's submissions when it was recorded */
    uint64_t capture_id; /* 0: not recorded in a capture */
    uint64_t died_in_call;
} sim_event;

cu_result sim_event_create(sim_context *context, unsigned flags, cu_event *out);
sim_event *sim_event_find(cu_event handle);
void sim_event_destroy(sim_event *event);
void sim_event_drop_context(const sim_context *context);
void sim_event_fini(void);

cu_result sim_event_record(sim_event *event, sim_stream *stream);
/* Finishes the event's work. False if some work can never finish. */
bool sim_event_finish(sim_event *event);
/* Records behind all work of the context's streams. Refused while any such stream is captured. With
 * is_green an event of the same primary context will do. */
cu_result sim_event_record_context(sim_event *event, sim_context *context, bool is_green);
cu_result sim_event_wait(sim_stream *stream, sim_event *event);
/* First: does the event belong to no capture ... */
cu_result sim_event_check(const sim_event *event);
/* ... then: has all work before the event finished? */
bool sim_event_has_passed(sim_event *event);

#endif

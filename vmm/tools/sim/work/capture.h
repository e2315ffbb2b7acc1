/* capture.h - stream capture: work becomes nodes of a graph instead of being submitted. */
#ifndef PLEAT_SIM_CAPTURE_H
#define PLEAT_SIM_CAPTURE_H

#include "vmm/tools/sim/work/sim_event.h"
#include "vmm/tools/sim/work/sim_stream.h"

cu_result sim_capture_begin(sim_stream *stream, int mode);
/* Ends the capture unless the stream or thread is wrong. *graph is set on CU_SUCCESS only.
 * Otherwise the graph and its contents are destroyed. */
cu_result sim_capture_end(sim_stream *stream, cu_graph *graph);
uint64_t sim_capture_id(const sim_capture *capture);
cu_graph sim_capture_graph(const sim_capture *capture);
bool sim_capture_is_invalidated(const sim_capture *capture);
int sim_capture_status(const sim_stream *stream); /* CU_CAPTURE_* */
/* The stream is destroyed. Its capture becomes invalid, and ends if begun on this stream. */
void sim_capture_leave(sim_stream *stream);
void sim_capture_fini(void);

/* An unsafe call is refused if the threads' modes say so, and then invalidates the captures. */
cu_result sim_capture_unsafe_call(void);
/* Checks a command on `stream`. Refused on the legacy stream while blocking streams of its context
 * are captured, and on a stream whose capture is invalid. */
cu_result sim_capture_check_use(sim_stream *stream);
/* For calls forbidden on every captured stream. Invalidates the capture. CU_SUCCESS when there is
 * none. */
cu_result sim_capture_forbid(sim_stream *stream);
/* For calls that forbid captures in the whole context. Invalidates every capture in the context. */
cu_result sim_capture_forbid_context(const sim_context *context);
void sim_capture_invalidate_id(uint64_t id);

void sim_capture_add(sim_stream *stream, const sim_task *task);
/* A wait whose stream or event belongs to a capture. */
cu_result sim_capture_wait(sim_stream *stream, const sim_event *event);

#endif

/* submit.h - brings work from a call to its stream, or into the stream's capture. */
#ifndef PLEAT_SIM_SUBMIT_H
#define PLEAT_SIM_SUBMIT_H

#include "vmm/tools/sim/work/sim_stream.h"

/* Work on a stream of the current context: submitted, or recorded if the stream is captured. */
cu_result sim_submit(cu_stream handle, const sim_task *task, bool is_counted);
/* The same for a stream already found. */
cu_result sim_submit_to(sim_stream *stream, const sim_task *task, bool is_counted);
/* A driver operation on one piece of memory, accessible at the call. */
cu_result sim_submit_checked(cu_stream handle, sim_task_kind kind, uint64_t value, void *host,
                             const pleat_sim_access *access, bool is_counted);
/* A copy within a device or between two devices. An address is checked with its own device's
 * access. */
cu_result sim_submit_copy(cu_stream handle, uint64_t to, uint64_t from, uint64_t bytes);

#endif

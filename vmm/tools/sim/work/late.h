/* late.h - work on blocks that are no more, or not yet: what the allocator has told, against what
 * the program's work touches. */
#ifndef PLEAT_SIM_LATE_H
#define PLEAT_SIM_LATE_H

#include "vmm/tools/sim/memory/block.h"
#include "vmm/tools/sim/work/sim_stream.h"

/* Record a hazard if the work about to be submitted touches a freed block, bytes behind a block's
 * end, or lost contents. False: nothing is wrong. */
bool sim_late_check(const sim_stream *stream, const sim_task *task);
/* The stream is a user of the blocks that the task touches. */
void sim_late_note_user(sim_stream *stream, const sim_task *task);
/* Has work of the stream touched the block, as far as anybody can tell? */
bool sim_late_may_use(const sim_block *block, const sim_stream *stream);
/* Add to a hazard whose block the bytes at `access` are, and why they cannot be used. */
void sim_late_explain(pleat_sim_hazard *hazard, const pleat_sim_access *access);
/* Two works at the same bytes are unordered: was a block freed between them? `call` is that of the
 * earlier work. */
void sim_late_explain_race(pleat_sim_hazard *hazard, const pleat_sim_access *access, uint64_t call);
/* For each access the serial of the block there, which must be there at each launch, too. 0: none,
 * or a block of the graph's own. */
void sim_late_note_blocks(const sim_task *task, uint64_t *serials);

/* The allocator may give the freed block's bytes to the next request on its stream. Other streams
 * may still use them, which is wrong once there is such a request. */
void sim_late_note_reuse(const sim_block *block);
/* A request on the block's stream was served. */
void sim_late_check_reuse(const sim_block *block);
void sim_late_fini(void);

#endif

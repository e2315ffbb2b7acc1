/* segments_chunks.h - pleat with chunks of several sizes, and compactions whose driver fails. */
#ifndef PLEAT_TESTS_SEGMENTS_CHUNKS_H
#define PLEAT_TESTS_SEGMENTS_CHUNKS_H

#include "segments/base/allocator.h"
#include "tests/support/segments/segments_sim.h"

/* Open pleat with an observer (segments_told.h), and large chunks from the first one on. */
void chunks_open(const char *sim_conf, pl_chunks chunks);

uint64_t chunks_granules_held(void);
/* From now on no memory beyond the held bytes can be created. */
void chunks_limit_to_held(void);

/* Compact while the k-th driver call fails, once. *has_hit: the compaction made a k-th call. The
 * error must be reported as the driver's. */
pleat_status chunks_compact_failing_at(uint64_t k, bool *has_hit);
/* Compact while all calls of that name fail from the k-th on. Every walker passes afterwards. */
pleat_status chunks_compact_failing_from(const char *call, uint64_t k);

#endif

/* segments_chunks.c - see segments_chunks.h. */
#include "tests/support/segments/segments_chunks.h"

#include <check.h>

#include "tests/support/own.h"
#include "tests/support/segments/segments_told.h"

void chunks_open(const char *sim_conf, pl_chunks chunks)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    SET_OWN(pleat, &options, chunks, chunks);
    SET_OWN(pleat, &options, chunk_share, 1);
    pleat_open(sim_conf, &options);
}

uint64_t chunks_granules_held(void)
{
    return pleat_counted_mixed().resident_bytes / pl_device_granule_bytes(pleat.dev);
}

void chunks_limit_to_held(void)
{
    uint64_t bytes = pleat_counted_mixed().resident_bytes;
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, bytes), PLEAT_OK);
}

pleat_status chunks_compact_failing_at(uint64_t k, bool *has_hit)
{
    pleat_compaction out;
    pleat.sim.fail_at(NULL, k, CU_UNKNOWN);
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, &out);
    *has_hit = pleat.sim.n_faults() > 0;
    pleat.sim.fail_never();
    ck_assert(st == PLEAT_OK || (*has_hit && st == PLEAT_EDRIVER));
    return st;
}

pleat_status chunks_compact_failing_from(const char *call, uint64_t k)
{
    pleat_compaction out;
    pleat.sim.fail_from(call, k, CU_UNKNOWN);
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, &out);
    pleat.sim.fail_never();
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    return st;
}

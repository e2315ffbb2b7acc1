/* sim_world.c - see sim_world.h. */
#include "sim_world.h"

#include <stdlib.h>

static cu_context current;

void world_begin(const char *conf)
{
    ck_assert_msg(pleat_sim_reset(conf) == 0, "%s", pleat_sim_error());
    ck_ok(cuInit(0));
    ck_ok(cuDevicePrimaryCtxRetain(&current, 0));
    ck_ok(cuCtxPushCurrent_v2(current));
}

void world_default(void)
{
    world_begin(NULL);
}

pleat_sim_counts world_counts(void)
{
    pleat_sim_counts counts;
    ck_assert_int_eq(pleat_sim_count(-1, &counts), 0);
    return counts;
}

size_t world_hazards(void)
{
    return pleat_sim_hazards(NULL, 0);
}

size_t world_unfinished(void)
{
    return world_counts().unfinished_work;
}

static void assert_empty(void)
{
    pleat_sim_fail_never();
    pleat_sim_finish();
    ck_ok(cuCtxPopCurrent_v2(NULL));
    ck_ok(cuDevicePrimaryCtxRelease_v2(0));
    pleat_sim_counts counts = world_counts();
    ck_assert_uint_eq(counts.reservations, 0);
    ck_assert_uint_eq(counts.reserved_bytes, 0);
    ck_assert_uint_eq(counts.handles, 0);
    ck_assert_uint_eq(counts.mappings, 0);
    ck_assert_uint_eq(counts.mapped_bytes, 0);
    ck_assert_uint_eq(counts.allocations, 0);
    ck_assert_uint_eq(counts.pools, 0);
    ck_assert_uint_eq(counts.physical_bytes, 0);
    ck_assert_uint_eq(counts.streams, 0);
    ck_assert_uint_eq(counts.events, 0);
    ck_assert_uint_eq(counts.graphs, 0);
    ck_assert_uint_eq(counts.user_objects, 0);
    ck_assert_uint_eq(counts.contexts, 0);
    ck_assert_uint_eq(counts.unfinished_work, 0);
    ck_assert_uint_eq(counts.lost_objects, 0);
    ck_assert_uint_eq(pleat_sim_mappings(NULL, 0), 0);
}

void world_end(void)
{
    assert_empty();
    pleat_sim_hazard first;
    ck_assert_msg(pleat_sim_hazards(&first, 1) == 0, "hazard: %s", first.text);
}

void world_end_with(pleat_sim_hazard_kind kind, size_t n)
{
    pleat_sim_hazard found[16];
    assert_empty();
    ck_assert_uint_eq(pleat_sim_hazards(found, 16), n);
    for (size_t i = 0; i < n && i < 16; i++) {
        ck_assert_msg(found[i].kind == kind, "hazard %zu: %s", i, found[i].text);
        ck_assert_uint_gt(found[i].call, 0);
        ck_assert(found[i].text[0] != '\0');
    }
}

cu_mem_prop world_prop(int device)
{
    return (cu_mem_prop){
        .type = CU_ALLOCATION_PINNED,
        .location = { .type = CU_LOCATION_DEVICE, .id = device },
    };
}

cu_mem_handle world_create(size_t n_granules)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    ck_ok(cuMemCreate(&handle, n_granules * GRANULE, &prop, 0));
    return handle;
}

cu_devptr world_reserve(size_t n_granules)
{
    cu_devptr at;
    ck_ok(cuMemAddressReserve(&at, n_granules * GRANULE, 0, 0, 0));
    return at;
}

void world_allow(cu_devptr at, size_t n_granules, int device, int flags)
{
    cu_access_desc desc = { .location = { .type = CU_LOCATION_DEVICE, .id = device },
                            .flags = flags };
    ck_ok(cuMemSetAccess(at, n_granules * GRANULE, &desc, 1));
}

cu_devptr world_map(size_t n_granules)
{
    cu_devptr at = world_reserve(n_granules);
    for (size_t i = 0; i < n_granules; i++) {
        cu_mem_handle handle = world_create(1);
        ck_ok(cuMemMap(at + i * GRANULE, GRANULE, 0, handle, 0));
        ck_ok(cuMemRelease(handle));
    }
    world_allow(at, n_granules, 0, CU_ACCESS_READ_WRITE);
    return at;
}

void world_unmap(cu_devptr at, size_t n_granules)
{
    ck_ok(cuMemUnmap(at, n_granules * GRANULE));
    ck_ok(cuMemAddressFree(at, n_granules * GRANULE));
}

cu_stream world_stream(void)
{
    cu_stream stream;
    ck_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING_FLAG));
    return stream;
}

cu_event world_event(void)
{
    cu_event event;
    ck_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING_FLAG));
    return event;
}

void world_write(cu_stream stream, cu_devptr at, size_t bytes)
{
    pleat_sim_access access = { .ptr = at, .bytes = bytes, .is_write = true };
    ck_ok(pleat_sim_work(stream, &access, 1));
}

void world_read(cu_stream stream, cu_devptr at, size_t bytes)
{
    pleat_sim_access access = { .ptr = at, .bytes = bytes, .is_write = false };
    ck_ok(pleat_sim_work(stream, &access, 1));
}

void world_order(cu_stream earlier, cu_stream later)
{
    cu_event event = world_event();
    ck_ok(cuEventRecord(event, earlier));
    ck_ok(cuStreamWaitEvent(later, event, 0));
    ck_ok(cuEventDestroy_v2(event));
}

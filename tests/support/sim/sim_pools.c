/* sim_pools.c - see sim_pools.h. */
#include "sim_pools.h"

cu_mempool pool;
cu_stream a;
cu_stream b;

cu_mempool_props pools_props(uint64_t max_bytes)
{
    return (cu_mempool_props){
        .type = CU_ALLOCATION_PINNED,
        .location = { .type = CU_LOCATION_DEVICE, .id = 0 },
        .max_bytes = max_bytes,
    };
}

cu_mempool pools_make(uint64_t max_bytes)
{
    cu_mempool made;
    cu_mempool_props props = pools_props(max_bytes);
    ck_ok(cuMemPoolCreate(&made, &props));
    return made;
}

void pools_set_bytes(int attribute, uint64_t value)
{
    ck_ok(cuMemPoolSetAttribute(pool, attribute, &value));
}

void pools_set_flag(int attribute, int value)
{
    ck_ok(cuMemPoolSetAttribute(pool, attribute, &value));
}

uint64_t pools_get_bytes(int attribute)
{
    uint64_t value = 0;
    ck_ok(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

uint64_t pools_reserved(void)
{
    return pools_get_bytes(CU_POOL_RESERVED_CURRENT);
}

void pools_begin(const char *conf)
{
    world_begin(conf);
    pool = pools_make(0);
    pools_set_bytes(CU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    a = world_stream();
    b = world_stream();
}

void pools_default(void)
{
    pools_begin("depth:1000000,capacity:1G");
}

void pools_small(void)
{
    pools_begin("depth:1000000,capacity:70M");
}

void pools_close(void)
{
    pleat_sim_fail_never();
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
    ck_ok(cuMemPoolDestroy(pool));
}

void pools_end(void)
{
    pools_close();
    world_end();
    ck_assert_uint_eq(world_counts().pools, 0);
    ck_assert_uint_eq(world_counts().pool_bytes, 0);
}

cu_devptr pools_get(uint64_t bytes, cu_stream stream)
{
    cu_devptr at = 0;
    ck_ok(cuMemAllocFromPoolAsync(&at, bytes, pool, stream));
    return at;
}

int pools_try_get(uint64_t bytes, cu_stream stream)
{
    cu_devptr at = 0;
    int result = cuMemAllocFromPoolAsync(&at, bytes, pool, stream);
    ck_assert(result != CU_SUCCESS || at != 0);
    return result;
}

void pools_put(cu_devptr at, cu_stream stream)
{
    ck_ok(cuMemFreeAsync(at, stream));
}

void pools_occupy(cu_stream stream)
{
    ck_ok(pleat_sim_work(stream, NULL, 0));
}

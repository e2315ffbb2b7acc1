/* segments_cache.c - see segments_cache.h. */
#include "tests/support/segments_cache.h"

#include <check.h>
#include <string.h>

cache_fixture cache;

void cache_open(const pl_allocator_ops *ops, const char *sim_conf,
                const pl_allocator_options *options)
{
    pl_allocator_options defaults;
    pl_allocator_options_init(&defaults);
    memset(&cache, 0, sizeof(cache));
    pl_host_fail_never();
    vmm_sim_open(&cache.sim, sim_conf);
    cache.dev = vmm_sim_device(&cache.sim, NULL);
    ck_assert_int_eq(pl_device_enter(cache.dev), PLEAT_OK);
    for (unsigned i = 0; i < CACHE_N_STREAMS; i++) {
        cu_stream handle = NULL;
        if (i > 0) {
            ck_assert_int_eq(
                pl_cu_stream_create(cache.sim.drv, &handle, CU_STREAM_NON_BLOCKING_FLAG),
                CU_SUCCESS);
        }
        cache.handles[i] = handle;
        ck_assert_int_eq(pl_stream_get(cache.dev, handle, &cache.streams[i]), PLEAT_OK);
    }
    options = options != NULL ? options : &defaults;
    ck_assert_int_eq(ops->create(cache.dev, options, &cache.a), PLEAT_OK);
}

void cache_close(void)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    cache.sim.fail_never();
    pl_host_fail_never();
    if (cache.a != NULL) {
        cache_assert_sound();
        ck_assert_int_eq(cache.a->ops->destroy(cache.a, true, &n_live, &n_leaked), PLEAT_OK);
        ck_assert_uint_eq(n_leaked, 0);
    }
    for (unsigned i = 1; i < CACHE_N_STREAMS; i++) {
        ck_assert_int_eq(pl_cu_stream_destroy(cache.sim.drv, cache.handles[i]), CU_SUCCESS);
    }
    pl_device_leave(cache.dev);
    vmm_sim_close_device(cache.dev);
    vmm_sim_close(&cache.sim);
}

void cache_refuses(const pl_allocator_ops *ops, const pl_allocator_options *options,
                   const char *option)
{
    pl_allocator *a = NULL;
    pl_driver_clear_error();
    ck_assert_int_eq(ops->create(cache.dev, options, &a), PLEAT_ECONF);
    ck_assert_ptr_null(a);
    const char *detail = pl_driver_last_error()->detail;
    ck_assert_msg(strstr(detail, option) != NULL, "'%s' does not name %s", detail, option);
}

void cache_assert_sound(void)
{
    ck_assert_int_eq(cache.a->ops->check(cache.a), 0);
    ck_assert_uint_eq(vmm_sim_counted(&cache.sim).hazards, 0);
}

pleat_status cache_try(size_t bytes, unsigned stream, pleat_devptr *out)
{
    return cache.a->ops->alloc(cache.a, bytes, cache.streams[stream], out);
}

pleat_devptr cache_get(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = cache_try(bytes, stream, &ptr);
    const pl_driver_error *error = pl_driver_last_error();
    ck_assert_msg(st == PLEAT_OK, "%zu bytes: status %d, last %s = %d, %s", bytes, (int)st,
                  pl_entry_symbol(error->entry), error->result, error->detail);
    ck_assert_uint_ne(ptr, 0);
    ck_assert_uint_eq(ptr % 256, 0);
    cache_assert_sound();
    return ptr;
}

void cache_put(pleat_devptr ptr)
{
    ck_assert_int_eq(cache.a->ops->free(cache.a, ptr, NULL), PLEAT_OK);
    cache_assert_sound();
}

void cache_put_on(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(cache.a->ops->free(cache.a, ptr, cache.streams[stream]), PLEAT_OK);
    cache_assert_sound();
}

void cache_record(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(cache.a->ops->record_stream(cache.a, ptr, cache.streams[stream]), PLEAT_OK);
}

uint64_t cache_trim(uint64_t keep_bytes, bool wait)
{
    uint64_t released = 0;
    ck_assert_int_eq(cache.a->ops->trim(cache.a, keep_bytes, wait, &released), PLEAT_OK);
    cache_assert_sound();
    return released;
}

pleat_block_info cache_info(pleat_devptr ptr)
{
    pleat_block_info info;
    ck_assert_int_eq(cache.a->ops->query(cache.a, ptr, &info), PLEAT_OK);
    return info;
}

typedef struct pieces {
    uint64_t live, pending, free, requested;
    pleat_devptr end;
} pieces;

static void count_piece(void *context, const pl_piece *piece)
{
    pieces *p = context;
    ck_assert(piece->is_first ? piece->base >= p->end : piece->base == p->end);
    p->end = piece->base + piece->bytes;
    p->live += piece->kind == PL_PIECE_LIVE ? piece->bytes : 0;
    p->pending += piece->kind == PL_PIECE_PENDING ? piece->bytes : 0;
    p->free += piece->kind == PL_PIECE_FREE ? piece->bytes : 0;
    p->requested += piece->requested_bytes;
}

pleat_stats cache_stats(void)
{
    pieces p = { 0 };
    pleat_stats s;
    cache.a->ops->stats(cache.a, &s);
    cache.a->ops->visit(cache.a, count_piece, &p);
    ck_assert_uint_eq(p.live, s.allocated_bytes[PLEAT_POOL_ALL].current);
    ck_assert_uint_eq(p.live, p.requested + s.rounding_bytes);
    ck_assert_uint_eq(p.pending, s.pending_bytes);
    ck_assert_uint_eq(p.free, s.free_bytes);
    ck_assert_uint_eq(p.live + p.pending + p.free, s.resident_bytes);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_POOL_ALL].current, s.resident_bytes);
    ck_assert_uint_eq(s.resident_bytes, vmm_sim_counted(&cache.sim).physical_bytes);
    return s;
}

void cache_assert_same(const pleat_stats *before)
{
    pleat_stats after = cache_stats();
    for (unsigned i = 0; i < PLEAT_N_POOLS; i++) {
        ck_assert_mem_eq(&before->allocation[i], &after.allocation[i], sizeof(pleat_stat));
        ck_assert_mem_eq(&before->allocated_bytes[i], &after.allocated_bytes[i],
                         sizeof(pleat_stat));
        ck_assert_mem_eq(&before->active_bytes[i], &after.active_bytes[i], sizeof(pleat_stat));
        ck_assert_mem_eq(&before->requested_bytes[i], &after.requested_bytes[i],
                         sizeof(pleat_stat));
    }
    ck_assert_uint_eq(before->rounding_bytes, after.rounding_bytes);
    cache_assert_sound();
}

pleat_status cache_refused(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 4711;
    pleat_stats before = cache_stats();
    pleat_status st = cache_try(bytes, stream, &ptr);
    ck_assert_int_ne(st, PLEAT_OK);
    ck_assert_uint_eq(ptr, 4711);
    cache_assert_same(&before);
    return st;
}

void cache_work(unsigned stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(cache.sim.work(cache.handles[stream], &access, 1), CU_SUCCESS);
}

void cache_begin_capture(unsigned stream)
{
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(cache.sim.drv, cache.handles[stream], CU_CAPTURE_MODE_GLOBAL),
        CU_SUCCESS);
}

void cache_end_capture(unsigned stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(cache.sim.drv, cache.handles[stream], &graph),
                     CU_SUCCESS);
    ck_assert_ptr_nonnull(graph);
    ck_assert_int_eq(pl_cu_graph_destroy(cache.sim.drv, graph), CU_SUCCESS);
}

uint64_t cache_n_calls(void)
{
    return vmm_sim_counted(&cache.sim).calls;
}

/* segments_cache.c - see segments_cache.h. */
#include "tests/support/segments/segments_cache.h"
#include "tests/support/release.h"

#include <check.h>
#include <string.h>

cache_fixture cache;

pl_allocator_options cache_defaults(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    return options;
}

void cache_create_stream(unsigned i)
{
    ck_assert_int_eq(
        pl_cu_stream_create(cache.sim.drv, &cache.handles[i], CU_STREAM_NON_BLOCKING_FLAG),
        CU_SUCCESS);
    ck_assert_int_eq(pl_stream_get(cache.dev, cache.handles[i], &cache.streams[i]), PLEAT_OK);
}

void cache_destroy_stream(unsigned i)
{
    ck_assert_int_eq(pl_cu_stream_destroy(cache.sim.drv, cache.handles[i]), CU_SUCCESS);
    cache.handles[i] = NULL;
}

void cache_open(const pl_allocator_ops *ops, const char *sim_conf,
                const pl_allocator_options *options)
{
    pl_allocator_options defaults = cache_defaults();
    memset(&cache, 0, sizeof(cache));
    pl_meta_fail_never();
    vmm_sim_open(&cache.sim, sim_conf);
    cache.dev = vmm_sim_device(&cache.sim, NULL);
    ck_assert_int_eq(pl_device_enter(cache.dev), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(cache.dev, NULL, &cache.streams[0]), PLEAT_OK);
    for (unsigned i = 1; i < CACHE_N_STREAMS; i++) {
        cache_create_stream(i);
    }
    options = options != NULL ? options : &defaults;
    ck_assert_int_eq(ops->create(cache.dev, options, &cache.a), PLEAT_OK);
}

static void close_allocator(void)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    cache.sim.fail_never();
    pl_meta_fail_never();
    if (cache.a != NULL) {
        cache_assert_sound();
        ck_assert_int_eq(cache.a->ops->destroy(cache.a, true, &n_live, &n_leaked), PLEAT_OK);
        ck_assert_uint_eq(n_leaked, 0);
    }
    for (unsigned i = 1; i < CACHE_N_STREAMS; i++) {
        if (cache.handles[i] != NULL) {
            cache_destroy_stream(i);
        }
    }
    pl_device_leave(cache.dev);
}

void cache_close(void)
{
    close_allocator();
    vmm_sim_close_device(cache.dev);
    vmm_sim_close(&cache.sim);
}

void cache_close_after_failed_undo(void)
{
    close_allocator();
    size_t n_lost = pl_device_close(cache.dev);
    pleat_sim_counts counts = vmm_sim_counted(&cache.sim);
    ck_assert_uint_le(counts.events, n_lost);
    ck_assert_uint_eq(counts.physical_bytes, 0);
    ck_assert_uint_eq(counts.allocations, 0);
    ck_assert_uint_eq(counts.reservations, 0);
    ck_assert_uint_eq(counts.handles, 0);
    ck_assert_uint_eq(counts.mappings, 0);
    ck_assert_uint_eq(counts.pools, 0);
    ck_assert_uint_eq(counts.streams, 0);
    ck_assert_uint_eq(counts.contexts, 0);
    ck_assert_uint_eq(counts.hazards, 0);
    pl_driver_close(cache.sim.drv);
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
    pleat_sim_hazard hazard;
    ck_assert_int_eq(cache.a->ops->check(cache.a), 0);
    ck_assert_msg(cache.sim.hazards(&hazard, 1) == 0, "%s", hazard.text);
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
    ck_assert_uint_eq(ptr % (cache.a->ops == &pl_tf_bfc_ops ? 256 : 512), 0);
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

static void see(void *context, const pl_piece *piece)
{
    cache_sight *s = context;
    ck_assert_uint_lt(s->n, CACHE_MOST_PIECES);
    s->pieces[s->n++] = *piece;
}

cache_sight cache_seen(void)
{
    cache_sight s = { .n = 0 };
    cache.a->ops->visit(cache.a, see, &s);
    return s;
}

typedef struct totals {
    uint64_t bytes[PL_PIECE_HOLE + 1]; /* by kind */
    uint64_t requested;
    pleat_devptr end;
} totals;

static void add_piece(void *context, const pl_piece *piece)
{
    totals *t = context;
    ck_assert(piece->is_first ? piece->base >= t->end : piece->base == t->end);
    t->end = piece->base + piece->bytes;
    t->bytes[piece->kind] += piece->bytes;
    t->requested += piece->requested_bytes;
}

pleat_stats cache_stats(void)
{
    totals t = { .end = 0 };
    pleat_stats s;
    cache.a->ops->stats(cache.a, &s);
    cache.a->ops->visit(cache.a, add_piece, &t);
    ck_assert_uint_eq(t.bytes[PL_PIECE_LIVE], s.allocated_bytes[PLEAT_SIZES_ALL].current);
    ck_assert_uint_eq(t.bytes[PL_PIECE_LIVE], t.requested + s.rounding_bytes);
    ck_assert_uint_eq(t.bytes[PL_PIECE_PENDING], s.pending_bytes);
    if (cache.a->ops != &pl_cuda_async_ops) { /* cuda-async cannot see into the driver's pool */
        ck_assert_uint_eq(t.bytes[PL_PIECE_FREE], s.free_bytes);
    }
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].current + s.pending_bytes + s.free_bytes +
                          s.idle_bytes + s.pinned_granules * s.granule_bytes,
                      s.resident_bytes);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].current, s.resident_bytes);
    ck_assert_uint_eq(s.resident_bytes, vmm_sim_counted(&cache.sim).physical_bytes);
    return s;
}

uint64_t cache_resident(void)
{
    return cache_stats().resident_bytes;
}

/* A failed call of PyTorch's caches may find uses over. Then fewer blocks are pending. */
static void assert_same_or_over(const pleat_stat *before, const pleat_stat *after)
{
    const pl_allocator_ops *ops = cache.a->ops;
    if (ops == &pl_torch_native_ops || ops == &pl_torch_expandable_ops) {
        ck_assert_uint_le(after->current, before->current);
        ck_assert_uint_eq(after->peak, before->peak);
    } else {
        ck_assert_mem_eq(before, after, sizeof *before);
    }
}

void cache_assert_same(const pleat_stats *before)
{
    pleat_stats after = cache_stats();
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        ck_assert_mem_eq(&before->allocation[i], &after.allocation[i], sizeof(pleat_stat));
        ck_assert_mem_eq(&before->allocated_bytes[i], &after.allocated_bytes[i],
                         sizeof(pleat_stat));
        assert_same_or_over(&before->active_bytes[i], &after.active_bytes[i]);
        assert_same_or_over(&before->requested_bytes[i], &after.requested_bytes[i]);
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

bool cache_follow(unsigned later, unsigned earlier)
{
    cu_event event = NULL;
    pl_driver *drv = cache.sim.drv;
    return pl_cu_event_create(drv, &event, CU_EVENT_DISABLE_TIMING_FLAG) == CU_SUCCESS &&
           pl_cu_event_record(drv, event, cache.handles[earlier]) == CU_SUCCESS &&
           pl_cu_stream_wait_event(drv, cache.handles[later], event, 0) == CU_SUCCESS &&
           pl_cu_event_destroy(drv, event) == CU_SUCCESS;
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

void cache_release_capture(unsigned stream)
{
    ck_assert_int_eq(release_capture(cache.a, cache.streams[stream]), PLEAT_OK);
    cache_assert_sound();
}

uint64_t cache_n_calls(void)
{
    return vmm_sim_counted(&cache.sim).calls;
}

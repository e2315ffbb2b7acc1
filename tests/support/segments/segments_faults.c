/* segments_faults.c - see segments_faults.h. */
#include "tests/support/segments/segments_faults.h"

#include <check.h>

#define CAPACITY (96 * MIB)

/* Uses of a block on three streams, a free on a fourth, retries on a full device. */
/* clang-format off */
static const fault_step usual_steps[] = {
    { FAULT_GET, 0, 0, 1000 },
    { FAULT_GET, 1, 0, 4 * MIB },
    { FAULT_GET, 2, 0, 4 * MIB },
    { FAULT_RECORD, 1, 1, 0 },
    { FAULT_RECORD, 1, 2, 0 },
    { FAULT_PUT, 1, 0, 0 },
    { FAULT_GET, 1, 3, 4 * MIB },
    { FAULT_GET, 3, 1, 30 * MIB },
    { FAULT_PUT, 3, 2, 0 },
    { FAULT_GET, 4, 2, 48 * MIB },
    { FAULT_PUT, 2, 0, 0 },
    { FAULT_GET, 5, 0, 24 * MIB },
    { FAULT_PUT, 4, 2, 0 },
    { FAULT_TRIM, 0, 0, 0 },
};
/* clang-format on */

typedef struct run {
    pleat_devptr p[FAULT_N_SLOTS]; /* 0 = empty */
    unsigned n_failures;
} run;

static pleat_status take_step(run *r, const fault_step *step)
{
    const pl_allocator_ops *ops = cache.a->ops;
    pl_stream *stream = cache.streams[step->stream];
    pleat_devptr *p = &r->p[step->slot];
    uint64_t released = 0;
    if (step->act == FAULT_TRIM) {
        return ops->trim(cache.a, 0, true, &released);
    }
    if ((*p == 0) != (step->act == FAULT_GET)) {
        return PLEAT_OK;
    }
    if (step->act == FAULT_GET) {
        return ops->alloc(cache.a, step->bytes, stream, p);
    }
    if (step->act == FAULT_RECORD) {
        return ops->record_stream(cache.a, *p, stream);
    }
    pleat_status st = ops->free(cache.a, *p, stream);
    *p = st == PLEAT_OK ? 0 : *p;
    return st;
}

static void check_step(run *r, const fault_step *step)
{
    pleat_stats before = cache_stats();
    if (take_step(r, step) != PLEAT_OK) {
        r->n_failures++;
        cache_assert_same(&before);
    }
    cache_assert_sound();
}

static void play(const fault_scenario *scenario, run *r)
{
    bool is_usual = scenario->steps == NULL;
    const fault_step *steps = is_usual ? usual_steps : scenario->steps;
    size_t n = is_usual ? sizeof usual_steps / sizeof usual_steps[0] : scenario->n_steps;
    *r = (run){ .n_failures = 0 };
    for (size_t i = 0; i < n; i++) {
        check_step(r, &steps[i]);
    }
    for (unsigned slot = 0; slot < FAULT_N_SLOTS; slot++) {
        check_step(r, &(fault_step){ FAULT_PUT, slot, 0, 0 });
    }
}

/* After a fault the same steps work, and the rest is freed. */
static void recover(run *r)
{
    if (cache_stats().pinned_granules == 0) {
        cache_put(cache_get(512, 0));
    }
    for (unsigned slot = 0; slot < FAULT_N_SLOTS; slot++) {
        if (r->p[slot] != 0) {
            cache_put(r->p[slot]);
        }
    }
    cache_trim(0, true);
    pleat_stats s = cache_stats();
    uint64_t lost = s.pinned_granules * s.granule_bytes;
    ck_assert_uint_eq(s.resident_bytes, lost);
    ck_assert_uint_eq(s.free_bytes + s.idle_bytes + s.pending_bytes, 0);
    cache_put(cache_get(CAPACITY - lost, 0));
    cache_get(512, 0);
}

static void open_full(const fault_scenario *scenario)
{
    cache_open(scenario->ops, "capacity:96M", scenario->options);
}

uint64_t fault_driver(const fault_scenario *scenario, const char *call, bool ever_after, int code)
{
    for (uint64_t k = 0;; k++) {
        run r;
        open_full(scenario);
        (ever_after ? cache.sim.fail_from : cache.sim.fail_at)(call, k, code);
        play(scenario, &r);
        bool is_over = cache.sim.n_faults() == 0;
        ck_assert(!is_over || r.n_failures == 0);
        cache.sim.fail_never();
        recover(&r);
        (ever_after ? cache_close_after_failed_undo : cache_close)();
        if (is_over) {
            return k;
        }
    }
}

uint64_t fault_host(const fault_scenario *scenario, bool ever_after)
{
    for (uint64_t k = 0;; k++) {
        run r;
        open_full(scenario);
        uint64_t n_before = pl_meta_n_allocs();
        (ever_after ? pl_meta_fail_from : pl_meta_fail_at)(k);
        play(scenario, &r);
        bool is_over = pl_meta_n_allocs() - n_before <= k;
        ck_assert(!is_over || r.n_failures == 0);
        pl_meta_fail_never();
        recover(&r);
        cache_close();
        if (is_over) {
            return k;
        }
    }
}

static pleat_status create_another(const pl_allocator_ops *ops)
{
    pl_allocator *a = NULL;
    size_t n_live = 0;
    size_t n_leaked = 0;
    pl_allocator_options options = cache_defaults();
    pleat_status st = ops->create(cache.dev, &options, &a);
    pl_meta_fail_never();
    cache.sim.fail_never();
    if (st == PLEAT_OK) {
        ck_assert_int_eq(a->ops->destroy(a, false, &n_live, &n_leaked), PLEAT_OK);
        ck_assert_uint_eq(n_leaked, 0);
    } else {
        ck_assert_ptr_null(a);
    }
    return st;
}

void fault_creation(const pl_allocator_ops *ops)
{
    cache_open(ops, "capacity:96M", NULL);
    pleat_status st = PLEAT_ENOMEM_HOST;
    for (uint64_t k = 0; st == PLEAT_ENOMEM_HOST; k++) {
        pl_meta_fail_at(k);
        st = create_another(ops);
        ck_assert(k > 0 || st == PLEAT_ENOMEM_HOST);
    }
    ck_assert_int_eq(st, PLEAT_OK);
    pleat_sim_counts before = vmm_sim_counted(&cache.sim);
    for (uint64_t k = 0, n_faults = UINT64_MAX; cache.sim.n_faults() != n_faults; k++) {
        n_faults = cache.sim.n_faults();
        cache.sim.fail_at(NULL, k, CACHE_UNKNOWN);
        (void)create_another(ops);
        pleat_sim_counts after = vmm_sim_counted(&cache.sim);
        ck_assert_uint_eq(after.pools, before.pools);
        ck_assert_uint_eq(after.allocations, before.allocations);
        ck_assert_uint_eq(after.reservations, before.reservations);
        ck_assert_uint_eq(after.events, before.events);
    }
    cache_close();
}

/* fault_test.c - the k-th driver call or host allocation fails, or all from the k-th on.
 *
 * A fixed scenario grows, takes across streams, trims and destroys. It is run with the fault at k =
 * 0, 1, ... until a run makes no k-th call. After every failing step live blocks and statistics are
 * as before, and the walkers pass. After a single fault a smaller request works too, the step
 * itself works, and in the end the simulator is empty. If all calls from the k-th on fail, undoing
 * fails, too. Still nothing crashes, and destroy reports the objects that are left. */
/* labels: unit fault */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/meta.h"
#include "vmm/device.h"
#include "vmm/driver.h"

enum { MIB = 1 << 20, KIB = 1 << 10, N_NAMES = 8, N_STREAMS = 3, MOST_K = 5000, NEVER = 1 << 30 };
enum { DRIVER_CODE = 999 };

typedef enum step_kind {
    ALLOC,   /* name, stream, bytes; then work on the block */
    FREE,    /* name, stream; work on the block comes first */
    RECORD,  /* name, stream */
    TRIM,    /* bytes to keep */
    LIMIT,   /* bytes */
    COMPACT, /* FINISH follows: if waiting fails, too, copies may still run */
    FINISH,  /* all work submitted so far ends */
} step_kind;

typedef struct step {
    step_kind kind;
    int name;
    int stream;
    size_t bytes;
} step;

/* pleat gets by with 32 MiB only by taking memory from the free blocks of other streams. */
static const step scenario[] = {
    { ALLOC, 0, 0, 6 * MIB },  { ALLOC, 1, 0, 3 * KIB },  { ALLOC, 2, 0, 8 * MIB },
    { FREE, 0, 0, 0 },         { ALLOC, 3, 1, 10 * MIB }, { FREE, 2, 0, 0 },
    { ALLOC, 4, 1, 16 * MIB }, { RECORD, 3, 2, 0 },       { FREE, 3, 1, 0 },
    { ALLOC, 5, 2, 7 * MIB },  { FINISH, 0, 0, 0 },       { TRIM, 0, 0, 0 },
    { ALLOC, 6, 0, 5 * MIB },  { FREE, 4, 1, 0 },         { FREE, 5, 1, 0 },
    { LIMIT, 0, 0, 24 * MIB }, { ALLOC, 3, 2, 14 * MIB }, { FREE, 6, 0, 0 },
    { LIMIT, 0, 0, 0 },        { FINISH, 0, 0, 0 },       { ALLOC, 0, 1, 15 * MIB },
    { FREE, 0, 1, 0 },         { FREE, 3, 2, 0 },         { FREE, 1, 0, 0 },
    { TRIM, 0, 0, 4 * MIB },   { ALLOC, 0, 1, 20 * MIB }, { FREE, 0, 1, 0 },
    { ALLOC, 1, 1, 2 * MIB },  { ALLOC, 2, 1, 3 * MIB },  { ALLOC, 3, 1, 6 * MIB },
    { ALLOC, 4, 1, 2 * MIB },  { FREE, 2, 1, 0 },         { FINISH, 0, 0, 0 },
    { COMPACT, 0, 0, 0 },      { FINISH, 0, 0, 0 },       { ALLOC, 0, 2, 4 * MIB },
    { FREE, 3, 1, 0 },         { COMPACT, 0, 0, 0 },      { FINISH, 0, 0, 0 },
    { FREE, 1, 1, 0 },         { FREE, 4, 1, 0 },         { FREE, 0, 2, 0 },
    { TRIM, 0, 0, 4 * MIB },
};

enum { N_STEPS = sizeof scenario / sizeof scenario[0] };

/* How faults are injected. */
typedef struct fault_plan {
    const char *name;
    void (*arm)(uint64_t k);
    void (*disarm)(void);
    bool (*has_hit)(uint64_t k);
    bool is_lasting; /* all from the k-th on */
    bool is_driver;
} fault_plan;

typedef struct live_block {
    pleat_devptr ptr; /* 0 = none */
    size_t bytes;
    int stream;
} live_block;

/* A tested allocator with its options and device. */
typedef struct fault_subject {
    int allocator;
    const char *more; /* options */
    const char *sim_conf;
    size_t more_bytes; /* added to its limit for rounded segments or large chunks */
    bool has_large;    /* some of its chunks have several granules */
} fault_subject;

static const fault_subject subjects[] = {
    { API_TORCH, "", "capacity:96M,depth:4", 48 * MIB, false },
    { API_PLEAT, "", "capacity:32M,depth:4", 0, false },
    { API_TORCH_EXPANDABLE, ",expandable_large_page_mb:2", "capacity:48M,depth:4", 48 * MIB,
      false },
    { API_PLEAT, ",chunks:mixed,chunk_share:1", "capacity:40M,depth:4", 8 * MIB, true },
};

enum { N_SUBJECTS = sizeof subjects / sizeof subjects[0] };

/* One run of the scenario. */
typedef struct run {
    const fault_plan *plan;
    uint64_t k;
    const fault_subject *subject;
    pleat instance;
    void *streams[N_STREAMS];
    live_block live[N_NAMES];
    uint64_t n_taken;
    uint64_t n_split;
    bool is_torn;   /* a compaction could not undo: live memory may be without a mapping */
    bool has_large; /* fewer chunks than granules were created */
} run;

/* ---- plans ---- */

static uint64_t host_before;

static void arm_driver_at(uint64_t k)
{
    sim.fail_at(NULL, k, DRIVER_CODE);
}

static void arm_driver_from(uint64_t k)
{
    sim.fail_from(NULL, k, DRIVER_CODE);
}

static void disarm_driver(void)
{
    sim.fail_never();
}

static bool has_hit_driver(uint64_t k)
{
    (void)k;
    return sim.n_faults() > 0;
}

static void arm_host_at(uint64_t k)
{
    host_before = pl_meta_n_allocs();
    pl_meta_fail_at(k);
}

static void arm_host_from(uint64_t k)
{
    host_before = pl_meta_n_allocs();
    pl_meta_fail_from(k);
}

static void disarm_host(void)
{
    pl_meta_fail_never();
}

static bool has_hit_host(uint64_t k)
{
    return pl_meta_n_allocs() - host_before > k;
}

static const fault_plan plans[] = {
    { "driver call", arm_driver_at, disarm_driver, has_hit_driver, false, true },
    { "every driver call from", arm_driver_from, disarm_driver, has_hit_driver, true, true },
    { "host allocation", arm_host_at, disarm_host, has_hit_host, false, false },
    { "every host allocation from", arm_host_from, disarm_host, has_hit_host, true, false },
};

enum { N_PLANS = sizeof plans / sizeof plans[0] };

/* ---- steps ---- */

static void submit(const run *r, const live_block *block, int stream)
{
    const pleat_sim_access ends[] = {
        { .ptr = block->ptr, .bytes = 512, .is_write = true },
        { .ptr = block->ptr + block->bytes - 512, .bytes = 512, .is_write = true },
    };
    ck_assert(r->is_torn || sim.work(r->streams[stream], ends, 2) == 0);
}

static pleat_status step_alloc(run *r, const step *s)
{
    live_block block = { .bytes = s->bytes, .stream = s->stream };
    pleat_status st = pleat_block_alloc(r->instance, 0, s->bytes, r->streams[s->stream],
                                        &block.ptr);
    if (st == PLEAT_OK) {
        r->live[s->name] = block;
        submit(r, &block, s->stream);
    } else {
        ck_assert_uint_eq(block.ptr, 0);
    }
    return st;
}

static pleat_status step_free(run *r, const step *s)
{
    live_block *block = &r->live[s->name];
    if (block->ptr == 0) {
        return PLEAT_OK; /* its allocation failed even when repeated */
    }
    pleat_status st = pleat_block_free(r->instance, 0, block->ptr, r->streams[s->stream]);
    if (st == PLEAT_OK) {
        block->ptr = 0;
    }
    return st;
}

/* The classic caches have nothing to move. */
static pleat_status step_compact(run *r)
{
    pleat_compaction done = { 0 };
    pleat_status st = pleat_device_compact(r->instance, 0, &done);
    r->n_split += done.n_split;
    r->is_torn = r->is_torn || st == PLEAT_EPOISONED;
    return st == PLEAT_ENOTSUP && r->subject->allocator != API_PLEAT ? PLEAT_OK : st;
}

static pleat_status do_step(run *r, const step *s)
{
    switch (s->kind) {
    case ALLOC:
        return step_alloc(r, s);
    case FREE:
        return step_free(r, s);
    case RECORD:
        return r->live[s->name].ptr == 0
                   ? PLEAT_OK
                   : pleat_block_record_stream(r->instance, 0, r->live[s->name].ptr,
                                               r->streams[s->stream]);
    case TRIM:
        return pleat_device_trim(r->instance, 0, s->bytes, true, NULL);
    case LIMIT: /* 0 = none */
        return pleat_device_set_limit(r->instance, 0,
                                      s->bytes > 0 ? s->bytes + r->subject->more_bytes : 0);
    case COMPACT:
        return step_compact(r);
    case FINISH:
        sim.finish();
        return PLEAT_OK;
    }
    return PLEAT_EINVAL;
}

/* ---- what must hold ---- */

static void fail_run(const run *r, int at, const char *what)
{
    ck_abort_msg("%s %llu, step %d: %s; last error: %s", r->plan->name, (unsigned long long)r->k,
                 at, what, pleat_last_error()->text);
}

static void check_blocks(const run *r, int at)
{
    for (int i = 0; i < N_NAMES; i++) {
        const live_block *block = &r->live[i];
        pleat_block_info info;
        if (block->ptr == 0) {
            continue;
        }
        if (pleat_block_query(r->instance, 0, block->ptr + block->bytes - 1, &info) != PLEAT_OK ||
            info.base != block->ptr || info.requested_bytes != block->bytes ||
            (r->streams[block->stream] && info.stream != r->streams[block->stream])) {
            fail_run(r, at, "a live block is not what it was");
        }
    }
}

/* The `current` figures of a group, for each pool. */
static void check_group(const run *r, int at, const char *name, const pleat_stat *now,
                        const pleat_stat *before)
{
    for (int pool = 0; pool < PLEAT_N_SIZES; pool++) {
        if (now[pool].current != before[pool].current) {
            char what[96];
            snprintf(what, sizeof what, "%s of pool %d went from %llu to %llu", name, pool,
                     (unsigned long long)before[pool].current,
                     (unsigned long long)now[pool].current);
            fail_run(r, at, what);
        }
    }
}

static void check_unchanged(const run *r, int at, const pleat_stats *before)
{
    pleat_stats now = api_stats(r->instance, 0);
    int broken = 0;
    check_group(r, at, "allocation", now.allocation, before->allocation);
    check_group(r, at, "allocated_bytes", now.allocated_bytes, before->allocated_bytes);
    if (now.active_bytes[0].current > before->active_bytes[0].current) {
        fail_run(r, at, "more bytes are active"); /* fewer is right: pending blocks may settle */
    }
    if (pleat_check(r->instance, &broken) != PLEAT_OK || broken != 0) {
        char what[64];
        snprintf(what, sizeof what, "invariant %d is broken", broken);
        fail_run(r, at, what);
    }
    check_blocks(r, at);
}

/* After a single fault everything works again: a smaller request, then the step itself. */
static void check_recovered(run *r, int at)
{
    const step *s = &scenario[at];
    if (s->kind == ALLOC) {
        pleat_devptr ptr;
        if (pleat_block_alloc(r->instance, 0, s->bytes / 2, r->streams[s->stream], &ptr) !=
                PLEAT_OK ||
            pleat_block_free(r->instance, 0, ptr, r->streams[s->stream]) != PLEAT_OK) {
            fail_run(r, at, "a smaller request does not work after the fault");
        }
    }
    if (do_step(r, s) != PLEAT_OK) {
        fail_run(r, at, "the step does not work after the fault");
    }
}

static void run_steps(run *r)
{
    for (int at = 0; at < N_STEPS; at++) {
        pleat_stats before = api_stats(r->instance, 0);
        const step *s = &scenario[at];
        if (s->kind == FREE && r->live[s->name].ptr != 0) {
            submit(r, &r->live[s->name], s->stream);
        }
        pleat_status st = do_step(r, s);
        if (st == PLEAT_OK) {
            check_blocks(r, at);
            continue;
        }
        if (!r->plan->has_hit(r->k)) {
            fail_run(r, at, "the step fails without a fault");
        }
        check_unchanged(r, at, &before);
        if (!r->plan->is_lasting) {
            check_recovered(r, at);
        }
    }
    pleat_stats end = api_stats(r->instance, 0);
    r->n_taken = end.n_taken_granules;
    r->has_large = sim.n_calls("cuMemCreate") * end.granule_bytes < end.bytes_created;
}

/* ---- runs ---- */

/* The test's own objects on the device: a context with the streams. */
typedef struct stage {
    pl_driver *drv;
    pl_device *dev;
} stage;

static void set_stage(stage *out, const char *sim_conf, run *r)
{
    ck_assert_int_eq(sim.reset(sim_conf), 0); /* an earlier run may have left something */
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, NULL, &out->drv), PLEAT_OK);
    ck_assert_int_eq(pl_device_open(out->drv, 0, NULL, &out->dev), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(out->dev), PLEAT_OK);
    for (int i = 1; i < N_STREAMS; i++) {
        ck_assert_int_eq(pl_cu_stream_create(out->drv, (void *)&r->streams[i], 1), 0);
    }
}

static void clear_stage(stage *s, run *r)
{
    for (int i = 1; i < N_STREAMS; i++) {
        ck_assert_int_eq(pl_cu_stream_destroy(s->drv, r->streams[i]), 0);
    }
    pl_device_leave(s->dev);
    ck_assert_uint_eq(pl_device_close(s->dev), 0);
    pl_driver_close(s->drv);
}

static bool is_sim_empty(void)
{
    pleat_sim_counts n = api_sim_counts();
    return n.reservations + n.handles + n.mappings + n.allocations + n.events + n.contexts == 0;
}

static void check_no_hazard(const run *r)
{
    pleat_sim_hazard hazard;
    if (sim.hazards(&hazard, 1) != 0) {
        fail_run(r, N_STEPS, hazard.text);
    }
}

/* After the run and the end of the test's own context, nothing is left, or destroy reported it. */
static void check_end(const run *r, pleat_status st)
{
    bool may_leak = r->plan->is_lasting && r->plan->is_driver;
    bool is_empty = is_sim_empty();
    if (st != PLEAT_OK && !(may_leak && st == PLEAT_EPOISONED)) {
        fail_run(r, N_STEPS, "destroy fails");
    }
    if (st == PLEAT_OK && !is_empty) {
        char what[192];
        pleat_sim_counts n = api_sim_counts();
        snprintf(what, sizeof what,
                 "destroy does not say that it leaves %d reservations, %d handles, %d mappings, "
                 "%d allocations, %d events, %d contexts",
                 (int)n.reservations, (int)n.handles, (int)n.mappings, (int)n.allocations,
                 (int)n.events, (int)n.contexts);
        fail_run(r, N_STEPS, what);
    }
    if (st != PLEAT_OK && is_empty) {
        fail_run(r, N_STEPS, "destroy claims a leak that is none");
    }
    check_no_hazard(r);
}

/* After a run without faults: the scenario has tested takes, and large chunks if there are any. */
static void check_scenario(const run *r)
{
    if (r->subject->allocator == API_PLEAT) {
        ck_assert_uint_gt(r->n_taken, 0);
        ck_assert_int_eq(r->has_large, r->subject->has_large);
        ck_assert_int_eq(r->n_split > 0, r->subject->has_large);
    }
}

/* Runs the scenario with the fault at k. Returns whether the fault was reached. */
static bool run_with_fault(const fault_plan *plan, uint64_t k, const fault_subject *subject)
{
    char conf[128];
    run r = { .plan = plan, .k = k, .subject = subject };
    stage own;
    set_stage(&own, subject->sim_conf, &r);
    snprintf(conf, sizeof conf, "driver:sim,allocator:%s%s", api_allocators[subject->allocator],
             subject->more);
    plan->arm(k);
    pleat_status st = pleat_create(conf, &r.instance);
    bool is_made = st == PLEAT_OK;
    if (is_made) {
        run_steps(&r);
        st = pleat_destroy(r.instance, PLEAT_DESTROY_FORCE);
    } else if (!plan->has_hit(k)) {
        fail_run(&r, -1, "create fails without a fault");
    }
    bool has_hit = plan->has_hit(k);
    plan->disarm();
    clear_stage(&own, &r);
    check_end(&r, is_made ? st : PLEAT_OK);
    if (!has_hit) {
        check_scenario(&r);
    }
    return has_hit;
}

START_TEST(a_fault_leaves_everything_as_it_was)
{
    const fault_plan *plan = &plans[_i % N_PLANS];
    const fault_subject *subject = &subjects[_i / N_PLANS];
    uint64_t k = 0;
    ck_assert(!run_with_fault(plan, NEVER, subject));
    while (run_with_fault(plan, k, subject)) {
        k++;
        ck_assert_uint_lt(k, MOST_K);
    }
    ck_assert_uint_gt(k, plan->is_driver ? 50 : 10); /* else the scenario does too little */
}
END_TEST

SUITE(api_fault)
{
    TCase *each = tcase_create("each plan and allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, a_fault_leaves_everything_as_it_was, 0, N_PLANS * N_SUBJECTS);
    suite_add_tcase(suite, each);
}

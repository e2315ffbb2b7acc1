/* api_compliance.c - the rig of the compliance suites, and the policies of each allocator. */
#include "tests/support/api/api_compliance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segments/base/allocator.h"
#include "tests/support/suite.h"

enum {
    CACHES = COMPLIANCE_CACHES,
    SPLITS = COMPLIANCE_SPLITS,
    GATHERS = COMPLIANCE_GATHERS,
    RETRIES = COMPLIANCE_COUNTS_RETRIES,
    WAITS = COMPLIANCE_WAITS_ON_REUSE,
    SHARES = COMPLIANCE_SHARES_STREAMS,
    DOUBLES = COMPLIANCE_DOUBLES,
    OPAQUE = COMPLIANCE_OPAQUE,
    WITHHOLDS = COMPLIANCE_WITHHOLDS,
    ORDERS = COMPLIANCE_ORDERS_ON_REUSE,
};

/* The reasons. Memory of free blocks is remapped by pleat; their streams do not matter once their
 * work is done. Memory that a graph may use is withheld. PyTorch's caches split segments and keep
 * them by stream. MXNet's pools keep whole driver allocations by size, for all streams, and return
 * all of them at once. So the driver gathers. TensorFlow's pool splits regions, for all streams.
 * The driver's own pool follows its documentation, and its free memory is invisible. */
static const compliance_policy policies[] = {
    { "pleat", CACHES | SPLITS | GATHERS | SHARES | WITHHOLDS, 1024, 512 },
    { "torch-native", CACHES | SPLITS | RETRIES, 1024, 512 },
    { "torch-expandable", CACHES | SPLITS, 1024, 512 },
    { "mxnet-naive", CACHES | GATHERS | WAITS | SHARES, 4096, 512 },
    { "mxnet-round", CACHES | GATHERS | WAITS | SHARES, 4096, 512 },
    { "mxnet19-naive", CACHES | GATHERS | WAITS | SHARES, 4096, 512 },
    { "mxnet19-round", CACHES | GATHERS | WAITS | SHARES, 4096, 512 },
    { "unpooled", GATHERS | WITHHOLDS, 1024, 512 },
    { "tf-bfc", CACHES | SPLITS | RETRIES | SHARES | DOUBLES | ORDERS, 1024, 256 },
    { "cuda-async", CACHES | SPLITS | RETRIES | SHARES | ORDERS | WITHHOLDS | OPAQUE, 1024, 512 },
};

static const compliance_policy *find_policy(const char *allocator)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        if (strcmp(policies[i].allocator, allocator) == 0) {
            return &policies[i];
        }
    }
    ck_abort_msg("%s: say what its policy is in tests/support/api/api_compliance.c", allocator);
    return NULL;
}

bool compliance_has(const compliance *c, compliance_trait trait)
{
    return (c->policy->traits & trait) != 0;
}

static void load(pl_driver *drv, const char *name, void *field)
{
    void *address = pl_driver_symbol(drv, name);
    ck_assert_msg(address != NULL, "the simulator has no %s", name);
    memcpy(field, &address, sizeof address);
}

compliance compliance_open(int allocator, const char *sim_conf, const char *more)
{
    char conf[512];
    compliance c = { .policy = find_policy(pl_allocator_name((unsigned)allocator)) };
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    int n = snprintf(conf, sizeof conf, "driver:sim,sim:[%s],allocator:%s%s%s",
                     strcmp(c.policy->allocator, "pleat") == 0 ? suite_sim_conf(sim_conf)
                                                               : sim_conf,
                     c.policy->allocator, more[0] != '\0' ? "," : "", more);
    ck_assert_int_lt(n, (int)sizeof conf);
    pleat_status st = pleat_create(conf, &c.instance);
    ck_assert_msg(st == PLEAT_OK, "%s: %s", conf, pleat_last_error()->text);
    ck_assert_int_eq(pl_work_open(&c.work, PL_DRIVER_SIM, 0), PLEAT_OK);
    for (int i = 0; i < COMPLIANCE_STREAMS; i++) {
        ck_assert_int_eq(pl_work_stream_create(&c.work, &c.streams[i]), PLEAT_OK);
    }
    load(c.work.drv, "pleat_sim_work", &c.sim_work);
    load(c.work.drv, "pleat_sim_fill", &c.sim_fill);
    load(c.work.drv, "pleat_sim_verify", &c.sim_verify);
    load(c.work.drv, "pleat_sim_finish", &c.sim_finish);
    load(c.work.drv, "pleat_sim_advance", &c.sim_advance);
    load(c.work.drv, "pleat_sim_count", &c.sim_count);
    load(c.work.drv, "pleat_sim_n_calls", &c.sim_n_calls);
    load(c.work.drv, "pleat_sim_hazards", &c.sim_hazards);
    load(c.work.drv, "pleat_sim_fail_from", &c.sim_fail_from);
    load(c.work.drv, "pleat_sim_fail_never", &c.sim_fail_never);
    load(c.work.drv, "pleat_sim_n_faults", &c.sim_n_faults);
    return c;
}

pleat_sim_counts compliance_counts(const compliance *c)
{
    pleat_sim_counts counts;
    ck_assert_int_eq(c->sim_count(-1, &counts), 0);
    return counts;
}

void compliance_close(compliance *c)
{
    compliance_finish(c);
    compliance_check(c);
    pleat_status st = pleat_destroy(c->instance, 0);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    for (int i = 0; i < COMPLIANCE_STREAMS; i++) {
        ck_assert_int_eq(pl_work_stream_destroy(&c->work, c->streams[i]), PLEAT_OK);
    }
    pleat_sim_hazard hazard;
    if (c->sim_hazards(&hazard, 1) != 0) {
        ck_abort_msg("hazard: %s", hazard.text);
    }
    ck_assert_uint_eq(pl_work_n_objects(&c->work), 0);
    pl_work_close(&c->work);
    pleat_sim_counts counts = compliance_counts(c);
    ck_assert_uint_eq(counts.events, 0);
    ck_assert_uint_eq(counts.streams, 0);
    ck_assert_uint_eq(counts.contexts, 0);
    ck_assert_uint_eq(counts.lost_objects, 0);
}

pleat_status compliance_try(compliance *c, size_t bytes, void *stream, pleat_devptr *out)
{
    return pleat_block_alloc(c->instance, 0, bytes, stream, out);
}

pleat_devptr compliance_alloc(compliance *c, size_t bytes, void *stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = compliance_try(c, bytes, stream, &ptr);
    ck_assert_msg(st == PLEAT_OK, "%zu bytes: %s", bytes, pleat_last_error()->text);
    ck_assert_uint_ne(ptr, 0);
    ck_assert_uint_eq(ptr % c->policy->alignment, 0);
    return ptr;
}

void compliance_free(compliance *c, pleat_devptr ptr, void *stream)
{
    pleat_status st = pleat_block_free(c->instance, 0, ptr, stream);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

void compliance_record(compliance *c, pleat_devptr ptr, void *stream)
{
    pleat_status st = pleat_block_record_stream(c->instance, 0, ptr, stream);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

uint64_t compliance_trim(compliance *c)
{
    uint64_t released = 0;
    pleat_status st = pleat_device_trim(c->instance, 0, 0, true, &released);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return released;
}

pleat_stats compliance_stats(compliance *c)
{
    pleat_stats stats;
    ck_assert_int_eq(pleat_device_stats(c->instance, 0, &stats), PLEAT_OK);
    return stats;
}

pleat_block_info compliance_query(compliance *c, pleat_devptr ptr)
{
    pleat_block_info info;
    pleat_status st = pleat_block_query(c->instance, 0, ptr, &info);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return info;
}

static void check_group(const char *name, const pleat_stat g[PLEAT_N_SIZES])
{
    ck_assert_msg(g[PLEAT_SIZES_ALL].current ==
                      g[PLEAT_SIZES_SMALL].current + g[PLEAT_SIZES_LARGE].current,
                  "%s: the pools do not add up", name);
    for (int pool = 0; pool < PLEAT_N_SIZES; pool++) {
        ck_assert_msg(g[pool].allocated - g[pool].freed == g[pool].current,
                      "%s: current is not what came and went", name);
        ck_assert_msg(g[pool].peak >= g[pool].current, "%s: less peak than current", name);
    }
}

void compliance_check(compliance *c)
{
    int broken = -1;
    ck_assert_int_eq(pleat_check(c->instance, &broken), PLEAT_OK);
    ck_assert_int_eq(broken, 0);
    pleat_stats s = compliance_stats(c);
    check_group("allocation", s.allocation);
    check_group("active", s.active);
    check_group("segment", s.segment);
    check_group("allocated_bytes", s.allocated_bytes);
    check_group("active_bytes", s.active_bytes);
    check_group("requested_bytes", s.requested_bytes);
    ck_assert_uint_le(s.requested_bytes[0].current, s.active_bytes[0].current);
    ck_assert_uint_le(s.allocated_bytes[0].current, s.active_bytes[0].current);
    ck_assert_uint_le(s.active_bytes[0].current, s.resident_bytes);
    ck_assert_uint_eq(s.reserved_bytes[0].current, s.resident_bytes);
    ck_assert_uint_eq(s.resident_bytes, compliance_counts(c).physical_bytes);
}

void compliance_refused(compliance *c, size_t bytes, void *stream)
{
    pleat_devptr ptr = 77;
    pleat_stats before = compliance_stats(c);
    pleat_status st = compliance_try(c, bytes, stream, &ptr);
    ck_assert_msg(st == PLEAT_ENOMEM_DEVICE, "%zu bytes: %s", bytes, pleat_status_text(st));
    ck_assert_uint_eq(ptr, 77);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pleat_last_error()->bytes, bytes);
    ck_assert_int_ne(pleat_last_error()->verdict, PLEAT_VERDICT_NONE);
    pleat_stats after = compliance_stats(c);
    ck_assert_mem_eq(after.allocation, before.allocation, sizeof after.allocation);
    ck_assert_mem_eq(after.allocated_bytes, before.allocated_bytes, sizeof after.allocated_bytes);
    ck_assert_mem_eq(after.requested_bytes, before.requested_bytes, sizeof after.requested_bytes);
    ck_assert_uint_eq(after.num_ooms, before.num_ooms + 1);
    compliance_check(c);
}

void compliance_use(compliance *c, void *stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(c->sim_work(stream, &access, 1), 0);
}

void compliance_finish(compliance *c)
{
    c->sim_finish();
}

void compliance_order(compliance *c, void *earlier, void *later)
{
    cu_event event;
    ck_assert_int_eq(pl_cu_event_create(c->work.drv, &event, 0), 0);
    ck_assert_int_eq(pl_cu_event_record(c->work.drv, event, earlier), 0);
    ck_assert_int_eq(pl_cu_stream_wait_event(c->work.drv, later, event, 0), 0);
    ck_assert_int_eq(pl_cu_event_destroy(c->work.drv, event), 0);
}

static void add(Suite *suite, const TTest *const *const tests[], size_t n, bool has_threads)
{
    for (int i = 0; pl_allocator_name((unsigned)i); i++) {
        TCase *tcase = tcase_create(pl_allocator_name((unsigned)i));
        for (size_t k = 0; k < n; k++) {
            tcase_add_loop_test(tcase, *tests[k], i, i + 1);
        }
        if (!has_threads) {
            suite_one_thread(tcase);
        }
        suite_add_tcase(suite, tcase);
    }
}

void compliance_add(Suite *suite, const TTest *const *const tests[], size_t n)
{
    add(suite, tests, n, false);
}

void compliance_add_threads(Suite *suite, const TTest *const *const tests[], size_t n)
{
    add(suite, tests, n, true);
}

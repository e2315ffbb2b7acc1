/* compact_test.c - pleat_device_compact for users: the effect, and the places of valid calls. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "api/pleat_mapping.h"
#include "segments/base/allocator.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_FIRST = 31, N_LARGE = 32 };

#define MIXED "chunks:mixed,chunk_share:1"

/* The layout: 31 free granules, and a chunk of 32 granules with only the first and the last in
 * use. */
static pleat instance;
static pleat_devptr first;
static pleat_devptr low;
static pleat_devptr high;

static void lay_large(void)
{
    pleat_devptr large = api_alloc(instance, 0, (size_t)N_LARGE * GRANULE, NULL);
    api_free(instance, 0, large, NULL);
    low = api_alloc(instance, 0, GRANULE, NULL);
    pleat_devptr middle = api_alloc(instance, 0, (size_t)(N_LARGE - 2) * GRANULE, NULL);
    high = api_alloc(instance, 0, GRANULE, NULL);
    ck_assert_uint_eq(low, large);
    ck_assert_uint_eq(high, large + (pleat_devptr)(N_LARGE - 1) * GRANULE);
    api_free(instance, 0, middle, NULL);
}

static void lay_out_with_room(const char *sim_conf, size_t n_first)
{
    instance = api_make(API_PLEAT, sim_conf, MIXED ",short:compact,wait_ms:5");
    first = api_alloc(instance, 0, n_first * GRANULE, NULL);
    lay_large();
}

static void lay_out_with(const char *conf)
{
    instance = api_make(API_PLEAT, "capacity:2G,backing:memory", conf);
    first = api_alloc(instance, 0, (size_t)N_FIRST * GRANULE, NULL);
    lay_large();
    api_free(instance, 0, first, NULL);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, (uint64_t)(N_FIRST + N_LARGE) * GRANULE),
                     PLEAT_OK);
}

static void lay_out(void)
{
    lay_out_with(MIXED);
}

static void lay_out_short(void)
{
    lay_out_with(MIXED ",short:compact");
}

static void clear(void)
{
    api_check(instance);
    api_free(instance, 0, low, NULL);
    api_free(instance, 0, high, NULL);
    api_unmake(instance);
}

START_TEST(what_is_won_is_told)
{
    pleat_compaction out;
    uint64_t before = api_stats(instance, 0).resident_bytes;
    ck_assert_int_eq(pleat_device_compact(instance, 0, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_split, 1);
    ck_assert_uint_eq(out.moved_bytes, 2 * GRANULE);
    ck_assert_uint_eq(out.won_bytes, (uint64_t)(N_LARGE - 2) * GRANULE);
    pleat_stats stats = api_stats(instance, 0);
    ck_assert_uint_le(stats.resident_bytes, before - out.won_bytes);
    ck_assert_uint_eq(stats.tied_granules, 0);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
    pleat_compaction out = { .n_split = 99 };
    ck_assert_int_eq(pleat_device_compact(instance, 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_device_compact(instance, 7, &out), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_device_compact_sized(instance, 0, 8, &out), PLEAT_EINVAL);
    ck_assert_uint_eq(out.n_split, 99);
}
END_TEST

static pleat_status in_callback;
static unsigned n_asked;

static bool compact_now(pleat asked, int device, size_t bytes, void *context)
{
    pleat_compaction out = { .n_split = 0 };
    (void)bytes;
    (void)context;
    n_asked++;
    in_callback = pleat_device_compact(asked, device, &out);
    return out.won_bytes > 0;
}

START_TEST(the_pressure_callback_may_compact)
{
    pleat_devptr ptr;
    size_t bytes = (size_t)50 * GRANULE;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, bytes, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, compact_now, NULL), PLEAT_OK);
    ptr = api_alloc(instance, 0, bytes, NULL);
    ck_assert_int_eq(in_callback, PLEAT_OK);
    ck_assert_uint_eq(n_asked, 1);
    api_free(instance, 0, ptr, NULL);
    n_asked = 0;
    bytes = (size_t)(N_FIRST + N_LARGE) * GRANULE;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, bytes, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(in_callback, PLEAT_OK); /* and had nothing to win */
    ck_assert_uint_eq(n_asked, 1);
}
END_TEST

/* ---- short:compact --------------------------------------------------------------------------- */

enum { LACKING = 50 }; /* granules: more than are free outside of the large chunk */

static void assert_refused(size_t n_granules, const char *why)
{
    pleat_devptr ptr;
    uint64_t n_copies = sim.n_calls("cuMemcpyDtoDAsync");
    ck_assert_int_eq(pleat_block_alloc(instance, 0, n_granules * GRANULE, NULL, &ptr),
                     PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, why);
    ck_assert_uint_eq(sim.n_calls("cuMemcpyDtoDAsync"), n_copies);
}

START_TEST(a_request_that_lacks_tied_memory_moves_live_memory)
{
    pleat_sim_hazard hazard;
    ck_assert_int_eq(sim.fill(NULL, low, GRANULE, 7), 0);
    ck_assert_int_eq(sim.fill(NULL, high, GRANULE, 8), 0);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, compact_now, NULL), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, (size_t)LACKING * GRANULE, NULL);
    ck_assert_uint_eq(n_asked, 0); /* the program need not free any */
    ck_assert_uint_eq(api_stats(instance, 0).num_ooms, 0);
    ck_assert_int_eq(sim.verify(NULL, low, GRANULE, 7), 0);
    ck_assert_int_eq(sim.verify(NULL, high, GRANULE, 8), 0);
    sim.finish();
    ck_assert_msg(sim.hazards(&hazard, 1) == 0, "%s", hazard.text);
    api_free(instance, 0, ptr, NULL);
}
END_TEST

/* All tied memory together is too little, so the program is not held up by a move. */
START_TEST(what_could_not_suffice_is_not_moved)
{
    uint64_t n_recorded = sim.n_calls("cuCtxRecordEvent");
    assert_refused(N_FIRST + N_LARGE, "live memory and the request are more than it");
    ck_assert_uint_eq(sim.n_calls("cuCtxRecordEvent"), n_recorded);
}
END_TEST

static void look_on(int device, pleat_mapping_change change, pleat_devptr base, uint64_t bytes,
                    void *context)
{
    (void)device;
    (void)change;
    (void)base;
    (void)bytes;
    (void)context;
}

START_TEST(observed_mappings_stay)
{
    unsigned number;
    ck_assert_int_eq(pleat_mapping_observe(instance, look_on, NULL, &number), PLEAT_OK);
    assert_refused(LACKING, "short:compact did not help, as mappings are observed");
    ck_assert_int_eq(pleat_mapping_unobserve(instance, number), PLEAT_OK);
    api_free(instance, 0, api_alloc(instance, 0, (size_t)LACKING * GRANULE, NULL), NULL);
}
END_TEST

START_TEST(nothing_moves_under_a_capture)
{
    void *stream = api_stream(instance, 0);
    pleat_devptr ptr;
    api_torch_begin_capture(instance, 0, stream);
    (void)!pleat_block_alloc(instance, 0, 512, stream, &ptr); /* now pleat knows */
    assert_refused(LACKING, "short:compact did not help, as a capture is under way");
    api_torch_end_capture(instance, 0, stream);
    api_stream_end(instance, 0, stream);
    api_free(instance, 0, api_alloc(instance, 0, (size_t)LACKING * GRANULE, NULL), NULL);
}
END_TEST

/* The reserve is the room in which memory moves, so a request touches it after that. Where nothing
 * may move, the request has it at once. */
START_TEST(memory_moves_before_the_reserve_is_touched)
{
    enum { N_LIVE = 188, N_WANTED = 34 }; /* of 256 granules, 4 are reserved */
    unsigned number = 0;
    lay_out_with_room("capacity:512M,backing:memory", N_LIVE);
    if (_i == 1) {
        ck_assert_int_eq(pleat_mapping_observe(instance, look_on, NULL, &number), PLEAT_OK);
    }
    pleat_devptr ptr = api_alloc(instance, 0, (size_t)N_WANTED * GRANULE, NULL);
    ck_assert_uint_eq(api_stats(instance, 0).tied_granules, _i == 1 ? N_LARGE - 2 : 0);
    if (_i == 1) {
        ck_assert_int_eq(pleat_mapping_unobserve(instance, number), PLEAT_OK);
    }
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, first, NULL);
    clear();
}
END_TEST

/* Pending memory would suffice with the reserve, but may not be waited for. */
START_TEST(memory_moves_beside_pending_memory_too)
{
    enum { N_LIVE = 187, N_PENDING = 31, N_WANTED = 34 }; /* of 256 granules, 4 are reserved */
    uint64_t use;
    instance = api_make(API_PLEAT, "capacity:512M,backing:memory",
                        MIXED ",short:compact,wait_ms:0");
    first = api_alloc(instance, 0, (size_t)N_LIVE * GRANULE, NULL);
    lay_large();
    void *busy = api_stream(instance, 0);
    void *other = api_stream(instance, 0);
    pleat_devptr pends = api_alloc(instance, 0, (size_t)N_PENDING * GRANULE, busy);
    ck_assert_int_eq(sim.use(busy, other, pends, GRANULE, &use), 0);
    api_free(instance, 0, pends, busy);
    pleat_devptr ptr = api_alloc(instance, 0, (size_t)N_WANTED * GRANULE, NULL);
    ck_assert_uint_eq(api_stats(instance, 0).tied_granules, 0);
    ck_assert_int_eq(sim.use_end(busy, use), 0);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, first, NULL);
    api_stream_end(instance, 0, busy);
    api_stream_end(instance, 0, other);
    clear();
}
END_TEST

/* Chunks of a quarter would tie 28 of 60 MiB, which is too much (tests/api/oom_test.c has a case
 * where it is not). */
START_TEST(the_advice_is_counted)
{
    assert_refused(LACKING, "short:compact, or pleat_device_compact, would win 60.00 MiB");
    api_expect(PLEAT_ENOMEM_DEVICE, "38.00 MiB are missing", "with chunks:granule nothing");
}
END_TEST

/* The k-th call of the request and of its compaction fails. The request is served or refused; then,
 * without the failure, it is served. */
START_TEST(a_failure_in_the_move_is_no_loss)
{
    pleat_devptr ptr;
    lay_out_short();
    sim.fail_at(NULL, (uint64_t)_i, 999);
    pleat_status st = pleat_block_alloc(instance, 0, (size_t)LACKING * GRANULE, NULL, &ptr);
    sim.fail_never();
    if (st != PLEAT_OK) {
        ptr = api_alloc(instance, 0, (size_t)LACKING * GRANULE, NULL);
    }
    api_free(instance, 0, ptr, NULL);
    clear();
}
END_TEST

START_TEST(a_device_never_used_is_not_opened)
{
    pleat_compaction out = { .n_split = 99 };
    pleat made = api_make(API_PLEAT, "", MIXED);
    ck_assert_int_eq(pleat_device_compact(made, 0, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_split, 0);
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    api_unmake(made);
}
END_TEST

START_TEST(classic_caches_cannot)
{
    const char *name = pl_allocator_name((unsigned)_i);
    char conf[64] = "driver:sim,allocator:";
    pleat made;
    pleat_compaction out;
    if (name == NULL || strcmp(name, "pleat") == 0) {
        return;
    }
    strncat(conf, name, sizeof conf - strlen(conf) - 1);
    ck_assert_int_eq(sim.reset(""), 0);
    ck_assert_int_eq(pleat_create(conf, &made), PLEAT_OK);
    pleat_devptr ptr = api_alloc(made, 0, 512, NULL);
    ck_assert_int_eq(pleat_device_compact(made, 0, &out), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, name);
    api_free(made, 0, ptr, NULL);
    api_unmake(made);
}
END_TEST

enum { N_ALLOCATORS = 16 };

SUITE(api_compact)
{
    TCase *laid_out = suite_case(suite, "laid out", api_sim_load, NULL);
    tcase_add_checked_fixture(laid_out, lay_out, clear);
    tcase_add_test(laid_out, what_is_won_is_told);
    tcase_add_test(laid_out, bad_arguments_are_refused);
    tcase_add_test(laid_out, the_pressure_callback_may_compact);
    TCase *is_short = suite_case(suite, "short", api_sim_load, NULL);
    tcase_add_checked_fixture(is_short, lay_out_short, clear);
    tcase_add_test(is_short, a_request_that_lacks_tied_memory_moves_live_memory);
    tcase_add_test(is_short, what_could_not_suffice_is_not_moved);
    tcase_add_test(is_short, observed_mappings_stay);
    tcase_add_test(is_short, nothing_moves_under_a_capture);
    TCase *failing = suite_case(suite, "failing", api_sim_load, NULL);
    tcase_add_loop_test(failing, memory_moves_before_the_reserve_is_touched, 0, 2);
    tcase_add_test(failing, memory_moves_beside_pending_memory_too);
    tcase_add_loop_test(failing, a_failure_in_the_move_is_no_loss, 0, 60);
    tcase_add_test(laid_out, the_advice_is_counted);
    TCase *whom = suite_case(suite, "whom it serves", api_sim_load, NULL);
    tcase_add_test(whom, a_device_never_used_is_not_opened);
    tcase_add_loop_test(whom, classic_caches_cannot, 0, N_ALLOCATORS);
}

/* sleep_fault_test.c - the k-th driver call or host allocation of a sleep and a wake fails.
 *
 * The scenario: a tag sleeps and wakes. The tag has large chunks, small blocks and holes, and a
 * buffer with a decommitted page in the middle. The fault is at k = 0, 1, ... until the call no
 * longer reaches it. Each call leaves the tag fully asleep or fully awake. It succeeds, or changes
 * nothing. Without the fault the next call succeeds, and the contents are intact. If all calls from
 * the k-th on fail, undoing fails, too. Still nothing is lost.
 *
 * Granules are small, since the time goes by the bytes that are filled, kept and compared. */
/* labels: unit fault */
#include <check.h>
#include <stdio.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/meta.h"

enum { GRANULE = 1 << 16, N_BLOCKS = 24, MOST_K = 4000, DRIVER_CODE = 999, NO_MEMORY = 2 };
enum { N_PAGES = 6, GONE_PAGE = 2, PAGE_SEEDS = 100 };

typedef enum plan { DRIVER_AT, DRIVER_FROM, NO_MEMORY_AT, HOST_AT, HOST_FROM, N_PLANS } plan;

static const struct how {
    pleat_sleep how;
    const char *folder;
} hows[] = { { PLEAT_SLEEP_DISCARD, NULL },
             { PLEAT_SLEEP_HOST, NULL },
             { PLEAT_SLEEP_FILE, "/tmp" } };
enum { N_HOWS = sizeof hows / sizeof hows[0] };

static pleat instance;
static bool is_partial; /* a refused unmap has unmapped a part */
static pleat_devptr blocks[N_BLOCKS];
static bool is_known[N_BLOCKS]; /* the block has its fill bytes */
static pleat_devptr buffer;
static bool is_page_known[N_PAGES];
static uint64_t host_before;

static size_t bytes_of(unsigned i)
{
    return i % 6 == 0 ? 9 * GRANULE / 2 : i % 3 == 0 ? GRANULE : 1500 * (i + 1);
}

static void arm(plan p, uint64_t k)
{
    host_before = pl_meta_n_allocs();
    switch (p) {
    case DRIVER_AT:
        sim.fail_at(NULL, k, DRIVER_CODE);
        break;
    case DRIVER_FROM:
        sim.fail_from(NULL, k, DRIVER_CODE);
        break;
    case NO_MEMORY_AT:
        sim.fail_at(NULL, k, NO_MEMORY);
        break;
    case HOST_AT:
        pl_meta_fail_at(k);
        break;
    default:
        pl_meta_fail_from(k);
    }
}

static bool has_hit(plan p, uint64_t k)
{
    return p == HOST_AT || p == HOST_FROM ? pl_meta_n_allocs() - host_before > k
                                          : sim.n_faults() > 0;
}

static void disarm(void)
{
    sim.fail_never();
    pl_meta_fail_never();
}

static bool is_asleep(void)
{
    pleat_tag_info f;
    ck_assert_int_eq(pleat_tag_query(instance, 0, "weights", &f), PLEAT_OK);
    return f.is_asleep != 0;
}

static pleat_devptr page_at(unsigned i)
{
    return buffer + (pleat_devptr)i * GRANULE;
}

static void lay_out_buffer(void)
{
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 1 << 20, 1, &buffer), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, N_PAGES * GRANULE, NULL), PLEAT_OK);
    pleat_status st = pleat_buffer_decommit(instance, 0, buffer, GONE_PAGE * GRANULE, GRANULE,
                                            NULL);
    ck_assert_int_eq(st, PLEAT_OK);
    for (unsigned i = 0; i < N_PAGES; i++) {
        is_page_known[i] = i != GONE_PAGE;
        if (i != GONE_PAGE) {
            ck_assert_int_eq(sim.fill(NULL, page_at(i), GRANULE, PAGE_SEEDS + i), 0);
        }
    }
}

static void lay_out(void)
{
    instance = api_make(API_PLEAT,
                        is_partial ? "capacity:16M,granularity:64K,backing:memory,depth:4,"
                                     "unkind:[partial_unmap]"
                                   : "capacity:16M,granularity:64K,backing:memory,depth:4",
                        "chunks:mixed,chunk_share:1");
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        pleat_status st = pleat_tag_alloc(instance, 0, "weights", bytes_of(i), NULL, &blocks[i]);
        ck_assert_int_eq(st, PLEAT_OK);
        ck_assert_int_eq(sim.fill(NULL, blocks[i], bytes_of(i), i), 0);
        is_known[i] = true;
    }
    for (unsigned i = 1; i < N_BLOCKS; i += 4) {
        api_free(instance, 0, blocks[i], NULL);
        blocks[i] = 0;
    }
    lay_out_buffer();
}

static void forget_contents(void)
{
    for (unsigned i = 0; i < N_PAGES; i++) {
        is_page_known[i] = false;
    }
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        is_known[i] = false;
    }
}

static void check_pages(void)
{
    pleat_buffer_info info;
    for (unsigned i = 0; i < N_PAGES; i++) {
        uint64_t seed = PAGE_SEEDS + i;
        if (i != GONE_PAGE) {
            ck_assert_int_eq(is_page_known[i] ? sim.verify(NULL, page_at(i), GRANULE, seed)
                                              : sim.fill(NULL, page_at(i), GRANULE, seed),
                             0);
            is_page_known[i] = true;
        }
    }
    ck_assert_int_eq(pleat_buffer_query(instance, 0, buffer, &info), PLEAT_OK);
    ck_assert_uint_eq(info.committed_bytes, (uint64_t)(N_PAGES - 1) * GRANULE);
    ck_assert_uint_eq(info.base, buffer);
}

static void check_contents(plan p, uint64_t k)
{
    pleat_sim_hazard hazard;
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (blocks[i] != 0) {
            ck_assert_int_eq(is_known[i] ? sim.verify(NULL, blocks[i], bytes_of(i), i)
                                         : sim.fill(NULL, blocks[i], bytes_of(i), i),
                             0);
            is_known[i] = true;
        }
    }
    check_pages();
    sim.finish();
    if (sim.hazards(&hazard, 1) != 0) {
        ck_abort_msg("plan %d, k %llu: %s", (int)p, (unsigned long long)k, hazard.text);
    }
}

static pleat_status fall_asleep(const struct how *how)
{
    return pleat_tag_sleep(instance, 0, "weights", how->how, how->folder, NULL);
}

static pleat_status wake_up(void)
{
    return pleat_tag_wake(instance, 0, "weights", 0, NULL);
}

/* Returns whether the tag sleeps, as it must. */
static void sleep_with_fault(plan p, const struct how *how, uint64_t k)
{
    arm(p, k);
    pleat_status st = fall_asleep(how);
    bool is_hit = has_hit(p, k);
    disarm();
    ck_assert_msg(st == PLEAT_OK || is_hit, "%s", pleat_last_error()->text);
    ck_assert_int_eq(is_asleep(), st == PLEAT_OK || st == PLEAT_EPOISONED);
    api_check(instance);
    if (st == PLEAT_OK && how->how == PLEAT_SLEEP_DISCARD) {
        forget_contents();
    }
    if (st != PLEAT_OK) { /* awake, or asleep with all its memory: no contents are lost */
        ck_assert(st != PLEAT_EPOISONED || p == DRIVER_FROM);
        ck_assert_int_eq(wake_up(), PLEAT_OK);
        check_contents(p, k);
        ck_assert_int_eq(fall_asleep(how), PLEAT_OK);
        if (how->how == PLEAT_SLEEP_DISCARD) {
            forget_contents();
        }
    }
}

static void wake_with_fault(plan p, uint64_t k)
{
    arm(p, k);
    pleat_status st = wake_up();
    bool is_hit = has_hit(p, k);
    disarm();
    ck_assert_msg(st == PLEAT_OK || is_hit, "%s", pleat_last_error()->text);
    ck_assert_int_eq(is_asleep(), st != PLEAT_OK);
    api_check(instance);
    if (st != PLEAT_OK) {
        st = wake_up();
        ck_assert_msg(st == PLEAT_OK, "plan %d, k %llu: %s", (int)p, (unsigned long long)k,
                      pleat_last_error()->text);
    }
    check_contents(p, k);
}

static void clear(plan p)
{
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (blocks[i] != 0) {
            api_free(instance, 0, blocks[i], NULL);
        }
    }
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
    sim.finish();
    pleat_status st = pleat_destroy(instance, 0);
    ck_assert(st == PLEAT_OK || (st == PLEAT_EPOISONED && p == DRIVER_FROM));
    if (st == PLEAT_OK) {
        api_sim_check_empty();
    }
}

/* Returns whether the fault was reached in the sleep or in the wake. */
static bool run(plan p, const struct how *how, uint64_t k)
{
    lay_out();
    sleep_with_fault(p, how, k);
    bool is_hit = has_hit(p, k);
    wake_with_fault(p, k);
    is_hit = is_hit || has_hit(p, k);
    clear(p);
    return is_hit;
}

START_TEST(all_asleep_or_all_awake)
{
    is_partial = _i >= N_PLANS * N_HOWS; /* the plans of the driver once more */
    plan p = (plan)(_i / N_HOWS % N_PLANS);
    uint64_t k = 0;
    while (k < MOST_K && run(p, &hows[_i % N_HOWS], k)) {
        k++;
    }
    ck_assert_uint_gt(k, p == HOST_AT || p == HOST_FROM ? 1 : 8);
    ck_assert_uint_lt(k, MOST_K);
}
END_TEST

/* ---- what the driver does not take back ---- */

static void wake_without(const char *call)
{
    lay_out();
    ck_assert_int_eq(fall_asleep(&hows[1]), PLEAT_OK);
    sim.fail_from(call, 0, DRIVER_CODE);
    ck_assert_int_eq(wake_up(), PLEAT_OK);
}

START_TEST(the_next_sleep_gives_back_what_the_driver_refused)
{
    wake_without("cuMemFreeHost");
    uint64_t bytes = api_sim_counts().host_bytes;
    ck_assert_uint_gt(bytes, 0);
    disarm();
    ck_assert_int_eq(fall_asleep(&hows[1]), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().host_bytes, bytes);
    ck_assert_int_eq(wake_up(), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().host_bytes, 0);
    check_contents(DRIVER_AT, 0);
    clear(DRIVER_AT);
}
END_TEST

START_TEST(the_next_wake_gives_back_what_the_driver_refused)
{
    pleat_devptr other = 0;
    lay_out();
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "kv", GRANULE, NULL, &other), PLEAT_OK);
    ck_assert_int_eq(fall_asleep(&hows[1]), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "kv", PLEAT_SLEEP_HOST, NULL, NULL), PLEAT_OK);
    sim.fail_from("cuMemFreeHost", 0, DRIVER_CODE);
    ck_assert_int_eq(wake_up(), PLEAT_OK);
    disarm();
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "kv", 0, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().host_bytes, 0);
    api_free(instance, 0, other, NULL);
    clear(DRIVER_AT);
}
END_TEST

START_TEST(the_end_of_the_instance_gives_back_what_the_driver_refused)
{
    wake_without("cuMemFreeHost");
    disarm();
    clear(DRIVER_AT);
}
END_TEST

START_TEST(the_end_of_the_instance_tells_what_the_driver_never_takes_back)
{
    wake_without(_i == 0 ? "cuMemFreeHost" : "cuStreamDestroy");
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_EPOISONED);
}
END_TEST

SUITE(api_sleep_fault)
{
    TCase *all = suite_case(suite, "faults", api_sim_load, disarm);
    tcase_add_loop_test(all, all_asleep_or_all_awake, 0, (N_PLANS + 2) * N_HOWS);
    tcase_add_test(all, the_next_sleep_gives_back_what_the_driver_refused);
    tcase_add_test(all, the_next_wake_gives_back_what_the_driver_refused);
    tcase_add_test(all, the_end_of_the_instance_gives_back_what_the_driver_refused);
    tcase_add_loop_test(all, the_end_of_the_instance_tells_what_the_driver_never_takes_back, 0, 2);
}

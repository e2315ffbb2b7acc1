/* late_use_test.c - the simulator sees work on blocks that are no more, with any allocator. */
/* labels: unit model */
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

_Static_assert((int)PL_TOLD_BLOCK == (int)PLEAT_SIM_TOLD_BLOCK, "as the simulator counts");
_Static_assert((int)PL_TOLD_REUSE == (int)PLEAT_SIM_TOLD_REUSE, "as the simulator counts");
_Static_assert((int)PL_TOLD_DISCARD == (int)PLEAT_SIM_TOLD_DISCARD, "as the simulator counts");

#define MIB ((size_t)1 << 20)

static pleat instance;
static void *stream;

static void open_with(int allocator, const char *more)
{
    api_sim_load();
    instance = api_make(allocator, "capacity:1G", more);
    stream = api_stream(instance, 0);
}

static void close_all(void)
{
    sim.finish();
    api_stream_end(instance, 0, stream);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
}

static void work(pleat_devptr ptr, size_t bytes, bool is_write)
{
    pleat_sim_access access = { ptr, bytes, is_write };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

/* The newest hazard, of this kind, the n-th so far. */
static pleat_sim_hazard expect(pleat_sim_hazard_kind kind, size_t n)
{
    pleat_sim_hazard all[64];
    ck_assert_uint_eq(sim.hazards(all, 64), n);
    ck_assert_msg(all[n - 1].kind == kind, "%s", all[n - 1].text);
    return all[n - 1];
}

START_TEST(a_freed_block_and_a_block_s_end_are_known)
{
    pleat_devptr ptr;
    open_with(_i, "");
    ptr = api_alloc(instance, 0, 8 * MIB, stream);
    work(ptr, 8 * MIB, true);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    work(ptr, 8 * MIB + 4096, true);
    pleat_sim_hazard hazard = expect(PLEAT_SIM_BEYOND_BLOCK, 1);
    ck_assert_uint_eq(hazard.block_ptr, ptr);
    ck_assert_uint_eq(hazard.block_bytes, 8 * MIB);
    api_free(instance, 0, ptr, stream);
    work(ptr + MIB, 512, false);
    hazard = expect(PLEAT_SIM_LATE_USE, 2);
    ck_assert_uint_eq(hazard.block_ptr, ptr);
    ck_assert_ptr_nonnull(strstr(hazard.text, "was freed after call"));
    close_all();
}
END_TEST

/* The shortest way of a pair tells, too. */
START_TEST(small_blocks_come_and_go_like_all_others)
{
    uint64_t random = (uint64_t)_i + 1;
    size_t n_expected = 0;
    pleat_devptr live[16] = { 0 };
    pleat_devptr freed = 0;
    open_with(API_PLEAT, "");
    for (int step = 0; step < 6000; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407U;
        unsigned slot = (unsigned)(random >> 33) % 16;
        if (live[slot] == 0) {
            live[slot] = api_alloc(instance, 0, 512 * (1 + slot % 4), stream);
            freed = freed - live[slot] < 512 * (1 + slot % 4) ? 0 : freed;
            work(live[slot], 512 * (1 + slot % 4), true);
        } else {
            freed = live[slot];
            api_free(instance, 0, freed, stream);
            live[slot] = 0;
        }
        if (freed != 0 && (random >> 40) % 256 == 0) {
            work(freed, 512, true);
            n_expected++;
        }
        ck_assert_uint_eq(sim.hazards(NULL, 0), n_expected);
    }
    ck_assert_uint_gt(n_expected, 0);
    for (unsigned i = 0; i < 16; i++) {
        if (live[i] != 0) {
            api_free(instance, 0, live[i], stream);
        }
    }
    close_all();
}
END_TEST

START_TEST(a_decommitted_page_is_known_before_and_after_a_trim)
{
    pleat_devptr buffer;
    uint64_t released;
    open_with(API_PLEAT, "");
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 512 * MIB, 2 * MIB, &buffer), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_commit(instance, 0, buffer, 0, 64 * MIB, stream), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_commit(instance, 0, buffer, 64 * MIB, 64 * MIB, stream),
                     PLEAT_OK);
    work(buffer, 128 * MIB, true);
    ck_assert_int_eq(pleat_buffer_decommit(instance, 0, buffer, 16 * MIB, 16 * MIB, stream),
                     PLEAT_OK);
    work(buffer, 16 * MIB, true);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    work(buffer + 16 * MIB, 2 * MIB, true);
    (void)expect(PLEAT_SIM_LATE_USE, 1);
    sim.finish();
    work(buffer + 16 * MIB, 2 * MIB, true);
    (void)expect(PLEAT_SIM_LATE_USE, 2);
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    work(buffer + 16 * MIB, 2 * MIB, true);
    pleat_sim_hazard hazard = expect(PLEAT_SIM_UNMAPPED_ACCESS, 3);
    ck_assert_ptr_nonnull(strstr(hazard.text, "its memory is gone"));
    sim.finish();
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, stream), PLEAT_OK);
    close_all();
}
END_TEST

START_TEST(a_tag_asleep_and_a_tag_without_contents_are_known)
{
    pleat_devptr ptr;
    bool is_kept = _i == 1;
    open_with(API_PLEAT, "");
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "kv", 8 * MIB, stream, &ptr), PLEAT_OK);
    work(ptr, 8 * MIB, true);
    sim.finish();
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "kv",
                                     is_kept ? PLEAT_SLEEP_HOST : PLEAT_SLEEP_DISCARD, NULL, NULL),
                     PLEAT_OK);
    work(ptr, 8 * MIB, true);
    pleat_sim_hazard hazard = expect(PLEAT_SIM_UNMAPPED_ACCESS, 1);
    ck_assert_uint_eq(hazard.block_ptr, ptr);
    ck_assert_ptr_nonnull(strstr(hazard.text, "it sleeps"));
    sim.finish();
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "kv", 0, NULL), PLEAT_OK);
    work(ptr, 512, false);
    if (!is_kept) {
        (void)expect(PLEAT_SIM_NO_CONTENTS, 2);
    }
    work(ptr, 512, true);
    work(ptr, 512, false);
    ck_assert_uint_eq(sim.hazards(NULL, 0), is_kept ? 1 : 2);
    api_free(instance, 0, ptr, stream);
    close_all();
}
END_TEST

SUITE(api_late_use)
{
    TCase *all = suite_case(suite, "all", NULL, NULL);
    tcase_add_loop_test(all, a_freed_block_and_a_block_s_end_are_known, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(all, small_blocks_come_and_go_like_all_others, 0, (int)suite_part(50));
    tcase_add_test(all, a_decommitted_page_is_known_before_and_after_a_trim);
    tcase_add_loop_test(all, a_tag_asleep_and_a_tag_without_contents_are_known, 0, 2);
}

/* refusal_test.c - a device without memory for the moment: at its first use, at a wake, and what a
 * refusal advises. */
/* labels: unit */
#include <check.h>
#include <string.h>

#include "api/pleat_tag.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

#define SIM "capacity:64M,dead_handles:error"

/* ---- at the first use ------------------------------------------------------------------------ */

static const char *const sims[] = { SIM, SIM ",unkind:[broken_rdma]", SIM ",profile:old_driver" };
static const char *const confs[] = { "", "shareable:auto", "fallback:torch-native", "rdma:False" };
enum { N_SIMS = sizeof sims / sizeof sims[0], N_CONFS = sizeof confs / sizeof confs[0] };

/* Nothing could be tried on the full device, also where its driver promises what it refuses. _i:
 * the driver and the configuration. */
START_TEST(a_device_full_at_its_first_use_serves_once_there_is_memory)
{
    const char *conf = sims[_i / N_CONFS];
    pleat other = api_make(API_TORCH, conf, "");
    pleat_devptr held = api_alloc(other, 0, 64 * MIB, NULL);
    pleat instance = api_make(API_PLEAT, conf, confs[_i % N_CONFS]);
    for (int i = 0; i < 3; i++) {
        pleat_devptr ptr = 77;
        ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
        ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_FOREIGN);
        ck_assert_uint_eq(ptr, 77);
    }
    api_free(other, 0, held, NULL);
    ck_assert_int_eq(pleat_destroy(other, 0), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    pleat_device_info info;
    ck_assert_int_eq(pleat_device_query(instance, 0, &info), PLEAT_OK);
    ck_assert_str_eq(info.allocator, "pleat");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- at a wake ------------------------------------------------------------------------------- */

START_TEST(a_wake_asks_again_a_driver_that_refused_others)
{
    pleat other = api_make(API_TORCH, SIM, "");
    pleat instance = api_make(API_PLEAT, SIM, "reserve_mb:0");
    pleat_devptr tagged;
    pleat_devptr ptr;
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "weights", 40 * MIB, NULL, &tagged), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_DISCARD, NULL, NULL),
                     PLEAT_OK);
    pleat_devptr held = api_alloc(other, 0, 60 * MIB, NULL);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 10 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    api_free(other, 0, held, NULL);
    ck_assert_int_eq(pleat_destroy(other, 0), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", 0, NULL), PLEAT_OK);
    api_free(instance, 0, tagged, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- the advice ------------------------------------------------------------------------------ */

typedef struct advice {
    const char *conf;
    const char *says;
    const char *says_not[3];
} advice;

static const advice advices[] = {
    { "wait_ms:0,cross_stream:settled",
      "set wait_ms, or set cross_stream:order",
      { "after wait_ms" } },
    { "wait_ms:5,cross_stream:settled",
      "after wait_ms:5; synchronise, or set cross_stream:order",
      { "set wait_ms", "raise" } },
    { "wait_ms:5,cross_stream:order", "stream_identity:handle", { "set wait_ms", "set cross" } },
    { "wait_ms:0,stream_identity:handle,cross_stream:settled",
      "set wait_ms",
      { "set stream_identity", "stream_identity:handle lets" } },
};

/* Another stream's memory pends for ever, without a fence that covers it. */
START_TEST(a_refusal_advises_what_is_not_in_force)
{
    const advice *a = &advices[_i];
    pleat instance = api_make(API_PLEAT, "capacity:64M,depth:1048576,waits:refuse", a->conf);
    void *user = api_stream(instance, 0);
    void *mine = api_stream(instance, 0);
    pleat_devptr ptr = api_alloc(instance, 0, 48 * MIB, mine);
    pleat_sim_access access = { .ptr = ptr, .bytes = 4096, .is_write = true };
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, user), PLEAT_OK);
    ck_assert_int_eq(sim.work(user, &access, 1), 0);
    api_free(instance, 0, ptr, mine);
    void *third = api_stream(instance, 0);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 48 * MIB, third, &ptr), PLEAT_EPENDING);
    api_expect(PLEAT_EPENDING, "are free, but their last use on the GPU is not over", a->says);
    for (unsigned i = 0; i < 3 && a->says_not[i] != NULL; i++) {
        ck_assert_msg(strstr(pleat_last_error()->text, a->says_not[i]) == NULL, "%s in: %s",
                      a->says_not[i], pleat_last_error()->text);
    }
    sim.finish();
    api_stream_end(instance, 0, user);
    api_stream_end(instance, 0, mine);
    api_stream_end(instance, 0, third);
    api_unmake(instance);
}
END_TEST

SUITE(api_refusal)
{
    TCase *all = suite_case(suite, "all", api_sim_load, NULL);
    suite_one_thread(all);
    tcase_add_loop_test(all, a_device_full_at_its_first_use_serves_once_there_is_memory, 0,
                        N_SIMS * N_CONFS);
    tcase_add_test(all, a_wake_asks_again_a_driver_that_refused_others);
    tcase_add_loop_test(all, a_refusal_advises_what_is_not_in_force, 0,
                        (int)(sizeof advices / sizeof advices[0]));
}

/* mxnet_test.c - MXNet's pools on three bundled traces. All digits equal the published figures of
 * an independent simulator. */
/* labels: model figures */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

enum { FAILS = -1 }; /* the run does not complete */

typedef struct figures {
    const char *trace;
    const char *allocator;
    double reserved; /* peak reserved / peak live; unlimited */
    double ops;      /* device operations per 1,000 events; unlimited */
    double least;    /* least capacity / peak live; 0 = not tested */
    int ops_102;     /* device operations on a device of 1.02 x peak live */
    int ops_105;
} figures;

static const figures published[] = {
    { "gpt2s_tiny", "mxnet-naive", 1.346, 32.943, 1.034, FAILS, 8459 },
    { "gpt2s_tiny", "mxnet-round", 1.385, 32.285, 1.199, FAILS, FAILS },
    { "resnet50_rect", "mxnet-naive", 25.871, 22.326, 1.004, 65544, 65224 },
    { "resnet50_rect", "mxnet-round", 10.118, 7.822, 1.018, 52123, 52660 },
    { "llama8b_fsdp16_var", "mxnet-naive", 11.316, 4.556, 0, 14642, 14262 },
    { "llama8b_fsdp16_var", "mxnet-round", 8.845, 2.157, 0, FAILS, 12174 },
};

enum { N_PUBLISHED = sizeof published / sizeof published[0] };

static bench_child child;

static void set_up(void)
{
    ck_assert_int_eq(setenv("PLEAT_TRACES", PLEAT_SOURCE_DIR "/bench/traces", 1), 0);
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
}

static json_t *run(const char *command, const figures *f, const char *memory)
{
    char line[256];
    json_error_t error;
    snprintf(line, sizeof line, "%s --driver sim --json --allocator %s %s %s", command,
             f->allocator, memory, f->trace);
    bench_child_run(&child, line);
    json_t *record = json_loads(child.out, 0, &error);
    ck_assert_msg(json_is_object(record), "%s: %s %s", line, error.text, child.err);
    return record;
}

static double get(const json_t *record, const char *key)
{
    const json_t *value = json_object_get(record, key);
    ck_assert_msg(json_is_number(value), "%s", key);
    return json_number_value(value);
}

static double n_ops(const json_t *record)
{
    const json_t *ops = json_object_get(record, "device_ops");
    ck_assert_int_eq((int)get(ops, "map"), 0);
    return get(ops, "alloc") + get(ops, "free");
}

static void assert_digits(double measured, double figure, double digit)
{
    ck_assert_msg(fabs(measured - figure) <= digit * 0.5001, "%.4f, not %.3f", measured, figure);
}

START_TEST(without_limit_what_is_reserved_agrees)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    const figures *f = &published[_i];
    json_t *record = run("replay", f, "");
    ck_assert_int_eq(child.status, 0);
    assert_digits(get(record, "peak_reserved_bytes") / get(record, "peak_live_bytes"), f->reserved,
                  0.001);
    assert_digits(n_ops(record) * 1000 / get(record, "events"), f->ops, 0.001);
    json_decref(record);
}
END_TEST

static void check_tight(const figures *f, const char *memory, int ops)
{
    json_t *record = run("replay", f, memory);
    ck_assert_int_eq(child.status, ops == FAILS ? 1 : 0);
    ck_assert_int_eq((int)get(record, "hazards"), 0);
    if (ops == FAILS) {
        ck_assert_int_gt((int)get(record, "oom_count"), 0);
    } else {
        ck_assert_int_eq((int)get(record, "oom_count"), 0);
        ck_assert_int_eq((int)n_ops(record), ops);
    }
    json_decref(record);
}

START_TEST(on_tight_devices_operations_and_failures_agree)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    check_tight(&published[_i], "--memory 1.02x", published[_i].ops_102);
    check_tight(&published[_i], "--memory 1.05x", published[_i].ops_105);
}
END_TEST

START_TEST(the_least_capacity_agrees)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    const figures *f = &published[_i];
    if (f->least > 0) {
        json_t *record = run("fit", f, "");
        assert_digits(get(record, "ratio"), f->least, 0.001);
        json_decref(record);
    }
}
END_TEST

SUITE(bench_mxnet)
{
    TCase *figures_case = tcase_create("figures");
    tcase_add_checked_fixture(figures_case, set_up, NULL);
    tcase_add_loop_test(figures_case, without_limit_what_is_reserved_agrees, 0, N_PUBLISHED);
    tcase_add_loop_test(figures_case, on_tight_devices_operations_and_failures_agree, 0,
                        N_PUBLISHED);
    tcase_add_loop_test(figures_case, the_least_capacity_agrees, 0, N_PUBLISHED);
    suite_add_tcase(suite, figures_case);
}

/* host_test.c - works of pinned memory: trace lines, results of replay and fit, and the bound for
 * PyTorch's worst case. */
/* labels: unit figures */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/works/work.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

static bench_child child;
static bench_failure failure;

static void set_up(void)
{
    unsetenv("PLEAT_CONF");
    unsetenv("PLEAT_SIM");
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool load(const char *text, const char *options, bench_work *out)
{
    char spec[512];
    const char *path = bench_child_file(".trace", text, strlen(text));
    snprintf(spec, sizeof spec, "%s%s", path, options);
    bool ok = bench_work_open(spec, out, &failure);
    unlink(path);
    return ok;
}

static const char both[] = "a 1 1000 7\n"
                           "a 2 2000 8 host\n"
                           "a 3 3000 9\thost \n"
                           "f 1\n"
                           "f 2\n"
                           "a 2 4000 7\n"
                           "f 3\n";

START_TEST(a_line_says_that_its_block_is_pinned)
{
    bench_work work;
    ck_assert_msg(load("a 1 10 0 host\nf 1\n", "", &work), "%s", failure.text);
    ck_assert(work.is_host);
    ck_assert_uint_eq(work.n_events, 2);
    bench_work_close(&work);
    ck_assert_msg(load("a 1 10 0\nf 1\n", "", &work), "%s", failure.text);
    ck_assert(!work.is_host);
    bench_work_close(&work);
}
END_TEST

START_TEST(a_trace_of_both_kinds_is_replayed_one_kind_at_a_time)
{
    bench_work work;
    ck_assert(!load(both, "", &work));
    ck_assert_msg(strstr(failure.text, ":2: ") != NULL &&
                      strstr(failure.text, ":blocks=device or :blocks=host") != NULL,
                  "%s", failure.text);
    ck_assert_msg(load(both, ":blocks=host", &work), "%s", failure.text);
    ck_assert(work.is_host);
    ck_assert_uint_eq(work.n_events, 4);
    ck_assert_uint_eq(work.n_streams, 2);
    ck_assert_uint_eq(work.peak_live_bytes, 2048 + 3072);
    bench_work_close(&work);
    ck_assert_msg(load(both, ":blocks=device", &work), "%s", failure.text);
    ck_assert(!work.is_host);
    ck_assert_uint_eq(work.n_events, 3);
    ck_assert_uint_eq(work.n_streams, 1);
    ck_assert_uint_eq(work.peak_live_bytes, 4096);
    bench_work_close(&work);
}
END_TEST

START_TEST(what_is_wrong_is_told)
{
    static const struct {
        const char *text;
        const char *options;
        const char *said;
    } cases[] = {
        { "a 1 10 0 hosts\n", "", ":1: trailing text: hosts" },
        { "a 1 10 0 host x\n", "", ":1: trailing text: x" },
        { "a 1 10 host\n", "", ":1: the stream is not a number: host" },
        { "a 1 10 0\n", ":blocks=host", "the trace holds no such block" },
        { "a 1 10 0 host\n", ":blocks=device", "the trace holds no such block" },
        { "a 1 10 0 host\na 1 9 0\n", ":blocks=device", ":2: id 1 is allocated twice" },
        { "a 1 10 0\nf 2\n", ":blocks=host", ":2: unknown id 2" },
        { "a 1 10 0\n", ":blocks=all", "'blocks=all' is not an option" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench_work work;
        ck_assert(!load(cases[i].text, cases[i].options, &work));
        ck_assert_msg(strstr(failure.text, cases[i].said) != NULL, "%s%s: %s", cases[i].text,
                      cases[i].options, failure.text);
    }
}
END_TEST

START_TEST(a_converted_work_stays_pinned)
{
    char line[256];
    char path[200];
    bench_work work;
    snprintf(path, sizeof path, "%s", bench_child_file(".trace", "", 0));
    snprintf(line, sizeof line, "convert --force loader:iterations=3,prefetch=2 %s", path);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%s", child.err);
    ck_assert_msg(bench_work_open(path, &work, &failure), "%s", failure.text);
    ck_assert(work.is_host);
    ck_assert_uint_eq(work.n_events, 4 + 3);
    bench_work_close(&work);
    unlink(path);
    bench_child_run(&child, "convert loader:iterations=3 /nowhere/log.csv");
    ck_assert_int_eq(child.status, 1);
    ck_assert_ptr_nonnull(strstr(child.err, "no pinned memory"));
}
END_TEST

/* ---- figures --------------------------------------------------------------------------------- */

/* The caller owns the object. */
static json_t *measure(const char *line)
{
    json_error_t error;
    bench_child_run(&child, line);
    json_t *row = json_loads(child.out, 0, &error);
    ck_assert_msg(row != NULL, "%s: %s", line, child.err);
    return row;
}

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static double resident_ratio(const char *allocator, const char *work)
{
    char line[256];
    snprintf(line, sizeof line, "replay --driver sim --json --depth 0 --allocator %s %s", allocator,
             work);
    json_t *row = measure(line);
    ck_assert_str_eq(json_string_value(json_object_get(row, "memory_kind")), "host");
    ck_assert_int_eq((int)number(row, "oom_count"), 0);
    ck_assert_int_eq((int)number(row, "hazards"), 0);
    double ratio = number(row, "peak_reserved_bytes") / number(row, "peak_live_bytes");
    json_decref(row);
    return ratio;
}

/* Tensors of 1.1 GiB, copies that are over when the next batch is pinned. */
START_TEST(the_worst_case_takes_what_lives_and_pytorch_1_8_of_it)
{
    ck_assert_double_le(resident_ratio("pleat", "loader"), 1.01);
    double torch = resident_ratio("torch-pinned", "loader");
    ck_assert_msg(torch > 1.8 && torch < 1.83, "%f", torch);
}
END_TEST

START_TEST(the_least_memory_is_what_lives)
{
    json_t *pleat = measure("fit --driver sim --json --allocator pleat loader:iterations=20");
    json_t *torch = measure(
        "fit --driver sim --json --depth 0 --allocator torch-pinned loader:iterations=20");
    ck_assert_double_le(number(pleat, "ratio"), 1.01); /* also while copies run, since it waits */
    ck_assert_double_ge(number(torch, "ratio"), 1.8);
    json_decref(pleat);
    json_decref(torch);
}
END_TEST

START_TEST(every_cache_of_pinned_memory_replays_it_without_a_hazard)
{
    static const char *const caches[] = { "pleat",        "torch-pinned",  "mxnet-naive",
                                          "mxnet-round",  "mxnet19-naive", "mxnet19-round",
                                          "torch-native", "unpooled" };
    static const char work[] =
        "loader:bytes=10000000,spread=0.9,tensors=3,prefetch=3,streams=3,iterations=40";
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, "replay --driver sim --json --depth 9 --allocator %s %s",
                 caches[i], work);
        json_t *row = measure(line);
        ck_assert_msg(child.status == 0, "%s: %s", caches[i], child.err);
        ck_assert_int_eq((int)number(row, "hazards"), 0);
        ck_assert_int_eq((int)number(row, "events"), 2 * 40 * 3 + 2 * 3);
        json_decref(row);
    }
}
END_TEST

/* Its lines are about devices. */
START_TEST(a_comparison_gives_no_verdict)
{
    char line[256];
    char folder[] = "/tmp/pleat-ab-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(line, sizeof line,
             "ab --driver sim --no-report --loops 1 --depth 0 --memory unlimited --out %s/ab "
             "loader:iterations=4",
             folder);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%s", child.err);
    ck_assert_ptr_nonnull(strstr(child.out, "torch-pinned"));
    ck_assert_ptr_null(strstr(child.out, "torch-native"));
    ck_assert_ptr_null(strstr(child.out, "advice"));
    snprintf(line, sizeof line, "rm -r %s", folder);
    ck_assert_int_eq(system(line), 0);
}
END_TEST

START_TEST(commands_without_pinned_memory_refuse_it)
{
    static const struct {
        const char *line;
        int status;
        const char *said;
    } cases[] = {
        { "bench tail loader", 2, "pinned memory of the host" },
        { "bench pairs --through glibc loader", 2, "pinned memory of the host" },
        { "replay --driver sim --sim host:1G loader", 1, "host is set with --memory" },
        { "replay --driver sim --sim profile:old_driver loader", 1, "only torch-native" },
        { "replay --driver sim --allocator torch-pinned churn", 1, "needs memory:host" },
        { "ab --driver sim --no-report loader churn", 2, "one after the other" },
        { "bench pairs --host --through pleat hot", 2, "'pleat' and pinned memory" },
        { "bench pairs --through glibc,pinned hot", 2, "are not compared" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench_child_run(&child, cases[i].line);
        ck_assert_msg(child.status == cases[i].status && strstr(child.err, cases[i].said) != NULL,
                      "%s: %d, %s", cases[i].line, child.status, child.err);
    }
}
END_TEST

START_TEST(pairs_of_pinned_memory_make_no_driver_call)
{
    json_t *row = measure("bench pairs --through pinned --rounds 2 --runs 1 --pairs 1000 --json "
                          "--no-callgrind hot");
    ck_assert_str_eq(json_string_value(json_object_get(row, "through")), "pinned");
    ck_assert_int_eq((int)number(row, "driver_calls"), 0);
    ck_assert_double_gt(number(row, "ns"), 0);
    json_decref(row);
}
END_TEST

SUITE(bench_host)
{
    TCase *tcase = suite_case(suite, "lines", set_up, NULL);
    tcase_add_test(tcase, a_line_says_that_its_block_is_pinned);
    tcase_add_test(tcase, a_trace_of_both_kinds_is_replayed_one_kind_at_a_time);
    tcase_add_test(tcase, what_is_wrong_is_told);
    tcase_add_test(tcase, a_converted_work_stays_pinned);
    tcase = suite_case(suite, "figures", set_up, NULL);
    tcase_add_test(tcase, the_worst_case_takes_what_lives_and_pytorch_1_8_of_it);
    tcase_add_test(tcase, the_least_memory_is_what_lives);
    tcase_add_test(tcase, every_cache_of_pinned_memory_replays_it_without_a_hazard);
    tcase = suite_case(suite, "commands", set_up, NULL);
    tcase_add_test(tcase, a_comparison_gives_no_verdict);
    tcase_add_test(tcase, commands_without_pinned_memory_refuse_it);
    tcase_add_test(tcase, pairs_of_pinned_memory_make_no_driver_call);
}

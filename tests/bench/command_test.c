/* command_test.c - the `pleat` command from outside: exit status, output, messages. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

static bench_child child;

static const char small_text[] = "i 0\na 1 1000000 0\na 2 2000000 0\na 3 20000000 0\nf 2\n"
                                 "a 4 3000000 0\nf 3\n";
static char small[64]; /* path of this trace */

static void set_up(void)
{
    snprintf(small, sizeof small, "%s", bench_child_file(".trace", small_text, strlen(small_text)));
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
}

static void tear_down(void)
{
    unlink(small);
}

static void run(const char *format, const char *argument)
{
    char line[2048];
    const char *hole = strchr(format, '@');
    if (hole) {
        snprintf(line, sizeof line, "%.*s%s%s", (int)(hole - format), format, argument, hole + 1);
    } else {
        snprintf(line, sizeof line, "%s", format);
    }
    bench_child_run(&child, line);
}

/* Read the next object of standard output, and move *at behind its line. */
static json_t *next_object(const char **at)
{
    json_error_t error;
    const char *end = strchr(*at, '\n');
    ck_assert_ptr_nonnull(end);
    json_t *object = json_loadb(*at, (size_t)(end - *at), 0, &error);
    ck_assert_msg(json_is_object(object), "%s: %.200s", error.text, *at);
    *at = end + 1;
    return object;
}

static int64_t get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_integer(value), "%s", key);
    return json_integer_value(value);
}

static void check_keys(const json_t *object, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(json_object_get(object, keys[i]) != NULL, "no key %s", keys[i]);
    }
    ck_assert_uint_eq(json_object_size(object), n);
}

static const char *const record_keys[] = {
    "trace",
    "allocator",
    "driver",
    "memory_bytes",
    "peak_live_bytes",
    "peak_reserved_bytes",
    "first_peak_reserved_bytes",
    "oom_count",
    "events",
    "device_ops",
    "calls",
    "placement",
    "bytes_created",
    "bytes_mapped",
    "alloc_retries",
    "host_syncs",
    "stream_waits",
    "hazards",
    "driver_ms",
    "later_driver_ms",
    "longest_driver_ms",
    "loop_device_ops",
    "least_memory_bytes",
    "ratio",
};
enum { N_RECORD_KEYS = sizeof record_keys / sizeof record_keys[0], N_REPLAY_KEYS = 22 };
static const char *const op_keys[] = { "map", "unmap", "alloc", "free" };

START_TEST(replay_prints_one_object_for_each_work_and_allocator)
{
    run("replay --driver sim --json --loops 2 --allocator torch-native,pleat @", small);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    const char *at = child.out;
    static const char *const allocators[] = { "torch-native", "pleat" };
    for (int i = 0; i < 2; i++) {
        json_t *object = next_object(&at);
        check_keys(object, record_keys, N_REPLAY_KEYS);
        check_keys(json_object_get(object, "device_ops"), op_keys, 4);
        ck_assert_str_eq(json_string_value(json_object_get(object, "allocator")), allocators[i]);
        ck_assert_str_eq(json_string_value(json_object_get(object, "driver")), "sim");
        ck_assert_int_eq(get(object, "peak_live_bytes"), 24001024);
        ck_assert_int_eq(get(object, "memory_bytes"), INT64_C(1) << 40);
        ck_assert_int_eq(get(object, "events"), 12);
        ck_assert_int_eq(get(object, "oom_count"), 0);
        ck_assert_int_eq(get(object, "hazards"), 0);
        ck_assert_uint_eq(json_array_size(json_object_get(object, "loop_device_ops")), 2);
        json_decref(object);
    }
    ck_assert_str_eq(at, "");
}
END_TEST

START_TEST(the_allocators_own_time_is_told_where_it_is_asked_for)
{
    run("replay --driver sim --json --allocator pleat --time 3 @", small);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    const char *at = child.out;
    json_t *object = next_object(&at);
    ck_assert_uint_eq(json_object_size(object), N_REPLAY_KEYS + 1);
    const json_t *own = json_object_get(object, "allocator_ns_per_event");
    static const char *const keys[] = { "least", "most", "runs" };
    check_keys(own, keys, 3);
    ck_assert_int_eq(get(own, "runs"), 3);
    ck_assert_double_ge(json_real_value(json_object_get(own, "most")),
                        json_real_value(json_object_get(own, "least")));
    ck_assert_int_eq(get(object, "events"), 6); /* of the first run, not of all */
    json_decref(object);
    run("replay --driver sim --allocator pleat --time 2 @", small);
    ck_assert_ptr_nonnull(strstr(child.out, " own ns/event\n"));
    run("replay --driver sim --allocator pleat @", small);
    ck_assert_ptr_null(strstr(child.out, "ns/event"));
    run("replay --driver sim --time -1 @", small);
    ck_assert_int_eq(child.status, 2);
}
END_TEST

START_TEST(calls_are_told_for_every_entry_point)
{
    run("replay --driver sim --json --allocator torch-native @", small);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    const char *at = child.out;
    json_t *object = next_object(&at);
    const json_t *calls = json_object_get(object, "calls");
    ck_assert_int_eq(get(calls, "cuMemAlloc"), 3);
    ck_assert_int_eq(get(calls, "cuMemCreate"), 0);
    ck_assert_int_eq(get(calls, "cuEventQuery"), 0);
    ck_assert_uint_ge(json_object_size(calls), 50);
    ck_assert_int_eq(get(json_object_get(object, "device_ops"), "alloc"), 3);
    json_decref(object);
}
END_TEST

START_TEST(fit_adds_the_least_memory_and_its_ratio)
{
    run("fit --driver sim --json --allocator torch-native @", small);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    const char *at = child.out;
    json_t *object = next_object(&at);
    check_keys(object, record_keys, N_RECORD_KEYS);
    ck_assert_int_eq(get(object, "least_memory_bytes"), INT64_C(42) << 20);
    ck_assert_double_eq_tol(json_real_value(json_object_get(object, "ratio")),
                            (double)(INT64_C(42) << 20) / 24001024.0, 1e-6);
    json_decref(object);
    ck_assert_str_eq(at, "");
}
END_TEST

START_TEST(compactions_between_iterations_are_counted)
{
    static const char *const lines[] = {
        "replay --driver sim --json --allocator pleat @",
        "replay --driver sim --json --allocator pleat --compact @",
        "fit --driver sim --json --allocator pleat --compact @",
    };
    static const char text[] = "i 0\na 1 1048576 0\ni 1\nf 1\ni 2\na 2 1048576 0\nf 2\n";
    char marked[64];
    snprintf(marked, sizeof marked, "%s", bench_child_file(".trace", text, strlen(text)));
    for (int i = 0; i < 3; i++) {
        run(lines[i], marked);
        ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
        const char *at = child.out;
        json_t *object = next_object(&at);
        ck_assert_int_eq(json_object_get(object, "compactions") != NULL, i > 0);
        if (i > 0) { /* none before the first event */
            ck_assert_int_eq(get(object, "compactions"), 2);
            ck_assert_int_ge(get(object, "compaction_won_bytes"), 0);
        }
        json_decref(object);
    }
    run("replay --driver sim --compact=short @", marked); /* that is --conf short:compact */
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "--compact"));
    unlink(marked);
}
END_TEST

START_TEST(a_failed_allocation_makes_the_status_1)
{
    run("replay --driver sim --json --allocator torch-native --memory 41M @", small);
    ck_assert_int_eq(child.status, 1);
    const char *at = child.out;
    json_t *object = next_object(&at);
    ck_assert_int_eq(get(object, "oom_count"), 1);
    ck_assert_int_eq(get(object, "memory_bytes"), INT64_C(41) << 20);
    json_decref(object);
    ck_assert_ptr_nonnull(strstr(child.err, "1 allocations failed"));
}
END_TEST

START_TEST(a_ratio_means_a_multiple_of_the_peak_in_whole_granules)
{
    run("replay --driver sim --json --memory 1.5x @", small);
    ck_assert_int_eq(child.status, 0);
    const char *at = child.out;
    json_t *object = next_object(&at);
    ck_assert_int_eq(get(object, "memory_bytes"), INT64_C(36) << 20);
    json_decref(object);
}
END_TEST

START_TEST(a_card_means_what_it_leaves_for_an_allocator)
{
    static const char *const names[] = { "80GB", "80gb" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, "replay --driver sim --json --card %s @", names[i]);
        run(line, small);
        ck_assert_int_eq(child.status, 0);
        const char *at = child.out;
        json_t *object = next_object(&at);
        ck_assert_int_eq(get(object, "memory_bytes"), (INT64_C(80896) - 512) << 20);
        json_decref(object);
    }
}
END_TEST

/* As `pleat ab` has it. */
START_TEST(cards_and_sizes_may_be_lists)
{
    static const int64_t sizes[] = { INT64_C(7936) - 512, INT64_C(22528) - 512 };
    run("replay --driver sim --json --card 8GB,24gb --allocator pleat,torch-native @", small);
    ck_assert_int_eq(child.status, 0);
    const char *at = child.out;
    for (unsigned i = 0; i < 4; i++) {
        json_t *object = next_object(&at);
        ck_assert_int_eq(get(object, "memory_bytes"), sizes[i / 2] << 20);
        ck_assert_str_eq(json_string_value(json_object_get(object, "allocator")),
                         i % 2 == 0 ? "pleat" : "torch-native");
        json_decref(object);
    }
    ck_assert_str_eq(at, "");
    run("replay --driver sim --memory 2x,unlimited @", small);
    ck_assert_int_eq(child.status, 0);
    run("replay --driver sim --card 8GB,9GB @", small);
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "--card: there is no card '9GB'"));
    run("replay --driver sim --json --card 24GB,24G,l4,RTX4090 @", small);
    ck_assert_int_eq(child.status, 0);
    static const double gib[] = { 21.5, 21.5, 21.5, 23.1 };
    const char *line = child.out;
    for (size_t i = 0; i < 4; i++, line = strchr(line, '\n') + 1) {
        json_t *card = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        double bytes = (double)json_integer_value(json_object_get(card, "memory_bytes"));
        ck_assert_double_eq_tol(bytes / (double)(1 << 30), gib[i], 0.01);
        json_decref(card);
    }
    run("replay --driver sim --card 8GB,24GB --snapshot /dev/null @", small);
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "--snapshot takes one size, not 2"));
}
END_TEST

START_TEST(tables_say_that_the_gpu_is_simulated)
{
    run("replay --driver sim @", small);
    ck_assert_int_eq(child.status, 0);
    ck_assert_ptr_nonnull(strstr(child.out, "SIMULATED GPU"));
    ck_assert_ptr_nonnull(strstr(child.out, "peak live"));
    ck_assert_str_eq(child.err, ""); /* no progress line without a terminal */
}
END_TEST

START_TEST(a_slip_of_the_pen_is_answered_with_what_was_meant)
{
    static const struct {
        const char *line;
        const char *answer;
    } slips[] = {
        { "replya @", "'replya' is not a command; did you mean 'replay'?" },
        { "bench pars", "'pars' is not known; did you mean 'pairs'?" },
        { "ab --memry 8G @", "unrecognized option '--memry'; did you mean '--memory'?" },
        { "ab --conf=x --mrge=y", "unrecognized option '--mrge'; did you mean '--merge'?" },
        { "fit --alocator=pleat @", "'--alocator'; did you mean '--allocator'?\nTry `pleat fit" },
        { "replay --out --memry @", "'--out'" },
        { "probe --qqqqqqqq", "unrecognized option '--qqqqqqqq'\n" },
        { "fit --allocator plaet @", "'plaet'; did you mean 'pleat'? known: pleat, " },
        { "replay chrun", "; did you mean 'churn'? patterns and generators: decoder" },
        { "replay decoder:layrs=2", "'layrs' is not a parameter; did you mean 'layers'? there" },
        { "replay --memory 0G @", "'0G' is no memory at all: write how much there is, as in 80G" },
    };
    for (size_t i = 0; i < sizeof slips / sizeof slips[0]; i++) {
        run(slips[i].line, small);
        ck_assert_msg(child.status == 2, "'%s': status %d: %s", slips[i].line, child.status,
                      child.err);
        ck_assert_msg(strstr(child.err, slips[i].answer) != NULL, "'%s': '%s' is not in '%s'",
                      slips[i].line, slips[i].answer, child.err);
    }
}
END_TEST

START_TEST(bad_usage_makes_the_status_2_and_names_the_culprit)
{
    static const struct {
        const char *line;
        const char *culprit;
    } bad[] = {
        { "", "Usage: pleat COMMAND" },
        { "frobnicate", "'frobnicate' is not a command" },
        { "bench", "a second word is missing; there is:\n  bench resident " },
        { "bench", "\n  bench tail " },
        { "bench sorting", "'sorting' is not known" },
        { "bench sorting", "\n  bench tail " },
        { "replay", "WORK is missing" },
        { "fit", "WORK is missing" },
        { "replay --frob @", "--frob" },
        { "replay --allocator pleat,best @", "'best'" },
        { "replay --allocator pleat, @", "''" },
        { "replay --allocator pleat,pleat @", "given twice" },
        { "replay --driver gpu @", "'gpu'" },
        { "replay --memory 12Q @", "'12Q'" },
        { "replay --memory 1.02 @", "'1.02'" },
        { "replay --memory -1 @", "'-1'" },
        { "replay --memory 80 @", "'80' lacks a unit, as in 80G" },
        { "replay --memory 80GB @", "write 80G (or 80GiB) for 1,024" },
        { "ab --memory 1.02x,80 @", "'80' lacks a unit, as in 80G" },
        { "replay --card 25GB @", "there is no card '25GB', but" },
        { "replay --card 80 @", ", 80 GB," },
        { "replay --loops 0 @", "'0'" },
        { "replay --loops 2x @", "'2x'" },
        { "replay --depth many @", "'many'" },
        { "fit --memory 1G @", "--memory" },
        { "replay --driver sim --conf growth:fast @", "growth" },
        { "replay --driver sim --conf allocator:mxnet-naive @", "--allocator mxnet-naive instead" },
        { "bench resident --blocks 9 --conf allocator:unpooled,growth:ample",
          "'allocator:unpooled': give the option --allocator unpooled instead" },
        { "probe --driver sim --conf allocator:pleat",
          "'allocator:pleat': this command has no choice" },
        { "probe --driver sim --sim profile:old_driver --conf shareable:True",
          "cannot export memory" },
        { "replay --driver sim --sim colour:red @", "colour" },
        { "replay --driver sim --sim capacity:1G @", "--memory" },
        { "replay no_such_trace", "no_such_trace: no such file" },
        { "bench resident", "--blocks N is missing" },
        { "bench resident --blocks none", "'none'" },
        { "bench driver --passes 1", "'1'" },
        { "bench driver --memory 12Q", "'12Q'" },
        { "bench driver --conf growth:ample", "'growth:ample': this command has no choice of" },
        { "bench driver --conf limit:1G,growth:ample,wait_ms:3", "'growth:ample': this command" },
        { "bench driver --conf allocator:pleat", "'allocator:pleat': this command has no choice" },
        { "demo extra", "" },
        { "probe extra", "" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        run(bad[i].line, small);
        ck_assert_msg(child.status == 2, "'%s': status %d: %s", bad[i].line, child.status,
                      child.err);
        ck_assert_str_eq(child.out, "");
        ck_assert_msg(strstr(child.err, bad[i].culprit) != NULL, "'%s': '%s' is not in '%s'",
                      bad[i].line, bad[i].culprit, child.err);
    }
}
END_TEST

START_TEST(every_bad_trace_is_told_with_file_and_line_before_anything_runs)
{
    static const char first_text[] = "a 1 512 0\nf 2\n";
    static const char second_text[] = "a 1 512 0\na 1 512 0\n";
    const char *first = bench_child_file(".trace", first_text, strlen(first_text));
    const char *second = bench_child_file(".trace", second_text, strlen(second_text));
    char line[512];
    snprintf(line, sizeof line, "replay --driver sim --json %s %s %s", small, first, second);
    bench_child_run(&child, line);
    ck_assert_int_eq(child.status, 2);
    ck_assert_str_eq(child.out, "");
    snprintf(line, sizeof line, "pleat: %s:2: unknown id 2\npleat: %s:2: id 1 is allocated twice\n",
             first, second);
    ck_assert_str_eq(child.err, line);
    unlink(first);
    unlink(second);
}
END_TEST

START_TEST(bench_resident_holds_its_free_blocks_and_makes_no_driver_call)
{
    run("bench resident --blocks 300 --pairs 2000 --no-callgrind --json", "");
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    const char *at = child.out;
    for (int i = 0; i < 2; i++) {
        json_t *object = next_object(&at);
        ck_assert_int_eq(get(object, "driver_calls"), 0);
        ck_assert_int_eq(get(object, "blocks"), 300);
        ck_assert_int_ge(get(object, "free_blocks_start"), 290);
        ck_assert_int_le(get(object, "free_blocks_start"), 350);
        ck_assert_int_ge(get(object, "free_blocks_end"), 290);
        ck_assert_int_le(get(object, "free_blocks_end"), 350);
        ck_assert(json_is_null(json_object_get(object, "instructions_per_pair")));
        json_decref(object);
    }
    ck_assert_str_eq(at, "");
}
END_TEST

static double real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_real(value), "%s", key);
    return json_real_value(value);
}

/* A work whose second pass needs the driver again under tight memory. */
#define CHURN "churn:iterations=6,allocations=60,least=1M,most=40M,streams=2"

/* The objects of `bench driver MORE` equal the output of `replay COSTS` under each policy. */
static void check_driver(const char *more, const char *costs)
{
    static const struct {
        const char *allocator;
        const char *conf;
    } rows[] = { { "pleat", "growth:balanced" },
                 { "pleat", "growth:frugal" },
                 { "pleat", "growth:ample" },
                 { "torch-expandable", "" } };
    static char said[sizeof child.out];
    static const char *const same[] = { "driver_ms", "later_driver_ms" };
    char line[1024];
    snprintf(line, sizeof line, "bench driver --passes 3 --memory 1.3x --json %s " CHURN, more);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    strcpy(said, child.out);
    const char *at = said;
    for (int i = 0; i < 4; i++) {
        json_t *row = next_object(&at);
        ck_assert_str_eq(json_string_value(json_object_get(row, "conf")), rows[i].conf);
        snprintf(line, sizeof line,
                 "replay --driver sim --loops 3 --memory 1.3x --json --sim %s --allocator %s "
                 "--conf '%s' " CHURN,
                 costs, rows[i].allocator, rows[i].conf);
        bench_child_run(&child, line);
        ck_assert_msg(child.status == 0, "%s: %s", line, child.err);
        const char *replayed_at = child.out;
        json_t *replayed = next_object(&replayed_at);
        for (int k = 0; k < 2; k++) {
            double wanted = real(replayed, same[k]);
            ck_assert_double_eq_tol(real(row, same[k]), wanted, 1e-6 * wanted + 1e-9);
        }
        double first_ms = real(row, "driver_ms");
        double gib = (double)get(row, "bytes_created") / (1 << 30);
        ck_assert_double_gt(first_ms, 0);
        ck_assert_double_eq_tol(real(row, "driver_ms_per_gib"), first_ms / gib, 1e-6 * first_ms);
        ck_assert_int_eq(get(row, "iterations"), 6);
        ck_assert_double_eq_tol(real(row, "later_driver_ms_per_iteration"),
                                real(row, "later_driver_ms") / 6, 1e-6);
        ck_assert_double_gt(real(row, "longest_driver_ms"), 0);
        ck_assert_double_le(real(row, "longest_driver_ms"), first_ms);
        json_decref(replayed);
        json_decref(row);
    }
    ck_assert_str_eq(at, "");
}

START_TEST(bench_driver_tells_what_replay_tells_under_the_costs_that_are_named)
{
    check_driver("", "costs:driver580");
    check_driver("--sim costs:gb10", "costs:gb10");
    ck_assert_int_eq(setenv("PLEAT_SIM", "costs:a100", 1), 0);
    check_driver("", "costs:a100");
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
}
END_TEST

START_TEST(bench_driver_sums_up_the_bundled_traces)
{
    char folder[] = "/tmp/pleat-test-XXXXXX";
    char path[2][64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/small%d.trace", folder, i);
        ck_assert_int_eq(link(small, path[i]), 0);
    }
    ck_assert_int_eq(setenv("PLEAT_TRACES", folder, 1), 0);
    bench_child_run(&child, "bench driver");
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    ck_assert_ptr_nonnull(strstr(child.out, "costs:driver580; 2 passes"));
    static const char *const wanted[] = { "small0  ", "small1  ", "all of them  " };
    double ms[3];
    for (int i = 0; i < 3; i++) {
        const char *row = strstr(child.out, wanted[i]);
        ck_assert_msg(row != NULL, "no '%s' in: %s", wanted[i], child.out);
        ck_assert_int_eq(sscanf(strstr(row, "balanced"), "balanced %*d %*f %lf", &ms[i]), 1);
    }
    ck_assert_double_gt(ms[0], 0);
    ck_assert_double_eq_tol(ms[2], ms[0] + ms[1], 0.011);
    for (int i = 0; i < 2; i++) {
        unlink(path[i]);
    }
    rmdir(folder);
    ck_assert_int_eq(unsetenv("PLEAT_TRACES"), 0);
}
END_TEST

START_TEST(probe_says_that_the_gpu_is_simulated_and_writes_costs_that_it_reads)
{
    const char *path = bench_child_file(".txt", "", 0);
    run("probe --driver sim --seconds 3600 --json --cost-file @", path);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    const char *at = child.out;
    json_t *object = next_object(&at);
    ck_assert_str_eq(json_string_value(json_object_get(object, "driver")), "sim");
    ck_assert(json_is_true(json_object_get(object, "vmm")));
    ck_assert_uint_gt(json_array_size(json_object_get(object, "rows")), 0);
    json_decref(object);
    char line[256];
    const char *const costs[] = { path, "a100" };
    double ms[2];
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "replay --driver sim --json --sim costs:%s %s", costs[i],
                 small);
        bench_child_run(&child, line);
        ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
        at = child.out;
        object = next_object(&at);
        ms[i] = json_real_value(json_object_get(object, "driver_ms"));
        json_decref(object);
    }
    ck_assert_double_gt(ms[1], 0);
    ck_assert_double_eq_tol(ms[0], ms[1], 0.001 * ms[1]); /* the costs that were probed */
    unlink(path);
}
END_TEST

START_TEST(probe_gives_one_reason_where_mapping_does_not_work)
{
    run("probe --driver sim --sim profile:no_vmm", "");
    ck_assert_int_eq(child.status, 1);
    ck_assert_ptr_nonnull(strstr(child.out, "SIMULATED GPU"));
    ck_assert_ptr_nonnull(strstr(child.err, "virtual memory management does not work"));
}
END_TEST

START_TEST(demo_compares_the_allocators_on_every_bundled_trace)
{
    char folder[] = "/tmp/pleat-test-XXXXXX";
    char path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/small.trace.gz", folder);
    ck_assert_int_eq(link(small, path), 0);
    ck_assert_int_eq(setenv("PLEAT_TRACES", folder, 1), 0);
    const char *csv = bench_child_file(".csv", "", 0);
    run("demo --driver sim --csv @", csv);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
    ck_assert_ptr_nonnull(strstr(child.out, "SIMULATED GPU"));
    static const char *const wanted[] = { "small                    pleat",
                                          "small                    torch-native",
                                          "geometric mean",
                                          "42.000 MiB",
                                          "pleat fails on 1 of these 1 runs and ",
                                          "Next, record a run of your own (docs/benchmarks.md)" };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ck_assert_msg(strstr(child.out, wanted[i]) != NULL, "no '%s' in: %s", wanted[i], child.out);
    }
    ck_assert_ptr_nonnull(strstr(child.err, "[ 2/2] small.trace.gz"));
    char rows[4096];
    FILE *file = fopen(csv, "r");
    ck_assert_ptr_nonnull(file);
    rows[fread(rows, 1, sizeof rows - 1, file)] = '\0';
    fclose(file);
    ck_assert_ptr_nonnull(strstr(rows, "\nsmall,torch-native,sim,6,24001024,44040192,"));
    unlink(csv);
    unlink(path);
    rmdir(folder);
}
END_TEST

START_TEST(help_and_version_succeed)
{
    static const char *const good[] = {
        "--help",       "--version",         "replay --help",         "fit --help",
        "probe --help", "demo --help",       "bench resident --help", "bench driver --help",
        "bench --help", "bench pairs --help"
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        bench_child_run(&child, good[i]);
        ck_assert_msg(child.status == 0, "%s: %d", good[i], child.status);
        ck_assert_str_ne(child.out, "");
        ck_assert_str_eq(child.err, "");
    }
}
END_TEST

SUITE(bench_command)
{
    TCase *output = tcase_create("output");
    tcase_add_checked_fixture(output, set_up, tear_down);
    tcase_add_test(output, replay_prints_one_object_for_each_work_and_allocator);
    tcase_add_test(output, the_allocators_own_time_is_told_where_it_is_asked_for);
    tcase_add_test(output, calls_are_told_for_every_entry_point);
    tcase_add_test(output, fit_adds_the_least_memory_and_its_ratio);
    tcase_add_test(output, compactions_between_iterations_are_counted);
    tcase_add_test(output, a_failed_allocation_makes_the_status_1);
    tcase_add_test(output, a_ratio_means_a_multiple_of_the_peak_in_whole_granules);
    tcase_add_test(output, a_card_means_what_it_leaves_for_an_allocator);
    tcase_add_test(output, cards_and_sizes_may_be_lists);
    tcase_add_test(output, tables_say_that_the_gpu_is_simulated);
    suite_add_tcase(suite, output);
    TCase *usage = tcase_create("usage");
    tcase_add_checked_fixture(usage, set_up, tear_down);
    tcase_add_test(usage, bad_usage_makes_the_status_2_and_names_the_culprit);
    tcase_add_test(usage, a_slip_of_the_pen_is_answered_with_what_was_meant);
    tcase_add_test(usage, every_bad_trace_is_told_with_file_and_line_before_anything_runs);
    tcase_add_test(usage, help_and_version_succeed);
    suite_add_tcase(suite, usage);
    TCase *others = tcase_create("bench_and_probe");
    tcase_add_checked_fixture(others, set_up, tear_down);
    tcase_add_test(others, bench_resident_holds_its_free_blocks_and_makes_no_driver_call);
    tcase_add_test(others, bench_driver_tells_what_replay_tells_under_the_costs_that_are_named);
    tcase_add_test(others, bench_driver_sums_up_the_bundled_traces);
    tcase_add_test(others, demo_compares_the_allocators_on_every_bundled_trace);
    tcase_add_test(others, probe_says_that_the_gpu_is_simulated_and_writes_costs_that_it_reads);
    tcase_add_test(others, probe_gives_one_reason_where_mapping_does_not_work);
    suite_add_tcase(suite, others);
}

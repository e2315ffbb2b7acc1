/* tracer_test.c - timelines in the trace-event format: the format's rules, and the replay's
 * figures. */
/* labels: unit long */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/parse_options.h"
#include "bench/run/replay.h"
#include "bench/work/inflate.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_sim.h"
#include "tests/support/suite.h"

static bench_setup setup;
static bench_work work;
static bench_record record;
static bench_failure failure;
static bench_timeline timeline;
static char path[64];

/* A file's content about one process. */
typedef struct seen {
    uint64_t n_events;
    uint64_t n_counters;
    uint64_t n_slices;
    uint64_t n_calls;
    uint64_t n_refused;
    uint64_t n_iterations;
    uint64_t created_bytes;
    double slices_us;
    double last_us;
    uint64_t peak[BENCH_N_LEVELS];
    uint64_t now[BENCH_N_LEVELS];
    bool has[BENCH_N_LEVELS];
    char name[128];
} seen;

static void set_up(void)
{
    bench_sim_setup(&setup);
    static const char spec[] = "churn:iterations=80,allocations=60,least=2M,most=32M,streams=2";
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s", failure.text);
    snprintf(path, sizeof path, "%s", bench_child_file(".json", "", 0));
}

static void tear_down(void)
{
    unlink(path);
    bench_work_close(&work);
}

static void replay(const char *allocator, uint64_t memory_bytes, unsigned loops)
{
    bench_tracer tracer;
    bench_replay_options options = {
        .setup = &setup,
        .allocator = allocator,
        .memory_bytes = memory_bytes,
        .loops = loops,
        .timeline = &timeline,
        .tracer = &tracer,
    };
    ck_assert_msg(bench_tracer_open(&tracer, path, &failure), "%s", failure.text);
    ck_assert_msg(bench_replay(&work, &options, &record, &failure), "%s", failure.text);
    ck_assert_msg(bench_tracer_close(&tracer, &failure), "%s", failure.text);
}

/* ---- the rules of the format ----------------------------------------------------------------- */

static double number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    ck_assert_msg(json_is_number(value), "no number '%s'", key);
    return json_number_value(value);
}

static const char *text(const json_t *event, const char *key)
{
    const char *value = json_string_value(json_object_get(event, key));
    ck_assert_msg(value != NULL, "no text '%s'", key);
    return value;
}

static void read_counter(const json_t *event, seen *out)
{
    static const char *const names[] = { "live", "resident", "mapped", "idle", "pending" };
    const json_t *args = json_object_get(event, "args");
    ck_assert_uint_eq(json_object_size(args), 1);
    double bytes = number(args, "bytes");
    int level = 0;
    while (level < BENCH_N_LEVELS && strcmp(names[level], text(event, "name")) != 0) {
        level++;
    }
    ck_assert_int_lt(level, BENCH_N_LEVELS);
    ck_assert_double_ge(bytes, 0.0);
    out->now[level] = (uint64_t)bytes;
    out->has[level] = true;
    out->peak[level] = out->now[level] > out->peak[level] ? out->now[level] : out->peak[level];
    out->n_counters++;
}

static void read_slice(const json_t *event, seen *out)
{
    const char *name = text(event, "name");
    ck_assert_double_ge(number(event, "dur"), 0.0);
    if (strncmp(name, "iteration ", 10) == 0) {
        out->n_iterations++;
        return;
    }
    const json_t *args = json_object_get(event, "args");
    out->n_slices++;
    out->n_calls += (uint64_t)number(args, "calls");
    out->slices_us += number(event, "dur");
    bool is_created = strcmp(name, "cuMemCreate") == 0 || strcmp(name, "cuMemAlloc") == 0;
    bool is_good = json_object_get(args, "result") == NULL;
    out->created_bytes += is_created && is_good ? (uint64_t)number(args, "bytes") : 0;
}

/* The track of an event. Each counter has a separate track. */
static const char *track_of(const json_t *event, char *key, size_t n)
{
    bool is_counter = strcmp(text(event, "ph"), "C") == 0;
    snprintf(key, n, "%d %d %s", (int)number(event, "pid"), (int)number(event, "tid"),
             is_counter ? text(event, "name") : "");
    return key;
}

/* On a track nothing begins before what came earlier, or in the middle of a slice. */
static void check_order(const json_t *event, json_t *ends)
{
    char key[64];
    double ts = number(event, "ts");
    const json_t *end = json_object_get(ends, track_of(event, key, sizeof key));
    ck_assert_msg(!end || ts >= json_real_value(end) - 1e-4, "track %s: %f after %f", key, ts,
                  json_real_value(end));
    bool is_slice = strcmp(text(event, "ph"), "X") == 0;
    json_object_set_new(ends, key, json_real(ts + (is_slice ? number(event, "dur") : 0.0)));
}

static void read_event(const json_t *event, json_t *ends, seen *all)
{
    double pid = number(event, "pid");
    const char *kind = text(event, "ph");
    double ts = number(event, "ts");
    ck_assert(json_is_integer(json_object_get(event, "pid")) && pid >= 1.0 && pid <= 4.0);
    ck_assert(json_is_integer(json_object_get(event, "tid")));
    ck_assert(json_is_object(json_object_get(event, "args")));
    ck_assert(isfinite(ts) && ts >= 0.0);
    seen *out = &all[(int)pid - 1];
    out->n_events++;
    switch (kind[0]) {
    case 'M':
        ck_assert_double_eq(ts, 0.0);
        if (strcmp(text(event, "name"), "process_name") == 0) {
            snprintf(out->name, sizeof out->name, "%s",
                     text(json_object_get(event, "args"), "name"));
        }
        return;
    case 'C':
        read_counter(event, out);
        break;
    case 'X':
        read_slice(event, out);
        break;
    case 'i':
        ck_assert_str_eq(text(event, "s"), "p");
        ck_assert_str_eq(text(event, "name"), "refused");
        out->n_refused++;
        break;
    default:
        ck_abort_msg("a phase '%s'", kind);
    }
    ck_assert_uint_eq(strlen(kind), 1);
    out->last_us = ts > out->last_us ? ts : out->last_us;
    check_order(event, ends);
}

static void read_array(const json_t *array, seen *all)
{
    ck_assert(json_is_array(array));
    json_t *ends = json_object();
    for (size_t i = 0; i < json_array_size(array); i++) {
        read_event(json_array_get(array, i), ends, all);
    }
    json_decref(ends);
}

static void read_file(seen *all, size_t n)
{
    json_error_t error;
    memset(all, 0, n * sizeof *all);
    json_t *array = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(array != NULL, "%s:%d: %s", path, error.line, error.text);
    read_array(array, all);
    json_decref(array);
}

static uint64_t most_resident(void)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < timeline.n_buckets; i++) {
        uint64_t bytes = timeline.buckets[i].resident_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* ---- the replay's own figures ---------------------------------------------------------------- */

START_TEST(a_timeline_tells_the_figures_of_the_replay)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    seen all[4];
    replay(pl_allocator_name((unsigned)_i), 0, 2);
    read_file(all, 4);
    const seen *of = &all[0];
    ck_assert_uint_eq(record.oom_count, 0);
    ck_assert_uint_eq(of->n_refused, 0);
    ck_assert_uint_eq(of->n_iterations, 160);
    ck_assert_uint_eq(of->peak[BENCH_LEVEL_LIVE], record.peak_live_bytes);
    ck_assert_uint_eq(of->peak[BENCH_LEVEL_RESIDENT], most_resident());
    ck_assert_uint_le(of->peak[BENCH_LEVEL_RESIDENT], record.peak_reserved_bytes);
    ck_assert_uint_eq(of->now[BENCH_LEVEL_LIVE], 0);
    ck_assert_uint_eq(of->now[BENCH_LEVEL_RESIDENT],
                      of->now[BENCH_LEVEL_MAPPED] + of->now[BENCH_LEVEL_IDLE]);
    ck_assert_double_eq_tol(of->slices_us, record.driver_us, 1e-6 * record.driver_us + 0.5);
    double axis_us = record.driver_us + BENCH_EVENT_US * (double)record.n_events;
    ck_assert_double_le(of->last_us, axis_us + 1.0);
    bool is_async = strcmp(record.allocator, "cuda-async") == 0; /* its pool grows by itself */
    if (!is_async) {
        ck_assert_uint_eq(of->created_bytes, record.bytes_created);
    }
    ck_assert_uint_eq(all[1].n_events, 0);
}
END_TEST

START_TEST(each_refused_allocation_is_an_instant)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    seen all[4];
    replay(pl_allocator_name((unsigned)_i), work.peak_live_bytes / 10 * 9, 1);
    read_file(all, 4);
    ck_assert_uint_gt(record.oom_count, 0);
    ck_assert_uint_eq(all[0].n_refused, record.oom_count);
    ck_assert_uint_lt(all[0].peak[BENCH_LEVEL_LIVE], work.peak_live_bytes);
}
END_TEST

START_TEST(watching_changes_nothing_that_is_counted)
{
    if (!suite_is_turn(_i)) {
        return;
    }
    const char *allocator = pl_allocator_name((unsigned)_i);
    replay(allocator, 0, 1);
    bench_record with = record;
    bench_replay_options options = { .setup = &setup, .allocator = allocator, .loops = 1 };
    ck_assert_msg(bench_replay(&work, &options, &record, &failure), "%s", failure.text);
    ck_assert_uint_eq(record.peak_reserved_bytes, with.peak_reserved_bytes);
    ck_assert_uint_eq(record.bytes_mapped, with.bytes_mapped);
    ck_assert_double_eq(record.driver_us, with.driver_us);
    ck_assert_mem_eq(record.calls, with.calls, sizeof record.calls);
}
END_TEST

/* ---- size and command ------------------------------------------------------------------------ */

START_TEST(a_long_run_is_thinned_and_keeps_its_peaks)
{
    seen all[4];
    bench_work_close(&work);
    static const char spec[] = "churn:iterations=2000,allocations=60,streams=2";
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s", failure.text);
    ck_assert_uint_gt(work.n_events, 200000);
    replay("pleat", 0, 1);
    read_file(all, 4);
    ck_assert_uint_eq(all[0].peak[BENCH_LEVEL_LIVE], record.peak_live_bytes);
    ck_assert_uint_eq(all[0].peak[BENCH_LEVEL_RESIDENT], most_resident());
    uint64_t most = (uint64_t)BENCH_N_LEVELS * (3 * BENCH_MOST_MOMENTS + 2);
    ck_assert_uint_le(all[0].n_counters, most);
    ck_assert_uint_gt(all[0].n_counters, BENCH_MOST_MOMENTS);
}
END_TEST

START_TEST(the_command_writes_a_process_for_each_replay)
{
    bench_child child;
    seen all[4];
    char line[256];
    snprintf(line, sizeof line,
             "replay pytorch#35901 churn:iterations=5 --driver sim --allocator pleat,torch-native "
             "--timeline %s",
             path);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%s", child.err);
    read_file(all, 4);
    ck_assert_str_eq(all[0].name, "pytorch#35901: pleat");
    ck_assert_str_eq(all[1].name, "pytorch#35901: torch-native");
    ck_assert_str_eq(all[3].name, "churn:iterations=5: torch-native");
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_gt(all[i].n_slices, 0);
        ck_assert_uint_gt(all[i].peak[BENCH_LEVEL_LIVE], 0);
    }
}
END_TEST

START_TEST(an_ending_in_gz_means_gzip)
{
    bench_child child;
    char line[256];
    snprintf(path, sizeof path, "%s", bench_child_file(".json.gz", "", 0));
    snprintf(line, sizeof line, "replay churn:iterations=5 --driver sim --timeline %s", path);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%s", child.err);
    gzFile file = gzopen(path, "rb");
    enum { ROOM = 1 << 22 };
    char *content = malloc(ROOM);
    ck_assert(file && content);
    ck_assert_int_eq(gzdirect(file), 0);
    int n = gzread(file, content, ROOM);
    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, ROOM);
    gzclose(file);
    seen all[4] = { 0 };
    json_t *array = json_loadb(content, (size_t)n, 0, NULL);
    read_array(array, all);
    ck_assert_uint_gt(all[0].n_counters, 0);
    json_decref(array);
    free(content);
}
END_TEST

START_TEST(a_file_that_cannot_be_written_is_one_line_and_status_1)
{
    static const struct {
        const char *to;
        const char *why;
    } cases[] = { { "/no/folder/t.json", "/no/folder/t.json: No such file" },
                  { "/dev/full", "/dev/full: No space left" } };
    bench_child child;
    char line[256];
    snprintf(line, sizeof line, "replay churn:iterations=50 --driver sim --timeline %s",
             cases[_i].to);
    bench_child_run(&child, line);
    ck_assert_int_eq(child.status, 1);
    const char *why = strstr(child.err, cases[_i].why);
    ck_assert_msg(why != NULL, "%s", child.err);
    ck_assert_msg(strstr(why + 1, "pleat:") == NULL, "%s", child.err);
}
END_TEST

START_TEST(a_work_is_not_replaced_by_its_own_timeline)
{
    static const char trace[] = "pleat-trace 1\na 1 4096\nf 1\n";
    bench_child child;
    char line[256];
    char got[64] = "";
    const char *own = bench_child_file(".trace", trace, sizeof trace - 1);
    snprintf(line, sizeof line, "replay %s --driver sim --timeline %s", own, own);
    bench_child_run(&child, line);
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "is the work itself; name another file"));
    FILE *file = fopen(own, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(got, 1, sizeof got - 1, file), sizeof trace - 1);
    fclose(file);
    ck_assert_str_eq(got, trace);
    unlink(own);
}
END_TEST

SUITE(bench_tracer)
{
    int n_allocators = 0;
    while (pl_allocator_name((unsigned)n_allocators)) {
        n_allocators++;
    }
    TCase *figures = tcase_create("figures");
    tcase_add_checked_fixture(figures, set_up, tear_down);
    tcase_add_loop_test(figures, a_timeline_tells_the_figures_of_the_replay, 0, n_allocators);
    tcase_add_loop_test(figures, each_refused_allocation_is_an_instant, 0, n_allocators);
    tcase_add_loop_test(figures, watching_changes_nothing_that_is_counted, 0, n_allocators);
    tcase_add_test(figures, a_long_run_is_thinned_and_keeps_its_peaks);
    suite_add_tcase(suite, figures);
    TCase *command = tcase_create("command");
    tcase_add_checked_fixture(command, set_up, tear_down);
    tcase_add_test(command, the_command_writes_a_process_for_each_replay);
    tcase_add_test(command, an_ending_in_gz_means_gzip);
    tcase_add_loop_test(command, a_file_that_cannot_be_written_is_one_line_and_status_1, 0, 2);
    tcase_add_test(command, a_work_is_not_replaced_by_its_own_timeline);
    suite_add_tcase(suite, command);
}

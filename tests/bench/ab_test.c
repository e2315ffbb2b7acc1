/* ab_test.c - `pleat ab`: its files agree with `pleat replay`, and early ends leave valid files. */
/* labels: unit long */
#include <check.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/run/workers.h"
#include "segments/base/allocator.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

#define CHURN "churn:iterations=20,allocations=50,keep=0.2"

enum { MOST_LINES = 64 };

static bench_child child;
static char folder[64]; /* holds all files that a test writes */
static char out[128];   /* --out */
static json_t *lines[MOST_LINES];
static unsigned n_lines;

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/pleat-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(out, sizeof out, "%s/out", folder);
    ck_assert_int_eq(setenv("PLEAT_TRACES", PLEAT_SOURCE_DIR "/bench/traces", 1), 0);
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
}

static void forget_lines(void)
{
    while (n_lines > 0) {
        json_decref(lines[--n_lines]);
    }
}

static const char *path_of(const char *name)
{
    static char path[192];
    snprintf(path, sizeof path, "%s/%s", out, name);
    return path;
}

static void tear_down(void)
{
    static const char *const names[] = { "results.csv",   "results.jsonl",  "timelines.jsonl",
                                         "moments.jsonl", "verdicts.jsonl", "report.html",
                                         "closer.html",   "report.py",      "blocks.jsonl",
                                         "blocks.html" };
    forget_lines();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unlink(path_of(names[i]));
    }
    rmdir(out);
    ck_assert_int_eq(rmdir(folder), 0); /* no other file is left */
}

static void run(const char *rest)
{
    char line[2048];
    snprintf(line, sizeof line, "ab --driver sim --out %s %s", out, rest);
    bench_child_run(&child, line);
}

static void run_well(const char *rest)
{
    run(rest);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
}

/* Reads the file into `lines`: every line is an object. */
static void read_lines(const char *name)
{
    forget_lines();
    FILE *file = fopen(path_of(name), "r");
    ck_assert_msg(file != NULL, "%s", name);
    char *text = NULL;
    size_t capacity = 0;
    json_error_t error;
    for (ssize_t n; (n = getline(&text, &capacity, file)) > 0;) {
        ck_assert_int_eq(text[n - 1], '\n');
        ck_assert_uint_lt(n_lines, MOST_LINES);
        lines[n_lines] = json_loadb(text, (size_t)n, 0, &error);
        ck_assert_msg(json_is_object(lines[n_lines]), "%s: %s", name, error.text);
        n_lines++;
    }
    free(text);
    fclose(file);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    ck_assert_msg(text != NULL, "%s", key);
    return text;
}

static json_int_t get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_integer(value), "%s", key);
    return json_integer_value(value);
}

static json_int_t n_ops(const json_t *cell)
{
    const json_t *ops = json_object_get(cell, "device_ops");
    return get(ops, "map") + get(ops, "unmap") + get(ops, "alloc") + get(ops, "free");
}

/* All values are equal, except the later pass, which `replay` makes only on request. */
static void check_alike(const json_t *cell, const json_t *replayed)
{
    const char *key;
    const json_t *value;
    ck_assert_uint_ge(json_object_size(replayed), 17);
    json_object_foreach((json_t *)replayed, key, value)
    {
        if (strcmp(key, "later_driver_ms") != 0) {
            ck_assert_msg(json_equal(json_object_get(cell, key), value), "%s: %s, %s, %s", key,
                          text_of(cell, "trace"), text_of(cell, "allocator"),
                          text_of(cell, "memory"));
        }
    }
}

static const char *const allocators[] = { "pleat", "torch-native" };

/* The report of `pleat replay` on the work. The caller owns the object. */
static json_t *replay(const char *allocator, const char *memory, const char *work)
{
    char line[512];
    snprintf(line, sizeof line, "replay --driver sim --json --allocator %s --memory %s %s",
             allocator, memory, work);
    bench_child_run(&child, line);
    json_error_t error;
    json_t *replayed = json_loads(child.out, 0, &error);
    ck_assert_msg(replayed != NULL, "%s: %s", line, child.err);
    return replayed;
}

START_TEST(every_cell_is_what_replay_says)
{
    static const char *const works[] = { "gpt2s_tiny", CHURN };
    static const char *const memories[] = { "1.02x", "unlimited" };
    run_well(
        "--allocator pleat,torch-native --no-report --memory 1.02x,unlimited gpt2s_tiny " CHURN);
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 8);
    unsigned n_failing = 0;
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_str_eq(text_of(lines[i], "trace"), works[i / 4]);
        ck_assert_str_eq(text_of(lines[i], "allocator"), allocators[i / 2 % 2]);
        ck_assert_str_eq(text_of(lines[i], "memory"), memories[i % 2]);
        ck_assert(json_real_value(json_object_get(lines[i], "seconds")) > 0.0);
        ck_assert_int_eq(get(lines[i], "repeats"), 1);
        ck_assert_ptr_null(json_object_get(lines[i], "least_memory_bytes"));
        json_t *replayed = replay(allocators[i / 2 % 2], memories[i % 2], works[i / 4]);
        check_alike(lines[i], replayed);
        n_failing += get(lines[i], "oom_count") > 0;
        json_decref(replayed);
    }
    ck_assert_uint_gt(n_failing, 0); /* a failed request is no failure of the command */
}
END_TEST

START_TEST(a_later_pass_is_measured_for_the_drivers_time_alone)
{
    static const char cell[] = "--allocator unpooled --no-report --memory 1.5x " CHURN;
    char line[512];
    run_well(cell);
    read_lines("results.jsonl");
    json_t *twice = json_incref(lines[0]);
    snprintf(line, sizeof line, "--loops 1 %s", cell);
    run_well(line);
    read_lines("results.jsonl");
    ck_assert(json_is_null(json_object_get(lines[0], "later_driver_ms")));
    json_t *once = replay("unpooled", "1.5x", CHURN);
    check_alike(twice, once);
    json_decref(once);
    bench_child_run(&child, "replay --driver sim --json --loops 2 --allocator unpooled "
                            "--memory 1.5x " CHURN);
    json_error_t error;
    json_t *loops = json_loads(child.out, 0, &error);
    static const char *const keys[] = { "driver_ms", "later_driver_ms" };
    for (int i = 0; i < 2; i++) {
        double wanted = json_real_value(json_object_get(loops, keys[i]));
        ck_assert_double_gt(wanted, 0);
        ck_assert_double_eq_tol(json_real_value(json_object_get(twice, keys[i])), wanted,
                                1e-6 * wanted);
    }
    json_decref(loops);
    json_decref(twice);
}
END_TEST

#define TWO_CHURNS CHURN " " CHURN ",streams=2"

static const char two_by_two[] = "--allocator pleat,torch-native --no-report " TWO_CHURNS;

/* Splits a row in place; a quoted field may hold commas. */
static unsigned split_row(char *row, char **fields, unsigned most)
{
    unsigned n = 0;
    for (char *p = row; n < most; p++) {
        bool is_quoted = *p == '"';
        p += is_quoted;
        fields[n++] = p;
        p += strcspn(p, is_quoted ? "\"" : ",\n");
        if (is_quoted) {
            *p++ = '\0';
        }
        if (*p == '\n' || *p == '\0') {
            *p = '\0';
            break;
        }
        *p = '\0';
    }
    return n;
}

START_TEST(the_csv_says_what_the_json_lines_say)
{
    enum { MOST_FIELDS = 34 };
    bool is_timed = _i == 1;
    unsigned n_fields = is_timed ? MOST_FIELDS : MOST_FIELDS - 3;
    char words[512];
    snprintf(words, sizeof words, "--time %d %s", is_timed ? 2 : 0, two_by_two);
    run_well(words);
    read_lines("results.jsonl");
    FILE *file = fopen(path_of("results.csv"), "r");
    ck_assert_ptr_nonnull(file);
    char heading[1024];
    char row[1024];
    char *names[MOST_FIELDS + 1];
    char *fields[MOST_FIELDS + 1];
    ck_assert_ptr_nonnull(fgets(heading, sizeof heading, file));
    ck_assert_uint_eq(split_row(heading, names, MOST_FIELDS + 1), n_fields);
    ck_assert_str_eq(names[9], "failures");
    ck_assert_str_eq(names[10], "device_ops");
    ck_assert_str_eq(names[17], "driver_ms");
    ck_assert_str_eq(names[20], "later_driver_ms");
    for (unsigned i = 0; i < n_lines; i++) {
        ck_assert_ptr_nonnull(fgets(row, sizeof row, file));
        ck_assert_uint_eq(split_row(row, fields, MOST_FIELDS + 1), n_fields);
        ck_assert_str_eq(fields[0], text_of(lines[i], "trace"));
        ck_assert_str_eq(fields[1], text_of(lines[i], "allocator"));
        ck_assert_str_eq(fields[3], text_of(lines[i], "memory"));
        ck_assert_int_eq(atoll(fields[4]), get(lines[i], "memory_bytes"));
        ck_assert_int_eq(atoll(fields[7]), get(lines[i], "peak_reserved_bytes"));
        ck_assert_int_eq(atoll(fields[9]), get(lines[i], "oom_count"));
        ck_assert_int_eq(atoll(fields[10]), n_ops(lines[i]));
        ck_assert_int_eq(atoll(fields[13]), get(lines[i], "bytes_mapped"));
        ck_assert_int_eq(atoll(fields[16]), get(lines[i], "hazards"));
        for (unsigned k = 17; k <= 20; k += 3) {
            double ms = json_real_value(json_object_get(lines[i], names[k]));
            ck_assert_double_eq_tol(strtod(fields[k], NULL), ms, 1e-6 * ms + 1e-9);
        }
        const json_t *own = json_object_get(lines[i], "allocator_ns_per_event");
        ck_assert(is_timed == (own != NULL));
        if (is_timed) {
            double ns = json_real_value(json_object_get(own, "least"));
            ck_assert_str_eq(names[24], "allocator_ns_per_event_least");
            ck_assert_double_eq_tol(strtod(fields[24], NULL), ns, 1e-6 * ns);
            ck_assert_str_eq(fields[26], "2");
        }
        ck_assert_str_eq(fields[n_fields - 4], "1");
        ck_assert_str_eq(fields[n_fields - 1], "");
    }
    ck_assert_ptr_null(fgets(row, sizeof row, file));
    fclose(file);
}
END_TEST

static json_int_t sum_of(const json_t *buckets, const char *key)
{
    json_int_t total = 0;
    size_t i;
    const json_t *value;
    json_array_foreach(json_object_get(buckets, key), i, value)
    {
        total += json_integer_value(value);
    }
    return total;
}

START_TEST(the_unlimited_and_the_tightest_size_have_a_timeline)
{
    run_well(two_by_two);
    read_lines("timelines.jsonl");
    ck_assert_uint_eq(n_lines, 9);
    ck_assert_str_eq(text_of(lines[0], "driver"), "sim");
    ck_assert_int_eq(get(lines[0], "cells"), 16);
    ck_assert_int_eq(get(lines[0], "measured"), 16);
    ck_assert(json_is_false(json_object_get(lines[0], "is_interrupted")));
    for (unsigned i = 1; i < 9; i++) {
        const char *work = i < 5 ? CHURN : CHURN ",streams=2";
        const char *memory = i % 2 ? "1.02x" : "unlimited";
        const char *allocator = allocators[(i - 1) / 2 % 2];
        ck_assert_str_eq(text_of(lines[i], "work"), work);
        ck_assert_str_eq(text_of(lines[i], "allocator"), allocator);
        ck_assert_str_eq(text_of(lines[i], "memory"), memory);
        json_t *replayed = replay(allocator, memory, work);
        const json_t *buckets = json_object_get(lines[i], "buckets");
        ck_assert_int_eq(sum_of(buckets, "failures"), get(replayed, "oom_count"));
        ck_assert_int_eq(sum_of(buckets, "ops"), n_ops(replayed));
        ck_assert_int_eq(sum_of(buckets, "syncs"), get(replayed, "host_syncs"));
        ck_assert_int_eq(get(lines[i], "n_events"), get(replayed, "events"));
        ck_assert_int_eq(get(lines[i], "memory_bytes"), get(replayed, "memory_bytes"));
        json_decref(replayed);
    }
}
END_TEST

START_TEST(fit_adds_the_least_memory_to_every_cell)
{
    run_well("--allocator torch-native --no-report --fit --memory 2x,unlimited " CHURN);
    ck_assert_ptr_nonnull(strstr(child.out, "  least\n"));
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 2);
    bench_child_run(&child, "fit --driver sim --json --allocator torch-native " CHURN);
    json_error_t error;
    json_t *fit = json_loads(child.out, 0, &error);
    ck_assert_int_gt(get(fit, "least_memory_bytes"), 0);
    for (unsigned i = 0; i < n_lines; i++) {
        ck_assert_int_eq(get(lines[i], "least_memory_bytes"), get(fit, "least_memory_bytes"));
        ck_assert(json_equal(json_object_get(lines[i], "ratio"), json_object_get(fit, "ratio")));
    }
    json_decref(fit);
}
END_TEST

START_TEST(repeats_give_medians_within_their_spread)
{
    static const char *const times[] = { "driver_ms", "later_driver_ms", "seconds" };
    run_well("--allocator pleat --no-report --repeat 5 --memory unlimited " CHURN);
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 1);
    ck_assert_int_eq(get(lines[0], "repeats"), 5);
    ck_assert(json_is_false(json_object_get(lines[0], "counts_differ")));
    ck_assert_int_le(get(lines[0], "events"), 2 * 20 * 50); /* of one run, not of all repeats */
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        char key[32];
        double median = json_real_value(json_object_get(lines[0], times[i]));
        snprintf(key, sizeof key, "%s_min", times[i]);
        ck_assert(json_real_value(json_object_get(lines[0], key)) <= median);
        snprintf(key, sizeof key, "%s_max", times[i]);
        ck_assert(json_real_value(json_object_get(lines[0], key)) >= median);
    }
}
END_TEST

START_TEST(json_prints_the_lines_of_the_file_and_nothing_else)
{
    run_well("--allocator torch-native --no-report --json --memory 1.5x,unlimited " CHURN);
    char text[sizeof child.out];
    FILE *file = fopen(path_of("results.jsonl"), "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert_str_eq(child.out, text);
    ck_assert_ptr_nonnull(strstr(child.err, "SIMULATED GPU"));
}
END_TEST

START_TEST(tables_fit_100_columns_and_cut_long_names)
{
    run_well(
        "--no-report --memory 1.02x,1.03x,1.04x,1.05x,1.06x,1000000000B,8x,9x,10x,unlimited "
        "churn:iterations=2,allocations=50,least=1024,most=1048576,keep=0.25,stay=4,streams=2");
    ck_assert_ptr_nonnull(strstr(child.out, "SIMULATED GPU"));
    ck_assert_ptr_nonnull(strstr(child.out, "churn:iterations=2,allocations=50,"));
    ck_assert_ptr_nonnull(strstr(child.out, "...: "));
    ck_assert_ptr_nonnull(strstr(child.out, "- 10000... -"));
    for (const char *p = child.out; *p; p += strcspn(p, "\n") + 1) {
        ck_assert_msg(strcspn(p, "\n") <= 100, "%.*s", (int)strcspn(p, "\n"), p);
    }
}
END_TEST

static void expect_allocators(const char *const *names, unsigned n)
{
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, n);
    for (unsigned i = 0; i < n; i++) {
        ck_assert_str_eq(text_of(lines[i], "allocator"), names[i]);
    }
}

START_TEST(three_allocators_are_compared_unless_all_are_asked_for)
{
    static const char *const usual[] = { "pleat", "torch-native", "torch-expandable" };
    const char *every[16];
    unsigned n = 0;
    while ((every[n] = pl_allocator_name(n)) != NULL) {
        n++;
    }
    run_well("--no-report --memory unlimited " CHURN);
    expect_allocators(usual, 3);
    run_well("--no-report --all --memory unlimited " CHURN);
    expect_allocators(every, n);
}
END_TEST

START_TEST(the_blocks_of_each_work_are_written_at_the_end)
{
    run_well("--allocator pleat --no-report --memory unlimited gpt2s_tiny " CHURN);
    ck_assert_ptr_nonnull(strstr(child.out, "written: "));
    ck_assert_ptr_null(strstr(child.out, "report.html")); /* there is none */
    read_lines("results.jsonl");
    json_int_t events[] = { get(lines[0], "events"), get(lines[1], "events") };
    read_lines("blocks.jsonl");
    ck_assert_uint_eq(n_lines, 2);
    for (unsigned i = 0; i < n_lines; i++) {
        ck_assert_str_eq(text_of(lines[i], "blocks"), i ? CHURN : "gpt2s_tiny");
        ck_assert_int_eq(get(lines[i], "n_events"), events[i]);
    }
}
END_TEST

START_TEST(sizes_may_be_names_of_cards)
{
    run_well("--allocator pleat --no-report --card 80GB,141GB " CHURN);
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 2);
    ck_assert_str_eq(text_of(lines[0], "memory"), "80GB");
    ck_assert_int_eq(get(lines[0], "memory_bytes"), (INT64_C(80896) - 512) << 20);
    ck_assert_str_eq(text_of(lines[1], "memory"), "141GB");
}
END_TEST

START_TEST(works_of_one_name_are_told_apart)
{
    run_well("--allocator pleat --no-report --memory unlimited " CHURN " " CHURN);
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 2);
    ck_assert_str_eq(text_of(lines[0], "trace"), CHURN);
    ck_assert_str_eq(text_of(lines[1], "trace"), CHURN " (2)");
}
END_TEST

#define LONG_CHURN                                                                                 \
    "churn:iterations=2,allocations=50,least=1024,most=1048576,keep=0.2500000000000,"              \
    "stay=4,streams=2,seed=00000000000"

START_TEST(long_specs_are_whole_in_the_files)
{
    static const char *const works[] = { LONG_CHURN "1", LONG_CHURN "2", LONG_CHURN "2 (2)" };
    run_well("--allocator pleat --no-report --memory unlimited " LONG_CHURN "1 " LONG_CHURN
             "2 " LONG_CHURN "2");
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 3);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_str_eq(text_of(lines[i], "trace"), works[i]);
    }
    read_lines("timelines.jsonl");
    ck_assert_str_eq(text_of(lines[2], "work"), works[1]);
}
END_TEST

START_TEST(a_name_that_is_no_text_is_a_key_all_the_same)
{
    static const char content[] = "a 1 4096 0\nf 1\n";
    const char *path = bench_child_file("\xff\x1b[31m", content, sizeof content - 1);
    char line[512];
    snprintf(line, sizeof line, "--allocator pleat --no-report --memory unlimited %s", path);
    run_well(line);
    ck_assert_ptr_null(strchr(child.out, '\x1b'));
    read_lines("results.jsonl");
    ck_assert_ptr_nonnull(strstr(text_of(lines[0], "trace"), "??[31m"));
    read_lines("timelines.jsonl");
    ck_assert_ptr_nonnull(strstr(text_of(lines[1], "work"), "??[31m"));
    run_well(line); /* `pleat ab` may replace its files */
    unlink(path);
}
END_TEST

START_TEST(a_cell_that_cannot_be_measured_says_so_and_the_others_go_on)
{
    run("--allocator pleat,torch-native --sim profile:no_vmm --conf fallback:torch-native "
        "--no-report --fit " CHURN);
    ck_assert_int_eq(child.status, 1);
    ck_assert_ptr_nonnull(strstr(child.out, "! pleat, 1.02x and 7 more: "));
    ck_assert_ptr_nonnull(strstr(child.err, "4 of 8 cells were measured"));
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 8);
    for (unsigned i = 0; i < 8; i++) {
        bool is_failed = json_object_get(lines[i], "problem") != NULL;
        ck_assert_int_eq(is_failed, i < 4);
        if (is_failed) {
            ck_assert_ptr_nonnull(strstr(text_of(lines[i], "problem"), "virtual memory"));
            ck_assert(json_is_null(json_object_get(lines[i], "least_memory_bytes")));
        }
    }
}
END_TEST

static void wait_for_rows(unsigned n)
{
    for (;;) {
        FILE *file = fopen(path_of("results.csv"), "r");
        unsigned n_rows = 0;
        for (int c; file && (c = getc(file)) != EOF;) {
            n_rows += c == '\n';
        }
        if (file) {
            fclose(file);
        }
        if (n_rows > n) {
            return;
        }
        ck_assert_int_eq(waitpid(child.pid, NULL, WNOHANG), 0);
        usleep(1000);
    }
}

/* One cell takes a moment, the second one half an hour. */
START_TEST(an_interruption_leaves_valid_files_of_what_was_measured)
{
    char line[512];
    snprintf(line, sizeof line,
             "ab --driver sim --out %s --no-report --jobs 2 --loops 1000 --allocator pleat "
             "--memory 2x churn:iterations=1,allocations=1 churn:iterations=20000",
             out);
    bench_child_start(&child, line);
    wait_for_rows(1);
    ck_assert_int_eq(kill(child.pid, _i), 0);
    bench_child_finish(&child);
    ck_assert_int_eq(child.status, 130);
    ck_assert_ptr_nonnull(strstr(child.err, "interrupted: 1 of 2 cells were measured"));
    read_lines("timelines.jsonl");
    ck_assert_int_eq(get(lines[0], "measured"), 1);
    ck_assert(json_is_true(json_object_get(lines[0], "is_interrupted")));
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 1);
    ck_assert_str_eq(text_of(lines[0], "trace"), "churn:iterations=1,allocations=1");
}
END_TEST

static void write_file(const char *name, const char *text)
{
    ck_assert(mkdir(out, 0700) == 0 || access(out, W_OK) == 0);
    FILE *file = fopen(path_of(name), "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void check_file(const char *name, const char *text)
{
    char found[256];
    FILE *file = fopen(path_of(name), "r");
    ck_assert_ptr_nonnull(file);
    found[fread(found, 1, sizeof found - 1, file)] = '\0';
    fclose(file);
    ck_assert_str_eq(found, text);
}

START_TEST(foreign_files_are_not_touched)
{
    static const char *const names[] = { "results.csv", "results.jsonl", "timelines.jsonl",
                                         "report.html", "blocks.jsonl" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        write_file(names[i], "somebody's own notes on pleat ab\n");
        run("--no-report " CHURN);
        ck_assert_int_eq(child.status, 2);
        ck_assert_ptr_nonnull(strstr(child.err, names[i]));
        ck_assert_str_eq(child.out, ""); /* nothing ran */
        check_file(names[i], "somebody's own notes on pleat ab\n");
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            ck_assert(k == i || access(path_of(names[k]), F_OK) != 0);
        }
        unlink(path_of(names[i]));
    }
}
END_TEST

START_TEST(a_pipe_called_like_a_file_of_ours_is_refused)
{
    static const char *const names[] = { "results.csv", "report.html" };
    ck_assert_int_eq(mkdir(out, 0700), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_int_eq(mkfifo(path_of(names[i]), 0600), 0);
        run("--no-report " CHURN);
        ck_assert_int_eq(child.status, 2);
        ck_assert_ptr_nonnull(strstr(child.err, names[i]));
        ck_assert_ptr_nonnull(strstr(child.err, "no regular file"));
        ck_assert_int_eq(unlink(path_of(names[i])), 0);
    }
}
END_TEST

START_TEST(missing_folders_above_are_made)
{
    char above[96];
    char usual[sizeof out];
    snprintf(above, sizeof above, "%s/a", folder);
    snprintf(usual, sizeof usual, "%s", out);
    snprintf(out, sizeof out, "%s/a//b/", folder);
    run_well("--allocator pleat --no-report --memory unlimited " CHURN);
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 1);
    ck_assert_int_eq(rename(out, usual), 0);
    snprintf(out, sizeof out, "%s", usual);
    ck_assert_int_eq(rmdir(above), 0);
}
END_TEST

START_TEST(files_of_ours_are_replaced)
{
    struct stat known;
    run_well("--allocator pleat --no-report --memory unlimited,2x " CHURN);
    ck_assert_int_eq(chmod(path_of("results.jsonl"), 0600), 0);
    run_well("--allocator pleat --no-report --memory unlimited " CHURN);
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 1);
    ck_assert_int_eq(stat(path_of("results.jsonl"), &known), 0);
    ck_assert_uint_eq(known.st_mode, S_IFREG | 0600);
}
END_TEST

START_TEST(a_folder_that_cannot_be_written_is_told_before_anything_runs)
{
    char inside[256];
    write_file("results.csv", ""); /* no folder */
    snprintf(inside, sizeof inside, "%s/results.csv/it", out);
    char line[512];
    snprintf(line, sizeof line, "ab --driver sim --out %s " CHURN, inside);
    bench_child_run(&child, line);
    ck_assert_int_eq(child.status, 2);
    snprintf(inside, sizeof inside, "--out: %s/results.csv: is a file, not a folder", out);
    ck_assert_ptr_nonnull(strstr(child.err, inside));
    ck_assert_str_eq(child.out, "");
}
END_TEST

#define PAGE "<meta name=\"generator\" content=\"pleat ab\">" /* marks a report of `pleat ab` */

START_TEST(the_report_is_drawn_by_the_program_beside_the_command)
{
    write_file("report.py", "import sys\n"
                            "print('this is not shown')\n"
                            "open(sys.argv[1] + '/report.html', 'w').write('" PAGE "')\n");
    ck_assert_int_eq(setenv("PLEAT_REPORT", out, 1), 0);
    run_well("--allocator pleat --memory unlimited --loops 1 " CHURN); /* no progress at half */
    check_file("report.html", PAGE);
    ck_assert_str_eq(child.err, "");
    ck_assert_ptr_null(strstr(child.out, "not shown"));
    run_well("--allocator pleat --memory unlimited --no-report " CHURN);
    ck_assert_int_ne(access(path_of("report.html"), F_OK), 0); /* it would show old figures */
    ck_assert_int_eq(unsetenv("PLEAT_REPORT"), 0);
}
END_TEST

START_TEST(a_report_that_cannot_be_drawn_costs_no_data)
{
    write_file("report.py", "import sys\nsys.exit('the library xyz is missing')\n");
    ck_assert_int_eq(setenv("PLEAT_REPORT", out, 1), 0);
    run("--allocator pleat --memory unlimited " CHURN);
    ck_assert_int_eq(child.status, 1);
    ck_assert_ptr_nonnull(strstr(child.err, "the library xyz is missing"));
    ck_assert_ptr_nonnull(strstr(child.err, "python3 '"));
    ck_assert_ptr_nonnull(strstr(child.err, path_of("report.py")));
    read_lines("results.jsonl");
    ck_assert_uint_eq(n_lines, 1);
    ck_assert_int_eq(unsetenv("PLEAT_REPORT"), 0);
}
END_TEST

START_TEST(bad_usage_makes_the_status_2_and_names_the_culprit)
{
    static const struct {
        const char *line;
        const char *culprit;
    } bad[] = {
        { "", "WORK is missing" },
        { "--memory 1.02x,,2x " CHURN, "''" },
        { "--memory 1.02x,many " CHURN, "'many'" },
        { "--memory 2x,2x " CHURN, "given twice" },
        { "--card 80GB,25GB " CHURN, "--card: there is no card '25GB'" },
        { "--card A100 " CHURN, "--card: cards 'A100' have 40 GB or 80 GB: give the size" },
        { "--card 80GB,80GB " CHURN, "--card: '80GB' is given twice" },
        { "--jobs 0 " CHURN, "'0'" },
        { "--repeat none " CHURN, "'none'" },
        { "--allocator best " CHURN, "'best'" },
        { "--all --allocator pleat " CHURN, "--all goes without --allocator" },
        { "no_such_trace " CHURN, "no_such_trace" },
        { "--conf growth:fast " CHURN, "growth" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        run(bad[i].line);
        ck_assert_msg(child.status == 2, "'%s': %d", bad[i].line, child.status);
        ck_assert_str_eq(child.out, "");
        ck_assert_msg(strstr(child.err, bad[i].culprit) != NULL, "'%s' is not in '%s'",
                      bad[i].culprit, child.err);
        ck_assert_int_ne(access(out, F_OK), 0);
    }
    bench_child_run(&child, "ab --help");
    ck_assert_int_eq(child.status, 0);
    ck_assert_ptr_nonnull(strstr(child.out, "  pleat ab "));
}
END_TEST

typedef struct jobs {
    unsigned n_done[4]; /* written by the children: shared */
    unsigned n_ended;
    unsigned n_killed;
    unsigned n_failed;
} jobs;

static void do_job(void *context, unsigned job, unsigned slot)
{
    (void)slot;
    jobs *j = context;
    if (job == 1) {
        raise(SIGKILL);
    }
    if (job == 2) {
        _exit(3);
    }
    j->n_done[job]++;
}

static void job_ended(void *context, unsigned job, unsigned slot, const char *why)
{
    jobs *j = context;
    ck_assert_uint_lt(slot, 2);
    j->n_ended++;
    j->n_killed += job == 1 && why && strstr(why, "signal 9");
    j->n_failed += job == 2 && why && strstr(why, "status 3");
    ck_assert(why == NULL || job == 1 || job == 2);
}

START_TEST(a_process_that_crashes_loses_its_own_job_only)
{
    bench_failure failure;
    jobs *j = bench_shared_create(sizeof *j, &failure);
    ck_assert_ptr_nonnull(j);
    bench_workers workers = {
        .n_jobs = 4, .n_at_once = 2, .body = do_job, .ended = job_ended, .context = j
    };
    ck_assert_int_eq(bench_workers_run(&workers, &failure), BENCH_WORKERS_DONE);
    ck_assert_uint_eq(j->n_ended, 4);
    ck_assert_uint_eq(j->n_killed, 1);
    ck_assert_uint_eq(j->n_failed, 1);
    ck_assert_uint_eq(j->n_done[0], 1);
    ck_assert_uint_eq(j->n_done[3], 1);
    bench_shared_destroy(j, sizeof *j);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add_tcase(suite, tcase);
    return tcase;
}

SUITE(bench_ab)
{
    TCase *figures = add_case(suite, "figures");
    tcase_add_test(figures, every_cell_is_what_replay_says);
    tcase_add_test(figures, a_later_pass_is_measured_for_the_drivers_time_alone);
    tcase_add_loop_test(figures, the_csv_says_what_the_json_lines_say, 0, 2);
    tcase_add_test(figures, the_unlimited_and_the_tightest_size_have_a_timeline);
    tcase_add_test(figures, fit_adds_the_least_memory_to_every_cell);
    tcase_add_test(figures, repeats_give_medians_within_their_spread);
    TCase *output = add_case(suite, "output");
    tcase_add_test(output, json_prints_the_lines_of_the_file_and_nothing_else);
    tcase_add_test(output, tables_fit_100_columns_and_cut_long_names);
    tcase_add_test(output, sizes_may_be_names_of_cards);
    tcase_add_test(output, three_allocators_are_compared_unless_all_are_asked_for);
    tcase_add_test(output, works_of_one_name_are_told_apart);
    tcase_add_test(output, long_specs_are_whole_in_the_files);
    tcase_add_test(output, a_name_that_is_no_text_is_a_key_all_the_same);
    tcase_add_test(output, the_report_is_drawn_by_the_program_beside_the_command);
    tcase_add_test(output, a_report_that_cannot_be_drawn_costs_no_data);
    TCase *files = add_case(suite, "files");
    tcase_add_test(files, foreign_files_are_not_touched);
    tcase_add_test(files, a_pipe_called_like_a_file_of_ours_is_refused);
    tcase_add_test(files, files_of_ours_are_replaced);
    tcase_add_test(files, missing_folders_above_are_made);
    tcase_add_test(files, the_blocks_of_each_work_are_written_at_the_end);
    tcase_add_test(files, a_folder_that_cannot_be_written_is_told_before_anything_runs);
    TCase *ends = add_case(suite, "early_ends");
    tcase_add_test(ends, a_cell_that_cannot_be_measured_says_so_and_the_others_go_on);
    tcase_add_loop_test(ends, an_interruption_leaves_valid_files_of_what_was_measured, SIGINT,
                        SIGINT + 1);
    tcase_add_loop_test(ends, an_interruption_leaves_valid_files_of_what_was_measured, SIGTERM,
                        SIGTERM + 1);
    tcase_add_test(ends, a_process_that_crashes_loses_its_own_job_only);
    tcase_add_test(ends, bad_usage_makes_the_status_2_and_names_the_culprit);
}

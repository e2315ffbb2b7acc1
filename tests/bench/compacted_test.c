/* compacted_test.c - `pleat ab` measures short:compact beside pleat where pleat fails. */
/* labels: unit */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/ab/verdict.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

/* pleat completes it in 1.05 times the need, with short:compact in 1.02 times; and on 48 GB, and on
 * 40 GB. */
#define TIED "churn:iterations=20,allocations=400,least=23488102,most=46976204,keep=0.2"
#define TWO_SIZES "--memory 1.02x,1.05x " TIED

enum { MOST_ROWS = 16 };

static bench_child child;
static char folder[64];
static json_t *rows[MOST_ROWS];
static unsigned n_rows;

static void forget_rows(void)
{
    while (n_rows > 0) {
        json_decref(rows[--n_rows]);
    }
}

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/pleat-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(setenv("PLEAT_TRACES", PLEAT_SOURCE_DIR "/bench/traces", 1), 0);
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void tear_down(void)
{
    static const char *const names[] = { "results.csv",   "results.jsonl",  "timelines.jsonl",
                                         "moments.jsonl", "verdicts.jsonl", "blocks.jsonl" };
    forget_rows();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unlink(path_of(names[i]));
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

static void compare(const char *rest)
{
    char line[512];
    snprintf(line, sizeof line, "ab --driver sim --loops 1 --no-report --out %s %s", folder, rest);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
}

static void read_rows(const char *name)
{
    forget_rows();
    FILE *file = fopen(path_of(name), "r");
    ck_assert_msg(file != NULL, "%s", name);
    json_error_t error;
    json_t *row;
    while ((row = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error)) != NULL) {
        ck_assert_uint_lt(n_rows, MOST_ROWS);
        rows[n_rows++] = row;
    }
    fclose(file);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    ck_assert_msg(text != NULL, "%s", key);
    return text;
}

/* The row of results.jsonl. */
static const json_t *row_of(const char *allocator, const char *memory)
{
    for (unsigned i = 0; i < n_rows; i++) {
        if (strcmp(text_of(rows[i], "allocator"), allocator) == 0 &&
            strcmp(text_of(rows[i], "memory"), memory) == 0) {
            return rows[i];
        }
    }
    return NULL;
}

static json_int_t failures(const json_t *row)
{
    ck_assert_ptr_nonnull(row);
    return json_integer_value(json_object_get(row, "oom_count"));
}

/* All that the replay counts, but the name. */
static void check_equal(const json_t *row, const json_t *of)
{
    static const char *const keys[] = { "oom_count", "peak_reserved_bytes", "device_ops", "calls",
                                        "bytes_mapped" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *value = json_object_get(of, keys[i]);
        ck_assert_msg(value && json_equal(json_object_get(row, keys[i]), value), "%s", keys[i]);
    }
}

static json_t *replay(const char *memory)
{
    char line[256];
    snprintf(line, sizeof line,
             "replay --driver sim --json --conf short:compact --allocator pleat --memory %s " TIED,
             memory);
    bench_child_run(&child, line);
    json_error_t error;
    json_t *row = json_loads(child.out, 0, &error);
    ck_assert_msg(row != NULL, "%s", child.err);
    return row;
}

START_TEST(its_rows_are_what_replay_says_with_the_option)
{
    static const char *const memories[] = { "1.02x", "1.05x" };
    compare("--allocator pleat,torch-native " TWO_SIZES);
    ck_assert_ptr_nonnull(strstr(child.out, "\n  short:compact      0 "));
    read_rows("results.jsonl");
    ck_assert_uint_eq(n_rows, 6);
    ck_assert_int_gt(failures(row_of("pleat", "1.02x")), 0);
    ck_assert_int_eq(failures(row_of(BENCH_SETTING_COMPACT, "1.02x")), 0);
    for (int i = 0; i < 2; i++) {
        json_t *replayed = replay(memories[i]);
        check_equal(row_of(BENCH_SETTING_COMPACT, memories[i]), replayed);
        json_decref(replayed);
    }
}
END_TEST

START_TEST(json_prints_its_rows_and_the_csv_has_them)
{
    char row[1024];
    unsigned n = 0;
    compare("--json --allocator pleat " TWO_SIZES);
    ck_assert_ptr_nonnull(strstr(child.out, "\"allocator\":\"" BENCH_SETTING_COMPACT "\""));
    FILE *file = fopen(path_of("results.csv"), "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(row, sizeof row, file)) {
        n += strstr(row, "\"," BENCH_SETTING_COMPACT ",sim,1.0") != NULL;
    }
    fclose(file);
    ck_assert_uint_eq(n, 2);
}
END_TEST

/* The text is wrapped, so it is read from the file. */
static const char *line_of(const json_t *verdict, const char *title)
{
    size_t i;
    const json_t *line;
    json_array_foreach(json_object_get(verdict, "lines"), i, line)
    {
        if (strcmp(json_string_value(json_array_get(line, 0)), title) == 0) {
            return json_string_value(json_array_get(line, 1));
        }
    }
    return "";
}

static void expect(const char *title, const char *words)
{
    const char *line = line_of(rows[0], title);
    ck_assert_msg(strstr(line, words) != NULL, "%s", line);
}

START_TEST(the_verdict_advises_it_where_it_alone_completes)
{
    compare(TWO_SIZES);
    read_rows("verdicts.jsonl");
    ck_assert_uint_eq(n_rows, 1);
    ck_assert_str_eq(text_of(rows[0], "verdict"), "switch");
    ck_assert_str_eq(text_of(rows[0], "setting"), BENCH_SETTING_COMPACT);
    ck_assert_str_eq(text_of(rows[0], "device"), "1.02x");
    expect("runs on", "1.02x: " BENCH_SETTING_COMPACT "; 1.05x: ");
    expect("advice", "Use pleat with short:compact: it then completes in 1.02 times the need");
    expect("advice", "; without short:compact pleat does so only in 1.05 times the need");
    expect("advice", "; no other thread may launch work during a request");
    expect("type", "python3 -m pleat.torch --conf short:compact YOUR_SCRIPT.py");
}
END_TEST

START_TEST(a_card_on_which_pleat_fails_is_tried_with_it)
{
    compare("--allocator pleat " TIED);
    read_rows("verdicts.jsonl");
    const json_t *settings = json_object_get(rows[0], "settings");
    ck_assert_uint_eq(json_array_size(settings), 2);
    const json_t *with = json_array_get(settings, 1);
    ck_assert_str_eq(text_of(json_array_get(settings, 0), "device"), "48 GB");
    ck_assert_str_eq(text_of(with, "device"), "40 GB");
    const json_t *how = json_object_get(with, "how");
    ck_assert_str_eq(json_string_value(json_array_get(how, 0)), "less than the live blocks");
    ck_assert_str_eq(json_string_value(json_array_get(how, 5)), "replayed");
    expect("advice", "it then completes on 40 GB; without short:compact pleat does so only on 48");
}
END_TEST

/* Without the option one rank of two fails. */
START_TEST(a_job_completes_with_it_if_all_ranks_do)
{
    compare("--job --allocator pleat " TWO_SIZES " churn:iterations=2,allocations=50");
    read_rows("verdicts.jsonl");
    ck_assert_uint_eq(n_rows, 1);
    ck_assert_str_eq(text_of(rows[0], "setting"), BENCH_SETTING_COMPACT);
    ck_assert_str_eq(text_of(rows[0], "device"), "1.02x");
}
END_TEST

/* Nothing fails; the option is given, to the command or in the environment; or pleat is no part. */
START_TEST(nothing_is_said_of_it_without_need)
{
    static const char *const quiet[] = {
        "--allocator pleat --memory 1.05x " TIED,
        "--conf short:compact --allocator pleat " TWO_SIZES,
        "--conf short:refuse --allocator pleat " TWO_SIZES,
        "--allocator torch-native " TWO_SIZES,
        "--allocator pleat " TWO_SIZES,
    };
    for (size_t i = 0; i < sizeof quiet / sizeof quiet[0]; i++) {
        bool is_last = i + 1 == sizeof quiet / sizeof quiet[0];
        ck_assert_int_eq(setenv("PLEAT_CONF", is_last ? "short:compact" : "", 1), 0);
        compare(quiet[i]);
        char *type = strstr(child.out, "\n  type "); /* what was given, it has to name */
        if (type) {
            *type = '\0';
        }
        ck_assert_msg(strstr(child.out, "compact") == NULL, "%s: %s", quiet[i], child.out);
        read_rows("results.jsonl");
        ck_assert_ptr_null(row_of(BENCH_SETTING_COMPACT, "1.05x"));
        read_rows("verdicts.jsonl");
        ck_assert_uint_eq(json_array_size(json_object_get(rows[0], "settings")), 1);
    }
}
END_TEST

SUITE(bench_compacted)
{
    TCase *all = suite_case(suite, "all", set_up, tear_down);
    tcase_add_test(all, its_rows_are_what_replay_says_with_the_option);
    tcase_add_test(all, json_prints_its_rows_and_the_csv_has_them);
    tcase_add_test(all, the_verdict_advises_it_where_it_alone_completes);
    tcase_add_test(all, a_card_on_which_pleat_fails_is_tried_with_it);
    tcase_add_test(all, a_job_completes_with_it_if_all_ranks_do);
    tcase_add_test(all, nothing_is_said_of_it_without_need);
}

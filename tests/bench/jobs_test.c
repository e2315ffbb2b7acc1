/* jobs_test.c - `pleat ab --job --shard`: ranks are measured apart, and judged together. */
/* labels: unit */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/ab/fleet/jobs.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_sim.h"
#include "tests/support/bench/bench_snapshot.h"
#include "tests/support/suite.h"

static const char *const measured[] = {
    "--driver sim --loops 1 --allocator pleat,torch-native,unpooled --no-report",
    "--driver sim --loops 1 --allocator pleat,torch-native --memory unlimited,90M,1.02x,96M --fit "
    "--no-report"
};

static bench_child child;
static char folder[64];

/* A run of `n` blocks of `bytes` that lie side by side. */
static void write_rank(const char *job, unsigned rank, unsigned n, unsigned bytes)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s/%s-rank%u.trace", folder, job, job, rank);
    bench_sim_write_trace(path, n, bytes);
}

/* Three ranks of the first job, and two of a second one. */
static void set_up(void)
{
    char path[128];
    snprintf(folder, sizeof folder, "/tmp/pleat-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
    for (const char *job = "ab"; *job; job++) {
        snprintf(path, sizeof path, "%s/%c", folder, *job);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    write_rank("a", 0, 80, 3U << 19);
    write_rank("a", 1, 110, 3U << 18);
    write_rank("a", 2, 140, 3U << 18);
    write_rank("b", 0, 50, 3U << 18);
    write_rank("b", 1, 60, 3U << 18);
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Runs `pleat ab`; every @ of the line is the test's folder. */
static void ab(const char *line, const char *how, int status)
{
    char whole[1024];
    size_t n = (size_t)snprintf(whole, sizeof whole, "ab ");
    for (; *line; line++) {
        n += (size_t)snprintf(whole + n, sizeof whole - n, *line == '@' ? "%s" : "%.1s",
                              *line == '@' ? folder : line);
    }
    snprintf(whole + n, sizeof whole - n, " %s", how);
    bench_child_run(&child, whole);
    ck_assert_msg(child.status == status, "%s: %d\n%s", whole, child.status, child.err);
}

static void all_shards(unsigned n, const char *how)
{
    for (unsigned k = 0; k < n; k++) {
        char line[160];
        snprintf(line, sizeof line,
                 "'@/*/*.trace' --job --conf short:refuse --shard %u/%u --out @/out%u", k, n, n);
        ab(line, how, 0);
    }
}

/* Line `index` of a file of JSON lines. */
static json_t *line_of(const char *file, unsigned index)
{
    char path[160];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *in = fopen(path, "r");
    ck_assert_msg(in != NULL, "%s", path);
    json_t *object = NULL;
    for (unsigned i = 0; i <= index; i++) {
        json_decref(object);
        object = json_loadf(in, JSON_DISABLE_EOF_CHECK, &error);
        ck_assert_msg(object != NULL, "%s: %s", path, error.text);
    }
    fclose(in);
    return object;
}

START_TEST(a_merge_judges_a_job_as_all_its_ranks_together)
{
    all_shards(2, measured[_i]);
    ab("--merge @/out2", "--no-report", 0);
    /* A fleet leaves short:compact out, and so does a study that sets `short`. Lines to type name
     * the configuration, so both have it. */
    ab("'@/a/*.trace' --job --out @/of-a --conf short:refuse", measured[_i], 0);
    ab("'@/b/*.trace' --job --out @/of-b --conf short:refuse", measured[_i], 0);
    for (unsigned j = 0; j < 2; j++) {
        char name[128];
        json_t *merged = line_of("out2/verdicts.jsonl", j);
        json_t *whole = line_of(j == 0 ? "of-a/verdicts.jsonl" : "of-b/verdicts.jsonl", 0);
        snprintf(name, sizeof name, "%s/%c", folder, "ab"[j]);
        ck_assert_str_eq(json_string_value(json_object_get(merged, "work")), name);
        ck_assert_int_eq(json_integer_value(json_object_get(merged, "n_ranks")), j == 0 ? 3 : 2);
        json_object_set_new(merged, "work", json_null());
        char *x = json_dumps(merged, JSON_SORT_KEYS);
        char *y = json_dumps(whole, JSON_SORT_KEYS);
        ck_assert_str_eq(x, y);
        free(x);
        free(y);
        json_decref(merged);
        json_decref(whole);
    }
    json_t *fleet = line_of("out2/fleet.json", 0);
    ck_assert_int_eq(json_integer_value(json_object_get(fleet, "fleet")), 2);
    json_decref(fleet);
}
END_TEST

/* A rank that was recorded from start to end, and one that ran out of memory. */
static void write_snapshots(void)
{
    static const snap_event events[][4] = {
        { { "alloc", 0x100000, 64 << 20, 0 },
          { "free_requested", 0x100000, 64 << 20, 0 },
          { "free_completed", 0x100000, 64 << 20, 0 },
          { .action = NULL } },
        { { "alloc", 0x100000, 32 << 20, 0 },
          { "oom", 0, 16 << 20, 0 },
          { "free_completed", 0x100000, 32 << 20, 0 },
          { .action = NULL } },
    };
    char path[128];
    snprintf(path, sizeof path, "%s/c", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    for (unsigned i = 0; i < 2; i++) {
        unsigned char bytes[4096];
        snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { events[i] } };
        size_t n = snap_write(&plan, bytes, sizeof bytes);
        snprintf(path, sizeof path, "%s/c/rank%u.pickle", folder, i);
        FILE *file = fopen(path, "wb");
        ck_assert_ptr_nonnull(file);
        ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
        ck_assert_int_eq(fclose(file), 0);
    }
}

START_TEST(a_job_is_no_more_whole_than_its_ranks)
{
    static const char how[] = "--driver sim --loops 1 --allocator torch-native --no-report";
    write_snapshots();
    ab("'@/c/*.pickle' --job --shard 0/1 --out @/out", how, 0);
    ab("--merge @/out", "--no-report", 0);
    ab("'@/c/*.pickle' --job --out @/of-c", how, 0);
    json_t *merged = line_of("out/verdicts.jsonl", 0);
    json_t *whole = line_of("of-c/verdicts.jsonl", 0);
    ck_assert_str_eq(json_string_value(json_object_get(merged, "verdict")), "record");
    ck_assert_str_eq(json_string_value(json_object_get(merged, "worst")), "rank0");
    ck_assert(json_is_true(json_object_get(json_object_get(merged, "recorded"), "ends_failed")));
    ck_assert(json_equal(json_object_get(merged, "recorded"), json_object_get(whole, "recorded")));
    ck_assert(json_equal(json_object_get(merged, "lines"), json_object_get(whole, "lines")));
    json_decref(merged);
    json_decref(whole);
    json_t *fleet = line_of("out/fleet.json", 0);
    ck_assert_int_eq(json_integer_value(json_object_get(fleet, "in_part")), 1);
    json_decref(fleet);
}
END_TEST

START_TEST(the_files_are_the_same_whatever_the_number_of_shards)
{
    static const char *const files[] = { "results.csv", "results.jsonl", "verdicts.jsonl",
                                         "timelines.jsonl", "fleet.json" };
    for (unsigned n = 1; n <= 3; n++) {
        char line[64];
        all_shards(n, measured[1]);
        snprintf(line, sizeof line, "--merge @/out%u", n);
        ab(line, "--no-report", 0);
        for (size_t i = 0; n > 1 && i < sizeof files / sizeof files[0]; i++) {
            char command[256];
            snprintf(command, sizeof command, "cmp %s/out1/%s %s/out%u/%s", folder, files[i],
                     folder, n, files[i]);
            ck_assert_int_eq(system(command), 0);
        }
    }
}
END_TEST

START_TEST(a_job_with_a_damaged_rank_is_not_known)
{
    char path[128];
    snprintf(path, sizeof path, "%s/a/a-rank9.trace", folder);
    FILE *file = fopen(path, "w");
    fputs("hello\n", file);
    fclose(file);
    all_shards(2, measured[0]);
    ab("--merge @/out2", "--no-report", 1);
    ck_assert_ptr_nonnull(strstr(child.err, "1 of 2 works could not be measured whole"));
    json_t *verdict = line_of("out2/verdicts.jsonl", 0);
    ck_assert_int_eq(json_integer_value(json_object_get(verdict, "n_ranks")), 4);
    ck_assert(json_is_true(json_object_get(verdict, "is_provisional")));
    const json_t *needs = json_array_get(json_array_get(json_object_get(verdict, "lines"), 0), 1);
    ck_assert_ptr_nonnull(strstr(json_string_value(needs),
                                 "the most of 3 ranks that were measured, of 4: the job may need"));
    json_decref(verdict);
    json_t *fleet = line_of("out2/fleet.json", 0);
    const json_t *setting = json_array_get(json_object_get(fleet, "settings"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(setting, "n_nowhere")), 0);
    const json_t *problem = json_array_get(json_object_get(fleet, "problems"), 0);
    const char *text = json_string_value(json_object_get(problem, "problem"));
    ck_assert_msg(strncmp(text, "rank a-rank9: ", 14) == 0 && strstr(text, "not a line"), "%s",
                  text);
    json_decref(fleet);
}
END_TEST

START_TEST(shards_of_jobs_and_of_works_are_different_studies)
{
    ab("'@/*/*.trace' --job --shard 0/2 --out @/out", measured[1], 0);
    ab("'@/*/*.trace' --shard 1/2 --out @/out", measured[1], 2);
    ck_assert_ptr_nonnull(strstr(child.err, "holds another study"));
}
END_TEST

START_TEST(a_job_is_a_folder)
{
    char out[16];
    ck_assert_str_eq(bench_job_name("jobs/a/rank0.pickle", out, sizeof out), "jobs/a");
    ck_assert_str_eq(bench_job_name("/rank0.pickle", out, sizeof out), "/");
    ck_assert_str_eq(bench_job_name("rank0.pickle", out, sizeof out), "job");
    ck_assert_str_eq(bench_job_name("./rank0.pickle", out, sizeof out), "job");
    ck_assert_str_eq(bench_job_name(".//jobs/./a/rank0", out, sizeof out), "jobs/a");
    ck_assert_str_eq(bench_job_name("a-long-folder-of-jobs/x", out, sizeof out), "a-long-folder-o");
}
END_TEST

SUITE(bench_jobs)
{
    TCase *jobs = suite_case(suite, "jobs", set_up, tear_down);
    tcase_add_loop_test(jobs, a_merge_judges_a_job_as_all_its_ranks_together, 0, 2);
    tcase_add_test(jobs, a_job_is_no_more_whole_than_its_ranks);
    tcase_add_test(jobs, the_files_are_the_same_whatever_the_number_of_shards);
    tcase_add_test(jobs, a_job_with_a_damaged_rank_is_not_known);
    tcase_add_test(jobs, shards_of_jobs_and_of_works_are_different_studies);
    tcase_add_test(jobs, a_job_is_a_folder);
}

/* fleet_test.c - `pleat ab --shard` and `--merge`: who does what, and that nothing that
 * happens to the processes shows in the result. */
/* labels: unit long */
#include <check.h>
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/ab/fleet/rank.h"
#include "bench/ab/fleet/roster.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_sim.h"
#include "tests/support/suite.h"

static const char measured[] = "--driver sim --loops 1 --allocator pleat,torch-native "
                               "--memory 1.02x,unlimited";
static const char *const results[] = { "results.csv",   "results.jsonl",  "timelines.jsonl",
                                       "moments.jsonl", "verdicts.jsonl", "fleet.json" };
enum { N_RESULTS = sizeof results / sizeof results[0], N_WORKS = 6 };

static bench_child child;
static char folder[64];

static void forget_launchers(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "PMI_RANK",
                                         "PMI_SIZE",
                                         "SLURM_PROCID",
                                         "SLURM_NTASKS",
                                         "SLURM_ARRAY_TASK_ID",
                                         "JOB_COMPLETION_INDEX" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_int_eq(unsetenv(names[i]), 0);
    }
}

static const char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *path_of(const char *format, ...)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    int n = snprintf(path, sizeof paths[0], "%s/", folder);
    va_list args;
    va_start(args, format);
    vsnprintf(path + n, sizeof paths[0] - (size_t)n, format, args);
    va_end(args);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_msg(file != NULL, "%s", path);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

/* Six works in separate folders. Two works have the same name. */
static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/pleat-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    forget_launchers();
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
    for (unsigned i = 0; i < N_WORKS; i++) {
        ck_assert_int_eq(mkdir(path_of("w%u", i), 0700), 0);
        const char *name = i < 2    ? "job"
                           : i == 2 ? "two"
                           : i == 3 ? "three"
                           : i == 4 ? "four"
                                    : "five";
        bench_sim_write_trace(path_of("w%u/%s.trace", i, name), 20 + 30 * i, 3U << (18 + i % 3));
    }
}

static void remove_all(const char *path)
{
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char inside[512];
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        ck_assert_int_eq(lstat(inside, &st), 0);
        if (!S_ISDIR(st.st_mode)) {
            ck_assert_int_eq(unlink(inside), 0);
            continue;
        }
        DIR *below = opendir(inside); /* two floors are all there are */
        for (struct dirent *e; (e = readdir(below)) != NULL;) {
            char file[1024];
            snprintf(file, sizeof file, "%s/%s", inside, e->d_name);
            unlink(file);
        }
        closedir(below);
        ck_assert_int_eq(rmdir(inside), 0);
    }
    closedir(dir);
    ck_assert_int_eq(rmdir(path), 0);
}

static void tear_down(void)
{
    remove_all(folder);
}

static const char *works(void)
{
    static char text[256];
    snprintf(text, sizeof text, "'%s/w*/*.trace'", folder);
    return text;
}

static void shard(const char *which, const char *out, const char *rest)
{
    char line[2048];
    snprintf(line, sizeof line, "ab %s --shard %s --out %s %s", measured, which, path_of("%s", out),
             rest);
    bench_child_run(&child, line);
}

static void shard_well(const char *which, const char *out, const char *rest)
{
    shard(which, out, rest);
    ck_assert_msg(child.status == 0, "%s: %d: %s", which, child.status, child.err);
}

static void all_shards(unsigned n, const char *out)
{
    for (unsigned i = 0; i < n; i++) {
        char which[32];
        snprintf(which, sizeof which, "%u/%u", i, n);
        shard_well(which, out, works());
    }
}

static void merge(const char *out)
{
    char line[512];
    snprintf(line, sizeof line, "ab --no-report --merge %s", path_of("%s", out));
    bench_child_run(&child, line);
}

static void merge_well(const char *out)
{
    merge(out);
    ck_assert_msg(child.status == 0, "%d: %s", child.status, child.err);
}

static char *content_of(const char *path, size_t *n)
{
    char *text = NULL;
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s", path);
    FILE *copy = open_memstream(&text, n);
    for (int c; (c = getc(file)) != EOF;) {
        putc(c, copy);
    }
    fclose(file);
    fclose(copy);
    return text;
}

static void check_same(const char *a, const char *b)
{
    for (int i = 0; i < N_RESULTS; i++) {
        size_t n[2];
        char *texts[] = { content_of(path_of("%s/%s", a, results[i]), &n[0]),
                          content_of(path_of("%s/%s", b, results[i]), &n[1]) };
        ck_assert_msg(n[0] == n[1] && memcmp(texts[0], texts[1], n[0]) == 0, "%s differs",
                      results[i]);
        ck_assert(n[0] > 0 || strcmp(results[i], "moments.jsonl") == 0);
        free(texts[0]);
        free(texts[1]);
    }
}

/* ---- who does what ---- */

START_TEST(a_rank_is_read_as_it_is_given)
{
    bench_rank rank;
    bench_failure failure;
    ck_assert(bench_rank_read("0/1", &rank, &failure));
    ck_assert(rank.index == 0 && rank.n == 1);
    ck_assert(bench_rank_read("99998/99999", &rank, &failure));
    ck_assert(rank.index == 99998 && rank.n == 99999);
}
END_TEST

START_TEST(a_bad_rank_is_refused_by_its_name)
{
    static const char *const bad[] = { "",
                                       "3",
                                       "/",
                                       "1/",
                                       "/4",
                                       "-1/4",
                                       "1/0",
                                       "a/b",
                                       "1/2/3",
                                       "auto/0",
                                       "auto/",
                                       " 1/2",
                                       "1/2 ",
                                       "+1/2",
                                       "4/4",
                                       "7/4",
                                       "autos",
                                       "0/100000",
                                       "18446744073709551616/2" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bench_rank rank;
        bench_failure failure = { .text = "" };
        ck_assert_msg(!bench_rank_read(bad[i], &rank, &failure), "%s", bad[i]);
        ck_assert_msg(strstr(failure.text, bad[i]) != NULL, "%s", failure.text);
    }
    shard("4/4", "out", works());
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "there is no shard 4 of 4"));
    ck_assert_int_ne(access(path_of("out"), F_OK), 0);
}
END_TEST

static void check_auto(const char *text, unsigned index, unsigned n)
{
    bench_rank rank;
    bench_failure failure = { .text = "" };
    ck_assert_msg(bench_rank_read(text, &rank, &failure), "%s", failure.text);
    ck_assert_uint_eq(rank.index, index);
    ck_assert_uint_eq(rank.n, n);
}

static void check_refused(const char *text, const char *word)
{
    bench_rank rank;
    bench_failure failure = { .text = "" };
    ck_assert(!bench_rank_read(text, &rank, &failure));
    ck_assert_msg(strstr(failure.text, word) != NULL, "%s", failure.text);
}

START_TEST(auto_is_what_the_launcher_set_and_the_inner_one_comes_first)
{
    check_refused("auto", "no launcher");
    setenv("JOB_COMPLETION_INDEX", "5", 1);
    check_refused("auto", "auto/N");
    check_auto("auto/8", 5, 8);
    check_refused("auto/5", "no shard 5 of 5");
    setenv("SLURM_PROCID", "3", 1);
    setenv("SLURM_NTASKS", "16", 1);
    check_auto("auto", 3, 16);
    check_refused("auto/8", "there are 16");
    setenv("PMI_RANK", "2", 1);
    setenv("PMI_SIZE", "4", 1);
    check_auto("auto", 2, 4);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    check_auto("auto", 1, 2);
    check_auto("auto/2", 1, 2);
    setenv("OMPI_COMM_WORLD_SIZE", "two", 1);
    check_refused("auto", "OMPI_COMM_WORLD_SIZE");
    setenv("OMPI_COMM_WORLD_RANK", "x", 1);
    check_refused("auto", "OMPI_COMM_WORLD_RANK");
}
END_TEST

START_TEST(a_task_of_an_array_has_to_say_of_how_many)
{
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "1", 1);
    check_auto("auto", 0, 1);
    setenv("SLURM_ARRAY_TASK_ID", "7", 1);
    check_refused("auto", "SLURM_ARRAY_TASK_ID");
    setenv("SLURM_NTASKS", "4", 1);
    check_auto("auto", 0, 4);
}
END_TEST

enum { MANY = 150 };

static void make_roster(bench_roster *roster, char **specs, unsigned n, unsigned n_shards)
{
    bench_failure failure = { .text = "" };
    ck_assert_msg(bench_roster_init(roster, specs, n, n_shards, &failure), "%s", failure.text);
}

/* Each step gives the heaviest remaining work to the shard with the least load. Computed here by
 * looking at all. */
static void check_shares(const bench_roster *roster, unsigned n_shards)
{
    double loads[16] = { 0 };
    bool is_given[MANY] = { false };
    for (unsigned k = 0; k < roster->n; k++) {
        unsigned heaviest = 0;
        while (is_given[heaviest]) {
            heaviest++;
        }
        for (unsigned i = 0; i < roster->n; i++) {
            if (!is_given[i] && roster->works[i].weight > roster->works[heaviest].weight) {
                heaviest = i;
            }
        }
        unsigned least = 0;
        for (unsigned s = 1; s < n_shards; s++) {
            least = loads[s] < loads[least] ? s : least;
        }
        ck_assert_uint_eq(roster->works[heaviest].shard, least);
        loads[least] += roster->works[heaviest].weight;
        is_given[heaviest] = true;
    }
    double mean = bench_roster_mean(roster, n_shards);
    for (unsigned s = 0; s < n_shards; s++) {
        ck_assert_double_le(bench_roster_of(roster, s), 1.02 * mean);
        ck_assert_double_ge(bench_roster_of(roster, s), 0.98 * mean);
    }
}

START_TEST(works_are_shared_out_evenly_and_in_any_order_alike)
{
    static char *specs[MANY];
    static char *turned[MANY];
    ck_assert_int_eq(mkdir(path_of("many"), 0700), 0);
    srand((unsigned)_i + 1);
    for (unsigned i = 0; i < MANY; i++) {
        specs[i] = strdup(path_of("many/%u.pickle", i));
        turned[MANY - 1 - i] = specs[i];
        FILE *file = fopen(specs[i], "w");
        fputs("\x80\x02", file);
        ck_assert_int_eq(ftruncate(fileno(file), 2 + rand() % 2000000), 0);
        fclose(file);
    }
    bench_roster roster;
    bench_roster other;
    make_roster(&roster, specs, MANY, 7);
    make_roster(&other, turned, MANY, 7);
    check_shares(&roster, 7);
    ck_assert_str_eq(roster.digest, other.digest);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_str_eq(roster.works[i].spec, other.works[i].spec);
        ck_assert_uint_eq(roster.works[i].shard, other.works[i].shard);
    }
    ck_assert_int_eq(truncate(specs[0], 3), 0);
    bench_roster_fini(&other);
    make_roster(&other, specs, MANY, 7);
    ck_assert_str_ne(roster.digest, other.digest);
    bench_roster_fini(&other);
    bench_roster_fini(&roster);
    for (unsigned i = 0; i < MANY; i++) {
        free(specs[i]);
    }
}
END_TEST

START_TEST(works_of_one_name_are_called_what_was_typed)
{
    char *specs[] = { strdup(path_of("w0/job.trace")), strdup(path_of("w1/job.trace")),
                      strdup(path_of("w2/two.trace")) };
    bench_roster roster;
    make_roster(&roster, specs, 3, 2);
    ck_assert_str_eq(roster.works[0].name, specs[0]);
    ck_assert_str_eq(roster.works[1].name, specs[1]);
    ck_assert_str_eq(roster.works[2].name, "two");
    bench_roster_fini(&roster);
    for (int i = 0; i < 3; i++) {
        free(specs[i]);
    }
}
END_TEST

START_TEST(a_work_that_is_given_twice_is_refused)
{
    char rest[512];
    snprintf(rest, sizeof rest, "%s %s", path_of("w2/two.trace"), path_of("w1/../w2/two.trace"));
    shard("0/2", "out", rest);
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "is given twice"));
    shard("0/2", "out", "churn:seed=1 churn:seed=1");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "is given twice"));
    snprintf(rest, sizeof rest, "%s %s:inflate=1G", path_of("w2/two.trace"),
             path_of("w2/two.trace"));
    shard_well("0/1", "out", rest); /* different options make it a different work */
}
END_TEST

/* ---- the result ---- */

START_TEST(the_result_is_the_same_whatever_the_number_of_shards)
{
    all_shards(1, "one");
    all_shards(2, "two");
    all_shards(8, "eight"); /* two of them have nothing to do */
    merge_well("one");
    merge_well("two");
    merge_well("eight");
    check_same("one", "two");
    check_same("one", "eight");
    ck_assert_ptr_nonnull(strstr(child.out, "6 jobs, 6 measured"));
}
END_TEST

/* But for names, where two works share theirs, and for times of the host. */
START_TEST(rows_and_verdicts_are_those_of_an_ordinary_study)
{
    char line[1024];
    /* A fleet leaves short:compact out, and so does a study that sets `short`. */
    snprintf(line, sizeof line, "ab %s --conf short:refuse --no-report --out %s %s %s %s", measured,
             path_of("plain"), path_of("w3/three.trace"), path_of("w5/five.trace"),
             path_of("w2/two.trace"));
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%s", child.err);
    snprintf(line, sizeof line, "--conf short:refuse %s %s %s", path_of("w3/three.trace"),
             path_of("w5/five.trace"), path_of("w2/two.trace"));
    shard_well("0/1", "sharded", line);
    merge_well("sharded");
    static const char *const files[] = { "results.jsonl", "verdicts.jsonl" };
    static const char *const keys[] = { "trace", "work" };
    for (int f = 0; f < 2; f++) {
        json_t *rows[2][16];
        unsigned n[2] = { 0, 0 };
        for (int i = 0; i < 2; i++) {
            FILE *file = fopen(path_of("%s/%s", i ? "sharded" : "plain", files[f]), "r");
            ck_assert_ptr_nonnull(file);
            json_error_t error;
            while (n[i] < 16 &&
                   (rows[i][n[i]] = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error)) != NULL) {
                json_object_del(rows[i][n[i]++], "seconds");
            }
            fclose(file);
        }
        ck_assert_uint_eq(n[0], f == 0 ? 12 : 3);
        ck_assert_uint_eq(n[0], n[1]);
        static const char *const sorted[] = { "two", "three", "five" }; /* w2, w3, w5 */
        unsigned each = n[0] / 3;
        for (unsigned i = 0; i < n[1]; i++) {
            const char *name = json_string_value(json_object_get(rows[1][i], keys[f]));
            ck_assert_str_eq(name, sorted[i / each]);
            unsigned theirs = (i / each + 2) % 3 * each + i % each; /* three, five, two */
            ck_assert_msg(json_equal(rows[0][theirs], rows[1][i]), "%s %u", files[f], i);
        }
        for (unsigned i = 0; i < n[0]; i++) {
            json_decref(rows[0][i]);
            json_decref(rows[1][i]);
        }
    }
}
END_TEST

static unsigned n_lines(const char *path)
{
    size_t n;
    unsigned found = 0;
    char *text = content_of(path, &n);
    for (size_t i = 0; i < n; i++) {
        found += text[i] == '\n';
    }
    free(text);
    return found;
}

/* The part with most lines; NULL if there are no parts. */
static const char *find_part(const char *out)
{
    static char path[512];
    path[0] = '\0';
    DIR *dir = opendir(path_of("%s", out));
    unsigned most = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        const char *found = path_of("%s/%s", out, entry->d_name);
        size_t n = strlen(found);
        if (n > 5 && strcmp(found + n - 5, ".part") == 0 && n_lines(found) >= most) {
            most = n_lines(found);
            snprintf(path, sizeof path, "%s", found);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return path[0] ? path : NULL;
}

START_TEST(a_shard_that_was_cut_is_named_and_run_again_measures_what_is_lost)
{
    all_shards(2, "good");
    merge_well("good");
    all_shards(2, "cut");
    const char *path = path_of("cut/shard-00000-of-00002.jsonl");
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    unsigned n_own = n_lines(path) - 1;
    ck_assert_uint_ge(n_own, 2);
    ck_assert_int_eq(truncate(path, st.st_size - 20), 0);
    merge("cut");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "1 shards are cut or damaged: 0:"));
    ck_assert_int_ne(access(path_of("cut/results.csv"), F_OK), 0);
    shard_well("0/2", "cut", works());
    ck_assert_ptr_nonnull(strstr(child.out, "whole; 1 works measured now"));
    merge_well("cut");
    check_same("good", "cut");
    ck_assert_ptr_null(find_part("cut"));
    /* within the head line */
    ck_assert_int_eq(truncate(path_of("cut/shard-00000-of-00002.jsonl"), 30), 0);
    shard_well("0/2", "cut", works());
    merge_well("cut");
    check_same("good", "cut");
    shard_well("0/2", "cut", works());
    ck_assert_ptr_nonnull(strstr(child.out, "whole; 0 works measured now"));
}
END_TEST

/* The last work by name takes a second, which leaves time for a kill. */
static const char *long_works(void)
{
    static char text[512];
    snprintf(text, sizeof text, "--repeat 30 %s churn:iterations=60", works());
    return text;
}

/* Kill the process when `n` works are in its file. One more work may follow before the process
 * dies. */
static void kill_after(unsigned n, int signal_number)
{
    char line[1024];
    snprintf(line, sizeof line, "ab %s --shard 0/1 --out %s %s", measured, path_of("killed"),
             long_works());
    bench_child_start(&child, line);
    for (const char *part;;) {
        part = find_part("killed");
        if (part && n_lines(part) > n) {
            break;
        }
        ck_assert_int_eq(waitpid(child.pid, NULL, WNOHANG), 0);
        usleep(1000);
    }
    ck_assert_int_eq(kill(child.pid, signal_number), 0);
    bench_child_finish(&child);
}

START_TEST(a_shard_that_was_killed_twice_goes_on_where_it_stopped)
{
    shard_well("0/1", "good", long_works());
    merge_well("good");
    kill_after(1, SIGKILL);
    ck_assert_int_eq(child.status, -1);
    merge("killed");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "1 of 1 shards are missing: 0 (1 of them begun)"));
    const char *part = find_part("killed");
    struct stat st;
    ck_assert_int_eq(stat(part, &st), 0);
    ck_assert_int_eq(truncate(part, st.st_size + 100), 0); /* zeros, as a crash leaves them */
    kill_after(3, SIGTERM);
    ck_assert_msg(child.status == 130 || child.status == -1, "%d", child.status);
    shard_well("0/1", "killed", long_works());
    ck_assert_ptr_null(strstr(child.out, "; 0 are there"));
    merge_well("killed");
    check_same("good", "killed");
    ck_assert_ptr_null(find_part("killed"));
}
END_TEST

START_TEST(missing_shards_are_named)
{
    shard_well("1/15", "out", works());
    merge("out");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(
        strstr(child.err, "14 of 15 shards are missing: 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 "
                          "and 2 more (0 of them begun)"));
    ck_assert_int_eq(mkdir(path_of("empty"), 0700), 0);
    merge("empty");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "there are no shards"));
    merge("nowhere");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "nowhere"));
}
END_TEST

static void copy(const char *from, const char *to)
{
    size_t n;
    char *text = content_of(from, &n);
    FILE *file = fopen(to, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, n, file), n);
    fclose(file);
    free(text);
}

START_TEST(shards_of_different_studies_are_refused)
{
    all_shards(2, "out");
    shard("0/2", "out", "--fit no_such_work");
    ck_assert_int_eq(child.status, 2);
    char rest[512];
    snprintf(rest, sizeof rest, "--depth 4 %s", works());
    shard("0/2", "out", rest);
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "holds another study (depth: 256 and 4)"));
    shard("0/3", "out", works());
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "numbers of shards: 2 and 3"));
    ck_assert_ptr_null(find_part("out"));
    shard_well("1/2", "other", rest);
    copy(path_of("other/shard-00001-of-00002.jsonl"), path_of("out/shard-00001-of-00002.jsonl"));
    merge("out");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "different studies: depth: 256 and 4"));
    shard_well("1/3", "third", works());
    copy(path_of("third/shard-00001-of-00003.jsonl"), path_of("out/shard-00001-of-00003.jsonl"));
    merge("out");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "different numbers of shards"));
}
END_TEST

/* Replaces the first `from` of a file. */
static void edit(const char *path, const char *from, const char *to)
{
    size_t n;
    char *text = content_of(path, &n);
    char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "%s", from);
    FILE *file = fopen(path, "w");
    fwrite(text, 1, (size_t)(at - text), file);
    fputs(to, file);
    fputs(at + strlen(from), file);
    fclose(file);
    free(text);
}

START_TEST(shards_of_different_versions_or_with_works_twice_are_refused)
{
    all_shards(2, "out");
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("out/shard-00001-of-00002.jsonl"));
    edit(path, "\"pleat\":\"", "\"pleat\":\"7.");
    merge("out");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "versions of pleat"));
    edit(path, "\"pleat\":\"7.", "\"pleat\":\"");
    edit(path, "\"digest\":\"", "\"digest\":\"0");
    merge("out");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "a file has another size"));
    edit(path, "\"digest\":\"0", "\"digest\":\"");
    copy(path_of("out/shard-00000-of-00002.jsonl"), path);
    merge("out");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "is shard 0 by its content"));
    edit(path, "\"index\":0", "\"index\":1");
    merge("out");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, " is in shard-00000-of-00002.jsonl and in "
                                            "shard-00001-of-00002.jsonl"));
}
END_TEST

/* A repaired file of equal size counts as the same work. */
START_TEST(a_work_that_cannot_be_measured_stops_nobody_and_is_tried_again)
{
    static const char damaged[] = "a 1 4096 0\nf 2\n";
    static const char whole[] = "a 1 4096 0\nf 1\n";
    write_file(path_of("w4/bad.trace"), whole);
    all_shards(2, "good");
    merge_well("good");
    write_file(path_of("w4/bad.trace"), damaged);
    all_shards(2, "out");
    merge("out");
    ck_assert_int_eq(child.status, 1);
    ck_assert_ptr_nonnull(strstr(child.err, "1 of 7 works could not be measured whole"));
    ck_assert_ptr_nonnull(strstr(child.out, "7 jobs, 6 measured"));
    size_t n;
    char *fleet = content_of(path_of("out/fleet.json"), &n);
    ck_assert_ptr_nonnull(strstr(fleet, "\"problems\":[{\"work\":\"bad\",\"problem\":"));
    free(fleet);
    write_file(path_of("w4/bad.trace"), whole);
    all_shards(2, "out");
    merge_well("out");
    check_same("good", "out");
}
END_TEST

START_TEST(what_does_not_go_together_is_refused)
{
    static const struct {
        const char *line;
        const char *word;
    } bad[] = {
        { "--merge out churn", "no WORK" },
        { "--merge out --shard 0/1", "--shard" },
        { "--merge out --fit", "--fit" },
        { "--merge out --memory 2x", "--memory" },
        { "--merge out --job", "--job" },
        { "--shard 0/1 --time 2 churn", "--time" },
        { "--shard 0/1", "WORK is missing" },
        { "--shard auto churn", "no launcher" },
        { "--shard 0/2 no_such_work", "no_such_work" },
        { "--shard 0/2 churn:speed=9", "speed" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[512];
        snprintf(line, sizeof line, "ab --driver sim --out %s %s", path_of("out"), bad[i].line);
        bench_child_run(&child, line);
        ck_assert_msg(child.status == 2, "%s: %d", bad[i].line, child.status);
        ck_assert_msg(strstr(child.err, bad[i].word) != NULL, "%s: %s", bad[i].line, child.err);
        ck_assert_int_ne(access(path_of("out"), F_OK), 0);
    }
}
END_TEST

START_TEST(foreign_files_stay)
{
    all_shards(1, "out");
    write_file(path_of("out/fleet.json"), "somebody's own notes\n");
    merge("out");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "fleet.json"));
    ck_assert_int_ne(access(path_of("out/results.csv"), F_OK), 0);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add_tcase(suite, tcase);
    return tcase;
}

SUITE(bench_fleet)
{
    TCase *sharing = add_case(suite, "sharing");
    tcase_add_test(sharing, a_rank_is_read_as_it_is_given);
    tcase_add_test(sharing, a_bad_rank_is_refused_by_its_name);
    tcase_add_test(sharing, auto_is_what_the_launcher_set_and_the_inner_one_comes_first);
    tcase_add_test(sharing, a_task_of_an_array_has_to_say_of_how_many);
    tcase_add_loop_test(sharing, works_are_shared_out_evenly_and_in_any_order_alike, 0, 3);
    tcase_add_test(sharing, works_of_one_name_are_called_what_was_typed);
    tcase_add_test(sharing, a_work_that_is_given_twice_is_refused);
    TCase *result = add_case(suite, "result");
    tcase_add_test(result, the_result_is_the_same_whatever_the_number_of_shards);
    tcase_add_test(result, rows_and_verdicts_are_those_of_an_ordinary_study);
    tcase_add_test(result, a_shard_that_was_cut_is_named_and_run_again_measures_what_is_lost);
    tcase_add_test(result, a_shard_that_was_killed_twice_goes_on_where_it_stopped);
    TCase *errors = add_case(suite, "errors");
    tcase_add_test(errors, missing_shards_are_named);
    tcase_add_test(errors, shards_of_different_studies_are_refused);
    tcase_add_test(errors, shards_of_different_versions_or_with_works_twice_are_refused);
    tcase_add_test(errors, a_work_that_cannot_be_measured_stops_nobody_and_is_tried_again);
    tcase_add_test(errors, what_does_not_go_together_is_refused);
    tcase_add_test(errors, foreign_files_stay);
}

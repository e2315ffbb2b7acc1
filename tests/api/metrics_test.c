/* metrics_test.c - the file of metrics: the contents, and the protection from bad paths and foreign
 * files. */
/* labels: unit */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, PAGE_BYTES = 1 << 18, GOOD = 42 };

static char folder[64];
static char path[96];
static char page[PAGE_BYTES];

static void make_folder(void)
{
    ck_assert_int_eq(setenv("PLEAT_CONF", "driver:sim", 1), 0);
    snprintf(folder, sizeof folder, "/tmp/pleat-metrics-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/it.prom", folder);
}

static void set_up(void)
{
    api_sim_load();
    make_folder();
}

/* Nothing is left beside the pages. */
static void tear_down(void)
{
    char name[400];
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t n = strlen(entry->d_name);
        if (entry->d_name[0] == '.') {
            continue;
        }
        ck_assert_msg(n > 5 && strcmp(entry->d_name + n - 5, ".prom") == 0, "%s", entry->d_name);
        snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        ck_assert_int_eq(unlink(name), 0);
    }
    closedir(dir);
    ck_assert_int_eq(rmdir(folder), 0);
}

static bool read_page(void)
{
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(page, 1, sizeof page - 1, file) : 0;
    page[n] = '\0';
    if (file) {
        fclose(file);
    }
    return n > 0;
}

/* Make an instance that writes a page at creation, at the end, and every `ms` in between. */
static pleat make(int allocator, unsigned ms)
{
    char more[256];
    snprintf(more, sizeof more, ",metrics:%s,metrics_ms:%u", path, ms);
    return api_make(allocator, "capacity:256M,devices:2", more + 1);
}

static void await_page(void)
{
    while (!read_page()) {
        usleep(1000);
    }
}

/* The value of a series with `labels` behind pid. -1: no such series. */
static double value(const char *name, const char *labels)
{
    char series[256];
    snprintf(series, sizeof series, "\n%s{pid=\"%ld\"%s} ", name, (long)getpid(), labels);
    const char *at = strstr(page, series);
    return at ? strtod(at + strlen(series), NULL) : -1.0;
}

#define expect(name, labels, n) ck_assert_double_eq(value(name, labels), (double)(n))

/* ---- the contents ---------------------------------------------------------------------------- */

START_TEST(the_last_page_tells_the_statistics)
{
    static const char of[] = ",instance_id=\"1\",device=\"0\"";
    pleat instance = make(_i, 86400000);
    pleat_devptr block = api_alloc(instance, 0, 20 * MIB, NULL);
    pleat_devptr other = api_alloc(instance, 0, 3 * MIB, NULL);
    pleat_devptr none;
    api_alloc(instance, 0, 600, NULL);
    api_free(instance, 0, other, NULL);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, (size_t)4096 * MIB, NULL, &none),
                     PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 200 * MIB), PLEAT_OK);
    pleat_stats s = api_stats(instance, 0);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    ck_assert(read_page());
    expect("pleat_running", "", 0);
    expect("pleat_write_failures_total", "", 0);
    expect("pleat_live_bytes", of, s.allocated_bytes[0].current);
    expect("pleat_resident_bytes", of, s.reserved_bytes[0].current);
    expect("pleat_free_bytes", of, s.free_bytes);
    expect("pleat_pending_bytes", of, s.pending_bytes);
    expect("pleat_idle_bytes", of, s.idle_bytes);
    expect("pleat_peak_live_bytes", of, s.allocated_bytes[0].peak);
    expect("pleat_peak_resident_bytes", of, s.reserved_bytes[0].peak);
    expect("pleat_limit_bytes", of, 200 * MIB);
    expect("pleat_device_bytes", of, 256 * MIB);
    expect("pleat_blocks", of, 2);
    expect("pleat_allocations_total", of, 3);
    expect("pleat_frees_total", of, 1);
    expect("pleat_failures_total", of, 1);
    expect("pleat_created_bytes_total", of, s.bytes_created);
    expect("pleat_mapped_bytes_total", of, s.bytes_mapped);
    expect("pleat_driver_calls_total", of, s.n_driver_calls);
    char operation[96];
    snprintf(operation, sizeof operation, "%s,operation=\"map\"", of);
    expect("pleat_device_operations_total", operation, s.ops_map);
    snprintf(operation, sizeof operation, "%s,operation=\"alloc\"", of);
    expect("pleat_device_operations_total", operation, s.ops_alloc);
    ck_assert_double_eq(value("pleat_live_bytes", ",instance_id=\"1\",device=\"1\""), -1.0);
    (void)block;
}
END_TEST

/* Metrics whose series have been seen. */
static char done[64][64];
static unsigned n_done;

static void begin_metric(const char *name)
{
    for (unsigned i = 0; i < n_done; i++) {
        ck_assert_msg(strcmp(done[i], name) != 0, "%s stands in two places", name);
    }
    ck_assert_uint_lt(n_done, 64);
    snprintf(done[n_done++], sizeof done[0], "%s", name);
}

/* HELP, then TYPE, then the metric's series and no other's. */
static void check_line(const char *line)
{
    char name[64];
    char kind[16];
    const char *current = n_done ? done[n_done - 1] : "";
    if (sscanf(line, "# HELP %63s", name) == 1) {
        begin_metric(name);
        ck_assert_msg(line[strlen(line) - 1] == '.', "%s", line);
        return;
    }
    if (sscanf(line, "# TYPE %63s %15s", name, kind) == 2) {
        size_t n = strlen(name);
        bool is_total = n > 6 && strcmp(name + n - 6, "_total") == 0;
        ck_assert_str_eq(name, current);
        ck_assert_str_eq(kind, is_total ? "counter" : "gauge");
        return;
    }
    size_t n = strcspn(line, "{");
    ck_assert_msg(line[n] == '{' && n == strlen(current) && strncmp(line, current, n) == 0, "%s",
                  line);
    ck_assert_uint_eq(strspn(line, "abcdefghijklmnopqrstuvwxyz_"), n);
    const char *end = strrchr(line, '}');
    ck_assert_msg(end && end[1] == ' ', "%s", line);
    char *rest;
    ck_assert_double_ge(strtod(end + 2, &rest), 0.0);
    ck_assert_msg(*rest == '\0', "%s", line);
}

START_TEST(a_page_keeps_the_rules_of_the_format)
{
    pleat instance = make(_i, 86400000);
    api_alloc(instance, 0, MIB, NULL);
    api_alloc(instance, 1, MIB, NULL);
    pleat other = make(_i, 86400000);
    api_alloc(other, 0, MIB, NULL);
    ck_assert_int_eq(pleat_destroy(other, PLEAT_DESTROY_FORCE), PLEAT_OK);
    ck_assert(read_page());
    expect("pleat_running", "", 1);
    expect("pleat_blocks", ",instance_id=\"2\",device=\"0\"", 1);
    ck_assert_int_eq(page[strlen(page) - 1], '\n');
    for (char *line = strtok(page, "\n"); line; line = strtok(NULL, "\n")) {
        check_line(line);
    }
    ck_assert_uint_gt(n_done, 20);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    ck_assert(read_page());
    expect("pleat_running", "", 0);
    expect("pleat_blocks", ",instance_id=\"1\",device=\"1\"", 1);
    ck_assert_ptr_null(strstr(page, "instance_id=\"2\""));
}
END_TEST

START_TEST(a_tag_has_series_of_its_own)
{
    static const char of[] = ",instance_id=\"1\",device=\"0\",tag=\"the \\\"k\\\\v\\\"\\n\"";
    static const char tag[] = "the \"k\\v\"\n";
    pleat_devptr block;
    pleat_tag_info figures;
    pleat instance = make(API_PLEAT, 86400000);
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, tag, 5 * MIB, NULL, &block), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_set_limit(instance, 0, tag, 90 * MIB), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_query(instance, 0, tag, &figures), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    ck_assert(read_page());
    expect("pleat_tag_live_bytes", of, 5 * MIB);
    expect("pleat_tag_resident_bytes", of, figures.resident_bytes);
    expect("pleat_tag_asleep_bytes", of, 0);
    expect("pleat_tag_limit_bytes", of, 90 * MIB);
}
END_TEST

START_TEST(pages_follow_while_the_program_runs)
{
    static const char of[] = ",instance_id=\"1\",device=\"0\"";
    pleat instance = make(API_PLEAT, 10);
    pleat_devptr block = api_alloc(instance, 0, 8 * MIB, NULL);
    do {
        await_page();
    } while (value("pleat_live_bytes", of) < (double)(8 * MIB));
    api_free(instance, 0, block, NULL);
    do {
        await_page();
    } while (value("pleat_live_bytes", of) > 0.0);
    api_unmake(instance);
}
END_TEST

/* ---- threads and processes ------------------------------------------------------------------- */

static int n_threads(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

START_TEST(there_is_a_thread_only_with_the_option)
{
    int before = n_threads();
    pleat without = api_make(API_PLEAT, "capacity:256M,devices:2", "metrics:none");
    api_free(without, 0, api_alloc(without, 0, MIB, NULL), NULL);
    ck_assert_int_eq(n_threads(), before);
    pleat with = make(API_PLEAT, 50);
    int after = n_threads(); /* the thread sanitizer adds a thread of its own with the first */
    ck_assert_int_gt(after, before);
    pleat also = make(API_PLEAT, 50);
    ck_assert_int_eq(n_threads(), after);
    ck_assert_int_eq(pleat_destroy(also, 0), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(with, 0), PLEAT_OK);
    api_unmake(without);
}
END_TEST

static void *come_and_go(void *unused)
{
    (void)unused;
    for (int i = 0; i < 60; i++) {
        char conf[256];
        pleat instance;
        pleat_devptr block;
        snprintf(conf, sizeof conf, "driver:sim,metrics:%s,metrics_ms:10", path);
        if (pleat_create(conf, &instance) != PLEAT_OK ||
            pleat_block_alloc(instance, 0, MIB, NULL, &block) != PLEAT_OK ||
            pleat_destroy(instance, PLEAT_DESTROY_FORCE) != PLEAT_OK) {
            return (void *)1;
        }
    }
    return NULL;
}

START_TEST(instances_come_and_go_while_pages_are_written)
{
    enum { N = 3 };
    pthread_t threads[N];
    pleat lasting = make(API_PLEAT, 10);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    }
    for (int i = 0; i < N; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(pleat_destroy(lasting, 0), PLEAT_OK);
    ck_assert(read_page());
    expect("pleat_running", "", 0);
    expect("pleat_write_failures_total", "", 0);
}
END_TEST

static int end_of(pid_t child)
{
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(a_child_leaves_the_parents_file_alone)
{
    pleat instance = make(API_PLEAT, 86400000);
    struct stat before;
    struct stat after;
    await_page();
    ck_assert_int_eq(stat(path, &before), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)!pleat_destroy(instance, PLEAT_DESTROY_FORCE);
        exit(GOOD); /* with all handlers */
    }
    ck_assert_int_eq(end_of(child), GOOD);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
    api_unmake(instance);
    ck_assert(read_page());
    expect("pleat_running", "", 0);
}
END_TEST

/* In a child: an instance with this option, which lives until a byte comes. */
static pid_t start_other(const char *option, int from)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        char conf[256];
        char byte;
        pleat instance;
        snprintf(conf, sizeof conf, "driver:sim,metrics_ms:10,metrics:%s", option);
        bool ok = read(from, &byte, 1) == 1 && pleat_create(conf, &instance) == PLEAT_OK &&
                  read(from, &byte, 1) == 1;
        exit(ok ? GOOD : 1); /* the instance lives */
    }
    return child;
}

START_TEST(a_file_that_another_process_writes_is_left_to_it)
{
    int pipe_of[2];
    ck_assert_int_eq(pipe(pipe_of), 0);
    pid_t child = start_other(path, pipe_of[0]);
    pleat instance;
    char conf[256];
    snprintf(conf, sizeof conf, "metrics:%s", path);
    ck_assert_int_eq(pleat_create(conf, &instance), PLEAT_OK);
    await_page();
    ck_assert_int_eq(write(pipe_of[1], "ab", 2), 2);
    ck_assert_int_eq(end_of(child), GOOD); /* its last page was refused, too */
    ck_assert(read_page());
    expect("pleat_running", "", 1);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
}
END_TEST

START_TEST(an_exit_writes_a_last_page)
{
    int pipe_of[2];
    char option[128];
    ck_assert_int_eq(pipe(pipe_of), 0);
    snprintf(option, sizeof option, "%s/%%p.%%%%.prom", folder);
    pid_t child = start_other(option, pipe_of[0]);
    ck_assert_int_eq(write(pipe_of[1], "ab", 2), 2);
    ck_assert_int_eq(end_of(child), GOOD);
    char series[64];
    snprintf(path, sizeof path, "%s/%ld.%%.prom", folder, (long)child);
    snprintf(series, sizeof series, "\npleat_running{pid=\"%ld\"} 0\n", (long)child);
    ck_assert(read_page());
    ck_assert_ptr_nonnull(strstr(page, series));
}
END_TEST

START_TEST(auto_is_the_users_own_and_goes_with_the_process)
{
    int pipe_of[2];
    struct stat st;
    ck_assert_int_eq(pipe(pipe_of), 0);
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    pid_t child = start_other("auto", pipe_of[0]);
    snprintf(path, sizeof path, "%s/pleat.%ld.prom", folder, (long)child);
    ck_assert_int_eq(write(pipe_of[1], "a", 1), 1);
    await_page();
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(write(pipe_of[1], "b", 1), 1);
    ck_assert_int_eq(end_of(child), GOOD);
    ck_assert_int_ne(stat(path, &st), 0);
}
END_TEST

/* ---- what can go wrong ----------------------------------------------------------------------- */

static void await_failures(double least)
{
    do {
        await_page();
    } while (value("pleat_write_failures_total", "") < least);
}

/* In a child, whose own results need no file. */
static int fill_the_disk(void)
{
    char conf[256];
    pleat instance;
    struct stat st;
    struct rlimit before;
    snprintf(conf, sizeof conf, "metrics_ms:10,metrics:%s", path);
    if (getrlimit(RLIMIT_FSIZE, &before) != 0 || pleat_create(conf, &instance) != PLEAT_OK) {
        return 1;
    }
    await_page();
    struct rlimit none = { .rlim_cur = 100, .rlim_max = before.rlim_max };
    (void)setrlimit(RLIMIT_FSIZE, &none);
    usleep(100000); /* some pages fail */
    if (stat(path, &st) != 0 || st.st_size < 1000 || !read_page() ||
        page[strlen(page) - 1] != '\n') {
        return 2;
    }
    (void)setrlimit(RLIMIT_FSIZE, &before);
    await_failures(1.0);
    return pleat_destroy(instance, 0) == PLEAT_OK ? GOOD : 3;
}

START_TEST(a_full_disk_leaves_the_last_whole_page)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(fill_the_disk());
    }
    ck_assert_int_eq(end_of(child), GOOD);
}
END_TEST

START_TEST(a_folder_that_goes_away_may_come_back)
{
    char away[96];
    snprintf(away, sizeof away, "%s-away", folder);
    pleat instance = make(API_PLEAT, 10);
    await_page();
    ck_assert_int_eq(rename(folder, away), 0);
    usleep(50000);
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    ck_assert_int_eq(rename(away, folder), 0);
    await_failures(1.0);
    api_unmake(instance);
}
END_TEST

START_TEST(what_is_no_file_of_pages_stays)
{
    struct stat st;
    char target[96];
    snprintf(target, sizeof target, "%s/target.prom", folder);
    ck_assert_int_eq(symlink(target, path), 0);
    pleat instance = make(API_PLEAT, 10);
    api_unmake(instance);
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_ne(stat(target, &st), 0);
}
END_TEST

/* A mistyped path must not replace another file. */
START_TEST(a_file_of_somebody_elses_is_left_alone)
{
    char got[16] = "";
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("precious", file);
    fclose(file);
    pleat instance = make(API_PLEAT, 10);
    api_unmake(instance);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(got, 1, sizeof got - 1, file), 8);
    fclose(file);
    ck_assert_str_eq(got, "precious");
}
END_TEST

START_TEST(a_bad_value_is_refused)
{
    static const char *const bad[] = { "metrics:", "metrics:/tmp/%d.prom", "metrics:/tmp/%",
                                       "metrics:a\nb", "metrics_ms:9" };
    pleat instance;
    char conf[64];
    snprintf(conf, sizeof conf, "driver:sim,%s", bad[_i]);
    ck_assert_int_eq(pleat_create(conf, &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "metrics", "allowed");
}
END_TEST

START_TEST(the_option_reads_back)
{
    char text[4096];
    size_t needed;
    pleat instance = make(API_PLEAT, 2000);
    ck_assert_int_eq(pleat_instance_conf(instance, text, sizeof text, &needed), PLEAT_OK);
    char part[160];
    snprintf(part, sizeof part, ",metrics:[%s],metrics_ms:2000,", path);
    ck_assert_msg(strstr(text, part) != NULL, "%s", text);
    api_unmake(instance);
}
END_TEST

SUITE(api_metrics)
{
    TCase *said = suite_case(suite, "said", set_up, tear_down);
    tcase_add_loop_test(said, the_last_page_tells_the_statistics, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(said, a_page_keeps_the_rules_of_the_format, 0, N_API_ALLOCATORS);
    tcase_add_test(said, a_tag_has_series_of_its_own);
    tcase_add_test(said, pages_follow_while_the_program_runs);
    TCase *process = suite_case(suite, "process", set_up, tear_down);
    tcase_add_test(process, there_is_a_thread_only_with_the_option);
    tcase_add_test(process, instances_come_and_go_while_pages_are_written);
    tcase_add_test(process, a_child_leaves_the_parents_file_alone);
    TCase *pair = suite_case(suite, "pair", make_folder, tear_down);
    tcase_add_test(pair, a_file_that_another_process_writes_is_left_to_it);
    tcase_add_test(pair, an_exit_writes_a_last_page);
    tcase_add_test(pair, auto_is_the_users_own_and_goes_with_the_process);
    tcase_add_test(pair, a_full_disk_leaves_the_last_whole_page);
    TCase *wrong = suite_case(suite, "wrong", set_up, tear_down);
    tcase_add_test(wrong, a_folder_that_goes_away_may_come_back);
    tcase_add_test(wrong, what_is_no_file_of_pages_stays);
    tcase_add_test(wrong, a_file_of_somebody_elses_is_left_alone);
    tcase_add_loop_test(wrong, a_bad_value_is_refused, 0, 5);
    tcase_add_test(wrong, the_option_reads_back);
}

/* log_test.c - the call log and the cost clock. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"
#include "vmm/tools/sim/cost.h"

enum { MAX_LINES = 12000 };

static char path[] = "/tmp/pleat_sim_XXXXXX";

static void make_path(void)
{
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void begin(void)
{
    make_path();
    world_default();
}

static void end(void)
{
    unlink(path);
    world_end();
}

/* Read the log into lines, and return their number. */
static size_t read_log(char lines[][256], size_t n)
{
    size_t n_lines = 0;
    ck_assert_int_eq(pleat_sim_write_log(path), 0);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    char line[256];
    while (fgets(line, sizeof(line), file) != NULL) {
        ck_assert(line[strlen(line) - 1] == '\n' && line[strlen(line) - 2] == '}');
        if (n_lines < n) {
            memcpy(lines[n_lines], line, sizeof(line));
        }
        n_lines++;
    }
    fclose(file);
    return n_lines;
}

static unsigned long number_of(const char *line)
{
    unsigned long n = 0;
    ck_assert_int_eq(sscanf(line, "{\"n\": %lu,", &n), 1);
    return n;
}

START_TEST(every_call_is_logged_with_arguments_and_result)
{
    static char lines[16][256];
    char handle_text[64];
    cu_mem_handle handle = world_create(1);
    ck_assert_int_eq(cuMemMap(GRANULE, GRANULE, 0, handle, 0), CU_INVALID_VALUE);
    ck_ok(cuMemRelease(handle));
    size_t n = read_log(lines, 16);
    ck_assert_uint_eq(n, 6);
    ck_assert(strstr(lines[0], "\"call\": \"cuInit\"") != NULL);
    ck_assert(strstr(lines[3], "\"call\": \"cuMemCreate\"") != NULL);
    ck_assert(strstr(lines[3], "\"bytes\": 2097152") != NULL);
    ck_assert(strstr(lines[3], "\"us\": 15") != NULL);
    snprintf(handle_text, sizeof(handle_text), "\"handle\": \"0x%llx\"", handle);
    ck_assert(strstr(lines[3], handle_text) != NULL);
    ck_assert(strstr(lines[4], handle_text) != NULL);
    ck_assert(strstr(lines[4], "\"ptr\": \"0x200000\"") != NULL);
    ck_assert(strstr(lines[4], "\"result\": 1,") != NULL);
    ck_assert(strstr(lines[5], "\"result\": 0,") != NULL);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(number_of(lines[i]), i + 1);
    }
}
END_TEST

START_TEST(a_hazard_names_the_call_that_revealed_it)
{
    static char lines[16][256];
    pleat_sim_hazard hazard;
    cu_stream stream = world_stream();
    world_write(stream, 4096, 16);
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(stream));
    ck_assert_uint_eq(pleat_sim_hazards(&hazard, 1), 1);
    ck_assert_uint_le(read_log(lines, 16), 16);
    ck_assert(strstr(lines[hazard.call - 1], "\"call\": \"pleat_sim_work\"") != NULL);
    ck_assert(strstr(lines[hazard.call - 1], "\"bytes\": 16") != NULL);
    world_end_with(PLEAT_SIM_UNMAPPED_ACCESS, 1);
    world_default();
}
END_TEST

START_TEST(the_ring_keeps_the_last_4096_calls)
{
    static char lines[MAX_LINES][256];
    int count;
    for (size_t i = 0; i < 5000; i++) {
        ck_ok(cuDeviceGetCount(&count));
    }
    ck_assert_uint_eq(read_log(lines, MAX_LINES), 4096);
    ck_assert_uint_eq(number_of(lines[0]), 5003 - 4096 + 1);
    ck_assert_uint_eq(number_of(lines[4095]), 5003);
}
END_TEST

START_TEST(the_full_log_keeps_all_of_them)
{
    static char lines[MAX_LINES][256];
    int count;
    world_end();
    world_begin("log:full");
    for (size_t i = 0; i < 10000; i++) {
        ck_ok(cuDeviceGetCount(&count));
    }
    ck_assert_uint_eq(read_log(lines, MAX_LINES), 10003);
    ck_assert_uint_eq(number_of(lines[0]), 1);
    ck_assert_uint_eq(number_of(lines[10002]), 10003);
}
END_TEST

START_TEST(calls_are_counted_by_entry_point_and_together)
{
    uint64_t before = world_counts().calls;
    cu_devptr at = world_map(3);
    ck_assert_int_eq(cuMemMap(at, GRANULE, 0, 99, 0), CU_INVALID_VALUE);
    ck_assert_uint_eq(pleat_sim_n_calls("cuMemMap"), 4);
    ck_assert_uint_eq(pleat_sim_n_calls("cuMemSetAccess"), 1);
    world_write(NULL, at, 512);
    ck_assert_uint_eq(pleat_sim_n_calls("pleat_sim_work"), 1);
    ck_assert_uint_eq(world_counts().calls, before + 1 + 3 * 3 + 1 + 1);
    pleat_sim_finish();
    world_unmap(at, 3);
}
END_TEST

START_TEST(a_log_that_cannot_be_written_is_an_error)
{
    ck_assert_int_eq(pleat_sim_write_log("/nowhere/at/all"), -1);
}
END_TEST

/* The cost since the last call of this function. */
static double spent(void)
{
    static double before;
    double now = pleat_sim_cost_us();
    double us = now - before;
    before = now;
    return us;
}

START_TEST(the_default_clock_gives_the_published_a100_figures)
{
    (void)spent();
    cu_devptr at = world_reserve(1);
    ck_assert_double_eq_tol(spent(), 19, 0.001);
    cu_mem_handle handle = world_create(1);
    ck_assert_double_eq_tol(spent(), 15, 0.001);
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_assert_double_eq_tol(spent(), 1.45, 0.001);
    world_allow(at, 1, 0, CU_ACCESS_READ_WRITE);
    ck_assert_double_eq_tol(spent(), 36, 0.001);
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_assert_double_eq_tol(spent(), 25.6, 0.001);
    ck_ok(cuMemRelease(handle));
    ck_assert_double_eq_tol(spent(), 23, 0.001);
    ck_ok(cuMemAddressFree(at, GRANULE));
    ck_assert_double_eq_tol(spent(), 1, 0.001);
}
END_TEST

/* Begins afresh with a cost file of that text. */
static void spend_by(const char *text, const char *conf)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    char all[192];
    snprintf(all, sizeof(all), "costs:%s,%s", path, conf);
    world_end();
    world_begin(all);
    (void)spent();
}

START_TEST(the_clock_counts_runs_handles_granules_and_bytes)
{
    spend_by("# a model\ngpu Some GPU\nsource somebody\n\n"
             "cuMemCreate call 1 mib 0.5 # trailing\ncuMemMap handle 10\n"
             "cuMemSetAccess call 100 granule 3\ncuMemUnmap\tgranule 1 call 1000\n"
             "cuMemAlloc_v2 mib 2\n",
             "depth:256");
    cu_devptr at = world_map(4);
    ck_assert_double_eq_tol(spent(), 4 * (1 + 1) + 4 * 10 + 112, 0.001);
    world_unmap(at, 4);
    ck_assert_double_eq_tol(spent(), 1004, 0.001);
    ck_ok(cuMemAlloc_v2(&at, 3 << 20));
    ck_assert_double_eq_tol(spent(), 6, 0.001);
    ck_ok(cuMemFree_v2(at));
    ck_assert_double_eq_tol(spent(), 0, 0.001);
}
END_TEST

START_TEST(a_bad_cost_file_is_refused_with_its_line)
{
    static const char *const bad[] = {
        "\ncuMemCrate call 1\n",     "\ncuMemMap cal 1\n",     "\ncuMemMap call\n",
        "\ncuMemMap call x\n",       "\ncuMemMap call -1\n",   "\ncuMemMap call inf\n",
        "\npleat_sim_work call 1\n", "\ncuMemCreate live 1\n", "\ncuMemCreate live_most 1\n",
    };
    char conf[128];
    snprintf(conf, sizeof(conf), "costs:%s", path);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fputs(bad[i], file);
        fclose(file);
        ck_assert_int_eq(pleat_sim_reset(conf), -1);
        ck_assert_msg(strstr(pleat_sim_error(), ":2: ") != NULL, "%s", pleat_sim_error());
    }
}
END_TEST

/* What follows a byte 0 would be dropped. */
START_TEST(a_cost_file_with_a_byte_0_is_refused)
{
    static const char text[] = "\ncuMemMap call 1\0 handle 2\ncuMemUnmap call 3\n";
    static const size_t lengths[] = { sizeof(text) - 1, strlen("\ncuMemMap call 1") + 1 };
    char conf[128];
    snprintf(conf, sizeof(conf), "costs:%s", path);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        ck_assert_uint_eq(fwrite(text, 1, lengths[i], file), lengths[i]);
        fclose(file);
        ck_assert_int_eq(pleat_sim_reset(conf), -1);
        ck_assert_msg(strstr(pleat_sim_error(), ":2: ") != NULL, "%s", pleat_sim_error());
    }
}
END_TEST

START_TEST(a_cost_file_that_is_not_read_to_its_end_is_refused)
{
    enum { MOST = 1 << 20 };
    char conf[128];
    snprintf(conf, sizeof(conf), "costs:%s", path);
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        for (int n = 0; n < MOST + i; n++) {
            fputc(n % 64 == 63 ? '\n' : '#', file);
        }
        fclose(file);
        if (i == 0) {
            world_end();
            world_begin(conf);
        }
    }
    ck_assert_int_eq(pleat_sim_reset(conf), -1);
    ck_assert_msg(strstr(pleat_sim_error(), "larger than 1 MiB") != NULL, "%s", pleat_sim_error());
}
END_TEST

START_TEST(the_clock_counts_the_handles_that_are_live_up_to_a_bound)
{
    cu_mem_handle handles[8];
    spend_by("cuMemCreate call 10 live 1000 live_most 3\ncuMemMap live 1000 live_most 9\n"
             "cuMemRelease live 2000 live_most 9\n",
             "devices:2");
    static const double create[] = { 10, 11, 12, 13, 13 };
    for (int i = 0; i < 5; i++) {
        handles[i] = world_create(1);
        ck_assert_double_eq_tol(spent(), create[i], 0.001);
    }
    cu_mem_prop prop = world_prop(1);
    ck_ok(cuMemCreate(&handles[5], GRANULE, &prop, 0));
    ck_assert_double_eq_tol(spent(), 10, 0.001); /* none is live on the other device */
    cu_devptr at = world_reserve(1);
    ck_ok(cuMemMap(at, GRANULE, 0, handles[0], 0));
    ck_assert_double_eq_tol(spent(), 5, 0.001);
    ck_ok(cuMemRelease(handles[0])); /* the mapping keeps the memory */
    ck_assert_double_eq_tol(spent(), 10, 0.001);
    ck_ok(cuMemRelease(handles[1]));
    ck_assert_double_eq_tol(spent(), 10, 0.001);
    ck_ok(cuMemRelease(handles[2]));
    ck_assert_double_eq_tol(spent(), 8, 0.001);
    for (int i = 3; i < 6; i++) {
        ck_ok(cuMemRelease(handles[i]));
    }
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_ok(cuMemAddressFree(at, GRANULE));
}
END_TEST

START_TEST(creating_on_an_a100_repeats_the_published_quantiles)
{
    enum { N = 4096 };
    static cu_mem_handle handles[N];
    static double us[N];
    double sum = 0;
    world_end();
    world_begin("costs:a100,capacity:16G");
    (void)spent();
    for (int i = 0; i < N; i++) {
        handles[i] = world_create(1);
        sum += us[i] = spent();
    }
    ck_assert_double_eq_tol(us[N / 2], 195, 1);
    ck_assert_double_eq_tol(us[N * 9 / 10], 339, 1);
    ck_assert_double_eq_tol(sum / N, 193.32, 3);
    for (int i = 0; i < N; i++) {
        ck_ok(cuMemRelease(handles[i]));
    }
}
END_TEST

/* Us of mapping and unmapping a run of n handles of `granules` each. */
static void spend_on_run(const char *conf, size_t n, size_t granules, double *up, double *down)
{
    cu_mem_handle handles[64];
    size_t bytes = granules * GRANULE;
    world_end();
    world_begin(conf);
    for (size_t i = 0; i < n; i++) {
        handles[i] = world_create(granules);
    }
    cu_devptr at = world_reserve(n * granules);
    (void)spent();
    for (size_t i = 0; i < n; i++) {
        ck_ok(cuMemMap(at + i * bytes, bytes, 0, handles[i], 0));
    }
    world_allow(at, n * granules, 0, CU_ACCESS_READ_WRITE);
    *up = spent();
    ck_ok(cuMemUnmap(at, n * bytes));
    *down = spent();
    for (size_t i = 0; i < n; i++) {
        ck_ok(cuMemRelease(handles[i]));
    }
    ck_ok(cuMemAddressFree(at, n * bytes));
}

START_TEST(the_shipped_models_repeat_their_sources)
{
    double up;
    double down;
    spend_on_run("costs:driver580", 64, 1, &up, &down);
    ck_assert_double_eq_tol(up, 64 + 4416, 0.001); /* plow: 4.2 ms for access */
    ck_assert_double_eq_tol(down, 64 * 39, 0.001);
    spend_on_run("costs:driver580", 64, 8, &up, &down);
    ck_assert_double_eq_tol(up, 64 + 4416, 0.001);
    spend_on_run("costs:gb10", 1, 1, &up, &down);
    ck_assert_double_eq_tol(up, 33, 0.1);
    spend_on_run("costs:gb10", 1, 32, &up, &down);
    ck_assert_double_eq_tol(up, 325, 1);
    ck_assert_double_eq(down, 0);
    spend_on_run("costs:a100", 64, 1, &up, &down);
    ck_assert_double_eq_tol(up, 64 * (1.45 + 36), 0.001);
    ck_assert_double_eq_tol(down, 64 * 25.6, 0.001);
}
END_TEST

START_TEST(each_cost_file_of_the_tree_is_built_in_to_the_letter)
{
    static char text[32768];
    glob_t found;
    size_t n = 0;
    ck_assert_int_eq(glob(PLEAT_SOURCE_DIR "/vmm/tools/sim/costs/*.cost", 0, NULL, &found), 0);
    for (const sim_cost_file *built = sim_cost_files; built->name != NULL; built++, n++) {
        char place[512];
        snprintf(place, sizeof(place), PLEAT_SOURCE_DIR "/vmm/tools/sim/costs/%s.cost",
                 built->name);
        FILE *file = fopen(place, "r");
        ck_assert_ptr_nonnull(file);
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        ck_assert_str_eq(text, built->text);
    }
    ck_assert_uint_eq(n, found.gl_pathc);
    ck_assert_uint_ge(n, 3);
    globfree(&found);
}
END_TEST

SUITE(sim_log)
{
    TCase *log = tcase_create("log");
    tcase_add_checked_fixture(log, begin, end);
    tcase_add_test(log, every_call_is_logged_with_arguments_and_result);
    tcase_add_test(log, a_hazard_names_the_call_that_revealed_it);
    tcase_add_test(log, the_ring_keeps_the_last_4096_calls);
    tcase_add_test(log, the_full_log_keeps_all_of_them);
    tcase_add_test(log, calls_are_counted_by_entry_point_and_together);
    tcase_add_test(log, a_log_that_cannot_be_written_is_an_error);
    suite_add_tcase(suite, log);
    TCase *cost = tcase_create("cost");
    tcase_add_checked_fixture(cost, begin, end);
    tcase_add_test(cost, the_default_clock_gives_the_published_a100_figures);
    tcase_add_test(cost, the_clock_counts_runs_handles_granules_and_bytes);
    tcase_add_test(cost, a_bad_cost_file_is_refused_with_its_line);
    tcase_add_test(cost, a_cost_file_with_a_byte_0_is_refused);
    tcase_add_test(cost, a_cost_file_that_is_not_read_to_its_end_is_refused);
    tcase_add_test(cost, the_clock_counts_the_handles_that_are_live_up_to_a_bound);
    tcase_add_test(cost, creating_on_an_a100_repeats_the_published_quantiles);
    tcase_add_test(cost, the_shipped_models_repeat_their_sources);
    tcase_add_test(cost, each_cost_file_of_the_tree_is_built_in_to_the_letter);
    suite_add_tcase(suite, cost);
}

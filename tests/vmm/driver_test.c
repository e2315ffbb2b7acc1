/* driver_test.c - the loader, the counting wrappers, the last error. */
/* alone: the test runs a copy of itself in another folder */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/driver_state.h"

enum { N_THREADS = 4, N_CALLS = 5000 };

static vmm_sim sim;

static void open_sim(void)
{
    vmm_sim_open(&sim, "devices:2");
}

static void close_sim(void)
{
    vmm_sim_close(&sim);
}

/* ---- loader ---------------------------------------------------------------------------------- */

START_TEST(the_simulator_opens_beside_the_program)
{
    int count = 0;
    ck_assert_int_eq(pl_driver_kind_of(sim.drv), PL_DRIVER_SIM);
    ck_assert_int_eq(pl_cu_device_count(sim.drv, &count), CU_SUCCESS);
    ck_assert_int_eq(count, 2);
}
END_TEST

START_TEST(every_entry_point_of_the_list_is_in_the_simulator)
{
    for (int i = 0; i < PL_N_ENTRIES; i++) {
        ck_assert_msg(pl_driver_has(sim.drv, (pl_entry)i), "%s", pl_entry_symbol((pl_entry)i));
    }
}
END_TEST

START_TEST(a_bad_simulator_configuration_is_named)
{
    pl_driver *drv = NULL;
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, "colour:green", &drv), PLEAT_ECONF);
    ck_assert_ptr_null(drv);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "colour"));
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, ", delay_after")); /* the last */
}
END_TEST

START_TEST(a_null_configuration_leaves_the_simulator_as_it_is)
{
    pl_driver *drv = NULL;
    int count = 0;
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, NULL, &drv), PLEAT_OK);
    ck_assert_int_eq(pl_cu_device_count(drv, &count), CU_SUCCESS);
    ck_assert_int_eq(count, 2);
    pl_driver_close(drv);
}
END_TEST

START_TEST(a_simulator_that_is_not_there_is_named)
{
    pl_driver *drv = NULL;
    setenv("PLEAT_SIM_LIBRARY", "/nowhere/libpleat_sim.so", 1);
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, NULL, &drv), PLEAT_ENODRIVER);
    ck_assert_ptr_nonnull(
        strstr(pl_driver_last_error()->detail, "PLEAT_SIM_LIBRARY: /nowhere/libpleat_sim.so"));
    ck_assert_int_eq(pl_driver_last_error()->result, CU_SUCCESS);
}
END_TEST

START_TEST(what_is_wrong_in_the_simulators_variable_is_told)
{
    pl_driver *drv = NULL;
    setenv("PLEAT_SIM", "capcity:64M", 1);
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, NULL, &drv), PLEAT_EDRIVER);
    const char *told = "PLEAT_SIM: unknown key \"capcity\"; known: devices, capacity, ";
    ck_assert_msg(strstr(pl_driver_last_error()->detail, told) != NULL, "%s",
                  pl_driver_last_error()->detail);
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, "capacity:64M", &drv), PLEAT_OK);
    pl_driver_close(drv);
}
END_TEST

/* Run this program again in a folder without the simulator, with `kind` as argument for main. */
static void run_alone(const char *kind, char *out, size_t n)
{
    char folder[] = PLEAT_BUILD_DIR "/alone-XXXXXX";
    char path[sizeof(folder) + 16];
    char line[sizeof(path) + 16];
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    ck_assert_int_gt(length, 0);
    self[length] = '\0';
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/program", folder);
    snprintf(line, sizeof(line), "'%s' %s", path, kind);
    ck_assert_int_eq(link(self, path), 0);
    unsetenv("PLEAT_SIM_LIBRARY");
    unsetenv("LD_LIBRARY_PATH");
    FILE *child = popen(line, "r");
    size_t n_read = child != NULL ? fread(out, 1, n - 1, child) : 0;
    out[n_read] = '\0';
    int status = child != NULL ? pclose(child) : -1;
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(status, 0);
}

/* Print the error of opening a driver, or "opened". */
static int open_alone(const char *kind)
{
    pl_driver *drv = NULL;
    pleat_status st = strcmp(kind, "any") == 0    ? pl_driver_open_any(NULL, &drv)
                      : strcmp(kind, "auto") == 0 ? pl_driver_open(PL_DRIVER_AUTO, NULL, &drv)
                                                  : pl_driver_open(PL_DRIVER_SIM, NULL, &drv);
    printf("%s", st == PLEAT_OK ? "opened" : pl_driver_last_error()->detail);
    pl_driver_close(drv);
    return st == PLEAT_OK || st == PLEAT_ENODRIVER ? EXIT_SUCCESS : EXIT_FAILURE;
}

START_TEST(a_program_without_the_simulator_beside_it_is_told_how_to_name_it)
{
    static const char advice[] = "; to use the simulator, set PLEAT_SIM_LIBRARY to the path of "
                                 "libpleat_sim.so";
    char said[512];
    run_alone("sim", said, sizeof(said));
    ck_assert_msg(strncmp(said, "libpleat_sim.so: ", 17) == 0, "%s", said);
    ck_assert_msg(strstr(said, advice) != NULL, "%s", said);
    run_alone("any", said, sizeof(said));
    if (strcmp(said, "opened") != 0) { /* this machine has no GPU */
        ck_assert_msg(strncmp(said, "no GPU found; libpleat_sim.so: ", 31) == 0, "%s", said);
        ck_assert_msg(strstr(said, advice) != NULL, "%s", said);
    }
}
END_TEST

START_TEST(a_program_without_a_gpu_is_told_of_the_simulator)
{
    char said[512];
    run_alone("auto", said, sizeof(said));
    if (strcmp(said, "opened") != 0) {
        ck_assert_msg(strncmp(said, "no GPU found", 12) == 0, "%s", said);
        ck_assert_msg(strstr(said, "; driver:sim takes the simulator") != NULL, "%s", said);
    }
}
END_TEST

START_TEST(an_object_without_a_required_symbol_is_refused_and_the_symbol_named)
{
    pl_driver *drv = NULL;
    setenv("PLEAT_SIM_LIBRARY", "libm.so.6", 1);
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, NULL, &drv), PLEAT_ENODRIVER);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "cuInit"));
}
END_TEST

static int n_real_devices(void)
{
    pl_driver *cuda = NULL;
    int count = 0;
    pleat_status st = pl_driver_open(PL_DRIVER_CUDA, NULL, &cuda);
    if (st == PLEAT_OK) {
        ck_assert_int_eq(pl_cu_device_count(cuda, &count), CU_SUCCESS);
    } else {
        ck_assert(st == PLEAT_ENODRIVER || st == PLEAT_EDRIVER);
    }
    pl_driver_close(cuda);
    return count;
}

START_TEST(auto_never_takes_the_simulator)
{
    pl_driver *drv = NULL;
    pleat_status st = pl_driver_open(PL_DRIVER_AUTO, "devices:3", &drv);
    if (n_real_devices() > 0) {
        ck_assert_int_eq(st, PLEAT_OK);
        ck_assert_int_eq(pl_driver_kind_of(drv), PL_DRIVER_CUDA);
    } else {
        ck_assert_int_eq(st, PLEAT_ENODRIVER);
        ck_assert_ptr_null(drv);
    }
    pl_driver_close(drv);
}
END_TEST

START_TEST(any_takes_the_simulator_exactly_where_cuda_has_no_device)
{
    pl_driver *drv = NULL;
    ck_assert_int_eq(pl_driver_open_any("devices:3", &drv), PLEAT_OK);
    ck_assert_int_eq(pl_driver_kind_of(drv), n_real_devices() > 0 ? PL_DRIVER_CUDA : PL_DRIVER_SIM);
    pl_driver_close(drv);
}
END_TEST

START_TEST(no_host_memory_is_told_apart_and_leaves_nothing)
{
    pl_driver *drv = NULL;
    uint64_t k = 0;
    pleat_status st;
    do {
        pl_meta_fail_at(k++);
        st = pl_driver_open(PL_DRIVER_SIM, NULL, &drv);
        pl_meta_fail_never();
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST);
    } while (st != PLEAT_OK);
    ck_assert_uint_ge(k, 2);
    pl_driver_close(drv);
}
END_TEST

/* ---- wrappers -------------------------------------------------------------------------------- */

START_TEST(names_of_entry_points_have_no_version)
{
    ck_assert_str_eq(pl_entry_symbol(PL_CU_mem_create), "cuMemCreate");
    ck_assert_str_eq(pl_entry_symbol(PL_CU_mem_alloc), "cuMemAlloc");
    ck_assert_str_eq(pl_entry_symbol(PL_CU_stream_begin_capture), "cuStreamBeginCapture");
    ck_assert_str_eq(pl_entry_symbol(PL_N_ENTRIES), "none");
}
END_TEST

START_TEST(calls_are_counted_by_table_and_entry_point)
{
    pl_driver *other = NULL;
    int value = 0;
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, NULL, &other), PLEAT_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pl_cu_driver_version(other, &value), CU_SUCCESS);
    }
    ck_assert_uint_eq(pl_driver_n_calls(other, PL_CU_driver_version), 3);
    ck_assert_uint_eq(pl_driver_n_calls(other, PL_CU_init), 1);
    ck_assert_uint_eq(pl_driver_n_calls(other, PL_CU_mem_create), 0);
    ck_assert_uint_eq(pl_driver_n_calls(sim.drv, PL_CU_driver_version), 0);
    pl_driver_close(other);
}
END_TEST

static void *call_often(void *arg)
{
    int value = 0;
    cu_result worst = CU_SUCCESS;
    for (int i = 0; i < N_CALLS; i++) {
        cu_result result = pl_cu_driver_version(sim.drv, &value);
        worst = result != CU_SUCCESS ? result : worst;
    }
    *(cu_result *)arg = worst;
    return NULL;
}

START_TEST(no_call_of_several_threads_is_lost)
{
    pthread_t threads[N_THREADS];
    cu_result results[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, &results[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_int_eq(results[i], CU_SUCCESS);
    }
    ck_assert_uint_eq(pl_driver_n_calls(sim.drv, PL_CU_driver_version), N_THREADS * N_CALLS);
}
END_TEST

START_TEST(time_is_taken_only_while_it_is_asked_for)
{
    int value = 0;
    ck_assert_int_eq(pl_cu_driver_version(sim.drv, &value), CU_SUCCESS);
    ck_assert_uint_eq(pl_driver_call_ns(sim.drv), 0);
    pl_driver_time_calls(sim.drv, true);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(pl_cu_driver_version(sim.drv, &value), CU_SUCCESS);
    }
    uint64_t ns = pl_driver_call_ns(sim.drv);
    ck_assert_uint_gt(ns, 0);
    pl_driver_time_calls(sim.drv, false);
    ck_assert_int_eq(pl_cu_driver_version(sim.drv, &value), CU_SUCCESS);
    ck_assert_uint_eq(pl_driver_call_ns(sim.drv), ns);
}
END_TEST

START_TEST(a_missing_optional_entry_point_answers_not_found)
{
    cu_mem_handle handle = 0;
    cu_mem_prop prop = { .type = CU_ALLOCATION_PINNED };
    sim.drv->table.mem_create = NULL;
    ck_assert(!pl_driver_has(sim.drv, PL_CU_mem_create));
    cu_result result = pl_cu_mem_create(sim.drv, &handle, 2 << 20, &prop, 0);
    ck_assert_int_eq(result, CU_NOT_FOUND);
    ck_assert_uint_eq(pl_driver_n_calls(sim.drv, PL_CU_mem_create), 0);
    ck_assert_int_eq(pl_driver_last_error()->entry, PL_CU_mem_create);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "cuMemCreate"));
    ck_assert_int_eq(pl_driver_status(result), PLEAT_ENOVMM);
}
END_TEST

#if PLEAT_DEBUG_LEVEL >= 1
START_TEST(a_call_under_a_lock_of_vmm_breaks_an_assertion)
{
    pl_lock lock;
    int value = 0;
    pl_lock_init(&lock, PL_RANK_DEVICE);
    pl_lock_acquire(&lock);
    ck_assert_int_eq(pl_cu_driver_version(sim.drv, &value), CU_SUCCESS);
    pl_lock_release(&lock);
    pl_lock_fini(&lock);
    pl_lock_init(&lock, PL_RANK_VMM);
    pl_lock_acquire(&lock);
    pl_cu_driver_version(sim.drv, &value);
}
END_TEST
#endif

/* ---- last error ------------------------------------------------------------------------------ */

START_TEST(a_failure_is_remembered_with_call_size_and_result)
{
    cu_devptr ptr = 0;
    ck_assert_int_eq(pl_cu_address_free(sim.drv, 0x10000000, 0x200000), CU_INVALID_VALUE);
    const pl_driver_error *error = pl_driver_last_error();
    ck_assert_int_eq(error->result, CU_INVALID_VALUE);
    ck_assert_int_eq(error->entry, PL_CU_address_free);
    ck_assert_uint_eq(error->bytes, 0x200000);
    ck_assert_str_eq(error->text, "CUDA_ERROR_INVALID_VALUE");
    ck_assert_str_eq(error->detail, "");
    ck_assert_int_eq(pl_cu_address_reserve(sim.drv, &ptr, 2 << 20, 0, 0, 0), CU_SUCCESS);
    ck_assert_int_eq(error->result, CU_INVALID_VALUE); /* a later success leaves it */
    ck_assert_int_eq(pl_cu_address_free(sim.drv, ptr, 2 << 20), CU_SUCCESS);
    pl_driver_clear_error();
    ck_assert_int_eq(error->result, CU_SUCCESS);
    ck_assert_int_eq(error->entry, PL_N_ENTRIES);
}
END_TEST

static void *look_at_error(void *arg)
{
    *(cu_result *)arg = pl_driver_last_error()->result;
    return NULL;
}

START_TEST(each_thread_has_a_last_error_of_its_own)
{
    pthread_t thread;
    cu_result seen = CU_UNKNOWN;
    ck_assert_int_ne(pl_cu_address_free(sim.drv, 0x10000000, 0x200000), CU_SUCCESS);
    ck_assert_int_eq(pthread_create(&thread, NULL, look_at_error, &seen), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(seen, CU_SUCCESS);
}
END_TEST

START_TEST(an_event_that_is_not_ready_is_no_failure)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    cu_stream stream = vmm_sim_stream(dev, false);
    cu_event event = NULL;
    pl_driver_clear_error();
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_event_create(sim.drv, &event, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(sim.work(stream, NULL, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_record(sim.drv, event, stream), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_query(sim.drv, event), CU_NOT_READY);
    ck_assert_int_eq(pl_driver_last_error()->result, CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(sim.drv, event), CU_SUCCESS);
    pl_device_leave(dev);
    vmm_sim_destroy_stream(dev, stream);
    vmm_sim_close_device(dev);
}
END_TEST

/* NOT_READY is an answer of queries. Any other call with this answer has failed, as happens under
 * WSL near the end of memory. The failure is reported by name like all others. */
START_TEST(a_call_that_asks_for_no_progress_fails_with_not_ready)
{
    const pl_driver_error *error = pl_driver_last_error();
    cu_mem_handle handle;
    cu_mem_prop prop = { .type = CU_ALLOCATION_PINNED, .location = { CU_LOCATION_DEVICE, 0 } };
    pl_driver_clear_error();
    sim.fail_from("cuMemCreate", 0, CU_NOT_READY);
    ck_assert_int_eq(pl_cu_mem_create(sim.drv, &handle, 2 << 20, &prop, 0), CU_NOT_READY);
    sim.fail_never();
    ck_assert_int_eq(error->result, CU_NOT_READY);
    ck_assert_int_eq(error->entry, PL_CU_mem_create);
    ck_assert_uint_eq(error->bytes, 2 << 20);
    ck_assert_str_eq(error->text, "CUDA_ERROR_NOT_READY");
}
END_TEST

static cu_result name_of_tomorrow(cu_result result, const char **name)
{
    *name = "CUDA_ERROR_OF_TOMORROW";
    return result == 5000 ? CU_SUCCESS : CU_INVALID_VALUE;
}

START_TEST(results_have_the_driver_s_names)
{
    static pl_driver later = { .table = { .error_name = name_of_tomorrow } };
    const pl_driver_error *error = pl_driver_last_error();
    static const struct {
        cu_result result;
        const char *name;
    } cases[] = { { 1, "CUDA_ERROR_INVALID_VALUE" },       { 46, "CUDA_ERROR_DEVICE_UNAVAILABLE" },
                  { 214, "CUDA_ERROR_ECC_UNCORRECTABLE" }, { 719, "CUDA_ERROR_LAUNCH_FAILED" },
                  { 802, "CUDA_ERROR_SYSTEM_NOT_READY" },  { 999, "CUDA_ERROR_UNKNOWN" },
                  { 5000, "CUDA_ERROR_OF_TOMORROW" },      { 5001, "a result without a name" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *of_sim = NULL;
        pl_driver_note_failure(&later, PL_CU_mem_map, cases[i].result, 0);
        ck_assert_str_eq(error->text, cases[i].name);
        ck_assert(pl_cu_error_name(sim.drv, cases[i].result, &of_sim) != CU_SUCCESS ||
                  strcmp(of_sim, cases[i].name) == 0);
    }
}
END_TEST

START_TEST(results_become_the_status_that_says_what_is_short)
{
    ck_assert_int_eq(pl_driver_status(CU_SUCCESS), PLEAT_OK);
    ck_assert_int_eq(pl_driver_status(CU_OUT_OF_MEMORY), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pl_driver_status(CU_INVALID_VALUE), PLEAT_EDRIVER);
    ck_assert_int_eq(pl_driver_status(CU_CAPTURE_UNSUPPORTED), PLEAT_ECAPTURE);
    pl_driver_note_failure(sim.drv, PL_CU_mem_map, CU_NOT_SUPPORTED, 0);
    ck_assert_int_eq(pl_driver_status(CU_NOT_SUPPORTED), PLEAT_ENOVMM);
    pl_driver_note_failure(sim.drv, PL_CU_event_query, CU_NOT_SUPPORTED, 0);
    ck_assert_int_eq(pl_driver_status(CU_NOT_SUPPORTED), PLEAT_EDRIVER);
}
END_TEST

static Suite *driver_suite(void)
{
    Suite *suite = suite_create("driver");
    TCase *loader = tcase_create("loader");
    tcase_add_checked_fixture(loader, open_sim, close_sim);
    tcase_add_test(loader, the_simulator_opens_beside_the_program);
    tcase_add_test(loader, every_entry_point_of_the_list_is_in_the_simulator);
    tcase_add_test(loader, a_bad_simulator_configuration_is_named);
    tcase_add_test(loader, a_null_configuration_leaves_the_simulator_as_it_is);
    tcase_add_test(loader, a_simulator_that_is_not_there_is_named);
    tcase_add_test(loader, a_program_without_the_simulator_beside_it_is_told_how_to_name_it);
    tcase_add_test(loader, an_object_without_a_required_symbol_is_refused_and_the_symbol_named);
    tcase_add_test(loader, auto_never_takes_the_simulator);
    tcase_add_test(loader, a_program_without_a_gpu_is_told_of_the_simulator);
    tcase_add_test(loader, any_takes_the_simulator_exactly_where_cuda_has_no_device);
    tcase_add_test(loader, no_host_memory_is_told_apart_and_leaves_nothing);
    suite_add_tcase(suite, loader);
    TCase *fresh = suite_case(suite, "fresh", NULL, NULL); /* the simulator is not configured yet */
    tcase_add_test(fresh, what_is_wrong_in_the_simulators_variable_is_told);
    TCase *wrappers = tcase_create("wrappers");
    tcase_add_checked_fixture(wrappers, open_sim, close_sim);
    tcase_add_test(wrappers, names_of_entry_points_have_no_version);
    tcase_add_test(wrappers, calls_are_counted_by_table_and_entry_point);
    tcase_add_test(wrappers, no_call_of_several_threads_is_lost);
    tcase_add_test(wrappers, time_is_taken_only_while_it_is_asked_for);
    tcase_add_test(wrappers, a_missing_optional_entry_point_answers_not_found);
#if PLEAT_DEBUG_LEVEL >= 1
    tcase_add_test_raise_signal(wrappers, a_call_under_a_lock_of_vmm_breaks_an_assertion, SIGABRT);
#endif
    suite_add_tcase(suite, wrappers);
    TCase *errors = tcase_create("last error");
    tcase_add_checked_fixture(errors, open_sim, close_sim);
    tcase_add_test(errors, a_failure_is_remembered_with_call_size_and_result);
    tcase_add_test(errors, each_thread_has_a_last_error_of_its_own);
    tcase_add_test(errors, an_event_that_is_not_ready_is_no_failure);
    tcase_add_test(errors, a_call_that_asks_for_no_progress_fails_with_not_ready);
    tcase_add_test(errors, results_have_the_driver_s_names);
    tcase_add_test(errors, results_become_the_status_that_says_what_is_short);
    suite_add_tcase(suite, errors);
    return suite;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return open_alone(argv[1]);
    }
    return suite_run(driver_suite());
}

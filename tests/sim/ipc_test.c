/* ipc_test.c - cuIpc*: memory of cuMemAlloc and events in two processes.
 *
 * The other process is a second run of this program, with the handle in its arguments. A forked
 * process would have no driver. */
/* alone: the test runs itself as the other process */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)

static const char memory[] = "backing:memory";

enum { LAZY_PEERS = 1, SHARED_EVENT = 4 | CU_EVENT_DISABLE_TIMING_FLAG };

static cu_devptr alloc_filled(size_t bytes, uint64_t seed)
{
    cu_devptr ptr;
    ck_ok(cuMemAlloc_v2(&ptr, bytes));
    cu_stream stream = world_stream();
    ck_ok(pleat_sim_fill(stream, ptr, bytes, seed));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    return ptr;
}

/* ---- the other process ----------------------------------------------------------------------- */

static void write_hex(const cu_ipc_handle *handle, char *text)
{
    for (size_t i = 0; i < sizeof(*handle); i++) {
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)handle->reserved[i]);
    }
}

static cu_ipc_handle read_hex(const char *text)
{
    cu_ipc_handle handle;
    for (size_t i = 0; i < sizeof(handle); i++) {
        char pair[3] = { text[2 * i], text[2 * i + 1], '\0' };
        handle.reserved[i] = (char)strtoul(pair, NULL, 16);
    }
    return handle;
}

/* Run the other process to its end. Exit status 0 means that all checks have passed. */
static void run_other(const char *what, const char *conf, const cu_ipc_handle *handle)
{
    char text[2 * sizeof(*handle) + 1];
    int status = -1;
    write_hex(handle, text);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "sim_ipc", what, conf, text, NULL);
        _exit(3);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static const char *other_what;
static const char *other_conf;
static cu_ipc_handle other_handle;

/* Open the memory twice, read the parent's bytes, write other bytes, and close it twice. */
static void exchange_bytes(void)
{
    cu_devptr ptr;
    cu_devptr again;
    ck_ok(cuIpcOpenMemHandle_v2(&ptr, other_handle, LAZY_PEERS));
    ck_ok(cuIpcOpenMemHandle_v2(&again, other_handle, LAZY_PEERS));
    ck_assert_uint_eq(ptr, again);
    ck_assert_uint_eq(world_counts().imported_bytes, 3 * MIB + 512);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    cu_stream stream = world_stream();
    ck_ok(pleat_sim_verify(stream, ptr, 3 * MIB + 512, 7));
    ck_ok(pleat_sim_fill(stream, ptr, 3 * MIB + 512, 8));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_assert_int_eq(cuMemFree_v2(ptr), CU_INVALID_VALUE);
    ck_assert_int_eq(cuIpcCloseMemHandle(ptr + 512), CU_INVALID_VALUE);
    ck_ok(cuIpcCloseMemHandle(ptr));
    ck_assert_uint_eq(world_counts().imported_bytes, 3 * MIB + 512);
    ck_ok(cuIpcCloseMemHandle(ptr));
    ck_assert_uint_eq(world_counts().imported_bytes, 0);
    ck_assert_int_eq(cuIpcCloseMemHandle(ptr), CU_INVALID_VALUE);
    ck_ok(cuIpcOpenMemHandle_v2(&ptr, other_handle, LAZY_PEERS)); /* and anew */
    ck_ok(cuIpcCloseMemHandle(ptr));
}

/* Opened memory cannot be passed on, and other flags are refused. */
static void hand_on(void)
{
    cu_devptr ptr;
    cu_event event;
    cu_ipc_handle handle;
    ck_assert_int_eq(cuIpcOpenMemHandle_v2(&ptr, other_handle, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuIpcOpenMemHandle_v2(NULL, other_handle, LAZY_PEERS), CU_INVALID_VALUE);
    ck_assert_int_eq(cuIpcOpenEventHandle(&event, other_handle), CU_INVALID_HANDLE);
    ck_ok(cuIpcOpenMemHandle_v2(&ptr, other_handle, LAZY_PEERS));
    ck_assert_int_eq(cuIpcGetMemHandle(&handle, ptr), CU_INVALID_VALUE);
    ck_ok(cuIpcCloseMemHandle(ptr));
}

/* Memory left open is reported by world_end_with. */
static void use_after_close(void)
{
    cu_devptr ptr;
    ck_ok(cuIpcOpenMemHandle_v2(&ptr, other_handle, LAZY_PEERS));
    cu_stream stream = world_stream();
    world_write(stream, ptr, 512);
    ck_ok(cuIpcCloseMemHandle(ptr));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
}

static void find_nothing(void)
{
    cu_devptr ptr;
    ck_assert_int_eq(cuIpcOpenMemHandle_v2(&ptr, other_handle, LAZY_PEERS), CU_INVALID_HANDLE);
}

static void wait_for_event(void)
{
    cu_event event;
    cu_devptr ptr;
    cu_stream stream = world_stream();
    ck_ok(cuIpcOpenEventHandle(&event, other_handle));
    ck_ok(cuEventQuery(event));
    ck_ok(cuStreamWaitEvent(stream, event, 0));
    ck_ok(cuMemAlloc_v2(&ptr, 512));
    world_write(stream, ptr, 512);
    ck_ok(cuEventRecord(event, stream)); /* this makes the event over for other processes, too */
    ck_ok(cuStreamQuery(stream));
    ck_ok(cuMemFree_v2(ptr));
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_assert_int_eq(cuIpcOpenMemHandle_v2(&ptr, other_handle, LAZY_PEERS), CU_INVALID_HANDLE);
}

START_TEST(in_other_process)
{
    world_begin(other_conf);
    if (strcmp(other_what, "exchange") == 0) {
        exchange_bytes();
    } else if (strcmp(other_what, "hand_on") == 0) {
        hand_on();
    } else if (strcmp(other_what, "nothing") == 0) {
        find_nothing();
    } else if (strcmp(other_what, "event") == 0) {
        wait_for_event();
    } else {
        use_after_close();
        world_end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
        return;
    }
    world_end();
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

START_TEST(two_processes_see_the_same_bytes)
{
    cu_ipc_handle handle;
    cu_ipc_handle same;
    world_begin(memory);
    cu_devptr ptr = alloc_filled(3 * MIB + 512, 7);
    ck_ok(cuIpcGetMemHandle(&handle, ptr));
    ck_ok(cuIpcGetMemHandle(&same, ptr + MIB));
    ck_assert_int_eq(memcmp(&handle, &same, sizeof(handle)), 0);
    ck_assert_uint_eq(world_counts().physical_bytes, 3 * MIB + 512);
    run_other("exchange", memory, &handle);
    cu_stream stream = world_stream();
    ck_ok(pleat_sim_verify(stream, ptr, 3 * MIB + 512, 8));
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemFree_v2(ptr));
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    world_end();
}
END_TEST

START_TEST(only_memory_of_cuMemAlloc_has_a_handle)
{
    cu_ipc_handle handle;
    cu_mempool pool;
    cu_devptr ptr;
    world_begin(NULL);
    ck_assert_int_eq(cuIpcGetMemHandle(&handle, 0), CU_INVALID_VALUE);
    cu_devptr mapped = world_map(1);
    ck_assert_int_eq(cuIpcGetMemHandle(&handle, mapped), CU_INVALID_VALUE);
    world_unmap(mapped, 1);
    ck_ok(cuDeviceGetDefaultMemPool(&pool, 0));
    ck_ok(cuMemAllocAsync(&ptr, MIB, NULL));
    ck_assert_int_eq(cuIpcGetMemHandle(&handle, ptr), CU_INVALID_VALUE);
    ck_ok(cuMemFreeAsync(ptr, NULL));
    ck_ok(cuStreamSynchronize(NULL));
    ck_ok(cuMemPoolTrimTo(pool, 0));
    ck_ok(cuMemAlloc_v2(&ptr, 1000));
    ck_assert_int_eq(cuIpcGetMemHandle(NULL, ptr), CU_INVALID_VALUE);
    ck_assert_int_eq(cuIpcGetMemHandle(&handle, ptr + 1000), CU_INVALID_VALUE);
    ck_ok(cuMemFree_v2(ptr));
    ck_assert_int_eq(cuIpcGetMemHandle(&handle, ptr), CU_INVALID_VALUE);
    world_end();
}
END_TEST

START_TEST(a_process_cannot_open_its_own_handles)
{
    cu_ipc_handle handle;
    cu_event event;
    cu_devptr ptr;
    cu_devptr opened = 7;
    world_begin(NULL);
    ck_ok(cuMemAlloc_v2(&ptr, MIB));
    ck_ok(cuIpcGetMemHandle(&handle, ptr));
    ck_assert_int_eq(cuIpcOpenMemHandle_v2(&opened, handle, LAZY_PEERS), CU_INVALID_CONTEXT);
    ck_assert_uint_eq(opened, 7);
    ck_assert_int_eq(cuIpcCloseMemHandle(ptr), CU_INVALID_VALUE);
    handle.reserved[0] ^= 1;
    ck_assert_int_eq(cuIpcOpenMemHandle_v2(&opened, handle, LAZY_PEERS), CU_INVALID_HANDLE);
    ck_ok(cuMemFree_v2(ptr));
    ck_ok(cuEventCreate(&event, SHARED_EVENT));
    ck_ok(cuIpcGetEventHandle(&handle, event));
    ck_ok(cuEventDestroy_v2(event));
    ck_assert_int_eq(cuIpcOpenEventHandle(&event, handle), CU_INVALID_CONTEXT);
    world_end();
}
END_TEST

START_TEST(what_was_opened_cannot_be_handed_on)
{
    cu_ipc_handle handle;
    world_begin(NULL);
    cu_devptr ptr = alloc_filled(MIB, 0);
    ck_ok(cuIpcGetMemHandle(&handle, ptr));
    run_other("hand_on", "granularity:2M", &handle);
    ck_ok(cuMemFree_v2(ptr));
    world_end();
}
END_TEST

/* Also if new memory has taken its place among the descriptors. */
START_TEST(memory_that_was_freed_cannot_be_opened)
{
    cu_ipc_handle handle;
    cu_ipc_handle next;
    cu_devptr ptr;
    world_begin(NULL);
    ck_ok(cuMemAlloc_v2(&ptr, MIB));
    ck_ok(cuIpcGetMemHandle(&handle, ptr));
    ck_ok(cuMemFree_v2(ptr));
    run_other("nothing", "granularity:2M", &handle);
    ck_ok(cuMemAlloc_v2(&ptr, MIB));
    ck_ok(cuIpcGetMemHandle(&next, ptr));
    ck_assert_int_ne(memcmp(&handle, &next, sizeof(next)), 0);
    run_other("nothing", "granularity:2M", &handle);
    ck_ok(cuMemFree_v2(ptr));
    world_end();
}
END_TEST

/* A handle that was changed to name exported memory of cuMemCreate. */
START_TEST(a_handle_opens_no_mapped_memory)
{
    cu_ipc_handle handle;
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle created;
    cu_devptr ptr;
    int fd;
    world_begin(NULL);
    prop.handle_types = CU_HANDLE_POSIX_FD;
    ck_ok(cuMemCreate(&created, GRANULE, &prop, 0));
    ck_ok(cuMemExportToShareableHandle(&fd, created, CU_HANDLE_POSIX_FD, 0));
    ck_ok(cuMemAlloc_v2(&ptr, GRANULE));
    ck_ok(cuIpcGetMemHandle(&handle, ptr));
    struct stat file;
    ck_assert_int_eq(fstat(fd, &file), 0);
    int32_t number = fd;
    uint64_t inode = (uint64_t)file.st_ino;
    memcpy(handle.reserved + 24, &number, sizeof(number));
    memcpy(handle.reserved + 32, &inode, sizeof(inode));
    run_other("nothing", "granularity:2M", &handle);
    close(fd);
    ck_ok(cuMemFree_v2(ptr));
    ck_ok(cuMemRelease(created));
    world_end();
}
END_TEST

START_TEST(closing_under_unfinished_work_is_a_hazard)
{
    cu_ipc_handle handle;
    world_begin(NULL);
    cu_devptr ptr = alloc_filled(MIB, 0);
    ck_ok(cuIpcGetMemHandle(&handle, ptr));
    run_other("use_after_close", "granularity:2M", &handle);
    ck_ok(cuMemFree_v2(ptr));
    world_end();
}
END_TEST

/* ---- events ---------------------------------------------------------------------------------- */

START_TEST(events_are_made_for_other_processes)
{
    cu_event event;
    cu_ipc_handle handle;
    world_begin(NULL);
    /* the flag of an event that measures time */
    ck_assert_int_eq(cuEventCreate(&event, 4), CU_INVALID_VALUE);
    ck_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING_FLAG));
    ck_assert_int_eq(cuIpcGetEventHandle(&handle, event), CU_INVALID_HANDLE);
    ck_ok(cuEventDestroy_v2(event));
    ck_assert_int_eq(cuIpcGetEventHandle(&handle, event), CU_INVALID_HANDLE);
    ck_ok(cuEventCreate(&event, SHARED_EVENT));
    ck_assert_int_eq(cuIpcGetEventHandle(NULL, event), CU_INVALID_VALUE);
    ck_ok(cuEventDestroy_v2(event));
    world_end();
}
END_TEST

START_TEST(work_before_a_shared_event_is_over)
{
    cu_event event;
    cu_devptr ptr;
    cu_ipc_handle handle;
    world_begin(NULL);
    cu_stream stream = world_stream();
    ck_ok(cuMemAlloc_v2(&ptr, MIB));
    ck_ok(cuEventCreate(&event, SHARED_EVENT));
    world_write(stream, ptr, MIB);
    ck_ok(cuEventRecord(event, stream));
    world_write(stream, ptr, MIB);
    ck_assert_int_eq(cuEventQuery(event), CU_NOT_READY);
    ck_ok(cuIpcGetEventHandle(&handle, event));
    ck_ok(cuEventQuery(event));
    ck_assert_int_eq(cuStreamQuery(stream), CU_NOT_READY);
    ck_ok(cuEventRecord(event, stream)); /* again, since the other process cannot query this one */
    ck_ok(cuStreamQuery(stream));
    run_other("event", "granularity:2M", &handle);
    ck_ok(cuEventDestroy_v2(event));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemFree_v2(ptr));
    world_end();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("sim ipc");
    TCase *linear = tcase_create("memory");
    tcase_add_test(linear, two_processes_see_the_same_bytes);
    tcase_add_test(linear, only_memory_of_cuMemAlloc_has_a_handle);
    tcase_add_test(linear, a_process_cannot_open_its_own_handles);
    tcase_add_test(linear, what_was_opened_cannot_be_handed_on);
    tcase_add_test(linear, memory_that_was_freed_cannot_be_opened);
    tcase_add_test(linear, a_handle_opens_no_mapped_memory);
    tcase_add_test(linear, closing_under_unfinished_work_is_a_hazard);
    suite_add_tcase(suite, linear);
    TCase *events = tcase_create("events");
    tcase_add_test(events, events_are_made_for_other_processes);
    tcase_add_test(events, work_before_a_shared_event_is_over);
    suite_add_tcase(suite, events);
    return suite;
}

static int run_child(char **argv)
{
    Suite *suite = suite_create("sim ipc, the other process");
    TCase *child = tcase_create("child");
    other_what = argv[1];
    other_conf = argv[2];
    other_handle = read_hex(argv[3]);
    tcase_add_test(child, in_other_process);
    suite_add_tcase(suite, child);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed;
}

/* With arguments: be the other process of run_other(). */
int main(int argc, char **argv)
{
    return argc == 4 ? run_child(argv) : suite_run(make_suite());
}

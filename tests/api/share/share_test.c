/* share_test.c - other processes open blocks. The processes are real and started by the test. */
/* labels: unit fault stress */
/* alone: the test runs itself as the other process */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

#define MIB (UINT64_C(1) << 20)

/* Open descriptors of a started process: the file with the name, both ends' pipes, chunks. */
enum { NAME_AT = 100, SAY_AT = 101, HEAR_AT = 102, CHUNKS_AT = 110, NAME_ROOM = 65536 };

static const char memory[] = "backing:memory,capacity:256M";

typedef struct shared_name {
    char bytes[NAME_ROOM];
    size_t n;
} shared_name;

static pleat make_sharing(const char *more)
{
    char conf[256];
    snprintf(conf, sizeof conf, "shareable:True%s%s", more[0] != '\0' ? "," : "", more);
    return api_make(API_PLEAT, memory, conf);
}

static void name_block(pleat instance, pleat_devptr ptr, unsigned flags, shared_name *out)
{
    pleat_status st = pleat_share_export(instance, 0, ptr, flags, out->bytes, sizeof out->bytes,
                                         &out->n);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    ck_assert_uint_le(out->n, sizeof out->bytes);
}

static pleat_devptr open_name(pleat instance, const shared_name *name)
{
    pleat_devptr at = 0;
    pleat_status st = pleat_share_open(instance, 0, name->bytes, name->n, &at);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return at;
}

static void close_at(pleat instance, pleat_devptr at, void *stream)
{
    pleat_status st = pleat_share_close(instance, 0, at, stream);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

/* With backing:memory the device's memory is the host's. */
static void fill(pleat_devptr at, size_t bytes, int value)
{
    memset((void *)(uintptr_t)at, value, bytes);
}

static void check_filled(pleat_devptr at, size_t bytes, int value)
{
    const unsigned char *p = (const unsigned char *)(uintptr_t)at;
    for (size_t i = 0; i < bytes; i++) {
        if (p[i] != value) {
            ck_abort_msg("byte %zu is %d, not %d", i, p[i], value);
        }
    }
}

/* ---- the other process ----------------------------------------------------------------------- */

static void put_at(int fd, int place)
{
    ck_assert_int_eq(dup2(fd, place), place);
    close(fd);
}

static void pass_name(const shared_name *name)
{
    int fd = memfd_create("name", 0);
    ck_assert_int_eq(write(fd, name->bytes, name->n), (ssize_t)name->n);
    put_at(fd, NAME_AT);
}

static void take_name(shared_name *name)
{
    ssize_t n = pread(NAME_AT, name->bytes, sizeof name->bytes, 0);
    ck_assert_int_gt(n, 0);
    name->n = (size_t)n;
}

static pid_t start(const char *role)
{
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "api_share", role, NULL);
        _exit(3);
    }
    ck_assert_int_gt(child, 0);
    return child;
}

static void finish(pid_t child)
{
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static void reads_and_answers(pleat instance, pleat_devptr at, const shared_name *name)
{
    size_t bytes = pleat_share_bytes(name->bytes, name->n);
    check_filled(at, bytes, 0x5a);
    fill(at, bytes, 0xa5);
    close_at(instance, at, NULL);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().mappings, 0);
    ck_assert_uint_eq(api_sim_counts().handles, 0);
    ck_assert_uint_eq(api_sim_counts().imported_bytes, 0);
    api_unmake(instance);
}

START_TEST(role_open)
{
    static shared_name name;
    take_name(&name);
    pleat instance = api_make(API_TORCH, memory, "");
    pleat_devptr at = open_name(instance, &name);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, 0);
    reads_and_answers(instance, at, &name);
}
END_TEST

START_TEST(role_open_fds)
{
    static shared_name name;
    int fds[64];
    pleat_devptr at = 0;
    take_name(&name);
    size_t n = pleat_share_n_fds(name.bytes, name.n);
    for (size_t i = 0; i < n; i++) {
        fds[i] = CHUNKS_AT + (int)i;
    }
    pleat instance = make_sharing("");
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &at), PLEAT_ESHARE);
    api_expect(PLEAT_ESHARE, "without PLEAT_SHARE_SERVE", "pleat_share_fds");
    ck_assert_int_eq(pleat_share_open_fds(instance, 0, name.bytes, name.n, fds, n - 1, &at),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_open_fds(instance, 0, name.bytes, name.n, fds, n, &at), PLEAT_OK);
    reads_and_answers(instance, at, &name);
}
END_TEST

/* Shares a block, and ends without a word when told to. */
START_TEST(role_export)
{
    static shared_name name;
    char byte;
    pleat instance = make_sharing("chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    fill(ptr, 5 * MIB, 0x77);
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    ck_assert_int_eq(write(SAY_AT, name.bytes, name.n), (ssize_t)name.n);
    ck_assert_int_eq(read(HEAR_AT, &byte, 1), 1);
    _exit(0);
}
END_TEST

START_TEST(role_other_user)
{
    static shared_name name;
    pleat_devptr at = 0;
    take_name(&name);
    ck_assert_int_eq(setuid(65534), 0);
    pleat instance = make_sharing("");
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &at), PLEAT_ESHARE);
    api_expect(PLEAT_ESHARE, "another user's");
    api_unmake(instance);
}
END_TEST

/* ---- two processes --------------------------------------------------------------------------- */

/* The block lies behind `first`, so it may begin within a chunk. */
static void exchange(const char *more, size_t before, size_t bytes, size_t inside)
{
    static shared_name name;
    pleat instance = make_sharing(more);
    pleat_devptr first = api_alloc(instance, 0, before, NULL);
    pleat_devptr ptr = api_alloc(instance, 0, bytes, NULL);
    fill(first, before, 1);
    fill(ptr, bytes, 0x5a);
    name_block(instance, ptr + inside, PLEAT_SHARE_SERVE, &name);
    ck_assert_uint_ge(pleat_share_bytes(name.bytes, name.n), bytes - inside);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
    fill(ptr, info.bytes, 0x5a);
    pass_name(&name);
    finish(start("role_open"));
    (void)api_sim_counts(); /* takes the lock held when the memory got its second mapping */
    check_filled(ptr + inside, info.bytes - inside, 0xa5);
    check_filled(ptr, inside, 0x5a);
    check_filled(first, before, 1);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, first, NULL);
    api_unmake(instance);
    close(NAME_AT);
}

START_TEST(another_process_sees_the_same_bytes)
{
    exchange("", MIB, 3 * MIB, 0);
}
END_TEST

START_TEST(a_block_over_several_chunks_from_the_middle_of_one)
{
    exchange("chunks:granule", 3 * MIB, 9 * MIB, 4096);
}
END_TEST

START_TEST(a_small_block_among_others)
{
    exchange("", 512, 1000, 0);
}
END_TEST

/* More chunks than one message has descriptors. */
START_TEST(a_block_over_very_many_chunks)
{
    exchange("chunks:granule", MIB, 200 * MIB, 0);
}
END_TEST

START_TEST(the_program_may_send_the_descriptors_itself)
{
    static shared_name name;
    int fds[64];
    pleat instance = make_sharing("chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 8 * MIB, NULL);
    fill(ptr, 8 * MIB, 0x5a);
    name_block(instance, ptr, 0, &name);
    size_t n = pleat_share_n_fds(name.bytes, name.n);
    ck_assert_uint_eq(n, 4);
    ck_assert_int_eq(pleat_share_fds(instance, name.bytes, name.n, fds, n - 1), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_fds(instance, name.bytes, name.n, fds, n), PLEAT_OK);
    for (size_t i = 0; i < n; i++) {
        put_at(fds[i], CHUNKS_AT + (int)i);
    }
    pass_name(&name);
    finish(start("role_open_fds"));
    check_filled(ptr, 8 * MIB, 0xa5);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(memory_outlives_the_process_that_shared_it)
{
    static shared_name name;
    int say[2];
    int hear[2];
    ck_assert_int_eq(pipe(say), 0);
    ck_assert_int_eq(pipe(hear), 0);
    put_at(say[1], SAY_AT);
    put_at(hear[0], HEAR_AT);
    pid_t child = start("role_export");
    ssize_t n = read(say[0], name.bytes, sizeof name.bytes);
    ck_assert_int_gt(n, 0);
    name.n = (size_t)n;
    pleat instance = make_sharing("");
    pleat_devptr at = open_name(instance, &name);
    ck_assert_int_eq(write(hear[1], "", 1), 1);
    finish(child);
    check_filled(at, 5 * MIB, 0x77);
    pleat_devptr again = open_name(instance, &name); /* mapped already: nobody is asked */
    ck_assert_uint_eq(again, at);
    close_at(instance, at, NULL);
    close_at(instance, at, NULL);
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &again), PLEAT_ESHARE);
    char pid[32];
    snprintf(pid, sizeof pid, "process %d", (int)child);
    api_expect(PLEAT_ESHARE, pid, "has ended");
    api_unmake(instance);
}
END_TEST

START_TEST(other_users_get_nothing)
{
    static shared_name name;
    if (geteuid() != 0) {
        return;
    }
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    pass_name(&name);
    finish(start("role_other_user"));
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- one process ----------------------------------------------------------------------------- */

START_TEST(what_lies_in_the_same_chunks_is_mapped_once)
{
    static shared_name names[3];
    pleat instance = make_sharing("chunks:granule");
    pleat_devptr ptrs[3] = { api_alloc(instance, 0, 1000, NULL), api_alloc(instance, 0, 2000, NULL),
                             api_alloc(instance, 0, 6 * MIB, NULL) };
    uint64_t mappings = api_sim_counts().mappings;
    pleat_devptr at[3];
    for (int i = 0; i < 3; i++) {
        name_block(instance, ptrs[i], PLEAT_SHARE_SERVE, &names[i]);
        at[i] = open_name(instance, &names[i]);
        fill(ptrs[i], 1000, i + 1);
        check_filled(at[i], 1000, i + 1);
    }
    ck_assert_uint_eq(at[1] - at[0], ptrs[1] - ptrs[0]);
    uint64_t opened = api_sim_counts().mappings;
    ck_assert_uint_eq(opened - mappings, 1 + pleat_share_n_fds(names[2].bytes, names[2].n));
    pleat_devptr inside = 0; /* the last chunk of the large block alone */
    name_block(instance, ptrs[2] + 5 * MIB, 0, &names[0]);
    ck_assert_uint_eq(pleat_share_bytes(names[0].bytes, names[0].n), 1 * MIB);
    ck_assert_int_eq(pleat_share_open(instance, 0, names[0].bytes, names[0].n, &inside), PLEAT_OK);
    ck_assert_uint_eq(inside, at[2] + 5 * MIB);
    ck_assert_uint_eq(api_sim_counts().mappings, opened);
    close_at(instance, inside, NULL);
    for (int i = 0; i < 3; i++) {
        close_at(instance, at[i], NULL);
        api_free(instance, 0, ptrs[i], NULL);
    }
    ck_assert_uint_eq(api_sim_counts().mappings, mappings);
    ck_assert_int_eq(pleat_share_close(instance, 0, at[0], NULL), PLEAT_EFOREIGN);
    api_unmake(instance);
}
END_TEST

START_TEST(the_same_address_has_the_same_name)
{
    static shared_name first;
    static shared_name second;
    size_t needed = 0;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, 3 * MIB, NULL);
    memset(second.bytes, 0xff, sizeof second.bytes);
    name_block(instance, ptr, 0, &first);
    name_block(instance, ptr, 0, &second);
    ck_assert_uint_eq(first.n, second.n);
    ck_assert_mem_eq(first.bytes, second.bytes, first.n);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, NULL, 0, &needed), PLEAT_OK);
    ck_assert_uint_eq(needed, first.n);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(no_mapping_goes_under_work)
{
    static shared_name name;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    void *streams[2] = { api_stream(instance, 0), api_stream(instance, 0) };
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    uint64_t mappings = api_sim_counts().mappings;
    pleat_devptr at = open_name(instance, &name);
    ck_assert_uint_eq(open_name(instance, &name), at);
    for (int i = 0; i < 2; i++) {
        pleat_sim_access access = { .ptr = at, .bytes = 1000 };
        ck_assert_int_eq(sim.work(streams[i], &access, 1), 0);
        close_at(instance, at, streams[i]);
    }
    ck_assert_uint_gt(api_sim_counts().mappings, mappings);
    ck_assert_uint_eq(open_name(instance, &name), at); /* the memory is still there */
    close_at(instance, at, streams[1]);
    ck_assert_uint_gt(api_sim_counts().mappings, mappings);
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(instance, 0, UINT64_MAX, false, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().mappings, mappings);
    api_free(instance, 0, ptr, NULL);
    api_stream_end(instance, 0, streams[0]);
    api_stream_end(instance, 0, streams[1]);
    api_unmake(instance);
}
END_TEST

START_TEST(destroying_waits_for_closes_and_refuses_what_is_open)
{
    static shared_name name;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    void *stream = api_stream(instance, 0);
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    pleat_devptr at = open_name(instance, &name);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_EBUSY);
    api_expect(PLEAT_EBUSY, "open from other processes");
    pleat_sim_access access = { .ptr = at, .bytes = 1000 };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
    close_at(instance, at, stream);
    (void)open_name(instance, &name);
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    pleat_sim_counts counts = api_sim_counts();
    ck_assert_uint_eq(counts.reservations, 0);
    ck_assert_uint_eq(counts.mappings, 0);
    ck_assert_uint_eq(counts.handles, 0);
    pleat_sim_hazard hazard;
    ck_assert_uint_eq(sim.hazards(&hazard, 1), 0);
}
END_TEST

START_TEST(a_captured_stream_closes_nothing)
{
    static shared_name name;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    void *stream = api_stream(instance, 0);
    pl_device *dev = pleat_internal_device(instance, 0);
    pl_driver *drv = pl_device_driver(dev);
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    pleat_devptr at = open_name(instance, &name);
    cu_graph graph;
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, stream, CU_CAPTURE_MODE_GLOBAL), 0);
    ck_assert_int_eq(pleat_share_close(instance, 0, at, stream), PLEAT_ECAPTURE);
    api_expect(PLEAT_ECAPTURE, "stays open");
    ck_assert_uint_eq(open_name(instance, &name), at);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, stream, &graph), 0);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), 0);
    pl_device_leave(dev);
    close_at(instance, at, stream);
    close_at(instance, at, stream);
    api_free(instance, 0, ptr, NULL);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

/* Shared memory keeps its physical place. All other memory may move. */
START_TEST(compaction_leaves_shared_chunks_alone)
{
    static shared_name name;
    enum { N = 24 };
    pleat_devptr ptrs[N];
    pleat_compaction told;
    pleat instance = make_sharing("growth:ample");
    for (int i = 0; i < N; i++) {
        ptrs[i] = api_alloc(instance, 0, 2 * MIB, NULL);
    }
    name_block(instance, ptrs[N - 1], PLEAT_SHARE_SERVE, &name);
    for (int i = 0; i < N - 1; i++) {
        if (i % 4 != 0) {
            api_free(instance, 0, ptrs[i], NULL);
        }
    }
    pleat_devptr at = open_name(instance, &name);
    ck_assert_int_eq(pleat_device_compact(instance, 0, &told), PLEAT_OK);
    fill(ptrs[N - 1], 2 * MIB, 0x3c);
    check_filled(at, 2 * MIB, 0x3c);
    for (int i = 0; i < N; i += i == 20 ? 3 : 4) {
        api_free(instance, 0, ptrs[i], NULL);
    }
    close_at(instance, at, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------------- */

START_TEST(only_what_can_be_shared_is_named)
{
    size_t needed = 7;
    char room[256];
    pleat instance = api_make(API_PLEAT, memory, "");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, room, sizeof room, &needed),
                     PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "shareable:True");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
    instance = api_make(API_TORCH, memory, "shareable:True");
    ptr = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, room, sizeof room, &needed),
                     PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "torch-native", "allocator:pleat");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
    instance = make_sharing("");
    ck_assert_int_eq(pleat_share_export(instance, 0, 4096, 0, room, sizeof room, &needed),
                     PLEAT_EFOREIGN);
    ptr = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 8, room, sizeof room, &needed),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_export(instance, 0, 0, 0, room, sizeof room, &needed),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, NULL, 9, &needed), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, room, sizeof room, NULL),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_export(instance, 5, ptr, 0, room, sizeof room, &needed),
                     PLEAT_EDEVICE);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, room, sizeof room, &needed),
                     PLEAT_EFOREIGN);
    ck_assert_uint_eq(needed, 7);
    api_unmake(instance);
}
END_TEST

START_TEST(a_device_that_cannot_share_is_refused_or_serves_without)
{
    static const char old[] = "capacity:256M,profile:old_driver";
    size_t needed = 0;
    pleat_devptr ptr = 0;
    pleat instance = api_make(API_PLEAT, old, "shareable:True");
    ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, NULL, &ptr), PLEAT_EDEVICE);
    api_expect(PLEAT_EDEVICE, "cannot export");
    api_unmake(instance);
    instance = api_make(API_PLEAT, old, "shareable:auto");
    ptr = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, NULL, 0, &needed), PLEAT_ENOTSUP);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
    instance = api_make(API_PLEAT, memory, "shareable:auto");
    ptr = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, NULL, 0, &needed), PLEAT_OK);
    ck_assert_uint_eq(needed, 136 + 24);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(what_is_no_name_is_refused)
{
    static shared_name name;
    pleat_devptr at = 0;
    int device = -1;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    for (size_t i = 0; i < name.n; i++) {
        name.bytes[i] ^= 1;
        ck_assert_uint_eq(pleat_share_bytes(name.bytes, name.n), 0);
        ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &at), PLEAT_EINVAL);
        name.bytes[i] ^= 1;
        ck_assert_uint_eq(pleat_share_n_fds(name.bytes, i), 0);
    }
    ck_assert_int_eq(pleat_share_open(instance, 0, NULL, 0, &at), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_device(instance, name.bytes, name.n, &device), PLEAT_OK);
    ck_assert_int_eq(device, 0);
    ck_assert_uint_eq(pleat_share_bytes(name.bytes, name.n), MIB);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(memory_that_went_back_is_not_opened)
{
    static shared_name name;
    int fds[4];
    pleat_devptr at = 0;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    api_free(instance, 0, ptr, NULL);
    at = open_name(instance, &name); /* the block's memory still exists */
    close_at(instance, at, NULL);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ptr = api_alloc(instance, 0, MIB, NULL); /* perhaps with the same handle */
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &at), PLEAT_ESHARE);
    api_expect(PLEAT_ESHARE, "went back to the driver");
    ck_assert_int_eq(pleat_share_fds(instance, name.bytes, name.n, fds, 4), PLEAT_ESHARE);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
    instance = make_sharing("");
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &at), PLEAT_ESHARE);
    api_expect(PLEAT_ESHARE, "instance", "destroyed");
    ck_assert_int_eq(pleat_share_fds(instance, name.bytes, name.n, fds, 4), PLEAT_ESHARE);
    api_unmake(instance);
}
END_TEST

START_TEST(the_device_is_found_and_checked)
{
    static shared_name name;
    int device = -1;
    pleat_devptr at = 0;
    pleat instance = api_make(API_PLEAT, "devices:3", "shareable:True");
    pleat_devptr ptr = api_alloc(instance, 2, MIB, NULL);
    ck_assert_int_eq(pleat_share_export(instance, 2, ptr, PLEAT_SHARE_SERVE, name.bytes,
                                        sizeof name.bytes, &name.n),
                     PLEAT_OK);
    ck_assert_int_eq(pleat_share_device(instance, name.bytes, name.n, &device), PLEAT_OK);
    ck_assert_int_eq(device, 2);
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &at), PLEAT_EDEVICE);
    api_expect(PLEAT_EDEVICE, "device 2");
    ck_assert_int_eq(pleat_share_open(instance, 2, name.bytes, name.n, &at), PLEAT_OK);
    ck_assert_int_eq(pleat_share_close(instance, 2, at, NULL), PLEAT_OK);
    api_free(instance, 2, ptr, NULL);
    api_unmake(instance);
    instance = api_make(API_PLEAT, "devices:2", "shareable:True");
    ck_assert_int_eq(pleat_share_device(instance, name.bytes, name.n, &device), PLEAT_EDEVICE);
    api_expect(PLEAT_EDEVICE, "0000:03:00");
    api_unmake(instance);
}
END_TEST

START_TEST(a_forked_child_has_its_own)
{
    static shared_name name;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    pid_t child = fork();
    if (child == 0) {
        pleat_devptr at;
        bool is_good = pleat_share_open(instance, 0, name.bytes, name.n, &at) == PLEAT_EFORKED &&
                       pleat_share_export(instance, 0, ptr, 0, NULL, 0, &name.n) == PLEAT_EFORKED &&
                       pleat_share_close(instance, 0, ptr, NULL) == PLEAT_EFORKED;
        _exit(is_good ? 0 : 1);
    }
    finish(child);
    pleat_devptr at = open_name(instance, &name);
    close_at(instance, at, NULL);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

START_TEST(a_failed_open_leaves_nothing)
{
    static shared_name name;
    bool is_done = false;
    pleat instance = make_sharing("chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    name_block(instance, ptr, PLEAT_SHARE_SERVE, &name);
    pleat_sim_counts before = api_sim_counts();
    for (uint64_t k = 0; !is_done; k++) {
        pleat_devptr at = 0;
        uint64_t n_faults = sim.n_faults();
        sim.fail_at(NULL, k, CU_OUT_OF_MEMORY);
        pleat_status st = pleat_share_open(instance, 0, name.bytes, name.n, &at);
        is_done = sim.n_faults() == n_faults;
        sim.fail_never();
        if (st == PLEAT_OK) {
            close_at(instance, at, NULL);
        } else {
            ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, "process"));
        }
        pleat_sim_counts after = api_sim_counts();
        ck_assert_uint_eq(after.reservations, before.reservations);
        ck_assert_uint_eq(after.mappings, before.mappings);
        ck_assert_uint_eq(after.handles, before.handles);
    }
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

/* Now and then two threads map the same memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* slow builds */
enum { N_THREADS = 4, N_ROUNDS = 50 };
#else
enum { N_THREADS = 4, N_ROUNDS = 1000 };
#endif

typedef struct crowd {
    pleat instance;
    shared_name names[2];
    pleat_devptr ptrs[2];
} crowd;

static void *open_and_close(void *context)
{
    crowd *c = context;
    for (int i = 0; i < N_ROUNDS; i++) {
        pleat_devptr at;
        const shared_name *name = &c->names[i % 2];
        if (pleat_share_open(c->instance, 0, name->bytes, name->n, &at) != PLEAT_OK ||
            pleat_share_close(c->instance, 0, at, NULL) != PLEAT_OK) {
            return c;
        }
    }
    return NULL;
}

START_TEST(threads_open_and_close_at_once)
{
    static crowd c;
    pthread_t threads[N_THREADS];
    c.instance = make_sharing("");
    for (int i = 0; i < 2; i++) {
        c.ptrs[i] = api_alloc(c.instance, 0, (uint64_t)(i + 1) * 3 * MIB, NULL);
        name_block(c.instance, c.ptrs[i], PLEAT_SHARE_SERVE, &c.names[i]);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, &c), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    api_free(c.instance, 0, c.ptrs[0], NULL);
    api_free(c.instance, 0, c.ptrs[1], NULL);
    api_unmake(c.instance);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("api share");
    TCase *two = tcase_create("two processes");
    tcase_add_checked_fixture(two, api_sim_load, NULL);
    tcase_add_test(two, another_process_sees_the_same_bytes);
    tcase_add_test(two, a_block_over_several_chunks_from_the_middle_of_one);
    tcase_add_test(two, a_small_block_among_others);
    tcase_add_test(two, a_block_over_very_many_chunks);
    tcase_add_test(two, the_program_may_send_the_descriptors_itself);
    tcase_add_test(two, memory_outlives_the_process_that_shared_it);
    tcase_add_test(two, other_users_get_nothing);
    suite_add_tcase(suite, two);
    TCase *one = tcase_create("one process");
    tcase_add_checked_fixture(one, api_sim_load, NULL);
    tcase_add_test(one, what_lies_in_the_same_chunks_is_mapped_once);
    tcase_add_test(one, the_same_address_has_the_same_name);
    tcase_add_test(one, no_mapping_goes_under_work);
    tcase_add_test(one, destroying_waits_for_closes_and_refuses_what_is_open);
    tcase_add_test(one, a_captured_stream_closes_nothing);
    tcase_add_test(one, compaction_leaves_shared_chunks_alone);
    tcase_add_test(one, threads_open_and_close_at_once);
    suite_add_tcase(suite, one);
    TCase *refusals = tcase_create("refusals");
    tcase_add_checked_fixture(refusals, api_sim_load, NULL);
    tcase_add_test(refusals, only_what_can_be_shared_is_named);
    tcase_add_test(refusals, a_device_that_cannot_share_is_refused_or_serves_without);
    tcase_add_test(refusals, what_is_no_name_is_refused);
    tcase_add_test(refusals, memory_that_went_back_is_not_opened);
    tcase_add_test(refusals, the_device_is_found_and_checked);
    tcase_add_test(refusals, a_forked_child_has_its_own);
    tcase_add_test(refusals, a_failed_open_leaves_nothing);
    suite_add_tcase(suite, refusals);
    return suite;
}

/* In the other process: play one test without Check's forks. */
static Suite *make_role(const char *role)
{
    Suite *suite = suite_create(role);
    TCase *alone = tcase_create(role);
    tcase_add_checked_fixture(alone, api_sim_load, NULL);
    if (strcmp(role, "role_open") == 0) {
        tcase_add_test(alone, role_open);
    } else if (strcmp(role, "role_open_fds") == 0) {
        tcase_add_test(alone, role_open_fds);
    } else if (strcmp(role, "role_export") == 0) {
        tcase_add_test(alone, role_export);
    } else {
        tcase_add_test(alone, role_other_user);
    }
    suite_add_tcase(suite, alone);
    return suite;
}

int main(int argc, char **argv)
{
    return argc == 2 ? suite_play(make_role(argv[1])) : suite_run(make_suite());
}

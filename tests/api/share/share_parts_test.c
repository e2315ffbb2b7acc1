/* share_parts_test.c - other processes open buffers, parts of blocks and tags. The processes are
 * real and started by the test. */
/* labels: unit fault stress */
/* alone: the test runs itself as the other process */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/meta.h"

#define MIB (UINT64_C(1) << 20)
#define PAGE (2 * MIB)

/* Open descriptors of a started process: the file with the name, and both ends' pipes. */
enum { NAME_AT = 100, SAY_AT = 101, HEAR_AT = 102, NAME_ROOM = 1 << 20, N_WEIGHTS = 300 };

typedef struct shared_name {
    char bytes[NAME_ROOM];
    size_t n;
} shared_name;

static shared_name name;

static pleat make_sharing(const char *more)
{
    char conf[256];
    snprintf(conf, sizeof conf, "shareable:True%s%s", more[0] != '\0' ? "," : "", more);
    return api_make(API_PLEAT, "backing:memory,capacity:256M", conf);
}

static pleat_devptr open_name(pleat instance)
{
    pleat_devptr at = 0;
    pleat_status st = pleat_share_open(instance, 0, name.bytes, name.n, &at);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return at;
}

static void close_at(pleat instance, pleat_devptr at)
{
    ck_assert_int_eq(pleat_share_close(instance, 0, at, NULL), PLEAT_OK);
}

static pleat_status name_range(pleat instance, pleat_devptr ptr, uint64_t bytes)
{
    return pleat_share_export_range(instance, 0, ptr, bytes, PLEAT_SHARE_SERVE, name.bytes,
                                    sizeof name.bytes, &name.n);
}

static pleat_status name_tag(pleat instance, const char *tag)
{
    return pleat_share_export_tag(instance, 0, tag, PLEAT_SHARE_SERVE, name.bytes,
                                  sizeof name.bytes, &name.n);
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

static void pass_name(void)
{
    int fd = memfd_create("name", 0);
    ck_assert_int_eq(write(fd, name.bytes, name.n), (ssize_t)name.n);
    put_at(fd, NAME_AT);
}

static void take_name(void)
{
    ssize_t n = pread(NAME_AT, name.bytes, sizeof name.bytes, 0);
    ck_assert_int_gt(n, 0);
    name.n = (size_t)n;
}

static pid_t start(const char *role)
{
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "api_share_parts", role, NULL);
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

static void close_all(pleat instance, pleat_devptr at)
{
    close_at(instance, at);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().mappings, 0);
    ck_assert_uint_eq(api_sim_counts().imported_bytes, 0);
    api_unmake(instance);
}

/* Check the contents, then change them. */
START_TEST(role_read_and_answer)
{
    take_name();
    pleat instance = api_make(API_TORCH, "backing:memory,capacity:256M", "");
    pleat_devptr at = open_name(instance);
    size_t bytes = pleat_share_bytes(name.bytes, name.n);
    check_filled(at, bytes, 0x5a);
    fill(at, bytes, 0xa5);
    close_all(instance, at);
}
END_TEST

/* Keep the memory open while the owner gives it up. Report this, and check the contents again when
 * told. */
START_TEST(role_keep_open)
{
    char byte;
    take_name();
    pleat instance = api_make(API_TORCH, "backing:memory,capacity:256M", "");
    pleat_devptr at = open_name(instance);
    size_t bytes = pleat_share_bytes(name.bytes, name.n);
    check_filled(at, bytes, 0x5a);
    ck_assert_int_eq(write(SAY_AT, "", 1), 1);
    ck_assert_int_eq(read(HEAR_AT, &byte, 1), 1);
    check_filled(at, bytes, 0x5a);
    close_all(instance, at);
}
END_TEST

/* Each block's fill byte follows from the address in the owner. */
static int value_of(pleat_devptr there)
{
    return (int)(there / 512 % 251);
}

START_TEST(role_read_weights)
{
    take_name();
    pleat instance = api_make(API_TORCH, "backing:memory,capacity:256M", "");
    pleat_devptr at = open_name(instance);
    size_t n = pleat_share_n_blocks(name.bytes, name.n);
    ck_assert_uint_eq(n, N_WEIGHTS);
    for (size_t i = 0; i < n; i++) {
        pleat_devptr there;
        uint64_t bytes;
        uint64_t offset;
        ck_assert_int_eq(pleat_share_block(name.bytes, name.n, i, &there, &bytes, &offset),
                         PLEAT_OK);
        check_filled(at + offset, bytes, value_of(there));
        fill(at + offset, bytes, 255 - value_of(there));
    }
    close_all(instance, at);
}
END_TEST

/* ---- buffers --------------------------------------------------------------------------------- */

static pleat_devptr make_buffer(pleat instance, uint64_t page_bytes, uint64_t bytes)
{
    pleat_devptr buffer;
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 64 * MIB, page_bytes, &buffer), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, bytes, NULL), PLEAT_OK);
    return buffer;
}

static void end_buffer(pleat instance, pleat_devptr buffer)
{
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
    api_unmake(instance);
}

START_TEST(another_process_opens_pages_of_a_buffer)
{
    pleat instance = make_sharing("");
    uint64_t page_bytes = _i == 0 ? 0 : PAGE;
    pleat_devptr buffer = make_buffer(instance, page_bytes, 9 * PAGE);
    fill(buffer, 9 * PAGE, 0x11);
    fill(buffer + 3 * MIB, 7 * MIB, 0x5a);
    ck_assert_int_eq(name_range(instance, buffer + 3 * MIB, 7 * MIB), PLEAT_OK);
    ck_assert_uint_eq(pleat_share_bytes(name.bytes, name.n), 7 * MIB);
    ck_assert_uint_eq(pleat_share_n_blocks(name.bytes, name.n), 1);
    pass_name();
    finish(start("role_read_and_answer"));
    (void)api_sim_counts(); /* takes the lock held when the memory got its second mapping */
    check_filled(buffer, 3 * MIB, 0x11);
    check_filled(buffer + 3 * MIB, 7 * MIB, 0xa5);
    check_filled(buffer + 10 * MIB, 8 * MIB, 0x11);
    end_buffer(instance, buffer);
}
END_TEST

/* The pages may have several owners. Then they are several live blocks. */
START_TEST(a_name_reaches_to_the_first_page_that_is_not_committed)
{
    pleat instance = make_sharing("");
    void *stream = api_stream(instance, 0);
    pleat_devptr buffer = make_buffer(instance, PAGE, 4 * PAGE);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, 8 * PAGE, stream), PLEAT_OK);
    pleat_buffer_info info;
    ck_assert_int_eq(pleat_buffer_query(instance, 0, buffer, &info), PLEAT_OK);
    ck_assert_uint_eq(info.n_runs, 2);
    ck_assert_int_eq(pleat_buffer_decommit(instance, 0, buffer, 6 * PAGE, PAGE, stream), PLEAT_OK);
    size_t needed;
    ck_assert_int_eq(pleat_share_export(instance, 0, buffer + 512, PLEAT_SHARE_SERVE, name.bytes,
                                        sizeof name.bytes, &name.n),
                     PLEAT_OK);
    ck_assert_uint_eq(pleat_share_bytes(name.bytes, name.n), 6 * PAGE - 512);
    ck_assert_uint_eq(pleat_share_n_fds(name.bytes, name.n), 6);
    fill(buffer + 5 * PAGE, PAGE, 7);
    pleat_devptr at = open_name(instance);
    check_filled(at - 512 + 5 * PAGE, PAGE, 7);
    close_at(instance, at);
    ck_assert_int_eq(name_range(instance, buffer + 5 * PAGE, 2 * PAGE), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "committed pages of one buffer");
    ck_assert_int_eq(name_range(instance, buffer + 6 * PAGE, 1), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_share_export(instance, 0, buffer + 6 * PAGE, 0, NULL, 0, &needed),
                     PLEAT_EFOREIGN);
    ck_assert_int_eq(name_range(instance, buffer + 7 * PAGE, PAGE), PLEAT_OK);
    ck_assert_int_eq(name_range(instance, buffer + 7 * PAGE, PAGE + 1), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, stream), PLEAT_OK);
    ck_assert_int_eq(name_range(instance, buffer, PAGE), PLEAT_EFOREIGN);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

/* The other process keeps the memory open. When the other process closes the memory, all of it goes
 * back to the driver. */
START_TEST(pages_that_go_stay_for_who_has_them_open)
{
    int say[2];
    int hear[2];
    char byte;
    ck_assert_int_eq(pipe(say), 0);
    ck_assert_int_eq(pipe(hear), 0);
    put_at(say[1], SAY_AT);
    put_at(hear[0], HEAR_AT);
    pleat instance = make_sharing("");
    pleat_devptr buffer = make_buffer(instance, PAGE, 6 * PAGE);
    fill(buffer, 6 * PAGE, 0x5a);
    ck_assert_int_eq(name_range(instance, buffer + PAGE, 4 * PAGE), PLEAT_OK);
    pass_name();
    pid_t child = start("role_keep_open");
    ck_assert_int_eq(read(say[0], &byte, 1), 1);
    ck_assert_int_eq(pleat_buffer_decommit(instance, 0, buffer, 2 * PAGE, PAGE, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, PAGE, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_stats(instance, 0).resident_bytes, PAGE);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, 6 * PAGE, NULL), PLEAT_OK);
    fill(buffer + PAGE, 5 * PAGE, 0x33); /* the pages have new memory by now */
    ck_assert_int_eq(write(hear[1], "", 1), 1);
    finish(child);
    check_filled(buffer + PAGE, 5 * PAGE, 0x33);
    pleat_devptr at;
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &at), PLEAT_ESHARE);
    api_expect(PLEAT_ESHARE, "went back to the driver");
    end_buffer(instance, buffer);
}
END_TEST

START_TEST(a_buffer_grows_while_it_is_shared)
{
    pleat instance = make_sharing("");
    pleat_devptr buffer = make_buffer(instance, 0, 2 * PAGE);
    fill(buffer, 2 * PAGE, 1);
    ck_assert_int_eq(name_range(instance, buffer, 2 * PAGE), PLEAT_OK);
    pleat_devptr first = open_name(instance);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, 12 * PAGE, NULL), PLEAT_OK);
    fill(buffer + 2 * PAGE, 10 * PAGE, 2);
    check_filled(first, 2 * PAGE, 1);
    ck_assert_int_eq(name_range(instance, buffer + 2 * PAGE, 10 * PAGE), PLEAT_OK);
    pleat_devptr more = open_name(instance);
    check_filled(more, 10 * PAGE, 2);
    close_at(instance, first);
    close_at(instance, more);
    end_buffer(instance, buffer);
}
END_TEST

/* ---- parts of blocks ------------------------------------------------------------------------- */

START_TEST(a_part_of_a_block_needs_its_own_chunks_only)
{
    pleat instance = make_sharing("chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 10 * PAGE, NULL);
    pleat_devptr next = api_alloc(instance, 0, PAGE, NULL);
    ck_assert_int_eq(name_range(instance, ptr + 3 * PAGE + 512, PAGE), PLEAT_OK);
    ck_assert_uint_eq(pleat_share_n_fds(name.bytes, name.n), 2);
    ck_assert_uint_eq(pleat_share_bytes(name.bytes, name.n), PAGE);
    fill(ptr, 10 * PAGE, 3);
    fill(ptr + 3 * PAGE + 512, PAGE, 4);
    pleat_devptr at = open_name(instance);
    check_filled(at, PAGE, 4);
    check_filled(at + PAGE, 512, 3);
    pleat_devptr there;
    uint64_t bytes;
    uint64_t offset;
    ck_assert_int_eq(pleat_share_block(name.bytes, name.n, 0, &there, &bytes, &offset), PLEAT_OK);
    ck_assert_uint_eq(there, ptr + 3 * PAGE + 512);
    ck_assert_uint_eq(bytes, PAGE);
    ck_assert_uint_eq(offset, 0);
    ck_assert_int_eq(pleat_share_block(name.bytes, name.n, 1, &there, &bytes, &offset),
                     PLEAT_EINVAL);
    close_at(instance, at);
    ck_assert_int_eq(name_range(instance, ptr + PAGE, 9 * PAGE + 1), PLEAT_EFOREIGN);
    ck_assert_int_eq(name_range(instance, ptr, UINT64_MAX), PLEAT_EFOREIGN);
    ck_assert_int_eq(name_range(instance, ptr, 0), PLEAT_EINVAL);
    ck_assert_int_eq(name_range(instance, 0, 1), PLEAT_EINVAL);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, next, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- tags ------------------------------------------------------------------------------------ */

/* Sizes are small and large: some blocks share a chunk, some have several. */
static size_t weight_bytes(int i)
{
    return i % 50 == 0 ? 5 * MIB + 512 : (size_t)(i % 7 + 1) * 1000;
}

static void make_weights(pleat instance, pleat_devptr *ptrs, int n)
{
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    for (int i = 0; i < n; i++) {
        ptrs[i] = api_alloc(instance, 0, weight_bytes(i), NULL);
    }
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
}

static void free_weights(pleat instance, const pleat_devptr *ptrs, int n)
{
    for (int i = 0; i < n; i++) {
        api_free(instance, 0, ptrs[i], NULL);
    }
}

static size_t rounded(pleat instance, pleat_devptr ptr)
{
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
    return info.bytes;
}

START_TEST(another_process_opens_all_blocks_of_a_tag)
{
    static pleat_devptr ptrs[N_WEIGHTS];
    pleat instance = make_sharing(_i == 0 ? "" : "chunks:granule");
    pleat_devptr other = api_alloc(instance, 0, 3 * MIB, NULL);
    make_weights(instance, ptrs, N_WEIGHTS);
    for (int i = 0; i < N_WEIGHTS; i++) {
        fill(ptrs[i], rounded(instance, ptrs[i]), value_of(ptrs[i]));
    }
    fill(other, 3 * MIB, 1);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_OK);
    ck_assert_uint_eq(pleat_share_n_blocks(name.bytes, name.n), N_WEIGHTS);
    pass_name();
    finish(start("role_read_weights"));
    (void)api_sim_counts();
    for (int i = 0; i < N_WEIGHTS; i++) {
        check_filled(ptrs[i], weight_bytes(i), 255 - value_of(ptrs[i]));
    }
    check_filled(other, 3 * MIB, 1);
    free_weights(instance, ptrs, N_WEIGHTS);
    api_free(instance, 0, other, NULL);
    api_unmake(instance);
}
END_TEST

/* Each chunk is named once, even if several blocks share it. Chunks without a live block are not
 * named. */
START_TEST(a_tag_has_each_of_its_chunks_once)
{
    static pleat_devptr ptrs[N_WEIGHTS];
    pleat instance = make_sharing("chunks:granule");
    make_weights(instance, ptrs, N_WEIGHTS);
    pleat_tag_info figures;
    ck_assert_int_eq(pleat_tag_query(instance, 0, "weights", &figures), PLEAT_OK);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_OK);
    ck_assert_uint_le(pleat_share_bytes(name.bytes, name.n), figures.resident_bytes);
    ck_assert_uint_eq(pleat_share_n_fds(name.bytes, name.n) * PAGE,
                      pleat_share_bytes(name.bytes, name.n));
    free_weights(instance, ptrs + 1, N_WEIGHTS - 1);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_OK);
    ck_assert_uint_eq(pleat_share_n_blocks(name.bytes, name.n), 1);
    ck_assert_uint_le(pleat_share_n_fds(name.bytes, name.n), 4);
    api_free(instance, 0, ptrs[0], NULL);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "weights", "no live block");
    api_unmake(instance);
}
END_TEST

/* More chunks than are listed in one hold of the lock. */
START_TEST(a_block_of_very_many_chunks_is_a_part_of_a_tag)
{
    enum { N = 1500 };
    pleat instance = api_make(API_PLEAT, "capacity:8G", "shareable:True,chunks:granule");
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    pleat_devptr large = api_alloc(instance, 0, N * PAGE, NULL);
    pleat_devptr small = api_alloc(instance, 0, 512, NULL);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_OK);
    ck_assert_uint_eq(pleat_share_n_fds(name.bytes, name.n), N + 1);
    ck_assert_uint_eq(pleat_share_n_blocks(name.bytes, name.n), 2);
    for (size_t i = 0; i < 2; i++) {
        pleat_devptr there;
        uint64_t bytes;
        uint64_t offset;
        ck_assert_int_eq(pleat_share_block(name.bytes, name.n, i, &there, &bytes, &offset),
                         PLEAT_OK);
        ck_assert(there == large || there == small);
        ck_assert_uint_eq(bytes, there == large ? N * PAGE : 512);
        ck_assert_uint_eq(offset % PAGE, there % PAGE);
    }
    ck_assert_int_eq(name_range(instance, large, N * PAGE), PLEAT_OK);
    ck_assert_uint_eq(pleat_share_n_fds(name.bytes, name.n), N);
    api_free(instance, 0, large, NULL);
    api_free(instance, 0, small, NULL);
    api_unmake(instance);
}
END_TEST

static uint64_t slept_shared_bytes(pleat instance)
{
    pleat_slept slept;
    pleat_slept woken;
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_HOST, NULL, &slept),
                     PLEAT_OK);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", 0, &woken), PLEAT_OK);
    return slept.shared_bytes;
}

/* A shared tag no longer sleeps. After a mere query it still does. */
START_TEST(a_name_that_does_not_fit_shares_nothing)
{
    static const size_t pages[] = { 4, 40 }; /* in few chunks and in many */
    size_t bytes = pages[_i] * PAGE;
    size_t needed = 0;
    pleat instance = make_sharing("chunks:granule");
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, bytes, NULL);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    for (size_t room = 0; room <= needed; room += needed - 1) {
        ck_assert_int_eq(
            pleat_share_export_tag(instance, 0, "weights", 0, name.bytes, room, &needed), PLEAT_OK);
        ck_assert_int_eq(
            pleat_share_export_range(instance, 0, ptr, bytes, 0, name.bytes, room, &needed),
            PLEAT_OK);
        ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, name.bytes, room, &needed),
                         PLEAT_OK);
        ck_assert_uint_gt(needed, room);
        ck_assert_uint_eq(slept_shared_bytes(instance), 0);
    }
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr, 0, name.bytes, needed, &name.n),
                     PLEAT_OK);
    ck_assert_uint_eq(name.n, needed);
    ck_assert_uint_ge(slept_shared_bytes(instance), bytes);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_tag_sleeps_around_what_is_shared)
{
    pleat_slept slept;
    pleat_devptr at;
    pleat instance = make_sharing("chunks:granule");
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    pleat_devptr shared = api_alloc(instance, 0, 4 * PAGE, NULL);
    pleat_devptr own = api_alloc(instance, 0, 6 * PAGE, NULL);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    fill(shared, 4 * PAGE, 9);
    fill(own, 6 * PAGE, 8);
    ck_assert_int_eq(name_range(instance, shared, 4 * PAGE), PLEAT_OK);
    at = open_name(instance);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_HOST, NULL, &slept),
                     PLEAT_OK);
    ck_assert_uint_ge(slept.shared_bytes, 4 * PAGE);
    ck_assert_uint_ge(slept.bytes, 5 * PAGE);
    check_filled(at, 4 * PAGE, 9);
    check_filled(shared, 4 * PAGE, 9);
    fill(at, 4 * PAGE, 10);
    ck_assert_int_eq(name_range(instance, own, 6 * PAGE), PLEAT_EASLEEP);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_EASLEEP);
    api_expect(PLEAT_EASLEEP, "wake it first");
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", PAGE, &slept), PLEAT_OK);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_EASLEEP);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", 0, &slept), PLEAT_OK);
    check_filled(own, 6 * PAGE, 8);
    check_filled(shared, 4 * PAGE, 10);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_OK);
    close_at(instance, at);
    api_free(instance, 0, shared, NULL);
    api_free(instance, 0, own, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------------- */

START_TEST(what_cannot_be_named_is_refused)
{
    size_t needed;
    pleat instance = make_sharing("");
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "weights");
    ck_assert_int_eq(name_tag(instance, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_EFOREIGN);
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_share_export_tag(instance, 0, "weights", 2, NULL, 0, &needed),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_export_tag(instance, 0, "weights", 0, NULL, 8, &needed),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_share_export_tag(instance, 0, "weights", 0, NULL, 0, NULL),
                     PLEAT_EINVAL);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
    instance = api_make(API_TORCH, "capacity:1G", "");
    ptr = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(name_range(instance, ptr, 512), PLEAT_ENOTSUP);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "allocator:pleat");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
    instance = api_make(API_PLEAT, "capacity:1G", "shareable:False");
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "weights", MIB, NULL, &ptr), PLEAT_OK);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "shareable:True");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* Whatever bytes of a name are changed or missing, it is none. */
START_TEST(a_changed_name_is_none)
{
    static pleat_devptr ptrs[20];
    pleat_devptr there;
    uint64_t bytes;
    uint64_t offset;
    pleat instance = make_sharing("");
    make_weights(instance, ptrs, 20);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_OK);
    for (size_t i = 0; i < name.n; i++) {
        name.bytes[i] ^= 1;
        ck_assert_uint_eq(pleat_share_n_blocks(name.bytes, name.n), 0);
        name.bytes[i] ^= 1;
        ck_assert_uint_eq(pleat_share_n_blocks(name.bytes, i), 0);
        ck_assert_int_eq(pleat_share_block(name.bytes, i, 0, &there, &bytes, &offset),
                         PLEAT_EINVAL);
    }
    ck_assert_uint_eq(pleat_share_n_blocks(name.bytes, name.n), 20);
    free_weights(instance, ptrs, 20);
    api_unmake(instance);
}
END_TEST

/* A name of many blocks and chunks needs host memory. */
START_TEST(without_host_memory_nothing_is_named)
{
    static pleat_devptr ptrs[N_WEIGHTS];
    bool is_done = false;
    uint64_t n_failed = 0;
    pleat instance = make_sharing("chunks:granule");
    make_weights(instance, ptrs, N_WEIGHTS);
    for (uint64_t k = 0; !is_done; k++) {
        uint64_t before = pl_meta_n_allocs();
        pl_meta_fail_at(k);
        pleat_status st = name_tag(instance, "weights");
        is_done = pl_meta_n_allocs() - before <= k;
        pl_meta_fail_never();
        if (st != PLEAT_OK) {
            ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
            api_expect(PLEAT_ENOMEM_HOST, "weights", "cannot be shared");
            n_failed++;
        }
        api_check(instance);
    }
    ck_assert_uint_gt(n_failed, 0);
    ck_assert_int_eq(name_tag(instance, "weights"), PLEAT_OK);
    ck_assert_uint_eq(pleat_share_n_blocks(name.bytes, name.n), N_WEIGHTS);
    free_weights(instance, ptrs, N_WEIGHTS);
    api_unmake(instance);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct churn {
    pleat instance;
    atomic_bool is_over;
} churn;

static void *come_and_go(void *context)
{
    churn *c = context;
    pleat_devptr ptrs[16] = { 0 };
    for (unsigned i = 0; !atomic_load(&c->is_over); i = (i + 1) % 16) {
        if (ptrs[i] != 0 && pleat_block_free(c->instance, 0, ptrs[i], NULL) != PLEAT_OK) {
            return c;
        }
        if (pleat_tag_alloc(c->instance, 0, "weights", weight_bytes((int)i * 10), NULL, &ptrs[i]) !=
            PLEAT_OK) {
            return c;
        }
    }
    for (unsigned i = 0; i < 16; i++) {
        if (ptrs[i] != 0 && pleat_block_free(c->instance, 0, ptrs[i], NULL) != PLEAT_OK) {
            return c;
        }
    }
    return NULL;
}

/* Check that the named places contain all blocks that stay. */
static void check_those_that_stay(pleat_devptr at, const pleat_devptr *ptrs, int n)
{
    int n_found = 0;
    for (size_t i = 0; i < pleat_share_n_blocks(name.bytes, name.n); i++) {
        pleat_devptr there;
        uint64_t bytes;
        uint64_t offset;
        ck_assert_int_eq(pleat_share_block(name.bytes, name.n, i, &there, &bytes, &offset),
                         PLEAT_OK);
        for (int k = 0; k < n; k++) {
            if (ptrs[k] == there) {
                check_filled(at + offset, weight_bytes(k), value_of(there));
                n_found++;
            }
        }
    }
    ck_assert_int_eq(n_found, n);
}

START_TEST(a_tag_is_named_while_blocks_come_and_go)
{
    enum { N_STAY = 60, N_ROUNDS = 100 };
    static pleat_devptr ptrs[N_STAY];
    static churn c;
    pthread_t thread;
    int n_opened = 0;
    c.instance = make_sharing("");
    make_weights(c.instance, ptrs, N_STAY);
    for (int i = 0; i < N_STAY; i++) {
        fill(ptrs[i], weight_bytes(i), value_of(ptrs[i]));
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, come_and_go, &c), 0);
    for (uint64_t i = 0; i < suite_most(N_ROUNDS); i++) {
        pleat_devptr at;
        ck_assert_int_eq(name_tag(c.instance, "weights"), PLEAT_OK);
        ck_assert_uint_le(name.n, sizeof name.bytes);
        pleat_status st = pleat_share_open(c.instance, 0, name.bytes, name.n, &at);
        if (st == PLEAT_ESHARE) { /* a chunk of a freed block was given back meanwhile */
            continue;
        }
        ck_assert_int_eq(st, PLEAT_OK);
        check_those_that_stay(at, ptrs, N_STAY);
        close_at(c.instance, at);
        n_opened++;
    }
    atomic_store(&c.is_over, true);
    void *failed;
    ck_assert_int_eq(pthread_join(thread, &failed), 0);
    ck_assert_ptr_null(failed);
    ck_assert_int_gt(n_opened, 0);
    free_weights(c.instance, ptrs, N_STAY);
    api_unmake(c.instance);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("api share parts");
    TCase *buffers = tcase_create("buffers");
    tcase_add_checked_fixture(buffers, api_sim_load, NULL);
    tcase_add_loop_test(buffers, another_process_opens_pages_of_a_buffer, 0, 2);
    tcase_add_test(buffers, a_name_reaches_to_the_first_page_that_is_not_committed);
    tcase_add_test(buffers, pages_that_go_stay_for_who_has_them_open);
    tcase_add_test(buffers, a_buffer_grows_while_it_is_shared);
    tcase_add_test(buffers, a_part_of_a_block_needs_its_own_chunks_only);
    suite_add_tcase(suite, buffers);
    TCase *tags = tcase_create("tags");
    tcase_add_checked_fixture(tags, api_sim_load, NULL);
    tcase_add_loop_test(tags, another_process_opens_all_blocks_of_a_tag, 0, 2);
    tcase_add_test(tags, a_tag_has_each_of_its_chunks_once);
    tcase_add_test(tags, a_block_of_very_many_chunks_is_a_part_of_a_tag);
    tcase_add_test(tags, a_tag_sleeps_around_what_is_shared);
    tcase_add_loop_test(tags, a_name_that_does_not_fit_shares_nothing, 0, 2);
    tcase_add_test(tags, what_cannot_be_named_is_refused);
    tcase_add_test(tags, a_changed_name_is_none);
    tcase_add_test(tags, without_host_memory_nothing_is_named);
    tcase_add_test(tags, a_tag_is_named_while_blocks_come_and_go);
    suite_add_tcase(suite, tags);
    return suite;
}

/* In the other process: play one test without Check's forks. */
static Suite *make_role(const char *role)
{
    Suite *suite = suite_create(role);
    TCase *alone = tcase_create(role);
    tcase_add_checked_fixture(alone, api_sim_load, NULL);
    if (strcmp(role, "role_read_and_answer") == 0) {
        tcase_add_test(alone, role_read_and_answer);
    } else if (strcmp(role, "role_keep_open") == 0) {
        tcase_add_test(alone, role_keep_open);
    } else {
        tcase_add_test(alone, role_read_weights);
    }
    suite_add_tcase(suite, alone);
    return suite;
}

int main(int argc, char **argv)
{
    return argc == 2 ? suite_play(make_role(argv[1])) : suite_run(make_suite());
}

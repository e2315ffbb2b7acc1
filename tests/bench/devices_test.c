/* devices_test.c - which device of a snapshot is judged, and what the others need. */
/* labels: unit */
#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/works/files.h"
#include "tests/support/bench/bench_snapshot.h"
#include "tests/support/suite.h"

#define MIB UINT64_C(1048576)

enum { MOST_BYTES = 1 << 20, MOST_EVENTS = 512, N_DEVICES = 3 };

static unsigned char bytes[MOST_BYTES];
static bench_tape tape;
static bench_origin origin;
static bench_failure failure;
static char path[64];
static int descriptor; /* of the file in memory that `path` names */

static snap_event events[N_DEVICES][MOST_EVENTS];
static unsigned n_events[N_DEVICES];
static snap_block blocks[N_DEVICES][8];
static unsigned n_blocks[N_DEVICES];

static void set_up(void)
{
    bench_tape_init(&tape);
    descriptor = memfd_create("snapshot", 0);
    ck_assert_int_ge(descriptor, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    memset(n_events, 0, sizeof n_events);
    memset(n_blocks, 0, sizeof n_blocks);
}

static void tear_down(void)
{
    bench_tape_fini(&tape);
    bench_origin_fini(&origin);
    close(descriptor);
}

/* Each device has its segment, a TiB apart. */
static uint64_t base(int device)
{
    return (uint64_t)(device + 1) << 40;
}

static void event(int device, const char *action, uint64_t address, uint64_t size)
{
    ck_assert_uint_lt(n_events[device], MOST_EVENTS - 1);
    events[device][n_events[device]++] = (snap_event){ action, base(device) + address,
                                                       (int64_t)size, 0 };
}

static void block(int device, const char *state, uint64_t size)
{
    blocks[device][n_blocks[device]++] = (snap_block){ state, size, size };
}

/* Blocks of `size` come and go behind `kept` bytes. */
static void steps(int device, uint64_t kept, uint64_t size, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        event(device, "alloc", kept, size);
        event(device, "free_requested", kept, size);
        event(device, "free_completed", kept, size);
    }
}

/* 16 MiB are kept, 32 MiB come and go: 48 MiB. */
static void whole(int device)
{
    event(device, "segment_alloc", 0, 48 * MIB);
    event(device, "alloc", 0, 16 * MIB);
    steps(device, 16 * MIB, 32 * MIB, 8);
    block(device, "active_allocated", 16 * MIB);
    block(device, "inactive", 32 * MIB);
}

static void read_it(void)
{
    snap_segment segments[N_DEVICES];
    snap_plan plan = { .protocol = 4, .n_devices = N_DEVICES, .segments = segments };
    for (int d = 0; d < N_DEVICES; d++) {
        blocks[d][n_blocks[d]] = (snap_block){ .state = NULL };
        events[d][n_events[d]] = (snap_event){ .action = NULL };
        segments[d] = (snap_segment){ .blocks = blocks[d], .address = base(d), .device = d };
        plan.events[d] = n_events[d] > 0 ? events[d] : NULL;
    }
    segments[N_DEVICES - 1].blocks = n_blocks[N_DEVICES - 1] ? blocks[N_DEVICES - 1] : NULL;
    size_t n = snap_write(&plan, bytes, sizeof bytes);
    ck_assert_int_eq(ftruncate(descriptor, 0), 0);
    ck_assert_int_eq(pwrite(descriptor, bytes, n, 0), (ssize_t)n);
    bench_tape_fini(&tape);
    bench_origin_fini(&origin);
    ck_assert_msg(bench_file_read(path, NULL, &tape, &origin, &failure), "%s", failure.text);
}

static void check(int judged, uint64_t need, int other, uint64_t needs)
{
    const bench_devices *of = &origin.devices;
    ck_assert_int_eq(of->judged, judged);
    ck_assert_uint_eq(tape.peak_live_bytes, need);
    ck_assert_uint_eq(of->n_others, 1);
    ck_assert_int_eq(of->others[0], other);
    ck_assert_uint_eq(of->needs[0], needs);
}

START_TEST(blocks_of_a_device_without_a_history_are_a_need)
{
    whole(1);
    block(0, "active_allocated", 64 * MIB);
    read_it();
    check(0, 64 * MIB, 1, 48 * MIB);
    ck_assert(origin.told.has_no_history);
    blocks[0][0].size = blocks[0][0].requested = 47 * MIB;
    read_it();
    check(1, 48 * MIB, 0, 47 * MIB);
    ck_assert(!origin.told.has_no_history);
}
END_TEST

START_TEST(blocks_from_before_the_history_are_a_need)
{
    whole(1);
    steps(0, 64 * MIB, MIB, 4);
    block(0, "active_allocated", 64 * MIB);
    block(0, "inactive", MIB);
    read_it();
    check(0, 65 * MIB, 1, 48 * MIB);
    ck_assert(origin.told.begins_late);
}
END_TEST

START_TEST(frees_without_requests_free)
{
    whole(0);
    event(1, "alloc", 0, MIB);
    for (unsigned i = 0; i < 60; i++) { /* in all more than the other device needs */
        event(1, "alloc", MIB, MIB);
        event(1, "free_completed", MIB, MIB);
    }
    block(1, "active_allocated", MIB);
    read_it();
    check(0, 48 * MIB, 1, 2 * MIB);
}
END_TEST

/* The events of a history that was stopped before do not tell how to get there. */
START_TEST(a_history_that_does_not_lead_to_the_blocks_counts_from_its_beginning)
{
    whole(0);
    whole(1);
    n_blocks[1] = 0;
    block(1, "active_allocated", 8 * MIB);
    event(1, "alloc", 16 * MIB, 31 * MIB);
    read_it();
    check(0, 48 * MIB, 1, 48 * MIB);
}
END_TEST

START_TEST(of_devices_out_of_memory_the_neediest_is_judged_and_the_other_is_known)
{
    whole(0);
    whole(1);
    event(0, "oom", 0, 40 * MIB);
    read_it();
    check(0, 56 * MIB, 1, 48 * MIB);
    ck_assert(origin.devices.has_failed && !origin.devices.have_failed[0]);
    event(1, "oom", 0, 60 * MIB);
    read_it();
    check(1, 76 * MIB, 0, 56 * MIB);
    ck_assert(origin.devices.has_failed && origin.devices.have_failed[0]);
}
END_TEST

START_TEST(a_device_that_went_on_has_not_failed)
{
    whole(0);
    event(1, "oom", 0, 400 * MIB);
    steps(1, 0, MIB, 4);
    read_it();
    check(0, 48 * MIB, 1, MIB);
    ck_assert(!origin.devices.has_failed && !origin.devices.have_failed[0]);
}
END_TEST

SUITE(bench_devices)
{
    TCase *all = suite_case(suite, "all", set_up, tear_down);
    tcase_add_test(all, blocks_of_a_device_without_a_history_are_a_need);
    tcase_add_test(all, blocks_from_before_the_history_are_a_need);
    tcase_add_test(all, frees_without_requests_free);
    tcase_add_test(all, a_history_that_does_not_lead_to_the_blocks_counts_from_its_beginning);
    tcase_add_test(all, of_devices_out_of_memory_the_neediest_is_judged_and_the_other_is_known);
    tcase_add_test(all, a_device_that_went_on_has_not_failed);
}

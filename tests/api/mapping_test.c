/* mapping_test.c - the listed pieces under a pointer match the driver's mappings, and observers
 * know the mappings at any time. */
/* labels: unit fault stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "api/instance/instance.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/meta.h"
#include "vmm/driver.h"

#define MIB (UINT64_C(1) << 20)
#define GRANULE (2 * MIB)

enum { MOST_PIECES = 2048 };

static pleat_mapping pieces[MOST_PIECES];

/* ---- lists ----------------------------------------------------------------------------------- */

/* Each piece matches the driver's answer for the address. The pieces side by side are the
 * request. */
static size_t check_list(pleat instance, pleat_devptr ptr, uint64_t bytes, uint64_t expected_bytes)
{
    pl_device *dev = pleat_internal_device(instance, 0);
    size_t n = 0;
    pleat_devptr at = ptr;
    ck_assert_int_eq(pleat_mapping_list(instance, 0, ptr, bytes, pieces, MOST_PIECES, &n),
                     PLEAT_OK);
    ck_assert_uint_le(n, MOST_PIECES);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    for (size_t i = 0; i < n; i++) {
        cu_devptr base = 0;
        size_t size = 0;
        ck_assert_int_eq(pl_cu_mem_address_range(pl_device_driver(dev), &base, &size, at),
                         CU_SUCCESS);
        ck_assert_uint_eq(pieces[i].base, base);
        ck_assert_uint_eq(pieces[i].bytes, size);
        ck_assert_uint_eq(pieces[i].base + pieces[i].offset, at);
        ck_assert_uint_gt(pieces[i].used_bytes, 0);
        ck_assert_uint_le(pieces[i].offset + pieces[i].used_bytes, size);
        ck_assert_uint_eq(pieces[i].reserved, 0);
        at += pieces[i].used_bytes;
    }
    pl_device_leave(dev);
    ck_assert_uint_eq(at - ptr, expected_bytes);
    return n;
}

static const char *const chunk_sizes[] = { "chunks:granule", "chunks:mixed",
                                           "chunks:mixed,chunk_share:1" };

START_TEST(a_list_is_what_the_driver_tells_piece_by_piece)
{
    pleat instance = api_make(API_PLEAT, "capacity:4G", chunk_sizes[_i]);
    pleat_devptr small = api_alloc(instance, 0, 1000, NULL);
    pleat_devptr next = api_alloc(instance, 0, 3000, NULL);
    pleat_devptr large = api_alloc(instance, 0, 201 * MIB, NULL);
    ck_assert_uint_eq(check_list(instance, small, 0, 1024), 1);
    ck_assert_uint_eq(check_list(instance, next + 512, 1000, 1000), 1);
    ck_assert_uint_gt(pieces[0].offset, 0);
    size_t n = check_list(instance, large, 0, 201 * MIB);
    ck_assert_uint_ge(n, 2);
    ck_assert_uint_eq(check_list(instance, large, 1, 1), 1);
    size_t n_inside = check_list(instance, large + 33 * MIB + 512, 100 * MIB, 100 * MIB);
    ck_assert_uint_le(n_inside, n);
    if (_i == 0) {
        ck_assert_uint_ge(n, 101);
        ck_assert_uint_eq(n_inside, 51);
    }
    size_t counted = 0;
    ck_assert_int_eq(pleat_mapping_list(instance, 0, large, 0, NULL, 0, &counted), PLEAT_OK);
    ck_assert_uint_eq(counted, n);
    api_free(instance, 0, small, NULL);
    api_free(instance, 0, next, NULL);
    api_free(instance, 0, large, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(no_more_is_written_than_there_is_room_for)
{
    pleat instance = api_make(API_PLEAT, "capacity:1G", "chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 10 * GRANULE, NULL);
    size_t n;
    memset(pieces, 0xa5, sizeof pieces);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, ptr, 0, pieces, 3, &n), PLEAT_OK);
    ck_assert_uint_eq(n, 10);
    ck_assert_uint_eq(pieces[2].base, ptr + 2 * GRANULE);
    ck_assert_uint_eq(pieces[3].reserved, 0xa5a5a5a5);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(pages_of_a_buffer_are_listed_up_to_a_gap)
{
    pleat instance = api_make(API_PLEAT, "capacity:1G", "");
    pleat_devptr buffer;
    size_t n;
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 64 * MIB, GRANULE, &buffer), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, 10 * GRANULE, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_decommit(instance, 0, buffer, 6 * GRANULE, GRANULE, NULL),
                     PLEAT_OK);
    ck_assert_uint_eq(check_list(instance, buffer + 512, 0, 6 * GRANULE - 512), 6);
    ck_assert_uint_eq(check_list(instance, buffer + 7 * GRANULE, 3 * GRANULE, 3 * GRANULE), 3);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, buffer, 8 * GRANULE, pieces, MOST_PIECES, &n),
                     PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, buffer, 0, pieces, MOST_PIECES, &n),
                     PLEAT_EFOREIGN);
    api_unmake(instance);
}
END_TEST

START_TEST(what_is_opened_of_others_is_listed_too)
{
    static char name[65536];
    size_t needed;
    pleat_devptr at;
    pleat instance = api_make(API_PLEAT, "capacity:1G", "chunks:granule,shareable:True");
    pleat_devptr ptr = api_alloc(instance, 0, 9 * GRANULE, NULL);
    ck_assert_int_eq(pleat_share_export(instance, 0, ptr + 3 * MIB, PLEAT_SHARE_SERVE, name,
                                        sizeof name, &needed),
                     PLEAT_OK);
    ck_assert_uint_eq(check_list(instance, ptr, 0, 9 * GRANULE), 9);
    ck_assert_uint_eq(pieces[0].flags, PLEAT_MAPPING_EXPORTABLE | PLEAT_MAPPING_RDMA);
    ck_assert_int_eq(pleat_share_open(instance, 0, name, needed, &at), PLEAT_OK);
    ck_assert_uint_eq(check_list(instance, at, 0, 15 * MIB), 8);
    ck_assert_uint_eq(pieces[7].flags, PLEAT_MAPPING_OPENED);
    ck_assert_uint_eq(check_list(instance, at + 5 * MIB, MIB, MIB), 1);
    size_t n;
    ck_assert_int_eq(pleat_mapping_list(instance, 0, at, 15 * MIB + 1, NULL, 0, &n),
                     PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_share_close(instance, 0, at, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, at, 0, NULL, 0, &n), PLEAT_EFOREIGN);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

static unsigned flags_with(const char *sim_conf, const char *conf)
{
    pleat instance = api_make(API_PLEAT, sim_conf, conf);
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    (void)check_list(instance, ptr, 0, MIB);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
    return pieces[0].flags;
}

START_TEST(flags_tell_what_the_memory_was_made_for)
{
    static const char old[] = "profile:old_driver,capacity:1G";
    ck_assert_uint_eq(flags_with("capacity:1G", ""), PLEAT_MAPPING_RDMA);
    ck_assert_uint_eq(flags_with("capacity:1G", "rdma:False"), 0);
    ck_assert_uint_eq(flags_with("capacity:1G", "rdma:False,shareable:auto"),
                      PLEAT_MAPPING_EXPORTABLE);
    ck_assert_uint_eq(flags_with(old, "shareable:auto"), 0);
}
END_TEST

START_TEST(what_is_not_there_is_not_listed)
{
    size_t n = 77;
    pleat_devptr ptr;
    pleat instance = api_make(API_PLEAT, "capacity:1G", "");
    ck_assert_int_eq(pleat_mapping_list(instance, 0, 512, 0, NULL, 0, &n), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "listed", 5 * MIB, NULL, &ptr), PLEAT_OK);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, 0, 0, NULL, 0, &n), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, ptr, 0, NULL, 1, &n), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, ptr, 0, NULL, 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mapping_list(instance, 9, ptr, 0, NULL, 0, &n), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, ptr, UINT64_MAX, NULL, 0, &n), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "live memory of one block");
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "listed", PLEAT_SLEEP_DISCARD, NULL, NULL),
                     PLEAT_OK);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, ptr, 0, NULL, 0, &n), PLEAT_EASLEEP);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "listed", 0, NULL), PLEAT_OK);
    ck_assert_uint_eq(n, 77);
    (void)check_list(instance, ptr, 0, 5 * MIB);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, ptr, 0, NULL, 0, &n), PLEAT_EFOREIGN);
    api_unmake(instance);
    instance = api_make(API_TORCH, "capacity:1G", "");
    ptr = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_mapping_list(instance, 0, ptr, 0, NULL, 0, &n), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "torch-native", "allocator:pleat");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(without_host_memory_nothing_is_listed)
{
    bool is_done = false;
    unsigned n_failed = 0;
    pleat instance = api_make(API_PLEAT, "capacity:1G", "chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 200 * MIB, NULL);
    for (uint64_t k = 0; !is_done; k++) {
        size_t n = 77;
        uint64_t before = pl_meta_n_allocs();
        pl_meta_fail_at(k);
        pleat_status st = pleat_mapping_list(instance, 0, ptr, 0, pieces, MOST_PIECES, &n);
        is_done = pl_meta_n_allocs() - before <= k;
        pl_meta_fail_never();
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST);
        ck_assert_uint_eq(n, st == PLEAT_OK ? 100 : 77);
        n_failed += st != PLEAT_OK;
    }
    ck_assert_uint_gt(n_failed, 0);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- an observer that mirrors the mappings --------------------------------------------------- */

enum { MOST_RANGES = 8192 };

typedef struct range {
    pleat_devptr base;
    pleat_devptr end;
} range;

static struct {
    pthread_mutex_t mutex;
    range ranges[MOST_RANGES];
    size_t n;
    uint64_t n_come;
    uint64_t n_go;
    bool is_wrong;   /* memory came where some was */
    bool is_touched; /* the host can read and write the memory */
} mirror = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void mirror_clear(bool is_touched)
{
    mirror.n = 0;
    mirror.n_come = 0;
    mirror.n_go = 0;
    mirror.is_wrong = false;
    mirror.is_touched = is_touched;
}

static void mirror_add(pleat_devptr base, pleat_devptr end)
{
    for (size_t i = 0; i < mirror.n; i++) {
        mirror.is_wrong |= mirror.ranges[i].base < end && base < mirror.ranges[i].end;
    }
    mirror.is_wrong |= mirror.n == MOST_RANGES;
    if (mirror.n < MOST_RANGES) {
        mirror.ranges[mirror.n++] = (range){ base, end };
    }
}

static void mirror_remove(pleat_devptr base, pleat_devptr end)
{
    for (size_t i = 0; i < mirror.n;) {
        range was = mirror.ranges[i];
        if (was.base >= end || base >= was.end) {
            i++;
            continue;
        }
        mirror.ranges[i] = mirror.ranges[--mirror.n];
        if (was.base < base) {
            mirror_add(was.base, base);
        }
        if (end < was.end) {
            mirror_add(end, was.end);
        }
    }
}

static void mirror_see(int device, pleat_mapping_change change, pleat_devptr base, uint64_t bytes,
                       void *context)
{
    (void)device;
    (void)context;
    pthread_mutex_lock(&mirror.mutex);
    if (mirror.is_touched) { /* readable after it has come and before it goes */
        *(volatile char *)(uintptr_t)base += 0;
        *(volatile char *)(uintptr_t)(base + bytes - 1) += 0;
    }
    if (change == PLEAT_MAPPING_COME) {
        mirror_add(base, base + bytes);
        mirror.n_come++;
    } else {
        mirror_remove(base, base + bytes);
        mirror.n_go++;
    }
    pthread_mutex_unlock(&mirror.mutex);
}

static uint64_t mirror_bytes(void)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < mirror.n; i++) {
        bytes += mirror.ranges[i].end - mirror.ranges[i].base;
    }
    return bytes;
}

static uint64_t driver_bytes(void)
{
    pleat_sim_counts counts = api_sim_counts();
    return counts.mapped_bytes + (counts.allocations > 0 ? counts.physical_bytes : 0);
}

static void mirror_check(void)
{
    ck_assert(!mirror.is_wrong);
    ck_assert_uint_eq(mirror_bytes(), driver_bytes());
}

static unsigned observe(pleat instance)
{
    unsigned number = 0;
    ck_assert_int_eq(pleat_mapping_observe(instance, mirror_see, NULL, &number), PLEAT_OK);
    ck_assert_uint_gt(number, 0);
    return number;
}

START_TEST(observers_know_what_is_mapped)
{
    enum { N = 40 };
    pleat_devptr ptrs[N];
    mirror_clear(true);
    pleat instance = api_make(_i, "capacity:1G,backing:memory", "");
    (void)observe(instance);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            ptrs[i] = api_alloc(instance, 0, (size_t)(i % 9 + 1) * MIB * (unsigned)(round + 1),
                                NULL);
            mirror_check();
        }
        for (int i = round % 2; i < N; i += 2) {
            api_free(instance, 0, ptrs[i], NULL);
        }
        for (int i = 1 - round % 2; i < N; i += 2) {
            api_free(instance, 0, ptrs[i], NULL);
            mirror_check();
        }
        ck_assert_int_eq(pleat_device_trim(instance, 0, 64 * MIB, true, NULL), PLEAT_OK);
        mirror_check();
    }
    ck_assert_uint_gt(mirror.n_come, 0);
    ck_assert_uint_gt(mirror.n_go, 0);
    api_unmake(instance);
    ck_assert_uint_eq(mirror.n, 0);
}
END_TEST

START_TEST(observers_know_of_sleep_buffers_and_other_processes)
{
    static char name[65536];
    size_t needed;
    pleat_devptr tagged;
    pleat_devptr buffer;
    pleat_devptr at;
    pleat_compaction won;
    mirror_clear(true);
    pleat instance = api_make(API_PLEAT, "capacity:512M,backing:memory",
                              "chunks:mixed,chunk_share:1,shareable:True");
    unsigned number = observe(instance);
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "seen", 9 * MIB, NULL, &tagged), PLEAT_OK);
    mirror_check();
    uint64_t n_go = mirror.n_go;
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "seen", PLEAT_SLEEP_HOST, NULL, NULL), PLEAT_OK);
    ck_assert_uint_gt(mirror.n_go, n_go);
    mirror_check();
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "seen", 0, NULL), PLEAT_OK);
    mirror_check();
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 64 * MIB, GRANULE, &buffer), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, 20 * MIB, NULL), PLEAT_OK);
    mirror_check();
    ck_assert_int_eq(
        pleat_share_export(instance, 0, buffer, PLEAT_SHARE_SERVE, name, sizeof name, &needed),
        PLEAT_OK);
    ck_assert_int_eq(pleat_share_open(instance, 0, name, needed, &at), PLEAT_OK);
    mirror_check();
    ck_assert_int_eq(pleat_share_close(instance, 0, at, NULL), PLEAT_OK);
    mirror_check();
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_device_compact(instance, 0, &won), PLEAT_EBUSY);
    api_expect(PLEAT_EBUSY, "observed");
    mirror_check();
    ck_assert_int_eq(pleat_mapping_unobserve(instance, number), PLEAT_OK);
    ck_assert_int_eq(pleat_device_compact(instance, 0, &won), PLEAT_OK);
    api_free(instance, 0, tagged, NULL);
    api_unmake(instance);
}
END_TEST

/* A mapping that the driver refuses is not reported. A refused unmapping may have been reported. */
START_TEST(refusals_of_the_driver_are_no_changes)
{
    bool is_done = false;
    mirror_clear(false);
    pleat instance = api_make(API_PLEAT, "capacity:256M", "chunks:granule");
    (void)observe(instance);
    for (uint64_t k = 0; !is_done; k++) {
        pleat_devptr ptr = 0;
        uint64_t n_faults = sim.n_faults();
        sim.fail_at(NULL, k, 999);
        pleat_status st = pleat_block_alloc(instance, 0, 9 * MIB, NULL, &ptr);
        is_done = sim.n_faults() == n_faults;
        sim.fail_never();
        mirror_check();
        if (st == PLEAT_OK) {
            api_free(instance, 0, ptr, NULL);
        }
        ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
        mirror_check();
    }
    api_unmake(instance);
    ck_assert_uint_eq(mirror.n, 0);
}
END_TEST

/* ---- what an observer may do ----------------------------------------------------------------- */

typedef struct caller {
    pleat instance;
    pleat_devptr small;
    unsigned n;
    unsigned n_refused;
    unsigned own;
} caller;

static void call_pleat(int device, pleat_mapping_change change, pleat_devptr base, uint64_t bytes,
                       void *context)
{
    caller *c = context;
    pleat_devptr ptr;
    pleat_stats stats;
    size_t n;
    (void)change;
    (void)bytes;
    c->n += 8;
    ck_assert_int_eq(pleat_tag_push(NULL), PLEAT_OK);
    c->n_refused += pleat_block_alloc(c->instance, device, 1000, NULL, &ptr) == PLEAT_EBUSY;
    c->n_refused += pleat_block_free(c->instance, device, c->small, NULL) == PLEAT_EBUSY;
    c->n_refused += pleat_device_stats(c->instance, device, &stats) == PLEAT_EBUSY;
    c->n_refused += pleat_device_trim(c->instance, device, 0, false, NULL) == PLEAT_EBUSY;
    c->n_refused += pleat_mapping_list(c->instance, device, base, 0, NULL, 0, &n) == PLEAT_EBUSY;
    c->n_refused += pleat_mapping_unobserve(c->instance, c->own) == PLEAT_EBUSY;
    c->n_refused += pleat_tag_alloc(c->instance, device, "seen", 512, NULL, &ptr) == PLEAT_EBUSY;
    c->n_refused += pleat_destroy(c->instance, PLEAT_DESTROY_FORCE) == PLEAT_EBUSY;
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
}

START_TEST(an_observer_calls_nothing_of_pleats)
{
    pleat instance = api_make(API_PLEAT, "capacity:1G", "");
    caller c = { .instance = instance, .small = api_alloc(instance, 0, 1000, NULL) };
    ck_assert_int_eq(pleat_mapping_observe(instance, call_pleat, &c, &c.own), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, 100 * MIB, NULL);
    unsigned n = c.n;
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_eq(c.n_refused, c.n);
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    pleat_devptr tagged = api_alloc(instance, 0, 100 * MIB, NULL);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_uint_gt(c.n, n);
    ck_assert_uint_eq(c.n_refused, c.n);
    api_free(instance, 0, tagged, NULL);
    api_free(instance, 0, api_alloc(instance, 0, 1000, NULL), NULL);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, c.small, NULL);
    ck_assert_int_eq(pleat_mapping_unobserve(instance, c.own), PLEAT_OK);
    api_check(instance);
    api_unmake(instance);
}
END_TEST

static void count(int device, pleat_mapping_change change, pleat_devptr base, uint64_t bytes,
                  void *context)
{
    (void)device;
    (void)change;
    (void)base;
    (void)bytes;
    ++*(unsigned *)context;
}

START_TEST(several_observe_and_places_come_back)
{
    unsigned seen[PLEAT_MOST_OBSERVERS + 1] = { 0 };
    unsigned numbers[PLEAT_MOST_OBSERVERS + 1];
    pleat instance = api_make(API_PLEAT, "capacity:1G", "");
    for (unsigned i = 0; i < PLEAT_MOST_OBSERVERS; i++) {
        ck_assert_int_eq(pleat_mapping_observe(instance, count, &seen[i], &numbers[i]), PLEAT_OK);
    }
    ck_assert_int_eq(pleat_mapping_observe(instance, count, &seen[16], &numbers[16]),
                     PLEAT_ENOMEM_HOST);
    api_expect(PLEAT_ENOMEM_HOST, "16 observers");
    api_free(instance, 0, api_alloc(instance, 0, 10 * MIB, NULL), NULL);
    unsigned n = seen[0];
    ck_assert_uint_gt(n, 0);
    for (unsigned i = 0; i < PLEAT_MOST_OBSERVERS; i++) {
        ck_assert_uint_eq(seen[i], n);
    }
    ck_assert_int_eq(pleat_mapping_unobserve(instance, numbers[3]), PLEAT_OK);
    ck_assert_int_eq(pleat_mapping_unobserve(instance, numbers[3]), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mapping_unobserve(instance, 0), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mapping_unobserve(instance, PLEAT_MOST_OBSERVERS + 1), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mapping_observe(instance, NULL, NULL, &numbers[3]), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mapping_observe(instance, count, NULL, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mapping_observe(instance, count, &seen[16], &numbers[16]), PLEAT_OK);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(seen[3], n);
    ck_assert_uint_gt(seen[16], 0);
    api_unmake(instance);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_inside;
    bool may_go_on;
} gate = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void pass_gate(int device, pleat_mapping_change change, pleat_devptr base, uint64_t bytes,
                      void *context)
{
    (void)device;
    (void)change;
    (void)base;
    (void)bytes;
    (void)context;
    pthread_mutex_lock(&gate.mutex);
    gate.is_inside = true;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.may_go_on) {
        pthread_cond_wait(&gate.changed, &gate.mutex);
    }
    pthread_mutex_unlock(&gate.mutex);
}

typedef struct removal {
    pleat instance;
    unsigned number;
    pleat_devptr ptr;
    atomic_bool is_over;
} removal;

static void *allocate_large(void *context)
{
    removal *r = context;
    return pleat_block_alloc(r->instance, 0, 50 * MIB, NULL, &r->ptr) == PLEAT_OK ? NULL : r;
}

static void *remove_observer(void *context)
{
    removal *r = context;
    pleat_status st = pleat_mapping_unobserve(r->instance, r->number);
    atomic_store(&r->is_over, true);
    return st == PLEAT_OK ? NULL : r;
}

/* Wait until the removal sleeps or, wrongly, has returned. */
static void wait_for_removal(removal *r)
{
    pl_use use = pl_use_enter(r->instance);
    ck_assert_ptr_nonnull(use.instance);
    while (!atomic_load(&r->is_over) &&
           atomic_load(&use.instance->observers.ended.n_waiting) == 0) {
        (void)sched_yield();
    }
    pl_use_leave(use);
}

static void join(pthread_t thread)
{
    void *failed;
    ck_assert_int_eq(pthread_join(thread, &failed), 0);
    ck_assert_ptr_null(failed);
}

/* Others allocate meanwhile, which shows that an observer runs without locks. */
START_TEST(who_removes_an_observer_waits_until_it_has_returned)
{
    pthread_t threads[2];
    removal r = { .instance = api_make(API_PLEAT, "capacity:1G", "") };
    pleat_devptr own = api_alloc(r.instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_mapping_observe(r.instance, pass_gate, NULL, &r.number), PLEAT_OK);
    ck_assert_int_eq(pthread_create(&threads[0], NULL, allocate_large, &r), 0);
    pthread_mutex_lock(&gate.mutex);
    while (!gate.is_inside) {
        pthread_cond_wait(&gate.changed, &gate.mutex);
    }
    pthread_mutex_unlock(&gate.mutex);
    ck_assert_int_eq(pthread_create(&threads[1], NULL, remove_observer, &r), 0);
    wait_for_removal(&r);
    for (int i = 0; i < 1000; i++) {
        api_free(r.instance, 0, own, NULL);
        own = api_alloc(r.instance, 0, MIB, NULL);
    }
    ck_assert(!atomic_load(&r.is_over));
    pthread_mutex_lock(&gate.mutex);
    gate.may_go_on = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
    join(threads[0]);
    join(threads[1]);
    api_free(r.instance, 0, r.ptr, NULL);
    api_free(r.instance, 0, own, NULL);
    api_unmake(r.instance);
}
END_TEST

enum { N_THREADS = 4, N_ROUNDS = 300 };

typedef struct crew {
    pleat instance;
    unsigned index;
} crew;

/* Blocks of its own on a stream of nobody's, and now and then all free memory goes. */
static void *churn(void *context)
{
    crew *c = context;
    pleat_devptr ptrs[8] = { 0 };
    bool is_good = true;
    for (unsigned i = 0; i < N_ROUNDS && is_good; i++) {
        unsigned k = i % 8;
        if (ptrs[k] != 0) {
            is_good = pleat_block_free(c->instance, 0, ptrs[k], NULL) == PLEAT_OK;
        }
        size_t bytes = (size_t)((i * 7 + c->index * 5) % 11 + 1) * MIB;
        is_good = is_good && pleat_block_alloc(c->instance, 0, bytes, NULL, &ptrs[k]) == PLEAT_OK;
        if (i % 50 == 49) {
            is_good = is_good && pleat_device_trim(c->instance, 0, 0, false, NULL) == PLEAT_OK;
        }
    }
    for (unsigned k = 0; k < 8; k++) {
        is_good = is_good && pleat_block_free(c->instance, 0, ptrs[k], NULL) == PLEAT_OK;
    }
    return is_good ? NULL : c;
}

static void count_atomically(int device, pleat_mapping_change change, pleat_devptr base,
                             uint64_t bytes, void *context)
{
    (void)device;
    (void)change;
    (void)base;
    (void)bytes;
    atomic_fetch_add((atomic_uint *)context, 1);
}

START_TEST(threads_are_observed_at_once)
{
    pthread_t threads[N_THREADS];
    crew crews[N_THREADS];
    atomic_uint seen = 0;
    mirror_clear(false);
    pleat instance = api_make(API_PLEAT, "capacity:4G", "chunks:granule");
    (void)observe(instance);
    for (unsigned i = 0; i < N_THREADS; i++) {
        crews[i] = (crew){ instance, i };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &crews[i]), 0);
    }
    for (int i = 0; i < 50; i++) { /* another observer comes and goes */
        unsigned number;
        ck_assert_int_eq(pleat_mapping_observe(instance, count_atomically, &seen, &number),
                         PLEAT_OK);
        ck_assert_int_eq(pleat_mapping_unobserve(instance, number), PLEAT_OK);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        join(threads[i]);
    }
    mirror_check();
    ck_assert_uint_gt(mirror.n_go, 0);
    api_unmake(instance);
    ck_assert_uint_eq(mirror.n, 0);
}
END_TEST

/* ---- torn memory ----------------------------------------------------------------------------- */

/* A device with a split chunk to merge, and another device in use. */
static pleat open_two(void)
{
    enum { N = 32 };
    static const char kept[] = "##....................#####.....";
    pleat_devptr ptrs[N];
    pleat made = api_make(API_PLEAT, "devices:2,capacity:64G", "chunks:mixed,chunk_share:1");
    (void)api_alloc(made, 0, 31 * (size_t)GRANULE, NULL);
    pleat_devptr large = api_alloc(made, 0, N * (size_t)GRANULE, NULL);
    api_free(made, 0, large, NULL);
    for (int i = 0; i < N; i++) {
        ptrs[i] = api_alloc(made, 0, GRANULE, NULL);
    }
    (void)api_alloc(made, 1, MIB, NULL);
    for (int i = 0; i < N; i++) {
        if (kept[i] == '.') {
            api_free(made, 0, ptrs[i], NULL);
        }
    }
    return made;
}

/* An instance whose device 0 a compaction has left torn. */
static pleat open_torn(void)
{
    pleat_compaction won;
    for (uint64_t k = 0; k < 64; k++) {
        pleat made = open_two();
        sim.fail_from("cuMemMap", k, 999);
        pleat_status st = pleat_device_compact(made, 0, &won);
        sim.fail_never();
        if (st == PLEAT_EPOISONED) {
            return made;
        }
        ck_assert_int_eq(pleat_destroy(made, PLEAT_DESTROY_FORCE), PLEAT_OK);
    }
    ck_abort_msg("no compaction left memory torn");
    return (pleat){ 0 };
}

START_TEST(what_another_device_does_mends_nothing)
{
    unsigned number;
    pleat_compaction won;
    pleat made = open_torn();
    ck_assert_int_eq(pleat_mapping_observe(made, count_atomically, NULL, &number), PLEAT_EBUSY);
    ck_assert_int_eq(pleat_device_compact(made, 1, &won), PLEAT_OK);
    ck_assert_int_eq(pleat_mapping_observe(made, count_atomically, NULL, &number), PLEAT_EBUSY);
    ck_assert_int_eq(pleat_device_compact(made, 0, &won), PLEAT_OK);
    atomic_uint seen = 0;
    ck_assert_int_eq(pleat_mapping_observe(made, count_atomically, &seen, &number), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(made, PLEAT_DESTROY_FORCE), PLEAT_OK);
}
END_TEST

SUITE(api_mapping)
{
    TCase *lists = suite_case(suite, "lists", api_sim_load, NULL);
    tcase_add_loop_test(lists, a_list_is_what_the_driver_tells_piece_by_piece, 0, 3);
    tcase_add_test(lists, no_more_is_written_than_there_is_room_for);
    tcase_add_test(lists, pages_of_a_buffer_are_listed_up_to_a_gap);
    tcase_add_test(lists, what_is_opened_of_others_is_listed_too);
    tcase_add_test(lists, flags_tell_what_the_memory_was_made_for);
    tcase_add_test(lists, what_is_not_there_is_not_listed);
    tcase_add_test(lists, without_host_memory_nothing_is_listed);
    TCase *observers = suite_case(suite, "observers", api_sim_load, NULL);
    tcase_add_loop_test(observers, observers_know_what_is_mapped, 0, N_API_ALLOCATORS);
    tcase_add_test(observers, observers_know_of_sleep_buffers_and_other_processes);
    tcase_add_test(observers, refusals_of_the_driver_are_no_changes);
    tcase_add_test(observers, what_another_device_does_mends_nothing);
    tcase_add_test(observers, an_observer_calls_nothing_of_pleats);
    tcase_add_test(observers, several_observe_and_places_come_back);
    TCase *threads = suite_case(suite, "threads", api_sim_load, NULL);
    tcase_add_test(threads, who_removes_an_observer_waits_until_it_has_returned);
    tcase_add_test(threads, threads_are_observed_at_once);
}

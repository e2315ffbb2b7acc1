/* recorded_test.c - how much of a run a recording tells, and the run's settings. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/works/files.h"
#include "tests/support/bench/bench_snapshot.h"
#include "tests/support/suite.h"

#define MIB INT64_C(1048576)

enum { MOST_BYTES = 1 << 20, SEGMENT = 0x10000000, MOST_EVENTS = 2200, MOST_KEPT = 64 };

#define KEPT_AT (UINT64_C(1) << 36) /* behind SEGMENT: a segment of blocks that steps keep */

static unsigned char bytes[MOST_BYTES];
static bench_tape tape;
static bench_origin origin;
static bench_failure failure;
static char path[128];
static int descriptor; /* of the file in memory that `path` names */

static snap_event events[MOST_EVENTS];
static unsigned n_events;
static snap_block blocks[16]; /* of the segment at the end */
static unsigned n_blocks;
static snap_block kept[2 * MOST_KEPT + 1]; /* of the second segment */
static snap_segment segments[3];
static int64_t first_bytes; /* of the block that is kept from the beginning */
static int64_t step_bytes;  /* of the large steps of read_rise */

static void set_up(void)
{
    bench_tape_init(&tape);
    descriptor = memfd_create("snapshot", 0);
    ck_assert_int_ge(descriptor, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    n_events = n_blocks = 0;
    first_bytes = 16 * MIB;
    step_bytes = 48 * MIB;
}

static void tear_down(void)
{
    bench_tape_fini(&tape);
    bench_origin_fini(&origin);
    close(descriptor);
}

static void event(const char *action, uint64_t address, int64_t size)
{
    ck_assert_uint_lt(n_events, MOST_EVENTS - 1);
    events[n_events++] = (snap_event){ action, SEGMENT + address, size, 0 };
}

static void block(bool is_live, int64_t size)
{
    blocks[n_blocks++] = (snap_block){ is_live ? "active_allocated" : "inactive", (uint64_t)size,
                                       is_live ? (uint64_t)size : 0 };
}

static void freed(uint64_t address, int64_t size)
{
    event("free_requested", address, size);
    event("free_completed", address, size);
}

/* A step: above the kept blocks, a block of `size` comes and goes. */
static void step(int64_t size)
{
    event("alloc", (uint64_t)(16 * MIB), size);
    freed((uint64_t)(16 * MIB), size);
}

static void read_plan(snap_plan *plan)
{
    events[n_events] = (snap_event){ .action = NULL };
    plan->protocol = 4;
    plan->n_devices = plan->n_devices ? plan->n_devices : 1;
    plan->events[0] = events;
    size_t n = snap_write(plan, bytes, sizeof bytes);
    ck_assert_int_eq(ftruncate(descriptor, 0), 0);
    ck_assert_int_eq(pwrite(descriptor, bytes, n, 0), (ssize_t)n);
    bench_tape_fini(&tape);
    bench_origin_fini(&origin);
    ck_assert_msg(bench_file_read(path, NULL, &tape, &origin, &failure), "%s", failure.text);
}

static const bench_told *read_it(const char *conf)
{
    blocks[n_blocks] = (snap_block){ .state = NULL };
    segments[0] = (snap_segment){ .blocks = blocks, .address = SEGMENT };
    segments[1] = (snap_segment){ .blocks = kept[0].state ? kept : NULL,
                                  .address = SEGMENT + KEPT_AT };
    read_plan(&(snap_plan){ .conf = conf, .segments = segments });
    return &origin.told;
}

/* 16 MiB are kept, 48 MiB come and go in each step. */
static void begin_whole(void)
{
    event("segment_alloc", 0, 64 * MIB);
    event("alloc", 0, 16 * MIB);
    for (unsigned i = 0; i < 8; i++) {
        step(48 * MIB);
    }
}

static void end_state(void)
{
    block(true, 16 * MIB);
    block(false, 48 * MIB);
}

START_TEST(a_whole_recording_is_known_as_one)
{
    begin_whole();
    end_state();
    const bench_told *told = read_it("");
    ck_assert(bench_told_is_whole(told));
    ck_assert_uint_eq(told->n_entries, n_events);
    ck_assert_uint_eq(told->held_before_bytes, 0);
    ck_assert_uint_eq(origin.held_bytes, 64 * MIB);
    ck_assert_uint_eq(told->refused_on_bytes, 0);
}
END_TEST

START_TEST(blocks_from_before_are_a_late_beginning)
{
    begin_whole();
    memmove(events, events + 2, (n_events -= 2) * sizeof *events);
    end_state();
    const bench_told *told = read_it("");
    ck_assert(told->begins_late && !told->has_run_over && !told->is_apart && !told->ends_early);
    ck_assert_uint_eq(told->live_before_bytes, 16 * MIB);
    ck_assert_uint_eq(told->held_before_bytes, 64 * MIB);
    ck_assert(bench_told_wants_recording(told));
}
END_TEST

/* All blocks from before are gone, but the cache tells of them. */
START_TEST(memory_that_was_held_before_is_a_late_beginning)
{
    step(8 * MIB);
    block(false, 64 * MIB);
    const bench_told *told = read_it("");
    ck_assert(told->begins_late);
    ck_assert_uint_eq(told->live_before_bytes, 0);
    ck_assert_uint_eq(told->held_before_bytes, 64 * MIB);
}
END_TEST

START_TEST(a_late_beginning_with_a_round_number_of_entries_is_a_full_ring)
{
    for (unsigned i = 0; i < 666; i++) {
        step(8 * MIB);
    }
    event("alloc", 0, 16 * MIB);
    event("snapshot", 0, 0);
    end_state();
    ck_assert_uint_eq(n_events, 2000);
    ck_assert(read_it("")->has_run_over);
    event("snapshot", 0, 0);
    ck_assert(!read_it("")->has_run_over);
}
END_TEST

START_TEST(a_round_number_of_entries_is_perhaps_a_full_ring)
{
    begin_whole();
    while (n_events < 1024) {
        event("snapshot", 0, 0);
    }
    end_state();
    const bench_told *told = read_it("");
    ck_assert(told->has_run_over && told->may_run_over && !told->begins_late);
    ck_assert(!bench_told_is_whole(told));
    event("snapshot", 0, 0);
    ck_assert(bench_told_is_whole(read_it("")));
}
END_TEST

START_TEST(a_history_that_does_not_lead_to_the_blocks_is_apart)
{
    begin_whole();
    block(false, 64 * MIB); /* the kept block went after the history was stopped */
    ck_assert(read_it("")->is_apart);
    n_blocks = 0;
    block(true, 16 * MIB);
    block(false, 16 * MIB);
    block(true, 32 * MIB); /* a second one came later */
    event("alloc", (uint64_t)(16 * MIB), 8 * MIB);
    ck_assert(read_it("")->is_apart);
    ck_assert_uint_eq(tape.peak_live_bytes, 64 * MIB); /* the second one may have come later */
}
END_TEST

START_TEST(more_taken_from_the_driver_than_is_held_is_apart)
{
    event("segment_alloc", 0, 128 * MIB);
    begin_whole();
    end_state();
    ck_assert(read_it("")->is_apart);
}
END_TEST

START_TEST(more_live_than_was_held_is_apart)
{
    event("segment_alloc", 0, 64 * MIB);
    event("alloc", 0, 16 * MIB);
    for (unsigned i = 0; i < 8; i++) {
        step(49 * MIB);
    }
    end_state();
    ck_assert(read_it("")->is_apart);
}
END_TEST

START_TEST(a_run_that_ends_out_of_memory_is_one)
{
    begin_whole();
    event("oom", 0, 80 * MIB);
    end_state();
    const bench_told *told = read_it("");
    ck_assert(told->ends_failed && !told->has_gone_on && !told->begins_late);
    ck_assert(origin.has_failed);
    ck_assert_uint_eq(tape.peak_live_bytes, 96 * MIB);
    ck_assert_uint_eq(told->refused_on_bytes, SEGMENT + 64 * MIB); /* free: SEGMENT */
    ck_assert(bench_told_wants_room(told));
    step(8 * MIB);
    told = read_it("");
    ck_assert(!told->ends_failed && told->has_gone_on && origin.has_failed);
    ck_assert_uint_eq(told->most_refused_bytes, 80 * MIB);
    ck_assert_uint_eq(tape.peak_live_bytes, 64 * MIB); /* a request that was given up is no need */
    event("oom", BENCH_TOLD_AMPLE_BYTES, 81 * MIB);
    told = read_it("");
    ck_assert(!bench_told_wants_room(told));
    ck_assert(told->ends_failed && told->has_gone_on);
    ck_assert_uint_eq(told->most_refused_bytes, 80 * MIB);
    ck_assert_uint_eq(tape.peak_live_bytes, 97 * MIB);
}
END_TEST

START_TEST(blocks_in_no_memory_at_all_are_apart)
{
    for (unsigned i = 0; i < 8; i++) {
        step(8 * MIB);
    }
    read_plan(&(snap_plan){ .segments = NULL });
    ck_assert(origin.told.is_apart);
}
END_TEST

/* ---- private pools ---- */

/* Beside the usual 64 MiB: `n` pools of 8 MiB each, whose blocks come and go. */
static void add_pools(unsigned n, snap_segment *all, snap_block of[][2])
{
    for (unsigned i = 0; i < n; i++) {
        uint64_t at = KEPT_AT * (i + 1);
        event("segment_alloc", at, 8 * MIB);
        event("alloc", at, 6 * MIB);
        freed(at, 6 * MIB);
        of[i][0] = (snap_block){ "inactive", (uint64_t)(8 * MIB), 0 };
        of[i][1] = (snap_block){ .state = NULL };
        all[i + 1] = (snap_segment){ .blocks = of[i], .address = SEGMENT + at, .pool = (int)i + 1 };
    }
    blocks[n_blocks] = (snap_block){ .state = NULL };
    all[0] = (snap_segment){ .blocks = blocks, .address = SEGMENT };
    all[n + 1] = (snap_segment){ .blocks = NULL };
}

START_TEST(private_pools_keep_what_they_took)
{
    snap_segment all[5];
    snap_block of[3][2];
    begin_whole();
    end_state();
    add_pools(3, all, of);
    step(48 * MIB);
    snap_plan plan = { .segments = all };
    read_plan(&plan);
    const bench_told *told = &origin.told;
    ck_assert(!bench_told_is_cut(told) && !bench_told_is_whole(told));
    ck_assert(!bench_told_wants_recording(told));
    ck_assert_uint_eq(tape.peak_live_bytes, 64 * MIB);
    ck_assert_uint_eq(told->n_pools, 3);
    ck_assert_uint_eq(told->pool_bytes, 3 * 8 * MIB);
    ck_assert_uint_eq(told->pool_need_bytes, (64 + 3 * 6) * MIB);
    all[2].pool = 1; /* the blocks of the first two never live at once */
    read_plan(&plan);
    ck_assert_uint_eq(told->n_pools, 2);
    ck_assert_uint_eq(told->pool_need_bytes, (64 + 2 * 6) * MIB);
    n_events -= 3; /* no step behind the pools */
    read_plan(&plan);
    ck_assert_uint_eq(told->pool_need_bytes, 64 * MIB);
    all[1].pool = all[2].pool = all[3].pool = 0;
    read_plan(&plan);
    ck_assert(bench_told_is_whole(told));
}
END_TEST

/* Of a pool from before the history only the segments are known. */
START_TEST(pools_from_before_the_history_keep_their_segments)
{
    snap_segment all[4];
    snap_block of[2][2];
    end_state();
    add_pools(2, all, of);
    n_events = 0;
    begin_whole();
    read_plan(&(snap_plan){ .segments = all });
    ck_assert_uint_eq(origin.told.pool_need_bytes, (64 + 2 * 8) * MIB);
}
END_TEST

START_TEST(what_is_freed_after_the_failure_does_not_go_on)
{
    begin_whole();
    event("alloc", (uint64_t)(16 * MIB), 40 * MIB);
    event("oom", 0, 80 * MIB);
    freed((uint64_t)(16 * MIB), 40 * MIB);
    end_state();
    ck_assert(read_it("")->ends_failed);
}
END_TEST

START_TEST(more_live_than_between_the_steps_is_an_early_end)
{
    begin_whole();
    event("alloc", (uint64_t)(16 * MIB), 24 * MIB);
    block(true, 16 * MIB);
    block(true, 24 * MIB);
    block(false, 24 * MIB);
    ck_assert(read_it("")->ends_early);
    n_events--;
    n_blocks = 0;
    event("alloc", (uint64_t)(16 * MIB), 2 * MIB); /* less than a twentieth of a step */
    block(true, 16 * MIB);
    block(true, 2 * MIB);
    block(false, 46 * MIB);
    ck_assert(!read_it("")->ends_early);
}
END_TEST

/* Memory that grew before the second half began is kept by the run. */
START_TEST(a_run_that_only_grows_ends_early)
{
    event("segment_alloc", 0, 64 * MIB);
    for (unsigned i = 0; i < 8; i++) {
        event("alloc", (uint64_t)(i * 8 * MIB), 8 * MIB);
        block(true, 8 * MIB);
    }
    ck_assert(read_it("")->ends_early);
}
END_TEST

/* The second step needs more: what the first one has left lives then. */
START_TEST(few_steps_are_no_whole_run)
{
    event("segment_alloc", 0, 64 * MIB);
    event("alloc", 0, 16 * MIB);
    end_state();
    for (unsigned i = 1; i < 6; i++) {
        step((i % 2 ? 48 : 40) * MIB);
        const bench_told *told = read_it("");
        ck_assert(!told->ends_early);
        ck_assert_uint_eq(told->n_steps, i < 2 ? 0 : i); /* one alone has no level to come to */
        ck_assert_int_eq(told->is_unrepeated, i < 4);
        ck_assert_int_eq(bench_told_is_whole(told), i >= 4);
        ck_assert(!bench_told_is_cut(told)); /* nothing is missing */
    }
}
END_TEST

/* Small blocks that come and go in a step, or in loading, tell nothing about the next steps. */
START_TEST(small_ups_and_downs_are_no_steps)
{
    event("segment_alloc", 0, 64 * MIB);
    event("alloc", 0, 16 * MIB);
    for (unsigned i = 0; i < 100; i++) {
        step(MIB / 2);
    }
    end_state();
    const bench_told *told = read_it("");
    ck_assert(told->is_unrepeated && !bench_told_is_whole(told));
    ck_assert_uint_eq(told->n_steps, 0);
}
END_TEST

/* Evaluations follow the first step of a training, or a large load precedes small steps. */
START_TEST(smaller_steps_after_the_largest_are_of_another_kind)
{
    event("segment_alloc", 0, 64 * MIB);
    event("alloc", 0, 16 * MIB);
    step(48 * MIB);
    for (unsigned i = 0; i < 8; i++) {
        step(24 * MIB);
    }
    end_state();
    ck_assert(read_it("")->is_unrepeated);
    step(48 * MIB);
    ck_assert(!bench_told_is_whole(read_it(""))); /* two steps of that kind */
}
END_TEST

START_TEST(steps_that_grow_are_no_whole_run)
{
    event("segment_alloc", 0, 64 * MIB);
    event("alloc", 0, 16 * MIB);
    for (unsigned i = 0; i < 6; i++) {
        step((40 + i) * MIB);
    }
    end_state();
    const bench_told *told = read_it("");
    ck_assert(told->is_growing && !told->is_unrepeated && !bench_told_is_whole(told));
    step(42 * MIB);
    step(41 * MIB);
    ck_assert(bench_told_is_whole(read_it("")));
    step(48 * MIB); /* the largest is the last one */
    ck_assert(read_it("")->is_growing);
    step(48 * MIB);
    ck_assert(bench_told_is_whole(read_it("")));
}
END_TEST

START_TEST(a_history_that_begins_with_the_end_of_a_free_begins_late)
{
    event("free_completed", (uint64_t)(32 * MIB), 8 * MIB);
    begin_whole();
    const bench_told *told = read_it("");
    ck_assert(told->begins_late && told->live_before_bytes == 0);
}
END_TEST

START_TEST(without_entries_there_is_no_history)
{
    end_state();
    const bench_told *told = read_it("");
    ck_assert(told->has_no_history && !bench_told_is_whole(told));
    ck_assert_uint_eq(tape.peak_live_bytes, 16 * MIB);
    ck_assert_uint_eq(told->held_before_bytes, 64 * MIB);
}
END_TEST

START_TEST(the_settings_of_the_run_are_recognised)
{
    static const struct {
        const char *conf;
        const char *allocator;
        const char *set; /* the options that somebody has set; NULL = as recorded */
    } known[] = {
        { "", "torch-native", NULL },
        { "max_split_size_mb:128", "torch-native", NULL },
        { "expandable_segments:False", "torch-native", NULL },
        { "max_split_size_mb:128,expandable_segments:True", "torch-expandable", NULL },
        { "backend:native,garbage_collection_threshold:0.8", "torch-native", NULL },
        { "backend:cudaMallocAsync", "cuda-async", NULL },
        { "backend:cudaMallocAsync,pinned_use_cuda_host_register:True", "cuda-async", NULL },
        { "allocator:nonsense", "torch-native", "" },
        { "driver:cuda,allocator:pleat,growth:balanced,metrics_ms:1000", "pleat", "" },
        { "driver:sim,sim:[capacity:1G,depth:3],allocator:torch-native,max_split_size_mb:64",
          "torch-native", "max_split_size_mb:64" },
        { "allocator:pleat,capture:told,growth:frugal", "pleat", "capture:told,growth:frugal" },
        { "roundup_power2_divisions:[256:1,>:8], allocator:tf-bfc", "tf-bfc",
          "roundup_power2_divisions:[256:1,>:8]" },
    };
    begin_whole();
    end_state();
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        read_it(known[i].conf);
        ck_assert_str_eq(origin.allocator, known[i].allocator);
        ck_assert_str_eq(origin.conf, known[i].set ? known[i].set : known[i].conf);
    }
    event("segment_map", (uint64_t)(64 * MIB), 20 * MIB);
    block(false, 20 * MIB);
    read_it("");
    ck_assert_str_eq(origin.allocator, "torch-expandable");
    read_it("allocator:pleat"); /* pleat maps memory, too */
    ck_assert_str_eq(origin.allocator, "pleat");
}
END_TEST

/* ---- steps ---- */

static void begin_rise(void)
{
    n_events = n_blocks = 0;
    event("segment_alloc", 0, first_bytes + step_bytes);
    event("alloc", 0, first_bytes);
    block(true, first_bytes);
    block(false, step_bytes);
    kept[0] = (snap_block){ .state = NULL };
}

/* Each kept block has a MiB for itself. */
static void keep(unsigned number, int64_t size)
{
    event("segment_alloc", KEPT_AT + number * (uint64_t)MIB, MIB);
    event("alloc", KEPT_AT + number * (uint64_t)MIB, size);
    kept[2 * number] = (snap_block){ "active_allocated", (uint64_t)size, (uint64_t)size };
    kept[2 * number + 1] = (snap_block){ "inactive", (uint64_t)(MIB - size), 0 };
    kept[2 * number + 2] = (snap_block){ .state = NULL };
}

/* Each of n steps keeps `size` more, or nothing. Odd steps are small. */
static const bench_told *read_rise(unsigned n, int64_t size)
{
    begin_rise();
    for (unsigned i = 0; i < n; i++) {
        event("alloc", (uint64_t)first_bytes, step_bytes * (6 - i % 2) / 6);
        freed((uint64_t)first_bytes, step_bytes * (6 - i % 2) / 6);
        if (size > 0) {
            keep(i, size);
        }
    }
    return read_it("");
}

START_TEST(a_leak_of_each_step_is_a_steady_rise)
{
    const bench_told *told = read_rise(20, 200 << 10);
    ck_assert_uint_eq(told->rise_bytes, 200 << 10);
    ck_assert_uint_eq(told->n_rise_steps, 18); /* the first one comes after the loading */
    ck_assert(!bench_told_is_whole(told) && !bench_told_is_cut(told));
    ck_assert(!bench_told_wants_recording(told)); /* no recording is ever the whole */
}
END_TEST

START_TEST(four_steps_tell_a_rise)
{
    ck_assert_uint_eq(read_rise(4, 200 << 10)->rise_bytes, 200 << 10);
    ck_assert_uint_eq(read_rise(3, 200 << 10)->rise_bytes, 0);
    ck_assert(!bench_told_is_whole(read_rise(3, 200 << 10)));
}
END_TEST

/* Each fourth step keeps a block, or only the later ones do. */
START_TEST(a_rise_may_rest_and_begin_late)
{
    for (unsigned late = 0; late < 2; late++) {
        begin_rise();
        for (unsigned i = 0, n = 0; i < 24; i++) {
            step(48 * MIB);
            if (late ? i >= 14 : i % 4 == 3) {
                keep(n++, MIB / 2);
            }
        }
        const bench_told *told = read_it("");
        ck_assert(told->rise_bytes > 0 && !bench_told_is_whole(told));
    }
}
END_TEST

/* In 100,000 steps it comes to less than a twentieth of the peak, or to more. */
START_TEST(a_rise_that_long_runs_do_not_notice_is_none)
{
    ck_assert(bench_told_is_whole(read_rise(20, 0)));
    first_bytes = 2048 * MIB;
    step_bytes = 480 * MIB;
    ck_assert(bench_told_is_whole(read_rise(20, 512)));
    ck_assert_uint_eq(read_rise(20, 2048)->rise_bytes, 2048);
}
END_TEST

/* The lengths of the last batch differ, and it lives between two steps. */
START_TEST(levels_that_come_and_go_are_no_rise)
{
    static const int64_t batch[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4 };
    enum { N = sizeof batch / sizeof batch[0] };
    begin_rise();
    for (unsigned i = 0; i < N; i++) {
        event("alloc", KEPT_AT + i, batch[i] * MIB / 20);
        if (i > 0) {
            freed(KEPT_AT + i - 1, batch[i - 1] * MIB / 20);
        }
        step(40 * MIB);
    }
    freed(KEPT_AT + N - 1, batch[N - 1] * MIB / 20);
    ck_assert(bench_told_is_whole(read_it("")));
}
END_TEST

/* The optimizer's state comes with the first step, a workspace with the second. */
START_TEST(a_rise_that_ends_is_none)
{
    begin_rise();
    for (unsigned i = 0; i < 20; i++) {
        step(48 * MIB);
        if (i < 2) {
            keep(i, MIB / 2);
        }
    }
    ck_assert_uint_eq(read_it("")->rise_bytes, 0);
}
END_TEST

/* Each layer needs room for a moment, and keeps more. */
START_TEST(the_layers_of_one_step_are_no_steps)
{
    begin_rise();
    for (unsigned i = 0; i < 40; i++) {
        step(MIB / 4);
        keep(i, MIB / 2);
    }
    const bench_told *told = read_it("");
    ck_assert(told->ends_early && told->is_unrepeated);
    ck_assert_uint_eq(told->rise_bytes, 0);
    begin_rise();
    for (unsigned i = 0; i < 40; i++) {
        step(4 * MIB);
        keep(i, 900 << 10);
    }
    told = read_it("");
    ck_assert(told->n_steps == 40 && told->is_unrepeated);
    ck_assert_uint_eq(told->rise_bytes, 0);
}
END_TEST

/* ---- kinds of entries that were left out ---- */

static void leave_out(const char *action)
{
    unsigned n = 0;
    for (unsigned i = 0; i < n_events; i++) {
        if (strcmp(events[i].action, action) != 0) {
            events[n++] = events[i];
        }
    }
    n_events = n;
}

/* A block from before is freed, and its end is the first that is told of it. */
START_TEST(without_free_requested_nothing_is_pending)
{
    event("free_requested", KEPT_AT, 8 * MIB);
    begin_whole();
    event("free_completed", KEPT_AT, 8 * MIB);
    event("alloc", (uint64_t)(16 * MIB), 24 * MIB);
    event("free_requested", (uint64_t)(16 * MIB), 24 * MIB);
    kept[0] = (snap_block){ "inactive", 8 * (uint64_t)MIB, 0 };
    block(true, 16 * MIB);
    blocks[n_blocks++] = (snap_block){ "active_pending_free", 24 * MIB, 24 * MIB };
    block(false, 24 * MIB);
    const bench_told *told = read_it("");
    ck_assert(!told->lacks_requests && !told->lacks_ends && !told->is_apart);
    ck_assert_uint_eq(tape.peak_live_bytes, 64 * MIB);
    ck_assert_uint_eq(tape.peak_pending_bytes, 24 * MIB);
    leave_out("free_requested");
    told = read_it("");
    ck_assert(told->lacks_requests && !told->lacks_ends && !told->is_apart);
    ck_assert_uint_eq(told->live_before_bytes, 8 * MIB);
    ck_assert_uint_eq(tape.peak_live_bytes, 72 * MIB);
    ck_assert_uint_eq(tape.peak_pending_bytes, 0);
}
END_TEST

START_TEST(without_free_completed_what_is_pending_is_unknown)
{
    begin_whole();
    end_state();
    leave_out("free_completed");
    const bench_told *told = read_it("");
    ck_assert(!told->lacks_requests && told->lacks_ends && bench_told_is_whole(told));
    ck_assert_uint_eq(tape.peak_live_bytes, 64 * MIB);
    ck_assert_uint_eq(tape.peak_pending_bytes, 0);
}
END_TEST

START_TEST(without_any_free_the_history_is_refused_with_the_reason)
{
    begin_whole();
    leave_out("free_completed");
    leave_out("free_requested");
    events[n_events] = (snap_event){ .action = NULL };
    snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { events } };
    size_t n = snap_write(&plan, bytes, sizeof bytes);
    ck_assert_int_eq(pwrite(descriptor, bytes, n, 0), (ssize_t)n);
    bench_tape_fini(&tape);
    ck_assert(!bench_file_read(path, NULL, &tape, &origin, &failure));
    ck_assert_msg(strstr(failure.text, "is allocated twice, since the history has no frees: record "
                                       "free_requested and free_completed, too") != NULL,
                  "%s", failure.text);
}
END_TEST

/* ---- settings and devices ---- */

START_TEST(expandable_segments_tell_what_the_settings_do_not)
{
    begin_whole();
    end_state();
    read_it("");
    snap_plan plan = { .segments = segments, .lacks_setting = true };
    read_plan(&plan);
    ck_assert_str_eq(origin.allocator, "torch-native");
    segments[0].is_expandable = true;
    read_plan(&plan);
    ck_assert_str_eq(origin.allocator, "torch-expandable");
    plan.is_old = true;
    read_plan(&plan);
    ck_assert_str_eq(origin.allocator, "torch-expandable");
    plan = (snap_plan){ .segments = segments }; /* the settings of the run come first */
    read_plan(&plan);
    ck_assert_str_eq(origin.allocator, "torch-native");
}
END_TEST

START_TEST(all_devices_with_memory_are_known)
{
    static const snap_event small[] = { { "alloc", 0x1000, 4096, 0 }, { .action = NULL } };
    static const snap_event look[] = { { "snapshot", 0, 0, 0 }, { .action = NULL } };
    begin_whole();
    end_state();
    read_it("");
    ck_assert_uint_eq(origin.devices.n_others, 0);
    snap_segment all[] = { segments[0], segments[0], segments[0], segments[1] };
    snap_block cached[] = { { "inactive", MIB, 0 }, { .state = NULL } };
    all[1].device = 7;
    all[2].device = 5;
    all[2].blocks = cached;
    snap_plan plan = { .n_devices = 4, .segments = all, .events = { NULL, look, NULL, small } };
    read_plan(&plan);
    ck_assert_int_eq(origin.devices.judged, 0);
    ck_assert(!origin.devices.is_asked);
    ck_assert_uint_eq(origin.devices.n_others, 2);
    ck_assert_int_eq(origin.devices.others[0], 3);
    ck_assert_int_eq(origin.devices.others[1], 7);
}
END_TEST

SUITE(bench_recorded)
{
    TCase *all = suite_case(suite, "all", set_up, tear_down);
    tcase_add_test(all, a_whole_recording_is_known_as_one);
    tcase_add_test(all, blocks_from_before_are_a_late_beginning);
    tcase_add_test(all, memory_that_was_held_before_is_a_late_beginning);
    tcase_add_test(all, a_late_beginning_with_a_round_number_of_entries_is_a_full_ring);
    tcase_add_test(all, a_round_number_of_entries_is_perhaps_a_full_ring);
    tcase_add_test(all, a_history_that_does_not_lead_to_the_blocks_is_apart);
    tcase_add_test(all, more_taken_from_the_driver_than_is_held_is_apart);
    tcase_add_test(all, more_live_than_was_held_is_apart);
    tcase_add_test(all, a_run_that_ends_out_of_memory_is_one);
    tcase_add_test(all, blocks_in_no_memory_at_all_are_apart);
    tcase_add_test(all, private_pools_keep_what_they_took);
    tcase_add_test(all, pools_from_before_the_history_keep_their_segments);
    tcase_add_test(all, what_is_freed_after_the_failure_does_not_go_on);
    tcase_add_test(all, more_live_than_between_the_steps_is_an_early_end);
    tcase_add_test(all, a_run_that_only_grows_ends_early);
    tcase_add_test(all, few_steps_are_no_whole_run);
    tcase_add_test(all, small_ups_and_downs_are_no_steps);
    tcase_add_test(all, smaller_steps_after_the_largest_are_of_another_kind);
    tcase_add_test(all, steps_that_grow_are_no_whole_run);
    tcase_add_test(all, a_history_that_begins_with_the_end_of_a_free_begins_late);
    tcase_add_test(all, without_entries_there_is_no_history);
    tcase_add_test(all, the_settings_of_the_run_are_recognised);
    tcase_add_test(all, a_leak_of_each_step_is_a_steady_rise);
    tcase_add_test(all, four_steps_tell_a_rise);
    tcase_add_test(all, a_rise_may_rest_and_begin_late);
    tcase_add_test(all, a_rise_that_long_runs_do_not_notice_is_none);
    tcase_add_test(all, levels_that_come_and_go_are_no_rise);
    tcase_add_test(all, a_rise_that_ends_is_none);
    tcase_add_test(all, the_layers_of_one_step_are_no_steps);
    tcase_add_test(all, without_free_requested_nothing_is_pending);
    tcase_add_test(all, without_free_completed_what_is_pending_is_unknown);
    tcase_add_test(all, without_any_free_the_history_is_refused_with_the_reason);
    tcase_add_test(all, expandable_segments_tell_what_the_settings_do_not);
    tcase_add_test(all, all_devices_with_memory_are_known);
}

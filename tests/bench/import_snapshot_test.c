/* import_snapshot_test.c - PyTorch's snapshots as runs: earlier live blocks, the device, failures.
 * Also files that are cut, damaged or malicious. */
/* labels: unit fault */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "bench/base/random.h"
#include "bench/import/recording.h"
#include "bench/works/files.h"
#include "tests/support/bench/bench_snapshot.h"
#include "tests/support/suite.h"

enum { MOST_BYTES = 1 << 20 };

static unsigned char bytes[MOST_BYTES];
static bench_tape tape;
static bench_failure failure;
static char path[128];
static int descriptor; /* of the file in memory that `path` names */

static const snap_event usual_events[] = {
    { "segment_alloc", 0x10000000, 2097152, 0 },
    { "alloc", 0x10000000, 1000, 0 },
    { "free_requested", 0x7000, 700, 0 },
    { "free_completed", 0x7000, 700, 0 },
    { "segment_alloc", 0x20000000, 20971520, 0x7f0012345600 },
    { "alloc", 0x20000000, 5000000, 0x7f0012345600 },
    { "free_requested", 0x10000000, 1000, 0 },
    { "alloc", 0x10000400, 512, 0 },
    { "free_completed", 0x10000000, 1000, 0 },
    { "oom", 123456789, 9000000000, 0x7f0012345600 },
    { "snapshot", 0, 0, 0 },
    { "an action of the future", 0x10000400, 1, 0 },
    { .action = NULL },
};

static const snap_event other_events[] = {
    { "alloc", 0x10000000, 4096, 0 },
    { .action = NULL },
};

static const snap_block old_blocks[] = {
    { "active_allocated", 512, 400 },
    { "inactive", 512, 0 },
    { "active_pending_free", 1024, 1000 },
    { .state = NULL },
};
static const snap_block new_blocks[] = {
    { "inactive", 1024, 0 },
    { "active_allocated", 512, 512 },
    { "inactive", 2097152 - 1536, 0 },
    { .state = NULL },
};
static const snap_block large_blocks[] = {
    { "active_allocated", 5000192, 5000000 },
    { "inactive", 20971520 - 5000192, 0 },
    { .state = NULL },
};
static const snap_segment usual_segments[] = {
    { old_blocks, 0x8000, 3, 0, false, 0 },
    { new_blocks, 0x10000000, 0, 0, false, 0 },
    { large_blocks, 0x20000000, 0x7f0012345600, 0, false, 0 },
    { old_blocks, 0x40000000, 0, 1, false, 0 },
    { .blocks = NULL },
};

static snap_plan usual_plan(void)
{
    return (snap_plan){
        .protocol = 4,
        .n_devices = 3,
        .events = { usual_events, NULL, other_events },
        .segments = usual_segments,
    };
}

static void set_up(void)
{
    bench_tape_init(&tape);
    descriptor = memfd_create("snapshot", 0);
    ck_assert_int_ge(descriptor, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
}

static void tear_down(void)
{
    bench_tape_fini(&tape);
    close(descriptor);
}

static void write_file(const void *content, size_t n)
{
    ck_assert_int_eq(ftruncate(descriptor, 0), 0);
    ck_assert_int_eq(pwrite(descriptor, content, n, 0), (ssize_t)n);
}

/* Reads `path` with options behind its name, or "". */
static bool read_path(const char *options)
{
    char found[160];
    snprintf(found, sizeof found, "%s%s", path, options);
    bench_tape_fini(&tape);
    failure.text[0] = '\0';
    return bench_file_read(found, NULL, &tape, NULL, &failure);
}

static bool read_plan(const snap_plan *plan, const char *options)
{
    write_file(bytes, snap_write(plan, bytes, sizeof bytes));
    return read_path(options);
}

static void expect(const char *part)
{
    ck_assert_msg(strstr(failure.text, part) != NULL, "'%s' is not in '%s'", part, failure.text);
    ck_assert_ptr_eq(strstr(failure.text, path), failure.text);
}

static void expect_events(const bench_event *wanted, size_t n)
{
    ck_assert_uint_eq(tape.n_entries, n);
    for (size_t i = 0; i < n; i++) {
        const bench_event *event = &tape.entries[i];
        ck_assert_msg(event->bytes == wanted[i].bytes && event->slot == wanted[i].slot &&
                          event->stream == wanted[i].stream,
                      "event %zu: %llu bytes in slot %u on %u", i, (unsigned long long)event->bytes,
                      event->slot, event->stream);
    }
}

#define USE(n, slot, stream)                                                                       \
    {                                                                                              \
        (uint64_t)(n) << 32 | (slot), BENCH_USE, stream                                            \
    }
#define USE_END(n)                                                                                 \
    {                                                                                              \
        (uint64_t)(n) << 32, BENCH_USE_END, 0                                                      \
    }

/* The earlier blocks come first. 0x8400 is freed and waits for other streams; then 0x7000 and
 * 0x8000 follow by address. The block at 0x10000000 is freed before 0x10000400 is allocated, and
 * waits until then. The last two events are the failed request. */
static const bench_event usual_run[] = {
    { 1000, 0, 0 }, USE(0, 0, 1), { 0, 0, 0 },          { 700, 0, 2 }, { 400, 1, 0 },
    { 1000, 2, 2 }, { 0, 0, 0 },  { 5000000, 0, 3 },    USE(1, 2, 4),  { 0, 2, 0 },
    { 512, 2, 2 },  USE_END(1),   { 9000000000, 3, 3 }, { 0, 3, 0 },
};
enum { N_USUAL = sizeof usual_run / sizeof usual_run[0] };

START_TEST(every_protocol_and_form_gives_the_same_run)
{
    for (int i = 0; i < 8; i++) {
        snap_plan plan = usual_plan();
        plan.protocol = 2 + i / 2;
        plan.is_old = i % 2;
        ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
        expect_events(usual_run, N_USUAL);
    }
}
END_TEST

START_TEST(a_compressed_snapshot_gives_the_same_run)
{
    snap_plan plan = usual_plan();
    size_t n = snap_write(&plan, bytes, sizeof bytes);
    gzFile file = gzopen(path, "wb");
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)n), (int)n);
    ck_assert_int_eq(gzclose(file), Z_OK);
    ck_assert_msg(read_path(""), "%s", failure.text);
    expect_events(usual_run, N_USUAL);
}
END_TEST

START_TEST(failed_requests_can_be_left_out)
{
    snap_plan plan = usual_plan();
    ck_assert_msg(read_plan(&plan, ":failures=drop"), "%s", failure.text);
    expect_events(usual_run, N_USUAL - 2);
    ck_assert_msg(read_plan(&plan, ":failures=try,device=0"), "%s", failure.text);
    expect_events(usual_run, N_USUAL);
}
END_TEST

START_TEST(a_request_that_no_device_could_serve_is_not_tried)
{
    static const snap_event events[] = {
        { "alloc", 0x1000, 512, 0 },
        { "oom", 5, INT64_MAX, 0 },
        { .action = NULL },
    };
    snap_plan plan = { .protocol = 2, .n_devices = 1, .events = { events } };
    ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
    ck_assert_uint_eq(tape.n_entries, 1);
}
END_TEST

/* A rank leaves little on device 0, or only looks at it, and needs memory on its own device. */
START_TEST(the_device_that_needs_most_is_the_one)
{
    static const snap_event small[] = { { "alloc", 0x1000, 4096, 0 }, { .action = NULL } };
    static const snap_event large[] = { { "alloc", 0x1000, 1 << 20, 0 }, { .action = NULL } };
    static const snap_event look[] = { { "snapshot", 0, 0, 0 }, { .action = NULL } };
    static const snap_event refused[] = { { "oom", 0, 1 << 10, 0 }, { .action = NULL } };
    static const struct {
        const snap_event *events[3];
        int device;
    } runs[] = { { { small, large, look }, 1 },
                 { { large, small, NULL }, 0 },
                 { { look, NULL, small }, 2 },
                 { { large, refused, small }, 1 } };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        bench_snapshot snapshot;
        snap_plan plan = { .protocol = 4, .n_devices = 3 };
        memcpy(plan.events, runs[i].events, sizeof runs[i].events);
        write_file(bytes, snap_write(&plan, bytes, sizeof bytes));
        ck_assert_msg(bench_snapshot_read(path, NULL, NULL, BENCH_ANY_DEVICE, &snapshot, &failure),
                      "%s", failure.text);
        ck_assert_int_eq(snapshot.device, runs[i].device);
        bench_snapshot_free(&snapshot);
    }
}
END_TEST

START_TEST(the_first_device_with_events_is_the_one)
{
    static const bench_event other_run[] = { { 4096, 0, 0 } };
    snap_plan plan = usual_plan();
    ck_assert_msg(read_plan(&plan, ":device=2"), "%s", failure.text);
    expect_events(other_run, 1);
    plan.events[0] = NULL;
    plan.segments = NULL; /* live blocks of a device would be a need, too */
    ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
    expect_events(other_run, 1);
    ck_assert(!read_plan(&plan, ":device=9"));
    expect(": no events of device 9; devices with events: 2");
    plan.events[2] = NULL;
    ck_assert(!read_plan(&plan, ""));
    expect(": no events were recorded, and no block is live; call "
           "torch.cuda.memory._record_memory_history()");
}
END_TEST

/* Of the device that has most. */
START_TEST(without_a_history_the_live_blocks_are_the_run)
{
    static const bench_event blocks[] = {
        { 1000, 0, 0 }, USE(0, 0, 1), { 0, 0, 0 }, { 400, 0, 0 }, { 512, 1, 2 }, { 5000000, 2, 3 },
    };
    snap_plan plan = usual_plan();
    plan.events[0] = plan.events[2] = NULL;
    ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
    expect_events(blocks, sizeof blocks / sizeof blocks[0]);
    ck_assert_msg(read_plan(&plan, ":device=1"), "%s", failure.text);
    ck_assert_uint_eq(tape.n_entries, 4);
}
END_TEST

/* Three blocks of 1 MiB are freed in turn, each when the next one already exists. */
static const snap_event far_ahead[] = {
    { "alloc", 0x100000, 1 << 20, 0 },          { "free_requested", 0x100000, 1 << 20, 0 },
    { "alloc", 0x200000, 1 << 20, 0 },          { "free_requested", 0x200000, 1 << 20, 0 },
    { "alloc", 0x300000, 1 << 20, 0 },          { "free_completed", 0x100000, 1 << 20, 0 },
    { "free_completed", 0x200000, 1 << 20, 0 }, { "free_requested", 0x300000, 1 << 20, 0 },
    { "free_completed", 0x300000, 1 << 20, 0 }, { .action = NULL },
};

START_TEST(what_waits_for_other_streams_is_pending_and_not_live)
{
    static const bench_event wanted[] = {
        { 1 << 20, 0, 0 }, USE(0, 0, 1),      { 0, 0, 0 }, { 1 << 20, 0, 0 }, USE(1, 0, 1),
        { 0, 0, 0 },       { 1 << 20, 0, 0 }, USE_END(0),  USE_END(1),        { 0, 0, 0 },
    };
    snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { far_ahead } };
    ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
    expect_events(wanted, sizeof wanted / sizeof wanted[0]);
    ck_assert_uint_eq(tape.peak_live_bytes, 1 << 20);
    ck_assert_uint_eq(tape.peak_pending_bytes, 2 << 20);
    ck_assert_uint_eq(tape.uses.pending_bytes, 0);
    ck_assert_uint_eq(tape.n_uses, 2);
}
END_TEST

/* skip_actions of _record_memory_history. */
START_TEST(a_recording_may_leave_out_one_of_the_two_entries_of_a_free)
{
    static const char *const kept[] = { "free_requested", "free_completed" };
    for (unsigned i = 0; i < 2; i++) {
        snap_event events[] = {
            { "alloc", 0x100000, 1 << 20, 0 }, { kept[i], 0x100000, 1 << 20, 0 },
            { "alloc", 0x100000, 1 << 19, 0 }, { "alloc", 0x200000, 1 << 19, 0 },
            { kept[i], 0x200000, 1 << 19, 0 }, { .action = NULL },
        };
        snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { events } };
        ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
        ck_assert_uint_eq(tape.n_entries, 5);
        ck_assert_uint_eq(tape.peak_live_bytes, 1 << 20);
        ck_assert_uint_eq(tape.peak_pending_bytes, 0);
    }
}
END_TEST

START_TEST(a_free_that_a_ring_has_cut_in_two_is_over)
{
    static const snap_event cut[] = {
        { "segment_alloc", 0x100000, 2 << 20, 0 },
        { "free_completed", 0x100000, 512, 0 },
        { "alloc", 0x200000, 1024, 0 },
        { "free_completed", 0x300000, 2048, 0 },
        { "free_requested", 0x200000, 1024, 0 },
        { .action = NULL },
    };
    snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { cut } };
    ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
    ck_assert_uint_eq(tape.peak_pending_bytes, 2048); /* the second block waited */
    ck_assert_uint_eq(tape.n_events, 4);
}
END_TEST

/* The second use ends first. So one stream cannot have both uses in order. */
START_TEST(uses_that_end_in_another_order_are_on_streams_of_their_own)
{
    static const snap_event crossed[] = {
        { "alloc", 0x100000, 512, 0 },          { "alloc", 0x200000, 512, 0 },
        { "free_requested", 0x100000, 512, 0 }, { "free_requested", 0x200000, 512, 0 },
        { "alloc", 0x300000, 512, 0 },          { "free_completed", 0x200000, 512, 0 },
        { "free_completed", 0x100000, 512, 0 }, { .action = NULL },
    };
    snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { crossed } };
    ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
    ck_assert_uint_eq(tape.n_streams, 3);
    ck_assert_uint_eq(tape.entries[2].stream, 1);
    ck_assert_uint_eq(tape.entries[4].stream, 2);
}
END_TEST

START_TEST(options_that_do_not_fit_are_told)
{
    snap_plan plan = usual_plan();
    ck_assert(!read_plan(&plan, ":scale=3"));
    expect(": 'scale' is an option of a table of minimalloc, which this is not");
    ck_assert(!read_plan(&plan, ":device=-1"));
    expect(": 'device=-1' is not an option of a file; there are: ");
    ck_assert(!read_plan(&plan, ":device=0,failures=maybe"));
    expect(": 'failures=maybe' is not an option");
    ck_assert(!read_plan(&plan, ":device=0,device=1"));
    expect(": 'device' is given twice");
    ck_assert(!read_plan(&plan, ":device=0,"));
    expect(": '' is not an option");
}
END_TEST

START_TEST(what_the_device_was_asked_for_stands_beside_the_events)
{
    snap_plan plan = usual_plan();
    plan.conf = "max_split_size_mb:128";
    write_file(bytes, snap_write(&plan, bytes, sizeof bytes));
    bench_snapshot snapshot;
    bench_recording recording;
    bench_tape_fini(&tape);
    ck_assert_msg(bench_snapshot_read(path, NULL, NULL, BENCH_ANY_DEVICE, &snapshot, &failure),
                  "%s", failure.text);
    ck_assert_str_eq(snapshot.conf, "max_split_size_mb:128");
    ck_assert(!snapshot.is_expandable && !snapshot.has_mappings);
    ck_assert_int_eq(snapshot.device, 0);
    ck_assert(bench_recording_write(path, &snapshot, false, &tape, &recording, &failure));
    ck_assert_uint_eq(recording.n_before, 3);
    ck_assert_uint_eq(recording.n_calls, 2);
    ck_assert_uint_eq(recording.calls[0].bytes, 2097152);
    ck_assert_uint_eq(recording.n_before_events, 4);
    ck_assert_uint_eq(recording.before_bytes, 1024 + 512);
    ck_assert_uint_eq(recording.calls[0].n_events, 4);
    ck_assert_uint_eq(recording.calls[1].bytes, 20971520);
    ck_assert_uint_eq(recording.calls[1].n_events, 6);
    bench_recording_free(&recording);
    bench_snapshot_free(&snapshot);
}
END_TEST

START_TEST(lists_of_thousands_come_whole)
{
    enum { N = 2501 };
    static snap_event events[N + 1];
    for (int i = 0; i < N; i++) {
        events[i] = (snap_event){ "alloc", 0x1000u * (unsigned)(i + 1), i + 1, 0 };
    }
    snap_plan plan = { .n_devices = 1, .events = { events } };
    for (plan.protocol = 2; plan.protocol <= 4; plan.protocol += 2) {
        ck_assert_msg(read_plan(&plan, ""), "%s", failure.text);
        ck_assert_uint_eq(tape.n_entries, N);
        for (int i = 0; i < N; i++) {
            ck_assert_uint_eq(tape.entries[i].bytes, (uint64_t)i + 1);
        }
    }
}
END_TEST

static void refuse_event(snap_event second, const char *part)
{
    snap_event events[] = { { "alloc", 0x1000, 512, 0 }, second, { .action = NULL } };
    snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { events } };
    ck_assert_msg(!read_plan(&plan, ""), "%s", part);
    expect(part);
    expect(": byte ");
}

START_TEST(events_that_contradict_themselves_are_told)
{
    refuse_event((snap_event){ "alloc", 0x1000, 512, 0 }, "the block at 0x1000 is allocated twice");
    refuse_event((snap_event){ "alloc", 0x2000, 0, 0 }, "the size is 0");
    refuse_event((snap_event){ "alloc", 0x2000, -5, 0 }, "'size' of an event is negative: -5");
    refuse_event((snap_event){ "alloc", 0x2000, (INT64_C(1) << 47) + 1, 0 },
                 "the size is larger than 2^47");
    refuse_event((snap_event){ "alloc", UINT64_MAX, 512, 0 }, "'addr' of an event is negative");
    static const snap_event twice[] = {
        { "alloc", 0x1000, 512, 0 },
        { "free_completed", 0x1000, 512, 0 },
        { "free_completed", 0x1000, 512, 0 },
        { .action = NULL },
    };
    snap_plan plan = { .protocol = 2, .n_devices = 1, .events = { twice } };
    ck_assert(!read_plan(&plan, ""));
    expect("the block at 0x1000 is freed twice");
    plan.events[0] = &twice[1];
    ck_assert(!read_plan(&plan, ""));
    expect("is freed twice, since the history has no allocations: record alloc, too");
}
END_TEST

/* A hand-written pickle with this body in protocol 4 is refused. */
#define REFUSES(body, part) refuse_body(body, sizeof(body) - 1, part)

static void refuse_body(const char *body, size_t n, const char *part)
{
    char all[512] = "\x80\x04";
    memcpy(all + 2, body, n);
    write_file(all, n + 2);
    ck_assert_msg(!read_path(""), "%s", part);
    expect(part);
    expect(": byte ");
}

#define KEY(length, text) "\x8c" length text
#define TRACES KEY("\x0d", "device_traces")
#define SEGMENTS KEY("\x08", "segments")
#define ACTION KEY("\x06", "action")
#define ALLOC KEY("\x05", "alloc")
#define ADDR KEY("\x04", "addr")
#define SIZE KEY("\x04", "size")
#define EVENT "}(" ACTION ALLOC ADDR "K\x10" SIZE "K\x10u"
#define BLOCKS KEY("\x06", "blocks")

START_TEST(wrong_types_are_told_with_their_place)
{
    REFUSES("].", "the file holds an empty list and no snapshot of PyTorch's");
    REFUSES("](K\x01]e.", "the file holds a list of other things and no snapshot");
    REFUSES("N.", "the file holds None and no snapshot");
    REFUSES("}.", "the file holds a dictionary of other things and no snapshot");
    REFUSES("cos\nsystem\n\x8c\x04true\x85R.",
            "the file holds an object of a Python class and no snapshot");
    REFUSES("}" TRACES "K\x01s.", "'device_traces' of the snapshot is an integer, not a list");
    REFUSES("}" TRACES "](K\x01"
            "es.",
            "an item of 'device_traces' is an integer, not a list");
    REFUSES("}" TRACES "]]K\x01"
            "aas.",
            "an event is an integer, not a dictionary");
    REFUSES("}" TRACES "]]}aas.", "an event has no 'action'");
    REFUSES("}" TRACES "]]}" ACTION "Nsaas.", "'action' of an event is None, not a string");
    REFUSES("}" TRACES "]]}" ACTION ALLOC "saas.", "an event has no 'addr'");
    REFUSES("}" TRACES "]]}(" ACTION ALLOC ADDR "\x88uaas.",
            "'addr' of an event is a truth value, not an integer");
    REFUSES("}" TRACES "]]}(" ACTION ALLOC ADDR "\x8a\x09\0\0\0\0\0\0\0\x80\0uaas.",
            "'addr' of an event is an integer of more than 64 bits, not an integer");
    REFUSES("}" TRACES "]]}(" ACTION ALLOC ADDR "K\x10" SIZE "G\0\0\0\0\0\0\0\0uaas.",
            "'size' of an event is a number, not an integer");
    REFUSES("}" TRACES "]]" EVENT "aas.", "the snapshot has no 'segments'");
    REFUSES("}(" SEGMENTS "}" TRACES "]]" EVENT "aau.",
            "'segments' of the snapshot is a dictionary, not a list");
    REFUSES("}(" SEGMENTS "]}a" TRACES "]]" EVENT "aau.",
            "'segments' of the snapshot holds a dictionary with nothing of use");
    REFUSES("}(" SEGMENTS "]Na" TRACES "]]" EVENT "aau.", "a segment is None, not a dictionary");
    REFUSES("}(" SEGMENTS "]}" KEY("\x07", "address") "K\x01sa" TRACES "]]" EVENT "aau.",
            "a segment has no 'blocks'");
    REFUSES("}(" SEGMENTS "]}(" KEY("\x07", "address") "K\x01" BLOCKS "]Nau"
                                                       "a" TRACES "]]" EVENT "aau.",
            "a block is None, not a dictionary");
}
END_TEST

/* 2,000 references to a segment of 2,000 references to a block: 4,000,000 blocks in 10 KB. */
START_TEST(a_bomb_of_shared_blocks_is_refused_soon)
{
    static const char begin[] = "\x80\x04}(" SEGMENTS
                                "](}(" KEY("\x07", "address") "K\x01" BLOCKS "](}(" SIZE
                                                              "K\x10" KEY("\x05", "state")
                                                                  KEY("\x01", "x") "u\x94";
    size_t n = sizeof begin - 1;
    memcpy(bytes, begin, n);
    for (int i = 0; i < 2000; i++, n += 2) {
        memcpy(bytes + n, "h\0", 2);
    }
    memcpy(bytes + n, "eu\x94", 3);
    n += 3;
    for (int i = 0; i < 2000; i++, n += 2) {
        memcpy(bytes + n, "h\1", 2);
    }
    static const char end[] = "e" TRACES "]]" EVENT "aau.";
    memcpy(bytes + n, end, sizeof end - 1);
    write_file(bytes, n + sizeof end - 1);
    ck_assert(!read_path(""));
    expect("more blocks than the file has bytes");
}
END_TEST

/* The read succeeds, or its message begins with the file's name. */
static void expect_no_harm(void)
{
    if (!read_path("")) {
        expect(":");
    }
}

/* The first `cut` bytes of a file are refused by name, as cut short or as damaged. */
static void refuse_part(const void *content, size_t cut)
{
    write_file(content, cut);
    ck_assert_msg(!read_path(""), "%zu bytes", cut);
    ck_assert_ptr_eq(strstr(failure.text, path), failure.text);
}

START_TEST(a_snapshot_cut_anywhere_is_told)
{
    for (int protocol = 2; protocol <= 4; protocol += 2) {
        snap_plan plan = usual_plan();
        plan.protocol = protocol;
        size_t n = snap_write(&plan, bytes, sizeof bytes);
        for (size_t cut = 1; cut < n; cut++) {
            char words[96];
            snprintf(words, sizeof words, ": the file is cut short: it has %zu bytes, ", cut);
            refuse_part(bytes, cut);
            expect(words);
            expect(". Copy the file again, or dump the snapshot again");
        }
        refuse_part(bytes, 0);
        expect(": the file is empty");
    }
}
END_TEST

START_TEST(a_compressed_snapshot_cut_anywhere_is_told)
{
    enum { MAGIC_BYTES = 2, HEADER_BYTES = 10 }; /* of gzip */
    static unsigned char packed[MOST_BYTES];
    snap_plan plan = usual_plan();
    size_t n = snap_write(&plan, bytes, sizeof bytes);
    gzFile file = gzopen(path, "wb");
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)n), (int)n);
    ck_assert_int_eq(gzclose(file), Z_OK);
    ssize_t n_packed = pread(descriptor, packed, sizeof packed, 0);
    ck_assert_int_gt(n_packed, HEADER_BYTES);
    for (size_t cut = 1; cut < (size_t)n_packed; cut++) {
        char words[96];
        snprintf(words, sizeof words, "the file is cut short, at %zu bytes. Copy it again", cut);
        refuse_part(packed, cut);
        expect(cut < MAGIC_BYTES ? ": neither text nor a pickle" : words);
    }
}
END_TEST

START_TEST(bent_bytes_do_no_harm)
{
    bench_random random = { .state = 20251120 };
    static unsigned char bent[MOST_BYTES];
    for (int round = 0; round < 2500; round++) {
        snap_plan plan = usual_plan();
        plan.protocol = round % 2 ? 4 : 2;
        size_t n = snap_write(&plan, bytes, sizeof bytes);
        memcpy(bent, bytes, n);
        uint64_t n_bent = bench_random_between(&random, 1, 4);
        for (uint64_t i = 0; i < n_bent; i++) {
            size_t at = bench_random_between(&random, 2, n - 1);
            bent[at] = (unsigned char)bench_random_next(&random);
        }
        write_file(bent, n);
        expect_no_harm();
    }
}
END_TEST

START_TEST(pieces_put_elsewhere_do_no_harm)
{
    bench_random random = { .state = 7 };
    static unsigned char bent[2 * MOST_BYTES];
    snap_plan plan = usual_plan();
    size_t n = snap_write(&plan, bytes, sizeof bytes);
    for (int round = 0; round < 1000; round++) {
        size_t from = bench_random_between(&random, 2, n - 2);
        size_t length = bench_random_between(&random, 1, n - from);
        size_t at = bench_random_between(&random, 2, n - 1);
        memcpy(bent, bytes, at);
        memcpy(bent + at, bytes + from, length);
        memcpy(bent + at + length, bytes + at, n - at);
        write_file(bent, n + length);
        expect_no_harm();
    }
}
END_TEST

SUITE(bench_import_snapshot)
{
    TCase *good = tcase_create("runs");
    tcase_add_checked_fixture(good, set_up, tear_down);
    tcase_add_test(good, every_protocol_and_form_gives_the_same_run);
    tcase_add_test(good, a_compressed_snapshot_gives_the_same_run);
    tcase_add_test(good, failed_requests_can_be_left_out);
    tcase_add_test(good, a_request_that_no_device_could_serve_is_not_tried);
    tcase_add_test(good, the_first_device_with_events_is_the_one);
    tcase_add_test(good, the_device_that_needs_most_is_the_one);
    tcase_add_test(good, without_a_history_the_live_blocks_are_the_run);
    tcase_add_test(good, what_waits_for_other_streams_is_pending_and_not_live);
    tcase_add_test(good, uses_that_end_in_another_order_are_on_streams_of_their_own);
    tcase_add_test(good, a_free_that_a_ring_has_cut_in_two_is_over);
    tcase_add_test(good, a_recording_may_leave_out_one_of_the_two_entries_of_a_free);
    tcase_add_test(good, what_the_device_was_asked_for_stands_beside_the_events);
    tcase_add_test(good, lists_of_thousands_come_whole);
    suite_add_tcase(suite, good);
    TCase *bad = tcase_create("refusals");
    tcase_add_checked_fixture(bad, set_up, tear_down);
    tcase_add_test(bad, options_that_do_not_fit_are_told);
    tcase_add_test(bad, events_that_contradict_themselves_are_told);
    tcase_add_test(bad, wrong_types_are_told_with_their_place);
    tcase_add_test(bad, a_bomb_of_shared_blocks_is_refused_soon);
    tcase_add_test(bad, a_snapshot_cut_anywhere_is_told);
    tcase_add_test(bad, a_compressed_snapshot_cut_anywhere_is_told);
    tcase_add_test(bad, bent_bytes_do_no_harm);
    tcase_add_test(bad, pieces_put_elsewhere_do_no_harm);
    suite_add_tcase(suite, bad);
}

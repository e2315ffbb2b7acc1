/* import_forms_test.c - a snapshot in every form that people have: JSON, torch.save, several ranks
 * in one file, a list of segments, with other things beside it. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "bench/ab/fleet/roster.h"
#include "bench/base/random.h"
#include "bench/import/snapshot.h"
#include "bench/works/files.h"
#include "tests/support/bench/bench_snapshot.h"
#include "tests/support/suite.h"

enum { MOST_BYTES = 1 << 20, N_EVENTS = 60 };

static unsigned char bytes[MOST_BYTES];
static size_t n_bytes;
static bench_tape tape;
static bench_failure failure;
static char path[128];
static int descriptor;

static snap_event events[N_EVENTS + 1];
static snap_block blocks[N_EVENTS + 1];
static snap_segment segments[2];
static snap_plan plan;

/* A run of blocks that are freed by chance, and the blocks that live at its end. */
static void draw(uint64_t seed)
{
    bench_random random = { .state = seed };
    memset(blocks, 0, sizeof blocks);
    unsigned n = 0;
    for (unsigned b = 0; n + 3 < N_EVENTS; b++) {
        int64_t size = 512 * (int64_t)bench_random_between(&random, 1, 4000);
        uint64_t address = 0x10000000 + ((uint64_t)b << 24);
        bool stays = bench_random_between(&random, 0, 2) == 0;
        events[n++] = (snap_event){ "alloc", address, size, 0 };
        if (!stays) {
            events[n++] = (snap_event){ "free_requested", address, size, 0 };
            events[n++] = (snap_event){ "free_completed", address, size, 0 };
        }
        blocks[b] = (snap_block){ stays ? "active_allocated" : "inactive", 1 << 24,
                                  stays ? (uint64_t)size : 0 };
    }
    events[n] = (snap_event){ .action = NULL };
    segments[0] = (snap_segment){ .blocks = blocks, .address = 0x10000000 };
    segments[1] = (snap_segment){ .blocks = NULL };
    plan = (snap_plan){ .n_devices = 1, .events = { events }, .segments = segments };
}

static void set_up(void)
{
    bench_tape_init(&tape);
    descriptor = memfd_create("snapshot", 0);
    ck_assert_int_ge(descriptor, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    n_bytes = 0;
}

static void tear_down(void)
{
    bench_tape_fini(&tape);
    close(descriptor);
}

static void put(const void *data, size_t n)
{
    ck_assert_uint_le(n_bytes + n, sizeof bytes);
    memcpy(bytes + n_bytes, data, n);
    n_bytes += n;
}

#define PUT(text) put(text, sizeof(text) - 1)

/* The snapshot's pickle of protocol 2 between PROTO and STOP, whose memo ids are its own. */
static void put_body(void)
{
    static unsigned char whole[MOST_BYTES];
    plan.protocol = 2;
    size_t n = snap_write(&plan, whole, sizeof whole);
    put(whole + 2, n - 3);
}

static bool read_form(const char *options)
{
    char found[160];
    ck_assert_int_eq(ftruncate(descriptor, 0), 0);
    ck_assert_int_eq(pwrite(descriptor, bytes, n_bytes, 0), (ssize_t)n_bytes);
    snprintf(found, sizeof found, "%s%s", path, options);
    bench_tape_fini(&tape);
    failure.text[0] = '\0';
    return bench_file_read(found, NULL, &tape, NULL, &failure);
}

static void expect(const char *part)
{
    ck_assert_msg(strstr(failure.text, part) != NULL, "'%s' is not in '%s'", part, failure.text);
}

static bench_event wanted[4 * N_EVENTS];
static size_t n_wanted;

/* What the plain pickle of the plan gives. */
static void want(void)
{
    n_bytes = 0;
    PUT("\x80\x02");
    put_body();
    PUT(".");
    ck_assert_msg(read_form(""), "%s", failure.text);
    n_wanted = tape.n_entries;
    memcpy(wanted, tape.entries, n_wanted * sizeof *wanted);
    n_bytes = 0;
}

static void expect_wanted(const char *options)
{
    ck_assert_msg(read_form(options), "%s", failure.text);
    ck_assert_uint_eq(tape.n_entries, n_wanted);
    ck_assert_mem_eq(tape.entries, wanted, n_wanted * sizeof *wanted);
}

/* ---- JSON ---- */

static void put_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void put_text(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(text, (size_t)n);
}

/* `indent`: as json.dump(..., indent=1) does. */
static void put_json(bool indents)
{
    const char *gap = indents ? "\n " : "";
    put_text("{%s\"segments\": [{%s\"device\": 0, \"address\": %llu, \"total_size\": 4096, "
             "\"segment_pool_id\": [0, 0], \"frames\": [], \"blocks\": [",
             gap, gap, (unsigned long long)segments[0].address);
    for (const snap_block *b = blocks; b->state; b++) {
        put_text("%s{\"size\": %llu, \"requested_size\": %llu,%s \"state\": \"%s\", \"frames\": "
                 "[{\"filename\": \"a\\\\b.py\", \"line\": 3, \"name\": \"f\\u00e9\"}]}",
                 b == blocks ? "" : ", ", (unsigned long long)b->size,
                 (unsigned long long)b->requested, gap, b->state);
    }
    put_text("]}], \"device_traces\": [[");
    for (const snap_event *e = events; e->action; e++) {
        put_text("%s{\"action\": \"%s\", \"addr\": %llu, \"size\": %lld, \"stream\": 0, "
                 "\"time_us\": 1.5e3, \"frames\": [{\"filename\": \"t.py\", \"line\": %d, "
                 "\"name\": \"g\"}]}",
                 e == events ? "" : ",", e->action, (unsigned long long)e->address,
                 (long long)e->size, (int)(e - events) % 3);
    }
    put_text("]%s]%s, \"allocator_settings\": {\"expandable_segments\": false}}\n", gap, gap);
}

START_TEST(json_gives_the_same_run)
{
    for (uint64_t seed = 1; seed <= suite_part(40); seed++) {
        draw(seed);
        want();
        put_json(seed % 2 == 0);
        expect_wanted("");
    }
}
END_TEST

/* The stacks of JSON repeat their texts, and are few all the same. */
START_TEST(stacks_of_json_are_kept_once)
{
    draw(7);
    put_json(false);
    ck_assert_msg(read_form(""), "%s", failure.text);
    bench_snapshot snapshot;
    ck_assert_msg(bench_snapshot_read(path, NULL, NULL, BENCH_ANY_DEVICE, &snapshot, &failure),
                  "%s", failure.text);
    ck_assert_uint_eq(snapshot.n_stacks, 4);
    bool is_found[2] = { false, false };
    for (uint32_t i = 0; i < snapshot.n_stacks; i++) {
        is_found[0] = is_found[0] || strcmp(snapshot.stacks[i], "a\\b.py:3 f\xc3\xa9") == 0;
        is_found[1] = is_found[1] || strcmp(snapshot.stacks[i], "t.py:2 g") == 0;
    }
    ck_assert(is_found[0] && is_found[1]);
    bench_snapshot_free(&snapshot);
}
END_TEST

START_TEST(json_cut_anywhere_is_told)
{
    draw(3);
    put_json(true);
    for (size_t n = n_bytes - 2; n > 0; n -= 1 + n / 50) {
        n_bytes = n;
        ck_assert(!read_form(""));
        expect(": the file is cut short: it has ");
        expect("and the JSON goes on. Copy the file again");
    }
}
END_TEST

/* ---- archives ---- */

static void put_number(uint32_t number, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)(i < 4 ? number >> (8 * i) : 0);
        put(&byte, 1);
    }
}

/* A member's header, local or of the directory. */
static void put_header(bool is_local, const char *name, unsigned method, size_t packed, size_t n,
                       uint32_t at)
{
    put(is_local ? "PK\3\4" : "PK\1\2\0\0", is_local ? 4 : 6);
    put_number(0, 4);
    put_number(method, 2);
    put_number(0, 8);
    put_number((uint32_t)packed, 4);
    put_number((uint32_t)n, 4);
    put_number((uint32_t)strlen(name), 2);
    put_number(0, is_local ? 2 : 12);
    if (!is_local) {
        put_number(at, 4);
    }
    put(name, strlen(name));
}

/* An archive of two members, as torch.save writes; the second is the pickle. */
static void put_archive(const char *name, bool is_packed, const unsigned char *content, size_t n)
{
    static unsigned char packed[2 * MOST_BYTES];
    z_stream stream = { .next_in = (unsigned char *)content,
                        .avail_in = (unsigned)n,
                        .next_out = packed,
                        .avail_out = sizeof packed };
    if (is_packed) {
        ck_assert_int_eq(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, 0), Z_OK);
        ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
        deflateEnd(&stream);
        content = packed;
    }
    size_t n_packed = is_packed ? stream.total_out : n;
    put_header(true, "x/version", 0, 2, 2, 0);
    PUT("3\n");
    uint32_t at = (uint32_t)n_bytes;
    put_header(true, name, is_packed ? 8 : 0, n_packed, n, 0);
    put(content, n_packed);
    uint32_t directory = (uint32_t)n_bytes;
    put_header(false, "x/version", 0, 2, 2, 0);
    put_header(false, name, is_packed ? 8 : 0, n_packed, n, at);
    uint32_t end = (uint32_t)n_bytes;
    PUT("PK\5\6\0\0\0\0\2\0\2\0");
    put_number(end - directory, 4);
    put_number(directory, 4);
    put_number(0, 2);
}

static unsigned char content[MOST_BYTES];

/* Move what was put to `content`; returns its length. */
static size_t take_content(void)
{
    size_t n = n_bytes;
    memcpy(content, bytes, n);
    n_bytes = 0;
    return n;
}

START_TEST(an_archive_of_torch_save_gives_the_same_run)
{
    static const char *const names[] = { "x/data.pkl", "archive/data.pkl", "s.pickle", "s.json" };
    for (unsigned i = 0; i < 8; i++) {
        draw(i + 20);
        want();
        if (i / 2 == 3) {
            put_json(false);
        } else {
            PUT("\x80\x02");
            put_body();
            PUT(".");
        }
        size_t n = take_content();
        put_archive(names[i / 2], i % 2, content, n);
        expect_wanted("");
    }
}
END_TEST

START_TEST(what_is_wrong_with_an_archive_is_told)
{
    draw(1);
    PUT("\x80\x02");
    put_body();
    PUT(".");
    size_t n = take_content();
    put_archive("x/data.pkl", false, content, n);
    size_t n_whole = n_bytes;
    for (size_t cut = n_whole - 1; cut > 4; cut -= 1 + cut / 40) {
        n_bytes = cut;
        ck_assert(!read_form(""));
        expect(": an archive (zip, as torch.save writes) that is cut short or damaged: it has ");
    }
    n_bytes = 0;
    put_archive("x/weights", false, content, n);
    ck_assert(!read_form(""));
    expect(": an archive (zip) without data.pkl, .pickle, .pkl or .json: unpack it");
    n_bytes = 0;
    put_archive("x/data.pkl", true, content, n);
    memset(bytes + 120, 0xff, 40); /* in the compressed data */
    ck_assert(!read_form(""));
    n_bytes = 0;
    PUT("\x80\x02}(U\x01"
        "aK\x01u.");
    n = take_content();
    put_archive("x/data.pkl", false, content, n);
    ck_assert(!read_form(""));
    expect(": the file holds a dictionary of other things and no snapshot of PyTorch's");
}
END_TEST

/* ---- ranks ---- */

START_TEST(a_dictionary_of_snapshots_has_ranks)
{
    PUT("\x80\x02}(U\x05rank0");
    draw(1);
    put_body();
    PUT("U\x05"
        "epochK\x03K\x07");
    draw(2);
    put_body();
    PUT("U\x03"
        "a b");
    draw(3);
    put_body();
    PUT("u.");
    size_t n = take_content();
    static const char *const options[] = { ":rank=rank0", ":rank=7", ":rank=2" };
    for (unsigned i = 0; i < 3; i++) {
        draw(i + 1);
        want();
        put(content, n);
        expect_wanted(options[i]);
    }
    ck_assert(!read_form(""));
    expect(": the file holds the snapshots of 3 ranks: rank0, 7, 2. Name one, as in '");
    expect(":rank=rank0'; `pleat ab` takes all, and with --job as one job");
    ck_assert(!read_form(":rank=rank9"));
    expect(": no rank 'rank9': the file holds those of rank0, 7, 2");
    bench_rank_name *names;
    unsigned n_names;
    ck_assert(bench_file_ranks(path, &names, &n_names, &failure));
    ck_assert_uint_eq(n_names, 3);
    ck_assert_str_eq(names[0], "rank0");
    ck_assert_str_eq(names[1], "7");
    ck_assert_str_eq(names[2], "2");
    free(names);
    char *specs[] = { path };
    unsigned n_specs = 1;
    char **expanded = bench_roster_expand(specs, &n_specs);
    ck_assert_uint_eq(n_specs, 3);
    ck_assert_ptr_nonnull(strstr(expanded[1], ":rank=7"));
    for (unsigned i = 0; i < n_specs; i++) {
        free(expanded[i]);
    }
    free(expanded);
}
END_TEST

START_TEST(a_list_of_snapshots_has_ranks_by_their_place)
{
    PUT("\x80\x02](");
    for (uint64_t i = 0; i < 3; i++) {
        draw(i);
        put_body();
    }
    PUT("e.");
    size_t n = take_content();
    for (uint64_t i = 0; i < 3; i++) {
        char option[16];
        draw(i);
        want();
        put(content, n);
        snprintf(option, sizeof option, ":rank=%u", (unsigned)i);
        expect_wanted(option);
    }
    ck_assert(!read_form(":rank=3"));
    expect(": no rank '3': the file holds those of 0, 1, 2");
}
END_TEST

START_TEST(one_snapshot_among_other_things_is_the_snapshot)
{
    draw(5);
    want();
    /* A set, a date, bytes and a function beside it; then under a key, in a list of one. */
    PUT("\x80\x04}(\x8c\x03set\x8f(K\x01K\x02\x90\x8c\x01"
        "dcdatetime\ndate\nC\x04\x07\xe9\x0b\x1d\x85R\x8c\x01"
        "fcos\nsystem\n\x8c\x08snapshot");
    put_body();
    PUT("u.");
    expect_wanted("");
    bench_rank_name *names;
    unsigned n_names;
    ck_assert(bench_file_ranks(path, &names, &n_names, &failure));
    ck_assert_uint_eq(n_names, 0);
    free(names);
    n_bytes = 0;
    PUT("\x80\x02]");
    put_body();
    PUT("a.");
    expect_wanted("");
    ck_assert(!read_form(":rank=1"));
}
END_TEST

/* As torch.cuda.memory_snapshot() returns it. */
START_TEST(a_list_of_segments_is_a_snapshot_without_history)
{
    static const char begin[] =
        "[{\"address\": 4096, \"total_size\": 8192, \"device\": 0, \"blocks\":"
        "[{\"size\": 512, \"requested_size\": 400, \"state\": "
        "\"active_allocated\"}, {\"size\": 7680, \"state\": \"inactive\"}]}]";
    PUT(begin);
    ck_assert_msg(read_form(""), "%s", failure.text);
    ck_assert_uint_eq(tape.n_entries, 1);
    ck_assert_uint_eq(tape.entries[0].bytes, 400);
    bench_snapshot snapshot;
    ck_assert(bench_snapshot_read(path, NULL, NULL, BENCH_ANY_DEVICE, &snapshot, &failure));
    ck_assert_uint_eq(snapshot.n_entries, 0);
    ck_assert_uint_eq(snapshot.held_bytes, 8192);
    ck_assert_uint_eq(snapshot.state.n_pieces, 2);
    ck_assert_uint_eq(snapshot.state.pieces[1].base, 4096 + 512);
    ck_assert_int_eq(snapshot.state.pieces[1].kind, BENCH_STATE_FREE);
    bench_snapshot_free(&snapshot);
    n_bytes = 0;
    PUT("{\"segments\": "); /* without traces it is the same */
    PUT(begin);
    PUT("}");
    ck_assert_msg(read_form(""), "%s", failure.text);
    ck_assert_uint_eq(tape.n_entries, 1);
}
END_TEST

/* Nobody writes it, but a pickle can name an event again. */
START_TEST(an_event_that_is_named_again_is_that_event)
{
#define KEYS(action)                                                                               \
    "}(U\x06"                                                                                      \
    "actionU" action "U\x04"                                                                       \
    "addrK\x10U\x04"                                                                               \
    "sizeK\x20u"
    PUT("\x80\x02}(U\x08segments]U\x0d"
        "device_traces](](" KEYS("\x05"
                                 "alloc") "q\x01" KEYS("\x0e"
                                                       "free_completed") "h\x01"
                                                                         "eeu.");
#undef KEYS
    static const bench_event run[] = { { 32, 0, 0 }, { 0, 0, 0 }, { 32, 0, 0 } };
    ck_assert_msg(read_form(""), "%s", failure.text);
    ck_assert_uint_eq(tape.n_entries, 3);
    ck_assert_mem_eq(tape.entries, run, sizeof run);
}
END_TEST

/* ---- memory ---- */

/* An event is folded into 40 bytes, and its dictionary's room is used again: what is left is the
 * memo, which doubles as it grows. Dictionaries alone would take eight times the file. */
START_TEST(events_leave_little_more_than_the_memo)
{
    enum { N = 9000 };
    static snap_event many[N + 1];
    for (int i = 0; i < N; i++) {
        many[i] = (snap_event){ "alloc", 0x10000000u + 0x1000u * (unsigned)i, 512, 0 };
    }
    for (int protocol = 2; protocol <= 4; protocol += 2) {
        snap_plan of_many = { .protocol = protocol, .n_devices = 1, .events = { many } };
        n_bytes = snap_write(&of_many, bytes, sizeof bytes);
        ck_assert_msg(read_form(""), "%s", failure.text);
        bench_limits limits = { .host_bytes = 3 * n_bytes };
        bench_snapshot snapshot;
        ck_assert_msg(
            bench_snapshot_read(path, &limits, NULL, BENCH_ANY_DEVICE, &snapshot, &failure), "%s",
            failure.text);
        ck_assert_uint_eq(snapshot.n_entries, N);
        ck_assert_uint_eq(snapshot.entries[N - 1].address, many[N - 1].address);
        bench_snapshot_free(&snapshot);
    }
}
END_TEST

SUITE(bench_import_forms)
{
    TCase *all = suite_case(suite, "forms", set_up, tear_down);
    tcase_add_test(all, json_gives_the_same_run);
    tcase_add_test(all, stacks_of_json_are_kept_once);
    tcase_add_test(all, json_cut_anywhere_is_told);
    tcase_add_test(all, an_archive_of_torch_save_gives_the_same_run);
    tcase_add_test(all, what_is_wrong_with_an_archive_is_told);
    tcase_add_test(all, a_dictionary_of_snapshots_has_ranks);
    tcase_add_test(all, a_list_of_snapshots_has_ranks_by_their_place);
    tcase_add_test(all, one_snapshot_among_other_things_is_the_snapshot);
    tcase_add_test(all, a_list_of_segments_is_a_snapshot_without_history);
    tcase_add_test(all, an_event_that_is_named_again_is_that_event);
    tcase_add_test(all, events_leave_little_more_than_the_memo);
}

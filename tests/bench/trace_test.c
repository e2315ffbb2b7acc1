/* trace_test.c - traces are read exactly, and errors name file and line. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "bench/work/ids.h"
#include "bench/works/work.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

static bool load_text(const char *text, bench_work *trace, bench_failure *failure)
{
    const char *path = bench_child_file(".trace", text, strlen(text));
    bool ok = bench_work_open(path, trace, failure);
    unlink(path);
    return ok;
}

/* Packs the text by gzip into `out`; returns the packed bytes. */
static size_t compress_text(const char *text, size_t n_text, char *out, size_t n)
{
    const char *path = bench_child_file(".gz", "", 0);
    gzFile file = gzopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(gzwrite(file, text, (unsigned)n_text), (int)n_text);
    ck_assert_int_eq(gzclose(file), Z_OK);
    FILE *plain = fopen(path, "rb");
    ck_assert_ptr_nonnull(plain);
    size_t got = fread(out, 1, n, plain);
    fclose(plain);
    unlink(path);
    ck_assert_uint_lt(got, n);
    return got;
}

START_TEST(events_come_in_order_with_dense_slots)
{
    static const char text[] = "# a comment\n"
                               "\n"
                               "i 0\n"
                               "a 900 1000 0\n"
                               "a 18446744073709551615 1 94520000000001\n"
                               "f 900\n"
                               "i 1\r\n"
                               "a 7 513\t3  \n"
                               "f 18446744073709551615\n"
                               "a 900 512 0";
    bench_work trace;
    bench_failure failure;
    ck_assert_msg(load_text(text, &trace, &failure), "%s", failure.text);
    static const bench_event wanted[] = {
        { 0, BENCH_MARK, 0 }, { 1000, 0, 0 }, { 1, 1, 1 }, { 0, 0, 0 },
        { 1, BENCH_MARK, 0 }, { 513, 0, 2 },  { 0, 1, 0 }, { 512, 1, 0 },
    };
    ck_assert_uint_eq(trace.n_events, 6);
    for (size_t i = 0; i < 8; i++) {
        ck_assert_uint_eq(trace.tape.entries[i].bytes, wanted[i].bytes);
        ck_assert_uint_eq(trace.tape.entries[i].slot, wanted[i].slot);
        ck_assert_uint_eq(trace.tape.entries[i].stream, wanted[i].stream);
    }
    ck_assert_uint_eq(trace.n_slots, 2);
    ck_assert_uint_eq(trace.n_streams, 3);
    ck_assert_uint_eq(trace.n_marks, 2);
    ck_assert_uint_eq(trace.peak_live_bytes, 1536);
    bench_work_close(&trace);
}
END_TEST

START_TEST(a_block_that_is_freed_under_a_use_is_pending_until_its_last_use_ends)
{
    static const char text[] = "a 1 1000 0\n"
                               "u 7 1 5\n"
                               "u 8 1 6\n"
                               "a 2 512 0\n"
                               "u 9 2 5\n"
                               "e 9\n"
                               "f 2\n"
                               "f 1\n"
                               "a 1 2048 0\n"
                               "e 7\n"
                               "u 7 1 5\n"
                               "e 8\n"
                               "e 7\n"
                               "f 1\n";
    bench_work trace;
    bench_failure failure;
    ck_assert_msg(load_text(text, &trace, &failure), "%s", failure.text);
    ck_assert_uint_eq(trace.n_events, 6);
    ck_assert_uint_eq(trace.n_uses, 3);
    ck_assert_uint_eq(trace.n_streams, 3);
    ck_assert_uint_eq(trace.n_slots, 2);
    ck_assert_uint_eq(trace.peak_live_bytes, 2048);
    ck_assert_uint_eq(trace.peak_event, 4);
    ck_assert_uint_eq(trace.peak_pending_bytes, 1024);
    const bench_event *first = &trace.tape.entries[1];
    ck_assert_uint_eq(first->slot, BENCH_USE);
    ck_assert_uint_eq(first->stream, 1);
    ck_assert_uint_eq(bench_event_use(first), 0);
    ck_assert_uint_eq(bench_event_used_slot(first), 0);
    ck_assert_uint_eq(trace.tape.entries[12].slot, BENCH_USE_END);
    bench_work_close(&trace);
}
END_TEST

START_TEST(many_live_ids_find_their_slots)
{
    enum { N = 20000 };
    char *text = malloc(N * 48);
    ck_assert_ptr_nonnull(text);
    size_t n = 0;
    for (unsigned i = 0; i < N; i++) {
        n += (size_t)sprintf(text + n, "a %u 512 0\n", i * 4096);
    }
    for (unsigned i = 0; i < N; i++) {
        n += (size_t)sprintf(text + n, "f %u\n", i * 4096);
    }
    bench_work trace;
    bench_failure failure;
    ck_assert_msg(load_text(text, &trace, &failure), "%s", failure.text);
    ck_assert_uint_eq(trace.n_slots, N);
    ck_assert_uint_eq(trace.peak_live_bytes, N * 512);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_uint_eq(trace.tape.entries[i].slot, i);
        ck_assert_uint_eq(trace.tape.entries[N + i].slot, i);
    }
    bench_work_close(&trace);
    free(text);
}
END_TEST

START_TEST(every_fault_of_a_line_is_told_with_its_number)
{
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        { "a 1 512 0\nf 2\n", ":2: unknown id 2" },
        { "a 1 512 0\nf 1\nf 1\n", ":3: id 1 is freed twice" },
        { "a 1 512 0\na 1 512 0\n", ":2: id 1 is allocated twice" },
        { "a 1 0 0\n", ":1: the size is 0" },
        { "a 1 -5 0\n", ":1: the size is not a number: -5" },
        { "a 1 1e9 0\n", ":1: the size is not a number: 1e9" },
        { "a 1 140737488355329 0\n", ":1: the size 140737488355329 is larger than" },
        { "a 1 1000000000000000000 0\n", ":1: the size 1000000000000000000 is larger than" },
        { "a 1 99999999999999999999999 0\n", ":1: the size 99999999999999999999999 is larger" },
        { "a 18446744073709551616 512 0\n", ":1: the id 18446744073709551616 is larger than" },
        { "a 1 512 18446744073709551616\n", ":1: the stream 18446744073709551616 is larger" },
        { "a 1 512\n", ":1: the stream is missing" },
        { "a 1\n", ":1: the size is missing" },
        { "a\n", ":1: the id is missing" },
        { "a 1 512 0 9\n", ":1: trailing text: 9" },
        { "a 1 512 0\nf 1 1\n", ":2: trailing text: 1" },
        { "f\n", ":1: the id is missing" },
        { "i\n", ":1: the iteration is missing" },
        { "i one\n", ":1: the iteration is not a number: one" },
        { "a 1 512 0\ni 1\nalloc 2 512 0\n", ":3: not a line of a trace: alloc 2 512 0" },
        { "\x01\x02\xff\n", ":1: not a line of a trace: ???" },
        { "a 1 512 0\nu 1 2 0\n", ":2: id 2 is used, but not live" },
        { "a 1 512 0\nf 1\nu 1 1 0\n", ":3: id 1 is used, but not live" },
        { "a 1 512 0\nu 1 1\n", ":2: the stream is missing" },
        { "a 1 512 0\nu 1 1 0\nu 1 1 2\n", ":3: use 1 begins twice" },
        { "a 1 512 0\nu 1 1 0\ne 2\n", ":3: use 2 ends, but does not go on" },
        { "a 1 512 0\nu 1 1 0\ne 1\ne 1\n", ":4: use 1 ends, but does not go on" },
        { "a 1 512 0 host\nu 1 1 0\n", ":2: id 1 is of the host: its uses are not told" },
        { "", ": the file is empty" },
        { "# nothing\ni 1\n", ":2: the trace holds no allocation" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bench_work trace;
        bench_failure failure;
        ck_assert_msg(!load_text(bad[i].text, &trace, &failure), "accepted: %s", bad[i].text);
        ck_assert_msg(strncmp(failure.text, "/tmp/pleat-test-", 16) == 0, "%s", failure.text);
        ck_assert_msg(strstr(failure.text, bad[i].message) != NULL, "'%s' is not in '%s'",
                      bad[i].message, failure.text);
    }
}
END_TEST

START_TEST(more_streams_than_any_program_has_are_refused)
{
    char text[32 * 1100];
    size_t n = 0;
    for (unsigned i = 0; i < 1025; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "a %u 512 %u\n", i, 7 * i);
    }
    bench_work trace;
    bench_failure failure;
    ck_assert(!load_text(text, &trace, &failure));
    ck_assert_ptr_nonnull(strstr(failure.text, ":1025: more than 1024 streams"));
}
END_TEST

START_TEST(gzip_cut_short_anywhere_is_told)
{
    static const char text[] = "# header\na 1 512 0\na 2 1024 0\nf 1\nf 2\n";
    char packed[512];
    size_t n = compress_text(text, strlen(text), packed, sizeof packed);
    for (size_t cut = 2; cut < n; cut++) {
        const char *path = bench_child_file(".trace.gz", packed, cut);
        bench_work trace;
        bench_failure failure;
        bool ok = bench_work_open(path, &trace, &failure);
        ck_assert_msg(!ok, "accepted: %zu of %zu bytes", cut, n);
        ck_assert_msg(strncmp(failure.text, path, strlen(path)) == 0, "%s", failure.text);
        ck_assert_msg(strstr(failure.text, ": the gzip data ends too early") != NULL, "%s",
                      failure.text);
        unlink(path);
    }
}
END_TEST

START_TEST(damaged_gzip_is_told)
{
    static const char text[] = "a 1 512 0\na 2 1024 0\nf 1\nf 2\n";
    char packed[512];
    size_t n = compress_text(text, strlen(text), packed, sizeof packed);
    packed[n - 6] = (char)(packed[n - 6] ^ 0x55); /* damages the check sum */
    const char *path = bench_child_file(".trace.gz", packed, n);
    bench_work trace;
    bench_failure failure;
    ck_assert(!bench_work_open(path, &trace, &failure));
    ck_assert_msg(strstr(failure.text, ": the gzip data is damaged") != NULL, "%s", failure.text);
    unlink(path);
}
END_TEST

START_TEST(an_endless_line_is_told)
{
    size_t n = 1 << 20;
    char *text = malloc(n + 1);
    ck_assert_ptr_nonnull(text);
    memset(text, 'a', n);
    text[n] = '\0';
    bench_work trace;
    bench_failure failure;
    ck_assert(!load_text(text, &trace, &failure));
    ck_assert_msg(strstr(failure.text, ":1: a line of more than 64 KiB") != NULL, "%s",
                  failure.text);
    free(text);
}
END_TEST

START_TEST(files_that_cannot_be_read_are_named)
{
    bench_work trace;
    bench_failure failure;
    ck_assert(!bench_work_open("/nonexistent/x.trace", &trace, &failure));
    ck_assert_str_eq(failure.text, "/nonexistent/x.trace: No such file or directory");
    ck_assert(!bench_work_open("/tmp", &trace, &failure));
    ck_assert_str_eq(failure.text, "/tmp: is a directory");
}
END_TEST

static size_t longest_run(const bench_ids *ids)
{
    size_t longest = 0;
    size_t run = 0;
    for (size_t i = 0; i < (size_t)1 << ids->bits; i++) {
        run = ids->entries[i].is_used ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* Ids are multiples of the golden ratio's inverse. A known hash would map all of them to one place,
 * and each look-up would pass all others. */
START_TEST(no_ids_can_be_chosen_that_meet_in_one_place)
{
    const uint64_t golden = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t inverse = golden;
    for (int i = 0; i < 6; i++) {
        inverse *= 2 - golden * inverse;
    }
    ck_assert_uint_eq(golden * inverse, 1);
    bench_ids ids;
    bench_ids other;
    bench_host host = { .most_bytes = 0 };
    ck_assert(bench_ids_init(&ids, &host, false) && bench_ids_init(&other, &host, false));
    ck_assert_uint_ne(ids.seed, other.seed);
    for (uint64_t i = 1; i <= 4096; i++) {
        ck_assert_ptr_nonnull(bench_ids_get(&ids, i * inverse));
    }
    ck_assert_uint_eq(ids.n_entries, 4096);
    ck_assert_uint_lt(longest_run(&ids), 400);
    bench_ids_fini(&ids);
    bench_ids_fini(&other);
}
END_TEST

START_TEST(a_bundled_trace_has_the_peak_its_header_states)
{
    bench_work trace;
    bench_failure failure;
    const char *path = PLEAT_SOURCE_DIR "/bench/traces/gpt2s_tiny.trace.gz";
    ck_assert_msg(bench_work_open(path, &trace, &failure), "%s", failure.text);
    ck_assert_str_eq(trace.name, "gpt2s_tiny");
    ck_assert_uint_eq(trace.n_events, 30386);
    ck_assert_uint_eq(trace.n_marks, 12);
    ck_assert_uint_eq(trace.n_slots, 742);
    ck_assert_uint_eq(trace.n_streams, 1);
    ck_assert_uint_eq(trace.peak_live_bytes, 5926586368);
    bench_work_close(&trace);
}
END_TEST

START_TEST(a_bare_name_that_is_no_bundled_trace_is_told)
{
    bench_work trace;
    bench_failure failure;
    ck_assert(!bench_work_open("no_such_trace", &trace, &failure));
    ck_assert_ptr_nonnull(strstr(failure.text, "no_such_trace: no such file, bundled trace, "));
    ck_assert_ptr_nonnull(strstr(failure.text, "churn"));
}
END_TEST

SUITE(bench_trace)
{
    TCase *good = tcase_create("good");
    tcase_add_test(good, events_come_in_order_with_dense_slots);
    tcase_add_test(good, many_live_ids_find_their_slots);
    tcase_add_test(good, a_block_that_is_freed_under_a_use_is_pending_until_its_last_use_ends);
    tcase_add_test(good, no_ids_can_be_chosen_that_meet_in_one_place);
    tcase_add_test(good, a_bundled_trace_has_the_peak_its_header_states);
    suite_add_tcase(suite, good);
    TCase *bad = tcase_create("bad");
    tcase_add_test(bad, every_fault_of_a_line_is_told_with_its_number);
    tcase_add_test(bad, more_streams_than_any_program_has_are_refused);
    tcase_add_test(bad, gzip_cut_short_anywhere_is_told);
    tcase_add_test(bad, damaged_gzip_is_told);
    tcase_add_test(bad, an_endless_line_is_told);
    tcase_add_test(bad, files_that_cannot_be_read_are_named);
    tcase_add_test(bad, a_bare_name_that_is_no_bundled_trace_is_told);
    suite_add_tcase(suite, bad);
}

/* import_table_test.c - RMM's logs and minimalloc's problems as runs. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "bench/base/random.h"
#include "bench/works/files.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

static bench_tape tape;
static bench_failure failure;
static char path[128];

static void set_up(void)
{
    bench_tape_init(&tape);
}

static void tear_down(void)
{
    bench_tape_fini(&tape);
}

/* Reads the file with `options` behind its name. */
static bool read_bytes(const char *text, size_t n, const char *options)
{
    char found[160];
    snprintf(path, sizeof path, "%s", bench_child_file(".csv", text, n));
    snprintf(found, sizeof found, "%s%s", path, options);
    bench_tape_fini(&tape);
    bool ok = bench_file_read(found, NULL, &tape, NULL, &failure);
    unlink(path);
    return ok;
}

static bool read_text(const char *text, const char *options)
{
    return read_bytes(text, strlen(text), options);
}

/* The events as "a BYTES SLOT STREAM" and "f SLOT", separated by blanks and commas. */
static void expect_events(const char *wanted)
{
    char got[1024] = "";
    size_t n = 0;
    for (size_t i = 0; i < tape.n_entries; i++) {
        const bench_event *event = &tape.entries[i];
        const char *comma = i ? ", " : "";
        if (event->bytes) {
            n += (size_t)snprintf(got + n, sizeof got - n, "%sa %llu %u %u", comma,
                                  (unsigned long long)event->bytes, event->slot, event->stream);
        } else {
            n += (size_t)snprintf(got + n, sizeof got - n, "%sf %u", comma, event->slot);
        }
    }
    ck_assert_str_eq(got, wanted);
}

static void refuse(const char *text, const char *message)
{
    char whole[512];
    ck_assert_msg(!read_text(text, ""), "%s", message);
    snprintf(whole, sizeof whole, "%s:%s", path, message);
    ck_assert_str_eq(failure.text, whole);
}

#define RMM "Thread,Time,Action,Pointer,Size,Stream\n"

START_TEST(a_log_of_rmm_is_read_line_by_line)
{
    static const char text[] = RMM "3489,10:36:41.000123,allocate,0x7f2c10000000,1048576,0x2\n"
                                   "3490,10:36:41.000124,allocate,0x7f2c20000000,256,0x0\n"
                                   "3489,10:36:41.000125,free,0x7f2c10000000,1048576,0x2\n"
                                   "3489,10:36:41.000126,allocate,0x7f2c10000000,512,0x0\r\n"
                                   "\n"
                                   "3489,10:36:41.000127,free,0x7f2c20000000,256,0x0";
    ck_assert_msg(read_text(text, ""), "%s", failure.text);
    expect_events("a 1048576 0 0, a 256 1 1, f 0, a 512 0 1, f 1");
}
END_TEST

START_TEST(every_form_of_addresses_is_the_same_log)
{
    static const char text[] = RMM "1,0,allocate,7F2C10000000,100,7f3c00\n"
                                   "1,0,allocate,0x7f2c20000000,200,0\n"
                                   "1,0,allocate,0X7f2c30000000,300,0x7f3c00\n"
                                   "1,0,free,0x7f2c10000000,100,0x7F3C00\n"
                                   "1,0,allocate,7f2c40000000,400,nullptr\n"
                                   "1,0,free,7f2c20000000,200,(nil)\n";
    ck_assert_msg(read_text(text, ""), "%s", failure.text);
    expect_events("a 100 0 0, a 200 1 1, a 300 2 0, f 0, a 400 0 1, f 1");
}
END_TEST

START_TEST(columns_may_come_in_any_order)
{
    static const char text[] = "size, STREAM ,pointer,extra,action\n"
                               "100,0,0x10,?,allocate\n"
                               " 100 , 0 , 0x10 , ,\tfree\n";
    ck_assert_msg(read_text(text, ""), "%s", failure.text);
    expect_events("a 100 0 0, f 0");
}
END_TEST

START_TEST(failed_requests_are_tried_or_left_out)
{
    static const char text[] = RMM "1,0,allocate,0x10,100,0x0\n"
                                   "1,0,allocate failure,(nil),5000,0x1\n"
                                   "1,0,allocate failure,0x0,18446744073709551615,0x1\n"
                                   "1,0,free,0x10,100,0x0\n";
    ck_assert_msg(read_text(text, ""), "%s", failure.text);
    expect_events("a 100 0 0, a 5000 1 1, f 1, f 0");
    ck_assert_msg(read_text(text, ":failures=drop"), "%s", failure.text);
    expect_events("a 100 0 0, f 0");
}
END_TEST

START_TEST(requests_of_nothing_hold_nothing)
{
    static const char text[] = RMM "1,0,allocate,(nil),0,0x0\n"
                                   "1,0,allocate,(nil),0,0x0\n"
                                   "1,0,allocate,0x10,1,0x0\n"
                                   "1,0,free,(nil),0,0x0\n";
    ck_assert_msg(read_text(text, ""), "%s", failure.text);
    expect_events("a 1 0 0");
}
END_TEST

START_TEST(every_fault_of_a_log_is_told_with_its_line)
{
    refuse(RMM, "1: no allocation");
    refuse(RMM "1,0,allocate,0x10,100\n", "2: 5 fields where there are 6 columns");
    refuse(RMM "\n1,0,allocate,0x10,100,0,0\n", "3: 7 fields where there are 6 columns");
    refuse(RMM "1,0,resize,0x10,100,0\n", "2: not an action: 'resize'");
    refuse(RMM "1,0,\033[2J,0x10,100,0\n", "2: not an action: '?[2J'");
    refuse(RMM "1,0,allocate,0x,100,0\n", "2: the pointer is not an address: '0x'");
    refuse(RMM "1,0,allocate,,100,0\n", "2: the pointer is not an address: ''");
    refuse(RMM "1,0,allocate,0x11112222333344445,100,0\n",
           "2: the pointer is not an address: '0x11112222333344445'");
    refuse(RMM "1,0,allocate,0x10,100,stream\n", "2: the stream is not an address: 'stream'");
    refuse(RMM "1,0,allocate,0x10,-1,0\n", "2: the size is not a number: '-1'");
    refuse(RMM "1,0,allocate,0x10,140737488355329,0\n",
           "2: the size 140737488355329 is larger than 140737488355328");
    refuse(RMM "1,0,allocate,0x10,99999999999999999999,0\n",
           "2: the size 99999999999999999999 is larger than 140737488355328");
    refuse(RMM "1,0,allocate,0x10,100,0\n1,0,allocate,0x10,100,0\n", "3: 0x10 is allocated twice");
    refuse(RMM "1,0,free,0x10,100,0\n", "2: 0x10 is freed, but not live");
    refuse("Action,Size,Pointer\n", "1: no column is called 'Stream'");
    refuse("a,b\n", "1: a table of unknown columns; known are RMM's (Thread,Time,Action,Pointer,"
                    "Size,Stream) and minimalloc's (id,lower,upper,size)");
}
END_TEST

START_TEST(more_streams_than_any_program_has_are_refused)
{
    static char text[65536] = RMM;
    size_t n = strlen(text);
    for (int i = 0; i < 1025; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "1,0,allocate,0x%x,1,0x%x\n", i + 1, i);
    }
    ck_assert(!read_text(text, ""));
    ck_assert_ptr_nonnull(strstr(failure.text, ":1026: more than 1024 streams"));
}
END_TEST

START_TEST(intervals_become_events_and_frees_come_first)
{
    static const char text[] = "id,lower,upper,size\n"
                               "0,5,10,3\n"
                               "1,0,5,1\n"
                               "b2,0,10,2\n"
                               "3,10,11,4\n";
    ck_assert_msg(read_text(text, ""), "%s", failure.text);
    expect_events("a 1024 0 0, a 2048 1 0, f 0, a 3072 0 0, f 0, f 1, a 4096 1 0, f 1");
    ck_assert_uint_eq(tape.peak_live_bytes, 5120);
    ck_assert_uint_eq(tape.n_marks, 0);
}
END_TEST

START_TEST(sizes_are_scaled_as_asked_for)
{
    static const char text[] = "offset,size,upper,lower,id\n"
                               "77,3,10,5,12\n";
    ck_assert_msg(read_text(text, ":scale=1"), "%s", failure.text);
    expect_events("a 3 0 0, f 0");
    ck_assert_msg(read_text(text, ":scale=1000000"), "%s", failure.text);
    expect_events("a 3000000 0 0, f 0");
    ck_assert(!read_text(text, ":scale=0"));
    ck_assert_ptr_nonnull(strstr(failure.text, ": 'scale=0' is not an option of a file"));
    ck_assert(!read_text(text, ":device=0"));
    ck_assert_ptr_nonnull(strstr(failure.text, ": 'device' is an option of a PyTorch snapshot"));
}
END_TEST

START_TEST(every_fault_of_a_problem_is_told_with_its_line)
{
    refuse("id,lower,upper,size\n", "1: no buffer");
    refuse("id,lower,size\n0,0,1\n", "1: no column is called 'upper'");
    refuse("id,lower,upper,size\n0,0,1,1\n0,0,1,1\n", "3: id '0' is there twice");
    refuse("id,lower,upper,size\n0,1,1,1\n", "2: lower 1 is not below upper 1");
    refuse("id,lower,upper,size\n0,0,1,0\n", "2: the size is 0");
    refuse("id,lower,upper,size\n,0,1,1\n", "2: the id is missing");
    refuse("id,lower,upper,size\nb1,0,1,1\nb2,0,1,1\nb1,0,1,1\n", "4: id 'b1' is there twice");
    refuse("id,lower,upper,size\n0,-1,1,1\n", "2: lower is not a number: '-1'");
    refuse("id,lower,upper,size\n0,0,1,137438953473\n",
           "2: the size 137438953473 is larger than 137438953472");
}
END_TEST

START_TEST(cut_and_bent_tables_do_no_harm)
{
    static const char *const texts[] = {
        RMM "1,0,allocate,0x10,100,0x0\n1,0,allocate,0x20,5,(nil)\n1,0,free,0x10,100,0x0\n",
        "id,lower,upper,size\n0,5,10,3\n1,0,5,1\n2,0,10,2\n",
    };
    bench_random random = { .state = 99 };
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(texts[i]);
        for (size_t cut = 0; cut < n; cut++) {
            if (!read_bytes(texts[i], cut, "")) {
                ck_assert_ptr_eq(strstr(failure.text, path), failure.text);
            }
        }
        for (int round = 0; round < 500; round++) {
            char bent[512];
            memcpy(bent, texts[i], n);
            bent[bench_random_between(&random, 0, n - 1)] = (char)bench_random_next(&random);
            bent[bench_random_between(&random, 0, n - 1)] = ",\n0x\0"[round % 5];
            if (!read_bytes(bent, n, "")) {
                ck_assert_ptr_eq(strstr(failure.text, path), failure.text);
            }
        }
    }
}
END_TEST

START_TEST(a_compressed_table_that_is_cut_is_told)
{
    static const char text[] = "id,lower,upper,size\n0,5,10,3\n1,0,5,1\n";
    char packed[512];
    const char *file_path = bench_child_file(".csv.gz", "", 0);
    gzFile file = gzopen(file_path, "wb");
    ck_assert_int_eq(gzwrite(file, text, sizeof text - 1), (int)sizeof text - 1);
    ck_assert_int_eq(gzclose(file), Z_OK);
    FILE *plain = fopen(file_path, "rb");
    size_t n = fread(packed, 1, sizeof packed, plain);
    fclose(plain);
    unlink(file_path);
    ck_assert_msg(read_bytes(packed, n, ""), "%s", failure.text);
    expect_events("a 1024 0 0, f 0, a 3072 0 0, f 0");
    for (size_t cut = 20; cut < n; cut++) {
        ck_assert(!read_bytes(packed, cut, ""));
        ck_assert_msg(strstr(failure.text, "the gzip data ends too early") != NULL, "%s",
                      failure.text);
    }
}
END_TEST

SUITE(bench_import_table)
{
    TCase *rmm = tcase_create("rmm");
    tcase_add_checked_fixture(rmm, set_up, tear_down);
    tcase_add_test(rmm, a_log_of_rmm_is_read_line_by_line);
    tcase_add_test(rmm, every_form_of_addresses_is_the_same_log);
    tcase_add_test(rmm, columns_may_come_in_any_order);
    tcase_add_test(rmm, failed_requests_are_tried_or_left_out);
    tcase_add_test(rmm, requests_of_nothing_hold_nothing);
    tcase_add_test(rmm, every_fault_of_a_log_is_told_with_its_line);
    tcase_add_test(rmm, more_streams_than_any_program_has_are_refused);
    suite_add_tcase(suite, rmm);
    TCase *minimalloc = tcase_create("minimalloc");
    tcase_add_checked_fixture(minimalloc, set_up, tear_down);
    tcase_add_test(minimalloc, intervals_become_events_and_frees_come_first);
    tcase_add_test(minimalloc, sizes_are_scaled_as_asked_for);
    tcase_add_test(minimalloc, every_fault_of_a_problem_is_told_with_its_line);
    suite_add_tcase(suite, minimalloc);
    TCase *hostile = tcase_create("hostile");
    tcase_add_checked_fixture(hostile, set_up, tear_down);
    tcase_add_test(hostile, cut_and_bent_tables_do_no_harm);
    tcase_add_test(hostile, a_compressed_table_that_is_cut_is_told);
    suite_add_tcase(suite, hostile);
}

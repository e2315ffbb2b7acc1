/* limits_test.c - limits of decompression and of host memory for a file, and how to raise them. */
/* labels: unit fault */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "bench/work/ids.h"
#include "bench/works/files.h"
#include "bench/works/work.h"
#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)

static char path[64];
static bench_failure failure;

static void name_file(const char *ending)
{
    snprintf(path, sizeof path, "/tmp/pleat-limits-XXXXXX%s", ending);
    int descriptor = mkstemps(path, (int)strlen(ending));
    ck_assert_int_ge(descriptor, 0);
    close(descriptor);
}

static void remove_file(void)
{
    ck_assert_int_eq(unlink(path), 0);
}

/* Writes `head`, then `line` up to `n_bytes`; a mode with "T" writes plain text. */
static void write_file(const char *ending, const char *mode, const char *head, const char *line,
                       uint64_t n_bytes)
{
    char many[4096];
    size_t n = 0;
    while (n + strlen(line) < sizeof many) {
        memcpy(many + n, line, strlen(line));
        n += strlen(line);
    }
    name_file(ending);
    gzFile file = gzopen(path, mode);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(gzputs(file, head), 0);
    for (uint64_t i = 0; i < n_bytes; i += n) {
        ck_assert_int_eq(gzwrite(file, many, (unsigned)n), (int)n);
    }
    ck_assert_int_eq(gzclose(file), Z_OK);
}

static const struct {
    const char *ending;
    const char *head;
    const char *line;
} kinds[] = {
    { ".trace.gz", "", "a 1 1 0\nf 1\n" },
    { ".csv.gz", "Action,Pointer,Size,Stream\n", "allocate,1,1,0\nfree,1,1,0\n" },
    { ".pickle.gz", "\x80\x02", "N" },
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0], N_TEXTS = N_KINDS - 1 };

static bool opens(const char *options)
{
    char name[128];
    bench_work work;
    snprintf(name, sizeof name, "%s%s", path, options);
    bool is_open = bench_work_open(name, &work, &failure);
    if (is_open) {
        bench_work_close(&work);
    }
    return is_open;
}

static void expect(const char *text)
{
    ck_assert_msg(strncmp(failure.text, path, strlen(path)) == 0, "%s", failure.text);
    ck_assert_msg(strstr(failure.text, text) != NULL, "no '%s' in '%s'", text, failure.text);
}

START_TEST(a_small_file_that_decompresses_to_much_is_refused_unless_that_is_allowed)
{
    write_file(kinds[_i].ending, "wb9", kinds[_i].head, kinds[_i].line, 20 * MIB);
    ck_assert(!opens(""));
    expect("decompresses to more than 1"); /* the limit is 16 MiB and a little */
    expect("inflate=SIZE behind the name allows more");
    ck_assert(!opens(":inflate=19M"));
    expect("decompresses to more than 19.000 MiB");
    if (_i < N_TEXTS) {
        ck_assert_msg(opens(":inflate=21M"), "%s", failure.text);
    } else {
        ck_assert(!opens(":inflate=21M"));
        expect("more than 1048576 values are on the stack");
    }
    remove_file();
}
END_TEST

START_TEST(what_decompresses_to_little_may_have_any_ratio)
{
    write_file(kinds[_i].ending, "wb9", kinds[_i].head, kinds[_i].line, 12 * MIB);
    ck_assert_msg(opens(""), "%s", failure.text);
    ck_assert(!opens(":inflate=11M"));
    expect("decompresses to more than 11.000 MiB");
    remove_file();
}
END_TEST

START_TEST(a_plain_file_decompresses_to_nothing)
{
    write_file(".trace", "wbT", "", kinds[0].line, 20 * MIB);
    ck_assert_msg(opens(":inflate=1M"), "%s", failure.text);
    remove_file();
}
END_TEST

START_TEST(more_host_memory_than_the_limit_is_refused)
{
    write_file(kinds[_i].ending, "wb9", kinds[_i].head, kinds[_i].line, 12 * MIB);
    ck_assert(!opens(":memory=8M"));
    expect("more than 8.000 MiB of host memory; memory=SIZE behind the name allows more");
    ck_assert_msg(opens(":memory=128M,inflate=13M"), "%s", failure.text);
    remove_file();
}
END_TEST

START_TEST(a_problem_of_minimalloc_counts_what_it_sorts)
{
    name_file(".csv");
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("id,lower,upper,size\n", file);
    for (unsigned i = 0; i < 100000; i++) {
        fprintf(file, "b%u,%u,%u,1\n", i, i, i + 1);
    }
    ck_assert_int_eq(fclose(file), 0);
    ck_assert(!opens(":memory=4M"));
    expect("more than 4.000 MiB of host memory");
    ck_assert_msg(opens(":memory=64M"), "%s", failure.text);
    remove_file();
}
END_TEST

START_TEST(what_is_no_size_is_no_option)
{
    write_file(".trace", "wbT", "", kinds[0].line, 100);
    ck_assert(!opens(":memory=much"));
    expect("'memory=much' is not an option of a file");
    ck_assert(!opens(":inflate=0"));
    expect("'inflate=0' is not an option of a file");
    remove_file();
}
END_TEST

START_TEST(a_work_that_was_read_holds_its_events_and_nothing_else)
{
    bench_work work;
    write_file(".trace", "wbT", "", kinds[0].line, MIB);
    ck_assert_msg(bench_work_open(path, &work, &failure), "%s", failure.text);
    ck_assert_uint_eq(work.tape.capacity, work.tape.n_entries);
    ck_assert_uint_eq(work.tape.host.n_bytes, work.tape.n_entries * sizeof(bench_event));
    bench_work_close(&work);
    remove_file();
}
END_TEST

START_TEST(the_table_of_ids_is_as_large_as_what_lives)
{
    bench_host host = { .most_bytes = MIB };
    bench_ids ids;
    ck_assert(bench_ids_init(&ids, &host, true));
    for (uint64_t i = 0; i < 1000000; i++) {
        bench_id *entry = bench_ids_get(&ids, i);
        ck_assert_ptr_nonnull(entry);
        ck_assert(!entry->is_live);
        bench_ids_begin(&ids, entry);
        entry = i >= 100 ? bench_ids_get(&ids, i - 100) : NULL;
        if (entry) {
            ck_assert(entry->is_live);
            bench_ids_end(&ids, entry);
        }
    }
    ck_assert(ids.has_forgotten);
    ck_assert_uint_eq(ids.n_live, 100);
    ck_assert_uint_lt(host.n_bytes, MIB / 4);
    for (uint64_t i = 999900; i < 1000000; i++) {
        ck_assert(bench_ids_get(&ids, i)->is_live);
    }
    bench_ids_fini(&ids);
    ck_assert_uint_eq(host.n_bytes, 0);
}
END_TEST

START_TEST(a_second_free_is_found_however_late)
{
    name_file(".trace");
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (unsigned i = 0; i < 20000; i++) {
        fprintf(file, "a %u 1 0\nf %u\n", i, i);
    }
    fputs("f 5\n", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert(!opens(""));
    expect(":40001: id 5 is freed, but not live");
    remove_file();
}
END_TEST

SUITE(bench_limits)
{
    TCase *files = suite_case(suite, "files", NULL, NULL);
    tcase_add_loop_test(files,
                        a_small_file_that_decompresses_to_much_is_refused_unless_that_is_allowed, 0,
                        N_KINDS);
    tcase_add_loop_test(files, what_decompresses_to_little_may_have_any_ratio, 0, N_TEXTS);
    tcase_add_test(files, a_plain_file_decompresses_to_nothing);
    tcase_add_loop_test(files, more_host_memory_than_the_limit_is_refused, 0, N_TEXTS);
    tcase_add_test(files, a_problem_of_minimalloc_counts_what_it_sorts);
    tcase_add_test(files, what_is_no_size_is_no_option);
    tcase_add_test(files, a_work_that_was_read_holds_its_events_and_nothing_else);
    TCase *ids = suite_case(suite, "ids", NULL, NULL);
    tcase_add_test(ids, the_table_of_ids_is_as_large_as_what_lives);
    tcase_add_test(ids, a_second_free_is_found_however_late);
}

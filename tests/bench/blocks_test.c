/* blocks_test.c - the blocks of a work as blocks.jsonl has them: one by one, and the small ones of
 * many as a sum. */
/* labels: unit */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/ab/blocks.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

static bench_work work;
static bench_failure failure;
static json_t *object;

static void tear_down(void)
{
    json_decref(object);
    object = NULL;
    bench_work_close(&work);
}

static void write_blocks(uint64_t most)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    ck_assert_msg(bench_blocks_write(&work, most, file, &failure), "%s", failure.text);
    fclose(file);
    ck_assert_int_eq(text[n - 1], '\n');
    json_error_t error;
    json_decref(object);
    object = json_loadb(text, n, 0, &error);
    ck_assert_msg(object != NULL, "%s", error.text);
    free(text);
}

static void write_trace(const char *text, uint64_t most)
{
    const char *path = bench_child_file(".trace", text, strlen(text));
    ck_assert_msg(bench_work_open(path, &work, &failure), "%s", failure.text);
    unlink(path);
    write_blocks(most);
}

static json_int_t number(const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static json_int_t at(const char *key, size_t i)
{
    return json_integer_value(json_array_get(json_object_get(object, key), i));
}

static void expect(const char *key, size_t n, const json_int_t *values)
{
    ck_assert_uint_eq(json_array_size(json_object_get(object, key)), n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(at(key, i) == values[i], "%s[%zu] is %lld", key, i, (long long)at(key, i));
    }
}

/* Sizes of 100, 3000, 700 and 5000; the first slot is used twice. */
static const char four[] = "a 1 100 0\na 2 3000 1\nf 1\na 3 700 0\na 4 5000 0\nf 2\nf 3\n";

START_TEST(every_block_is_told_in_the_order_of_its_birth)
{
    write_trace(four, 4);
    ck_assert_int_eq(number("n_events"), 7);
    ck_assert_int_eq(number("n_blocks"), 4);
    ck_assert_int_eq(number("n_other"), 0);
    ck_assert(json_is_null(json_object_get(object, "at")));
    ck_assert(json_is_null(json_object_get(object, "other")));
    expect("of", 7, (json_int_t[]){ 0, 1, 0, 2, 3, 1, 2 });
    expect("bytes", 4, (json_int_t[]){ 100, 3000, 700, 5000 });
    expect("stream", 4, (json_int_t[]){ 0, 1, 0, 0 });
    expect("stack", 4, (json_int_t[]){ -1, -1, -1, -1 });
    expect("stacks", 0, NULL);
}
END_TEST

START_TEST(the_smallest_of_many_are_a_sum)
{
    write_trace(four, 2);
    ck_assert_int_eq(number("n_blocks"), 2);
    ck_assert_int_eq(number("n_other"), 2);
    expect("at", 3, (json_int_t[]){ 1, 4, 5 });
    expect("of", 3, (json_int_t[]){ 0, 1, 0 });
    expect("bytes", 2, (json_int_t[]){ 3000, 5000 });
    /* The block of 100 bytes is gone before that of 700 comes, which takes 1,024. */
    expect("other", 3, (json_int_t[]){ 1024, 1024, 1024 });
}
END_TEST

START_TEST(of_equal_blocks_the_first_are_told)
{
    write_trace("a 1 512 0\na 2 512 0\na 3 512 0\nf 1\nf 2\nf 3\n", 2);
    expect("at", 4, (json_int_t[]){ 0, 1, 3, 4 });
    expect("other", 4, (json_int_t[]){ 0, 512, 512, 512 });
}
END_TEST

/* Live bytes from the entries alone. */
static json_int_t peak_of_entries(void)
{
    size_t n_blocks = (size_t)number("n_blocks");
    bool *is_live = calloc(n_blocks + 1, sizeof *is_live);
    bool has_other = number("n_other") > 0;
    json_int_t live = 0;
    json_int_t most = 0;
    for (size_t i = 0; i < json_array_size(json_object_get(object, "of")); i++) {
        size_t block = (size_t)at("of", i);
        ck_assert_uint_lt(block, n_blocks);
        json_int_t bytes = (at("bytes", block) + 511) / 512 * 512;
        live += is_live[block] ? -bytes : bytes;
        is_live[block] = !is_live[block];
        json_int_t all = live + (has_other ? at("other", i) : 0);
        most = all > most ? all : most;
    }
    free(is_live);
    return most;
}

START_TEST(the_peak_is_that_of_the_work_however_few_are_told)
{
    static const char spec[] = "churn:iterations=40,allocations=60,least=1K,most=8M,keep=0.3";
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s", failure.text);
    for (uint64_t most = 10; most < 20000; most *= 3) {
        write_blocks(most);
        ck_assert_int_le(number("n_blocks"), (json_int_t)most);
        ck_assert_int_eq(number("n_blocks") < (json_int_t)most, number("n_other") == 0);
        ck_assert_int_eq(number("n_events"), (json_int_t)work.n_events);
        ck_assert_int_eq(peak_of_entries(), (json_int_t)work.peak_live_bytes);
    }
    ck_assert_int_eq(number("n_other"), 0);
}
END_TEST

SUITE(bench_blocks)
{
    TCase *all = suite_case(suite, "all", NULL, tear_down);
    tcase_add_test(all, every_block_is_told_in_the_order_of_its_birth);
    tcase_add_test(all, the_smallest_of_many_are_a_sum);
    tcase_add_test(all, of_equal_blocks_the_first_are_told);
    tcase_add_test(all, the_peak_is_that_of_the_work_however_few_are_told);
}

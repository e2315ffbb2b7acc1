/* works_test.c - `pleat works`: the list is complete, the description right. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/works/registry.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

static bench_child child;

static void set_up(void)
{
    ck_assert_int_eq(setenv("PLEAT_TRACES", PLEAT_SOURCE_DIR "/bench/traces", 1), 0);
}

/* Read the next object of standard output, and move *at behind its line. */
static json_t *next_object(const char **at)
{
    json_error_t error;
    const char *end = strchr(*at, '\n');
    ck_assert_ptr_nonnull(end);
    json_t *object = json_loadb(*at, (size_t)(end - *at), 0, &error);
    ck_assert_msg(json_is_object(object), "%s: %.200s", error.text, *at);
    *at = end + 1;
    return object;
}

static int64_t get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_integer(value), "%s", key);
    return json_integer_value(value);
}

static void check_param(const json_t *param)
{
    const json_t *words = json_object_get(param, "words");
    const json_t *standard = json_object_get(param, "standard");
    ck_assert(json_string_length(json_object_get(param, "name")) > 0);
    ck_assert(json_string_length(json_object_get(param, "doc")) > 0);
    if (words) {
        size_t i;
        const json_t *word;
        bool is_found = false;
        json_array_foreach(words, i, word)
        {
            is_found |= json_equal(word, standard) != 0;
        }
        ck_assert(is_found);
    } else {
        double least = json_number_value(json_object_get(param, "least"));
        double most = json_number_value(json_object_get(param, "most"));
        ck_assert_double_ge(json_number_value(standard), least);
        ck_assert_double_le(json_number_value(standard), most);
    }
}

START_TEST(the_list_has_every_trace_pattern_and_generator_with_its_parameters)
{
    unsigned n_traces = 0;
    unsigned n_others = 0;
    unsigned n_known = 0;
    bench_child_run(&child, "works --json");
    ck_assert_int_eq(child.status, 0);
    for (const char *at = child.out; *at;) {
        json_t *object = next_object(&at);
        if (strcmp(json_string_value(json_object_get(object, "kind")), "trace") == 0) {
            n_traces++;
        } else {
            const json_t *params = json_object_get(object, "params");
            const char *name = json_string_value(json_object_get(object, "name"));
            ck_assert_ptr_nonnull(bench_generator_find(name, strlen(name)));
            ck_assert_uint_ge(json_array_size(params), 2);
            for (size_t i = 0; i < json_array_size(params); i++) {
                check_param(json_array_get(params, i));
            }
            n_others++;
        }
        json_decref(object);
    }
    while (bench_generator_at(n_known)) {
        n_known++;
    }
    ck_assert_uint_eq(n_others, n_known);
    ck_assert_uint_eq(n_traces, 8);
}
END_TEST

START_TEST(the_list_for_people_names_bounds_and_defaults)
{
    static const char *const parts[] = { "gpt2s_tiny\n", "decoder - ",           "moe - ",
                                         "conv - ",      "serving - ",           "rlhf - ",
                                         "churn - ",     "1 to 1000 ",           "llama|gpt",
                                         "iterations",   "of the random numbers" };
    bench_child_run(&child, "works");
    ck_assert_int_eq(child.status, 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ck_assert_msg(strstr(child.out, parts[i]) != NULL, "%s", parts[i]);
    }
}
END_TEST

START_TEST(a_work_is_described_by_its_counts_and_sizes)
{
    static const char text[] = "i 0\na 1 1000000 0\na 2 2000 0\nf 2\na 3 2048 7\nf 1\ni 1\n"
                               "a 4 2049 0\n";
    char line[128];
    const char *path = bench_child_file(".trace", text, strlen(text));
    snprintf(line, sizeof line, "works --json %s", path);
    bench_child_run(&child, line);
    unlink(path);
    ck_assert_int_eq(child.status, 0);
    const char *at = child.out;
    json_t *object = next_object(&at);
    ck_assert_int_eq(get(object, "events"), 6);
    ck_assert_int_eq(get(object, "iterations"), 2);
    ck_assert_int_eq(get(object, "max_live_blocks"), 2);
    ck_assert_int_eq(get(object, "peak_live_bytes"), 1000448 + 2048);
    ck_assert_int_eq(get(object, "streams"), 2);
    ck_assert_int_eq(get(object, "largest_block_bytes"), 1000000);
    ck_assert_int_eq(get(object, "allocations"), 4);
    ck_assert_int_eq(get(object, "allocated_bytes"), 1000000 + 2000 + 2048 + 2049);
    const json_t *sizes = json_object_get(object, "sizes");
    ck_assert_uint_eq(json_array_size(sizes), 3);
    ck_assert_int_eq(get(json_array_get(sizes, 0), "up_to_bytes"), 2048);
    ck_assert_int_eq(get(json_array_get(sizes, 0), "allocations"), 2);
    ck_assert_int_eq(get(json_array_get(sizes, 0), "bytes"), 4048);
    ck_assert_int_eq(get(json_array_get(sizes, 1), "up_to_bytes"), 4096);
    ck_assert_int_eq(get(json_array_get(sizes, 2), "up_to_bytes"), 1 << 20);
    json_decref(object);
}
END_TEST

START_TEST(generated_works_are_described_too)
{
    bench_child_run(&child, "works gpt2s_tiny decoder:layers=2,iterations=3");
    ck_assert_int_eq(child.status, 0);
    ck_assert_ptr_nonnull(strstr(child.out, "decoder:layers=2,iterations=3\n"));
    ck_assert_ptr_nonnull(strstr(child.out, "30386\n"));
    ck_assert_ptr_nonnull(strstr(child.out, "5.520 GiB\n"));
}
END_TEST

START_TEST(a_bad_work_is_told_and_the_others_are_described)
{
    bench_child_run(&child, "works --json decoder:layers=x no_such churn:iterations=2");
    ck_assert_int_eq(child.status, 2);
    ck_assert_ptr_nonnull(strstr(child.err, "decoder: bad value 'x' of 'layers'"));
    ck_assert_ptr_nonnull(strstr(child.err, "no_such"));
    const char *at = child.out;
    json_t *object = next_object(&at);
    ck_assert_str_eq(json_string_value(json_object_get(object, "work")), "churn:iterations=2");
    ck_assert_str_eq(at, "");
    json_decref(object);
}
END_TEST

SUITE(bench_works)
{
    TCase *lists = tcase_create("list");
    tcase_add_checked_fixture(lists, set_up, NULL);
    tcase_add_test(lists, the_list_has_every_trace_pattern_and_generator_with_its_parameters);
    tcase_add_test(lists, the_list_for_people_names_bounds_and_defaults);
    suite_add_tcase(suite, lists);
    TCase *descriptions = tcase_create("description");
    tcase_add_checked_fixture(descriptions, set_up, NULL);
    tcase_add_test(descriptions, a_work_is_described_by_its_counts_and_sizes);
    tcase_add_test(descriptions, generated_works_are_described_too);
    tcase_add_test(descriptions, a_bad_work_is_told_and_the_others_are_described);
    suite_add_tcase(suite, descriptions);
}

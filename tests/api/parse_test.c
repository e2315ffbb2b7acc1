/* parse_test.c - numbers, sizes and fractions are read strictly; texts never overflow. */
#include <check.h>
#include <string.h>

#include "api/base/text.h"
#include "api/config/parse.h"
#include "tests/support/suite.h"

static pl_span span(const char *text)
{
    return (pl_span){ text, strlen(text) };
}

START_TEST(numbers_are_digits_within_the_bound)
{
    uint64_t n = 77;
    ck_assert(pl_parse_number(span("0"), 10, &n));
    ck_assert_uint_eq(n, 0);
    ck_assert(pl_parse_number(span("10"), 10, &n));
    ck_assert_uint_eq(n, 10);
    ck_assert(pl_parse_number(span("18446744073709551615"), UINT64_MAX, &n));
    ck_assert_uint_eq(n, UINT64_MAX);
    static const char *const bad[] = { "", "11", "-1", "+1", " 1", "1 ", "1e3", "0x1", "1.0" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        n = 77;
        ck_assert_msg(!pl_parse_number(span(bad[i]), 10, &n), "'%s' was read", bad[i]);
        ck_assert_uint_eq(n, 77);
    }
    ck_assert(!pl_parse_number(span("18446744073709551616"), UINT64_MAX, &n));
    ck_assert(!pl_parse_number(span("3"), 2, &n));
}
END_TEST

START_TEST(sizes_take_binary_suffixes_only)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        { "0", 0 },
        { "4096", 4096 },
        { "3K", 3072 },
        { "3KiB", 3072 },
        { "512M", UINT64_C(512) << 20 },
        { "8GiB", UINT64_C(8) << 30 },
        { "1T", UINT64_C(1) << 40 },
        { "1048576T", UINT64_C(1) << 60 },
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 1;
        ck_assert_msg(pl_parse_size(span(good[i].text), &bytes), "'%s'", good[i].text);
        ck_assert_uint_eq(bytes, good[i].bytes);
    }
    static const char *const bad[] = { "",    "G",    "8GB", "8g",  "8KB",     "8 G",
                                       "-8G", "1.5G", "8Gi", "8GG", "1048577T" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 1;
        ck_assert_msg(!pl_parse_size(span(bad[i]), &bytes), "'%s' was read", bad[i]);
        ck_assert_uint_eq(bytes, 1);
    }
}
END_TEST

START_TEST(fractions_are_above_zero_and_at_most_one)
{
    static const struct {
        const char *text;
        uint32_t parts;
    } good[] = {
        { "1", 1000000000 },   { "1.0", 1000000000 },         { "0.9", 900000000 },
        { ".5", 500000000 },   { "0.000000001", 1 },          { "0.333333333", 333333333 },
        { "0.10", 100000000 }, { "1.000000000", 1000000000 },
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint32_t parts = 7;
        ck_assert_msg(pl_parse_fraction(span(good[i].text), &parts), "'%s'", good[i].text);
        ck_assert_uint_eq(parts, good[i].parts);
    }
    static const char *const bad[] = { "",   "0",    "0.0",   "1.1", "2",    ".",
                                       "1.", "-0.5", "0.5.5", "0,5", "1e-1", "0.0000000001" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t parts = 7;
        ck_assert_msg(!pl_parse_fraction(span(bad[i]), &parts), "'%s' was read", bad[i]);
        ck_assert_uint_eq(parts, 7);
    }
}
END_TEST

START_TEST(booleans_are_exactly_true_or_false)
{
    bool value = false;
    ck_assert(pl_parse_bool(span("True"), &value));
    ck_assert(value);
    ck_assert(pl_parse_bool(span("False"), &value));
    ck_assert(!value);
    static const char *const bad[] = { "", "true", "TRUE", "1", "yes", "Tru", "True " };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!pl_parse_bool(span(bad[i]), &value), "'%s' was read", bad[i]);
    }
}
END_TEST

START_TEST(a_text_that_does_not_fit_is_cut_and_still_counted)
{
    char buffer[8] = "zzzzzzz";
    pl_text text;
    pl_text_init(&text, buffer, 6);
    pl_text_add(&text, "%s", "abc");
    pl_text_add(&text, "%u", 12345U);
    ck_assert_str_eq(buffer, "abc12");
    ck_assert_uint_eq(text.n, 8);
    ck_assert_int_eq(buffer[6], 'z');
    pl_text_add(&text, "more");
    ck_assert_str_eq(buffer, "abc12");
    ck_assert_uint_eq(text.n, 12);
    pl_text_init(&text, NULL, 0);
    pl_text_add(&text, "only counted");
    ck_assert_uint_eq(text.n, 12);
}
END_TEST

START_TEST(sizes_are_written_for_people)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        { 0, "0 B" },
        { 1023, "1023 B" },
        { 1024, "1.00 KiB" },
        { UINT64_C(1) << 21, "2.00 MiB" },
        { (UINT64_C(1) << 30) * 3 / 2, "1.50 GiB" },
        { UINT64_C(4192206029), "3.90 GiB" },        /* 3.9043 */
        { UINT64_C(4193259520), "3.91 GiB" },        /* 3.9053, as PyTorch writes it */
        { (UINT64_C(1) << 30) * 9 / 8, "1.12 GiB" }, /* a half: to even, as printf does */
        { (UINT64_C(1) << 30) * 11 / 8, "1.38 GiB" },
        { (UINT64_C(1) << 40) - 1, "1.00 TiB" },
        { UINT64_C(1) << 60, "1024.00 PiB" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buffer[32];
        pl_text text;
        pl_text_init(&text, buffer, sizeof buffer);
        pl_text_add_bytes(&text, cases[i].bytes);
        ck_assert_str_eq(buffer, cases[i].text);
    }
}
END_TEST

SUITE(api_parse)
{
    TCase *tcase = tcase_create("values");
    tcase_add_test(tcase, numbers_are_digits_within_the_bound);
    tcase_add_test(tcase, sizes_take_binary_suffixes_only);
    tcase_add_test(tcase, fractions_are_above_zero_and_at_most_one);
    tcase_add_test(tcase, booleans_are_exactly_true_or_false);
    suite_add_tcase(suite, tcase);
    TCase *texts = tcase_create("texts");
    tcase_add_test(texts, a_text_that_does_not_fit_is_cut_and_still_counted);
    tcase_add_test(texts, sizes_are_written_for_people);
    suite_add_tcase(suite, texts);
}

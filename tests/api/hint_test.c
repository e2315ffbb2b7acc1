/* hint_test.c - what a slip of the pen may have meant. */
/* labels: unit */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "api/config/hint.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

static pl_span span(const char *text)
{
    return (pl_span){ text, strlen(text) };
}

static const char *hint_of(const char *word, const char *const *known)
{
    static char out[PL_HINT_BYTES];
    pl_nearest nearest;
    pl_nearest_init(&nearest, span(word));
    for (; *known; known++) {
        pl_nearest_offer(&nearest, span(*known));
    }
    return pl_nearest_say(&nearest, "-", out);
}

START_TEST(the_nearest_word_is_told_if_it_is_near)
{
    static const char *const known[] = { "replay", "repair", "fit", "--memory", "", NULL };
    static const struct {
        const char *word;
        const char *hint;
    } cases[] = {
        { "replya", "; did you mean 'replay'?" },  /* exchanged */
        { "repla", "; did you mean 'replay'?" },   /* missing */
        { "rreplay", "; did you mean 'replay'?" }, /* too many */
        { "reqlay", "; did you mean 'replay'?" },  /* a different word */
        { "rpelya", "; did you mean 'replay'?" },  /* two of six */
        { "repbir", "; did you mean 'repair'?" },
        { "fti", "; did you mean 'fit'?" },
        { "fat", "; did you mean 'fit'?" },
        { "replay", "-" }, /* exactly the word */
        { "play", "; did you mean 'replay'?" },
        { "plai", "-" },
        { "ft", "; did you mean 'fit'?" },
        { "f", "-" },
        { "", "-" },
        { "xyz", "-" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(strcmp(hint_of(cases[i].word, known), cases[i].hint) == 0, "%s: %s",
                      cases[i].word, hint_of(cases[i].word, known));
    }
}
END_TEST

START_TEST(words_of_any_length_are_compared_or_not)
{
    char word[200];
    char other[200];
    for (size_t n = 1; n < sizeof word - 1; n++) {
        memset(word, 'a', n);
        memset(other, 'a', n);
        word[n] = other[n] = '\0';
        other[n - 1] = 'b';
        const char *const known[] = { other, NULL };
        bool is_near = n >= 3 && n < PL_HINT_WORD;
        ck_assert_msg((hint_of(word, known)[0] == ';') == is_near, "%zu", n);
    }
}
END_TEST

START_TEST(sizes_with_a_slip_say_which)
{
    static const struct {
        const char *text;
        const char *why; /* NULL = nothing can be told */
    } cases[] = {
        { ".", NULL },
        { "0Kjunk", NULL },
        { "80GB", "'80GB' could mean powers of 1,000 or of 1,024 bytes: write 80G (or 80GiB)" },
        { "1.5gb", "write 1.5G (or 1.5GiB) for 1,024, or the number of bytes" },
        { "0GB", "write 0G (or 0GiB)" },
        { "0G", "'0G' is no memory at all: write how much there is, as in 80G or 512M" },
        { "0", "'0' is no memory at all" },
        { "0.0T", "'0.0T' is no memory at all" },
        { "80", "'80' lacks a unit, as in 80G or 512M" },
        { "2097151", "lacks a unit" },
        { "2097152", NULL },
        { "80G", NULL },
        { "80GBs", NULL },
        { "x", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[PL_HINT_BYTES] = "";
        pl_text text;
        pl_text_init(&text, out, sizeof out);
        bool is_told = pl_hint_size(span(cases[i].text), &text);
        ck_assert_msg(is_told == (cases[i].why != NULL), "%s", cases[i].text);
        ck_assert_msg(!is_told || strstr(out, cases[i].why) != NULL, "%s", out);
    }
}
END_TEST

START_TEST(a_configuration_with_a_slip_says_which)
{
    pleat instance;
    ck_assert_int_eq(pleat_create("limt:80G", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "unknown key 'limt'; did you mean 'limit'?");
    ck_assert_ptr_null(strstr(pleat_last_error()->text, "known: ")); /* 45 names would hide it */
    ck_assert_int_eq(pleat_create("qqqqqq:80G", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "unknown key 'qqqqqq'; known: driver, ");
    ck_assert_int_eq(pleat_create("limit:80GB", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "'80GB' could mean powers of 1,000", "allowed: a fraction such as 0.9");
    ck_assert_int_eq(pleat_create("limit:80", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "'limit': '80' lacks a unit, as in 80G", "allowed");
    ck_assert_int_eq(pleat_create("address_budget:1TB", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "write 1T (or 1TiB)", "allowed");
}
END_TEST

SUITE(api_hint)
{
    TCase *words = suite_case(suite, "words", NULL, NULL);
    tcase_add_test(words, the_nearest_word_is_told_if_it_is_near);
    tcase_add_test(words, words_of_any_length_are_compared_or_not);
    TCase *sizes = suite_case(suite, "sizes", NULL, NULL);
    tcase_add_test(sizes, sizes_with_a_slip_say_which);
    TCase *conf = suite_case(suite, "conf", api_sim_load, NULL);
    tcase_add_test(conf, a_configuration_with_a_slip_says_which);
}

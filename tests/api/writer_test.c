/* writer_test.c - the two formats of snapshots, byte by byte. In Python a test shows that both
 * formats read the same. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/snapshot/writer.h"
#include "tests/support/suite.h"

enum { MOST_BYTES = 1 << 20 };

static pl_writer writer;
static char out[MOST_BYTES];
static size_t n_out;
static unsigned n_writes;
static unsigned n_allowed; /* number of writes before the output refuses */

static bool write_out(void *context, const void *bytes, size_t n)
{
    ck_assert_ptr_eq(context, &n_out);
    if (n_writes++ >= n_allowed) {
        return false;
    }
    ck_assert_uint_le(n_out + n, sizeof out);
    memcpy(out + n_out, bytes, n);
    n_out += n;
    return true;
}

static pl_writer *start(const pl_writer_format *format)
{
    n_out = 0;
    n_writes = 0;
    n_allowed = UINT32_MAX;
    pl_writer_init(&writer, format, write_out, &n_out);
    return &writer;
}

static void expect_bytes(const void *bytes, size_t n)
{
    ck_assert(pl_writer_finish(&writer));
    ck_assert_uint_eq(n_out, n);
    ck_assert_mem_eq(out, bytes, n);
}

/* The literal's final NUL is not among the expected bytes. */
#define expect(literal) expect_bytes("" literal, sizeof literal - 1)

START_TEST(a_number_is_pickled_with_its_shortest_opcode)
{
    static const struct {
        uint64_t value;
        const char *bytes;
        size_t n;
    } rows[] = {
        { 0, "K\x00", 2 },
        { 255, "K\xff", 2 },
        { 256, "M\x00\x01", 3 },
        { 65535, "M\xff\xff", 3 },
        { 65536, "J\x00\x00\x01\x00", 5 },
        { INT32_MAX, "J\xff\xff\xff\x7f", 5 },
        { 0x80000000, "\x8a\x05\x00\x00\x00\x80\x00", 7 },
        { 0x7fffffffff, "\x8a\x05\xff\xff\xff\xff\x7f", 7 },
        { 0x8000000000, "\x8a\x06\x00\x00\x00\x00\x80\x00", 8 },
        { INT64_MAX, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10 },
        { UINT64_MAX, "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", 11 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pl_write_natural(start(&pl_writer_pickle), rows[i].value);
        ck_assert(pl_writer_finish(&writer));
        ck_assert_uint_eq(n_out, 2 + rows[i].n + 1);
        ck_assert_mem_eq(out + 2, rows[i].bytes, rows[i].n);
    }
}
END_TEST

START_TEST(negative_numbers_are_pickled_in_twos_complement)
{
    pl_write_integer(start(&pl_writer_pickle), -1);
    expect("\x80\x02J\xff\xff\xff\xff.");
    pl_write_integer(start(&pl_writer_pickle), INT64_MIN);
    expect("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.");
    pl_write_integer(start(&pl_writer_json), INT64_MIN);
    expect("-9223372036854775808\n");
}
END_TEST

START_TEST(plain_values_are_pickled_as_their_opcodes)
{
    pl_writer *w = start(&pl_writer_pickle);
    pl_write_list(w);
    pl_write_none(w);
    pl_write_bool(w, true);
    pl_write_bool(w, false);
    pl_write_pair(w, 1, 2);
    pl_write_real(w, 0.5);
    pl_write_real(w, NAN);
    pl_write_end(w);
    expect("\x80\x02](N\x88\x89K\x01K\x02\x86G\x3f\xe0\x00\x00\x00\x00\x00\x00Ne.");
}
END_TEST

START_TEST(plain_values_are_json)
{
    pl_writer *w = start(&pl_writer_json);
    pl_write_dict(w);
    pl_write_key(w, "list");
    pl_write_list(w);
    pl_write_none(w);
    pl_write_bool(w, true);
    pl_write_bool(w, false);
    pl_write_pair(w, 1, UINT64_MAX);
    pl_write_real(w, 0.5);
    pl_write_real(w, INFINITY);
    pl_write_real(w, 3);
    pl_write_end(w);
    pl_write_key(w, "empty");
    pl_write_dict(w);
    pl_write_end(w);
    pl_write_end(w);
    expect("{\"list\":[null,true,false,[1,18446744073709551615],0.5,null,3.0],\"empty\":{}}\n");
}
END_TEST

START_TEST(a_real_number_of_json_reads_back_as_the_same)
{
    static const double values[] = { 0.8, 1.0 / 3, 1e-300, 1e300, -0.1, 5e-324 };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        pl_write_real(start(&pl_writer_json), values[i]);
        ck_assert(pl_writer_finish(&writer));
        out[n_out] = '\0';
        ck_assert_double_eq(strtod(out, NULL), values[i]);
    }
}
END_TEST

START_TEST(json_escapes_what_it_must)
{
    pl_write_text(start(&pl_writer_json), "a\"\\\n\x01\x7f/\xc3\xa9\xf0\x9f\x98\x80", 13);
    expect("\"a\\\"\\\\\\u000a\\u0001\\u007f/\xc3\xa9\xf0\x9f\x98\x80\"\n");
}
END_TEST

/* A lone byte, an overlong slash, a surrogate, a code beyond the last, a character cut short. */
START_TEST(what_is_no_utf8_is_replaced)
{
    static const char bad[] = "\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80z\xe2\x82";
    enum { N_BAD = 1 + 2 + 3 + 4 + 2 };
    for (int is_json = 0; is_json < 2; is_json++) {
        size_t n = 0;
        char good[64];
        for (int i = 0; i < N_BAD; i++) {
            if (i == 10) {
                good[n++] = 'z';
            }
            memcpy(good + n, "\xef\xbf\xbd", 3);
            n += 3;
        }
        pl_write_text(start(is_json ? &pl_writer_json : &pl_writer_pickle), bad, sizeof bad - 1);
        ck_assert(pl_writer_finish(&writer));
        size_t head = is_json ? 1 : 7;
        ck_assert_uint_eq(n_out, head + n + (is_json ? 2 : 1));
        ck_assert_mem_eq(out + head, good, n);
        ck_assert(is_json || (unsigned char)out[3] == n);
    }
}
END_TEST

START_TEST(a_word_is_pickled_once)
{
    static const char word[] = "size";
    pl_writer *w = start(&pl_writer_pickle);
    pl_write_list(w);
    pl_write_word(w, word);
    pl_write_word(w, "other");
    pl_write_word(w, word);
    pl_write_end(w);
    expect("\x80\x02](X\x04\x00\x00\x00sizeq\x00X\x05\x00\x00\x00otherq\x01h\x00"
           "e.");
}
END_TEST

START_TEST(more_words_than_the_memo_holds_are_written_out)
{
    static char words[400][8];
    pl_writer *w = start(&pl_writer_pickle);
    pl_write_list(w);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 400; i++) {
            words[i][0] = 'w';
            pl_write_word(w, words[i]);
        }
    }
    pl_write_end(w);
    ck_assert(pl_writer_finish(w));
    size_t n_out_in_full = 0;
    for (size_t i = 0; i + 1 < n_out; i++) {
        n_out_in_full += out[i] == 'X' && out[i + 1] == 1;
    }
    ck_assert_uint_eq(n_out_in_full, 800 - PL_WRITER_WORDS / 2);
}
END_TEST

START_TEST(lists_and_dictionaries_are_filled_by_the_thousand)
{
    static char expected[8192];
    size_t n = 0;
    pl_writer *w = start(&pl_writer_pickle);
    pl_write_list(w);
    memcpy(expected, "\x80\x02]", n = 3);
    for (int i = 0; i < 2001; i++) {
        pl_write_none(w);
        if (i % 1000 == 0) {
            memcpy(expected + n, "e(", 2);
            n += 2;
        }
        expected[n++] = 'N';
    }
    pl_write_end(w);
    memmove(expected + 3, expected + 4, n - 4); /* the first batch has no end before it */
    n--;
    memcpy(expected + n, "e.", 2);
    expect_bytes(expected, n + 2);
}
END_TEST

START_TEST(a_dictionary_counts_pairs_not_values)
{
    pl_writer *w = start(&pl_writer_pickle);
    pl_write_dict(w);
    for (int i = 0; i < 1001; i++) {
        pl_write_key(w, "k");
        pl_write_none(w);
    }
    pl_write_end(w);
    ck_assert(pl_writer_finish(w));
    size_t n_batches = 0;
    for (size_t i = 0; i < n_out; i++) {
        n_batches += out[i] == 'u';
    }
    ck_assert_uint_eq(n_batches, 2);
}
END_TEST

START_TEST(what_is_kept_is_recalled_beyond_256_too)
{
    uint32_t memos[300] = { 0 };
    pl_writer *w = start(&pl_writer_pickle);
    pl_write_list(w);
    for (int i = 0; i < 300; i++) {
        pl_write_list(w);
        pl_write_end(w);
        pl_write_keep(w, &memos[i]);
        ck_assert_uint_eq(memos[i], (uint32_t)i + 1);
    }
    ck_assert(pl_write_recall(w, memos[255]));
    ck_assert(pl_write_recall(w, memos[256]));
    ck_assert(!pl_write_recall(w, 0));
    pl_write_end(w);
    ck_assert(pl_writer_finish(w));
    ck_assert_mem_eq(out + n_out - 2 - 7, "h\xffj\x00\x01\x00\x00", 7);
    ck_assert_mem_eq(out + 4 + 255 * 3, "]q\xff]r\x00\x01\x00\x00", 9);
}
END_TEST

START_TEST(json_recalls_nothing)
{
    uint32_t memo = 0;
    pl_writer *w = start(&pl_writer_json);
    pl_write_list(w);
    pl_write_list(w);
    pl_write_end(w);
    pl_write_keep(w, &memo);
    ck_assert_uint_eq(memo, 0);
    ck_assert(!pl_write_recall(w, memo));
    pl_write_end(w);
    expect("[[]]\n");
}
END_TEST

START_TEST(an_output_that_refuses_is_not_asked_again)
{
    char *text = calloc(1, 5 * PL_WRITER_BYTES);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', 5 * PL_WRITER_BYTES);
    for (unsigned k = 0;; k++) {
        pl_writer *w = start(_i ? &pl_writer_json : &pl_writer_pickle);
        n_allowed = k;
        pl_write_list(w);
        pl_write_text(w, text, 5 * PL_WRITER_BYTES);
        pl_write_end(w);
        if (pl_writer_finish(w)) {
            ck_assert_uint_gt(k, 4);
            break;
        }
        ck_assert_uint_eq(n_writes, k + 1);
    }
    free(text);
}
END_TEST

SUITE(api_writer)
{
    static const TTest *const *const tests[] = {
        &a_number_is_pickled_with_its_shortest_opcode,
        &negative_numbers_are_pickled_in_twos_complement,
        &plain_values_are_pickled_as_their_opcodes,
        &plain_values_are_json,
        &a_real_number_of_json_reads_back_as_the_same,
        &json_escapes_what_it_must,
        &what_is_no_utf8_is_replaced,
        &a_word_is_pickled_once,
        &more_words_than_the_memo_holds_are_written_out,
        &lists_and_dictionaries_are_filled_by_the_thousand,
        &a_dictionary_counts_pairs_not_values,
        &what_is_kept_is_recalled_beyond_256_too,
        &json_recalls_nothing,
    };
    TCase *tcase = tcase_create("formats");
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        tcase_add_test(tcase, *tests[i]);
    }
    tcase_add_loop_test(tcase, an_output_that_refuses_is_not_asked_again, 0, 2);
    suite_add_tcase(suite, tcase);
}

/* import_pickle_test.c - pickles of plain data are read, and nothing else ever is. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/import/pickle.h"
#include "bench/import/pickle_opcode.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

static const char *const wanted[] = { "a", "b", "list", NULL };

static bench_pickle pickle;
static bench_failure failure;

static bool read_bytes(const void *bytes, size_t n)
{
    const char *path = bench_child_file(".pickle", bytes, n);
    bool ok = bench_pickle_read(path, NULL, wanted, &pickle, &failure);
    unlink(path);
    return ok;
}

/* Reads a pickle of protocol 4 with this body, behind the two bytes of PROTO. */
#define READ(text) read_body(text, sizeof(text) - 1)

static bool read_body(const char *body, size_t n)
{
    char bytes[4096] = "\x80\x04";
    ck_assert_uint_lt(n + 2, sizeof bytes);
    memcpy(bytes + 2, body, n);
    return read_bytes(bytes, n + 2);
}

static void expect(const char *part)
{
    ck_assert_msg(strstr(failure.text, part) != NULL, "'%s' is not in '%s'", part, failure.text);
}

#define REFUSES(text, part)                                                                        \
    ck_assert_msg(!READ(text), "%s", part);                                                        \
    expect(part)

static int64_t read_integer(const char *body, size_t n)
{
    ck_assert_msg(read_body(body, n), "%s", failure.text);
    ck_assert_int_eq(pickle.root.kind, BENCH_PICKLE_INTEGER);
    int64_t integer = pickle.root.as.integer;
    bench_pickle_free(&pickle);
    return integer;
}

#define INTEGER(text) read_integer(text, sizeof(text) - 1)

START_TEST(integers_of_every_form_have_their_value)
{
    ck_assert_int_eq(INTEGER("K\xff."), 255);
    ck_assert_int_eq(INTEGER("M\x01\xff."), 65281);
    ck_assert_int_eq(INTEGER("J\xff\xff\xff\xff."), -1);
    ck_assert_int_eq(INTEGER("J\x00\x00\x00\x80."), INT32_MIN);
    ck_assert_int_eq(INTEGER("\x8a\x00."), 0);
    ck_assert_int_eq(INTEGER("\x8a\x01\x80."), -128);
    ck_assert_int_eq(INTEGER("\x8a\x03\xff\xff\x00."), 65535);
    ck_assert_int_eq(INTEGER("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), INT64_MAX);
    ck_assert_int_eq(INTEGER("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), INT64_MIN);
    ck_assert_int_eq(INTEGER("\x8b\x02\x00\x00\x00\x00\x01."), 256);
}
END_TEST

START_TEST(an_integer_beyond_64_bits_is_known_as_such)
{
    ck_assert(READ("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."));
    ck_assert_int_eq(pickle.root.kind, BENCH_PICKLE_HUGE);
    bench_pickle_free(&pickle);
}
END_TEST

START_TEST(reals_strings_and_words_have_their_value)
{
    ck_assert(READ("G\x3f\xe0\0\0\0\0\0\0."));
    ck_assert_int_eq(pickle.root.kind, BENCH_PICKLE_REAL);
    ck_assert(pickle.root.as.real == 0.5);
    bench_pickle_free(&pickle);
    static const char *const texts[] = { "\x8c\x02hi.", "X\x02\0\0\0hi.",
                                         "\x8d\x02\0\0\0\0\0\0\0hi." };
    static const size_t lengths[] = { 5, 8, 12 };
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(read_body(texts[i], lengths[i]), "%s", failure.text);
        ck_assert(bench_pickle_is_text(&pickle.root, "hi"));
        ck_assert(!bench_pickle_is_text(&pickle.root, "h"));
        bench_pickle_free(&pickle);
    }
    ck_assert(READ("\x88."));
    ck_assert_int_eq(pickle.root.kind, BENCH_PICKLE_BOOL);
    ck_assert_int_eq(pickle.root.as.integer, 1);
    bench_pickle_free(&pickle);
    ck_assert(READ("N."));
    ck_assert_int_eq(pickle.root.kind, BENCH_PICKLE_NONE);
    bench_pickle_free(&pickle);
}
END_TEST

START_TEST(containers_keep_their_order_and_the_wanted_keys)
{
    /* {"a": [1, (2, 3), 4], "x": 5, "b": 6}, then "b" again */
    ck_assert_msg(READ("}(\x8c\x01"
                       "a](K\x01K\x02K\x03\x86K\x04"
                       "e\x8c\x01xK\x05\x8c\x01"
                       "bK\x06u\x8c\x01"
                       "bK\x07s."),
                  "%s", failure.text);
    const bench_pickle_value *list = bench_pickle_get(&pickle.root, "a");
    ck_assert_ptr_nonnull(list);
    ck_assert_int_eq(list->kind, BENCH_PICKLE_LIST);
    ck_assert_uint_eq(list->as.node->n, 3);
    ck_assert_int_eq(list->as.node->items[0].as.integer, 1);
    ck_assert_int_eq(list->as.node->items[1].kind, BENCH_PICKLE_TUPLE);
    ck_assert_int_eq(list->as.node->items[2].as.integer, 4);
    ck_assert_uint_eq(list->at, 7);
    ck_assert_ptr_null(bench_pickle_get(&pickle.root, "x"));
    ck_assert_int_eq(bench_pickle_get(&pickle.root, "b")->as.integer, 7);
    ck_assert_uint_eq(pickle.root.as.node->n, 4);
    bench_pickle_free(&pickle);
}
END_TEST

START_TEST(the_memo_gives_back_what_was_put)
{
    /* [x, x, y, y, y] by MEMOIZE, BINGET 0, BINPUT 7, BINGET 7 and LONG_BINGET 7 */
    ck_assert_msg(READ("](K\x2a\x94h\x00K\x2bq\x07h\x07j\x07\0\0\0e."), "%s", failure.text);
    static const int64_t values[] = { 42, 42, 43, 43, 43 };
    ck_assert_uint_eq(pickle.root.as.node->n, 5);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(pickle.root.as.node->items[i].as.integer, values[i]);
    }
    bench_pickle_free(&pickle);
}
END_TEST

START_TEST(dictionaries_without_a_wanted_key_are_dropped_from_lists)
{
    ck_assert(READ("](}}\x8c\x01"
                   "aK\x01se."));
    ck_assert_uint_eq(pickle.root.as.node->n, 1);
    ck_assert(pickle.root.as.node->has_dropped);
    bench_pickle_free(&pickle);
}
END_TEST

/* Opcodes that run code, name classes or belong to protocol 0; and bytes that are not opcodes. */
START_TEST(every_other_opcode_is_refused_by_name_and_offset)
{
    static const char known[] = "(.NJKMGXaehjqr]su}t)\x80\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x94"
                                "\x95";
    unsigned n_refused = 0;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (opcode != 0 && memchr(known, (int)opcode, sizeof known - 1) != NULL) {
            continue;
        }
        char body[64] = "K\x01K\x02";
        body[4] = (char)opcode;
        memset(body + 5, '.', 40);
        ck_assert_msg(!read_body(body, 45), "0x%02x", opcode);
        const char *name = bench_pickle_opcode_name((unsigned char)opcode);
        expect(name ? name : "is no opcode");
        expect(": byte 6: ");
        n_refused += name != NULL;
    }
    ck_assert_uint_eq(n_refused, 68 - 32);
    REFUSES("cos\nsystem\n\x8c\x04true\x85R.", ": byte 2: GLOBAL: not an opcode of plain data");
    REFUSES("\x8c\x02os\x8c\x06system\x93.", ": byte 14: STACK_GLOBAL: ");
}
END_TEST

START_TEST(what_no_pickler_writes_is_told_with_its_place)
{
    ck_assert(!read_bytes("", 0));
    expect(": byte 0: not a pickle of protocol 2 to 5");
    ck_assert(!read_bytes("\x80\x06N.", 4));
    expect(": byte 0: PROTO: protocol 6 is not known; 2 to 5 are");
    ck_assert(!read_bytes("\x80\x01N.", 4));
    expect("protocol 1 is not known");
    REFUSES("", ": byte 2: the file is cut short: it has 2 bytes, and the pickle goes on. ");
    REFUSES("K\x01", ": byte 4: the file is cut short: it has 4 bytes");
    REFUSES("K", ": byte 3: the file is cut short: it has 3 bytes");
    REFUSES(".", "STOP: not one value, but 0 are left");
    REFUSES("K\x01K\x02.", "STOP: not one value, but 2 are left");
    REFUSES("K\x01(.", "STOP: not one value");
    REFUSES("N.N", ": byte 3: STOP: 1 bytes follow it");
    REFUSES("e.", "APPENDS: there is no mark");
    REFUSES("(e.", "APPENDS: there is no list to append to");
    REFUSES("}(K\x01"
            "e.",
            "APPENDS: there is no list to append to");
    REFUSES("](K\x01"
            "a.",
            "APPEND: there is no list to append to");
    REFUSES("a.", "APPEND: there is nothing on the stack for it");
    REFUSES("](K\x01K\x02u.", "SETITEMS: there is no dictionary to fill");
    REFUSES("}(K\x01u.", "SETITEMS: a key without a value");
    REFUSES("}K\x01s.", "SETITEM: there is no dictionary to fill");
    REFUSES("K\x01(\x86.", "TUPLE2: there is nothing on the stack for it");
    REFUSES("h\x05.", "BINGET: memo id 5 was never put");
    REFUSES("K\x01q\x03h\x02.", "BINGET: memo id 2 was never put");
    REFUSES("j\xff\xff\xff\xff.", "LONG_BINGET: memo id 4294967295 was never put");
    REFUSES("K\x01r\xff\xff\xff\xff.", "LONG_BINPUT: memo id 4294967295 is absurd");
    REFUSES("\x94.", "MEMOIZE: there is nothing on the stack for it");
    REFUSES("\x8b\xff\xff\xff\xff.", "LONG4: a negative length");
    REFUSES("\x8b\xff\xff\xff\x7f.", "the file is cut short");
    REFUSES("\x8a\xff\x01.", "the file is cut short");
    REFUSES("X\xff\xff\xff\xff.", "BINUNICODE: a string of more than 16 MiB");
    REFUSES("X\xff\xff\0\0.", "the file is cut short");
    REFUSES("\x8d\0\0\0\0\0\0\0\x80.", "BINUNICODE8: a string of more than 16 MiB");
    REFUSES("\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", "the file is cut short");
}
END_TEST

START_TEST(nesting_is_bounded)
{
    char body[256];
    memset(body, '(', 65);
    ck_assert(!read_body(body, 65));
    expect(": byte 66: MARK: nested more than 64 deep");
    /* Without marks the reader's stack holds no levels: [[[...]]] by APPEND. */
    char deep[3000];
    memset(deep, ']', 1000);
    memset(deep + 1000, 'a', 999);
    deep[1999] = '.';
    ck_assert_msg(read_body(deep, 2000), "%s", failure.text);
    bench_pickle_free(&pickle);
}
END_TEST

/* Each list holds the previous list ten times. This gives 10^60 leaves in some 2,000 bytes. */
START_TEST(a_bomb_of_references_takes_no_more_than_its_bytes)
{
    char body[4096] = "](K\x01"
                      "e\x94";
    size_t n = 6;
    for (int level = 0; level < 60; level++) {
        memcpy(body + n, "](", 2);
        n += 2;
        for (int i = 0; i < 10; i++) {
            body[n++] = 'h';
            body[n++] = (char)level;
        }
        memcpy(body + n, "e\x94", 2);
        n += 2;
    }
    body[n++] = '.';
    ck_assert(!read_body(body, n)); /* 61 lists are on the stack */
    expect("STOP: not one value, but 61 are left");
}
END_TEST

/* A list is one byte in the file and some fifty in memory. */
START_TEST(host_memory_is_bounded_by_the_bytes)
{
    enum { N = 4 << 20 };
    char *body = malloc(N);
    ck_assert_ptr_nonnull(body);
    memset(body, ']', N);
    for (size_t i = 1000; i < N; i += 1000) { /* they go into the first list */
        memcpy(body + i, "e(", 2);
    }
    memcpy(body, "\x80\x04](", 4);
    ck_assert(!read_bytes(body, N));
    expect(": the pickle takes more than ");
    free(body);
}
END_TEST

START_TEST(the_stack_is_bounded)
{
    enum { N = 2 << 20 };
    char *body = malloc(N);
    ck_assert_ptr_nonnull(body);
    memset(body, 'N', N);
    memcpy(body, "\x80\x04", 2);
    ck_assert(!read_bytes(body, N));
    expect("byte 1048578: NONE: more than 1048576 values are on the stack");
    free(body);
}
END_TEST

SUITE(bench_import_pickle)
{
    TCase *good = tcase_create("data");
    tcase_add_test(good, integers_of_every_form_have_their_value);
    tcase_add_test(good, an_integer_beyond_64_bits_is_known_as_such);
    tcase_add_test(good, reals_strings_and_words_have_their_value);
    tcase_add_test(good, containers_keep_their_order_and_the_wanted_keys);
    tcase_add_test(good, the_memo_gives_back_what_was_put);
    tcase_add_test(good, dictionaries_without_a_wanted_key_are_dropped_from_lists);
    suite_add_tcase(suite, good);
    TCase *bad = tcase_create("refusals");
    tcase_add_test(bad, every_other_opcode_is_refused_by_name_and_offset);
    tcase_add_test(bad, what_no_pickler_writes_is_told_with_its_place);
    tcase_add_test(bad, nesting_is_bounded);
    tcase_add_test(bad, host_memory_is_bounded_by_the_bytes);
    tcase_add_test(bad, the_stack_is_bounded);
    tcase_add_test(bad, a_bomb_of_references_takes_no_more_than_its_bytes);
    suite_add_tcase(suite, bad);
}

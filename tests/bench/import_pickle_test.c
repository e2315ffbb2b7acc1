/* import_pickle_test.c - pickles of every protocol are read as data, and nothing is executed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/pickle/pickle.h"
#include "bench/pickle/pickle_opcode.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

enum { A, B };
static const char *const words[] = { "a", "b", "list", NULL };

static bench_pickle pickle;
static bench_failure failure;
static const bench_pickle_wants wants = { .words = words, .failure = &failure };

static bool read_bytes(const void *bytes, size_t n)
{
    const char *path = bench_child_file(".pickle", bytes, n);
    bool ok = bench_pickle_read(path, NULL, &wants, &pickle);
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

START_TEST(containers_keep_their_order_and_the_words_as_keys)
{
    /* {"a": [1, (2, 3), 4], "x": 5, "b": 6}, then "b" again */
    ck_assert_msg(READ("}(\x8c\x01"
                       "a](K\x01K\x02K\x03\x86K\x04"
                       "e\x8c\x01xK\x05\x8c\x01"
                       "bK\x06u\x8c\x01"
                       "bK\x07s."),
                  "%s", failure.text);
    const bench_pickle_value *list = bench_pickle_get(&pickle.root, A);
    ck_assert_ptr_nonnull(list);
    ck_assert_int_eq(list->kind, BENCH_PICKLE_LIST);
    ck_assert_uint_eq(list->as.node->n, 3);
    ck_assert_int_eq(list->as.node->of.items[0].as.integer, 1);
    ck_assert_int_eq(list->as.node->of.items[1].kind, BENCH_PICKLE_TUPLE);
    ck_assert_int_eq(list->as.node->of.items[2].as.integer, 4);
    ck_assert_uint_eq(list->at, 7);
    ck_assert_int_eq(bench_pickle_get(&pickle.root, B)->as.integer, 7);
    ck_assert_uint_eq(pickle.root.as.node->n, 2);
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
        ck_assert_int_eq(pickle.root.as.node->of.items[i].as.integer, values[i]);
    }
    bench_pickle_free(&pickle);
}
END_TEST

START_TEST(dictionaries_without_a_word_as_key_are_dropped_from_lists)
{
    ck_assert(READ("](}}\x8c\x01"
                   "aK\x01se."));
    ck_assert_uint_eq(pickle.root.as.node->n, 1);
    ck_assert(pickle.root.as.node->has_dropped);
    bench_pickle_free(&pickle);
}
END_TEST

/* Every opcode is known, and a byte that is none is told. */
START_TEST(a_byte_that_is_no_opcode_is_told_with_its_place)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        char body[64] = "K\x01K\x02";
        body[4] = (char)opcode;
        memset(body + 5, '.', 40);
        bool is_known = bench_pickle_opcode_name((unsigned char)opcode) != NULL;
        bool ok = read_body(body, 45);
        ck_assert_msg(!ok, "0x%02x", opcode);
        char place[64];
        snprintf(place, sizeof place, ": byte 6: pickle: 0x%02x is no opcode", opcode);
        ck_assert_msg((strstr(failure.text, place) != NULL) != is_known, "%s", failure.text);
    }
}
END_TEST

/* What names or calls code, and what it would have been given, leaves an object behind. */
#define IS_OBJECT(body, class) expect_object(body, sizeof(body) - 1, class)

static void expect_object(const char *body, size_t n, const char *class)
{
    ck_assert_msg(read_body(body, n), "%s", failure.text);
    ck_assert_int_eq(pickle.root.kind, BENCH_PICKLE_OBJECT);
    ck_assert_uint_eq(pickle.root.length, strlen(class));
    ck_assert_int_eq(strncmp(pickle.root.as.text, class, strlen(class)), 0);
    bench_pickle_free(&pickle);
}

START_TEST(nothing_is_executed_and_an_object_stands_in_its_place)
{
    IS_OBJECT("cos\nsystem\n\x8c\x04true\x85R.", "system");
    IS_OBJECT("\x8c\x02os\x8c\x06system\x93.", "system");
    IS_OBJECT("cdatetime\ndatetime\nC\x0a"
              "0123456789\x85R.",
              "datetime");
    IS_OBJECT("cm\nT\n)\x81}b.", "T");
    IS_OBJECT("cm\nT\n)}\x92.", "T");
    IS_OBJECT("(cm\nT\nK\x01o.", "T");
    IS_OBJECT("(K\x01im\nT\n.", "T");
    IS_OBJECT("Pa name\n.", "");
    IS_OBJECT("K\x01Q.", "");
    IS_OBJECT("\x82\x01.", "");
    IS_OBJECT("\x84\x01\0\0\0.", "");
    IS_OBJECT("\x8f(K\x01K\x02\x90.", "");
    IS_OBJECT("(K\x01K\x02\x91.", "");
    IS_OBJECT("B\x02\0\0\0hi.", "");
    IS_OBJECT("\x96\x02\0\0\0\0\0\0\0hi.", "");
    IS_OBJECT("\x97\x98.", "");
    /* What goes into an object is forgotten. */
    IS_OBJECT("cm\nT\n)R(\x8c\x01"
              "aK\x01u(K\x01"
              "e.",
              "T");
    ck_assert_int_eq(access("/tmp/pleat_executed", F_OK), -1);
    ck_assert(READ("cos\nsystem\n(S'touch /tmp/pleat_executed'\ntR."));
    bench_pickle_free(&pickle);
    ck_assert_int_eq(access("/tmp/pleat_executed", F_OK), -1);
}
END_TEST

START_TEST(a_dictionary_of_pythons_library_is_a_dictionary)
{
    static const char *const classes[] = { "OrderedDict", "defaultdict" };
    for (unsigned i = 0; i < 2; i++) {
        char body[96];
        int n = snprintf(body, sizeof body, "ccollections\n%s\n)R(\x8c\x01%sK\x07u.", classes[i],
                         "a");
        ck_assert_msg(read_body(body, (size_t)n), "%s", failure.text);
        ck_assert_int_eq(pickle.root.kind, BENCH_PICKLE_DICT);
        ck_assert_int_eq(bench_pickle_get(&pickle.root, A)->as.integer, 7);
        bench_pickle_free(&pickle);
    }
}
END_TEST

/* As Python writes {"a": [1, -2, 2**40, True, "b", 1.5, (1,)], "b": None} in protocols 0 and 1. */
START_TEST(protocols_0_and_1_give_the_same_values)
{
    static const char zero[] =
        "(dp0\nVa\np1\n(lp2\nI1\naI-2\naL1099511627776L\naI01\naVb\np3\naF1.5\na"
        "(I1\ntp4\nasg3\nNs.";
    static const char one[] = "}q\0(X\1\0\0\0aq\1]q\2(K\1J\xfe\xff\xff\xffL1099511627776L\nI01\n"
                              "U\1bq\3G\x3f\xf8\0\0\0\0\0\0(K\1tq\4eh\3Nu.";
    static const struct {
        const char *bytes;
        size_t n;
    } forms[] = { { zero, sizeof zero - 1 }, { one, sizeof one - 1 } };
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_msg(read_bytes(forms[i].bytes, forms[i].n), "%s", failure.text);
        const bench_pickle_value *list = bench_pickle_get(&pickle.root, A);
        ck_assert_uint_eq(list->as.node->n, 7);
        const bench_pickle_value *items = list->as.node->of.items;
        ck_assert_int_eq(items[0].as.integer, 1);
        ck_assert_int_eq(items[1].as.integer, -2);
        ck_assert_int_eq(items[2].as.integer, INT64_C(1) << 40);
        ck_assert(items[3].kind == BENCH_PICKLE_BOOL && items[3].as.integer == 1);
        ck_assert(bench_pickle_is_word(&items[4], B));
        ck_assert_int_eq(items[5].kind, BENCH_PICKLE_REAL);
        ck_assert_int_eq(items[6].kind, BENCH_PICKLE_TUPLE);
        ck_assert_int_eq(bench_pickle_get(&pickle.root, B)->kind, BENCH_PICKLE_NONE);
        bench_pickle_free(&pickle);
    }
}
END_TEST

START_TEST(a_decimal_integer_is_exact_or_known_to_be_huge)
{
    static const struct {
        const char *text;
        int64_t integer;
        bool is_huge;
    } numbers[] = {
        { "0", 0, false },
        { "9223372036854775807", INT64_MAX, false },
        { "9223372036854775808", 0, true },
        { "-9223372036854775808", INT64_MIN, false },
        { "-9223372036854775809", 0, true },
        { "99999999999999999999999999", 0, true },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        for (unsigned is_json = 0; is_json < 2; is_json++) {
            char text[64];
            int n = snprintf(text, sizeof text, is_json ? "{\"a\":%s}" : "(VaI%s\n",
                             numbers[i].text);
            n += is_json ? 0 : snprintf(text, sizeof text, "(Va\nI%s\nd.", numbers[i].text) - n;
            ck_assert_msg(read_bytes(text, (size_t)n), "%s", failure.text);
            const bench_pickle_value *v = bench_pickle_get(&pickle.root, A);
            ck_assert_int_eq(v->kind,
                             numbers[i].is_huge ? BENCH_PICKLE_HUGE : BENCH_PICKLE_INTEGER);
            ck_assert(numbers[i].is_huge || v->as.integer == numbers[i].integer);
            bench_pickle_free(&pickle);
        }
    }
}
END_TEST

/* ---- JSON ---- */

static bool read_json(const char *text)
{
    return read_bytes(text, strlen(text));
}

START_TEST(json_gives_the_same_values)
{
    ck_assert_msg(
        read_json("\xef\xbb\xbf {\"x\": [1, {}], \"a\": [ -3, 2.5e3, true, false, null, "
                  "NaN, -Infinity, \"b\", [], {} , [0, 0], [1, \"\"]] ,\n\"\\u0062\": \"\\ud83d "
                  "\\u00e9\\\"\\n\"}\n"),
        "%s", failure.text);
    const bench_pickle_value *list = bench_pickle_get(&pickle.root, A);
    const bench_pickle_value *items = list->as.node->of.items;
    static const bench_pickle_kind kinds[] = {
        BENCH_PICKLE_INTEGER, BENCH_PICKLE_REAL,  BENCH_PICKLE_BOOL, BENCH_PICKLE_BOOL,
        BENCH_PICKLE_NONE,    BENCH_PICKLE_REAL,  BENCH_PICKLE_REAL, BENCH_PICKLE_TEXT,
        BENCH_PICKLE_LIST,    BENCH_PICKLE_TUPLE, BENCH_PICKLE_LIST,
    };
    ck_assert_uint_eq(list->as.node->n, sizeof kinds / sizeof kinds[0]);
    ck_assert(list->as.node->has_dropped); /* {} */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        ck_assert_int_eq(items[i].kind, kinds[i]);
    }
    ck_assert_int_eq(items[0].as.integer, -3);
    ck_assert_int_eq(items[9].as.integer, 0); /* the pool of everybody */
    ck_assert(bench_pickle_is_text(bench_pickle_get(&pickle.root, B), "\xed\xa0\xbd \xc3\xa9\"\n"));
    bench_pickle_free(&pickle);
}
END_TEST

START_TEST(what_is_no_json_is_told_with_its_place)
{
    static const struct {
        const char *text;
        const char *part;
    } bad[] = {
        { "{\"a\" 1}", ": byte 5: JSON: a ',' or a ':' is missing" },
        { "{\"a\", 1}", ": byte 4: JSON: a ',' too many" },
        { "{\"a\": 1: 2}", ": byte 7: JSON: a ':' too many" },
        { "{1: 2}", ": byte 2: JSON: a key that is no string" },
        { "[1, 2}", ": byte 5: JSON: a bracket closes what was not opened" },
        { "{\"a\": 1]", "JSON: a bracket closes what was not opened" },
        { "[1,]", "JSON: neither a value nor the end of one" },
        { "[wrong]", ": byte 1: JSON: neither a value" },
        { "[1.2.x]", "JSON: neither a value" },
        { "[\"\\x\"]", "JSON: an escape that is none" },
        { "[\"\\u12g4\"]", "JSON: an escape that is none" },
        { "[1] 2", "JSON: 1 bytes follow it" },
        { "[", ": the file is cut short: it has 1 bytes, and the JSON goes on" },
        { "{\"a", ": the file is cut short: it has 3 bytes" },
        { "[1", ": the file is cut short: it has 2 bytes" },
        { "[\"\\", ": the file is cut short" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!read_json(bad[i].text), "%s", bad[i].text);
        expect(bad[i].part);
    }
    char deep[128];
    memset(deep, '[', 65);
    deep[65] = '\0';
    ck_assert(!read_json(deep));
    expect(": byte 64: JSON: nested more than 64 deep");
}
END_TEST

START_TEST(a_long_array_of_json_comes_whole)
{
    enum { N = 2500 };
    static char text[16 * N] = "{\"a\":[[0]";
    size_t n = strlen(text);
    for (int i = 1; i < N; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, ",%d", i);
    }
    memcpy(text + n, "]}", 3);
    ck_assert_msg(read_json(text), "%s", failure.text);
    const bench_pickle_node *list = bench_pickle_get(&pickle.root, A)->as.node;
    ck_assert_uint_eq(list->n, N);
    for (int i = 1; i < N; i++) {
        ck_assert_int_eq(list->of.items[i].as.integer, i);
    }
    bench_pickle_free(&pickle);
}
END_TEST

START_TEST(what_no_pickler_writes_is_told_with_its_place)
{
    ck_assert(!read_bytes("", 0));
    expect(": byte 0: neither a pickle nor JSON");
    ck_assert(!read_bytes("\x03\x04", 2));
    expect(": byte 0: neither a pickle nor JSON");
    ck_assert(!read_bytes("\x80\x06N.", 4));
    expect(": byte 0: PROTO: protocol 6 is not known; 0 to 5 are");
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
    REFUSES("X\xff\xff\xff\xff.", "the file is cut short");
    REFUSES("X\xff\xff\0\0.", "the file is cut short");
    REFUSES("\x8d\0\0\0\0\0\0\0\x80.", "the file is cut short");
    REFUSES("N\x80\x04.", "PROTO: stands in the middle of the pickle");
    REFUSES("Sa\n.", "STRING: a string without quotes");
    REFUSES("Ione\n.", "INT: a number that is none");
    REFUSES("L\n.", "LONG: a number that is none");
    REFUSES("NpX\n.", "PUT: a memo id that is no number");
    REFUSES("Ng-1\n.", "GET: a memo id that is no number");
    REFUSES("I1.", "the file is cut short");
    REFUSES("l.", "LIST: there is no mark");
    REFUSES("(NNNd.", "DICT: a key without a value");
    REFUSES("0.", "POP: there is nothing on the stack for it");
    REFUSES("NR.", "REDUCE: there is nothing on the stack for it");
    REFUSES("(o.", "OBJ: there is nothing on the stack for it");
    REFUSES("cos\nsystem", "the file is cut short");
    REFUSES("C\x05hi.", "the file is cut short");
    REFUSES("(\x90.", "ADDITEMS: there is nothing on the stack for it");
    REFUSES("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02K\x01.",
            ": an old file of torch.save, which is several pickles: load it, and write it again");
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
    expect(": the file takes more than ");
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
    tcase_add_test(good, containers_keep_their_order_and_the_words_as_keys);
    tcase_add_test(good, the_memo_gives_back_what_was_put);
    tcase_add_test(good, dictionaries_without_a_word_as_key_are_dropped_from_lists);
    tcase_add_test(good, a_dictionary_of_pythons_library_is_a_dictionary);
    tcase_add_test(good, protocols_0_and_1_give_the_same_values);
    tcase_add_test(good, a_decimal_integer_is_exact_or_known_to_be_huge);
    tcase_add_test(good, json_gives_the_same_values);
    tcase_add_test(good, a_long_array_of_json_comes_whole);
    suite_add_tcase(suite, good);
    TCase *bad = tcase_create("refusals");
    tcase_add_test(bad, a_byte_that_is_no_opcode_is_told_with_its_place);
    tcase_add_test(bad, nothing_is_executed_and_an_object_stands_in_its_place);
    tcase_add_test(bad, what_is_no_json_is_told_with_its_place);
    tcase_add_test(bad, what_no_pickler_writes_is_told_with_its_place);
    tcase_add_test(bad, nesting_is_bounded);
    tcase_add_test(bad, host_memory_is_bounded_by_the_bytes);
    tcase_add_test(bad, the_stack_is_bounded);
    tcase_add_test(bad, a_bomb_of_references_takes_no_more_than_its_bytes);
    suite_add_tcase(suite, bad);
}

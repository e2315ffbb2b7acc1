/* work_test.c - the work of any spec's text, and the events from the cursors of works. */
/* labels: unit model long */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/base/random.h"
#include "bench/command/parse_options.h"
#include "bench/run/replay.h"
#include "bench/works/registry.h"
#include "bench/works/work.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

static bench_work work;
static bench_failure failure;
static bench_values values;

static void tear_down(void)
{
    bench_work_close(&work);
}

/* ---- parameters ---- */

static void *create_nothing(const bench_values *given, bench_failure *problem)
{
    (void)given;
    (void)problem;
    return NULL;
}

static const char *const colours[] = { "red", "dark-green", NULL };

enum { P_COUNT, P_PART, P_COLOUR, P_DEBT };

static const bench_param sample_params[] = {
    { .name = "count",
      .doc = "how many",
      .standard = 7,
      .least = 1,
      .most = 1e6,
      .is_whole = true },
    { .name = "part", .doc = "of all", .standard = 0.5, .least = 0, .most = 1 },
    { .name = "colour", .doc = "of the paint", .standard = 1, .words = colours },
    { .name = "debt", .doc = "below zero", .standard = -1, .least = -8, .most = 0 },
    { .name = NULL },
};

static const bench_generator sample = {
    .name = "sample",
    .doc = "for tests",
    .params = sample_params,
    .iterations = 12,
    .create = create_nothing,
};

static bool read_values(const char *text)
{
    failure.text[0] = '\0';
    return bench_values_read(&sample, text, &values, &failure);
}

START_TEST(values_not_given_are_the_standard_ones)
{
    ck_assert(read_values(""));
    ck_assert_uint_eq(values.iterations, 12);
    ck_assert_uint_eq(values.seed, 1);
    ck_assert_double_eq(values.of[P_COUNT], 7);
    ck_assert_double_eq(values.of[P_PART], 0.5);
    ck_assert_double_eq(values.of[P_COLOUR], 1);
    ck_assert_double_eq(values.of[P_DEBT], -1);
}
END_TEST

START_TEST(values_are_numbers_sizes_or_words)
{
    ck_assert_msg(read_values("count=4K,part=.125,colour=red,debt=-2.5,iterations=1e3,seed=0"),
                  "%s", failure.text);
    ck_assert_double_eq(values.of[P_COUNT], 4096);
    ck_assert_double_eq(values.of[P_PART], 0.125);
    ck_assert_double_eq(values.of[P_COLOUR], 0);
    ck_assert_double_eq(values.of[P_DEBT], -2.5);
    ck_assert_uint_eq(values.iterations, 1000);
    ck_assert_uint_eq(values.seed, 0);
    ck_assert(read_values("seed=4294967295,count=64KiB"));
    ck_assert_uint_eq(values.seed, UINT32_MAX);
    ck_assert_double_eq(values.of[P_COUNT], 65536);
}
END_TEST

/* The message must contain both. */
static const struct {
    const char *text;
    const char *culprit;
    const char *said;
} bad_values[] = {
    { "cout=1", "'cout'", "iterations, seed, count, part, colour, debt" },
    { "Count=1", "'Count'", "count" },
    { " count=1", "' count'", "count" },
    { "count =1", "'count '", "count" },
    { "count", "'count'", "key=value" },
    { "count=", "'count='", "key=value" },
    { "=1", "'=1'", "key=value" },
    { "=", "'='", "key=value" },
    { ",", "''", "key=value" },
    { ",count=1", "''", "key=value" },
    { "count=1,,part=1", "''", "key=value" },
    { "count=1,", "sample", "last comma" },
    { "count=0", "'count'", "from 1 to 1000000" },
    { "count=1000001", "'1000001'", "from 1 to 1000000" },
    { "count=2M", "'2M'", "whole number" },
    { "count=1.5", "'1.5'", "whole number" },
    { "count=-1", "'-1'", "from 1" },
    { "count= 1", "' 1'", "'count'" },
    { "count=1 ", "'1 '", "'count'" },
    { "count=0x10", "'0x10'", "'count'" },
    { "count=1e", "'1e'", "'count'" },
    { "count=1e999", "'1e999'", "'count'" },
    { "count=inf", "'inf'", "'count'" },
    { "count=nan", "'nan'", "'count'" },
    { "count=4KB", "'4KB'", "'count'" },
    { "count=1;part=1", "'1;part=1'", "'count'" },
    { "count=1=1", "'1=1'", "'count'" },
    { "count=\xef\xbc\x91", "'\xef\xbc\x91'", "'count'" },
    { "count=%n%n%s", "'%n%n%s'", "'count'" },
    { "part=1.0001", "'1.0001'", "from 0 to 1" },
    { "part=-0.1", "'-0.1'", "from 0 to 1" },
    { "part=-nan", "'-nan'", "'part'" },
    { "debt=1", "'1'", "from -8 to 0" },
    { "colour=blue", "'blue'", "red, dark-green" },
    { "colour=Red", "'Red'", "red, dark-green" },
    { "colour=1", "'1'", "red, dark-green" },
    { "colour=re", "'re'", "red, dark-green" },
    { "iterations=0", "'iterations'", "from 1" },
    { "iterations=1000000001", "'1000000001'", "1000000000" },
    { "seed=-1", "'-1'", "from 0" },
    { "seed=4294967296", "'4294967296'", "4294967295" },
    { "part=1,part=1", "'part'", "twice" },
    { "seed=1,count=1,seed=1", "'seed'", "twice" },
};

START_TEST(a_bad_value_is_refused_with_its_key_and_what_is_allowed)
{
    for (size_t i = 0; i < sizeof bad_values / sizeof bad_values[0]; i++) {
        const char *text = bad_values[i].text;
        ck_assert_msg(!read_values(text), "'%s' is accepted", text);
        ck_assert_msg(strncmp(failure.text, "sample: ", 8) == 0, "%s", failure.text);
        ck_assert_msg(strstr(failure.text, bad_values[i].culprit) != NULL, "'%s': %s", text,
                      failure.text);
        ck_assert_msg(strstr(failure.text, bad_values[i].said) != NULL, "'%s': %s", text,
                      failure.text);
    }
}
END_TEST

/* Items of every length, around the size of the reader's own buffer. */
START_TEST(an_item_of_any_length_is_read_or_refused)
{
    char text[4096];
    for (size_t n = 1; n + 16 < sizeof text; n += n < 200 ? 1 : 211) {
        memset(text, 'k', n);
        memcpy(text + n, "=1", 3);
        ck_assert(!read_values(text));
        ck_assert_ptr_nonnull(strstr(failure.text, "'k"));
        memcpy(text, "count=1", 7);
        memset(text + 7, '1', n);
        text[7 + n] = '\0';
        ck_assert(read_values(text) == (n <= 5));
        memset(text + 7, ',', n);
        ck_assert(!read_values(text));
    }
}
END_TEST

static void assert_values_are_allowed(const char *text)
{
    ck_assert_msg(values.iterations >= 1 && values.iterations <= 1000000000, "'%s'", text);
    ck_assert_msg(values.seed <= UINT32_MAX, "'%s'", text);
    for (unsigned i = 0; sample_params[i].name; i++) {
        const bench_param *p = &sample_params[i];
        double most = p->words ? 1 : p->most;
        ck_assert_msg(values.of[i] >= p->least && values.of[i] <= most, "'%s': %s", text, p->name);
    }
}

static const char *const scraps[] = {
    "count",
    "part",
    "colour",
    "debt",
    "seed",
    "iterations",
    "=",
    "=",
    ",",
    "1",
    "0.5",
    "-1",
    "red",
    "4K",
    "1e2",
    "x",
    "%",
    "\t",
    ":",
    "\xff",
    "count=",
    "part=",
    "colour=",
    "debt=",
    ",seed=",
    ",iterations=",
    "=dark-green,",
    "",
};

START_TEST(random_scraps_never_give_values_that_are_not_allowed)
{
    bench_random random = { .state = 7 };
    unsigned n_read = 0;
    for (unsigned i = 0; i < 200000; i++) {
        char text[160] = "";
        size_t used = 0;
        for (uint64_t k = bench_random_between(&random, 1, 8); k > 0; k--) {
            size_t n = sizeof scraps / sizeof scraps[0];
            const char *scrap = scraps[bench_random_between(&random, 0, n - 1)];
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", scrap);
        }
        if (read_values(text)) {
            assert_values_are_allowed(text);
            n_read++;
        } else {
            ck_assert_msg(strncmp(failure.text, "sample: ", 8) == 0, "'%s'", text);
        }
    }
    ck_assert_uint_gt(n_read, 1000);
}
END_TEST

/* ---- specs ---- */

static void refuse(const char *spec, const char *culprit)
{
    failure.text[0] = '\0';
    ck_assert_msg(!bench_work_open(spec, &work, &failure), "'%s' is opened", spec);
    ck_assert_msg(strstr(failure.text, culprit) != NULL, "'%s': %s", spec, failure.text);
    ck_assert_ptr_null(work.generator);
    ck_assert_ptr_null(work.tape.entries);
}

START_TEST(a_spec_that_names_nothing_is_refused_with_what_there_is)
{
    static const char *const names[] = {
        "",        "#",      ":",       "::",      "=",        "pytorch",         "pytorch#",
        "churn#",  "#35901", "Churn",   "churn ",  " churn",   "PYTORCH#35901",   "pytorch#35901#",
        "churm",   "churn;", "churn\n", "%s%n%s",  "\xff\xfe", "churn=1",         "churn,seed=1",
        "\x1b[2J", "*",      "~",       "$(true)", "-",        "pytorch#35901 :",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        refuse(names[i], names[i]);
        const bench_generator *generator;
        for (unsigned k = 0; (generator = bench_generator_at(k)) != NULL; k++) {
            ck_assert_msg(strstr(failure.text, generator->name) != NULL, "'%s': %s", names[i],
                          failure.text);
        }
    }
}
END_TEST

START_TEST(a_spec_with_bad_values_is_refused_with_generator_and_culprit)
{
    static const char *const specs[][2] = {
        { "churn:nonsense", "churn: 'nonsense'" },
        { "churn::", "churn: ':'" },
        { "churn::seed=1", "churn: ':seed'" },
        { "churn:seed=1:2", "'1:2' of 'seed'" },
        { "churn:keep=1/2", "'1/2' of 'keep'" },
        { "churn:keep=../../../etc/passwd", "of 'keep'" },
        { "churn:/=/", "churn: '/'" },
        { "churn:seed=#", "'#' of 'seed'" },
        { "churn:\xff=\xff", "churn: '\xff'" },
        { "churn:%s=%n", "churn: '%s'" },
        { "churn:least=2,most=1", "churn: least is more than most" },
        { "rmm#2507:holes=", "rmm#2507: 'holes='" },
        { "rmm#2507:hole=0", "rmm#2507: bad value '0' of 'hole'" },
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        refuse(specs[i][0], specs[i][1]);
    }
}
END_TEST

START_TEST(a_spec_of_any_length_is_refused)
{
    static char spec[100000];
    for (size_t n = 1; n < sizeof spec; n = n * 3 / 2 + 1) {
        memset(spec, 'x', n);
        spec[n] = '\0';
        refuse(spec, "x");
        memcpy(spec, "churn:", n < 6 ? n : 6);
        refuse(spec, n < 5 ? "no such file" : "churn");
        memset(spec, '/', n);
        refuse(spec, "/");
        memset(spec, ':', n);
        refuse(spec, ":");
    }
}
END_TEST

/* A generator's events have the limits of a tape. */
START_TEST(an_impossible_event_is_refused_with_its_iteration)
{
    refuse("mxnet#11041:iterations=1,longest=1000000,batch=65536,hidden=65536,repeats=1",
           "iteration 0: the size is larger than 2^47");
    refuse("mxnet#11041:iterations=1,longest=1,batch=65536,hidden=65536,saved=100000,units=1000",
           "iteration 0: more than 2^60 bytes are live");
    refuse("growing-vector:iterations=1,first=16M,memory=0.5", "'0.5' of 'memory'");
    refuse("rmm#1245:iterations=2,column=4000001,live=1e13", "'1e13' of 'live'");
}
END_TEST

/* ---- files with strange names, in a folder of their own ---- */

static char folder[] = "/tmp/pleat_work_XXXXXX";
static char back[4096];

static void enter_folder(void)
{
    ck_assert_ptr_nonnull(getcwd(back, sizeof back));
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static void leave_folder(void)
{
    tear_down();
    ck_assert_int_eq(chdir(back), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void write_trace(const char *path)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("a 1 4096 0\nf 1\n", file);
    ck_assert_int_eq(fclose(file), 0);
}

static void assert_is_that_file(const char *spec, const char *name)
{
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s: %s", spec, failure.text);
    ck_assert_ptr_null(work.generator);
    ck_assert_uint_eq(work.n_events, 2);
    ck_assert_uint_eq(work.peak_live_bytes, 4096);
    ck_assert_str_eq(work.name, name);
    bench_work_close(&work);
}

START_TEST(a_file_may_have_any_name)
{
    static const struct {
        const char *file;
        const char *name;
    } files[] = {
        { "pytorch#1.trace", "pytorch#1" },
        { "a:b", "a:b" },
        { "a:b=c.trace", "a:b=c" },
        { ":", ":" },
        { "#", "#" },
        { "x=1,y=2.trace", "x=1,y=2" },
        { "-", "-" },
        { "%s%n", "%s%n" },
        { "two words.trace", "two words" },
        { "\xff\x01", "??" },
        { "\x1b[31m\x7f\r", "?[31m??" },
        { "\xc3\xa9t\xc3\xa9.trace", "\xc3\xa9t\xc3\xa9" },
        { "\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80" },
        { "\xc0\xaf\xed\xa0\x80\xc2\x9b\xf4\x90\x80\x80\xe2\x82", "?????????????" },
        { ".trace", ".trace" },
        { "churn:seed=9", "churn:seed=9" }, /* otherwise the spec of a generator */
        { "httomo#667", "httomo#667" },     /* otherwise a pattern */
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[320];
        write_trace(files[i].file);
        assert_is_that_file(files[i].file, files[i].name);
        snprintf(path, sizeof path, "./%s", files[i].file);
        assert_is_that_file(path, files[i].name);
        snprintf(path, sizeof path, "%s/%s", folder, files[i].file);
        assert_is_that_file(path, files[i].name);
        ck_assert_int_eq(unlink(files[i].file), 0);
    }
}
END_TEST

START_TEST(a_pipe_is_refused_and_not_read)
{
    ck_assert_int_eq(mkfifo("pipe.trace", 0600), 0);
    refuse("pipe.trace", "pipe.trace: is no regular file");
    ck_assert_int_eq(unlink("pipe.trace"), 0);
    refuse("/dev/null", "/dev/null: is no regular file");
}
END_TEST

START_TEST(a_long_name_is_cut_at_a_character)
{
    char name[256] = "";
    while (strlen(name) + 2 < sizeof name - 2) {
        strcat(name, "\xc3\xa9");
    }
    write_trace(name);
    assert_is_that_file(name, name);
    ck_assert_int_eq(unlink(name), 0);
    char out[64];
    bench_text_clean(name, strlen(name), out, 8);
    ck_assert_str_eq(out, "\xc3\xa9\xc3\xa9\xc3\xa9");
    ck_assert_uint_eq(bench_text_prefix(name, 5), 4);
    ck_assert_uint_eq(bench_text_prefix("ab", 5), 2);
    ck_assert_str_eq(bench_text_cut(name, 5, out, sizeof out), "\xc3\xa9\xc3\xa9...");
}
END_TEST

START_TEST(a_long_spec_is_the_name_as_it_is)
{
    static const char spec[] =
        "churn:iterations=2,allocations=50,least=1024,most=1048576,keep=0.250000000000,stay=4,"
        "streams=2,seed=7";
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s", failure.text);
    ck_assert_str_eq(work.name, spec);
}
END_TEST

START_TEST(bundled_traces_may_have_any_name)
{
    ck_assert_int_eq(mkdir("traces", 0700), 0);
    ck_assert_int_eq(setenv("PLEAT_TRACES", "traces", 1), 0);
    write_trace("traces/odd#1:2.trace");
    assert_is_that_file("odd#1:2", "odd#1:2");
    ck_assert_int_eq(unlink("traces/odd#1:2.trace"), 0);
    refuse("odd#1:2", "odd#1:2: no such file");
    ck_assert_int_eq(rmdir("traces"), 0);
}
END_TEST

START_TEST(a_folder_called_like_a_generator_does_not_hide_it)
{
    ck_assert_int_eq(mkdir("churn", 0700), 0);
    ck_assert_int_eq(mkdir("httomo#667", 0700), 0);
    ck_assert_msg(bench_work_open("churn:iterations=2", &work, &failure), "%s", failure.text);
    ck_assert_uint_eq(work.n_marks, 2);
    bench_work_close(&work);
    ck_assert_msg(bench_work_open("httomo#667", &work, &failure), "%s", failure.text);
    ck_assert_ptr_nonnull(work.generator);
    bench_work_close(&work);
    refuse("churn:keep=2", "'2' of 'keep'");
    refuse("./churn", "is a directory");
    ck_assert_int_eq(rmdir("churn"), 0);
    ck_assert_int_eq(rmdir("httomo#667"), 0);
    refuse(".", "is a directory");
    refuse("..", "is a directory");
}
END_TEST

/* ---- cursors ---- */

/* Opens a few iterations of the generator. */
static void open_generator(unsigned index)
{
    const bench_generator *generator = bench_generator_at(index);
    char spec[128];
    unsigned n = generator->iterations < 3 ? (unsigned)generator->iterations : 3;
    snprintf(spec, sizeof spec, "%s:iterations=%u,seed=5", generator->name, n);
    ck_assert_msg(bench_work_open(spec, &work, &failure), "%s: %s", spec, failure.text);
    ck_assert_str_eq(work.name, spec);
    ck_assert_uint_eq(work.n_marks, n);
}

static size_t next(bench_cursor *cursor, const bench_event **entries)
{
    size_t n = bench_cursor_next(cursor, entries, &failure);
    ck_assert_msg(n != SIZE_MAX, "%s: %s", work.name, failure.text);
    return n;
}

static bool are_equal(const bench_event *a, const bench_event *b)
{
    return a->bytes == b->bytes && a->slot == b->slot && a->stream == b->stream;
}

static unsigned n_generators(void)
{
    unsigned n = 0;
    while (bench_generator_at(n)) {
        n++;
    }
    return n;
}

START_TEST(two_cursors_of_a_generator_give_the_same_events)
{
    for (unsigned i = 0; i < n_generators(); i++) {
        open_generator(i);
        bench_cursor a;
        bench_cursor b;
        ck_assert(bench_cursor_open(&work, &a, &failure));
        ck_assert(bench_cursor_open(&work, &b, &failure));
        const bench_event *x;
        const bench_event *y;
        size_t n;
        while ((n = next(&a, &x)) != 0) {
            ck_assert_uint_eq(next(&b, &y), n);
            for (size_t k = 0; k < n; k++) {
                ck_assert_msg(are_equal(&x[k], &y[k]), "%s: entry %zu differs", work.name, k);
            }
        }
        ck_assert_uint_eq(next(&b, &y), 0);
        ck_assert_uint_eq(next(&b, &y), 0);
        bench_cursor_close(&a);
        bench_cursor_close(&b);
        bench_work_close(&work);
    }
}
END_TEST

/* What the events alone give. */
typedef struct recount {
    uint64_t *live; /* rounded bytes, by slot */
    uint64_t n_events, n_marks, live_bytes, peak_bytes;
    uint32_t n_slots, n_streams;
} recount;

static void count_event(recount *r, const bench_event *e)
{
    if (e->slot == BENCH_MARK) {
        ck_assert_uint_eq(e->bytes, r->n_marks++);
        return;
    }
    ck_assert_uint_lt(e->slot, work.n_slots);
    r->n_events++;
    if (e->bytes == 0) {
        ck_assert_msg(r->live[e->slot] != 0, "%s: a free of what does not live", work.name);
        r->live_bytes -= r->live[e->slot];
        r->live[e->slot] = 0;
        return;
    }
    ck_assert_msg(r->live[e->slot] == 0, "%s: slot %u lives twice", work.name, e->slot);
    r->live[e->slot] = (e->bytes + 511) / 512 * 512;
    r->live_bytes += r->live[e->slot];
    r->peak_bytes = r->live_bytes > r->peak_bytes ? r->live_bytes : r->peak_bytes;
    r->n_slots = e->slot >= r->n_slots ? e->slot + 1 : r->n_slots;
    r->n_streams = e->stream >= r->n_streams ? e->stream + 1 : r->n_streams;
}

START_TEST(the_counts_of_a_work_are_those_of_its_events)
{
    for (unsigned i = 0; i < n_generators(); i++) {
        open_generator(i);
        recount r = { .live = calloc(work.n_slots, sizeof *r.live) };
        ck_assert_ptr_nonnull(r.live);
        bench_cursor cursor;
        ck_assert(bench_cursor_open(&work, &cursor, &failure));
        const bench_event *entries;
        size_t n;
        while ((n = next(&cursor, &entries)) != 0) {
            ck_assert_uint_eq(entries[0].slot, BENCH_MARK);
            for (size_t k = 0; k < n; k++) {
                count_event(&r, &entries[k]);
            }
        }
        bench_cursor_close(&cursor);
        free(r.live);
        ck_assert_uint_eq(r.n_events, work.n_events);
        ck_assert_uint_eq(r.n_marks, work.n_marks);
        ck_assert_uint_eq(r.n_slots, work.n_slots);
        ck_assert_uint_eq(r.n_streams, work.n_streams);
        ck_assert_uint_eq(r.peak_bytes, work.peak_live_bytes);
        bench_work_close(&work);
    }
}
END_TEST

START_TEST(a_cursor_may_be_closed_anywhere)
{
    for (unsigned i = 0; i < n_generators(); i++) {
        open_generator(i);
        const bench_event *entries;
        for (uint64_t n_read = 0; n_read <= work.n_marks; n_read++) {
            bench_cursor cursor;
            ck_assert(bench_cursor_open(&work, &cursor, &failure));
            for (uint64_t k = 0; k < n_read; k++) {
                ck_assert_uint_gt(next(&cursor, &entries), 0);
            }
            bench_cursor_close(&cursor);
        }
        bench_work_close(&work);
    }
}
END_TEST

START_TEST(another_seed_gives_other_events)
{
    uint64_t peaks[2];
    for (unsigned i = 0; i < 2; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "churn:iterations=20,seed=%u", i);
        ck_assert(bench_work_open(spec, &work, &failure));
        peaks[i] = work.peak_live_bytes;
        bench_work_close(&work);
    }
    ck_assert_uint_ne(peaks[0], peaks[1]);
}
END_TEST

/* ---- replays ---- */

static void replay(const char *allocator, unsigned loops, bench_record *record)
{
    bench_options defaults;
    bench_setup setup;
    bench_options_init(&defaults);
    defaults.target.has_driver = true;
    defaults.target.driver = PL_DRIVER_SIM;
    ck_assert_msg(bench_setup_init(&setup, &defaults.target, &failure), "%s", failure.text);
    bench_replay_options options = { .setup = &setup, .allocator = allocator, .loops = loops };
    ck_assert_msg(bench_replay(&work, &options, record, &failure), "%s", failure.text);
    ck_assert_uint_eq(record->oom_count, 0);
    ck_assert_uint_eq(record->hazards, 0);
}

START_TEST(loops_of_a_generator_are_alike)
{
    static const char *const specs[] = {
        "churn:iterations=10,allocations=50",
        "churn:iterations=9,allocations=20,streams=3,keep=0.5",
        "rmm#1245:iterations=60",
        "pytorch#35901",
        "rmm#2507:holes=300,iterations=4",
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        bench_record one;
        bench_record many;
        ck_assert_msg(bench_work_open(specs[i], &work, &failure), "%s", failure.text);
        replay("torch-native", 1, &one);
        replay("torch-native", 4, &many);
        ck_assert_uint_eq(one.n_events, work.n_events);
        ck_assert_uint_eq(many.n_loops, 4);
        ck_assert_uint_eq(many.n_events, 4 * work.n_events);
        ck_assert_uint_eq(many.loop_ops[0], one.loop_ops[0]);
        ck_assert_uint_eq(many.peak_live_bytes, one.peak_live_bytes);
        replay("unpooled", 4, &many);
        for (unsigned k = 1; k < 4; k++) {
            ck_assert_uint_eq(many.loop_ops[k], many.loop_ops[0]);
        }
        ck_assert_uint_eq(many.peak_reserved_bytes <= work.peak_live_bytes, true);
        bench_work_close(&work);
    }
}
END_TEST

/* The events of the generator as the text of a trace file. */
static char *as_trace(size_t *n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n);
    ck_assert_ptr_nonnull(out);
    bench_cursor cursor;
    ck_assert(bench_cursor_open(&work, &cursor, &failure));
    const bench_event *entries;
    size_t n_entries;
    while ((n_entries = next(&cursor, &entries)) != 0) {
        for (size_t k = 0; k < n_entries; k++) {
            const bench_event *e = &entries[k];
            if (e->slot == BENCH_MARK) {
                fprintf(out, "i %llu\n", (unsigned long long)e->bytes);
            } else if (e->bytes == 0) {
                fprintf(out, "f %u\n", e->slot);
            } else {
                fprintf(out, "a %u %llu %u\n", e->slot, (unsigned long long)e->bytes, e->stream);
            }
        }
    }
    bench_cursor_close(&cursor);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

START_TEST(a_generator_and_a_trace_of_its_events_are_the_same)
{
    static const char *const specs[] = {
        "churn:iterations=30,streams=2",
        "rmm#1245:iterations=100",
        "httomo#667:iterations=7",
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        ck_assert_msg(bench_work_open(specs[i], &work, &failure), "%s", failure.text);
        bench_record made;
        bench_record read;
        replay("pleat", 2, &made);
        size_t n;
        char *text = as_trace(&n);
        bench_work_close(&work);
        const char *path = bench_child_file(".trace", text, n);
        ck_assert_msg(bench_work_open(path, &work, &failure), "%s", failure.text);
        replay("pleat", 2, &read);
        bench_work_close(&work);
        unlink(path);
        free(text);
        ck_assert_uint_eq(read.n_events, made.n_events);
        ck_assert_uint_eq(read.peak_live_bytes, made.peak_live_bytes);
        ck_assert_uint_eq(read.peak_reserved_bytes, made.peak_reserved_bytes);
        ck_assert_uint_eq(read.bytes_created, made.bytes_created);
        ck_assert_uint_eq(bench_record_ops(&read), bench_record_ops(&made));
        ck_assert_double_eq_tol(read.driver_us, made.driver_us, 1e-6 * made.driver_us);
    }
}
END_TEST

static TCase *add_tcase(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);
    suite_add_tcase(suite, tests);
    return tests;
}

SUITE(bench_work)
{
    TCase *parameters = add_tcase(suite, "parameters");
    tcase_add_test(parameters, values_not_given_are_the_standard_ones);
    tcase_add_test(parameters, values_are_numbers_sizes_or_words);
    tcase_add_test(parameters, a_bad_value_is_refused_with_its_key_and_what_is_allowed);
    tcase_add_test(parameters, an_item_of_any_length_is_read_or_refused);
    tcase_add_test(parameters, random_scraps_never_give_values_that_are_not_allowed);
    TCase *specs = add_tcase(suite, "specs");
    tcase_add_checked_fixture(specs, NULL, tear_down);
    tcase_add_test(specs, a_spec_that_names_nothing_is_refused_with_what_there_is);
    tcase_add_test(specs, a_spec_with_bad_values_is_refused_with_generator_and_culprit);
    tcase_add_test(specs, a_spec_of_any_length_is_refused);
    tcase_add_test(specs, an_impossible_event_is_refused_with_its_iteration);
    TCase *files = add_tcase(suite, "files");
    tcase_add_checked_fixture(files, enter_folder, leave_folder);
    tcase_add_test(files, a_file_may_have_any_name);
    tcase_add_test(files, a_pipe_is_refused_and_not_read);
    tcase_add_test(files, a_long_name_is_cut_at_a_character);
    tcase_add_test(files, a_long_spec_is_the_name_as_it_is);
    tcase_add_test(files, bundled_traces_may_have_any_name);
    tcase_add_test(files, a_folder_called_like_a_generator_does_not_hide_it);
    TCase *cursors = add_tcase(suite, "cursors");
    tcase_add_checked_fixture(cursors, NULL, tear_down);
    tcase_add_test(cursors, two_cursors_of_a_generator_give_the_same_events);
    tcase_add_test(cursors, the_counts_of_a_work_are_those_of_its_events);
    tcase_add_test(cursors, a_cursor_may_be_closed_anywhere);
    tcase_add_test(cursors, another_seed_gives_other_events);
    TCase *replays = add_tcase(suite, "replays");
    tcase_add_checked_fixture(replays, NULL, tear_down);
    tcase_add_test(replays, loops_of_a_generator_are_alike);
    tcase_add_test(replays, a_generator_and_a_trace_of_its_events_are_the_same);
}

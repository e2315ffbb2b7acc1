/* spill_test.c - files with more events than memory may hold. The same events come from a temporary
 * file, in bounded memory, for several readers at once. */
/* labels: unit fault */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/works/files.h"
#include "bench/works/work.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_PLAIN = 0 };
#else
enum { IS_PLAIN = 1 };
#endif

#define MIB ((size_t)1 << 20)

static bench_failure failure;

/* Opens a file as bench_work_open does, but no more than `most_held` entries stay in memory. */
static bool open_held(const char *found, size_t most_held, bench_work *out)
{
    bench_tape *tape = &out->tape;
    *out = (bench_work){ .name = "work" };
    bench_tape_init(tape);
    tape->most_held = most_held;
    bool ok = bench_file_read(found, NULL, tape, NULL, &failure) && bench_tape_settle(tape);
    if (!ok) {
        bench_tape_fini(tape);
    }
    return ok;
}

static void check_alike(const bench_work *held, const bench_work *spilled)
{
    bench_cursor a;
    bench_cursor b;
    const bench_event *all;
    const bench_event *piece;
    ck_assert(bench_cursor_open(held, &a, &failure));
    ck_assert(bench_cursor_open(spilled, &b, &failure));
    size_t n_all = bench_cursor_next(&a, &all, &failure);
    size_t n_done = 0;
    for (size_t n; (n = bench_cursor_next(&b, &piece, &failure)) != 0; n_done += n) {
        ck_assert_msg(n != SIZE_MAX, "%s", failure.text);
        ck_assert_uint_le(n_done + n, n_all);
        ck_assert_mem_eq(piece, all + n_done, n * sizeof *piece);
    }
    ck_assert_uint_eq(n_done, n_all);
    ck_assert_uint_eq(bench_cursor_next(&b, &piece, &failure), 0);
    bench_cursor_close(&a);
    bench_cursor_close(&b);
}

/* Every length that a number can have, in every place of an event. */
static const char *file_of_extremes(void)
{
    static char text[1 << 16];
    size_t n = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t value = UINT64_MAX >> (63 - bit);
        uint64_t bytes = value < BENCH_LARGEST_BLOCK ? value : BENCH_LARGEST_BLOCK;
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "i %llu\na %u %llu %u\na %u 1 %u\nu %llu %u %u\nf %u\na %u 2 0\n",
                              (unsigned long long)value, bit, (unsigned long long)bytes, bit % 5,
                              100 + bit, 900 - bit, (unsigned long long)value, bit, 901 - bit, bit,
                              200 + bit);
    }
    for (unsigned i = 0; i < 1000; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "a %u 512 %u\n", 1000 + i, i % 3);
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "e %llu\n",
                              (unsigned long long)(UINT64_MAX >> bit));
    }
    return bench_child_file(".trace", text, n);
}

START_TEST(a_file_gives_the_same_events_as_memory)
{
    static const size_t limits[] = { 1, 7, 1000, 1024, 1025 };
    const char *names[] = { file_of_extremes(), "gpt2s_tiny" };
    for (size_t k = 0; k < 2; k++) {
        char path[4096];
        bench_work held;
        ck_assert(bench_file_find(names[k], path, sizeof path));
        ck_assert(open_held(path, 0, &held));
        ck_assert_ptr_null(held.tape.spill);
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
            bench_work spilled;
            ck_assert_msg(open_held(path, limits[i], &spilled), "%s", failure.text);
            ck_assert_ptr_nonnull(spilled.tape.spill);
            ck_assert_uint_eq(spilled.tape.n_entries, 0);
            ck_assert_uint_le(spilled.tape.host.n_bytes, sizeof(bench_event));
            ck_assert_uint_eq(spilled.tape.n_events, held.tape.n_events);
            ck_assert_uint_eq(spilled.tape.peak_live_bytes, held.tape.peak_live_bytes);
            check_alike(&held, &spilled);
            check_alike(&held, &spilled);
            bench_work_close(&spilled);
        }
        bench_work_close(&held);
    }
    unlink(names[0]);
}
END_TEST

START_TEST(what_just_fits_into_memory_stays_there)
{
    const char text[] = "a 1 512 0\na 2 512 0\na 3 512 0\nf 1\n";
    const char *path = bench_child_file(".trace", text, strlen(text));
    bench_work work;
    ck_assert(open_held(path, 1024, &work));
    ck_assert_ptr_null(work.tape.spill);
    ck_assert_uint_eq(work.tape.n_entries, 4);
    bench_work_close(&work);
    unlink(path);
}
END_TEST

START_TEST(readers_of_several_processes_do_not_disturb_each_other)
{
    char path[4096];
    bench_work held;
    bench_work spilled;
    ck_assert(bench_file_find("gpt2s_tiny", path, sizeof path));
    ck_assert(open_held(path, 0, &held));
    ck_assert(open_held(path, 1, &spilled));
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            for (int k = 0; k < 10; k++) {
                check_alike(&held, &spilled);
            }
            _exit(0);
        }
    }
    check_alike(&held, &spilled);
    for (int i = 0; i < 4; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
    bench_work_close(&held);
    bench_work_close(&spilled);
}
END_TEST

/* ---- no room --------------------------------------------------------------------------------- */

START_TEST(a_folder_that_is_not_there_is_named)
{
    char path[4096];
    bench_work work;
    ck_assert(bench_file_find("gpt2s_tiny", path, sizeof path));
    ck_assert_int_eq(setenv("TMPDIR", "/nonexistent/folder", 1), 0);
    ck_assert(!open_held(path, 1000, &work));
    ck_assert_msg(strstr(failure.text, "/nonexistent/folder: No such file") != NULL, "%s",
                  failure.text);
    ck_assert_ptr_nonnull(strstr(failure.text, "TMPDIR names another folder"));
}
END_TEST

START_TEST(a_full_folder_is_an_error_with_its_reason)
{
    char path[4096];
    bench_work work;
    struct rlimit usual;
    ck_assert(bench_file_find("gpt2s_tiny", path, sizeof path));
    ck_assert_int_eq(setenv("TMPDIR", "/tmp", 1), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &usual), 0);
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    for (rlim_t most = 0; most < 80000; most += 20000) {
        struct rlimit small = { .rlim_cur = most, .rlim_max = usual.rlim_max };
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
        bool is_open = open_held(path, 1000, &work);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &usual), 0);
        ck_assert(!is_open);
        ck_assert_msg(strstr(failure.text, "temporary file in /tmp: File too large") != NULL, "%s",
                      failure.text);
        ck_assert_msg(strstr(failure.text, path) == failure.text, "%s", failure.text);
    }
}
END_TEST

/* ---- the command ----------------------------------------------------------------------------- */

/* Somewhat over 2^23 events, 64 MB: twice as many as memory may hold. */
static const char *large_trace(void)
{
    enum { N_ROUNDS = 4100, N_BLOCKS = 512 };
    static char lines[N_BLOCKS * 64];
    size_t n = 0;
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        n += (size_t)snprintf(lines + n, sizeof lines - n, "a %u %u 0\na %u 512 0\nf %u\n", i,
                              512 * (1 + i % 64), 1000 + i, 1000 + i);
    }
    for (unsigned i = N_BLOCKS; i-- > 0;) {
        n += (size_t)snprintf(lines + n, sizeof lines - n, "f %u\n", i);
    }
    const char *path = bench_child_file(".trace", "", 0);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (unsigned i = 0; i < N_ROUNDS; i++) {
        ck_assert_uint_eq(fwrite(lines, 1, n, file), n);
    }
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

START_TEST(a_replay_of_a_large_file_takes_little_memory)
{
    static bench_child child;
    struct rusage usage;
    char line[256];
    const char *path = large_trace();
    snprintf(line, sizeof line, "replay --driver sim --json --allocator pleat %s", path);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "%s", child.err);
    ck_assert_ptr_nonnull(strstr(child.out, "\"events\":8396800,"));
    ck_assert_ptr_nonnull(strstr(child.out, "\"oom_count\":0,"));
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &usage), 0);
    ck_assert_uint_lt((size_t)usage.ru_maxrss, 100 * MIB / 1024);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

static void find_traces(void)
{
    ck_assert_int_eq(setenv("PLEAT_TRACES", PLEAT_SOURCE_DIR "/bench/traces", 1), 0);
}

SUITE(bench_spill)
{
    TCase *events = suite_case(suite, "events", find_traces, NULL);
    tcase_add_test(events, a_file_gives_the_same_events_as_memory);
    tcase_add_test(events, what_just_fits_into_memory_stays_there);
    tcase_add_test(events, readers_of_several_processes_do_not_disturb_each_other);
    TCase *room = suite_case(suite, "no room", find_traces, NULL);
    tcase_add_test(room, a_folder_that_is_not_there_is_named);
    tcase_add_test(room, a_full_folder_is_an_error_with_its_reason);
    if (IS_PLAIN) {
        TCase *command = suite_case(suite, "the command", NULL, NULL);
        tcase_add_test(command, a_replay_of_a_large_file_takes_little_memory);
    }
}

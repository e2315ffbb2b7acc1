/* import_command_test.c - `pleat verify` and `pleat convert` from outside. */
#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/bench/bench_child.h"
#include "tests/support/bench/bench_snapshot.h"
#include "tests/support/suite.h"

enum { MOST_BYTES = 1 << 16 };

static bench_child child;
static char folder[64];

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/pleat-convert-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
}

static unsigned n_in_folder(void)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Every @ of the line is the test's folder. */
static void run(const char *line)
{
    char whole[2048];
    size_t n = 0;
    for (; *line; line++) {
        n += (size_t)snprintf(whole + n, sizeof whole - n, *line == '@' ? "%s" : "%.1s",
                              *line == '@' ? folder : line);
    }
    bench_child_run(&child, whole);
}

static void expect(int status, const char *out, const char *err)
{
    ck_assert_msg(child.status == status, "status %d\n%s%s", child.status, child.out, child.err);
    ck_assert_msg(strstr(child.out, out) != NULL, "'%s' is not in\n%s", out, child.out);
    ck_assert_msg(strstr(child.err, err) != NULL, "'%s' is not in\n%s", err, child.err);
}

static void write_file(const char *name, const void *content, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(content, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

static void expect_file(const char *name, const char *text)
{
    char path[128];
    char got[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    got[fread(got, 1, sizeof got - 1, file)] = '\0';
    fclose(file);
    ck_assert_str_eq(got, text);
}

/* As "s.pickle" in the test's folder. */
static void write_snapshot(const snap_plan *plan)
{
    static unsigned char bytes[MOST_BYTES];
    write_file("s.pickle", bytes, snap_write(plan, bytes, sizeof bytes));
}

#define MIB INT64_C(1048576)

/* PyTorch without any setting. Small requests come from segments of 2 MiB, requests below 10 MiB
 * from 20 MiB. Larger requests get their own size in multiples of 2 MiB. The block of 9 MiB fits
 * into the second segment. Then the cache is emptied. Otherwise the last request would reuse the 30
 * MiB. Tests may change the array, since each test runs in a separate process. */
static snap_event native_events[] = {
    { "segment_alloc", 0x100000000, 2 * MIB, 0 },
    { "alloc", 0x100000000, 1000, 0 },
    { "segment_alloc", 0x200000000, 20 * MIB, 0 },
    { "alloc", 0x200000000, 5000000, 0 },
    { "segment_alloc", 0x300000000, 30 * MIB, 0 },
    { "alloc", 0x300000000, 30000000, 0 },
    { "alloc", 0x200500000, 9 * MIB, 0 },
    { "free_requested", 0x200500000, 9 * MIB, 0 },
    { "free_completed", 0x200500000, 9 * MIB, 0 },
    { "free_requested", 0x300000000, 30000000, 0 },
    { "free_completed", 0x300000000, 30000000, 0 },
    { "segment_free", 0x300000000, 30 * MIB, 0 },
    { "segment_alloc", 0x400000000, 18 * MIB, 0 },
    { "alloc", 0x400000000, 17 * MIB, 0 },
    { .action = NULL },
};

START_TEST(the_same_calls_in_order_and_size_are_a_success)
{
    snap_plan plan = { .protocol = 2, .n_devices = 1, .events = { native_events } };
    write_snapshot(&plan);
    run("verify @/s.pickle");
    expect(0, "s.pickle, device 0, torch-native: 4 of 4 segment allocations repeated in order", "");
    run("verify --json @/s.pickle");
    expect(0, "\"recorded\":4,\"made\":4,\"same_from_first\":4,\"same_to_last\":0,\"is_same\":true",
           "");
}
END_TEST

START_TEST(another_size_is_told_with_its_place)
{
    snap_plan plan = { .protocol = 4, .n_devices = 2, .events = { NULL, native_events } };
    native_events[4].size = 32 * MIB;
    write_snapshot(&plan);
    run("verify @/s.pickle");
    expect(1, "device 1, torch-native: 3 of 4 segment allocations repeated", "");
    expect(1,
           "the first 2 and the last 1 are the same; then, at 2, recorded 33554432 bytes before "
           "event 2, made 31457280 bytes before event 2",
           "");
    run("verify --json @/s.pickle:device=1");
    expect(1,
           "\"first_difference\":{\"index\":2,\"recorded_bytes\":33554432,\"recorded_event\":2,"
           "\"made_bytes\":31457280,\"made_event\":2}",
           "");
}
END_TEST

START_TEST(a_call_too_many_and_one_too_few_are_differences)
{
    snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { native_events } };
    native_events[12].action = "snapshot";
    write_snapshot(&plan);
    run("verify @/s.pickle");
    expect(1, "at 3, recorded nothing more, made 18874368 bytes before event 6", "");
    native_events[12].action = "segment_alloc";
    native_events[13].action = "snapshot";
    write_snapshot(&plan);
    run("verify @/s.pickle");
    expect(1, "at 3, recorded 18874368 bytes before event 6, made nothing more", "");
}
END_TEST

/* Large blocks come from pages of 20 MiB, small ones from 2 MiB. The third request takes the free
 * end of the first page and one more page. */
static const snap_event expandable_events[] = {
    { "segment_map", 0x100000000, 20 * MIB, 0 },
    { "alloc", 0x100000000, 5000000, 0 },
    { "segment_map", 0x900000000, 2 * MIB, 0 },
    { "alloc", 0x900000000, 1000, 0 },
    { "segment_map", 0x101400000, 20 * MIB, 0 },
    { "alloc", 0x1004c4c00, 30000000, 0 },
    { .action = NULL },
};

START_TEST(mappings_are_compared_where_segments_are_expandable)
{
    snap_plan plan = {
        .protocol = 4, .is_expandable = true, .n_devices = 1, .events = { expandable_events }
    };
    write_snapshot(&plan);
    run("verify @/s.pickle");
    expect(0, "torch-expandable: 3 of 3 mappings repeated in order and size (3 made", "");
    run("verify --allocator torch-native @/s.pickle");
    expect(2, "3 recorded calls of another kind are not compared", "");
    ck_assert_ptr_nonnull(strstr(child.out, "none was recorded: there is nothing to compare"));
}
END_TEST

/* With a limit of 32 MiB the cached block of 40 MiB is not split for the small request. */
START_TEST(the_settings_of_the_recording_are_used)
{
    static const snap_event events[] = {
        { "segment_alloc", 0x100000000, 40 * MIB, 0 },
        { "alloc", 0x100000000, 40 * MIB, 0 },
        { "free_requested", 0x100000000, 40 * MIB, 0 },
        { "free_completed", 0x100000000, 40 * MIB, 0 },
        { "segment_alloc", 0x200000000, 20 * MIB, 0 },
        { "alloc", 0x200000000, 5 * MIB, 0 },
        { .action = NULL },
    };
    snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { events } };
    plan.conf = "backend:native, max_split_size_mb:32,roundup_power2_divisions:[256:1,>:1]";
    write_snapshot(&plan);
    run("verify @/s.pickle");
    expect(0, "2 of 2 segment allocations", "");
    run("verify --conf max_split_size_mb:64 @/s.pickle");
    expect(1, "1 of 2 segment allocations", "");
}
END_TEST

/* A recording made under pleat says so, instead of counting calls that PyTorch never made. */
START_TEST(a_recording_made_under_pleat_is_called_one)
{
    snap_plan plan = { .protocol = 2, .n_devices = 1, .events = { native_events } };
    plan.conf = "allocator:pleat";
    write_snapshot(&plan);
    run("verify @/s.pickle");
    expect(2, "",
           "s.pickle: recorded under pleat, whose calls PyTorch's caches do not repeat; `pleat");
    run("verify --allocator torch-native @/s.pickle");
    expect(0, "torch-native: 4 of 4 segment allocations repeated", "");
}
END_TEST

typedef struct failure {
    const char *line;
    int status;
    const char *err;
} failure;

static const failure bad_verifies[] = {
    { "verify @/x.trace", 2, "/x.trace: a trace. verify is for PyTorch" },
    { "verify @/none.pickle", 2, "/none.pickle: No such file or directory" },
    { "verify", 2, "SNAPSHOT is missing" },
    { "verify --driver cuda @/x.trace", 2, "--driver: verify runs on the simulator" },
    { "verify --allocator pleat,torch-native @/x.trace", 2, "--allocator: one at a time" },
};

enum { N_BAD_VERIFIES = sizeof bad_verifies / sizeof bad_verifies[0] };

START_TEST(bad_recordings_and_options_are_bad_usage)
{
    const failure *row = &bad_verifies[_i];
    write_file("x.trace", "a 1 1 0\n", 8);
    run(row->line);
    expect(row->status, "", row->err);
}
END_TEST

static const char run_text[] = "i 0\na 0 1000000 0\na 1 2000000 1\na 2 20000000 0\nf 1\n"
                               "i 7\na 3 3000000 2\nf 2\na 4 1 1\n";
static const char unmarked_text[] = "a 0 1000000 0\na 1 2000000 1\na 2 20000000 0\nf 1\n"
                                    "a 3 3000000 2\nf 2\na 4 1 1\n";

static void write_run(void)
{
    write_file("a.trace", run_text, strlen(run_text));
}

START_TEST(a_run_comes_back_from_both_formats)
{
    write_run();
    run("convert @/a.trace @/b.trace.gz");
    expect(0, "/b.trace.gz: 7 events\n", "");
    run("convert @/b.trace.gz @/c.trace");
    expect(0, "", "");
    expect_file("c.trace", run_text);
    run("convert @/a.trace @/d.csv");
    run("convert @/d.csv @/e.csv.gz");
    run("convert @/e.csv.gz @/f.trace");
    expect(0, "", "");
    expect_file("f.trace", unmarked_text);
}
END_TEST

START_TEST(a_log_has_the_form_of_rmm)
{
    write_run();
    run("convert @/a.trace @/a.csv");
    expect(0, "", "");
    expect_file("a.csv", "Thread,Time,Action,Pointer,Size,Stream\n"
                         "1,00:00:00.000000,allocate,0x100000000000,1000000,0\n"
                         "1,00:00:00.000001,allocate,0x1000000f4400,2000000,0x1\n"
                         "1,00:00:00.000002,allocate,0x1000002dca00,20000000,0\n"
                         "1,00:00:00.000003,free,0x1000000f4400,2000000,0x1\n"
                         "1,00:00:00.000004,allocate,0x1000015ef800,3000000,0x2\n"
                         "1,00:00:00.000005,free,0x1000002dca00,20000000,0\n"
                         "1,00:00:00.000006,allocate,0x1000018cc000,1,0x1\n");
}
END_TEST

START_TEST(a_generated_run_can_be_written)
{
    run("convert churn:iterations=3 @/a.trace.gz");
    expect(0, "", "");
    run("convert churn:iterations=3 @/b.csv");
    run("convert @/b.csv @/c.trace");
    expect(0, "", "");
    ck_assert_uint_eq(n_in_folder(), 3);
}
END_TEST

START_TEST(a_generator_with_parameters_is_no_file_of_that_name)
{
    ck_assert_int_eq(chdir(folder), 0);
    write_file("churn", "a 1 1 0\n", 8);
    run("convert churn:iterations=3 @/a.trace");
    expect(0, "", "");
    run("convert churn @/b.trace");
    expect(0, "/b.trace: 1 events", "");
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(what_is_there_is_kept_unless_forced)
{
    write_run();
    write_file("b.trace", "old", 3);
    run("convert @/a.trace @/b.trace");
    expect(1, "", "/b.trace: is there already; --force replaces it");
    expect_file("b.trace", "old");
    run("convert --force @/a.trace @/b.trace");
    expect(0, "", "");
    expect_file("b.trace", run_text);
    ck_assert_uint_eq(n_in_folder(), 2);
}
END_TEST

START_TEST(what_is_forced_keeps_its_mode_and_the_links_to_it)
{
    char path[128];
    char link[128];
    struct stat known;
    write_run();
    write_file("b.trace", "old", 3);
    snprintf(path, sizeof path, "%s/b.trace", folder);
    snprintf(link, sizeof link, "%s/link.trace", folder);
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_int_eq(symlink("b.trace", link), 0);
    run("convert @/a.trace @/link.trace");
    expect(1, "", "/link.trace: is there already; --force replaces it");
    run("convert --force @/a.trace @/link.trace");
    expect(0, "", "");
    ck_assert_int_eq(lstat(link, &known), 0);
    ck_assert(S_ISLNK(known.st_mode));
    ck_assert_int_eq(lstat(path, &known), 0);
    ck_assert_uint_eq(known.st_mode, S_IFREG | 0600);
    expect_file("b.trace", run_text);
    ck_assert_uint_eq(n_in_folder(), 3);
}
END_TEST

/* d.trace is a folder. */
static const failure bad_converts[] = {
    { "convert --force @/a.trace @/d.trace", 1, "/d.trace: " },
    { "convert @/a.trace @/none/b.trace", 1, "/none/b.trace: No such file or directory" },
    { "convert @/a.trace @/b.txt", 2,
      "/b.txt: the ending says the format: .trace, .trace.gz, .csv, .csv.gz" },
    { "convert @/none.trace @/b.trace", 2, "/none.trace: No such file or directory" },
    { "convert @/a.trace", 2, "OUT is missing" },
    { "convert", 2, "WORK is missing" },
    { "convert @/a.trace @/b.trace @/c.trace", 2, "one WORK and one OUT, not '" },
};

enum { N_BAD_CONVERTS = sizeof bad_converts / sizeof bad_converts[0] };

START_TEST(a_failure_leaves_nothing_behind)
{
    const failure *row = &bad_converts[_i];
    char path[128];
    snprintf(path, sizeof path, "%s/d.trace", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    write_run();
    run(row->line);
    expect(row->status, "", row->err);
    ck_assert_uint_eq(n_in_folder(), 2);
}
END_TEST

/* Compressing this run takes a minute, but the temporary file exists after a moment. */
START_TEST(an_interrupted_conversion_leaves_nothing_behind)
{
    char line[256];
    snprintf(line, sizeof line, "convert churn:iterations=100000 %s/a.csv.gz", folder);
    bench_child_start(&child, line);
    while (n_in_folder() == 0) {
        ck_assert_int_eq(waitpid(child.pid, NULL, WNOHANG), 0);
        usleep(1000);
    }
    ck_assert_int_eq(kill(child.pid, SIGINT), 0);
    bench_child_finish(&child);
    ck_assert_int_eq(child.status, 128 + SIGINT);
    ck_assert_uint_eq(n_in_folder(), 0);
}
END_TEST

/* A run has no event for emptying the cache. */
START_TEST(a_snapshot_is_replayed_like_any_work)
{
    snap_plan plan = { .protocol = 4, .n_devices = 1, .events = { native_events } };
    write_snapshot(&plan);
    run("replay --allocator torch-native --json @/s.pickle");
    expect(0, "\"trace\":\"s\"", "");
    ck_assert_ptr_nonnull(strstr(child.out, "\"alloc\":3"));
    run("replay @/s.pickle:device=3");
    expect(2, "", "/s.pickle: no events of device 3; devices with events: 0");
}
END_TEST

/* ---- what a file is ---- */

/* One of two blocks lived before the first entry. */
static const snap_event late_events[] = {
    { "alloc", 0x100000000, 4 * MIB, 0 },          { "free_requested", 0x100000000, 4 * MIB, 0 },
    { "free_completed", 0x100000000, 4 * MIB, 0 }, { "free_requested", 0x100800000, 8 * MIB, 0 },
    { "free_completed", 0x100800000, 8 * MIB, 0 }, { .action = NULL },
};

START_TEST(a_part_of_a_run_is_called_one_before_all_else)
{
    static const char *const lines[] = { "replay --driver sim --allocator pleat @/s.pickle",
                                         "fit --driver sim --allocator pleat @/s.pickle" };
    static const char first[] = "s: recorded in part: begins in the middle: ";
    write_snapshot(&(snap_plan){ .protocol = 4, .n_devices = 1, .events = { late_events } });
    for (int i = 0; i < 2; i++) {
        run(lines[i]);
        ck_assert_msg(strncmp(child.out, first, strlen(first)) == 0, "%s", child.out);
        ck_assert_ptr_nonnull(strstr(child.out, "_record_memory_history"));
    }
    run("replay --driver sim --allocator pleat --json @/s.pickle");
    ck_assert_int_eq(child.out[0], '{'); /* nothing but objects */
    expect(0, "", first);
    run("replay --driver sim --allocator pleat churn:iterations=2,allocations=5");
    ck_assert_ptr_null(strstr(child.out, "recorded in part"));
}
END_TEST

START_TEST(the_recorded_run_s_own_allocator_is_among_those_compared)
{
    write_snapshot(&(snap_plan){ .protocol = 4,
                                 .n_devices = 1,
                                 .conf = "backend:cudaMallocAsync",
                                 .events = { late_events } });
    run("ab --driver sim --no-report --loops 1 --memory unlimited --out @/out @/s.pickle");
    expect(0, "cuda-async ", "");
    expect(0, "torch-expandable ", "");
    ck_assert_ptr_null(strstr(child.out, "unpooled"));
}
END_TEST

/* A segment partly in use, and one that is wholly free; no history. */
START_TEST(a_snapshot_without_a_history_shows_its_moment)
{
    static const snap_block used[] = { { "active_allocated", MIB, MIB },
                                       { "inactive", 3 * MIB, 0 },
                                       { .state = NULL } };
    static const snap_block unused[] = { { "inactive", 2 * MIB, 0 }, { .state = NULL } };
    static const snap_segment segments[] = { { used, 0x100000000, 0, 0, false, 0 },
                                             { unused, 0x200000000, 0, 0, false, 0 },
                                             { .blocks = NULL } };
    static const char *const lines[] = {
        "\n  snapshot 6.0 MiB were held from the driver in 2 segments: 1.0 MiB live in 1 block, "
        "5.0",
        "\n  stranded 3.0 MiB are free in segments partly in use",
        " get them. Beside: 3.0 MiB by model.py:71 forward",
        "\n  cached   2.0 MiB in 1 wholly free segment, which torch.cuda.empty_cache() gives back",
        "free block has 3.0 MiB",
        "\n  anew     the same live blocks",
        "\n  recorded no history",
    };
    write_snapshot(&(snap_plan){ .protocol = 2, .n_devices = 1, .segments = segments });
    run("ab --driver sim --no-report --loops 1 --memory unlimited --out @/out @/s.pickle");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        expect(0, lines[i], "");
    }
    run("ab --driver sim --loops 1 --memory unlimited --no-report --out @/out @/s.pickle --json");
    ck_assert_ptr_null(strstr(child.out, "stranded"));
    write_snapshot(&(snap_plan){
        .protocol = 2, .n_devices = 1, .events = { late_events }, .segments = segments });
    run("ab --driver sim --no-report --loops 1 --memory unlimited --out @/out @/s.pickle");
    ck_assert_ptr_null(strstr(child.out, "\n  snapshot ")); /* the history tells more */
}
END_TEST

START_TEST(a_file_that_is_no_snapshot_says_what_it_is)
{
    static const char tar[512] = { [0] = 's',   [1] = '.',   [2] = 'p',   [257] = 'u',
                                   [258] = 's', [259] = 't', [260] = 'a', [261] = 'r' };
    static const struct {
        const char *ending;
        const char *content;
        size_t n;
        const char *replay; /* the output of replay; NULL = success */
        const char *verify;
    } cases[] = {
        { ".trace", "a 1 512 0\nf 1\n", 14, NULL, ": a trace. verify is for PyTorch's snapshots" },
        { ".csv", "id,lower,upper,size\na,0,4,4096\n", 31, NULL,
          ": a problem of minimalloc. verify is for" },
        { ".pickle", "\x81\x04\x95\0\0}", 6, ": a damaged snapshot: its first bytes are not",
          ": a damaged snapshot: its first bytes are not" },
        { ".pickle", "hello\n", 6, ": a damaged snapshot: its first bytes",
          ": a damaged snapshot" },
        { ".dat", "\0\x04}segments\0", 12, ": a damaged snapshot: its first bytes",
          ": a damaged snapshot" },
        { ".dat",
          "\x7f"
          "ELF\x02\x01",
          6, ": neither text nor a pickle: no trace", ": neither text nor a pickle" },
        { ".pickle", "\x80\x04", 2, ": the file is cut short: it has 2 bytes",
          ": the file is cut short: it has 2 bytes" },
        { ".bz2", "BZh91AY&SY", 10, ": packed by bzip2: unpack", ": packed by bzip2" },
        { ".xz", "\xfd\x37zXZ\0\0\x04", 8, ": packed by xz: unpack", ": packed by xz" },
        { ".zst", "\x28\xb5\x2f\xfd\x24", 5, ": packed by zstd: unpack", ": packed by zstd" },
        { ".7z", "7z\xbc\xaf\x27\x1c", 6, ": an archive of 7-Zip", ": an archive of 7-Zip" },
        { ".json", "\xff\xfe{\0", 4, ": text in UTF-16", ": text in UTF-16" },
        { ".pickle", "version https://git-lfs.github.com/spec/v1\n", 43, ": only a pointer of Git",
          ": only a pointer of Git LFS: git lfs pull" },
        { ".pickle", "<html>a, b</html>\n", 18, ": a page of the web", ": a page of the web" },
        { ".trace", "<!DOCTYPE html>\n", 16, ": a page of the web", ": a page of the web" },
        { ".tar", tar, sizeof tar, ": an archive of tar: unpack", ": an archive of tar" },
        { ".dat", "hello\n", 6, ":1: not a line of a trace: hello", ": a trace. verify is for" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = bench_child_file(cases[i].ending, cases[i].content, cases[i].n);
        char line[256];
        snprintf(line, sizeof line, "replay --driver sim %s", path);
        bench_child_run(&child, line);
        ck_assert_msg(child.status == (cases[i].replay ? 2 : 0), "%zu: %s", i, child.err);
        ck_assert_msg(!cases[i].replay || strstr(child.err, cases[i].replay), "%zu: %s", i,
                      child.err);
        snprintf(line, sizeof line, "verify %s", path);
        bench_child_run(&child, line);
        ck_assert_int_eq(child.status, 2);
        ck_assert_msg(strstr(child.err, cases[i].verify) != NULL, "%zu: %s", i, child.err);
        unlink(path);
    }
}
END_TEST

SUITE(bench_import_command)
{
    TCase *verify = suite_case(suite, "verify", set_up, tear_down);
    tcase_add_test(verify, the_same_calls_in_order_and_size_are_a_success);
    tcase_add_test(verify, another_size_is_told_with_its_place);
    tcase_add_test(verify, a_call_too_many_and_one_too_few_are_differences);
    tcase_add_test(verify, mappings_are_compared_where_segments_are_expandable);
    tcase_add_test(verify, the_settings_of_the_recording_are_used);
    tcase_add_test(verify, a_recording_made_under_pleat_is_called_one);
    tcase_add_loop_test(verify, bad_recordings_and_options_are_bad_usage, 0, N_BAD_VERIFIES);
    tcase_add_test(verify, a_snapshot_is_replayed_like_any_work);
    tcase_add_test(verify, a_part_of_a_run_is_called_one_before_all_else);
    tcase_add_test(verify, the_recorded_run_s_own_allocator_is_among_those_compared);
    tcase_add_test(verify, a_snapshot_without_a_history_shows_its_moment);
    tcase_add_test(verify, a_file_that_is_no_snapshot_says_what_it_is);
    TCase *convert = suite_case(suite, "convert", set_up, tear_down);
    tcase_add_test(convert, a_run_comes_back_from_both_formats);
    tcase_add_test(convert, a_log_has_the_form_of_rmm);
    tcase_add_test(convert, a_generated_run_can_be_written);
    tcase_add_test(convert, a_generator_with_parameters_is_no_file_of_that_name);
    tcase_add_test(convert, what_is_there_is_kept_unless_forced);
    tcase_add_test(convert, what_is_forced_keeps_its_mode_and_the_links_to_it);
    tcase_add_loop_test(convert, a_failure_leaves_nothing_behind, 0, N_BAD_CONVERTS);
    tcase_add_test(convert, an_interrupted_conversion_leaves_nothing_behind);
}

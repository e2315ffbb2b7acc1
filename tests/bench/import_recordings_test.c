/* import_recordings_test.c - recordings of other programs, in ../shared/recordings beside the
 * repository. They are not part of the project. Without them the test is skipped. */
/* labels: unit long */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/works/work.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

#define FOLDER PLEAT_SOURCE_DIR "/../shared/recordings/"

static bench_child child;

static void set_up(void)
{
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
}

static void expect_verified(const char *file, int status, const char *text)
{
    char line[1024];
    snprintf(line, sizeof line, "verify " FOLDER "%s", file);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == status, "%s: status %d\n%s%s", file, child.status, child.out,
                  child.err);
    ck_assert_msg(strstr(child.out, text) != NULL, "%s", child.out);
}

START_TEST(all_mappings_of_expandable_segments_are_repeated)
{
    expect_verified("llm_expandable.pickle.gz:device=0", 0,
                    "torch-expandable: 175 of 175 mappings");
    expect_verified("llm_expandable.pickle.gz:device=1", 0, "torch-expandable: 40 of 40 mappings");
    expect_verified("llm_expandable.pickle.gz:device=2", 0, "torch-expandable: 78 of 78 mappings");
}
END_TEST

START_TEST(all_segments_of_the_classic_cache_are_repeated)
{
    expect_verified("decoder2p7b_step_ctx128.pickle.gz", 0, "torch-native: 783 of 783 segment");
    expect_verified("decoder2p7b_forward_ctx128.pickle.gz", 0, "torch-native: 289 of 289 segment");
    expect_verified("gpt2_small_run.pickle.gz", 0, "torch-native: 13 of 13 segment");
}
END_TEST

/* The order of the earlier blocks is unknown, and so are the cached blocks. */
START_TEST(the_last_segments_of_a_recording_that_began_late_are_repeated)
{
    expect_verified("finetune.pickle.gz", 1, "torch-native: 31 of 152 segment");
    ck_assert_ptr_nonnull(strstr(child.out, "the first 0 and the last 31 are the same"));
    expect_verified("medium_train_128.pickle.gz", 2, "there is nothing to compare");
}
END_TEST

typedef struct figures {
    const char *file;
    uint64_t n_events;
    uint64_t peak_live_bytes;
} figures;

/* The allocations and frees of each file, and the resulting peak of live bytes. */
static const figures all[] = {
    { "llm_expandable.pickle.gz:device=0", 4352, 8456489984 },
    { "decoder2p7b_step_ctx128.pickle.gz", 324 + 6771 + 5894, 54802668032 },
    { "decoder2p7b_forward_ctx128.pickle.gz", 324 + 2058 + 1155, 19352504320 },
    { "gpt2_small_run.pickle.gz", 396 + 1497 + 1493, 2409046528 },
    { "medium_train_128.pickle.gz", 664 + 6526 + 6305, 7013335552 },
    { "finetune.pickle.gz", 622 + 3505 + 3325, 5876215808 },
    { "minimalloc/A.csv", 308, 0 },
    { "minimalloc/B.csv", 340, 0 },
    { "minimalloc/C.csv", 406, 0 },
    { "minimalloc/D.csv", 426, 0 },
    { "minimalloc/E.csv", 430, 0 },
};

START_TEST(every_recording_has_its_events)
{
    char path[1024];
    bench_work work;
    bench_failure failure;
    snprintf(path, sizeof path, FOLDER "%s", all[_i].file);
    ck_assert_msg(bench_work_open(path, &work, &failure), "%s", failure.text);
    ck_assert_uint_eq(work.n_events, all[_i].n_events);
    if (all[_i].peak_live_bytes) {
        ck_assert_uint_eq(work.peak_live_bytes, all[_i].peak_live_bytes);
    } else {
        ck_assert_uint_le(work.peak_live_bytes, UINT64_C(1048576) * 1024); /* the optimum */
        ck_assert_uint_ge(work.peak_live_bytes, UINT64_C(900000) * 1024);
    }
    bench_work_close(&work);
}
END_TEST

START_TEST(every_recording_is_replayed_without_failure)
{
    char line[1024];
    snprintf(line, sizeof line, "replay --json --allocator pleat,torch-native " FOLDER "%s",
             all[_i].file);
    bench_child_run(&child, line);
    ck_assert_msg(child.status == 0, "status %d\n%s", child.status, child.err);
    const char *second = strchr(child.out, '\n');
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_nonnull(strstr(second, "\"oom_count\":0"));
}
END_TEST

SUITE(bench_import_recordings)
{
    if (access(FOLDER, R_OK) != 0) {
        suite_skip("there is no " FOLDER);
        return;
    }
    TCase *verify = tcase_create("verify");
    tcase_add_checked_fixture(verify, set_up, NULL);
    tcase_add_test(verify, all_mappings_of_expandable_segments_are_repeated);
    tcase_add_test(verify, all_segments_of_the_classic_cache_are_repeated);
    tcase_add_test(verify, the_last_segments_of_a_recording_that_began_late_are_repeated);
    suite_add_tcase(suite, verify);
    TCase *replay = tcase_create("replay");
    tcase_add_checked_fixture(replay, set_up, NULL);
    int n = sizeof all / sizeof all[0];
    tcase_add_loop_test(replay, every_recording_has_its_events, 0, n);
    tcase_add_loop_test(replay, every_recording_is_replayed_without_failure, 0, n);
    suite_add_tcase(suite, replay);
}

/* size_test.c - sizes, ratios and memory as people write them, and how far a run is. */
#include <check.h>
#include <string.h>

#include "bench/base/progress.h"
#include "bench/base/size.h"
#include "tests/support/suite.h"

#define KIB UINT64_C(1024)

START_TEST(sizes_are_read_with_binary_suffixes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        { "1", 1 },
        { "512", 512 },
        { "512B", 512 },
        { "64K", 64 * KIB },
        { "64k", 64 * KIB },
        { "64KiB", 64 * KIB },
        { "2M", 2 * KIB * KIB },
        { "2MiB", 2 * KIB * KIB },
        { "1.5G", 3 * KIB * KIB * KIB / 2 },
        { "0.5GiB", KIB * KIB * KIB / 2 },
        { "80G", 80 * KIB * KIB * KIB },
        { "1T", KIB * KIB * KIB * KIB },
        { "1048576T", UINT64_C(1) << 60 },
        { "1152921504606846976", UINT64_C(1) << 60 },
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 0;
        ck_assert_msg(bench_size_parse(good[i].text, &bytes), "%s", good[i].text);
        ck_assert_uint_eq(bytes, good[i].bytes);
    }
}
END_TEST

START_TEST(what_is_not_a_size_is_refused)
{
    static const char *const bad[] = {
        "",     "0",    "-1",    "+1",       " 1",
        "1 ",   "x",    "1X",    "KiB",      "1KB",
        "1MB",  "1Ki",  "1KiBs", "1.2.3",    "1.02",
        "1.5B", ".",    "1e9",   "0x10",     "inf",
        "nan",  "0.0G", "0.4",   "1048577T", "99999999999999999999999",
        "1P"
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 7;
        ck_assert_msg(!bench_size_parse(bad[i], &bytes), "'%s'", bad[i]);
        ck_assert_uint_eq(bytes, 7);
    }
}
END_TEST

START_TEST(memory_is_a_size_a_ratio_or_unlimited)
{
    bench_memory memory;
    ck_assert(bench_memory_parse("unlimited", &memory));
    ck_assert_int_eq(memory.kind, BENCH_MEMORY_UNLIMITED);
    ck_assert(bench_memory_parse("1.025x", &memory));
    ck_assert_int_eq(memory.kind, BENCH_MEMORY_RATIO);
    ck_assert_double_eq_tol(memory.ratio, 1.025, 1e-12);
    ck_assert(bench_memory_parse("8G", &memory));
    ck_assert_int_eq(memory.kind, BENCH_MEMORY_BYTES);
    ck_assert_uint_eq(memory.bytes, 8 * KIB * KIB * KIB);
}
END_TEST

START_TEST(what_is_not_memory_is_refused)
{
    static const char *const bad[] = { "",    "x",   "0x",   "0.0x",      "-1x", "1.02X",
                                       "1xx", "1x ", "nanx", "Unlimited", "0",   "2000000x" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bench_memory memory;
        ck_assert_msg(!bench_memory_parse(bad[i], &memory), "'%s'", bad[i]);
    }
}
END_TEST

START_TEST(a_few_bytes_of_memory_need_a_unit)
{
    static const char *const bad[] = { "1", "80", "2097151" };
    static const char *const good[] = { "2097152", "80B", "80K", "00000000002097152" };
    bench_memory memory;
    char why[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!bench_memory_parse(bad[i], &memory), "'%s'", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(bench_memory_parse(good[i], &memory), "'%s'", good[i]);
        ck_assert_int_eq(memory.kind, BENCH_MEMORY_BYTES);
    }
    ck_assert_str_eq(bench_memory_refusal("80", why, sizeof why),
                     "'80' lacks a unit, as in 80G or 512M; 80B means bytes");
    ck_assert_ptr_nonnull(
        strstr(bench_memory_refusal("0", why, sizeof why), "'0' is no memory at all"));
    ck_assert_str_eq(bench_memory_refusal("1.5gb", why, sizeof why),
                     "'1.5gb' could mean powers of 1,000 or of 1,024 bytes: write 1.5G (or "
                     "1.5GiB) for 1,024, or the number of bytes");
    ck_assert_ptr_nonnull(strstr(bench_memory_refusal("80Q", why, sizeof why), "'80Q' is not a"));
}
END_TEST

START_TEST(a_ratio_is_rounded_up_to_a_granule)
{
    uint64_t granule = 2 * KIB * KIB;
    bench_memory memory = { .kind = BENCH_MEMORY_RATIO, .ratio = 1.0 };
    ck_assert_uint_eq(bench_memory_bytes(&memory, 10 * granule, granule), 10 * granule);
    ck_assert_uint_eq(bench_memory_bytes(&memory, 10 * granule + 1, granule), 11 * granule);
    memory.ratio = 1.02;
    ck_assert_uint_eq(bench_memory_bytes(&memory, 100 * granule, granule), 102 * granule);
    memory.ratio = 1e6;
    ck_assert_uint_eq(bench_memory_bytes(&memory, UINT64_C(1) << 59, granule), UINT64_C(1) << 60);
}
END_TEST

START_TEST(a_size_is_taken_to_the_byte)
{
    bench_memory memory = { .kind = BENCH_MEMORY_BYTES, .bytes = 12345 };
    ck_assert_uint_eq(bench_memory_bytes(&memory, 1, 4096), 12345);
    memory.kind = BENCH_MEMORY_UNLIMITED;
    ck_assert_uint_eq(bench_memory_bytes(&memory, 1, 4096), UINT64_C(1) << 40);
}
END_TEST

START_TEST(sizes_are_written_for_people)
{
    char text[32];
    ck_assert_str_eq(bench_size_format(0, text, sizeof text), "0 B");
    ck_assert_str_eq(bench_size_format(1023, text, sizeof text), "1023 B");
    ck_assert_str_eq(bench_size_format(3 * KIB / 2, text, sizeof text), "1.500 KiB");
    ck_assert_str_eq(bench_size_format(UINT64_C(1) << 40, text, sizeof text), "1.000 TiB");
}
END_TEST

START_TEST(a_line_of_progress_has_rate_and_time_left_within_80_columns)
{
    bench_progress progress = { .tell = NULL };
    char line[256];
    bench_progress_label(&progress, 40000000, "pleat: short");
    bench_progress_line(&progress, 0.25, 2.0, line, sizeof line);
    ck_assert_str_eq(line, "pleat: short   25 %, 5.0 M events/s, 6 s left");
    bench_progress_line(&progress, 1e-9, 1e-3, line, sizeof line); /* too early to tell */
    ck_assert_str_eq(line, "pleat: short    0 %");
    bench_progress_label(&progress, 1u << 31, "torch-expandable: \xff\x1b%s",
                         "decoder:layers=32,hidden=4096,heads=32,kv_heads=8,ff=14336");
    bench_progress_line(&progress, 0.999, 100000.0, line, sizeof line);
    ck_assert_ptr_nonnull(strstr(line, "torch-expandable: ??decoder:layers=32..."));
    ck_assert_uint_lt(strlen(line), 80);
    bench_progress_label(&progress, 0, "probe: %s", "map");
    bench_progress_line(&progress, 0.5, 100.0, line, sizeof line);
    ck_assert_str_eq(line, "probe: map   50 %");
}
END_TEST

SUITE(bench_size)
{
    TCase *sizes = tcase_create("sizes");
    tcase_add_test(sizes, sizes_are_read_with_binary_suffixes);
    tcase_add_test(sizes, what_is_not_a_size_is_refused);
    tcase_add_test(sizes, sizes_are_written_for_people);
    suite_add_tcase(suite, sizes);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, memory_is_a_size_a_ratio_or_unlimited);
    tcase_add_test(memory, what_is_not_memory_is_refused);
    tcase_add_test(memory, a_few_bytes_of_memory_need_a_unit);
    tcase_add_test(memory, a_ratio_is_rounded_up_to_a_granule);
    tcase_add_test(memory, a_size_is_taken_to_the_byte);
    suite_add_tcase(suite, memory);
    TCase *progress = tcase_create("progress");
    tcase_add_test(progress, a_line_of_progress_has_rate_and_time_left_within_80_columns);
    suite_add_tcase(suite, progress);
}

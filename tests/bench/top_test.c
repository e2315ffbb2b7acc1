/* top_test.c - pages of metrics read back, and `pleat top`. */
/* labels: unit */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/pleat.h"
#include "bench/measure/page.h"
#include "tests/support/bench/bench_child.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

static bench_child child;
static bench_failure failure;
static char folder[64];

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/pleat-top-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
}

static void tear_down(void)
{
    ck_assert_int_eq(rmdir(folder), 0);
}

static void expect_lines(const char *line, int status, const char *out, const char *err)
{
    bench_child_run(&child, line);
    ck_assert_msg(child.status == status, "%s: %d\n%s%s", line, child.status, child.out, child.err);
    ck_assert_msg(strstr(child.out, out) != NULL, "%s:\n%s", line, child.out);
    ck_assert_msg(strstr(child.err, err) != NULL, "%s:\n%s", line, child.err);
}

static const char ended[] =
    "# HELP pleat_running 1.\n"
    "pleat_running{pid=\"77\"} 0\n"
    "pleat_written_time_seconds{pid=\"77\"} 1000.500\n"
    "pleat_info{pid=\"77\",instance_id=\"2\",device=\"1\",allocator=\"pleat\",gpu=\"A, "
    "\\\"B\\\"\"} 1\n"
    "pleat_live_bytes{pid=\"77\",instance_id=\"2\",device=\"1\"} 3145728\n"
    "pleat_live_bytes{pid=\"77\",instance_id=\"1\",device=\"1\"} 5\n"
    "pleat_resident_bytes{pid=\"77\",instance_id=\"2\",device=\"1\"} 4194304\n"
    "pleat_device_operations_total{pid=\"77\",instance_id=\"2\",device=\"1\",operation=\"map\"} 5\n"
    "pleat_device_operations_total{pid=\"77\",instance_id=\"2\",device=\"1\",operation=\"free\"} "
    "2\n"
    "pleat_tag_live_bytes{pid=\"77\",instance_id=\"2\",device=\"1\",tag=\"k\\\\v\\n\"} 1048576\n";

START_TEST(a_page_is_read_back)
{
    bench_page page;
    char label[64];
    ck_assert_msg(bench_page_parse("it", strdup(ended), &page, &failure), "%s", failure.text);
    ck_assert_int_eq(page.pid, 77);
    ck_assert(!page.is_running);
    ck_assert_double_eq(page.written_s, 1000.5);
    ck_assert_uint_eq(page.n_samples, 9);
    const bench_sample *info = &page.samples[2];
    ck_assert_str_eq(bench_page_label(info, "gpu", label, sizeof label), "A, \"B\"");
    ck_assert_str_eq(bench_page_label(info, "device", label, sizeof label), "1");
    ck_assert_str_eq(bench_page_label(info, "evice", label, sizeof label), "");
    ck_assert_str_eq(bench_page_label(info, "gpu", label, 3), "A,");
    ck_assert_double_eq(bench_page_value(&page, info, "pleat_live_bytes", NULL), 3145728.0);
    ck_assert_double_eq(bench_page_value(&page, info, "pleat_device_operations_total", NULL), 7.0);
    ck_assert_double_eq(bench_page_value(&page, info, "pleat_tag_live_bytes", "k\\v\n"), 1048576.0);
    ck_assert_double_eq(bench_page_value(&page, info, "pleat_tag_live_bytes", "k"), -1.0);
    bench_page_free(&page);
}
END_TEST

START_TEST(whatever_a_file_holds_is_read_or_refused)
{
    static const char *const damaged[] = { "",
                                           "\n\n",
                                           "pleat_running",
                                           "pleat_running{pid=\"",
                                           "pleat_running{} 1",
                                           "pleat_running{pid=\"x\"} 1",
                                           "}{ 1",
                                           "{} ",
                                           "pleat_running{pid=\"1} 1",
                                           "pleat_running{pid=\"0\"} 1",
                                           "pleat_running{pid=\"7\\" };
    bench_page page;
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        if (bench_page_parse("it", strdup(damaged[i]), &page, &failure)) {
            ck_assert_int_gt(page.pid, 0);
            bench_page_free(&page);
        } else {
            ck_assert_ptr_nonnull(strstr(failure.text, "no metrics of pleat"));
        }
    }
}
END_TEST

START_TEST(what_has_ended_is_shown_once)
{
    char line[128];
    const char *path = bench_child_file(".prom", ended, sizeof ended - 1);
    snprintf(line, sizeof line, "top %s", path);
    expect_lines(line, 0, "process 77, ended; written", "");
    ck_assert_ptr_nonnull(strstr(child.out, "process 77 has ended"));
    ck_assert_ptr_nonnull(
        strstr(child.out, "2    1      pleat              3.000 MiB   4.000 MiB"));
    ck_assert_ptr_nonnull(strstr(child.out, "tag k\\v?"));
    ck_assert_ptr_null(strchr(child.out, '\033')); /* no terminal */
    unlink(path);
}
END_TEST

START_TEST(a_running_process_is_found_by_its_number)
{
    char line[64];
    pleat instance;
    pleat_devptr block;
    ck_assert_int_eq(pleat_create("driver:sim,metrics:auto,metrics_ms:10", &instance), PLEAT_OK);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 48 * MIB, NULL, &block), PLEAT_OK);
    snprintf(line, sizeof line, "top --once %ld", (long)getpid());
    do {
        bench_child_run(&child, line);
    } while (!strstr(child.out, "48.000 MiB"));
    ck_assert_int_eq(child.status, 0);
    ck_assert_ptr_nonnull(strstr(child.out, ", running; written"));
    snprintf(line, sizeof line, "%ld", (long)getpid());
    expect_lines("top 999999999", 2, "", "an instance. There are: ");
    ck_assert_ptr_nonnull(strstr(child.err, line));
    expect_lines("top", 2, "", "PATH or PID is missing; processes with metrics:auto: ");
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    snprintf(line, sizeof line, "top %ld", (long)getpid());
    while (bench_child_run(&child, line), child.status == 0) {
    }
    expect_lines(line, 2, "",
                 "has written no metrics: it must be started with PLEAT_CONF=metrics:auto");
}
END_TEST

/* No process has this number. Control characters in labels do not reach the terminal. */
START_TEST(a_killed_process_and_hostile_labels_do_no_harm)
{
    static const char page[] =
        "# HELP pleat_running 1.\n"
        "pleat_running{pid=\"2147483646\"} 1\n"
        "pleat_written_time_seconds{pid=\"2147483646\"} 1000.500\n"
        "pleat_info{pid=\"7\",instance_id=\"\033[2J\",device=\"0\",allocator=\"\033]0;x\a\"} 1\n"
        "pleat_live_bytes{pid=\"7\",instance_id=\"\033[2J\",device=\"0\"} 1e300\n"
        "pleat_blocks{pid=\"7\",instance_id=\"\033[2J\",device=\"0\"} 1e308\n";
    char line[128];
    const char *path = bench_child_file(".prom", page, sizeof page - 1);
    snprintf(line, sizeof line, "top %s", path);
    expect_lines(line, 0, "process 2147483646 is gone without a last page", "");
    ck_assert_ptr_null(strchr(child.out, '\033'));
    ck_assert_ptr_null(strchr(child.out, '\a'));
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    expect_lines(line, 2, "", "is no file");
    unlink(path);
}
END_TEST

START_TEST(what_is_no_page_is_bad_input)
{
    const char *path = bench_child_file(".prom", "a 1\n", 4);
    char line[128];
    snprintf(line, sizeof line, "top %s", path);
    expect_lines(line, 2, "", "no metrics of pleat (PLEAT_CONF=metrics:PATH)");
    expect_lines("top /no/such.prom", 2, "", "/no/such.prom: No such file");
    expect_lines("top /tmp", 2, "", "/tmp: Is a directory");
    expect_lines("top a b", 2, "", "one PATH or PID, not 'b' too");
    unlink(path);
}
END_TEST

SUITE(bench_top)
{
    TCase *top = suite_case(suite, "top", set_up, tear_down);
    tcase_add_test(top, a_page_is_read_back);
    tcase_add_test(top, whatever_a_file_holds_is_read_or_refused);
    tcase_add_test(top, what_has_ended_is_shown_once);
    tcase_add_test(top, a_running_process_is_found_by_its_number);
    tcase_add_test(top, a_killed_process_and_hostile_labels_do_no_harm);
    tcase_add_test(top, what_is_no_page_is_bad_input);
}

/* parse_test.c - a command with an unreadable command line reports it and does nothing. */
/* labels: unit fault */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "tests/support/suite.h"

/* Replaces argp_parse of glibc, as if without host memory. */
error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *end,
                   void *input)
{
    (void)argp;
    (void)argc;
    (void)argv;
    (void)flags;
    (void)end;
    (void)input;
    return ENOMEM;
}

static int (*const commands[])(int argc, char **argv) = {
    bench_command_ab,     bench_command_convert, bench_command_demo,
    bench_command_fit,    bench_command_probe,   bench_command_replay,
    bench_command_verify, bench_command_works,   bench_command_resident,
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

START_TEST(a_command_line_that_cannot_be_read_ends_the_command)
{
    char name[] = "pleat";
    char *argv[] = { name, NULL };
    char text[256];
    FILE *heard = tmpfile();
    ck_assert_ptr_nonnull(heard);
    int kept = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(fileno(heard), STDERR_FILENO), 0);
    int status = commands[_i](1, argv);
    fflush(stderr);
    ck_assert_int_ge(dup2(kept, STDERR_FILENO), 0);
    close(kept);
    rewind(heard);
    size_t n = fread(text, 1, sizeof text - 1, heard);
    text[n] = '\0';
    fclose(heard);
    ck_assert_int_eq(status, BENCH_EXIT_USAGE);
    ck_assert_str_eq(text, "pleat: the command line cannot be read: Cannot allocate memory\n");
}
END_TEST

SUITE(bench_parse)
{
    TCase *tcase = suite_case(suite, "no host memory", NULL, NULL);
    tcase_add_loop_test(tcase, a_command_line_that_cannot_be_read_ends_the_command, 0, N_COMMANDS);
}

/* suite.c - see suite.h. */
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TCase *suite_case(Suite *suite, const char *name, void (*open)(void), void (*close)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

void suite_one_thread(TCase *tcase)
{
    tcase_set_tags(tcase, "one_thread"); /* dev: CK_EXCLUDE_TAGS */
}

static unsigned percent_asked(void)
{
    const char *text = getenv("PLEAT_TEST_PERCENT");
    unsigned percent = 10;
    if (text != NULL && sscanf(text, "%u", &percent) != 1) {
        fprintf(stderr, "PLEAT_TEST_PERCENT=%s is no number\n", text);
        exit(EXIT_FAILURE);
    }
    return percent;
}

static uint64_t one_or(uint64_t part)
{
    return part > 0 ? part : 1;
}

uint64_t suite_part(uint64_t n)
{
    return one_or(n * percent_asked() / 100);
}

uint64_t suite_most(uint64_t n)
{
    unsigned percent = percent_asked();
    return percent < 10 ? one_or(n * percent / 10) : n;
}

uint64_t suite_step(void)
{
    unsigned percent = percent_asked();
    return percent < 10 ? 10 / (percent > 0 ? percent : 1) : 1;
}

bool suite_is_turn(int i)
{
    const char *text = getenv("PLEAT_TEST_TURN");
    int turn = 0;
    int n = 1;
    if (text != NULL && (sscanf(text, "%d/%d", &turn, &n) != 2 || turn < 0 || turn >= n)) {
        fprintf(stderr, "PLEAT_TEST_TURN=%s is not like 1/3\n", text);
        exit(EXIT_FAILURE);
    }
    return i % n == turn;
}

int suite_status(SRunner *runner)
{
    if (srunner_ntests_run(runner) == 0) {
        printf("no test was run: do CK_RUN_SUITE and CK_RUN_CASE name any?\n");
        return EXIT_FAILURE;
    }
    return srunner_ntests_failed(runner) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int status = suite_status(runner);
    srunner_free(runner);
    return status;
}

int suite_play(Suite *role)
{
    SRunner *runner = srunner_create(role);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    int n_failed = srunner_ntests_failed(runner);
    if (n_failed > 0) {
        srunner_print(runner, CK_VERBOSE);
    }
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

const char *suite_sim_conf(const char *conf)
{
    static char strict[512];
    bool is_said = strstr(conf, "dead_handles:") != NULL;
    int n = snprintf(strict, sizeof strict, "%s%s%s", conf, is_said || conf[0] == '\0' ? "" : ",",
                     is_said ? "" : "dead_handles:crash");
    ck_assert_int_lt(n, (int)sizeof strict);
    return strict;
}

/* suite.c - see suite.h. */
#include "tests/support/suite.h"

#include <stdlib.h>

TCase *suite_case(Suite *suite, const char *name, void (*open)(void), void (*close)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
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

/* suite.h - what all test programs share: cases with a fixture, and the run. */
#ifndef PLEAT_TESTS_SUITE_H
#define PLEAT_TESTS_SUITE_H

#include <check.h>

/* Make a new case of the suite; `open` and `close` run before and after each of its tests; NULL:
 * none. */
TCase *suite_case(Suite *suite, const char *name, void (*open)(void), void (*close)(void));
int suite_run(Suite *suite); /* the program's exit status */
/* Another process's part of a test: without Check's forks, silent unless it fails. */
int suite_play(Suite *role);

#endif

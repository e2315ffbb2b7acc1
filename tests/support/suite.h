/* suite.h - shared by all test programs: suites that register themselves, cases with a fixture, and
 * the run. */
#ifndef PLEAT_TESTS_SUITE_H
#define PLEAT_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

/* Define the suite FOLDER_FILE, named by its file's folder and name without "_test". The body gives
 * `suite` its cases. The runner of the folder (runner.c) finds the suite by itself. */
#define SUITE(name)                                                                                \
    static void name##_suite(Suite *suite);                                                        \
    __attribute__((constructor)) static void name##_register(void)                                 \
    {                                                                                              \
        static suite_entry entry = { #name, name##_suite, NULL };                                  \
        suite_register(&entry);                                                                    \
    }                                                                                              \
    static void name##_suite(Suite *suite)

typedef struct suite_entry {
    const char *name;
    void (*fill)(Suite *suite);
    struct suite_entry *next;
} suite_entry;

void suite_register(suite_entry *entry);

/* Call within SUITE if its tests cannot run. The program prints `why` and exits with 77. */
void suite_skip(const char *why);

/* How many of the `n` seeds, rounds or operations of a random suite to play: PLEAT_TEST_PERCENT of
 * them, or 10 %; at least one. `./dev test --long` plays all. */
uint64_t suite_part(uint64_t n);
/* For quick work that can be played whole: all of the `n`. If PLEAT_TEST_PERCENT is below 10, as
 * under sanitizers, less in proportion. */
uint64_t suite_most(uint64_t n);
/* The distance from one case to the next, for work that goes through all cases: 1. If
 * PLEAT_TEST_PERCENT is below 10, more in proportion. */
uint64_t suite_step(void);
/* Is it the turn of case i of a loop test of whole replays? PLEAT_TEST_TURN=1/3: of every third
 * case, from the second on. `./dev test` plays a third by the commit; all others play all. */
bool suite_is_turn(int i);

/* The simulator's configuration `conf`. A call with a dead handle kills the process, unless `conf`
 * says otherwise. Valid until the next call. */
const char *suite_sim_conf(const char *conf);

/* Make a new case of the suite. `open` and `close` run before and after each test of the case;
 * NULL: none. */
TCase *suite_case(Suite *suite, const char *name, void (*open)(void), void (*close)(void));
/* Say that no test of the case runs more than one thread: the thread sanitizer has nothing to find
 * there, and `./dev test` leaves them out under it (`--long` does not). */
void suite_one_thread(TCase *tcase);
int suite_run(Suite *suite); /* the exit status of a program that has no runner */
/* The exit status after a run; a run of no test has failed. */
int suite_status(SRunner *runner);
/* Play the part of a second process in a test: without Check's forks, and silent unless it
 * fails. */
int suite_play(Suite *role);

#endif

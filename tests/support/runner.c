/* runner.c - the program of a folder of tests: runs all suites, or the suite named by CK_RUN_SUITE.
 *
 * Every suite of the folder registers itself before main (SUITE, suite.h). Only the suites that run
 * are made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"

enum { SKIPPED = 77 }; /* the exit status that ctest takes for "skipped" */

static suite_entry *entries; /* by name */
static const char *why_skipped;

void suite_register(suite_entry *entry)
{
    suite_entry **at = &entries;
    while (*at != NULL && strcmp((*at)->name, entry->name) < 0) {
        at = &(*at)->next;
    }
    entry->next = *at;
    *at = entry;
}

void suite_skip(const char *why)
{
    why_skipped = why;
}

static int run(const suite_entry *entry)
{
    Suite *suite = suite_create(entry->name);
    why_skipped = NULL;
    entry->fill(suite);
    SRunner *runner = srunner_create(suite);
    int status = SKIPPED;
    if (why_skipped != NULL) {
        printf("%s: skipped: %s\n", entry->name, why_skipped);
    } else {
        srunner_run_all(runner, CK_ENV);
        status = suite_status(runner);
    }
    srunner_free(runner);
    return status;
}

int main(void)
{
    const char *wanted = getenv("CK_RUN_SUITE");
    setenv("CK_DEFAULT_TIMEOUT", "0", 0); /* ctest ends hanging programs */
    int n_run = 0;
    int n_skipped = 0;
    int n_failed = 0;
    for (const suite_entry *entry = entries; entry != NULL; entry = entry->next) {
        if (wanted == NULL || strcmp(wanted, entry->name) == 0) {
            int status = run(entry);
            n_run++;
            n_skipped += status == SKIPPED;
            n_failed += status == EXIT_FAILURE;
        }
    }
    if (n_run == 0) {
        fprintf(stderr,
                "no suite is called %s; SUITE(NAME) of FOLDER/FILE_test.c is FOLDER_FILE:\n",
                wanted);
        for (const suite_entry *entry = entries; entry != NULL; entry = entry->next) {
            fprintf(stderr, "  %s\n", entry->name);
        }
        return EXIT_FAILURE;
    }
    if (n_failed > 0) {
        return EXIT_FAILURE;
    }
    return n_skipped == n_run ? SKIPPED : EXIT_SUCCESS;
}

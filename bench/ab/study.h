/* study.h - the folder that `pleat ab` writes: results.csv, results.jsonl,
 * timelines.jsonl, moments.jsonl, verdicts.jsonl.
 *
 * Rows are appended as cells end, so an interruption keeps them; at the end the files are written
 * again in the order of the command line. Only our own files are replaced. */
#ifndef PLEAT_BENCH_STUDY_H
#define PLEAT_BENCH_STUDY_H

#include <stdio.h>

#include "bench/ab/plan.h"

enum {
    BENCH_STUDY_CSV,
    BENCH_STUDY_JSON,
    BENCH_STUDY_TIMELINES,
    BENCH_STUDY_MOMENTS,
    BENCH_STUDY_VERDICTS,
    BENCH_STUDY_N_FILES,
    BENCH_STUDY_FLEET = BENCH_STUDY_N_FILES, /* fleet.json: of a merge only */
    BENCH_STUDY_BLOCKS,                      /* blocks.jsonl: at the end, of no merge */
    BENCH_STUDY_N_NAMES
};

typedef struct bench_study {
    const bench_ab_plan *plan;
    FILE *files[BENCH_STUDY_N_FILES];
} bench_study;

/* Make the folder if need be and begin the files; a report of an earlier study is removed. If the
 * folder cannot be written, or holds a foreign file with one of our names, returns false and a
 * message, and touches nothing. */
bool bench_study_open(bench_study *study, const bench_ab_plan *plan, bench_failure *failure);
/* Append a cell that was measured or failed. False and a message when writing fails. */
bool bench_study_add(bench_study *study, const bench_ab_cell *cell, bench_failure *failure);
/* Write everything again in its final order and close. False and a message as above. */
bool bench_study_finish(bench_study *study, bool is_interrupted, bench_failure *failure);

/* What both kinds of studies need of their folder. Make it if need be; false and a message if it
 * holds a foreign file with one of our names. */
bool bench_study_check(const char *folder, bench_failure *failure);
/* Remove the pages, fleet.json and blocks.jsonl of an earlier study. */
void bench_study_forget(const char *folder);
/* Write a file beside the old one, then rename it into place. False and a message as above. */
typedef bool bench_study_writer(void *context, int which, FILE *file);
bool bench_study_put(const char *folder, int which, bench_study_writer *write, void *context,
                     bench_failure *failure);

#endif

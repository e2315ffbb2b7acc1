/* state_lines.h - what a snapshot shows of its own moment: lines for the terminal and the page, and
 * the moment's row in moments.jsonl.
 *
 * Only of a snapshot that tells more than its history (bench_state_matters). */
#ifndef PLEAT_BENCH_STATE_LINES_H
#define PLEAT_BENCH_STATE_LINES_H

#include <jansson.h>

#include "bench/ab/plan.h"
#include "bench/ab/verdict.h"
#include "bench/base/line.h"

enum {
    BENCH_STATE_SNAPSHOT,
    BENCH_STATE_STRANDED,
    BENCH_STATE_CACHED,
    BENCH_STATE_ANEW,
    BENCH_STATE_LINES
};

extern const char *const bench_state_titles[BENCH_STATE_LINES];

typedef struct bench_state_text {
    char lines[BENCH_STATE_LINES][BENCH_LINE_BYTES]; /* "" = nothing to say */
} bench_state_text;

/* The lines of a work, judged by `in`. All are empty if the snapshot has nothing to tell, or when
 * out of host memory. */
void bench_state_write(const bench_work *work, const bench_verdict_input *in,
                       bench_state_text *out);
/* Give a verdict its work's lines, pairs of title and text, if there are any. */
void bench_state_set(const bench_work *work, const bench_verdict_input *in, json_t *verdict);
/* The row of a work's moment, if it has any. False when writing fails or out of host memory. */
bool bench_state_row(const bench_work *work, FILE *file);

#endif

/* survey.h - describes a work: counts, the largest block, the sizes of its blocks. */
#ifndef PLEAT_BENCH_SURVEY_H
#define PLEAT_BENCH_SURVEY_H

#include <jansson.h>

#include "bench/works/work.h"

enum { SURVEY_CLASSES = 48 }; /* class k: blocks of more than 2^(k-1) bytes, up to 2^k */

typedef struct bench_survey {
    uint64_t n_allocations;
    uint64_t allocated_bytes; /* as requested */
    uint64_t largest_bytes;
    uint64_t counts[SURVEY_CLASSES];
    uint64_t bytes[SURVEY_CLASSES];
} bench_survey;

/* One pass over the work. False and a message when out of host memory. */
bool bench_survey_take(const bench_work *work, bench_survey *out, bench_failure *failure);
void bench_survey_print(const bench_work *work, const bench_survey *survey);
/* A new object. */
json_t *bench_survey_object(const bench_work *work, const bench_survey *survey);

#endif

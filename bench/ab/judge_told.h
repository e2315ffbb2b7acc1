/* judge_told.h - the part of a verdict's line that tells of its recording. */
#ifndef PLEAT_BENCH_JUDGE_TOLD_H
#define PLEAT_BENCH_JUDGE_TOLD_H

#include <jansson.h>

#include "bench/ab/verdict.h"

json_t *bench_told_object(const bench_told *told);
/* Of a snapshot with memory on several devices; else null. */
json_t *bench_devices_object(const bench_devices *of);

/* What the line of a verdict says. */
void bench_told_read(const json_t *verdict, bench_told *out);
void bench_devices_read(const json_t *verdict, bench_devices *out);

#endif

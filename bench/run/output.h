/* output.h - records as JSON lines and as tables. */
#ifndef PLEAT_BENCH_OUTPUT_H
#define PLEAT_BENCH_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

#include "bench/run/replay.h"

/* Print an object as a line on stdout. False when writing fails. */
bool bench_output_json(const bench_record *record);
/* The JSON object of a record. */
json_t *bench_output_object(const bench_record *record);
/* Set the two keys of `fit`; NULL = `fit` found nothing. */
void bench_output_set_fit(json_t *object, const bench_record *record);
/* Print any object as a line and free it. False when writing fails. */
bool bench_output_line(json_t *object, FILE *file);

enum { BENCH_OUTPUT_NAME = 24 }; /* characters of a work's name; longer ones are cut */

/* Heading and row of the tables of replay, or of fit (is_fit). The last column of a replay is there
 * if the allocator's own time was measured. */
void bench_output_heading(bool is_fit, bool is_timed);
void bench_output_row(const bench_record *record);

/* Print to stderr the number of failed allocations, the reason of the first one, and the number of
 * hazards. Print nothing if all are 0. `who` is the allocator or its policy. */
void bench_output_refusals(const bench_record *record, const char *who);

/* Resident bytes over live bytes, at their peaks. */
double bench_output_ratio(const bench_record *record);
/* Device operations per 1,000 events. */
double bench_output_per_1000(const bench_record *record);

#endif

/* output.h - records as JSON lines and as tables. */
#ifndef PLEAT_BENCH_OUTPUT_H
#define PLEAT_BENCH_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

#include "bench/run/replay.h"

/* One object, one line, on stdout. False when stdout cannot take it. */
bool bench_output_json(const bench_record *record);
/* The object of it. */
json_t *bench_output_object(const bench_record *record);
/* The two keys that `fit` adds; NULL = it found nothing. */
void bench_output_set_fit(json_t *object, const bench_record *record);
/* Any object as a line, which ends the object's life. False when the file cannot take it. */
bool bench_output_line(json_t *object, FILE *file);

enum { BENCH_OUTPUT_NAME = 24 }; /* characters of a work's name in them: longer ones are cut */

/* Heading and row of the tables of replay and of fit (chosen by is_fit). */
void bench_output_heading(bool is_fit);
void bench_output_row(const bench_record *record);

/* Resident bytes over live bytes, at their peaks. */
double bench_output_ratio(const bench_record *record);
/* Device operations per 1,000 events. */
double bench_output_per_1000(const bench_record *record);

#endif

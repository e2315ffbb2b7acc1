/* output.h - records as JSON lines and as tables. */
#ifndef PLEAT_BENCH_OUTPUT_H
#define PLEAT_BENCH_OUTPUT_H

#include "bench/replay.h"

/* One object, one line, on stdout. False when stdout cannot take it. */
bool bench_output_json(const bench_record *record);

/* Heading and row of the tables of replay and of fit (chosen by is_fit). */
void bench_output_heading(bool is_fit);
void bench_output_row(const bench_record *record);

/* Resident bytes over live bytes, at their peaks. */
double bench_output_ratio(const bench_record *record);

#endif

/* csv.h - a table in text: a line of column names, then lines of as many fields. No quotes. */
#ifndef PLEAT_BENCH_CSV_H
#define PLEAT_BENCH_CSV_H

#include <stddef.h>
#include <stdint.h>

#include "bench/work/lines.h"

enum { BENCH_CSV_MOST_COLUMNS = 64 };

typedef struct bench_csv_field {
    const char *begin; /* without blanks around it */
    const char *end;
} bench_csv_field;

typedef struct bench_csv {
    const char *path;
    bench_lines *lines;
    bench_failure *failure;
    unsigned n_columns;
    bench_csv_field fields[BENCH_CSV_MOST_COLUMNS]; /* of the line, valid until the next one */
} bench_csv;

/* Open and read the column names; places[i] is where names[i] stands (names end with a NULL; upper
 * and lower case are the same). False and a message: no file, no such column. */
bool bench_csv_open(const char *path, const bench_limits *limits, const char *const *names,
                    unsigned *places, bench_csv *out, bench_failure *failure);
void bench_csv_close(bench_csv *csv);

/* 1: there is a line (blank ones are passed over); 0: no more; -1 and a message: it has too few or
 * too many fields, or the file is damaged. */
int bench_csv_next(bench_csv *csv);

/* Put "file:line: " in front of the message; always false. */
bool bench_csv_fail(const bench_csv *csv, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A field as a decimal number of at most `most`; or as an address, hexadecimal with or without 0x,
 * "(nil)" and "nullptr" being 0. `what` names it in the message. */
bool bench_csv_number(const bench_csv *csv, unsigned column, const char *what, uint64_t most,
                      uint64_t *out);
bool bench_csv_address(const bench_csv *csv, unsigned column, const char *what, uint64_t *out);
bool bench_csv_is(const bench_csv *csv, unsigned column, const char *word);
/* The field for a message: short, and without what a terminal would obey. */
const char *bench_csv_show(const bench_csv *csv, unsigned column, char out[48]);

/* Whether a line of column names has this one. */
bool bench_csv_has_column(const char *begin, const char *end, const char *name);

#endif

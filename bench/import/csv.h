/* csv.h - reads a table in text: a line of column names, then lines with as many fields. No
 * quotes. */
#ifndef PLEAT_BENCH_CSV_H
#define PLEAT_BENCH_CSV_H

#include <stddef.h>
#include <stdint.h>

#include "bench/work/lines.h"

enum { BENCH_CSV_MOST_COLUMNS = 64 };

typedef struct bench_csv_field {
    const char *begin; /* without surrounding blanks */
    const char *end;
} bench_csv_field;

typedef struct bench_csv {
    const char *path;
    bench_lines *lines;
    bench_failure *failure;
    unsigned n_columns;
    bench_csv_field fields[BENCH_CSV_MOST_COLUMNS]; /* valid until the next line */
} bench_csv;

/* Open the file and read the column names. places[i] is the column of names[i]. `names` ends with
 * NULL; case does not matter. False and a message: no file, or a missing column. */
bool bench_csv_open(const char *path, const bench_limits *limits, const char *const *names,
                    unsigned *places, bench_csv *out, bench_failure *failure);
void bench_csv_close(bench_csv *csv);

/* Read the next line, and skip blank ones. 1: read. 0: no more lines. -1 and a message: too few or
 * too many fields, or a damaged file. */
int bench_csv_next(bench_csv *csv);

/* Put "file:line: " in front of the message. Always returns false. */
bool bench_csv_fail(const bench_csv *csv, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Read a field as a decimal number of at most `most`; or as a hexadecimal address, with or without
 * 0x, where "(nil)" and "nullptr" are 0. `what` names the field in the message. */
bool bench_csv_number(const bench_csv *csv, unsigned column, const char *what, uint64_t most,
                      uint64_t *out);
bool bench_csv_address(const bench_csv *csv, unsigned column, const char *what, uint64_t *out);
bool bench_csv_is(const bench_csv *csv, unsigned column, const char *word);
/* The field for a message: short, and without control characters. */
const char *bench_csv_show(const bench_csv *csv, unsigned column, char out[48]);

/* Does a line of column names contain `name`? */
bool bench_csv_has_column(const char *begin, const char *end, const char *name);

#endif

/* csv.c - reads a table in text. */
#include "bench/import/csv.h"

#include <string.h>
#include <strings.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Read the field at *at, and move *at to the comma after the field, or to `end`. */
static bench_csv_field next_field(const char **at, const char *end)
{
    const char *begin = *at;
    const char *comma = memchr(begin, ',', (size_t)(end - begin));
    const char *stop = comma ? comma : end;
    *at = stop;
    while (begin < stop && is_blank(*begin)) {
        begin++;
    }
    while (stop > begin && is_blank(stop[-1])) {
        stop--;
    }
    return (bench_csv_field){ .begin = begin, .end = stop };
}

static bool field_is(bench_csv_field field, const char *word)
{
    size_t n = (size_t)(field.end - field.begin);
    return strlen(word) == n && strncasecmp(field.begin, word, n) == 0;
}

bool bench_csv_has_column(const char *begin, const char *end, const char *name)
{
    for (const char *at = begin;; at++) {
        if (field_is(next_field(&at, end), name)) {
            return true;
        }
        if (at == end) {
            return false;
        }
    }
}

bool bench_csv_fail(const bench_csv *csv, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    uint64_t line = bench_lines_number(csv->lines);
    return bench_fail(csv->failure, "%s:%llu: %s", csv->path, (unsigned long long)(line ? line : 1),
                      text);
}

/* Cuts the next line that is not blank into fields, like bench_csv_next. */
static int cut_line(bench_csv *csv, unsigned *n_fields)
{
    const char *at;
    const char *end;
    int more;
    do {
        more = bench_lines_next(csv->lines, &at, &end, csv->failure);
        while (more > 0 && at < end && is_blank(*at)) {
            at++;
        }
    } while (more > 0 && at == end);
    *n_fields = 0;
    if (more <= 0) {
        return more;
    }
    for (;; at++) {
        if (*n_fields == BENCH_CSV_MOST_COLUMNS) {
            bench_csv_fail(csv, "more than %d fields", BENCH_CSV_MOST_COLUMNS);
            return -1;
        }
        csv->fields[(*n_fields)++] = next_field(&at, end);
        if (at == end) {
            return 1;
        }
    }
}

static bool find_columns(const bench_csv *csv, const char *const *names, unsigned *places)
{
    for (unsigned i = 0; names[i]; i++) {
        unsigned column = 0;
        while (column < csv->n_columns && !field_is(csv->fields[column], names[i])) {
            column++;
        }
        if (column == csv->n_columns) {
            return bench_csv_fail(csv, "no column is called '%s'", names[i]);
        }
        places[i] = column;
    }
    return true;
}

bool bench_csv_open(const char *path, const bench_limits *limits, const char *const *names,
                    unsigned *places, bench_csv *out, bench_failure *failure)
{
    *out = (bench_csv){ .path = path, .failure = failure };
    out->lines = bench_lines_open(path, limits, failure);
    if (!out->lines) {
        return false;
    }
    int more = cut_line(out, &out->n_columns);
    if (more == 0) {
        bench_csv_fail(out, "the file is empty");
    }
    if (more <= 0 || !find_columns(out, names, places)) {
        bench_csv_close(out);
        return false;
    }
    return true;
}

void bench_csv_close(bench_csv *csv)
{
    bench_lines_close(csv->lines);
}

int bench_csv_next(bench_csv *csv)
{
    unsigned n_fields;
    int more = cut_line(csv, &n_fields);
    if (more > 0 && n_fields != csv->n_columns) {
        bench_csv_fail(csv, "%u fields where there are %u columns", n_fields, csv->n_columns);
        return -1;
    }
    return more;
}

const char *bench_csv_show(const bench_csv *csv, unsigned column, char out[48])
{
    const char *begin = csv->fields[column].begin;
    size_t length = (size_t)(csv->fields[column].end - begin);
    size_t shown = length < 44 ? length : 44;
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)begin[i];
        out[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    memcpy(out + shown, shown < length ? "..." : "", shown < length ? 4 : 1);
    return out;
}

bool bench_csv_is(const bench_csv *csv, unsigned column, const char *word)
{
    return field_is(csv->fields[column], word);
}

static unsigned digit_of(char c)
{
    unsigned letter = (unsigned)((c | 0x20) - 'a');
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : letter < 6 ? 10 + letter : 99;
}

/* Read all of [at, end) as a number. 0: not a number. -1: larger than `most`. */
static int parse(const char *at, const char *end, unsigned base, uint64_t most, uint64_t *out)
{
    uint64_t n = 0;
    bool is_huge = false;
    if (at == end) {
        return 0;
    }
    for (; at < end; at++) {
        unsigned digit = digit_of(*at);
        if (digit >= base) {
            return 0;
        }
        is_huge = is_huge || n > (UINT64_MAX - digit) / base;
        n = n * base + digit;
    }
    *out = n;
    return is_huge || n > most ? -1 : 1;
}

bool bench_csv_number(const bench_csv *csv, unsigned column, const char *what, uint64_t most,
                      uint64_t *out)
{
    char shown[48];
    bench_csv_field field = csv->fields[column];
    int is_number = parse(field.begin, field.end, 10, most, out);
    if (is_number > 0) {
        return true;
    }
    bench_csv_show(csv, column, shown);
    return is_number < 0 ? bench_csv_fail(csv, "%s %s is larger than %llu", what, shown,
                                          (unsigned long long)most)
                         : bench_csv_fail(csv, "%s is not a number: '%s'", what, shown);
}

bool bench_csv_address(const bench_csv *csv, unsigned column, const char *what, uint64_t *out)
{
    char shown[48];
    bench_csv_field field = csv->fields[column];
    if (field_is(field, "(nil)") || field_is(field, "nullptr")) {
        *out = 0;
        return true;
    }
    bool has_prefix = field.end - field.begin > 2 && field.begin[0] == '0' &&
                      (field.begin[1] | 0x20) == 'x';
    if (parse(field.begin + (has_prefix ? 2 : 0), field.end, 16, UINT64_MAX, out) > 0) {
        return true;
    }
    return bench_csv_fail(csv, "%s is not an address: '%s'", what,
                          bench_csv_show(csv, column, shown));
}

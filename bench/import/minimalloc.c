/* minimalloc.c - static allocation problems: intervals become events in the order of time. */
#include "bench/import/minimalloc.h"

#include <stdlib.h> /* qsort */

#include "bench/import/csv.h"
#include "bench/work/ids.h"

enum { ID, LOWER, UPPER, SIZE, N_COLUMNS };

/* The beginning or the end of a buffer's life. */
typedef struct moment {
    uint64_t time;
    uint32_t buffer;
    bool is_end;
} moment;

typedef struct buffer {
    uint64_t bytes;
    uint32_t slot;
} buffer;

typedef struct reader {
    bench_csv csv;
    unsigned places[N_COLUMNS];
    uint64_t scale;
    bench_ids ids;
    buffer *buffers;
    moment *moments; /* two a buffer */
    uint32_t n;
    uint32_t capacity;
    bench_tape *tape;
} reader;

static bool out_of_memory(const reader *r)
{
    return bench_csv_fail(&r->csv, "%s", bench_host_problem(&r->tape->host));
}

static bool make_room(reader *r)
{
    if (r->n < r->capacity) {
        return true;
    }
    if (r->capacity > UINT32_MAX / 4) {
        return bench_csv_fail(&r->csv, "too many buffers");
    }
    uint32_t capacity = r->capacity ? 2 * r->capacity : 256;
    bench_host *host = &r->tape->host;
    buffer *buffers = bench_host_resize(host, r->buffers, r->capacity * sizeof *buffers,
                                        capacity * sizeof *buffers);
    r->buffers = buffers ? buffers : r->buffers;
    moment *moments = bench_host_resize(host, r->moments, 2 * (size_t)r->capacity * sizeof *moments,
                                        2 * (size_t)capacity * sizeof *moments);
    r->moments = moments ? moments : r->moments;
    if (!buffers || !moments) {
        return out_of_memory(r);
    }
    r->capacity = capacity;
    return true;
}

/* FNV-1a of 64 bits (Fowler, Noll and Vo). */
static uint64_t hash_of(bench_csv_field text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = text.begin; c < text.end; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Check that no id comes twice. An id is any text: minimalloc's own examples call buffers b1,
 * b2... */
static bool check_id(reader *r)
{
    bench_csv_field id = r->csv.fields[r->places[ID]];
    if (id.begin == id.end) {
        return bench_csv_fail(&r->csv, "the id is missing");
    }
    size_t n_known = r->ids.n_entries;
    if (!bench_ids_get(&r->ids, hash_of(id))) {
        return out_of_memory(r);
    }
    char shown[48];
    return r->ids.n_entries > n_known ||
           bench_csv_fail(&r->csv, "id '%s' is there twice",
                          bench_csv_show(&r->csv, r->places[ID], shown));
}

static bool read_line(reader *r)
{
    const bench_csv *csv = &r->csv;
    uint64_t lower = 0;
    uint64_t upper = 0;
    uint64_t size = 0;
    if (!check_id(r) || !bench_csv_number(csv, r->places[LOWER], "lower", UINT64_MAX, &lower) ||
        !bench_csv_number(csv, r->places[UPPER], "upper", UINT64_MAX, &upper) ||
        !bench_csv_number(csv, r->places[SIZE], "the size", BENCH_LARGEST_BLOCK / r->scale,
                          &size) ||
        !make_room(r)) {
        return false;
    }
    if (lower >= upper) {
        return bench_csv_fail(csv, "lower %llu is not below upper %llu", (unsigned long long)lower,
                              (unsigned long long)upper);
    }
    if (size == 0) {
        return bench_csv_fail(csv, "the size is 0");
    }
    r->buffers[r->n].bytes = size * r->scale;
    r->moments[2 * (size_t)r->n] = (moment){ .time = lower, .buffer = r->n };
    r->moments[2 * (size_t)r->n + 1] = (moment){ .time = upper, .buffer = r->n, .is_end = true };
    r->n++;
    return true;
}

static int by_time(const void *a, const void *b)
{
    const moment *x = a;
    const moment *y = b;
    if (x->time != y->time) {
        return x->time > y->time ? 1 : -1;
    }
    if (x->is_end != y->is_end) {
        return x->is_end ? -1 : 1;
    }
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static bool write_moments(reader *r)
{
    size_t n = 2 * (size_t)r->n;
    qsort(r->moments, n, sizeof *r->moments, by_time);
    for (size_t i = 0; i < n; i++) {
        buffer *b = &r->buffers[r->moments[i].buffer];
        if (!(r->moments[i].is_end ? bench_tape_free(r->tape, b->slot)
                                   : bench_tape_alloc(r->tape, b->bytes, 0, &b->slot))) {
            return bench_csv_fail(&r->csv, "%s", r->tape->problem);
        }
    }
    return true;
}

static bool read_all(reader *r)
{
    int more;
    while ((more = bench_csv_next(&r->csv)) > 0) {
        if (!read_line(r)) {
            return false;
        }
    }
    if (more < 0) {
        return false;
    }
    return r->n > 0 ? write_moments(r) : bench_csv_fail(&r->csv, "no buffer");
}

bool bench_minimalloc_read(const char *path, const bench_limits *limits, uint64_t scale,
                           bench_tape *tape, bench_failure *failure)
{
    static const char *const names[] = {
        [ID] = "id", [LOWER] = "lower", [UPPER] = "upper", [SIZE] = "size", NULL
    };
    reader r = { .scale = scale, .tape = tape };
    if (!bench_csv_open(path, limits, names, r.places, &r.csv, failure)) {
        return false;
    }
    bool ok = bench_ids_init(&r.ids, &tape->host, false) ? read_all(&r) : out_of_memory(&r);
    bench_ids_fini(&r.ids);
    bench_host_free(&tape->host, r.buffers, r.capacity * sizeof *r.buffers);
    bench_host_free(&tape->host, r.moments, 2 * (size_t)r.capacity * sizeof *r.moments);
    bench_csv_close(&r.csv);
    return ok;
}

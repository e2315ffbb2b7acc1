/* rmm.c - the logs of RMM's logging_resource_adaptor. */
#include "bench/import/rmm.h"

#include "bench/import/csv.h"
#include "bench/work/ids.h"
#include "bench/work/streams.h"

enum { ACTION, POINTER, SIZE, STREAM, N_COLUMNS };

typedef struct reader {
    bench_csv csv;
    unsigned places[N_COLUMNS];
    bool tries_failures;
    bench_ids ids;
    bench_streams streams;
    bench_tape *tape;
} reader;

static bool complain(const reader *r)
{
    return bench_csv_fail(&r->csv, "%s", r->tape->problem);
}

static bool out_of_memory(const reader *r)
{
    return bench_csv_fail(&r->csv, "%s", bench_host_problem(&r->tape->host));
}

static bool find_stream(reader *r, uint32_t *out)
{
    uint64_t stream = 0;
    if (!bench_csv_address(&r->csv, r->places[STREAM], "the stream", &stream)) {
        return false;
    }
    return bench_streams_find(&r->streams, stream, out) ||
           bench_csv_fail(&r->csv, "more than %u streams", BENCH_MOST_STREAMS);
}

static bool read_allocate(reader *r, uint64_t pointer, uint64_t bytes)
{
    uint32_t stream = 0;
    if (!find_stream(r, &stream)) {
        return false;
    }
    bench_id *id = bench_ids_get(&r->ids, pointer);
    if (!id) {
        return out_of_memory(r);
    }
    if (id->is_live) {
        return bench_csv_fail(&r->csv, "0x%llx is allocated twice", (unsigned long long)pointer);
    }
    if (!bench_tape_alloc(r->tape, bytes, stream, &id->slot)) {
        return complain(r);
    }
    bench_ids_begin(&r->ids, id);
    return true;
}

/* A size larger than any device is left out. */
static bool read_failure(reader *r, uint64_t bytes)
{
    uint32_t stream = 0;
    uint32_t slot;
    if (!find_stream(r, &stream)) {
        return false;
    }
    if (!r->tries_failures || bytes > BENCH_LARGEST_BLOCK) {
        return true;
    }
    return (bench_tape_alloc(r->tape, bytes, stream, &slot) && bench_tape_free(r->tape, slot)) ||
           complain(r);
}

static bool read_free(reader *r, uint64_t pointer)
{
    bench_id *id = bench_ids_get(&r->ids, pointer);
    if (!id) {
        return out_of_memory(r);
    }
    if (!id->is_live) {
        return bench_csv_fail(&r->csv, "0x%llx is freed, but not live",
                              (unsigned long long)pointer);
    }
    bench_ids_end(&r->ids, id);
    return bench_tape_free(r->tape, id->slot) || complain(r);
}

/* Requests of 0 bytes are logged, but hold nothing. */
static bool read_line(reader *r)
{
    const bench_csv *csv = &r->csv;
    unsigned action = r->places[ACTION];
    bool is_allocate = bench_csv_is(csv, action, "allocate");
    bool is_failure = bench_csv_is(csv, action, "allocate failure");
    bool is_free = bench_csv_is(csv, action, "free");
    char shown[48];
    if (!is_allocate && !is_failure && !is_free) {
        return bench_csv_fail(csv, "not an action: '%s'", bench_csv_show(csv, action, shown));
    }
    uint64_t pointer = 0;
    uint64_t bytes = 0;
    if (!bench_csv_address(csv, r->places[POINTER], "the pointer", &pointer) ||
        !bench_csv_number(csv, r->places[SIZE], "the size",
                          is_failure ? UINT64_MAX : BENCH_LARGEST_BLOCK, &bytes)) {
        return false;
    }
    if (bytes == 0) {
        return true;
    }
    if (is_allocate) {
        return read_allocate(r, pointer, bytes);
    }
    return is_free ? read_free(r, pointer) : read_failure(r, bytes);
}

static bool read_all(reader *r)
{
    int more;
    while ((more = bench_csv_next(&r->csv)) > 0) {
        if (!read_line(r)) {
            return false;
        }
    }
    return more == 0 && (r->tape->n_slots > 0 || bench_csv_fail(&r->csv, "no allocation"));
}

bool bench_rmm_read(const char *path, const bench_limits *limits, bool tries_failures,
                    bench_tape *tape, bench_failure *failure)
{
    static const char *const names[] = {
        [ACTION] = "Action", [POINTER] = "Pointer", [SIZE] = "Size", [STREAM] = "Stream", NULL
    };
    reader r = { .tries_failures = tries_failures, .tape = tape };
    if (!bench_csv_open(path, limits, names, r.places, &r.csv, failure)) {
        return false;
    }
    bool ok = bench_ids_init(&r.ids, &tape->host, true) ? read_all(&r) : out_of_memory(&r);
    bench_ids_fini(&r.ids);
    bench_csv_close(&r.csv);
    return ok;
}

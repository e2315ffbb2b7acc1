/* rmm_1245.c - a query engine over data frames: 53.5 GB live on a card of 80 GB, and 133 MB are
 * refused.
 *
 * Partitions of some columns are made, each with a hash table, which is freed at once. The
 * partitions are consumed in any order. All columns of a partition go together. Nothing is
 * periodic, so no cache ever fits.
 *
 * Caches cut their segments up until none can be given back. The needs are 1.06 times the peak for
 * torch-native, 1.08 for cuda-async, 1.23 for tf-bfc and 1.05 for torch-expandable. Caches by size
 * (mxnet-*) find almost no size twice, and empty the cache hundreds of times. By its rounding
 * mxnet-round needs 1.12. Only granules of live blocks are needed by pleat, 1.01.
 *
 * Published: 53,514,136,688 live bytes, 300 GB allocated in all until the failure, the refused size
 * (132,870,728 bytes), and that the driver's own pool held 84.5 GB then. Inferred: rows, columns
 * and the order of consumption; the recording itself is not public any more.
 * Source: github.com/rapidsai/rmm/issues/1245. */
#include <stdlib.h>

#include "bench/base/random.h"
#include "bench/patterns/patterns.h"

#define LEAST_ROWS 1000000u
#define MOST_ROWS 12000000u
#define TABLE_ROW_BYTES 24u
#define LEAST_BYTES (4u * LEAST_ROWS) /* of a column */

enum { P_LIVE, P_COLUMN, LEAST_COLUMNS = 2, MOST_COLUMNS = 9 };

static const bench_param params[] = {
    { .name = "live",
      .doc = "most bytes that live at once",
      .standard = 53514136688.0,
      .least = 1.0 * (UINT64_C(4) << 30),
      .most = 1.0 * (UINT64_C(1) << 42),
      .is_whole = true },
    { .name = "column",
      .doc = "bytes of one column in six; the others are 4 or 8 bytes a row",
      .standard = 132870728,
      .least = LEAST_BYTES,
      .most = 1.0 * (UINT64_C(1) << 27),
      .is_whole = true },
    { .name = NULL },
};

typedef struct partition {
    uint32_t columns[MOST_COLUMNS]; /* slots */
    unsigned n_columns;
    uint64_t bytes;
} partition;

typedef struct engine {
    bench_random random;
    uint64_t most_bytes;
    uint64_t column_bytes;
    uint64_t live_bytes;
    size_t n_partitions;
    partition partitions[]; /* room for as many as the live bytes allow */
} engine;

/* A partition takes at most this many bytes while it is made. So the next one always has room. */
static uint64_t largest_partition(uint64_t column_bytes)
{
    uint64_t column = column_bytes > 8u * MOST_ROWS ? column_bytes : 8u * MOST_ROWS;
    return MOST_COLUMNS * column + (uint64_t)TABLE_ROW_BYTES * MOST_ROWS;
}

static void *create(const bench_values *values, bench_failure *failure)
{
    uint64_t column_bytes = (uint64_t)values->of[P_COLUMN];
    uint64_t most_bytes = (uint64_t)values->of[P_LIVE];
    size_t capacity = (size_t)(most_bytes / (LEAST_COLUMNS * LEAST_BYTES)) + 1;
    engine *e = calloc(1, sizeof *e + capacity * sizeof e->partitions[0]);
    if (!e) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    e->random.state = values->seed;
    e->most_bytes = most_bytes;
    e->column_bytes = column_bytes;
    return e;
}

static bool make_column(engine *e, partition *made, uint64_t n_rows, bench_tape *tape)
{
    uint64_t row_bytes = UINT64_C(4) << bench_random_between(&e->random, 0, 1);
    bool is_fixed = bench_random_between(&e->random, 1, 6) == 1;
    uint64_t bytes = is_fixed ? e->column_bytes : row_bytes * n_rows;
    made->bytes += bytes;
    return bench_tape_alloc(tape, bytes, 0, &made->columns[made->n_columns++]);
}

static bool make(engine *e, bench_tape *tape)
{
    uint64_t n_rows = bench_random_between(&e->random, LEAST_ROWS, MOST_ROWS);
    uint64_t n_columns = bench_random_between(&e->random, LEAST_COLUMNS, MOST_COLUMNS);
    partition *made = &e->partitions[e->n_partitions++];
    *made = (partition){ .n_columns = 0 };
    uint32_t table;
    if (!bench_tape_alloc(tape, TABLE_ROW_BYTES * n_rows, 0, &table)) {
        return false;
    }
    while (made->n_columns < n_columns) {
        if (!make_column(e, made, n_rows, tape)) {
            return false;
        }
    }
    e->live_bytes += made->bytes;
    return bench_tape_free(tape, table);
}

static bool consume(engine *e, size_t i, bench_tape *tape)
{
    partition *gone = &e->partitions[i];
    for (unsigned k = 0; k < gone->n_columns; k++) {
        if (!bench_tape_free(tape, gone->columns[k])) {
            return false;
        }
    }
    e->live_bytes -= gone->bytes;
    *gone = e->partitions[--e->n_partitions];
    return true;
}

/* An iteration makes one partition. */
static bool write(void *state, uint64_t number, bench_tape *tape)
{
    (void)number;
    engine *e = state;
    if (!make(e, tape)) {
        return false;
    }
    while (e->live_bytes > e->most_bytes - largest_partition(e->column_bytes)) {
        size_t i = (size_t)bench_random_between(&e->random, 0, e->n_partitions - 1);
        if (!consume(e, i, tape)) {
            return false;
        }
    }
    return true;
}

const bench_generator bench_rmm_1245 = {
    .name = "rmm#1245",
    .doc = "a query engine over data frames; 660 partitions are 300 GB in all",
    .params = params,
    .iterations = 660,
    .create = create,
    .destroy = free,
    .write = write,
};

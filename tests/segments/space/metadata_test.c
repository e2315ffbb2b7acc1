/* metadata_test.c - the host memory of live blocks and of streams.
 *
 * Sizes are mixed, from 512 bytes to 1 MiB. After the allocation of its blocks the program goes on
 * for a while. So free blocks lie between them. With PLEAT_FIGURES set the figures are printed. */
/* labels: unit */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "segments/pleat/space/space.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"
#include "vmm/device_state.h"

#define SIM "capacity:16T,depth:256"

enum { N_STREAMS = 1000, N_EACH = 100 };

/* Most bytes for each live block, and for a thousand streams with 100 blocks each. A block's struct
 * has 128 bytes; a lane has 7 KB. */
enum { MOST_FILLED = 148, MOST_LATER = 160, MOST_OF_STREAMS = 24000000 };

typedef struct live {
    pleat_devptr ptr;
    pl_stream *stream;
} live;

static live *blocks;
static size_t n_blocks;

static uint64_t state;

static size_t below(size_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % n);
}

/* Seven in ten have at most 32 KiB, two at most 256 KiB, one at most 1 MiB. */
static size_t draw(void)
{
    size_t kind = below(10);
    return 512 * (1 + below(kind < 7 ? 64 : kind < 9 ? 512 : 2048));
}

static void get(size_t i)
{
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, draw(), blocks[i].stream, &blocks[i].ptr),
                     PLEAT_OK);
}

static void put(size_t i)
{
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, blocks[i].ptr, blocks[i].stream), PLEAT_OK);
}

/* ---- the uses of host memory ----------------------------------------------------------------- */

typedef struct figures {
    size_t live_blocks; /* bytes: the structs of live blocks... */
    size_t other_blocks;
    size_t spare_blocks;
    size_t live_map;
    size_t tables; /* of segments */
    size_t lanes;
    size_t rest;   /* of the allocator's */
    size_t space;  /* sum of the above */
    size_t device; /* streams and fences */
} figures;

static const pl_space *space(void)
{
    return (const pl_space *)pleat.a;
}

static size_t slots_bytes(const pl_ptrmap_table *table)
{
    return table->slots != NULL ? (table->mask + 1) * sizeof table->slots[0] : 0;
}

static size_t tables_bytes(const pl_segment *seg)
{
    double granule = (double)seg->tables_bytes /
                     (double)((seg->range.bytes >> seg->granule_log2) + 2);
    return sizeof *seg + (size_t)(granule * (double)seg->capacity);
}

static figures read_figures(void)
{
    const pl_space *s = space();
    size_t n_other = 0;
    for (int i = 0; i < PL_N_BLOCK_STATES; i++) {
        n_other += s->blocks.store.tally.n_blocks[i];
    }
    figures f = {
        .live_blocks = s->blocks.live.count * sizeof(pl_block),
        .other_blocks = n_other * sizeof(pl_block),
        .spare_blocks = s->blocks.store.n_spare * sizeof(pl_block),
        .live_map = slots_bytes(&s->blocks.live.now) + slots_bytes(&s->blocks.live.old),
        .lanes = s->streams.n_lanes * sizeof(pl_lane),
        .space = s->meta.bytes,
        .device = pleat.dev->meta.bytes,
    };
    for (const pl_segment *seg = pl_space_lowest(s); seg != NULL; seg = pl_segment_above(seg)) {
        f.tables += tables_bytes(seg);
    }
    f.rest = f.space - f.live_blocks - f.other_blocks - f.spare_blocks - f.live_map - f.tables -
             f.lanes;
    return f;
}

static void print(const char *what, const figures *f)
{
    double n = (double)n_blocks;
    if (getenv("PLEAT_FIGURES") == NULL) {
        return;
    }
    (void)printf("%s: %zu live, %.1f bytes each and %.1f of the device: live blocks %.1f, other "
                 "%.1f, spare %.1f, map %.1f, tables %.1f, lanes %.1f, rest %.1f; %.2f + %.2f MB\n",
                 what, n_blocks, (double)f->space / n, (double)f->device / n,
                 (double)f->live_blocks / n, (double)f->other_blocks / n,
                 (double)f->spare_blocks / n, (double)f->live_map / n, (double)f->tables / n,
                 (double)f->lanes / n, (double)f->rest / n, (double)f->space / 1e6,
                 (double)f->device / 1e6);
}

/* ---- the programs ---------------------------------------------------------------------------- */

static void begin(size_t n)
{
    state = UINT64_C(88172645463325252);
    n_blocks = n;
    blocks = calloc(n, sizeof *blocks);
    ck_assert_ptr_nonnull(blocks);
    pleat_open(SIM, NULL);
}

static void end(void)
{
    for (size_t i = 0; i < n_blocks; i++) {
        put(i);
    }
    free(blocks);
}

static void fill(void)
{
    for (size_t i = 0; i < n_blocks; i++) {
        get(i);
    }
}

static void go_on(size_t n)
{
    for (; n > 0; n--) {
        size_t i = below(n_blocks);
        put(i);
        get(i);
    }
}

static const size_t n_live[] = { 100000, 1000000 };
#if PLEAT_DEBUG_LEVEL >= 1
enum { N_SIZES = 1 };
#else
enum { N_SIZES = 2 };
#endif

START_TEST(a_live_block_costs_so_much)
{
    begin(n_live[_i]);
    for (size_t i = 0; i < n_blocks; i++) {
        blocks[i].stream = pleat.streams[0];
    }
    fill();
    figures filled = read_figures();
    print("filled", &filled);
    go_on(n_blocks);
    figures later = read_figures();
    print("later", &later);
    ck_assert_uint_le(filled.space, n_blocks * MOST_FILLED);
    ck_assert_uint_le(later.space, n_blocks * MOST_LATER);
    end();
    pleat_close();
}
END_TEST

START_TEST(a_thousand_streams_cost_so_much)
{
    static cu_stream handles[N_STREAMS];
    static pl_stream *streams[N_STREAMS];
    begin((size_t)N_STREAMS * N_EACH);
    for (size_t s = 0; s < N_STREAMS; s++) {
        ck_assert_int_eq(
            pl_cu_stream_create(pleat.sim.drv, &handles[s], CU_STREAM_NON_BLOCKING_FLAG), 0);
        ck_assert_int_eq(pl_stream_get(pleat.dev, handles[s], &streams[s]), PLEAT_OK);
    }
    for (size_t i = 0; i < n_blocks; i++) {
        blocks[i].stream = streams[i % N_STREAMS];
    }
    fill();
    figures filled = read_figures();
    print("streams, filled", &filled);
    go_on(n_blocks);
    figures later = read_figures();
    print("streams, later", &later);
    ck_assert_uint_le(later.space + later.device, MOST_OF_STREAMS);
    end();
    for (size_t s = 0; s < N_STREAMS; s++) {
        ck_assert_int_eq(pl_cu_stream_destroy(pleat.sim.drv, handles[s]), CU_SUCCESS);
    }
    pleat_close();
}
END_TEST

SUITE(segments_metadata)
{
    TCase *tests = suite_case(suite, "metadata", NULL, NULL);
    tcase_add_loop_test(tests, a_live_block_costs_so_much, 0, N_SIZES);
    tcase_add_test(tests, a_thousand_streams_cost_so_much);
}

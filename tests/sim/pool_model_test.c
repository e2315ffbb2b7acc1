/* pool_model_test.c - random use of a pool beside a reference that looks at every piece.
 *
 * The reference keeps each segment as an array of cells. Time is as described in pleat_sim.h: all
 * operations of all streams, with the waits of each. Before every allocation the reference predicts
 * the resulting address, growth of the pool, or a lack of memory. */
/* labels: model */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

#define CELL UINT64_C(65536)
#define UNIT (UINT64_C(32) << 20)
#define CAPACITY (UINT64_C(200) << 20)

enum {
    N_STREAMS = 4,
    MOST_SEGMENTS = 128,
    SEGMENT_CELLS = 1 << 12,
    MOST_LIVE = 256,
    MOST_OPS = 1 << 14,
    N_STEPS = 4000
};

/* ---- time ------------------------------------------------------------------------------------ */

typedef struct clock_of {
    unsigned at[N_STREAMS]; /* by stream; 0: no operation to wait for */
} clock_of;

typedef struct operation {
    bool is_counted; /* ends only at a synchronisation: depth is never reached */
    clock_of deps;
} operation;

typedef struct timeline {
    unsigned submitted, finished;
    clock_of next_deps;
    operation ops[MOST_OPS];
} timeline;

static timeline times[N_STREAMS];
static cu_stream streams[N_STREAMS];

static bool has_passed(const clock_of *clock)
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        if (times[i].finished < clock->at[i]) {
            return false;
        }
    }
    return true;
}

static void join(clock_of *clock, const clock_of *other)
{
    for (unsigned i = 0; i < N_STREAMS; i++) {
        clock->at[i] = clock->at[i] < other->at[i] ? other->at[i] : clock->at[i];
    }
}

/* Finish the operations that wait for earlier ones only. */
static void let_pass(void)
{
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (unsigned i = 0; i < N_STREAMS; i++) {
            timeline *t = &times[i];
            while (t->finished < t->submitted && !t->ops[t->finished + 1].is_counted &&
                   has_passed(&t->ops[t->finished + 1].deps)) {
                t->finished++;
                goes_on = true;
            }
        }
    }
}

static void submit(unsigned s, bool is_counted)
{
    timeline *t = &times[s];
    ck_assert_uint_lt(t->submitted + 1, MOST_OPS);
    t->submitted++;
    t->ops[t->submitted] = (operation){ is_counted, t->next_deps };
    let_pass();
}

/* Finish everything up to this clock, with all waits. */
static void finish(clock_of need)
{
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (unsigned i = 0; i < N_STREAMS; i++) {
            for (unsigned p = times[i].finished + 1; p <= need.at[i]; p++) {
                clock_of before = need;
                join(&need, &times[i].ops[p].deps);
                is_more |= memcmp(&before, &need, sizeof(need)) != 0;
            }
        }
    }
    for (unsigned i = 0; i < N_STREAMS; i++) {
        times[i].finished = times[i].finished < need.at[i] ? need.at[i] : times[i].finished;
    }
    let_pass();
}

/* ---- the pool -------------------------------------------------------------------------------- */

typedef enum cell_state { LIVE, PENDING, SETTLED } cell_state;

typedef struct cell {
    cell_state state;
    unsigned stream, position;
    clock_of deps;
} cell;

typedef struct segment {
    cu_devptr base;
    size_t n_cells;
    cell cells[SEGMENT_CELLS];
} segment;

typedef struct block {
    cu_devptr at;
    uint64_t asked_bytes;
    unsigned stream;
} block;

static segment segments[MOST_SEGMENTS]; /* in the order of the pool's growth */
static size_t n_segments;
static block live[MOST_LIVE];
static size_t n_live;
static cu_mempool pool;
static uint64_t threshold_bytes;
static bool follows_events, is_opportunistic, inserts_dependencies;

static uint64_t reserved_bytes(void)
{
    uint64_t n_cells = 0;
    for (size_t i = 0; i < n_segments; i++) {
        n_cells += segments[i].n_cells;
    }
    return n_cells * CELL;
}

static bool is_usable(const cell *it, unsigned s, bool any)
{
    if (it->state != PENDING) {
        return it->state == SETTLED;
    }
    return any || it->stream == s ||
           (follows_events && times[s].next_deps.at[it->stream] >= it->position);
}

static void settle_passed(void)
{
    for (size_t i = 0; i < n_segments; i++) {
        for (size_t k = 0; k < segments[i].n_cells; k++) {
            cell *it = &segments[i].cells[k];
            if (it->state == PENDING && times[it->stream].finished >= it->position) {
                it->state = SETTLED;
            }
        }
    }
}

/* The best run of at least n cells; false without one. */
static bool find_run(unsigned s, size_t n, bool any, segment **in, size_t *at)
{
    size_t best = SIZE_MAX;
    cu_devptr best_ptr = 0;
    for (size_t i = 0; i < n_segments; i++) {
        segment *it = &segments[i];
        for (size_t k = 0; k < it->n_cells;) {
            size_t end = k;
            while (end < it->n_cells && is_usable(&it->cells[end], s, any)) {
                end++;
            }
            cu_devptr ptr = it->base + k * CELL;
            if (end - k >= n && (end - k < best || (end - k == best && ptr < best_ptr))) {
                best = end - k;
                best_ptr = ptr;
                *in = it;
                *at = k;
            }
            k = end + 1;
        }
    }
    return best != SIZE_MAX;
}

static void trim(uint64_t keep_bytes)
{
    for (size_t i = n_segments; i-- > 0;) {
        segment *it = &segments[i];
        bool is_free = true;
        for (size_t k = 0; k < it->n_cells; k++) {
            is_free = is_free && it->cells[k].state == SETTLED;
        }
        if (is_free && reserved_bytes() - it->n_cells * CELL >= keep_bytes) {
            n_segments--;
            memmove(it, it + 1, (n_segments - i) * sizeof(*it));
        }
    }
}

static void synchronized(void)
{
    settle_passed();
    trim(threshold_bytes);
}

/* The bytes by which the pool would grow; 0 = impossible. */
static uint64_t growth_for(uint64_t bytes)
{
    uint64_t steps[2] = { UNIT, GRANULE };
    for (size_t i = 0; i < 2; i++) {
        uint64_t growth = (bytes + steps[i] - 1) / steps[i] * steps[i];
        if (reserved_bytes() + growth <= CAPACITY) {
            return growth;
        }
    }
    return 0;
}

static void take(segment *in, size_t at, size_t n, unsigned s, bool any)
{
    for (size_t k = at; k < at + n; k++) {
        cell *it = &in->cells[k];
        if (any && it->state == PENDING && it->stream != s &&
            times[it->stream].finished < it->position) {
            clock_of free_clock = it->deps;
            free_clock.at[it->stream] = it->position;
            join(&times[s].next_deps, &free_clock);
        }
        it->state = LIVE;
    }
}

static void add_segment(cu_devptr base, uint64_t bytes)
{
    ck_assert_uint_lt(n_segments, MOST_SEGMENTS);
    segment *it = &segments[n_segments++];
    it->base = base;
    it->n_cells = bytes / CELL;
    for (size_t k = 0; k < it->n_cells; k++) {
        it->cells[k].state = SETTLED;
    }
}

/* ---- one step of each kind ------------------------------------------------------------------- */

static void step_alloc(unsigned s, uint64_t asked_bytes)
{
    size_t n = (asked_bytes + CELL - 1) / CELL;
    segment *in = NULL;
    size_t at = 0;
    cu_devptr ptr = 0;
    if (is_opportunistic) {
        settle_passed();
    }
    bool any = false;
    bool is_found = find_run(s, n, false, &in, &at);
    uint64_t growth = is_found ? 0 : growth_for(n * CELL);
    if (!is_found && growth == 0 && inserts_dependencies) {
        any = true;
        is_found = find_run(s, n, true, &in, &at);
    }
    int result = cuMemAllocFromPoolAsync(&ptr, asked_bytes, pool, streams[s]);
    if (!is_found && growth == 0) {
        ck_assert_int_eq(result, CU_OUT_OF_MEMORY);
        return;
    }
    ck_assert_int_eq(result, CU_SUCCESS);
    if (!is_found) {
        add_segment(ptr, growth);
        in = &segments[n_segments - 1];
    }
    ck_assert_uint_eq(ptr, in->base + at * CELL);
    take(in, at, n, s, any);
    submit(s, false);
    live[n_live++] = (block){ ptr, asked_bytes, s };
    world_write(streams[s], ptr, asked_bytes);
    submit(s, true);
}

static void step_order(unsigned earlier, unsigned later)
{
    clock_of point = times[earlier].next_deps;
    point.at[earlier] = times[earlier].submitted;
    world_order(streams[earlier], streams[later]);
    if (!has_passed(&point)) {
        point.at[later] = 0;
        join(&times[later].next_deps, &point);
    }
}

/* Free the block on its stream, or on a later-ordered stream. */
static void step_free(size_t i, unsigned s)
{
    block it = live[i];
    live[i] = live[--n_live];
    if (s != it.stream) {
        step_order(it.stream, s);
    }
    ck_ok(cuMemFreeAsync(it.at, streams[s]));
    for (size_t k = 0; k < n_segments; k++) {
        uint64_t offset = it.at - segments[k].base;
        for (uint64_t c = offset / CELL;
             offset < segments[k].n_cells * CELL && c * CELL < offset + it.asked_bytes; c++) {
            segments[k].cells[c] = (cell){ PENDING, s, times[s].submitted + 1, times[s].next_deps };
        }
    }
    submit(s, false);
}

static void step_synchronize(unsigned s)
{
    clock_of need = times[s].next_deps;
    need.at[s] = times[s].submitted;
    finish(need);
    ck_ok(cuStreamSynchronize(streams[s]));
    synchronized();
}

static void step_trim(uint64_t keep_bytes)
{
    ck_ok(cuMemPoolTrimTo(pool, keep_bytes));
    trim(keep_bytes);
}

static void step_threshold(uint64_t bytes)
{
    threshold_bytes = bytes;
    ck_ok(cuMemPoolSetAttribute(pool, CU_POOL_RELEASE_THRESHOLD, &bytes));
}

/* ---- a run ----------------------------------------------------------------------------------- */

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % below;
}

/* Mostly small sizes, now and then one larger than a unit. */
static uint64_t draw_bytes(void)
{
    uint64_t n_cells = draw(8) == 0 ? 1 + draw(700) : 1 + draw(1 << (1 + draw(8)));
    return n_cells * CELL - draw(512);
}

static void step(void)
{
    uint64_t kind = draw(100);
    unsigned s = (unsigned)draw(N_STREAMS);
    if (kind < 42 && n_live < MOST_LIVE) {
        step_alloc(s, draw_bytes());
    } else if (kind < 84 && n_live > 0) {
        size_t i = draw(n_live);
        step_free(i, draw(5) == 0 ? s : live[i].stream);
    } else if (kind < 90) {
        unsigned later = (unsigned)draw(N_STREAMS);
        if (later != s) {
            step_order(s, later);
        }
    } else if (kind < 96) {
        step_synchronize(s);
    } else if (kind < 98) {
        step_trim(draw(CAPACITY));
    } else {
        step_threshold(draw(2) == 0 ? UINT64_MAX : draw(CAPACITY));
    }
}

static void check_counts(void)
{
    uint64_t value = 0;
    uint64_t asked_bytes = 0;
    for (size_t i = 0; i < n_live; i++) {
        asked_bytes += live[i].asked_bytes;
    }
    ck_ok(cuMemPoolGetAttribute(pool, CU_POOL_RESERVED_CURRENT, &value));
    ck_assert_uint_eq(value, reserved_bytes());
    ck_ok(cuMemPoolGetAttribute(pool, CU_POOL_USED_CURRENT, &value));
    ck_assert_uint_eq(value, asked_bytes);
    ck_assert_uint_eq(world_counts().physical_bytes, reserved_bytes());
    ck_assert_uint_eq(world_hazards(), 0);
}

static void set_flag(int attribute, bool is_on)
{
    int value = is_on;
    ck_ok(cuMemPoolSetAttribute(pool, attribute, &value));
}

static void begin(void)
{
    world_begin("depth:1000000,capacity:200M");
    cu_mempool_props props = { .type = CU_ALLOCATION_PINNED,
                               .location = { .type = CU_LOCATION_DEVICE } };
    ck_ok(cuMemPoolCreate(&pool, &props));
    for (unsigned i = 0; i < N_STREAMS; i++) {
        streams[i] = world_stream();
    }
}

static void end(void)
{
    for (size_t i = 0; i < n_live; i++) {
        ck_ok(cuMemFreeAsync(live[i].at, streams[live[i].stream]));
    }
    for (unsigned i = 0; i < N_STREAMS; i++) {
        ck_ok(cuStreamDestroy_v2(streams[i]));
    }
    ck_ok(cuMemPoolDestroy(pool));
    world_end();
    ck_assert_uint_eq(world_counts().pools, 0);
}

/* Without opportunistic reuse a passed event is no order. */
START_TEST(every_address_and_every_byte_held_is_as_the_reference_says)
{
    seed = (uint64_t)(_i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    printf("seed %d\n", _i);
    is_opportunistic = _i % 4 != 3;
    follows_events = is_opportunistic && _i % 4 != 2;
    inserts_dependencies = _i % 4 != 1;
    set_flag(CU_POOL_OPPORTUNISTIC, is_opportunistic);
    set_flag(CU_POOL_FOLLOW_EVENTS, follows_events);
    set_flag(CU_POOL_INTERNAL_DEPENDENCIES, inserts_dependencies);
    for (int i = 0; i < N_STEPS; i++) {
        step();
        check_counts();
    }
}
END_TEST

SUITE(sim_pool_model)
{
    TCase *model = tcase_create("model");
    tcase_add_checked_fixture(model, begin, end);
    tcase_add_loop_test(model, every_address_and_every_byte_held_is_as_the_reference_says, 0, 16);
    suite_add_tcase(suite, model);
}

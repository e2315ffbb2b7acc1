/* buffer_test.c - random changes of buffers beside blocks of several streams. Contents, figures and
 * reported events are compared with a naive reference. Some buffers are in a heap, which sleeps and
 * wakes at random. Their contents are kept, and no pages are added during a sleep. */
/* labels: model */
#include <check.h>
#include <string.h>

#include "tests/support/segments/segments_random.h"
#include "tests/support/segments/segments_replay.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { N_TURNS = 600, N_SEEDS = 8 };
enum { N_BUFFERS = 4, N_PAGES = 12, N_BLOCKS = 12 };

static const size_t GRANULE = 2 * MIB;
static const char memory[] = "capacity:96M,backing:memory,depth:24";

/* A page's stream is the buffer's. When the buffer's stream changes, the test orders the
 * streams. */
typedef struct model {
    pleat_devptr base; /* 0 = none */
    bool is_in_room;
    unsigned stream;
    size_t n_pages;
    uint64_t seeds[N_PAGES]; /* by page: the seed of its contents; 0 = not committed */
} model;

typedef struct owned {
    pleat_devptr ptr;
    size_t bytes;
    unsigned stream;
    uint64_t seed;
} owned;

static replay said;
static model buffers[N_BUFFERS];
static owned blocks[N_BLOCKS];
static uint64_t last_seed;
static random_source draws;
static pl_keeper *heap;
static bool is_asleep;
static size_t n_refused; /* since the heap slept */

static void fill(unsigned stream, pleat_devptr ptr, size_t bytes, uint64_t seed)
{
    ck_assert_int_eq(pleat.sim.fill(pleat.handles[stream], ptr, bytes, seed), 0);
}

static void verify(unsigned stream, pleat_devptr ptr, size_t bytes, uint64_t seed)
{
    ck_assert_int_eq(pleat.sim.verify(pleat.handles[stream], ptr, bytes, seed), 0);
}

static pleat_status change(const model *m, pl_buffer_what what, uint64_t offset, uint64_t bytes)
{
    pl_buffer_change wanted = { what, m->base, offset, bytes };
    return pleat.a->ops->buffers->change(pleat.a, &wanted, pleat.streams[m->stream]);
}

static pleat_buffer_info info_of(const model *m)
{
    pleat_buffer_info info = { 0 };
    ck_assert_int_eq(pleat.a->ops->buffers->query(pleat.a, m->base + 5, &info), PLEAT_OK);
    return info;
}

/* ---- the reference --------------------------------------------------------------------------- */

static size_t n_committed(const model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < N_PAGES; i++) {
        n += m->seeds[i] != 0;
    }
    return n;
}

static void note_commit(model *m, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (m->seeds[i] == 0) {
            m->seeds[i] = ++last_seed;
            fill(m->stream, m->base + i * GRANULE, GRANULE, m->seeds[i]);
        }
    }
    m->n_pages = to > m->n_pages ? to : m->n_pages;
}

/* Before pages go, their contents are compared, perhaps after the call. */
static void check_pages(const model *m, size_t from, size_t to)
{
    if (m->is_in_room && is_asleep) {
        return;
    }
    for (size_t i = from; i < to; i++) {
        if (m->seeds[i] != 0) {
            verify(m->stream, m->base + i * GRANULE, GRANULE, m->seeds[i]);
        }
    }
}

static void forget_pages(model *m, size_t from, size_t to)
{
    memset(&m->seeds[from], 0, (to - from) * sizeof m->seeds[0]);
}

static void compare(void)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < N_BUFFERS; i++) {
        if (buffers[i].base != 0) {
            pleat_buffer_info info = info_of(&buffers[i]);
            ck_assert_uint_eq(info.committed_bytes, n_committed(&buffers[i]) * GRANULE);
            ck_assert_uint_eq(info.bytes, buffers[i].n_pages * GRANULE);
            bytes += info.committed_bytes;
        }
    }
    for (size_t i = 0; i < N_BLOCKS; i++) {
        bytes += blocks[i].ptr != 0 ? (blocks[i].bytes + 511) / 512 * 512 : 0;
    }
    pl_heap_figures figures;
    uint64_t tagged = 0;
    pleat.a->ops->tags->read(pleat.a, heap, &figures);
    for (size_t i = 0; i < N_BUFFERS; i++) {
        tagged += buffers[i].is_in_room ? n_committed(&buffers[i]) * GRANULE : 0;
    }
    ck_assert_uint_eq(figures.allocated_bytes.current, tagged);
    ck_assert_uint_eq(figures.requested_bytes.current, tagged);
    ck_assert_int_eq(figures.is_asleep, is_asleep);
    ck_assert(is_asleep ? figures.resident_bytes == 0 : figures.asleep_bytes == 0);
    pleat_stats stats = { 0 };
    if (is_asleep) { /* what sleeps lives, and is not resident */
        pleat.a->ops->stats(pleat.a, &stats);
    } else {
        stats = pleat_counted_mixed();
    }
    ck_assert_uint_eq(stats.allocated_bytes[PLEAT_SIZES_ALL].current, bytes);
    pleat_assert_sound();
    replay_compare(&said, pleat.a, true);
    replay_assert_good(&said, "buffers");
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void turn_open(model *m)
{
    size_t page_bytes = random_below(&draws, 2) == 0 ? 0 : GRANULE;
    memset(m, 0, sizeof *m);
    m->stream = 1 + (unsigned)random_below(&draws, PLEAT_N_STREAMS - 1);
    m->is_in_room = random_below(&draws, 2) == 0;
    pleat_status st = pleat.a->ops->buffers->open(pleat.a, m->is_in_room ? heap : NULL,
                                                  N_PAGES * GRANULE, page_bytes, 0, &m->base);
    bool may_not = m->is_in_room && is_asleep;
    ck_assert_int_eq(st, may_not ? PLEAT_EASLEEP : PLEAT_OK);
    m->is_in_room = m->is_in_room && !may_not;
}

/* Was the change refused for a valid reason? */
static bool is_refused(const model *m, pleat_status st)
{
    if (st == PLEAT_OK) {
        return false;
    }
    ck_assert_int_eq(st, m->is_in_room && is_asleep ? PLEAT_EASLEEP : PLEAT_ENOMEM_DEVICE);
    n_refused += st == PLEAT_EASLEEP;
    return true;
}

static void turn_commit(model *m)
{
    size_t from = random_below(&draws, N_PAGES);
    size_t to = from + 1 + random_below(&draws, N_PAGES - from);
    pleat_status st = change(m, PL_BUFFER_COMMIT, from * GRANULE, (to - from) * GRANULE);
    if (!is_refused(m, st)) {
        note_commit(m, from, to);
    }
}

static void turn_decommit(model *m)
{
    size_t from = random_below(&draws, N_PAGES);
    size_t to = from + 1 + random_below(&draws, N_PAGES - from);
    check_pages(m, from, to);
    ck_assert_int_eq(change(m, PL_BUFFER_DECOMMIT, from * GRANULE, (to - from) * GRANULE),
                     PLEAT_OK);
    forget_pages(m, from, to);
}

static void turn_resize(model *m)
{
    size_t n = random_below(&draws, N_PAGES + 1);
    size_t old = m->n_pages;
    check_pages(m, n < old ? n : old, old);
    pleat_status st = change(m, PL_BUFFER_RESIZE, 0, n * GRANULE);
    if (is_refused(m, st)) {
        return;
    }
    if (n > old) {
        note_commit(m, old, n);
    } else {
        forget_pages(m, n, old);
    }
    m->n_pages = n;
}

static void turn_close(model *m)
{
    check_pages(m, 0, N_PAGES);
    ck_assert_int_eq(change(m, PL_BUFFER_CLOSE, 0, 0), PLEAT_OK);
    memset(m, 0, sizeof *m);
}

/* If there is no memory for the wake, the heap stays asleep. */
static void turn_room(void)
{
    const pl_sleep_how how = { .is_kept = true };
    pl_slept slept;
    pleat_status st;
    if (is_asleep) {
        st = pleat.a->ops->tags->wake(pleat.a, heap, 0, &slept);
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_DEVICE);
        is_asleep = st != PLEAT_OK;
        return;
    }
    for (size_t i = 0; i < N_BUFFERS; i++) {
        if (buffers[i].is_in_room) {
            check_pages(&buffers[i], 0, N_PAGES);
        }
    }
    ck_assert_int_eq(pleat.a->ops->tags->sleep(pleat.a, heap, &how, &slept), PLEAT_OK);
    is_asleep = true;
}

static void turn_buffer(model *m)
{
    if (m->base == 0) {
        turn_open(m);
        return;
    }
    switch (random_below(&draws, 10)) {
    case 0:
        turn_close(m);
        break;
    case 1:
    case 2:
    case 3:
        turn_decommit(m);
        break;
    case 4:
    case 5:
        turn_resize(m);
        break;
    default:
        turn_commit(m);
    }
}

static void turn_block(owned *b)
{
    if (b->ptr != 0) {
        verify(b->stream, b->ptr, b->bytes, b->seed);
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, b->ptr, pleat.streams[b->stream]), PLEAT_OK);
        b->ptr = 0;
        return;
    }
    b->stream = 1 + (unsigned)random_below(&draws, PLEAT_N_STREAMS - 1);
    b->bytes = 512 + random_below(&draws, 8 * MIB);
    b->seed = ++last_seed;
    pleat_status st = pleat.a->ops->alloc(pleat.a, b->bytes, pleat.streams[b->stream], &b->ptr);
    if (st == PLEAT_OK) {
        fill(b->stream, b->ptr, b->bytes, b->seed);
    } else {
        ck_assert_int_eq(st, PLEAT_ENOMEM_DEVICE);
        b->ptr = 0;
    }
}

static void play(uint64_t seed)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.wait_ms = 10000;
    options.observer = &said.observer;
    replay_init(&said);
    draws.state = seed;
    pleat_open(memory, &options);
    is_asleep = false;
    ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "kv", &heap), PLEAT_OK);
    for (int turn = 0; turn < N_TURNS; turn++) {
        if (random_below(&draws, 2) == 0) {
            turn_buffer(&buffers[random_below(&draws, N_BUFFERS)]);
        } else {
            turn_block(&blocks[random_below(&draws, N_BLOCKS)]);
        }
        if (random_below(&draws, 24) == 0) {
            turn_room();
        }
        if (turn % 16 == 0) {
            compare();
        }
        if (turn % 97 == 0) {
            (void)pleat_trim(16 * MIB, false);
        }
    }
    for (size_t i = 0; i < N_BUFFERS; i++) {
        if (buffers[i].base != 0) {
            turn_close(&buffers[i]);
        }
    }
    for (size_t i = 0; i < N_BLOCKS; i++) {
        if (blocks[i].ptr != 0) {
            turn_block(&blocks[i]);
        }
    }
    if (is_asleep) {
        turn_room();
    }
    ck_assert(!is_asleep);
    compare();
    pleat_close();
}

START_TEST(contents_and_figures_are_those_of_the_reference)
{
    play((uint64_t)_i);
    ck_assert_uint_gt(n_refused, 0);
}
END_TEST

SUITE(segments_buffer)
{
    TCase *tcase = suite_case(suite, "random", NULL, NULL);
    tcase_add_loop_test(tcase, contents_and_figures_are_those_of_the_reference, 1,
                        1 + (int)suite_part(N_SEEDS));
}

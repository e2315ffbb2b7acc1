/* segments_pattern_test.c - published patterns that caching allocators run out of memory on.
 *
 * Each is played on a device of 1.02 times its own peak of live bytes. PyTorch's classic cache must
 * fail there, or the pattern is not the one that was published; pleat must not. */
/* labels: unit model */
#include <check.h>

#include "tests/support/segments_player.h"
#include "tests/support/segments_random.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

enum { N_IDS = 4096, GRANULE = 2 << 20 };

typedef struct pattern {
    const char *name;
    void (*play)(player *p);
} pattern;

/* pytorch/pytorch#35901: a training step makes one huge block (10.84 GiB of a card of 23.65) and
 * frees it; hundreds of small ones are cut from its place, of which half a GiB stays; the next step
 * wants the huge one again. Sizes are those of the segment that the report shows. */
static void play_35901(player *p)
{
    static const size_t small[] = { 16515072, 16515072, 11400192, 18191360, 18191360 };
    enum { HUGE = 0, FIRST_SMALL = 1, N_SMALL = 500, KEPT_OF = 16, N_STEPS = 3 };
    size_t first = FIRST_SMALL;
    for (int step = 0; step < N_STEPS; step++) {
        (void)play_alloc(p, HUGE, 11643387904, 0);
        play_free(p, HUGE);
        for (size_t i = 0; i < N_SMALL; i++) {
            (void)play_alloc(p, first + i, small[i % 5], 0);
        }
        for (size_t i = 0; i < N_SMALL; i++) {
            if (step > 0 || i % KEPT_OF != 0) {
                play_free(p, first + i);
            }
        }
        first += N_SMALL;
    }
}

/* DiamondLightSource/httomo#667: method A makes an output of 1 GiB and a temporary of 4 GiB, method
 * B an output of 1 GiB, which splits the cached 4 GiB; then A runs again, on a card of 8 GiB. */
static void play_667(player *p)
{
    enum { TEMPORARY = 0 };
    for (size_t round = 0; round < 2; round++) {
        size_t output_a = 1 + 2 * round;
        (void)play_alloc(p, output_a, GIB, 0);
        (void)play_alloc(p, TEMPORARY, 4 * GIB, 0);
        play_free(p, TEMPORARY);
        if (round == 0) {
            (void)play_alloc(p, output_a + 1, GIB, 0);
        }
    }
}

/* rapidsai/rmm#1245: a query engine over data frames has 53.5 GB live on a card of 80 GB, after 300
 * GB of allocations in all, and is refused 133 MB. Partitions of some columns are made with a hash
 * table beside them, which goes; partitions are consumed in any order. */
typedef struct partition {
    size_t first_id;
    size_t n_columns;
    uint64_t bytes;
} partition;

typedef struct engine {
    partition partitions[512];
    size_t n_partitions;
    size_t next_id;
    uint64_t live_bytes;
    uint64_t all_bytes;
} engine;

static void engine_get(engine *e, player *p, size_t bytes)
{
    (void)play_alloc(p, e->next_id++ % N_IDS, bytes, 0);
    e->live_bytes += bytes;
    e->all_bytes += bytes;
}

static void engine_make(engine *e, player *p, random_source *r)
{
    partition *made = &e->partitions[e->n_partitions++];
    size_t n_rows = random_between(r, 1000000, 12000000);
    size_t table_id = e->next_id;
    engine_get(e, p, 24 * n_rows);
    *made = (partition){ .first_id = e->next_id, .n_columns = random_between(r, 2, 9) };
    for (size_t i = 0; i < made->n_columns; i++) {
        size_t bytes = random_once_in(r, 6) ? 132870728 : (size_t)4 << random_below(r, 2);
        bytes = bytes < 16 ? bytes * n_rows : bytes;
        made->bytes += bytes;
        engine_get(e, p, bytes);
    }
    play_free(p, table_id % N_IDS);
    e->live_bytes -= 24 * n_rows;
}

static void engine_consume(engine *e, player *p, size_t i)
{
    partition gone = e->partitions[i];
    for (size_t k = 0; k < gone.n_columns; k++) {
        play_free(p, (gone.first_id + k) % N_IDS);
    }
    e->live_bytes -= gone.bytes;
    e->partitions[i] = e->partitions[--e->n_partitions];
}

static void play_1245(player *p)
{
    static const uint64_t most_live = 53514136688;
    static const uint64_t in_all = UINT64_C(300000000000);
    static engine e;
    random_source r = { .state = 1245 };
    e = (engine){ .next_id = 0 };
    while (e.all_bytes < in_all) {
        engine_make(&e, p, &r);
        /* Room for the largest partition that may come next. */
        while (e.live_bytes > most_live - 2 * GIB) {
            engine_consume(&e, p, random_below(&r, e.n_partitions));
        }
    }
}

static const pattern patterns[] = {
    { "pytorch#35901", play_35901 },
    { "httomo#667", play_667 },
    { "rmm#1245", play_1245 },
};
enum { N_PATTERNS = sizeof patterns / sizeof patterns[0] };

/* Returns how many calls were refused. */
static uint64_t play_on(const pattern *played, const pl_allocator_ops *ops, uint64_t capacity,
                        uint64_t *peak_bytes)
{
    player p;
    player_conf conf = {
        .capacity_bytes = capacity,
        .granule_bytes = GRANULE,
        .depth = 256,
        .n_streams = 1,
        .n_ids = N_IDS,
        .refusal = PLAYER_COUNTS,
    };
    pl_allocator_options_init(&conf.options);
    player_open(&p, ops, &conf);
    played->play(&p);
    player_assert_good(&p, played->name, 0);
    uint64_t n_refused = p.counts.n_refused;
    *peak_bytes = p.model.peak_bytes;
    player_close(&p);
    return n_refused;
}

START_TEST(pleat_runs_on_1_02_times_the_peak_where_torch_native_fails)
{
    const pattern *played = &patterns[_i];
    uint64_t peak_bytes;
    uint64_t other_peak;
    ck_assert_uint_eq(play_on(played, &pl_expandable_ops, 256 * GIB, &peak_bytes), 0);
    uint64_t capacity = (peak_bytes / 100 * 102 + GRANULE - 1) / GRANULE * GRANULE;
    ck_assert_uint_eq(play_on(played, &pl_torch_native_ops, 256 * GIB, &other_peak), 0);
    ck_assert_uint_eq(peak_bytes, other_peak);
    ck_assert_uint_gt(play_on(played, &pl_torch_native_ops, capacity, &other_peak), 0);
    ck_assert_uint_eq(play_on(played, &pl_expandable_ops, capacity, &other_peak), 0);
    ck_assert_uint_eq(peak_bytes, other_peak);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segments_pattern");
    TCase *published = tcase_create("published");
    tcase_add_loop_test(published, pleat_runs_on_1_02_times_the_peak_where_torch_native_fails, 0,
                        N_PATTERNS);
    suite_add_tcase(suite, published);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}

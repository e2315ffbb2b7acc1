/* crowd_test.c - the promise of segments/pleat/grow/grow.c with several threads at once.
 *
 * Every thread plays a separate sequence on one allocator. A refused thread waits until no other
 * call is under way and then calls again. The naive model judges this second verdict, as in
 * tests/segments/model_test.c. PLEAT_MODEL_SEED plays one seed alone. */
/* labels: model stress */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/segments/segments_draw.h"
#include "tests/support/suite.h"

enum { N_SEEDS = 160, N_MIXED_SEEDS = 48, MOST_THREADS = 8 };

typedef struct member {
    pthread_t thread;
    player *p;
    const sequence *sequence;
    random_source r;
    sequence_shape shape;
} member;

static void *play_own(void *arg)
{
    member *m = arg;
    m->sequence->play(m->p, &m->r, &m->shape);
    return NULL;
}

/* Play all sequences at once, and return the peak of their live bytes. */
static uint64_t play_together(const drawn *d, unsigned n_threads, uint64_t seed, totals *t)
{
    player p;
    member members[MOST_THREADS];
    random_source r = { .state = ~seed };
    player_open(&p, &pl_pleat_ops, &d->conf);
    for (unsigned i = 0; i < n_threads; i++) {
        members[i] = (member){ .p = &p,
                               .sequence = &sequences[random_below(&r, n_sequences)],
                               .r = { .state = random_next(&r) },
                               .shape = d->shape };
        members[i].shape.first_id = (size_t)i * SEQUENCE_IDS;
        members[i].shape.live_bytes /= n_threads;
    }
    for (unsigned i = 0; i < n_threads; i++) {
        ck_assert_int_eq(pthread_create(&members[i].thread, NULL, play_own, &members[i]), 0);
    }
    for (unsigned i = 0; i < n_threads; i++) {
        ck_assert_int_eq(pthread_join(members[i].thread, NULL), 0);
    }
    play_check(&p);
    player_assert_good(&p, "crowd", seed);
    uint64_t peak_bytes = p.model.peak_bytes;
    totals_add(t, &p);
    player_close(&p);
    return peak_bytes;
}

static void play_seed(uint64_t seed, unsigned n_threads, bool is_mixed, totals *ample, totals *t)
{
    random_source r = { .state = seed };
    drawn d = draw(&r, 6000 / n_threads);
    if (is_mixed) {
        draw_mixed(&d, &r);
    }
    d.conf.n_ids = (size_t)n_threads * SEQUENCE_IDS;
    d.conf.has_threads = true;
    d.shape.live_bytes = d.shape.live_bytes * 2 + 16 * d.conf.granule_bytes * n_threads;
    draw_ample(&d);
    d.conf.refusal = PLAYER_FORBIDS;
    uint64_t peak_bytes = play_together(&d, n_threads, seed, ample);
    draw_scarce(&d, &r, peak_bytes);
    d.conf.refusal = PLAYER_JUDGES;
    (void)play_together(&d, n_threads, seed, t);
    t->n_seeds++;
}

START_TEST(what_is_refused_in_a_crowd_could_not_be_served_alone)
{
    unsigned n_threads = 1u << _i;
    totals t = { .n_seeds = 0 };
    uint64_t seed;
    for (draw_seeds seeds = draw_seeds_of(N_SEEDS); draw_next_seed(&seeds, &seed);) {
        play_seed(seed, n_threads, false, &t, &t);
    }
    totals_say(&t, "crowd");
}
END_TEST

/* Tied granules count as held. A chunk that a place touches counts as a whole. */
START_TEST(what_is_refused_with_large_chunks_could_not_be_served_alone)
{
    unsigned n_threads = 1u << _i;
    totals t = { .n_seeds = 0 };
    totals ample = { .n_seeds = 0 };
    uint64_t seed;
    for (draw_seeds seeds = draw_seeds_of(N_MIXED_SEEDS); draw_next_seed(&seeds, &seed);) {
        play_seed(seed, n_threads, true, &ample, &t);
    }
    ck_assert_uint_lt(ample.n_creates * 20, ample.n_granules * 19); /* else hardly any is large */
    totals_say(&t, "mixed crowd");
}
END_TEST

SUITE(segments_crowd)
{
    TCase *crowd = tcase_create("crowd");
    tcase_add_loop_test(crowd, what_is_refused_in_a_crowd_could_not_be_served_alone, 1, 4);
    TCase *mixed = tcase_create("mixed");
    tcase_add_loop_test(mixed, what_is_refused_with_large_chunks_could_not_be_served_alone, 1, 4);
    suite_add_tcase(suite, crowd);
    suite_add_tcase(suite, mixed);
}

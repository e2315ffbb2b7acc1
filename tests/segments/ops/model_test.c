/* model_test.c - the promise of segments/pleat/grow/grow.c, attacked.
 *
 * Each seed draws a device, options and a sequence. The sequence is played twice. With ample memory
 * nothing may be refused, and the peak of live bytes is learnt. With 1.0 to 1.1 times that peak
 * every refusal is judged by the naive model. PLEAT_MODEL_SEED plays one seed alone. */
/* labels: model */
#include <check.h>

#include "tests/support/segments/segments_draw.h"
#include "tests/support/suite.h"

enum { N_SEEDS = 400, N_WHOLE_SEEDS = 400, N_MIXED_SEEDS = 200 };

/* Returns the peak of live bytes. */
static uint64_t play(const sequence *s, const drawn *d, uint64_t seed, totals *t)
{
    player p;
    random_source r = { .state = ~seed };
    player_open(&p, &pl_pleat_ops, &d->conf);
    s->play(&p, &r, &d->shape);
    player_assert_good(&p, s->name, seed);
    uint64_t peak_bytes = p.model.peak_bytes;
    totals_add(t, &p);
    player_close(&p);
    return peak_bytes;
}

START_TEST(what_is_refused_could_not_be_served)
{
    const sequence *s = &sequences[_i];
    totals t = { .n_seeds = 0 };
    uint64_t seed;
    for (draw_seeds seeds = draw_seeds_of(N_SEEDS); draw_next_seed(&seeds, &seed);) {
        random_source r = { .state = seed };
        drawn d = draw(&r, 4000);
        draw_ample(&d);
        d.conf.refusal = PLAYER_FORBIDS;
        uint64_t peak_bytes = play(s, &d, seed, &t);
        draw_scarce(&d, &r, peak_bytes);
        d.conf.refusal = PLAYER_JUDGES;
        (void)play(s, &d, seed, &t);
        t.n_seeds++;
    }
    totals_say(&t, s->name);
}
END_TEST

/* Tied granules count as held. A chunk that a place touches counts as a whole. */
START_TEST(what_is_refused_with_large_chunks_could_not_be_served)
{
    const sequence *s = &sequences[_i];
    totals t = { .n_seeds = 0 };
    totals ample = { .n_seeds = 0 };
    uint64_t seed;
    for (draw_seeds seeds = draw_seeds_of(N_MIXED_SEEDS); draw_next_seed(&seeds, &seed);) {
        random_source r = { .state = seed };
        drawn d = draw(&r, 4000);
        draw_mixed(&d, &r);
        draw_ample(&d);
        d.conf.refusal = PLAYER_FORBIDS;
        uint64_t peak_bytes = play(s, &d, seed, &ample);
        draw_scarce(&d, &r, peak_bytes);
        d.conf.refusal = PLAYER_JUDGES;
        (void)play(s, &d, seed, &t);
        t.n_seeds++;
    }
    ck_assert_uint_lt(ample.n_creates * 20, ample.n_granules * 19); /* else hardly any is large */
    totals_say(&t, s->name);
}
END_TEST

START_TEST(whole_granules_on_one_stream_run_on_their_peak)
{
    static const sequence whole = { "whole granules", sequence_whole };
    totals t = { .n_seeds = 0 };
    uint64_t seed;
    for (draw_seeds seeds = draw_seeds_of(N_WHOLE_SEEDS); draw_next_seed(&seeds, &seed);) {
        random_source r = { .state = seed };
        drawn d = draw(&r, 2000);
        d.conf.n_streams = 1;
        d.conf.refusal = PLAYER_FORBIDS;
        draw_ample(&d);
        uint64_t peak_bytes = play(&whole, &d, seed, &t);
        d.per_mille = 1000;
        draw_scarce(&d, &r, peak_bytes);
        d.conf.address_bytes = 0;
        ck_assert_uint_eq(play(&whole, &d, seed, &t), peak_bytes);
        t.n_seeds++;
    }
    ck_assert_uint_eq(t.counts.n_refused, 0);
    totals_say(&t, whole.name);
}
END_TEST

SUITE(segments_model)
{
    TCase *promise = tcase_create("promise");
    TCase *mixed = tcase_create("mixed");
    TCase *whole = tcase_create("whole granules");
    tcase_add_loop_test(promise, what_is_refused_could_not_be_served, 0, (int)n_sequences);
    tcase_add_loop_test(mixed, what_is_refused_with_large_chunks_could_not_be_served, 0,
                        (int)n_sequences);
    tcase_add_test(whole, whole_granules_on_one_stream_run_on_their_peak);
    suite_add_tcase(suite, promise);
    suite_add_tcase(suite, mixed);
    suite_add_tcase(suite, whole);
}

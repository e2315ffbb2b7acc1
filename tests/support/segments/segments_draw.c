/* segments_draw.c - see segments_draw.h. */
#include "tests/support/segments/segments_draw.h"
#include "segments/pleat/space/options.h"
#include "tests/support/own.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>

static void draw_options(random_source *r, pl_allocator_options *options)
{
    static const unsigned wait_ms[] = { 0, 1000, 1000 };
    pl_allocator_options_init(options);
    pl_pleat_options own = pl_pleat_own(options);
    own.chunks = PL_CHUNKS_GRANULE; /* draw_mixed draws other values */
    own.growth = (pl_growth)random_below(r, 3);
    own.cross_stream = random_once_in(r, 3) ? PL_CROSS_SETTLED : PL_CROSS_ORDER;
    options->wait_ms = wait_ms[random_below(r, 3)];
    pl_own_set(options, &pl_pleat_option_table, &own);
}

drawn draw(random_source *r, size_t n_ops)
{
    static const unsigned depths[] = { 0, 1, 8, 64, 256, 4096 };
    static const size_t granules[] = { 4 << 10, 16 << 10, 64 << 10, 64 << 10, 2 << 20 };
    drawn d = { .conf = { .n_ids = SEQUENCE_IDS } };
    d.conf.granule_bytes = granules[random_below(r, 5)];
    if (d.conf.granule_bytes > granules[0] && random_once_in(r, 3)) {
        d.conf.chunk_granules = 2u << random_below(r, 2);
    }
    d.conf.depth = depths[random_below(r, 6)];
    d.conf.n_streams = 1 + (unsigned)random_below(r, PLAYER_STREAMS);
    draw_options(r, &d.conf.options);
    d.shape.n_ops = n_ops;
    d.shape.live_bytes = (uint64_t)random_between(r, 6, random_once_in(r, 2) ? 24 : 256) *
                         d.conf.granule_bytes;
    d.per_mille = random_once_in(r, 4) ? 1000 : (unsigned)random_between(r, 1000, 1100);
    d.is_limit = random_once_in(r, 2);
    return d;
}

void draw_ample(drawn *d)
{
    d->conf.capacity_bytes = 64 * d->shape.live_bytes; /* captures keep freed memory */
    d->conf.options.limit_bytes = 0;
}

void draw_scarce(drawn *d, random_source *r, uint64_t peak_bytes)
{
    uint64_t bytes = peak_bytes + peak_bytes / 1000 * (d->per_mille - 1000);
    bytes = bytes > d->conf.granule_bytes ? bytes : d->conf.granule_bytes;
    if (random_once_in(r, 6)) {
        d->conf.address_bytes = bytes * random_between(r, 2, 6);
    }
    if (d->is_limit) {
        d->conf.options.limit_bytes = bytes;
        d->shape.may_change_limit = true;
        return;
    }
    d->conf.other_bytes = random_once_in(r, 3) ? random_between(r, 1, bytes / 4) : 0;
    d->conf.capacity_bytes = bytes + d->conf.other_bytes;
}

void draw_mixed(drawn *d, random_source *r)
{
    static const unsigned shares[] = { 1, 1, 2, 8, 64 };
    SET_OWN(pleat, &d->conf.options, chunks, PL_CHUNKS_MIXED);
    SET_OWN(pleat, &d->conf.options, chunk_share, shares[random_below(r, 5)]);
}

draw_seeds draw_seeds_of(uint64_t n)
{
    const char *one = getenv("PLEAT_MODEL_SEED");
    if (one != NULL) {
        uint64_t seed = strtoull(one, NULL, 0);
        return (draw_seeds){ .next = seed, .last = seed };
    }
    return (draw_seeds){ .next = 1, .last = suite_part(n) };
}

bool draw_next_seed(draw_seeds *seeds, uint64_t *seed)
{
    *seed = seeds->next++;
    return *seed <= seeds->last;
}

void totals_add(totals *t, const player *p)
{
    t->counts.n_ops += p->counts.n_ops;
    t->counts.n_refused += p->counts.n_refused;
    t->counts.n_pending += p->counts.n_pending;
    t->counts.n_stale += p->counts.n_stale;
    t->counts.n_without_addresses += p->counts.n_without_addresses;
    t->n_granules += pl_device_counted(p->dev).bytes_created / p->conf.granule_bytes;
    t->n_creates += p->sim.n_calls("cuMemCreate");
}

void totals_say(const totals *t, const char *what)
{
    const player_counts *n = &t->counts;
    printf("%s: %u seeds, %llu operations, %llu refused rightly, %llu pending, %llu for stale and "
           "%llu for want of addresses\n",
           what, t->n_seeds, (unsigned long long)n->n_ops, (unsigned long long)n->n_refused,
           (unsigned long long)n->n_pending, (unsigned long long)n->n_stale,
           (unsigned long long)n->n_without_addresses);
}

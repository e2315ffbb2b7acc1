/* segments_sequences.c - see segments_sequences.h. */
#include "tests/support/segments/segments_sequences.h"

#include <string.h>

/* The ids in use, in order of allocation, and the free ones. */
typedef struct holding {
    player *p;
    size_t first_id;
    size_t n_calls;
    size_t live[SEQUENCE_IDS]; /* ids minus first_id, in all these arrays */
    uint64_t bytes_of[SEQUENCE_IDS];
    size_t spare[SEQUENCE_IDS];
    size_t n_live;
    size_t n_spare;
    uint64_t live_bytes;
} holding;

static void hold_nothing(holding *h, player *p, const sequence_shape *shape)
{
    h->p = p;
    h->first_id = shape->first_id;
    h->n_calls = 0;
    h->n_live = 0;
    h->n_spare = SEQUENCE_IDS;
    h->live_bytes = 0;
    for (size_t i = 0; i < SEQUENCE_IDS; i++) {
        h->spare[i] = i;
    }
}

static bool get(holding *h, uint64_t bytes, unsigned stream)
{
    size_t id = h->spare[--h->n_spare];
    h->live[h->n_live++] = id;
    h->bytes_of[id] = model_round(bytes);
    h->live_bytes += h->bytes_of[id];
    h->n_calls++;
    return play_alloc(h->p, h->first_id + id, bytes, stream);
}

/* Drop the i-th oldest block, and return its id. */
static size_t let_go(holding *h, size_t i)
{
    size_t id = h->live[i];
    h->n_live--;
    memmove(&h->live[i], &h->live[i + 1], (h->n_live - i) * sizeof(h->live[0]));
    h->spare[h->n_spare++] = id;
    h->live_bytes -= h->bytes_of[id];
    h->n_calls++;
    return h->first_id + id;
}

static const player_block *block_of(const holding *h, size_t i)
{
    return &h->p->blocks[h->first_id + h->live[i]];
}

static void put(holding *h, size_t i)
{
    play_free(h->p, let_go(h, i));
}

static void put_all(holding *h)
{
    while (h->n_live > 0) {
        put(h, h->n_live - 1);
    }
}

static unsigned any_stream(player *p, random_source *r)
{
    return (unsigned)random_below(r, p->conf.n_streams);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

typedef enum size_mix {
    MIX_TINY,
    MIX_SPREAD,
    MIX_POWERS,
    MIX_EDGES,
    MIX_FRACTIONS,
    MIX_HUGE,
    N_MIXES
} size_mix;

static size_t size_near(random_source *r, size_t bytes)
{
    size_t off = random_spread(r, 4096);
    return random_once_in(r, 2) || bytes <= off ? bytes + off : bytes - off;
}

static size_t size_of(player *p, random_source *r, size_mix mix, uint64_t live_bytes)
{
    size_t granule = p->conf.granule_bytes;
    size_t most = (size_t)live_bytes / 2;
    size_t bytes = 1;
    switch (mix) {
    case MIX_TINY:
        bytes = random_spread(r, granule / 4);
        break;
    case MIX_SPREAD:
        bytes = random_spread(r, (size_t)live_bytes / 8);
        break;
    case MIX_POWERS:
        bytes = MODEL_QUANTUM;
        while (bytes < live_bytes / 8 && !random_once_in(r, 12)) {
            bytes *= 2;
        }
        break;
    case MIX_EDGES: /* near a multiple of the granule */
        bytes = size_near(r, granule * random_spread(r, most / granule));
        break;
    case MIX_FRACTIONS:
        bytes = random_between(r, 1, 4 * granule);
        break;
    case MIX_HUGE:
        bytes = random_between(r, most / 4, most);
        break;
    case N_MIXES:
        break;
    }
    bytes = bytes < most ? bytes : most;
    return bytes > 0 ? bytes : 1;
}

/* ---- churn ---------------------------------------------------------------------------------- */

typedef enum free_order { FREE_ANY, FREE_NEWEST, FREE_OLDEST, N_FREE_ORDERS } free_order;

typedef struct phase {
    size_mix mix;
    size_mix other_mix;
    free_order order;
    uint64_t target; /* live bytes */
    size_t n_left;
    unsigned stream; /* the stream of most of its blocks */
} phase;

static phase new_phase(player *p, random_source *r, const sequence_shape *shape)
{
    return (phase){
        .mix = (size_mix)random_below(r, N_MIXES),
        .other_mix = (size_mix)random_below(r, N_MIXES),
        .order = (free_order)random_below(r, N_FREE_ORDERS),
        .target = shape->live_bytes / 8 * random_between(r, 1, 8),
        .n_left = random_between(r, 20, 400),
        .stream = any_stream(p, r),
    };
}

static size_t victim(const holding *h, random_source *r, free_order order)
{
    size_t any = random_below(r, h->n_live);
    size_t near = random_below(r, h->n_live < 4 ? h->n_live : 4);
    return order == FREE_ANY ? any : order == FREE_OLDEST ? near : h->n_live - 1 - near;
}

static void churn_free(holding *h, random_source *r, const phase *ph)
{
    size_t i = victim(h, r, ph->order);
    if (h->p->conf.n_streams > 1 && random_once_in(r, 16)) {
        play_free_on(h->p, let_go(h, i), any_stream(h->p, r));
        return;
    }
    if (random_once_in(r, 16)) {
        play_pass_on(h->p, let_go(h, i), random_below(r, PLAYER_SHELVES));
        return;
    }
    if (h->p->conf.n_streams > 1 && random_once_in(r, 16)) {
        play_use(h->p, h->first_id + h->live[i], any_stream(h->p, r));
    }
    put(h, i);
}

/* Begin or end a capture. The captured stream goes on making calls like any stream. */
static void churn_capture(player *p, random_source *r)
{
    unsigned stream = any_stream(p, r);
    if (p->conf.has_threads) {
        return;
    }
    if (p->captured != 0) {
        play_end_capture(p);
        return;
    }
    for (unsigned i = 0; i < p->conf.n_streams; i++) {
        play_release_capture(p, i);
    }
    if (random_once_in(r, 2)) {
        play_begin_capture(p, stream, random_once_in(r, 2));
    }
}

static void churn_rarely(holding *h, random_source *r, const sequence_shape *shape)
{
    player *p = h->p;
    size_t granule = p->conf.granule_bytes;
    switch (random_below(r, 5)) {
    case 0:
        play_finish(p);
        churn_capture(p, r);
        break;
    case 1:
        play_trim(p, random_below(r, (size_t)shape->live_bytes), random_once_in(r, 2));
        break;
    case 2:
        if (shape->may_change_limit) {
            size_t most = (size_t)(p->conf.capacity_bytes - p->conf.other_bytes);
            size_t least = (size_t)shape->live_bytes;
            play_limit(p, random_between(r, least < most ? least : most, most) + granule);
        }
        break;
    case 3:
        play_check(p);
        break;
    default:
        if (random_once_in(r, 8)) {
            play_release_other(p);
        }
        break;
    }
}

void sequence_churn(player *p, random_source *r, const sequence_shape *shape)
{
    static _Thread_local holding h;
    phase ph = { .n_left = 0 };
    hold_nothing(&h, p, shape);
    for (size_t i = 0; i < shape->n_ops && player_is_good(p); i++) {
        if (ph.n_left-- == 0) {
            ph = new_phase(p, r, shape);
        }
        size_mix mix = random_once_in(r, 4) ? ph.other_mix : ph.mix;
        size_t bytes = size_of(p, r, mix, shape->live_bytes);
        unsigned stream = random_once_in(r, 4) ? any_stream(p, r) : ph.stream;
        bool wants_more = h.live_bytes + bytes <= ph.target && h.n_spare > 0;
        if (random_once_in(r, 60)) {
            churn_rarely(&h, r, shape);
        }
        if (!p->conf.has_threads && random_once_in(r, 60)) {
            play_end_capture(p); /* while it lasts, no freed memory comes back */
        }
        if (h.n_live == 0 || (wants_more && !random_once_in(r, 3))) {
            (void)get(&h, bytes, stream);
        } else {
            churn_free(&h, r, &ph);
        }
    }
    play_end_capture(p);
    for (unsigned i = 0; i < p->conf.n_streams; i++) {
        play_release_capture(p, i);
    }
    play_check(p);
    put_all(&h);
    play_check(p);
}

/* ---- training ------------------------------------------------------------------------------- */

/* Allocate a layer's activations and its workspace, and free the workspace at once. Sometimes a
 * second stream uses both. */
static void train_forward(holding *h, random_source *r, size_t scale)
{
    size_t n = random_between(r, 1, 5);
    for (size_t i = 0; i < n; i++) {
        (void)get(h, random_between(r, scale / 4 + 1, scale), 0);
    }
    (void)get(h, random_between(r, 1, 2 * scale), 0);
    put(h, h->n_live - 1);
    if (h->p->conf.n_streams > 1) {
        unsigned other = 1 + (unsigned)random_below(r, h->p->conf.n_streams - 1);
        play_use(h->p, h->first_id + h->live[h->n_live - 1], other);
        (void)get(h, random_between(r, 1, scale), other);
        put(h, h->n_live - 1);
    }
}

static void train_step(holding *h, random_source *r, const sequence_shape *shape, size_t n_kept)
{
    size_t left = (size_t)(shape->live_bytes - h->live_bytes);
    size_t scale = random_between(r, left / 64 + 1, left / 16 + 1);
    uint64_t most = shape->live_bytes - 3 * scale;
    while (h->live_bytes + 6 * scale < most) {
        train_forward(h, r, scale);
    }
    while (h->n_live > n_kept) {
        size_t bytes = random_between(r, 1, scale);
        put(h, h->n_live - 1);
        (void)get(h, bytes, 0);
        put(h, h->n_live - 1);
    }
}

void sequence_train(player *p, random_source *r, const sequence_shape *shape)
{
    static _Thread_local holding h;
    hold_nothing(&h, p, shape);
    while (h.live_bytes < shape->live_bytes / 4) {
        (void)get(&h, size_of(p, r, MIX_SPREAD, shape->live_bytes / 4), 0);
    }
    size_t n_kept = h.n_live;
    while (h.n_calls < shape->n_ops && player_is_good(p)) {
        train_step(&h, r, shape, n_kept);
        play_check(p);
    }
    put_all(&h);
}

/* ---- Robson --------------------------------------------------------------------------------- */

/* Does the block cover an address that is `offset` modulo `step`? */
static bool covers(const player_block *b, uint64_t step, uint64_t offset)
{
    uint64_t end = b->ptr + model_round(b->bytes);
    uint64_t at = b->ptr / step * step + offset;
    at = at < b->ptr ? at + step : at;
    return b->ptr != 0 && at < end;
}

/* Free the blocks that do not cover `offset` modulo `step`. In half of the rounds use the offset
 * that keeps fewer bytes. */
static uint64_t robson_free(holding *h, random_source *r, uint64_t step, uint64_t offset)
{
    uint64_t kept[2] = { 0, 0 };
    uint64_t choice[2] = { offset, offset + step / 2 };
    for (size_t i = 0; i < h->n_live; i++) {
        const player_block *b = block_of(h, i);
        for (int k = 0; k < 2; k++) {
            kept[k] += covers(b, step, choice[k]) ? b->bytes : 0;
        }
    }
    uint64_t best = choice[kept[1] < kept[0] || random_once_in(r, 4)];
    for (size_t i = h->n_live; i-- > 0;) {
        if (!covers(block_of(h, i), step, best)) {
            put(h, i);
        }
    }
    return best;
}

void sequence_robson(player *p, random_source *r, const sequence_shape *shape)
{
    static _Thread_local holding h;
    size_t least = (size_t)shape->live_bytes / 2048;
    least = (size_t)model_round(least > MODEL_QUANTUM ? least : MODEL_QUANTUM);
    hold_nothing(&h, p, shape);
    uint64_t offset = random_below(r, 2) * least / 2;
    for (uint64_t bytes = least; bytes <= shape->live_bytes / 4 && player_is_good(p); bytes *= 2) {
        if (bytes > least) {
            offset = robson_free(&h, r, bytes, offset);
        }
        for (int n_refused = 0;
             n_refused < 4 && h.live_bytes + bytes <= shape->live_bytes && h.n_spare > 0;) {
            n_refused += !get(&h, bytes, any_stream(p, r));
        }
        play_check(p);
    }
    put_all(&h);
}

/* ---- pins ----------------------------------------------------------------------------------- */

/* Fill memory with pairs: a quantum, then the rest of `period`. Free all large blocks, and all but
 * one in `keep` of the quanta. Then ask for blocks of many granules. */
static void pin_round(holding *h, random_source *r, const sequence_shape *shape, size_t period,
                      size_t keep)
{
    unsigned stream = any_stream(h->p, r);
    while (h->live_bytes + period <= shape->live_bytes && h->n_spare > 1) {
        (void)get(h, MODEL_QUANTUM, stream);
        (void)get(h, period - MODEL_QUANTUM, stream);
    }
    for (size_t i = h->n_live; i-- > 0;) {
        bool is_large = h->bytes_of[h->live[i]] > MODEL_QUANTUM;
        if (is_large || !random_once_in(r, keep)) {
            put(h, i);
        }
    }
    play_check(h->p);
    unsigned other = any_stream(h->p, r);
    size_t n_granules = (size_t)(shape->live_bytes / h->p->conf.granule_bytes);
    size_t n_kept = h->n_live;
    for (int i = 0; i < 12 && h->n_spare > 0; i++) {
        size_t bytes = size_near(r, random_spread(r, n_granules) * h->p->conf.granule_bytes);
        if (h->live_bytes + bytes > shape->live_bytes) {
            continue;
        }
        (void)get(h, bytes, other);
        if (random_once_in(r, 3)) {
            put(h, h->n_live - 1);
        }
    }
    while (h->n_live > n_kept) {
        put(h, h->n_live - 1);
    }
}

void sequence_pin(player *p, random_source *r, const sequence_shape *shape)
{
    static _Thread_local holding h;
    size_t granule = p->conf.granule_bytes;
    size_t n_rounds = shape->n_ops / (size_t)(4 * (shape->live_bytes / granule) + 12) + 1;
    hold_nothing(&h, p, shape);
    for (size_t i = 0; i < n_rounds && player_is_good(p); i++) {
        size_t period = granule;
        switch (random_below(r, 3)) {
        case 0:
            period += MODEL_QUANTUM;
            break;
        case 1:
            period -= MODEL_QUANTUM * random_below(r, 6);
            break;
        default:
            break;
        }
        pin_round(&h, r, shape, period, random_between(r, 1, 4));
        while (h.n_live > 0 && !random_once_in(r, 64)) {
            put(&h, random_below(r, h.n_live));
        }
    }
    put_all(&h);
}

/* ---- tides ---------------------------------------------------------------------------------- */

void sequence_tide(player *p, random_source *r, const sequence_shape *shape)
{
    static _Thread_local holding h;
    hold_nothing(&h, p, shape);
    while (h.n_calls < shape->n_ops && player_is_good(p)) {
        size_mix mix = (size_mix)random_below(r, N_MIXES);
        unsigned stream = any_stream(p, r);
        bool is_last_out = random_once_in(r, 2);
        size_t n_left = random_spread(r, 8); /* blocks that stay of this tide */
        for (size_t n = 0; n < 400 && h.n_spare > 0; n++) {
            size_t bytes = size_of(p, r, mix, shape->live_bytes);
            if (h.live_bytes + bytes > shape->live_bytes) {
                break;
            }
            (void)get(&h, bytes, stream);
        }
        while (h.n_live > n_left) {
            put(&h, is_last_out ? h.n_live - 1 : random_below(r, h.n_live));
        }
        if (random_once_in(r, 8)) {
            play_finish(p);
        }
        play_check(p);
    }
    put_all(&h);
}

/* ---- whole granules ------------------------------------------------------------------------- */

void sequence_whole(player *p, random_source *r, const sequence_shape *shape)
{
    static _Thread_local holding h;
    size_t granule = p->conf.granule_bytes;
    size_t n_granules = (size_t)(shape->live_bytes / granule);
    size_t most = random_spread(r, n_granules);
    hold_nothing(&h, p, shape);
    for (size_t i = 0; i < shape->n_ops && player_is_good(p); i++) {
        size_t n = random_once_in(r, 64) ? n_granules : random_spread(r, most);
        if (random_once_in(r, 300)) {
            most = random_spread(r, n_granules);
        }
        if (random_once_in(r, 200)) {
            play_trim(p, random_below(r, (size_t)shape->live_bytes), random_once_in(r, 2));
        }
        while (h.live_bytes + n * granule > shape->live_bytes) {
            put(&h, random_below(r, h.n_live));
        }
        (void)get(&h, n * granule, 0);
        if (random_once_in(r, 2)) {
            put(&h, random_below(r, h.n_live));
        }
    }
    play_check(p);
    put_all(&h);
}

const sequence sequences[] = {
    { "churn", sequence_churn }, { "train", sequence_train }, { "robson", sequence_robson },
    { "pin", sequence_pin },     { "tide", sequence_tide },
};
const unsigned n_sequences = sizeof sequences / sizeof sequences[0];

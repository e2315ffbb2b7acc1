/* segment.c - which pieces of a range are live, free or holes, and what backs them.
 *
 * Upholds I1..I6 of segment.h. Guarded by the device lock. Never calls the driver. */
#include "segments/pleat/segment.h"

#include "vmm/base/assert.h"
#include "vmm/base/lock.h"

enum { WORD = 64 };

static uint64_t bit(size_t granule)
{
    return UINT64_C(1) << (granule % WORD);
}

/* ---- bitmaps of granules, and of their words --------------------------------------------- */

/* Both scan at most a word, and what of `any` tells the 64 granules of a bit apart: 2^20 granules
 * are 256 of those. */

/* The first bit at or after `from` of n_words words, or SIZE_MAX. */
static size_t next_bit(const uint64_t *words, const uint64_t *any, size_t n_words, size_t from)
{
    size_t i = from / WORD;
    uint64_t word = words[i] & (UINT64_MAX << (from % WORD));

    pl_lock_touch(1);
    if (word == 0) {
        size_t n_any = (n_words + WORD - 1) / WORD;
        size_t k = (i + 1) / WORD;
        uint64_t filled = k < n_any ? any[k] & (UINT64_MAX << ((i + 1) % WORD)) : 0;
        for (; filled == 0; filled = any[k]) {
            if (++k >= n_any) {
                return SIZE_MAX;
            }
            pl_lock_touch(1);
        }
        i = k * WORD + (size_t)__builtin_ctzll(filled);
        word = words[i];
    }
    return i * WORD + (size_t)__builtin_ctzll(word);
}

static size_t highest(uint64_t word)
{
    return (size_t)(WORD - 1) - (size_t)__builtin_clzll(word);
}

/* The last bit at or before `from`; there is one. */
static size_t last_bit(const uint64_t *words, const uint64_t *any, size_t from)
{
    size_t i = from / WORD;
    uint64_t word = words[i] & (UINT64_MAX >> (WORD - 1 - from % WORD));

    if (word == 0) {
        size_t k = i / WORD;
        uint64_t filled = any[k] & (bit(i) - 1);
        for (; filled == 0; filled = any[--k]) {
            pl_lock_touch(1);
        }
        i = k * WORD + highest(filled);
        word = words[i];
    }
    return i * WORD + highest(word);
}

/* ---- tables ---------------------------------------------------------------------------- */

/* Granules of the range, and one behind its end, in whole words. */
static size_t most_rooms(const pl_segment *seg)
{
    return ((seg->range.bytes >> seg->granule_log2) + 2 + WORD - 1) / WORD * WORD;
}

/* What n granules take in all tables. */
static size_t tables_bytes(size_t n)
{
    size_t n_words = n / WORD;
    size_t n_any = (n_words + WORD - 1) / WORD;

    return n * (sizeof(pl_chunk) + sizeof(pl_block *) + sizeof(pl_users) + sizeof(uint32_t)) +
           2 * (n_words + n_any) * sizeof(uint64_t);
}

/* One after the other, those of the largest elements first. */
static void lay_tables(pl_segment *seg, size_t n)
{
    size_t n_words = n / WORD;
    size_t n_any = (n_words + WORD - 1) / WORD;

    seg->chunks = seg->tables;
    seg->last = (pl_block **)(seg->chunks + n);
    seg->started = (uint64_t *)(seg->last + n);
    seg->started_any = seg->started + n_words;
    seg->loose = seg->started_any + n_any;
    seg->loose_any = seg->loose + n_words;
    seg->users = (pl_users *)(seg->loose_any + n_any);
    seg->taken_at = (uint32_t *)(seg->users + n);
}

static pleat_status make_tables(pl_host *host, pl_segment *seg)
{
    size_t n = most_rooms(seg);

    seg->tables_bytes = tables_bytes(n);
    seg->tables = pl_host_reserve(host, seg->tables_bytes);
    if (seg->tables == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    lay_tables(seg, n);
    return PLEAT_OK;
}

void pl_segment_reach(pl_host *host, pl_segment *seg, pleat_devptr end)
{
    size_t n = pl_segment_granule(seg, end) + 2; /* the hole behind `end` starts there */
    size_t most = most_rooms(seg);

    if (n <= seg->n_rooms) {
        return;
    }
    n = (n + WORD - 1) / WORD * WORD;
    n = n < most ? n : most;
    pl_host_use(host, tables_bytes(n) - tables_bytes(seg->n_rooms));
    seg->n_rooms = n;
}

/* ---- the tally ------------------------------------------------------------------------- */

static bool has_many_only(const pl_users *users)
{
    return users->n_many > 0 && users->n_live == 0 && users->n_kept == 0;
}

/* The granule's first live block has come, or its last one is going. */
static __attribute__((noinline)) void turn_live(pl_tally *tally, const pl_users *users, bool comes)
{
    size_t n = comes ? 1 : SIZE_MAX; /* minus one */

    tally->n_live_granules += n;
    tally->n_many_granules -= users->n_many > 0 && users->n_kept == 0 ? n : 0;
}

static inline void begin_live(pl_tally *tally, pl_users *users)
{
    if (users->n_live++ == 0) {
        turn_live(tally, users, true);
    }
}

static inline void end_live(pl_tally *tally, pl_users *users)
{
    if (--users->n_live == 0) {
        turn_live(tally, users, false);
    }
}

/* Between its first and its last granule there is nothing but b: those need no table. */
static inline void count_live(pl_segment *seg, pl_tally *tally, const pl_block *b, bool comes)
{
    void (*change)(pl_tally *, pl_users *) = comes ? begin_live : end_live;
    size_t first = pl_segment_granule(seg, b->base);
    size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);

    change(tally, &seg->users[first]);
    if (last > first) {
        change(tally, &seg->users[last]);
        tally->n_live_granules += comes ? last - first - 1 : first + 1 - last;
    }
}

/* The same of a kept one, or one that many use: n = 1 more, or UINT32_MAX = one less. */
static void count_waiting_in(pl_tally *tally, pl_users *users, bool is_kept, uint32_t n)
{
    tally->n_many_granules -= has_many_only(users);
    *(is_kept ? &users->n_kept : &users->n_many) += n;
    tally->n_many_granules += has_many_only(users);
}

static void count_waiting(pl_segment *seg, pl_tally *tally, const pl_block *b, uint32_t n)
{
    bool is_kept = b->state == PL_BLOCK_KEPT;
    size_t first = pl_segment_granule(seg, b->base);
    size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);

    count_waiting_in(tally, &seg->users[first], is_kept, n);
    if (last > first) {
        count_waiting_in(tally, &seg->users[last], is_kept, n);
        size_t n_within = n == 1 ? last - first - 1 : first + 1 - last;
        tally->n_many_granules += is_kept ? 0 : n_within;
    }
}

static inline bool is_waiting(const pl_block *b)
{
    return b->state == PL_BLOCK_KEPT || (b->state == PL_BLOCK_MANY && !b->is_apart);
}

static __attribute__((noinline)) void leave_waiting(pl_segment *seg, pl_tally *tally,
                                                    const pl_block *b)
{
    if (is_waiting(b)) {
        count_waiting(seg, tally, b, UINT32_MAX);
    }
}

static __attribute__((noinline)) void enter_waiting(pl_segment *seg, pl_tally *tally,
                                                    const pl_block *b)
{
    if (is_waiting(b)) {
        count_waiting(seg, tally, b, 1);
    }
}

/* Between live and free, mostly. Of live blocks the statistics know number and bytes. */
void pl_segment_become(pl_segment *seg, pl_block_store *store, pl_block *b, pl_block_state state)
{
    pl_tally *tally = &store->tally;
    pl_block_state was = (pl_block_state)b->state;

    if (was == PL_BLOCK_LIVE) {
        count_live(seg, tally, b, false);
    } else {
        tally->n_blocks[was]--;
        tally->bytes[was] -= b->bytes;
        if (was != PL_BLOCK_FREE) {
            leave_waiting(seg, tally, b);
        }
    }
    b->state = (uint8_t)state;
    if (state == PL_BLOCK_LIVE) {
        count_live(seg, tally, b, true);
        return;
    }
    tally->n_blocks[state]++;
    tally->bytes[state] += b->bytes;
    if (state != PL_BLOCK_FREE) {
        enter_waiting(seg, tally, b);
    }
}

/* ---- beginning and end ------------------------------------------------------------------ */

/* b is the highest block that starts in the granule. */
static inline void start_in(pl_segment *seg, size_t granule, pl_block *b)
{
    if (seg->last[granule] == NULL) {
        seg->started[granule / WORD] |= bit(granule);
        seg->started_any[granule / WORD / WORD] |= bit(granule / WORD);
    }
    seg->last[granule] = b;
}

/* No block starts there any more. */
static void clear_start(pl_segment *seg, size_t granule)
{
    size_t i = granule / WORD;

    seg->last[granule] = NULL;
    seg->started[i] &= ~bit(granule);
    if (seg->started[i] == 0) {
        seg->started_any[i / WORD] &= ~bit(i);
    }
}

pleat_status pl_segment_create(pl_host *host, pl_block_store *store, struct pl_area *area,
                               pl_range range, unsigned granule_log2, pl_segment **out)
{
    pl_segment *seg = pl_host_calloc(host, 1, sizeof(*seg));
    if (seg == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    seg->area = area;
    seg->reserved = range;
    seg->range = range;
    seg->range.bytes = range.bytes >> granule_log2 << granule_log2;
    seg->granule_log2 = granule_log2;
    if (make_tables(host, seg) != PLEAT_OK || pl_block_store_reserve(store, 1) != PLEAT_OK) {
        pl_segment_destroy(host, seg);
        return PLEAT_ENOMEM_HOST;
    }
    pl_segment_reach(host, seg, range.base);
    pl_block *hole = pl_block_store_get(store);
    hole->base = range.base;
    hole->bytes = seg->range.bytes;
    hole->segment = seg;
    hole->state = PL_BLOCK_HOLE;
    hole->lane = PL_LANE_SETTLED;
    seg->first = hole;
    start_in(seg, 0, hole);
    store->tally.n_blocks[PL_BLOCK_HOLE]++;
    store->tally.bytes[PL_BLOCK_HOLE] += hole->bytes;
    *out = seg;
    return PLEAT_OK;
}

void pl_segment_destroy(pl_host *host, pl_segment *seg)
{
    pl_host_unreserve(host, seg->tables, seg->tables_bytes, tables_bytes(seg->n_rooms));
    pl_host_free(host, seg);
}

/* ---- the list of blocks ---------------------------------------------------------------- */

pl_block *pl_segment_split(pl_segment *seg, pl_block_store *store, pl_block *b, pleat_devptr at)
{
    pl_block *high = pl_block_store_get(store);
    size_t granule = pl_segment_granule(seg, at);

    pl_assert(b->base < at && at < pl_block_end(b) && granule < seg->n_rooms);
    seg->n_reshaped++;
    bool is_live = b->state == PL_BLOCK_LIVE;
    pl_assert(!is_waiting(b));
    if (__builtin_expect(is_live, false)) {
        count_live(seg, &store->tally, b, false);
    } else {
        store->tally.n_blocks[b->state]++;
    }
    high->base = at;
    high->bytes = (size_t)(pl_block_end(b) - at);
    high->segment = seg;
    high->state = b->state;
    high->was = b->was;
    high->lane = b->lane;
    high->tick = b->tick;
    high->is_apart = b->is_apart;
    b->bytes -= high->bytes;
    high->prev = b;
    high->next = b->next;
    if (b->next != NULL) {
        b->next->prev = high;
    }
    b->next = high;
    if (seg->last[granule] == NULL || seg->last[granule]->base < at) {
        start_in(seg, granule, high);
    }
    if (__builtin_expect(is_live, false)) {
        count_live(seg, &store->tally, b, true);
        count_live(seg, &store->tally, high, true);
    }
    return high;
}

void pl_segment_absorb(pl_segment *seg, pl_block_store *store, pl_block *b, pl_block *next)
{
    size_t granule = pl_segment_granule(seg, next->base);

    pl_assert(b->next == next && pl_block_end(b) == next->base);
    bool is_live = b->state == PL_BLOCK_LIVE;
    pl_assert(b->state == next->state && !is_waiting(b));
    seg->n_reshaped++;
    if (__builtin_expect(is_live, false)) {
        count_live(seg, &store->tally, b, false);
        count_live(seg, &store->tally, next, false);
    } else {
        store->tally.n_blocks[b->state]--;
    }
    if (seg->last[granule] == next) {
        if (pl_segment_granule(seg, b->base) == granule) {
            seg->last[granule] = b;
        } else {
            clear_start(seg, granule);
        }
    }
    b->bytes += next->bytes;
    b->next = next->next;
    if (next->next != NULL) {
        next->next->prev = b;
    }
    if (__builtin_expect(is_live, false)) {
        count_live(seg, &store->tally, b, true);
    }
    pl_block_store_put(store, next);
}

/* The first block that starts in the granule; its base is not below `at`'s granule. */
static pl_block *first_in(const pl_segment *seg, size_t granule)
{
    return granule == 0 ? seg->first
                        : seg->last[last_bit(seg->started, seg->started_any, granule - 1)]->next;
}

/* The last block that starts in the granule of `at`, or before. */
static pl_block *last_before(const pl_segment *seg, size_t granule)
{
    if (granule >= seg->n_rooms) {
        granule = seg->n_rooms - 1; /* only the last hole reaches beyond the tables */
    }
    return seg->last[last_bit(seg->started, seg->started_any, granule)];
}

/* It covers the whole granule, so no other block starts there. */
pl_block *pl_segment_hole_at(const pl_segment *seg, pleat_devptr at)
{
    pl_block *b = last_before(seg, pl_segment_granule(seg, at));

    return b->state == PL_BLOCK_HOLE && b->base <= at && at < pl_block_end(b) ? b : NULL;
}

pl_block *pl_segment_find(const pl_segment *seg, pleat_devptr at)
{
    size_t granule = pl_segment_granule(seg, at);
    pl_block *b = last_before(seg, granule);

    if (b->base <= at) {
        return b;
    }
    pleat_devptr low = pl_segment_floor(seg, at);
    if (at - low < b->base - at) {
        for (b = first_in(seg, granule); b->base <= at && pl_block_end(b) <= at; b = b->next) {
            pl_lock_touch(1);
        }
        return b->base <= at ? b : b->prev; /* which may come from below the granule */
    }
    for (; b->base > at; b = b->prev) {
        pl_lock_touch(1);
    }
    return b;
}

/* A hole covers the whole granule where it starts, so it is the last block that starts there. */
bool pl_segment_next_hole(const pl_segment *seg, size_t *granule, size_t *budget, pl_block **out)
{
    for (; *granule < seg->n_rooms; --*budget) {
        uint64_t word = seg->started[*granule / WORD] & (UINT64_MAX << (*granule % WORD));
        if (*budget == 0) {
            return false;
        }
        if (word == 0) {
            *granule = (*granule / WORD + 1) * WORD;
            continue;
        }
        pl_block *b = seg->last[*granule / WORD * WORD + (size_t)__builtin_ctzll(word)];
        *granule = *granule / WORD * WORD + (size_t)__builtin_ctzll(word) + 1;
        if (b->state == PL_BLOCK_HOLE) {
            --*budget;
            *out = b;
            return true;
        }
    }
    *out = NULL;
    return true;
}

/* ---- loose granules --------------------------------------------------------------------- */

/* The bits [from, last] of word i, given that they overlap it. */
static uint64_t word_mask(size_t i, size_t from, size_t last)
{
    uint64_t mask = UINT64_MAX;

    if (i == from / WORD) {
        mask <<= from % WORD;
    }
    if (i == last / WORD) {
        mask &= UINT64_MAX >> (WORD - 1 - last % WORD);
    }
    return mask;
}

size_t pl_segment_pin_granules(pl_segment *seg, size_t from, size_t last)
{
    size_t n = 0;

    pl_lock_touch(last / WORD - from / WORD);
    for (size_t i = from / WORD; i <= last / WORD; i++) {
        uint64_t hit = seg->loose[i] & word_mask(i, from, last);
        if (hit == 0) {
            continue;
        }
        seg->loose[i] &= ~hit;
        if (seg->loose[i] == 0) {
            seg->loose_any[i / WORD] &= ~bit(i);
        }
        n += (size_t)__builtin_popcountll(hit);
    }
    seg->n_loose -= n;
    return n;
}

size_t pl_segment_count_loose(const pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    size_t from = pl_segment_granule(seg, base);
    size_t last = pl_segment_granule(seg, end - 1);
    size_t n = 0;

    if (last >= seg->n_rooms) {
        last = seg->n_rooms - 1;
    }
    pl_lock_touch(last / WORD > from / WORD ? last / WORD - from / WORD : 0);
    for (size_t i = from / WORD; i <= last / WORD; i++) {
        n += (size_t)__builtin_popcountll(seg->loose[i] & word_mask(i, from, last));
    }
    return n;
}

/* [from, to), at least one. */
static __attribute__((noinline)) size_t loosen_granules(pl_segment *seg, size_t from, size_t to)
{
    size_t n = 0;

    pl_lock_touch((to - 1) / WORD - from / WORD);
    for (size_t i = from / WORD; i <= (to - 1) / WORD; i++) {
        uint64_t fresh = word_mask(i, from, to - 1) & ~seg->loose[i];
        if (fresh == 0) {
            continue;
        }
        seg->loose[i] |= fresh;
        seg->loose_any[i / WORD] |= bit(i);
        n += (size_t)__builtin_popcountll(fresh);
    }
    seg->n_loose += n;
    return n;
}

/* Are there only free blocks between b and the two ends of the granules that it touches? Where both
 * ends are in one granule either answer will do if it is no; so both ways are gone at once, and the
 * nearest block that is not free ends it. */
static void look_around(const pl_block *b, pleat_devptr low, pleat_devptr high, bool is_one,
                        bool *is_free_below, bool *is_free_above)
{
    const pl_block *below = b;
    const pl_block *above = b;

    *is_free_below = true;
    *is_free_above = true;
    for (;;) {
        bool is_down = *is_free_below && below->base > low;
        bool is_up = *is_free_above && pl_block_end(above) < high;
        if (!is_down && !is_up) {
            return;
        }
        pl_lock_touch((size_t)is_down + (size_t)is_up);
        if (is_down) {
            below = below->prev;
            *is_free_below = below->state == PL_BLOCK_FREE;
        }
        if (is_up) {
            above = above->next;
            *is_free_above = above->state == PL_BLOCK_FREE;
        }
        if (is_one && !(*is_free_below && *is_free_above)) {
            return;
        }
    }
}

size_t pl_segment_loosen(pl_segment *seg, const pl_block *b)
{
    pleat_devptr low = pl_segment_floor(seg, b->base);
    pleat_devptr high = pl_segment_ceil(seg, pl_block_end(b));
    bool is_one = high - low == pl_segment_granule_bytes(seg);
    bool is_free_below;
    bool is_free_above;

    if (is_one && ((b->base > low && b->prev->state != PL_BLOCK_FREE) ||
                   (pl_block_end(b) < high && b->next->state != PL_BLOCK_FREE))) {
        return 0; /* mostly */
    }
    look_around(b, low, high, is_one, &is_free_below, &is_free_above);
    size_t from = pl_segment_granule(seg, low) + !is_free_below;
    size_t to = pl_segment_granule(seg, high) - !is_free_above;

    return from < to ? loosen_granules(seg, from, to) : 0;
}

size_t pl_segment_loosen_whole(pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    size_t from = pl_segment_granule(seg, base);
    size_t to = pl_segment_granule(seg, end);

    return from < to ? loosen_granules(seg, from, to) : 0;
}

size_t pl_segment_loose_run(const pl_segment *seg, size_t from, size_t most)
{
    size_t n = 0;

    while (n < most) {
        size_t at = from + n;
        uint64_t taken = ~(seg->loose[at / WORD] >> (at % WORD)); /* what is shifted in is taken */
        size_t more = taken == 0 ? WORD : (size_t)__builtin_ctzll(taken);
        n += more;
        if (more < WORD - at % WORD) {
            break;
        }
    }
    pl_lock_touch(n / WORD);
    return n < most ? n : most;
}

size_t pl_segment_next_loose(const pl_segment *seg, size_t from)
{
    return from < seg->n_rooms ? next_bit(seg->loose, seg->loose_any, seg->n_rooms / WORD, from)
                               : SIZE_MAX;
}

/* ---- the walker ------------------------------------------------------------------------- */

static bool has_memory(const pl_block *b)
{
    return b->state == PL_BLOCK_LIVE || b->state == PL_BLOCK_MANY || b->state == PL_BLOCK_FREE ||
           b->state == PL_BLOCK_KEPT;
}

static bool is_granular(const pl_segment *seg, const pl_block *b)
{
    return pl_segment_floor(seg, b->base) == b->base &&
           pl_segment_floor(seg, pl_block_end(b)) == pl_block_end(b);
}

static bool tells_words(const uint64_t *words, const uint64_t *any, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++) {
        if ((words[i] != 0) != ((any[i / WORD] & bit(i)) != 0)) {
            return false;
        }
    }
    return true;
}

/* The tables know of exactly n granules in which blocks start. */
static bool knows_starts(const pl_segment *seg, size_t n)
{
    for (size_t g = 0; g < seg->n_rooms; g++) {
        bool is_started = (seg->started[g / WORD] & bit(g)) != 0;
        if (is_started != (seg->last[g] != NULL)) {
            return false;
        }
        n -= is_started;
    }
    return n == 0 && tells_words(seg->started, seg->started_any, seg->n_rooms / WORD);
}

static int check_list(const pl_segment *seg)
{
    pleat_devptr at = seg->range.base;
    const pl_block *prev = NULL;
    size_t n_started = 0;

    for (const pl_block *b = seg->first; b != NULL; prev = b, b = b->next) {
        if (b->base != at || b->bytes == 0 || b->prev != prev || b->segment != seg) {
            return 1;
        }
        bool is_whole = b->state == PL_BLOCK_HOLE || b->state == PL_BLOCK_STALE ||
                        b->state == PL_BLOCK_POISON;
        bool is_twin = prev != NULL && b->state == PL_BLOCK_HOLE && prev->state == PL_BLOCK_HOLE;
        if ((is_whole && !is_granular(seg, b)) || is_twin) {
            return 2;
        }
        size_t granule = pl_segment_granule(seg, b->base);
        bool is_last = b->next == NULL || pl_segment_granule(seg, b->next->base) != granule;
        if (granule >= seg->n_rooms || (is_last && seg->last[granule] != b) ||
            !(seg->started[granule / WORD] & bit(granule))) {
            return 3;
        }
        n_started += is_last;
        at = pl_block_end(b);
    }
    if (at != seg->range.base + seg->range.bytes) {
        return 1;
    }
    return knows_starts(seg, n_started) ? 0 : 3;
}

/* One granule from ground truth: `b` covers its first byte. Returns the block at its end. */
static const pl_block *survey(const pl_segment *seg, size_t granule, const pl_block *b,
                              bool *is_backed, bool *is_free, bool *is_flying)
{
    pleat_devptr end = pl_segment_address(seg, granule + 1);

    *is_backed = true;
    *is_free = true;
    *is_flying = false;
    for (;;) {
        *is_flying = *is_flying || b->state == PL_BLOCK_FLIGHT;
        *is_backed = *is_backed && has_memory(b);
        *is_free = *is_free && b->state == PL_BLOCK_FREE;
        if (pl_block_end(b) >= end) {
            return pl_block_end(b) > end ? b : b->next;
        }
        b = b->next;
    }
}

int pl_segment_check(const pl_segment *seg)
{
    int broken = check_list(seg);
    size_t n_loose = 0;
    size_t n_granules = pl_segment_granule(seg, seg->range.base + seg->range.bytes);
    const pl_block *b = seg->first;

    if (broken != 0) {
        return broken;
    }
    for (size_t g = 0; g < seg->n_rooms && g < n_granules; g++) {
        bool is_backed;
        bool is_free;
        bool is_flying;
        bool is_loose = (seg->loose[g / WORD] & bit(g)) != 0;
        b = survey(seg, g, b, &is_backed, &is_free, &is_flying);
        if (!is_flying && is_backed != (seg->chunks[g] != 0)) {
            return 4;
        }
        if (is_loose != is_free && (is_loose || !(seg->is_private || seg->is_opening))) {
            return 5;
        }
        n_loose += is_loose;
    }
    bool is_told = tells_words(seg->loose, seg->loose_any, seg->n_rooms / WORD);
    return n_loose == seg->n_loose && is_told ? 0 : 6;
}

/* segment.c - the blocks of a range, and the tables of its granules.
 *
 * Upholds I1..I3 of segment.h. Guarded by the device lock. Never calls the driver. */
#include "segments/pleat/space/segment.h"

#include <string.h>

#include "segments/pleat/space/live.h"
#include "vmm/base/assert.h"
#include "vmm/base/lock.h"

/* ---- tables ---------------------------------------------------------------------------- */

/* The entries of a table: the granules of the range and two more, rounded up to whole words. */
static size_t most_rooms(const pl_segment *seg)
{
    return ((seg->range.bytes >> seg->granule_log2) + 2 + PL_WORD - 1) / PL_WORD * PL_WORD;
}

/* The bytes of all tables for n granules. */
static size_t tables_bytes(size_t n)
{
    size_t n_words = n / PL_WORD;
    size_t n_any = (n_words + PL_WORD - 1) / PL_WORD;

    return n * (sizeof(pl_chunk) + sizeof(pl_block *) + sizeof(pl_users) + 2 * sizeof(uint8_t)) +
           (5 * n_words + 2 * n_any) * sizeof(uint64_t);
}

/* The tables lie side by side, tables of the largest elements first. */
static void lay_tables(pl_segment *seg, size_t n)
{
    size_t n_words = n / PL_WORD;
    size_t n_any = (n_words + PL_WORD - 1) / PL_WORD;

    seg->chunks = seg->tables;
    seg->last = (pl_block **)(seg->chunks + n);
    seg->started = (uint64_t *)(seg->last + n);
    seg->started_any = seg->started + n_words;
    seg->vacant = seg->started_any + n_any;
    seg->loose = seg->vacant + n_words;
    seg->loose_any = seg->loose + n_words;
    seg->owned = seg->loose_any + n_any;
    seg->asleep = seg->owned + n_words;
    seg->users = (pl_users *)(seg->asleep + n_words);
    seg->orders = (uint8_t *)(seg->users + n);
    seg->parts = seg->orders + n;
}

static pleat_status make_tables(pl_meta *meta, pl_segment *seg)
{
    size_t n = most_rooms(seg);

    seg->tables_bytes = tables_bytes(n);
    seg->tables = pl_meta_reserve(meta, seg->tables_bytes);
    if (seg->tables == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    lay_tables(seg, n);
    return PLEAT_OK;
}

void pl_segment_use_tables(pl_meta *meta, pl_segment *seg, pleat_devptr end)
{
    size_t n = pl_segment_granule(seg, end) + 2; /* granule of the hole behind `end` */
    size_t most = most_rooms(seg);

    if (n <= seg->capacity) {
        return;
    }
    n = (n + PL_WORD - 1) / PL_WORD * PL_WORD;
    n = n < most ? n : most;
    pl_meta_use(meta, tables_bytes(n) - tables_bytes(seg->capacity));
    seg->capacity = n;
}

/* ---- chunks ----------------------------------------------------------------------------- */

void pl_segment_put_chunk(pl_segment *seg, size_t g, pl_chunk chunk, unsigned order)
{
    for (size_t i = 0; i < (size_t)1 << order; i++) {
        seg->chunks[g + i] = chunk;
        seg->orders[g + i] = (uint8_t)order;
        seg->parts[g + i] = (uint8_t)i;
    }
}

void pl_segment_clear_chunks(pl_segment *seg, size_t from, size_t to)
{
    memset(seg->chunks + from, 0, (to - from) * sizeof *seg->chunks);
    memset(seg->orders + from, 0, to - from);
    memset(seg->parts + from, 0, to - from);
}

/* ---- the tally ------------------------------------------------------------------------- */

static bool has_shared_only(const pl_users *users)
{
    return users->n_shared > 0 && users->n_live == 0 && users->n_captured == 0;
}

void pl_live_turn(pl_tally *tally, const pl_users *users, bool comes)
{
    size_t n = comes ? 1 : SIZE_MAX; /* minus one */

    tally->n_live_granules += n;
    tally->n_shared_granules -= users->n_shared > 0 && users->n_captured == 0 ? n : 0;
}

/* The counter of blocks like b, which is neither live nor free; NULL = not counted. */
static uint32_t *counter_of(pl_users *users, const pl_block *b)
{
    switch ((pl_block_state)b->state) {
    case PL_BLOCK_CAPTURED:
        return &users->n_captured;
    case PL_BLOCK_SHARED:
        return b->is_private ? &users->n_others : &users->n_shared;
    case PL_BLOCK_FLIGHT:
        return &users->n_others;
    default:
        return NULL;
    }
}

/* n = 1: a block comes; UINT32_MAX: it goes. */
static void count_in(pl_tally *tally, pl_users *users, const pl_block *b, uint32_t n)
{
    tally->n_shared_granules -= has_shared_only(users);
    *counter_of(users, b) += n;
    tally->n_shared_granules += has_shared_only(users);
}

/* Of a block that is neither live nor free. */
static __attribute__((noinline)) void count(pl_segment *seg, pl_tally *tally, const pl_block *b,
                                            uint32_t n)
{
    size_t first = pl_segment_granule(seg, b->base);
    size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);

    if (counter_of(&seg->users[first], b) == NULL) {
        return;
    }
    count_in(tally, &seg->users[first], b, n);
    if (last > first) {
        count_in(tally, &seg->users[last], b, n);
        if (b->state == PL_BLOCK_SHARED && !b->is_private) {
            tally->n_shared_granules += n == 1 ? last - first - 1 : first + 1 - last;
        }
    }
}

/* Most changes are between live and free. The tally has no number and bytes of live blocks, since
 * the statistics have. */
static inline void change(pl_segment *seg, pl_tally *tally, pl_block *b, pl_block_state state)
{
    pl_block_state was = (pl_block_state)b->state;

    if (was == PL_BLOCK_LIVE) {
        pl_live_end(seg, tally, b);
    } else {
        tally->n_blocks[was]--;
        tally->bytes[was] -= b->bytes;
        if (was != PL_BLOCK_FREE) {
            count(seg, tally, b, UINT32_MAX);
        }
    }
    b->state = (uint8_t)state;
    if (state == PL_BLOCK_LIVE) {
        pl_live_begin(seg, tally, b);
        return;
    }
    tally->n_blocks[state]++;
    tally->bytes[state] += b->bytes;
    if (state != PL_BLOCK_FREE) {
        count(seg, tally, b, 1);
    }
}

static __attribute__((noinline)) void change_asleep(pl_segment *seg, pl_tally *tally, pl_block *b,
                                                    pl_block_state state)
{
    pl_asleep_count(seg, b, false);
    change(seg, tally, b, state);
    pl_asleep_count(seg, b, true);
}

void pl_segment_become(pl_segment *seg, pl_block_store *store, pl_block *b, pl_block_state state)
{
    if (__builtin_expect(seg->n_asleep > 0, false)) {
        change_asleep(seg, &store->tally, b, state);
        return;
    }
    change(seg, &store->tally, b, state);
}

/* ---- beginning and end ------------------------------------------------------------------ */

/* b is the highest block that starts in the granule. */
static inline void start_in(pl_segment *seg, size_t granule, pl_block *b)
{
    if (seg->last[granule] == NULL) {
        seg->started[granule / PL_WORD] |= pl_granule_bit(granule);
        seg->started_any[granule / PL_WORD / PL_WORD] |= pl_granule_bit(granule / PL_WORD);
    }
    seg->last[granule] = b;
}

/* No block starts in the granule any more. */
static void clear_start(pl_segment *seg, size_t granule)
{
    size_t i = granule / PL_WORD;

    seg->last[granule] = NULL;
    seg->started[i] &= ~pl_granule_bit(granule);
    if (seg->started[i] == 0) {
        seg->started_any[i / PL_WORD] &= ~pl_granule_bit(i);
    }
}

pleat_status pl_segment_create(pl_meta *meta, pl_block_store *store, struct pl_area *area,
                               pl_range range, unsigned granule_log2, pl_segment **out)
{
    pl_segment *seg = pl_meta_calloc(meta, 1, sizeof(*seg));
    if (seg == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    seg->area = area;
    seg->tally = &store->tally;
    seg->reserved = range;
    seg->range = range;
    seg->range.bytes = range.bytes >> granule_log2 << granule_log2;
    seg->granule_log2 = granule_log2;
    if (make_tables(meta, seg) != PLEAT_OK || pl_block_store_reserve(store, 1) != PLEAT_OK) {
        pl_segment_destroy(meta, seg);
        return PLEAT_ENOMEM_HOST;
    }
    pl_segment_use_tables(meta, seg, range.base);
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

void pl_segment_destroy(pl_meta *meta, pl_segment *seg)
{
    pl_meta_unreserve(meta, seg->tables, seg->tables_bytes, tables_bytes(seg->capacity));
    pl_meta_free(meta, seg);
}

/* ---- the list of blocks ---------------------------------------------------------------- */

pl_block *pl_segment_split(pl_segment *seg, pl_block_store *store, pl_block *b, pleat_devptr at)
{
    pl_block *high = pl_block_store_get(store);
    size_t granule = pl_segment_granule(seg, at);

    pl_assert(b->base < at && at < pl_block_end(b) && granule < seg->capacity);
    seg->n_reshaped++;
    bool is_live = b->state == PL_BLOCK_LIVE;
    bool is_flying = b->state == PL_BLOCK_FLIGHT;
    pl_assert(b->state != PL_BLOCK_SHARED && b->state != PL_BLOCK_CAPTURED);
    if (__builtin_expect(is_live, false)) {
        pl_live_end(seg, &store->tally, b);
    } else {
        store->tally.n_blocks[b->state]++;
    }
    if (__builtin_expect(is_flying, false)) {
        count(seg, &store->tally, b, UINT32_MAX);
    }
    high->base = at;
    high->bytes = (size_t)(pl_block_end(b) - at);
    high->segment = seg;
    high->state = b->state;
    high->was = b->was;
    high->lane = b->lane;
    high->stamp = b->stamp;
    high->marks = b->marks;
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
        pl_live_begin(seg, &store->tally, b);
        pl_live_begin(seg, &store->tally, high);
    }
    if (__builtin_expect(is_flying, false)) {
        count(seg, &store->tally, b, 1);
        count(seg, &store->tally, high, 1);
    }
    return high;
}

/* `prev`, NULL at the segment's beginning, is followed by b. */
static inline void set_next(pl_segment *seg, pl_block *prev, pl_block *b)
{
    if (__builtin_expect(prev != NULL, true)) {
        prev->next = b;
    } else {
        seg->first = b;
    }
}

pl_block *pl_segment_cut_low(pl_segment *seg, pl_block_store *store, pl_block *b, size_t from,
                             pleat_devptr at)
{
    pl_block *prev = b->prev;
    pl_block *low = pl_block_store_get(store);
    size_t granule = pl_segment_granule(seg, at);

    pl_assert(b->base < at && at < pl_block_end(b) && b->state == PL_BLOCK_FREE &&
              from == pl_segment_granule(seg, b->base));
    seg->n_reshaped++;
    store->tally.n_blocks[PL_BLOCK_FREE]++;
    low->base = b->base;
    low->bytes = (size_t)(at - b->base);
    low->segment = seg;
    low->prev = prev;
    low->next = b;
    set_next(seg, prev, low);
    b->prev = low;
    b->base = at;
    b->bytes -= low->bytes;
    if (from != granule) { /* b was the last to start in `from` */
        seg->last[from] = low;
        if (seg->last[granule] == NULL) {
            start_in(seg, granule, b);
        }
    }
    return low;
}

void pl_segment_take_low(pl_segment *seg, pl_block_store *store, pl_block *b, pl_block *low,
                         size_t from)
{
    size_t granule = pl_segment_granule(seg, b->base);

    pl_assert(b->prev == low && pl_block_end(low) == b->base && b->state == PL_BLOCK_FREE &&
              from == pl_segment_granule(seg, low->base));
    seg->n_reshaped++;
    store->tally.n_blocks[PL_BLOCK_FREE]--;
    if (from != granule) { /* low was the last to start in `from`, b the first in `granule` */
        seg->last[from] = b;
        if (seg->last[granule] == b) {
            clear_start(seg, granule);
        }
    }
    b->base = low->base;
    b->bytes += low->bytes;
    b->prev = low->prev;
    set_next(seg, low->prev, b);
    pl_block_store_put(store, low);
}

void pl_segment_absorb(pl_segment *seg, pl_block_store *store, pl_block *b, pl_block *next)
{
    size_t granule = pl_segment_granule(seg, next->base);

    pl_assert(b->next == next && pl_block_end(b) == next->base);
    bool is_live = b->state == PL_BLOCK_LIVE;
    bool is_flying = b->state == PL_BLOCK_FLIGHT;
    pl_assert(b->state == next->state && b->state != PL_BLOCK_SHARED &&
              b->state != PL_BLOCK_CAPTURED);
    seg->n_reshaped++;
    if (__builtin_expect(is_live, false)) {
        pl_live_end(seg, &store->tally, b);
        pl_live_end(seg, &store->tally, next);
    } else {
        store->tally.n_blocks[b->state]--;
    }
    if (__builtin_expect(is_flying, false)) {
        count(seg, &store->tally, b, UINT32_MAX);
        count(seg, &store->tally, next, UINT32_MAX);
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
        pl_live_begin(seg, &store->tally, b);
    }
    if (__builtin_expect(is_flying, false)) {
        count(seg, &store->tally, b, 1);
    }
    pl_block_store_put(store, next);
}

/* The first block that starts in the granule; at least one does. */
static pl_block *first_in(const pl_segment *seg, size_t granule)
{
    return granule == 0
               ? seg->first
               : seg->last[pl_granule_last(seg->started, seg->started_any, granule - 1)]->next;
}

/* The last block that starts in the granule or below. */
static pl_block *last_before(const pl_segment *seg, size_t granule)
{
    if (granule >= seg->capacity) {
        granule = seg->capacity - 1; /* only the last hole reaches beyond the tables */
    }
    return seg->last[pl_granule_last(seg->started, seg->started_any, granule)];
}

/* A hole covers whole granules, so no block but the hole starts in the granule of `at`. */
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
        return b->base <= at ? b : b->prev; /* b->prev may start below the granule */
    }
    for (; b->base > at; b = b->prev) {
        pl_lock_touch(1);
    }
    return b;
}

/* A hole covers the whole granule of its start, so no later block starts in the granule. */
bool pl_segment_next_hole(const pl_segment *seg, size_t *granule, size_t *budget, pl_block **out)
{
    for (; *granule < seg->capacity; --*budget) {
        uint64_t word = seg->started[*granule / PL_WORD] & (UINT64_MAX << (*granule % PL_WORD));
        if (*budget == 0) {
            return false;
        }
        if (word == 0) {
            *granule = (*granule / PL_WORD + 1) * PL_WORD;
            continue;
        }
        pl_block *b = seg->last[*granule / PL_WORD * PL_WORD + (size_t)__builtin_ctzll(word)];
        *granule = *granule / PL_WORD * PL_WORD + (size_t)__builtin_ctzll(word) + 1;
        if (b->state == PL_BLOCK_HOLE) {
            --*budget;
            *out = b;
            return true;
        }
    }
    *out = NULL;
    return true;
}

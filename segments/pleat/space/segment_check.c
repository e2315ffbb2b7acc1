/* segment_check.c - do I1..I10 of segment.h hold?
 *
 * Recomputes the tables from the blocks and the chunks. Guarded by the device lock. */
#include "segments/pleat/space/segment.h"

static bool has_memory(const pl_block *b)
{
    return b->state == PL_BLOCK_LIVE || b->state == PL_BLOCK_SHARED || b->state == PL_BLOCK_FREE ||
           b->state == PL_BLOCK_CAPTURED;
}

static bool is_granular(const pl_segment *seg, const pl_block *b)
{
    return pl_segment_floor(seg, b->base) == b->base &&
           pl_segment_floor(seg, pl_block_end(b)) == pl_block_end(b);
}

static bool tells_words(const uint64_t *words, const uint64_t *any, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++) {
        if ((words[i] != 0) != ((any[i / PL_WORD] & pl_granule_bit(i)) != 0)) {
            return false;
        }
    }
    return true;
}

/* Do the tables have exactly n granules where blocks start? */
static bool knows_starts(const pl_segment *seg, size_t n)
{
    for (size_t g = 0; g < seg->capacity; g++) {
        bool is_started = (seg->started[g / PL_WORD] & pl_granule_bit(g)) != 0;
        if (is_started != (seg->last[g] != NULL)) {
            return false;
        }
        n -= is_started;
    }
    return n == 0 && tells_words(seg->started, seg->started_any, seg->capacity / PL_WORD);
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
        bool is_whole = b->state == PL_BLOCK_HOLE || b->state == PL_BLOCK_STALE;
        bool is_twin = prev != NULL && b->state == PL_BLOCK_HOLE && prev->state == PL_BLOCK_HOLE;
        if ((is_whole && !is_granular(seg, b)) || is_twin) {
            return 2;
        }
        size_t granule = pl_segment_granule(seg, b->base);
        bool is_last = b->next == NULL || pl_segment_granule(seg, b->next->base) != granule;
        if (granule >= seg->capacity || (is_last && seg->last[granule] != b) ||
            !(seg->started[granule / PL_WORD] & pl_granule_bit(granule))) {
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

/* Count b, which has bytes in the granule [from, to), if b begins or ends there. */
static void count_user(pl_users *users, const pl_block *b, pleat_devptr from, pleat_devptr to)
{
    if (b->base < from && pl_block_end(b) > to) {
        return;
    }
    users->n_live += b->state == PL_BLOCK_LIVE;
    users->n_captured += b->state == PL_BLOCK_CAPTURED;
    users->n_shared += b->state == PL_BLOCK_SHARED && !b->is_private;
    users->n_others += b->state == PL_BLOCK_FLIGHT ||
                       (b->state == PL_BLOCK_SHARED && b->is_private);
}

static bool are_users_right(const pl_users *told, const pl_users *counted)
{
    return told->n_live == counted->n_live && told->n_captured == counted->n_captured &&
           told->n_shared == counted->n_shared && told->n_others == counted->n_others;
}

/* Tell about the blocks of a granule; `b` covers the granule's first byte. Returns the block that
 * covers the first byte behind the granule. */
static const pl_block *survey(const pl_segment *seg, size_t granule, const pl_block *b,
                              pl_users *users, bool *is_backed, bool *is_free, bool *is_flying)
{
    pleat_devptr end = pl_segment_address(seg, granule + 1);

    *users = (pl_users){ 0 };
    *is_backed = true;
    *is_free = true;
    *is_flying = false;
    for (;;) {
        count_user(users, b, pl_segment_address(seg, granule), end);
        *is_flying = *is_flying || b->state == PL_BLOCK_FLIGHT;
        *is_backed = *is_backed && has_memory(b);
        *is_free = *is_free && b->state == PL_BLOCK_FREE;
        if (pl_block_end(b) >= end) {
            return pl_block_end(b) > end ? b : b->next;
        }
        b = b->next;
    }
}

/* Are all granules of the chunk that begins with g vacant? */
static bool is_chunk_vacant(const pl_segment *seg, size_t g)
{
    size_t to = pl_segment_chunk_to(seg, g);

    while (g < to && pl_granule_is_set(seg->vacant, g)) {
        g++;
    }
    return g == to;
}

/* For the chunk that begins with `from`: does every granule have its handle, order and place? */
static bool is_chunk_whole(const pl_segment *seg, size_t from)
{
    size_t to = pl_segment_chunk_to(seg, from);
    size_t g = from;

    while (g < to && g < seg->capacity && seg->chunks[g] == seg->chunks[from] &&
           seg->orders[g] == seg->orders[from] && seg->parts[g] == g - from) {
        g++;
    }
    return g == to;
}

/* Check the tables of a granule that is not in flight: 0, or the number of the broken invariant. */
static int check_chunk(const pl_segment *seg, size_t g)
{
    size_t from = pl_segment_chunk_from(seg, g);

    if (from > g || g >= pl_segment_chunk_to(seg, from) || seg->parts[from] != 0 ||
        (seg->chunks[g] == 0 && seg->orders[g] != 0) || (g == from && !is_chunk_whole(seg, g))) {
        return 7;
    }
    bool is_loose = pl_granule_is_set(seg->loose, g);
    if (from < g) {
        return is_loose == pl_granule_is_set(seg->loose, from) ? 0 : 5;
    }
    return is_loose == (seg->chunks[g] != 0 && is_chunk_vacant(seg, g)) ? 0 : 5;
}

static int check_loose(const pl_segment *seg)
{
    size_t n_loose = 0;

    for (size_t g = 0; g < seg->capacity; g++) {
        n_loose += pl_granule_is_set(seg->loose, g);
    }
    bool is_told = tells_words(seg->loose, seg->loose_any, seg->capacity / PL_WORD);
    return n_loose == seg->n_loose && is_told ? 0 : 6;
}

/* The entry of a granule in flight is the flight's own, and not looked at. */
static bool is_asleep_right(const pl_segment *seg, size_t g, bool is_flying)
{
    return is_flying || pl_granule_is_set(seg->asleep, g) == (seg->chunks[g] == PL_CHUNK_ASLEEP);
}

int pl_segment_check(const pl_segment *seg)
{
    int broken = check_list(seg);
    size_t n_vacant = 0;
    size_t n_asleep = 0;
    size_t n_granules = pl_segment_granule(seg, seg->range.base + seg->range.bytes);
    const pl_block *b = seg->first;

    if (broken != 0) {
        return broken;
    }
    for (size_t g = 0; g < seg->capacity && g < n_granules; g++) {
        pl_users users;
        bool is_backed;
        bool is_free;
        bool is_flying;
        bool is_vacant = pl_granule_is_set(seg->vacant, g);
        b = survey(seg, g, b, &users, &is_backed, &is_free, &is_flying);
        if (!are_users_right(&seg->users[g], &users)) {
            return 8;
        }
        if (!is_flying && is_backed != (seg->chunks[g] != 0)) {
            return 4;
        }
        bool is_owned = seg->is_private && pl_granule_is_set(seg->owned, g);
        if (is_vacant != (is_free && !is_owned) && (is_vacant || !seg->is_opening)) {
            return 5;
        }
        n_vacant += is_vacant;
        n_asleep += pl_granule_is_set(seg->asleep, g);
        if (!is_asleep_right(seg, g, is_flying)) {
            return 10;
        }
        broken = is_flying ? 0 : check_chunk(seg, g);
        if (broken != 0) {
            return broken;
        }
    }
    broken = n_vacant == seg->n_vacant ? check_loose(seg) : 6;
    return broken != 0 || n_asleep == seg->n_asleep ? broken : 10;
}

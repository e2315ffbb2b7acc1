/* loose.c - keeps which granules of a segment are vacant, loose, or owned by a private pool.
 *
 * Upholds I5 and I6 of segment.h. Guarded by the device lock. Never calls the driver. */
#include "segments/pleat/space/segment.h"

#include <string.h>

#include "vmm/base/lock.h"

/* Clear the bits of `mask` in word i; returns how many were set. */
static inline size_t clear_in(uint64_t *words, uint64_t *any, size_t i, uint64_t mask)
{
    uint64_t hit = words[i] & mask;

    if (hit == 0) {
        return 0;
    }
    words[i] &= ~hit;
    if (any != NULL && words[i] == 0) {
        any[i / PL_WORD] &= ~pl_granule_bit(i);
    }
    return pl_granule_count_in(hit);
}

/* Set the bits of `mask` in word i; returns how many were clear. */
static inline size_t set_in(uint64_t *words, uint64_t *any, size_t i, uint64_t mask)
{
    uint64_t fresh = mask & ~words[i];

    if (fresh == 0) {
        return 0;
    }
    words[i] |= fresh;
    if (any != NULL) {
        any[i / PL_WORD] |= pl_granule_bit(i);
    }
    return pl_granule_count_in(fresh);
}

/* The same for the bits of [from, last], which mostly are in a single word. */
static inline size_t clear_bits(uint64_t *words, uint64_t *any, size_t from, size_t last)
{
    size_t i = from / PL_WORD;
    size_t n = clear_in(words, any, i, pl_granule_mask(i, from, last));

    while (__builtin_expect(i++ < last / PL_WORD, false)) {
        n += clear_in(words, any, i, pl_granule_mask(i, from, last));
    }
    return n;
}

static inline size_t set_bits(uint64_t *words, uint64_t *any, size_t from, size_t last)
{
    size_t i = from / PL_WORD;
    size_t n = set_in(words, any, i, pl_granule_mask(i, from, last));

    while (__builtin_expect(i++ < last / PL_WORD, false)) {
        n += set_in(words, any, i, pl_granule_mask(i, from, last));
    }
    return n;
}

static void touch_words(size_t from, size_t last)
{
    pl_lock_touch(last / PL_WORD - from / PL_WORD);
}

size_t pl_segment_pin_granules(pl_segment *seg, size_t from, size_t last)
{
    touch_words(from, last);
    size_t n_vacant = clear_bits(seg->vacant, NULL, from, last);
    if (seg->has_large) {
        from = pl_granule_is_set(seg->loose, from) ? pl_segment_chunk_from(seg, from) : from;
        last = pl_granule_is_set(seg->loose, last) ? pl_segment_chunk_to(seg, last) - 1 : last;
    }
    size_t n = clear_bits(seg->loose, seg->loose_any, from, last);
    seg->n_vacant -= n_vacant;
    seg->n_loose -= n;
    seg->tally->n_tied_granules += n - n_vacant; /* may wrap, as the sum does not */
    return n;
}

/* Behind the tables lies a hole. */
static size_t last_granule(const pl_segment *seg, pleat_devptr end)
{
    size_t last = pl_segment_granule(seg, end - 1);

    return last < seg->capacity ? last : seg->capacity - 1;
}

static size_t count_touched(const pl_segment *seg, const uint64_t *words, pleat_devptr base,
                            pleat_devptr end)
{
    size_t from = pl_segment_granule(seg, base);
    size_t last = last_granule(seg, end);

    if (from > last) {
        return 0;
    }
    touch_words(from, last);
    return pl_granule_count(words, from, last);
}

size_t pl_segment_count_vacant(const pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    return count_touched(seg, seg->vacant, base, end);
}

size_t pl_segment_count_loose(const pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    return count_touched(seg, seg->loose, base, end);
}

size_t pl_segment_count_loose_beside(const pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    size_t from = pl_segment_granule(seg, base);
    size_t last = last_granule(seg, end);
    size_t n = 0;

    if (from > last) {
        return 0;
    }
    n += pl_granule_is_set(seg->loose, from) ? seg->parts[from] : 0U;
    n += pl_granule_is_set(seg->loose, last) ? pl_segment_chunk_to(seg, last) - 1 - last : 0;
    return n;
}

/* Are all granules of [from, to) vacant? */
static inline bool is_range_vacant(const pl_segment *seg, size_t from, size_t to)
{
    size_t last = to - 1;
    bool is_vacant = true;

    for (size_t i = from / PL_WORD; i <= last / PL_WORD && is_vacant; i++) {
        is_vacant = (pl_granule_mask(i, from, last) & ~seg->vacant[i]) == 0;
    }
    return is_vacant;
}

/* The granules [*low, *high), at least one, are vacant. Chunks at both ends may reach beyond.
 * Extend [*low, *high) to the whole end chunk if all of its granules are vacant; otherwise leave
 * the chunk out. Mostly all granules are in a single chunk. */
static inline void fit_chunks(const pl_segment *seg, size_t *low, size_t *high)
{
    size_t last = *high - 1;
    size_t from = pl_segment_chunk_from(seg, *low);
    size_t to = pl_segment_chunk_to(seg, *low);
    bool is_vacant = is_range_vacant(seg, from, to);

    *low = is_vacant ? from : to;
    if (last >= to) {
        from = pl_segment_chunk_from(seg, last);
        to = pl_segment_chunk_to(seg, last);
        is_vacant = is_range_vacant(seg, from, to);
    }
    *high = is_vacant ? to : from;
}

/* Between the first chunk and the last chunk all granules are vacant. */
static inline size_t loosen_row(pl_segment *seg, size_t from, size_t to)
{
    size_t low = from;
    size_t high = to;

    touch_words(from, to - 1);
    size_t n_vacant = set_bits(seg->vacant, NULL, from, to - 1);
    if (seg->has_large) {
        fit_chunks(seg, &low, &high);
    }
    size_t n = low < high ? set_bits(seg->loose, seg->loose_any, low, high - 1) : 0;
    seg->n_vacant += n_vacant;
    seg->n_loose += n;
    seg->tally->n_tied_granules += n_vacant - n; /* may wrap, as the sum does not */
    return n;
}

/* How many bits in a row from `from` on, at most `most`, are set, or clear? */
static size_t count_row(const uint64_t *words, bool are_set, size_t from, size_t most)
{
    uint64_t flip = are_set ? 0 : UINT64_MAX;
    size_t n = 0;

    while (n < most) {
        size_t at = from + n;
        uint64_t other = ~((words[at / PL_WORD] ^ flip) >> (at % PL_WORD)); /* shifted in: 1 */
        size_t more = other == 0 ? PL_WORD : (size_t)__builtin_ctzll(other);
        n += more;
        if (more < PL_WORD - at % PL_WORD) {
            break;
        }
    }
    pl_lock_touch(n / PL_WORD);
    return n < most ? n : most;
}

static __attribute__((noinline)) size_t loosen_not_owned(pl_segment *seg, size_t from, size_t to)
{
    size_t n_loose = 0;

    while (from < to) {
        size_t n = count_row(seg->owned, false, from, to - from);
        n_loose += n > 0 ? loosen_row(seg, from, from + n) : 0;
        from += n;
        from += count_row(seg->owned, true, from, to - from);
    }
    return n_loose;
}

size_t pl_segment_loosen_granules(pl_segment *seg, size_t from, size_t to)
{
    return __builtin_expect(seg->is_private, false) ? loosen_not_owned(seg, from, to)
                                                    : loosen_row(seg, from, to);
}

size_t pl_segment_loose_run(const pl_segment *seg, size_t from, size_t most)
{
    return count_row(seg->loose, true, from, most);
}

static size_t next_loose(const pl_segment *seg, size_t from)
{
    return from < seg->capacity
               ? pl_granule_next(seg->loose, seg->loose_any, seg->capacity / PL_WORD, from)
               : SIZE_MAX;
}

size_t pl_segment_next_chunk(const pl_segment *seg, size_t from)
{
    size_t g = next_loose(seg, from);
    return g == SIZE_MAX || seg->parts[g] == 0 ? g : next_loose(seg, pl_segment_chunk_to(seg, g));
}

/* ---- what a private pool owns ---------------------------------------------------------------- */

void pl_segment_own(pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    size_t from = pl_segment_granule(seg, base);
    size_t last = pl_segment_granule(seg, end - 1);

    touch_words(from, last);
    (void)set_bits(seg->owned, NULL, from, last);
}

bool pl_segment_is_owned(const pl_segment *seg, pleat_devptr base, pleat_devptr end)
{
    size_t from = pl_segment_granule(seg, base);
    size_t n = pl_segment_granule(seg, end - 1) - from + 1;

    return count_row(seg->owned, true, from, n) == n;
}

/* Behind the tables lies a hole. */
static void own_each(pl_segment *seg, int byte)
{
    memset(seg->owned, byte, seg->capacity / PL_WORD * sizeof *seg->owned);
    pl_lock_touch(seg->capacity / PL_WORD / PL_WORD);
}

void pl_segment_own_all(pl_segment *seg)
{
    own_each(seg, 0xFF);
}

void pl_segment_own_none(pl_segment *seg)
{
    own_each(seg, 0);
}

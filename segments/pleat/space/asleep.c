/* asleep.c - see segment.h. Upholds I10 of segment.h. Guarded by the device lock.
 *
 * The users of a granule tell how the granule is counted. A granule inside a long block has no
 * users, and the block tells how to count. Blocks are freed while their heap sleeps. So a change of
 * a block's state takes the block's granules out of the counts, and then adds them again. */
#include "segments/pleat/space/segment.h"

/* ---- the tally ------------------------------------------------------------------------------- */

/* The counter for a granule with these users; NULL: counted nowhere. */
static size_t *counter_of(pl_tally *tally, const pl_users *users)
{
    if (users->n_live > 0) {
        return &tally->n_live_asleep;
    }
    return users->n_shared > 0 && users->n_captured == 0 ? &tally->n_shared_asleep : NULL;
}

/* The counter for a granule inside of b. */
static size_t *counter_in(pl_tally *tally, const pl_block *b)
{
    if (b->state == PL_BLOCK_LIVE) {
        return &tally->n_live_asleep;
    }
    return b->state == PL_BLOCK_SHARED && !b->is_private ? &tally->n_shared_asleep : NULL;
}

static void add(size_t *counter, size_t n, bool is_in)
{
    if (counter != NULL) {
        *counter += is_in ? n : 0 - n;
    }
}

void pl_asleep_count(const pl_segment *seg, const pl_block *b, bool is_in)
{
    size_t first = pl_segment_granule(seg, b->base);
    size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);

    if (first >= seg->capacity || last >= seg->capacity) {
        return; /* only a hole reaches beyond the tables */
    }
    add(counter_of(seg->tally, &seg->users[first]), pl_granule_is_set(seg->asleep, first), is_in);
    if (last > first) {
        add(counter_of(seg->tally, &seg->users[last]), pl_granule_is_set(seg->asleep, last), is_in);
    }
    size_t *within = last > first + 1 ? counter_in(seg->tally, b) : NULL;
    if (within != NULL) {
        add(within, pl_granule_count(seg->asleep, first + 1, last - 1), is_in);
        pl_lock_touch((last - first) / PL_WORD);
    }
}

/* ---- granules -------------------------------------------------------------------------------- */

/* Where no block begins or ends, the block over all of the granule tells how to count. */
static void change(pl_segment *seg, size_t from, size_t to, bool is_in)
{
    const pl_block *over = seg->last[pl_granule_last(seg->started, seg->started_any, from)];

    for (size_t g = from; g < to; g++) {
        const pl_users *users = &seg->users[g];
        bool is_within = users->n_live == 0 && users->n_shared == 0 && seg->last[g] == NULL;
        pl_assert(pl_granule_is_set(seg->asleep, g) != is_in);
        over = seg->last[g] != NULL ? seg->last[g] : over;
        seg->asleep[g / PL_WORD] ^= pl_granule_bit(g);
        add(is_within ? counter_in(seg->tally, over) : counter_of(seg->tally, users), 1, is_in);
    }
}

void pl_asleep_begin(pl_segment *seg, size_t from, size_t to)
{
    change(seg, from, to, true);
    seg->n_asleep += to - from;
}

void pl_asleep_end(pl_segment *seg, size_t from, size_t to)
{
    change(seg, from, to, false);
    seg->n_asleep -= to - from;
}

/* flight_fly.c - phase two of a flight (flight.h): create, map.
 *
 * Nobody else changes the memory, also while the lock is dropped: the flight's blocks, the links
 * between these blocks, and the table entries of their granules. */
#include "segments/pleat/grow/flight.h"

#include "segments/pleat/space/back.h"

/* How many granules from g on a chunk may have. Small chunks do not reach across the request's end,
 * as the next block, which begins there, would share a chunk with the request. */
static size_t reach(const pl_flight *f, const pl_segment *seg, size_t g, size_t end)
{
    size_t own_end = pl_segment_granule(seg, f->place.at + f->bytes - 1) + 1;
    bool is_small = f->most_order < PL_LARGE_ORDER;

    return is_small && g < own_end && own_end < end ? own_end - g : end - g;
}

static unsigned order_at(const pl_flight *f, const pl_segment *seg, size_t g, size_t end)
{
    unsigned order = pl_order_of(reach(f, seg, g, end));

    return order < f->most_order ? order : f->most_order;
}

/* Create the next chunks of the hole [*g, end) that have one order. Moves *g behind the last. */
static pleat_status create_some(pl_space *space, pl_flight *f, pl_block *hole, size_t *g,
                                size_t end)
{
    pl_segment *seg = hole->segment;
    unsigned order = order_at(f, seg, *g, end);
    size_t size = (size_t)1 << order;
    pl_chunk chunks[PL_PILE_CHUNKS];
    size_t n_created;
    size_t n = 1;

    for (size_t next = *g + size;
         n < PL_PILE_CHUNKS && next < end && order_at(f, seg, next, end) == order; next += size) {
        n++;
    }
    pleat_status st = pl_back_create(space, order, n, chunks, &n_created);
    for (size_t i = 0; i < n_created; i++, *g += size) {
        pl_segment_put_chunk(seg, *g, chunks[i], order);
    }
    f->has_large = f->has_large || (order > 0 && n_created > 0);
    f->n_created += n_created << order;
    hole->n_given += n_created << order;
    pl_pace_step(space, f->pace, n_created);
    if (st == PLEAT_ENOMEM_DEVICE && order > 0) {
        f->most_order = order - 1;
        return PLEAT_OK;
    }
    return st;
}

/* Create chunks for the rest of the hole, as large as may be. A driver that refuses a large chunk
 * is asked for smaller chunks. */
static pleat_status create_in(pl_space *space, pl_flight *f, pl_block *hole)
{
    size_t g = pl_segment_granule(hole->segment, hole->base) + hole->n_given;
    size_t end = pl_segment_granule(hole->segment, pl_block_end(hole));
    pleat_status st = PLEAT_OK;

    while (g < end && st == PLEAT_OK) {
        st = create_some(space, f, hole, &g, end);
    }
    return st;
}

static pleat_status create_missing(pl_space *space, pl_flight *f)
{
    pleat_status st = PLEAT_OK;

    for (pl_block *b = f->first; b != NULL && st == PLEAT_OK; b = b == f->last ? NULL : b->next) {
        st = b->was == PL_BLOCK_HOLE ? create_in(space, f, b) : PLEAT_OK;
        pl_pace_step(space, f->pace, 1);
    }
    return st;
}

/* The granules under victim b and the victims right behind b, as several may share a granule:
 * [*from, *to). Returns the next victim. */
static const pl_block *taken_granules(pl_space *space, const pl_flight *f, const pl_block *b,
                                      size_t *from, size_t *to)
{
    const pl_segment *seg = b->segment;
    const pl_block *last = b;

    while (last->queue_next != NULL && last->queue_next->base == pl_block_end(last) &&
           last->queue_next->segment == seg) {
        last = last->queue_next;
        pl_pace_step(space, f->pace, 1);
    }
    *from = pl_segment_granule(seg, b->base);
    *to = pl_segment_granule(seg, pl_block_end(last));
    return last->queue_next;
}

/* Enter the taken chunks of the order in the place's granules. Until all is mapped, the chunks stay
 * in the tables of their old granules, too. */
static void fill_taken_of(pl_space *space, pl_flight *f, unsigned order)
{
    const pl_block *b = f->victims.first;
    pl_block *hole = f->first;
    pl_segment *to_seg = f->place.segment;

    while (b != NULL) {
        const pl_segment *seg = b->segment;
        size_t g;
        size_t to;
        size_t at;
        for (b = taken_granules(space, f, b, &g, &to); g < to; g = pl_segment_chunk_to(seg, g)) {
            if (seg->orders[g] == order && pl_flight_next_slot(f, &hole, order, &at)) {
                pl_segment_put_chunk(to_seg, at, seg->chunks[g], order);
                to_seg->parts[at] |= PL_PART_TAKEN;
            }
            pl_pace_step(space, f->pace, 1);
        }
    }
}

/* The largest first: then all find room. */
static void fill_taken(pl_space *space, pl_flight *f)
{
    for (unsigned order = f->has_large ? PL_MOST_ORDER + 1 : 1; order-- > 0;) {
        fill_taken_of(space, f, order);
    }
}

/* The taken chunks are mapped at the place: clear the chunks in the old granules. */
static void empty_taken(pl_space *space, const pl_flight *f)
{
    const pl_block *b = f->victims.first;

    while (b != NULL) {
        pl_segment *seg = b->segment;
        size_t g;
        size_t to;
        size_t next;
        for (b = taken_granules(space, f, b, &g, &to); g < to; g = next) {
            next = pl_segment_chunk_to(seg, g);
            pl_segment_clear_chunks(seg, g, next);
            pl_pace_step(space, f->pace, 1);
        }
    }
}

/* The driver still maps b, at least in part, though the flight failed. */
static void refuse(pl_flight *f, pl_block *b)
{
    b->is_refused = true;
    f->has_refused = true;
}

/* Unmap the holes of the place below `stop`. */
static void unmap_below(pl_space *space, pl_flight *f, const pl_block *stop)
{
    for (pl_block *b = f->first; b != stop; b = b->next) {
        if (b->was == PL_BLOCK_HOLE &&
            pl_back_unmap(space, b->base, pl_segment_granules_of(b->segment, b)) != PLEAT_OK) {
            refuse(f, b);
        }
    }
}

static pleat_status map_holes(pl_space *space, pl_flight *f)
{
    const pl_segment *seg = f->place.segment;
    pleat_status st = PLEAT_OK;

    for (pl_block *b = f->first; b != NULL && st == PLEAT_OK; b = b == f->last ? NULL : b->next) {
        size_t g = pl_segment_granule(seg, b->base);
        pl_pace_step(space, f->pace, 1);
        if (b->was != PL_BLOCK_HOLE) {
            continue;
        }
        st = pl_back_map(space, b->base, seg->chunks + g, seg->orders + g,
                         pl_segment_granules_of(seg, b));
        if (st != PLEAT_OK) {
            unmap_below(space, f, b);
        }
        if (st == PLEAT_EPOISONED) {
            refuse(f, b);
        }
    }
    return st;
}

pleat_status pl_flight_fly(pl_space *space, pl_flight *f)
{
    fill_taken(space, f);
    pleat_status st = create_missing(space, f);
    st = st == PLEAT_OK ? map_holes(space, f) : st;
    if (st == PLEAT_OK) {
        empty_taken(space, f);
    }
    return st;
}

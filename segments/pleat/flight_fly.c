/* flight_fly.c - phase two of a flight (flight.h): create, map.
 *
 * The lock is not held: this touches only the flight's blocks, the links between them, and the
 * table entries of their granules, which nobody else changes. */
#include "segments/pleat/flight.h"

#include "vmm/mapping.h"

static pleat_status create_missing(pl_space *space, pl_flight *f)
{
    while (f->n_filled < f->n_have + f->n_create) {
        pl_chunk chunk;
        pleat_status st = pl_chunk_create(space->dev, &chunk);
        if (st != PLEAT_OK) {
            return st;
        }
        pl_flight_fill(f, chunk);
    }
    return PLEAT_OK;
}

/* The granules under victim b and the victims that follow it in address, as several may share a
 * granule: [*from, *to). Returns the next victim. */
static const pl_block *taken_granules(const pl_block *b, size_t *from, size_t *to)
{
    const pl_segment *seg = b->segment;
    const pl_block *last = b;

    while (last->queue_next != NULL && last->queue_next->base == pl_block_end(last) &&
           last->queue_next->segment == seg) {
        last = last->queue_next;
    }
    *from = pl_segment_granule(seg, b->base);
    *to = pl_segment_granule(seg, pl_block_end(last));
    return last->queue_next;
}

/* Enter the taken chunks in the place's granules; the old ones keep them until all is mapped. */
static void fill_taken(pl_flight *f)
{
    const pl_block *b = f->victims.first;

    while (b != NULL) {
        const pl_segment *seg = b->segment;
        size_t g;
        size_t to;
        for (b = taken_granules(b, &g, &to); g < to; g++) {
            pl_flight_fill(f, seg->chunks[g]);
        }
    }
}

/* The taken chunks are mapped at the place: clear them in their old granules. */
static void empty_taken(const pl_flight *f)
{
    const pl_block *b = f->victims.first;

    while (b != NULL) {
        const pl_segment *seg = b->segment;
        size_t g;
        size_t to;
        for (b = taken_granules(b, &g, &to); g < to; g++) {
            seg->chunks[g] = 0;
            seg->taken_at[g] = f->stamp;
        }
    }
}

/* The window in which a taken granule that is mapped again counts as "came back": long enough for
 * two iterations of a large training step. */
enum { PL_RETURN_EVENTS = 1 << 17 };

static void count_grown_back(pl_flight *f, const pl_block *b)
{
    const pl_segment *seg = b->segment;
    size_t g = pl_segment_granule(seg, b->base);

    for (size_t n = pl_segment_granules_of(seg, b); n > 0; n--, g++) {
        uint32_t taken_at = seg->taken_at[g];
        f->n_grown_back += taken_at != 0 &&
                           pl_budget_between(taken_at, f->stamp) < PL_RETURN_EVENTS;
        seg->taken_at[g] = 0;
    }
}

/* Unmap the holes of the place below `stop`; what cannot be unmapped is poisoned. */
static void unmap_below(pl_space *space, pl_flight *f, const pl_block *stop)
{
    for (pl_block *b = f->first; b != stop; b = b->next) {
        if (b->was == PL_BLOCK_HOLE &&
            pl_mapping_unmap(space->dev, b->base, b->bytes) != PLEAT_OK) {
            pl_queue_push(&f->poisoned, b);
        }
    }
}

static pleat_status map_holes(pl_space *space, pl_flight *f)
{
    const pl_segment *seg = f->place.segment;

    for (pl_block *b = f->first;; b = b->next) {
        if (b->was == PL_BLOCK_HOLE) {
            size_t g = pl_segment_granule(seg, b->base);
            pleat_status st = pl_mapping_map(space->dev, b->base, seg->chunks + g,
                                             pl_segment_granules_of(seg, b));
            if (st != PLEAT_OK) {
                unmap_below(space, f, b);
                if (st == PLEAT_EPOISONED) {
                    pl_queue_push(&f->poisoned, b);
                }
                return st;
            }
        }
        if (b == f->last) {
            return PLEAT_OK;
        }
    }
}

pleat_status pl_flight_fly(pl_space *space, pl_flight *f)
{
    fill_taken(f);
    pleat_status st = create_missing(space, f);
    st = st == PLEAT_OK ? map_holes(space, f) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    for (pl_block *b = f->first;; b = b->next) {
        if (b->was == PL_BLOCK_HOLE) {
            count_grown_back(f, b);
        }
        if (b == f->last) {
            break;
        }
    }
    empty_taken(f);
    return PLEAT_OK;
}

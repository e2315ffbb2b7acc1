/* quiet.c - finds loose chunks whose memory is over, for a trim. */
#include "segments/pleat/grow/quiet.h"

#include "segments/pleat/streams/settle.h"

enum { LOOK_AT = 256 }; /* blocks in one hold of the lock */

/* Count the granules of whole chunks from g on, where a chunk begins, inside [g, g + whole): at
 * most PL_QUIET_CHUNKS chunks, and no further chunk once n granules are counted. */
static size_t whole_chunks(const pl_segment *seg, size_t g, size_t whole, size_t n)
{
    size_t from = g;

    for (size_t i = 0; i < PL_QUIET_CHUNKS && g - from < n && g < from + whole; i++) {
        size_t to = pl_segment_chunk_to(seg, g);
        if (to > from + whole) {
            break;
        }
        g = to;
    }
    return g - from;
}

/* How many granules from g on are in whole loose chunks of the free block b: about n. Granules that
 * a pool has used need not be loose. */
static size_t quiet_run(const pl_segment *seg, const pl_block *b, size_t g, size_t n)
{
    size_t whole = (size_t)((pl_block_end(b) - pl_segment_address(seg, g)) >> seg->granule_log2);
    if (seg->is_private || seg->is_opening) {
        whole = pl_segment_loose_run(seg, g, whole);
    }
    return whole_chunks(seg, g, whole, n);
}

pl_block *pl_quiet_next(pl_space *space, pl_segment *seg, size_t *g, size_t *n)
{
    for (size_t n_looks = 1;; n_looks++) {
        *g = seg == space->torn.segment ? SIZE_MAX : pl_segment_next_chunk(seg, *g);
        if (*g == SIZE_MAX) {
            return NULL;
        }
        pl_block *b = pl_segment_find(seg, pl_segment_address(seg, *g));
        size_t whole = quiet_run(seg, b, *g, *n);
        if (whole > 0 && pl_settle_is_over(space, b)) {
            *n = whole;
            return b;
        }
        size_t next = pl_segment_chunk_to(seg, *g);
        size_t end = pl_segment_granule(seg, pl_block_end(b));
        *g = end > next ? end : next; /* threads may work on the rest of the chunk */
        if (n_looks % LOOK_AT == 0) {
            pl_space_breathe(space);
        }
    }
}

/* mempool_piece.c - the pieces of a segment: finding, cutting, merging, filing.
 *
 * Upholds N1, N2, N3 and N5 (mempool.h). A short walk finds an address, from the first piece that
 * starts in its page or an earlier page. */
#include <stdlib.h>

#include "vmm/tools/sim/memory/mempool.h"

/* ---- the list and its heads ------------------------------------------------------------------ */

static sim_piece **head_of(const sim_piece *piece)
{
    sim_mempool_segment *segment = piece->segment;
    return &segment->heads[(piece->ptr - segment->base) >> SIM_MEMPOOL_PAGE_SHIFT];
}

static void enter_page(sim_piece *piece)
{
    sim_piece **head = head_of(piece);
    if (*head == NULL || (*head)->ptr > piece->ptr) {
        *head = piece;
    }
}

static void leave_page(sim_piece *piece)
{
    sim_piece **head = head_of(piece);
    if (*head == piece) {
        bool has_heir = piece->next != NULL && head_of(piece->next) == head;
        *head = has_heir ? piece->next : NULL;
    }
}

sim_piece *sim_piece_make_first(sim_mempool_segment *segment)
{
    sim_piece *piece = sim_new(sizeof(*piece));
    piece->segment = segment;
    piece->ptr = segment->base;
    piece->bytes = segment->bytes;
    piece->state = SIM_PIECE_SETTLED;
    segment->first = piece;
    enter_page(piece);
    return piece;
}

sim_piece *sim_piece_at(const sim_mempool_segment *segment, uint64_t ptr)
{
    uint64_t page = (ptr - segment->base) >> SIM_MEMPOOL_PAGE_SHIFT;
    while (segment->heads[page] == NULL || segment->heads[page]->ptr > ptr) {
        page--;
    }
    sim_piece *piece = segment->heads[page];
    while (piece->next != NULL && piece->next->ptr <= ptr) {
        piece = piece->next;
    }
    return piece;
}

void sim_piece_delete(sim_piece *piece)
{
    sim_clock_unref(piece->deps);
    free(piece);
}

/* Cuts a piece after `bytes`. The new piece is not filed yet. */
static sim_piece *cut(sim_piece *piece, uint64_t bytes)
{
    sim_piece *tail = sim_new(sizeof(*tail));
    tail->segment = piece->segment;
    tail->ptr = piece->ptr + bytes;
    tail->bytes = piece->bytes - bytes;
    tail->state = piece->state;
    tail->slot = piece->slot;
    tail->position = piece->position;
    tail->deps = sim_clock_ref(piece->deps);
    tail->prev = piece;
    tail->next = piece->next;
    if (tail->next != NULL) {
        tail->next->prev = tail;
    }
    piece->next = tail;
    piece->bytes = bytes;
    enter_page(tail);
    return tail;
}

/* Merges the next piece, which is not filed, into this piece. */
static void absorb_next(sim_piece *piece)
{
    sim_piece *next = piece->next;
    leave_page(next);
    piece->bytes += next->bytes;
    piece->next = next->next;
    if (piece->next != NULL) {
        piece->next->prev = piece;
    }
    sim_piece_delete(next);
}

/* ---- filing ---------------------------------------------------------------------------------- */

void sim_piece_file(sim_mempool *pool, sim_piece *piece)
{
    if (piece->state == SIM_PIECE_SETTLED) {
        sim_skip_insert(&pool->settled, &piece->node, piece->bytes, piece->ptr);
        return;
    }
    piece->earlier = pool->last_pending;
    piece->later = NULL;
    if (piece->earlier != NULL) {
        piece->earlier->later = piece;
    } else {
        pool->first_pending = piece;
    }
    pool->last_pending = piece;
}

void sim_piece_unfile(sim_mempool *pool, sim_piece *piece)
{
    if (piece->state == SIM_PIECE_SETTLED) {
        sim_skip_remove(&pool->settled, &piece->node);
        return;
    }
    if (piece->earlier != NULL) {
        piece->earlier->later = piece->later;
    } else {
        pool->first_pending = piece->later;
    }
    if (piece->later != NULL) {
        piece->later->earlier = piece->earlier;
    } else {
        pool->last_pending = piece->earlier;
    }
}

static bool is_settled(const sim_piece *piece)
{
    return piece != NULL && piece->state == SIM_PIECE_SETTLED;
}

void sim_piece_settle(sim_mempool *pool, sim_piece *piece)
{
    sim_clock_unref(piece->deps);
    piece->deps = NULL;
    piece->state = SIM_PIECE_SETTLED;
    if (is_settled(piece->next)) {
        sim_piece_unfile(pool, piece->next);
        absorb_next(piece);
    }
    if (is_settled(piece->prev)) {
        piece = piece->prev;
        sim_piece_unfile(pool, piece);
        absorb_next(piece);
    }
    sim_piece_file(pool, piece);
}

void sim_piece_settle_passed(sim_mempool *pool)
{
    for (sim_piece *piece = pool->first_pending; piece != NULL;) {
        sim_piece *later = piece->later;
        if (sim_stream_at(piece->slot)->finished >= piece->position) {
            sim_piece_unfile(pool, piece);
            sim_piece_settle(pool, piece);
        }
        piece = later;
    }
}

sim_piece *sim_piece_take(sim_mempool *pool, sim_piece *first, uint64_t bytes)
{
    sim_piece_unfile(pool, first);
    if (first->bytes > bytes) {
        sim_piece_file(pool, cut(first, bytes));
    }
    while (first->bytes < bytes) {
        sim_piece *next = first->next;
        sim_piece_unfile(pool, next);
        if (next->bytes > bytes - first->bytes) {
            sim_piece_file(pool, cut(next, bytes - first->bytes));
        }
        absorb_next(first);
    }
    sim_clock_unref(first->deps);
    first->deps = NULL;
    first->state = SIM_PIECE_LIVE;
    return first;
}

/* moment.c - the memory of an allocator after one event of a replay. */
#include "bench/run/moment.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/size.h"
#include "bench/run/holders.h"
#include "bench/work/tape.h"

#define EXPANDABLE_PAGE (UINT64_C(20) << 20)
#define EXPANDABLE_SMALL_PAGE (UINT64_C(2) << 20)

typedef struct taker {
    bench_moment *out;
    const bench_moment_view *view;
    bench_slot *blocks; /* live blocks, by address */
    size_t n_blocks;
    bench_map_piece *pieces;
    size_t n_pieces;
    size_t capacity;
    uint32_t last_stream; /* the last found stream, often the next one, too */
    bool is_short;        /* of host memory */
} taker;

static int32_t stream_number(taker *t, const pl_stream *stream)
{
    if (!stream) {
        return -1;
    }
    const bench_moment_view *view = t->view;
    void *handle = pl_stream_handle(stream);
    uint32_t i = t->last_stream;
    if (i >= view->n_streams || view->streams[i] != handle) {
        for (i = 0; i < view->n_streams && view->streams[i] != handle; i++) {
        }
    }
    if (i == view->n_streams) {
        return -1;
    }
    t->last_stream = i;
    return (int32_t)i;
}

static int by_ptr(const void *a, const void *b)
{
    const bench_slot *x = a;
    const bench_slot *y = b;
    return (x->ptr > y->ptr) - (x->ptr < y->ptr);
}

/* The replay's block at address `ptr`; NULL: no block of the replay. */
static const bench_slot *block_at(const taker *t, uint64_t ptr)
{
    bench_slot key = { .ptr = ptr };
    return t->n_blocks == 0 ? NULL : bsearch(&key, t->blocks, t->n_blocks, sizeof key, by_ptr);
}

static void see(void *context, const pl_piece *piece)
{
    taker *t = context;
    if (t->n_pieces == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 4096;
        bench_map_piece *pieces = realloc(t->pieces, capacity * sizeof *pieces);
        if (!pieces) {
            t->is_short = true;
            return;
        }
        t->pieces = pieces;
        t->capacity = capacity;
    }
    const bench_slot *block = piece->kind == PL_PIECE_LIVE ? block_at(t, piece->base) : NULL;
    /* The piece's own stream may have the piece at once, as in every other allocator. */
    bool is_own = piece->kind == PL_PIECE_PENDING && piece->awaited_bytes == 0;
    t->pieces[t->n_pieces++] = (bench_map_piece){
        .base = piece->base,
        .bytes = piece->bytes,
        .born = block ? block->born + 1 : 0,
        .stream = stream_number(t, piece->stream),
        .kind = (uint8_t)(is_own ? PL_PIECE_FREE : piece->kind),
        .is_first = piece->is_first,
        .is_small = piece->is_small,
    };
}

/* ---- stranded memory ---- */

static bool is_in_use(const bench_map_piece *piece)
{
    return piece->kind == PL_PIECE_LIVE || piece->kind == PL_PIECE_PENDING;
}

/* The bytes of [begin, end) before the first page border and behind the last one. False: the range
 * lies within one page. */
static bool split_pages(uint64_t begin, uint64_t end, uint64_t page, uint64_t *front,
                        uint64_t *back)
{
    uint64_t first = bench_round_up(begin, page);
    uint64_t last = end / page * page;
    if (first > last) {
        return false;
    }
    *front = first - begin;
    *back = end - last;
    return true;
}

/* Charge the free addresses [begin, end), counted from the segment's start. `left` and `right` are
 * the pieces in use on both sides; SIZE_MAX = none. */
static uint64_t charge_run(uint64_t begin, uint64_t end, uint64_t page, size_t left, size_t right,
                           uint64_t *charges)
{
    bool has_left = left != SIZE_MAX;
    bool has_right = right != SIZE_MAX;
    uint64_t front = end - begin;
    uint64_t back = 0;
    if (page == 0 || !split_pages(begin, end, page, &front, &back)) {
        /* Both sides hold the whole page. */
        back = has_left && has_right ? front - front / 2 : has_right ? front : 0;
        front -= back;
    }
    if (has_left) {
        charges[left] += front;
    }
    if (has_right) {
        charges[right] += back;
    }
    return (has_left ? front : 0) + (has_right ? back : 0);
}

static uint64_t charge_segment(const bench_map_piece *pieces, size_t first, size_t end,
                               uint64_t page, uint64_t *charges)
{
    uint64_t sum = 0;
    for (size_t i = first, after; i < end; i = after) {
        after = i + 1;
        if (pieces[i].kind != PL_PIECE_FREE) {
            continue;
        }
        while (after < end && pieces[after].kind == PL_PIECE_FREE) {
            after++;
        }
        bool has_left = i > first && is_in_use(&pieces[i - 1]);
        bool has_right = after < end && is_in_use(&pieces[after]);
        sum += charge_run(pieces[i].base - pieces[first].base,
                          pieces[after - 1].base + pieces[after - 1].bytes - pieces[first].base,
                          page, has_left ? i - 1 : SIZE_MAX, has_right ? after : SIZE_MAX, charges);
    }
    return sum;
}

uint64_t bench_moment_charge(const bench_map_piece *pieces, size_t n,
                             uint64_t (*page_bytes)(const void *context,
                                                    const bench_map_piece *piece),
                             const void *context, uint64_t *charges)
{
    uint64_t sum = 0;
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && !pieces[end].is_first; end++) {
        }
        sum += charge_segment(pieces, first, end, page_bytes(context, &pieces[first]), charges);
    }
    return sum;
}

static uint64_t page_of(const void *context, const bench_map_piece *piece)
{
    const bench_moment_view *view = context;
    const pl_allocator_ops *ops = view->allocator->ops;
    if (!ops->needs_vmm) {
        return 0;
    }
    if (strcmp(ops->name, "torch-expandable") == 0) {
        return piece->is_small ? EXPANDABLE_SMALL_PAGE : EXPANDABLE_PAGE;
    }
    return view->granule_bytes;
}

/* ---- who holds ---- */

static bench_held held_by(const taker *t, const bench_map_piece *piece, uint64_t charge)
{
    const bench_slot *block = block_at(t, piece->base);
    uint64_t bytes = block ? bench_round_up(block->bytes, BENCH_BLOCK_UNIT) : piece->bytes;
    int64_t stack = piece->born ? bench_origin_stack(t->view->origin, piece->born - 1) : -1;
    bench_held h = { .charged_bytes = charge, .bytes = bytes };
    h.key = (bench_holder){ .stack = stack,
                            .bytes = stack < 0 ? bytes : 0,
                            .stream = stack < 0 ? piece->stream : -1,
                            .is_pending = piece->kind == PL_PIECE_PENDING };
    return h;
}

/* An allocator with virtual memory management may hold chunks that are mapped nowhere. cuda-async
 * shows blocks only. All others show everything. */
static void count_rest(taker *t, uint64_t live_bytes)
{
    bench_moment *out = t->out;
    uint64_t shown = live_bytes + out->pending_bytes + out->free_bytes;
    uint64_t rest = out->resident_bytes > shown ? out->resident_bytes - shown : 0;
    out->has_free = rest == 0 || t->view->allocator->ops->needs_vmm;
    out->free_bytes += out->has_free ? rest : 0;
    out->rounding_bytes = (int64_t)live_bytes - (int64_t)out->live_bytes;
}

static bool count(taker *t)
{
    bench_moment *out = t->out;
    uint64_t live_bytes = 0;
    uint64_t *charges = calloc(t->n_pieces, sizeof *charges);
    bench_held *blocks = calloc(t->n_pieces, sizeof *blocks);
    bool ok = charges && blocks;
    if (ok) {
        out->stranded_bytes = bench_moment_charge(t->pieces, t->n_pieces, page_of, t->view,
                                                  charges);
        size_t n = 0;
        for (size_t i = 0; i < t->n_pieces; i++) {
            const bench_map_piece *piece = &t->pieces[i];
            bool is_free = piece->kind == PL_PIECE_FREE;
            out->free_bytes += is_free ? piece->bytes : 0;
            out->pending_bytes += piece->kind == PL_PIECE_PENDING ? piece->bytes : 0;
            live_bytes += piece->kind == PL_PIECE_LIVE ? piece->bytes : 0;
            if (is_free && piece->bytes > out->largest_free_bytes) {
                out->largest_free_bytes = piece->bytes;
            }
            if (is_in_use(piece)) {
                blocks[n++] = held_by(t, piece, charges[i]);
            }
        }
        bench_holders_write(out, blocks, n);
        count_rest(t, live_bytes);
    }
    free(charges);
    free(blocks);
    return ok;
}

bool bench_moment_take(bench_moment *moment, const bench_moment_view *view, bench_failure *failure)
{
    taker t = { .out = moment, .view = view };
    moment->is_reached = true;
    t.blocks = calloc(view->n_slots, sizeof *t.blocks);
    t.is_short = t.blocks == NULL;
    for (size_t i = 0; t.blocks && i < view->n_slots; i++) {
        if (view->slots[i].ptr) {
            t.blocks[t.n_blocks++] = view->slots[i];
        }
    }
    if (t.n_blocks > 0) {
        qsort(t.blocks, t.n_blocks, sizeof *t.blocks, by_ptr);
    }
    pl_allocator *a = view->allocator;
    if (a && a->ops->visit) {
        a->ops->visit(a, see, &t);
    }
    bool ok = !t.is_short && (t.n_pieces == 0 || count(&t));
    if (ok && t.n_pieces > 0) {
        moment->has_map = true;
        size_t n = bench_map_merge(t.pieces, t.n_pieces, BENCH_MOST_PIECES, &moment->n_merged);
        memcpy(moment->pieces, t.pieces, n * sizeof *t.pieces);
        moment->n_pieces = (unsigned)n;
    }
    free(t.blocks);
    free(t.pieces);
    return ok || bench_fail(failure, "out of host memory");
}

/* run.c - see run.h. Guarded by the device lock. Never fails, never calls the driver. */
#include "segments/pleat/space/run.h"

#include "segments/pleat/space/ledger.h"

/* The index of a block that leads a run, or is settled. In a private pool, and in a heap, the index
 * exists, since pl_area_reserve_index was called before the block came. */
static pl_index *index_of(const pl_space *space, const pl_block *b)
{
    pl_area *area = b->segment->area;

    if (b->lane == PL_LANE_SETTLED || b->is_apart) {
        return area->runs[b->lane];
    }
    if (__builtin_expect(area->class == PL_CLASS_BUFFER, false)) { /* nobody looks there */
        return area->runs[PL_LANE_SETTLED];
    }
    return &pl_space_lane_at(space, b->lane)->runs[area->class];
}

void pl_run_drop(pl_space *space, pl_block *b)
{
    if (b->is_indexed) {
        pl_index_remove(index_of(space, b), &b->node);
        b->is_indexed = false;
    }
}

static void enter(pl_space *space, pl_block *b, size_t bytes)
{
    if (b->is_indexed) {
        if (b->node.bytes == bytes) {
            return;
        }
        pl_run_drop(space, b);
    }
    pl_index_insert(index_of(space, b), &b->node, bytes);
    b->is_indexed = true;
}

typedef struct run {
    pl_block *first;
    pl_block *leader; /* the first block that pends on the lane; NULL = all settled */
    size_t bytes;
    size_t n_pieces;
} run;

/* Find the run of `lane` with b, and index the run: of its pending blocks only the leader stays
 * indexed. The lane may use b. */
static run refresh_run(pl_space *space, pl_block *b, uint32_t lane)
{
    run r = { .first = b };

    while (r.first->prev != NULL && pl_run_may_use(r.first->prev, lane)) {
        r.first = r.first->prev;
    }
    for (pl_block *at = r.first; at != NULL && pl_run_may_use(at, lane); at = at->next) {
        r.bytes += at->bytes;
        r.n_pieces++;
        if (at->lane != lane) {
            continue;
        }
        if (r.leader == NULL) {
            r.leader = at;
        } else {
            pl_run_drop(space, at);
        }
    }
    if (r.leader != NULL) {
        enter(space, r.leader, r.bytes);
    }
    pl_lock_touch(2 * r.n_pieces);
    space->n_pieces += r.n_pieces;
    return r;
}

static bool is_pending(const pl_block *b)
{
    return b != NULL && b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED;
}

void pl_run_refresh(pl_space *space, pl_block *b)
{
    if (b->lane != PL_LANE_SETTLED) {
        (void)refresh_run(space, b, b->lane);
        return;
    }
    enter(space, b, b->bytes);
    if (is_pending(b->prev)) {
        (void)refresh_run(space, b->prev, b->prev->lane);
    }
    if (is_pending(b->next)) {
        (void)refresh_run(space, b->next, b->next->lane);
    }
}

void pl_run_refresh_beside(pl_space *space, pl_block *first, pl_block *last)
{
    if (first->prev != NULL && first->prev->state == PL_BLOCK_FREE) {
        pl_run_refresh(space, first->prev);
    }
    if (last->next != NULL && last->next->state == PL_BLOCK_FREE) {
        pl_run_refresh(space, last->next);
    }
}

pl_block *pl_run_first(pl_block *leader)
{
    /* Only settled blocks precede the leader: at most one, as settled neighbours are merged. */
    if (leader->lane != PL_LANE_SETTLED && leader->prev != NULL &&
        leader->prev->state == PL_BLOCK_FREE && leader->prev->lane == PL_LANE_SETTLED) {
        return leader->prev;
    }
    return leader;
}

static const pl_index *pending_index(const pl_space *space, const pl_area *area, uint32_t lane)
{
    if (lane == PL_LANE_SETTLED) {
        return NULL;
    }
    return area->keeper != NULL ? pl_area_runs(area, lane)
                                : &pl_space_lane_at(space, lane)->runs[area->class];
}

bool pl_run_has_pending(const pl_space *space, const pl_area *area, uint32_t lane)
{
    const pl_index *pending = pending_index(space, area, lane);

    return pending != NULL && pending->n_nodes > 0;
}

pl_block *pl_run_best(const pl_space *space, const pl_area *area, uint32_t lane, size_t bytes,
                      size_t *run_bytes)
{
    const pl_index *own = pending_index(space, area, lane);
    const pl_index *settled = pl_area_runs(area, PL_LANE_SETTLED);
    pl_index_node *best = own != NULL && own->n_nodes > 0 ? pl_index_best(own, bytes) : NULL;

    if (settled->n_nodes > 0) {
        pl_index_node *other = pl_index_best(settled, bytes);
        if (other != NULL && (best == NULL || other->bytes < best->bytes)) {
            best = other;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    *run_bytes = best->bytes;
    return pl_run_first((pl_block *)best);
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* Does the private pool own all memory under b, which pends? Memory that the pool has not used yet
 * is everybody's: any request may wait for it. */
static inline bool belongs_to_pool(const pl_block *b)
{
    return __builtin_expect(b->segment->is_private, false) &&
           pl_segment_is_owned(b->segment, b->base, pl_block_end(b));
}

/* Is b's run in the area's index? */
static inline bool is_in_area(const pl_block *b)
{
    return pl_segment_is_apart(b->segment) && b->segment->area->class != PL_CLASS_BUFFER;
}

static pl_line *line_of(pl_lane *lane, const pl_block *b)
{
    return &lane->clock.lines[b->is_private ? PL_LINE_PRIVATE : PL_LINE_PENDING];
}

static inline void queue(pl_space *space, pl_block *b)
{
    if (b->lane == PL_LANE_SETTLED) {
        b->is_strange = false;
        return;
    }
    pl_lane *lane = pl_space_lane_at(space, b->lane);
    b->is_private = belongs_to_pool(b);
    b->is_apart = is_in_area(b);
    pl_line_push(line_of(lane, b), b);
    pl_ledger_pends(space, lane, b->is_private, b->bytes);
    pl_space_note_busy(space, lane);
}

static inline void unqueue(pl_space *space, pl_block *b)
{
    if (b->lane == PL_LANE_SETTLED) {
        return;
    }
    pl_lane *lane = pl_space_lane_at(space, b->lane);
    pl_queue_remove(&line_of(lane, b)->queue, b);
    pl_ledger_pends_not(space, lane, b->is_private, b->bytes);
    pl_space_note_busy(space, lane);
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Is the neighbour like b, which is free? With a single lane ticks may differ, since the later tick
 * covers both. */
static inline bool may_merge(const pl_space *space, const pl_block *b, const pl_block *neighbour)
{
    return neighbour != NULL && neighbour->state == PL_BLOCK_FREE && neighbour->lane == b->lane &&
           (b->lane == PL_LANE_SETTLED ||
            ((neighbour->stamp == b->stamp || !pl_space_has_many_lanes(space)) &&
             neighbour->is_private == b->is_private && neighbour->is_strange == b->is_strange));
}

/* `high` becomes part of `low`, its lower neighbour. Both are free. If they are not alike, the
 * busier block's lane and stamp remain: pending before settled, later before earlier. */
static pl_block *merge(pl_space *space, pl_block *low, pl_block *high)
{
    bool is_low_busier = high->lane == PL_LANE_SETTLED ||
                         (low->lane != PL_LANE_SETTLED && low->stamp > high->stamp);

    pl_run_drop(space, low);
    pl_run_drop(space, high);
    if (is_low_busier || low->lane != PL_LANE_SETTLED) {
        unqueue(space, is_low_busier ? high : low);
    }
    if (low->lane != PL_LANE_SETTLED || high->lane != PL_LANE_SETTLED) {
        pl_lane *lane = pl_space_lane_at(space, is_low_busier ? low->lane : high->lane);
        pl_block *busier = is_low_busier ? low : high;
        pl_ledger_pends(space, lane, busier->is_private, is_low_busier ? high->bytes : low->bytes);
        if (!is_low_busier) {
            pl_queue_replace(&line_of(lane, high)->queue, high, low);
            low->lane = high->lane;
            low->stamp = high->stamp;
            low->is_private = high->is_private;
            low->is_apart = high->is_apart;
        }
    }
    low->is_strange = low->is_strange || high->is_strange;
    pl_segment_absorb(low->segment, &space->blocks.store, low, high);
    return low;
}

static pl_block *merge_alike(pl_space *space, pl_block *b)
{
    if (may_merge(space, b, b->prev)) {
        b = merge(space, b->prev, b);
    }
    if (may_merge(space, b, b->next)) {
        b = merge(space, b, b->next);
    }
    return b;
}

/* ---- runs of too many pieces ----------------------------------------------------------------- */

enum { N_COSTS = 64 };

/* The cost of a merge of b with its upper neighbour: log2 of the bytes that then look busier. */
static unsigned cost_log2(const pl_block *b)
{
    const pl_block *next = b->next;
    const pl_block *quieter = next;

    if (b->lane == PL_LANE_SETTLED || (next->lane != PL_LANE_SETTLED && b->stamp < next->stamp)) {
        quieter = b;
    }
    return 63u - (unsigned)__builtin_clzll(quieter->bytes);
}

/* Two pending blocks of different lines are not merged. */
static bool may_shorten(const pl_block *b, const pl_block *next)
{
    return b->lane == PL_LANE_SETTLED || next->lane == PL_LANE_SETTLED ||
           b->is_private == next->is_private;
}

/* Merge pairs up to this cost: then at most PL_RUN_PIECES / 2 pieces are left, but for pairs of
 * different lines. */
static unsigned choose_cost(const run *r, uint32_t lane)
{
    size_t n_pairs[N_COSTS] = { 0 };
    size_t n = r->n_pieces;
    unsigned cost = 0;

    for (const pl_block *b = r->first; b->next != NULL && pl_run_may_use(b->next, lane);
         b = b->next) {
        n_pairs[cost_log2(b)] += may_shorten(b, b->next);
    }
    while (cost < N_COSTS - 1 && n > PL_RUN_PIECES / 2 + n_pairs[cost]) {
        n -= n_pairs[cost++];
    }
    return cost;
}

static void shorten(pl_space *space, const run *r, uint32_t lane)
{
    unsigned most = choose_cost(r, lane);
    pl_block *b = r->first;

    while (b->next != NULL && pl_run_may_use(b->next, lane)) {
        if (!may_shorten(b, b->next) || cost_log2(b) > most) {
            b = b->next;
            continue;
        }
        b = merge(space, b, b->next);
        if (b->is_private && b->lane != PL_LANE_SETTLED && !belongs_to_pool(b)) {
            unqueue(space, b); /* b has memory that the pool has not used yet */
            queue(space, b);
        }
    }
    pl_lock_touch(2 * r->n_pieces);
    run now = refresh_run(space, b, lane);
    pl_run_refresh_beside(space, now.first, b); /* runs of other lanes may share the settled ends */
}

/* b has changed: index the runs with b anew, and shorten runs of too many pieces. */
static void bring_up(pl_space *space, pl_block *b)
{
    uint32_t lanes[2] = { 0, 0 };
    pl_block *pieces[2] = { NULL, NULL };

    if (b->lane != PL_LANE_SETTLED) {
        pieces[0] = b;
    } else {
        enter(space, b, b->bytes);
        pieces[0] = is_pending(b->prev) ? b->prev : NULL;
        pieces[1] = is_pending(b->next) ? b->next : NULL;
    }
    for (int i = 0; i < 2; i++) {
        lanes[i] = pieces[i] != NULL ? pieces[i]->lane : PL_LANE_SETTLED;
    }
    if (lanes[0] == lanes[1]) {
        lanes[1] = PL_LANE_SETTLED; /* both pieces are of the same run */
    }
    for (int i = 0; i < 2; i++) {
        if (lanes[i] == PL_LANE_SETTLED) {
            continue;
        }
        run r = refresh_run(space, pieces[i], lanes[i]);
        if (r.n_pieces > PL_RUN_PIECES) { /* the other piece is of another lane: it stays */
            shorten(space, &r, lanes[i]);
        }
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

void pl_run_free(pl_space *space, pl_block *b, uint32_t lane, uint64_t stamp)
{
    pl_segment_become(b->segment, &space->blocks.store, b, PL_BLOCK_FREE);
    b->lane = lane;
    b->stamp = stamp;
    b->is_indexed = false;
    queue(space, b);
    pleat_devptr base = b->base;
    pleat_devptr end = pl_block_end(b);
    b = merge_alike(space, b);
    if (b->lane != PL_LANE_SETTLED) { /* grown by a freed block, so it goes last */
        pl_queue_renew(&line_of(pl_space_lane_at(space, b->lane), b)->queue, b);
    }
    pl_space_loosen(space, pl_segment_loosen(b->segment, base, end));
    bring_up(space, b);
}

void pl_run_claim(pl_space *space, pl_block *b)
{
    pl_run_drop(space, b);
    unqueue(space, b);
}

/* The rest cannot be merged, since b's neighbour was not like b. The rest's granules are as loose
 * as before, and its tick is b's, so the rest takes b's place in the queue. A run of another lane
 * reached across b only if b was settled. Above b, refreshing the rest updates such a run; below b,
 * the last lines do. */
void pl_run_cut(pl_space *space, pl_block *b, size_t bytes)
{
    pl_run_drop(space, b);
    pl_block *rest = pl_segment_split(b->segment, &space->blocks.store, b, b->base + bytes);
    if (b->lane != PL_LANE_SETTLED) {
        pl_lane *lane = pl_space_lane_at(space, b->lane);
        pl_ledger_pends_not(space, lane, b->is_private, bytes);
        pl_queue_replace(&line_of(lane, b)->queue, b, rest);
    }
    pl_segment_become(b->segment, &space->blocks.store, b,
                      PL_BLOCK_LIVE); /* no run reaches across it */
    pl_run_refresh(space, rest);
    if (b->lane == PL_LANE_SETTLED && is_pending(b->prev)) {
        (void)refresh_run(space, b->prev, b->prev->lane);
    }
}

void pl_run_move(pl_space *space, pl_block *b, uint32_t lane, uint64_t stamp)
{
    pl_run_claim(space, b);
    b->lane = lane;
    b->stamp = stamp;
    queue(space, b);
    b = merge_alike(space, b);
    pl_run_refresh_beside(space, b, b);
    bring_up(space, b);
}

/* If the queue stays the same, b keeps its place. Otherwise a block whose segment goes from pool
 * to pool would wait for a later tick each time. */
void pl_run_requeue(pl_space *space, pl_block *b)
{
    pl_run_drop(space, b);
    if (b->is_private == belongs_to_pool(b)) {
        b->is_apart = is_in_area(b);
    } else {
        unqueue(space, b);
        queue(space, b);
    }
    pl_run_refresh(space, b);
}

int pl_run_check(const pl_segment *seg)
{
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state != PL_BLOCK_FREE) {
            if (b->is_indexed) {
                return 1;
            }
            continue;
        }
        if (b->lane == PL_LANE_SETTLED) {
            if (!b->is_indexed || b->node.bytes != b->bytes) {
                return 1;
            }
            continue;
        }
        const pl_block *first = b;
        bool leads = true;
        while (first->prev != NULL && pl_run_may_use(first->prev, b->lane)) {
            first = first->prev;
            leads = leads && first->lane != b->lane;
        }
        size_t bytes = 0;
        for (; first != NULL && pl_run_may_use(first, b->lane); first = first->next) {
            bytes += first->bytes;
        }
        if (b->is_indexed != leads || (leads && b->node.bytes != bytes)) {
            return 1;
        }
    }
    return 0;
}

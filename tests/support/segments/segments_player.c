/* segments_player.c - see segments_player.h. */
#include "tests/support/segments/segments_player.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segments/pleat/space/options.h"
#include "segments/pleat/space/space.h"
#include "tests/support/release.h"

/* Some refusals on small granules are judged by trying every possible start. */
enum { EXHAUSTIVE_EVERY = 32, EXHAUSTIVE_GRANULE = 64 << 10 };

static void blame(player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void blame(player *p, const char *format, ...)
{
    va_list args;
    player_gate_lock(&p->gate);
    if (p->why[0] == '\0') {
        va_start(args, format);
        (void)vsnprintf(p->why, sizeof(p->why), format, args);
        va_end(args);
    }
    player_gate_unlock(&p->gate);
}

bool player_is_good(player *p)
{
    player_gate_lock(&p->gate);
    bool is_good = p->why[0] == '\0';
    player_gate_unlock(&p->gate);
    return is_good;
}

void player_assert_good(player *p, const char *what, uint64_t seed)
{
    const pl_pleat_options own = pl_pleat_own(&p->conf.options);
    ck_assert_msg(p->why[0] == '\0',
                  "%s, seed %llu, operation %llu: %s. Granule %zu, C %zu, limit %llu, depth %u, "
                  "%u streams, growth %d, cross_stream %d, wait_ms %u",
                  what, (unsigned long long)seed, (unsigned long long)p->counts.n_ops, p->why,
                  p->conf.granule_bytes, player_most_granules(p),
                  (unsigned long long)p->limit_bytes, p->conf.depth, p->conf.n_streams,
                  (int)own.growth, (int)own.cross_stream, p->conf.options.wait_ms);
}

/* ---- open and close ------------------------------------------------------------------------- */

static void open_streams(player *p)
{
    for (unsigned i = 0; i < p->conf.n_streams; i++) {
        p->handles[i] = i == 0 ? NULL : vmm_sim_stream(p->dev, false);
        ck_assert_int_eq(pl_device_enter(p->dev), PLEAT_OK);
        ck_assert_int_eq(pl_stream_get(p->dev, p->handles[i], &p->streams[i]), PLEAT_OK);
        pl_device_leave(p->dev);
    }
}

void player_open(player *p, const pl_allocator_ops *ops, const player_conf *conf)
{
    char text[128];
    *p = (player){ .conf = *conf, .limit_bytes = conf->options.limit_bytes };
    unsigned n = conf->chunk_granules > 0 ? conf->chunk_granules : 1;
    pl_device_options options = { .chunk_granules = n,
                                  .address_budget_bytes = conf->address_bytes };
    (void)snprintf(text, sizeof(text), "capacity:%llu,granularity:%zu,depth:%u",
                   (unsigned long long)conf->capacity_bytes, conf->granule_bytes / n, conf->depth);
    vmm_sim_open(&p->sim, text);
    p->dev = vmm_sim_device(&p->sim, &options);
    open_streams(p);
    if (conf->other_bytes > 0) {
        ck_assert_int_eq(pl_device_malloc(p->dev, conf->other_bytes, &p->other), PLEAT_OK);
    }
    ck_assert_int_eq(ops->create(p->dev, &conf->options, &p->a), PLEAT_OK);
    p->blocks = calloc(conf->n_ids, sizeof(*p->blocks));
    model_init(&p->model, conf->granule_bytes);
    player_gate_open(&p->gate, conf->has_threads);
}

void player_close(player *p)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    play_release_other(p);
    ck_assert_int_eq(p->a->ops->destroy(p->a, true, &n_live, &n_leaked), PLEAT_OK);
    ck_assert_uint_eq(n_live, p->model.live.n);
    ck_assert_uint_eq(n_leaked, 0);
    p->sim.finish();
    for (unsigned i = 1; i < p->conf.n_streams; i++) {
        vmm_sim_destroy_stream(p->dev, p->handles[i]);
    }
    vmm_sim_close_device(p->dev);
    vmm_sim_close(&p->sim);
    player_gate_close(&p->gate);
    model_fini(&p->model);
    free(p->blocks);
}

/* ---- work ----------------------------------------------------------------------------------- */

static void work(player *p, const player_block *b, unsigned stream, bool is_write)
{
    pleat_sim_access access = { .ptr = b->ptr, .bytes = b->bytes, .is_write = is_write };
    if (pl_device_enter(p->dev) != PLEAT_OK) {
        blame(p, "no context");
        return;
    }
    int result = p->sim.work(p->handles[stream], &access, 1);
    pl_device_leave(p->dev);
    if (result != 0) {
        blame(p, "declared work: %d", result);
    }
}

/* Order two streams, as a program does before a second stream touches a block. */
static void order(player *p, unsigned later, unsigned earlier)
{
    pl_fence *fence = NULL;
    if (pl_fence_record(p->streams[earlier], &fence) != PLEAT_OK ||
        pl_fence_order(p->streams[later], fence) != PLEAT_OK) {
        blame(p, "ordering streams");
    }
    pl_fence_return(fence);
}

/* ---- the verdict ---------------------------------------------------------------------------- */

size_t player_most_granules(const player *p)
{
    uint64_t most = p->conf.capacity_bytes - (p->other != 0 ? p->conf.other_bytes : 0);
    if (p->limit_bytes != 0 && p->limit_bytes < most) {
        most = p->limit_bytes;
    }
    return (size_t)(most / p->conf.granule_bytes);
}

static void survey_chunks(const pl_segment *seg, model_spans *large)
{
    for (size_t g = 0; g < seg->capacity;) {
        size_t n = (size_t)1 << seg->orders[g];
        model_span span = { .base = pl_segment_address(seg, g), .bytes = n << seg->granule_log2 };
        if (n > 1) {
            (void)model_spans_add(large, span);
        }
        g += n;
    }
}

/* Read three kinds of addresses from the allocator: reserved ranges, addresses out of service, and
 * large chunks. */
static void survey(player *p, model_spans *ranges, model_spans *blocked)
{
    pl_space *space = (pl_space *)p->a;
    *ranges = (model_spans){ 0 };
    *blocked = (model_spans){ 0 };
    model_spans_clear(&p->model.large);
    pl_lock_acquire(&space->lock);
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        survey_chunks(seg, &p->model.large);
        model_span range = { .base = seg->range.base, .bytes = seg->range.bytes };
        (void)model_spans_add(ranges, range);
        for (const pl_block *b = seg->first; b != NULL; b = b->next) {
            bool is_held = b->state == PL_BLOCK_CAPTURED ||
                           (b->state == PL_BLOCK_STALE && b->is_refused);
            if (is_held || b->state == PL_BLOCK_STALE) {
                model_span span = { .base = b->base, .bytes = b->bytes, .is_held = is_held };
                (void)model_spans_add(blocked, span);
            }
        }
    }
    pl_lock_release(&space->lock);
}

typedef struct granules {
    size_t n_live; /* L */
    size_t n_kept; /* P */
    size_t n_tied; /* T */
} granules;

static granules count_granules(player *p)
{
    model_spans ranges;
    model_spans blocked;
    survey(p, &ranges, &blocked);
    granules n = { .n_live = model_live_granules(&p->model, &ranges) };
    n.n_kept = model_held_granules(&p->model, &ranges, &blocked) - n.n_live;
    n.n_tied = model_used_granules(&p->model, &ranges, &blocked) - n.n_live - n.n_kept;
    model_spans_clear(&ranges);
    model_spans_clear(&blocked);
    return n;
}

/* Which addresses may be a place. */
typedef enum places {
    PLACES_ALL,      /* includes places in new ranges */
    PLACES_RESERVED, /* those in reserved ranges only */
    PLACES_UNSTALE   /* all, as if no mapping were stale */
} places;

static void forget_stale(model_spans *blocked)
{
    model_spans held = { 0 };
    for (size_t i = 0; i < blocked->n; i++) {
        if (blocked->span[i].is_held) {
            (void)model_spans_add(&held, blocked->span[i]);
        }
    }
    model_spans_clear(blocked);
    *blocked = held;
}

/* L + P + T + m: the least held granules if the request were served. */
static size_t needed_granules(player *p, size_t bytes, places where)
{
    model_spans ranges;
    model_spans blocked;
    survey(p, &ranges, &blocked);
    if (where == PLACES_UNSTALE) {
        forget_stale(&blocked);
    }
    size_t n = model_least_further(&p->model, &ranges, &blocked, bytes);
    size_t fresh = where == PLACES_RESERVED ? SIZE_MAX : model_fresh(&p->model, bytes);
    n = n < fresh ? n : fresh;
    n = n == SIZE_MAX ? n : n + model_used_granules(&p->model, &ranges, &blocked);
    model_spans_clear(&ranges);
    model_spans_clear(&blocked);
    return n;
}

static pleat_status try_alloc(player *p, size_t bytes, unsigned stream, pleat_devptr *out)
{
    *out = 0;
    return p->a->ops->alloc(p->a, bytes, p->streams[stream], out);
}

static uint64_t stale_bytes(player *p)
{
    pleat_stats s;
    p->a->ops->stats(p->a, &s);
    return s.stale_bytes;
}

/* Requests that may wait do wait for stale addresses. */
static bool waits_for_stale(const player *p)
{
    return p->captured == 0 && p->conf.options.wait_ms != 0;
}

/* The request was refused although addresses with a stale mapping would have served it. Once these
 * addresses are clear, the request must succeed. */
static pleat_status judge_stale(player *p, size_t bytes, unsigned stream, pleat_devptr *out)
{
    uint64_t released;
    p->counts.n_stale++;
    if (p->a->ops->trim(p->a, 0, true, &released) != PLEAT_OK || stale_bytes(p) != 0) {
        blame(p, "trimming leaves %llu stale bytes", (unsigned long long)stale_bytes(p));
        return PLEAT_ENOMEM_DEVICE;
    }
    pleat_status st = try_alloc(p, bytes, stream, out);
    if (st != PLEAT_OK) {
        blame(p, "%zu bytes on stream %u refused with nothing stale: %d", bytes, stream, (int)st);
    }
    return st;
}

/* Judge "out of device memory" while no other call is under way. The answer must be true, and come
 * again. For a request that may not wait, addresses with a stale mapping count as no place. */
static pleat_status judge_full(player *p, size_t bytes, unsigned stream, pleat_devptr *out)
{
    size_t most = player_most_granules(p);
    bool is_exhaustive = p->counts.n_refused % EXHAUSTIVE_EVERY == 1 &&
                         p->conf.granule_bytes <= EXHAUSTIVE_GRANULE;
    p->model.step = is_exhaustive ? MODEL_QUANTUM : p->conf.granule_bytes;
    size_t needed = needed_granules(p, bytes, waits_for_stale(p) ? PLACES_UNSTALE : PLACES_ALL);
    if (needed <= most) {
        blame(p, "%zu bytes on stream %u refused, %u captured: L + P + T + m = %zu, C = %zu", bytes,
              stream, p->captured, needed, most);
        return PLEAT_ENOMEM_DEVICE;
    }
    bool lacks_stale = stale_bytes(p) > 0 && needed_granules(p, bytes, PLACES_UNSTALE) <= most;
    pleat_status st = try_alloc(p, bytes, stream, out);
    if (st == PLEAT_OK && lacks_stale) {
        return st;
    }
    if (st != PLEAT_ENOMEM_DEVICE) {
        blame(p, "%zu bytes on stream %u refused, called again: %d", bytes, stream, (int)st);
        return st;
    }
    return lacks_stale && p->captured == 0 ? judge_stale(p, bytes, stream, out) : st;
}

/* Judge "pending". The answer must be allowed, and must not come again once all work is over. */
static pleat_status judge_pending(player *p, size_t bytes, unsigned stream, pleat_devptr *out)
{
    if (p->captured != 0) {
        return PLEAT_EPENDING;
    }
    /* Only a request that may not wait can answer "pending", since a tick needs a call that names
     * the stream. */
    if (p->conf.options.wait_ms != 0) {
        blame(p, "%zu bytes on stream %u: pending, and waiting is allowed", bytes, stream);
        return PLEAT_EPENDING;
    }
    p->sim.finish();
    pleat_status st = try_alloc(p, bytes, stream, out);
    if (st == PLEAT_EPENDING) {
        blame(p, "%zu bytes on stream %u: pending, and all work is over", bytes, stream);
    }
    return st == PLEAT_ENOMEM_DEVICE ? judge_full(p, bytes, stream, out) : st;
}

/* Judge "out of address space": no place may be left in the reserved addresses. */
static pleat_status judge_addresses(player *p, size_t bytes, unsigned stream, pleat_devptr *out)
{
    size_t most = player_most_granules(p);
    size_t needed = needed_granules(p, bytes, PLACES_RESERVED);
    if (p->conf.address_bytes == 0) {
        blame(p, "%zu bytes on stream %u: no addresses", bytes, stream);
    }
    if (needed <= most) {
        blame(p, "%zu bytes on stream %u: no addresses, and L + P + T + m = %zu, C = %zu", bytes,
              stream, needed, most);
    }
    pleat_status st = try_alloc(p, bytes, stream, out);
    if (st != PLEAT_ENOSPACE_VA) {
        blame(p, "%zu bytes on stream %u: no addresses, called again: %d", bytes, stream, (int)st);
    }
    return st;
}

/* Judges a refusal. With threads the call is first repeated alone. */
static pleat_status judge(player *p, pleat_status st, size_t bytes, unsigned stream,
                          pleat_devptr *out)
{
    player_gate_be_alone(&p->gate);
    p->counts.n_refused += st == PLEAT_ENOMEM_DEVICE;
    p->counts.n_pending += st == PLEAT_EPENDING;
    if (p->conf.has_threads) {
        st = try_alloc(p, bytes, stream, out);
    }
    if (st == PLEAT_ENOMEM_DEVICE) {
        st = judge_full(p, bytes, stream, out);
    } else if (st == PLEAT_EPENDING) {
        st = judge_pending(p, bytes, stream, out);
    } else if (st == PLEAT_ENOSPACE_VA) {
        p->counts.n_without_addresses++;
        st = judge_addresses(p, bytes, stream, out);
    }
    player_gate_rejoin(&p->gate);
    return st;
}

static pleat_status refused(player *p, pleat_status st, size_t bytes, unsigned stream,
                            pleat_devptr *out)
{
    if (p->conf.refusal == PLAYER_JUDGES) {
        return judge(p, st, bytes, stream, out);
    }
    blame(p, "%zu bytes on stream %u refused: status %d", bytes, stream, (int)st);
    return st;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void note(player *p, const char *wrong, pleat_devptr at, size_t bytes)
{
    if (wrong != NULL) {
        blame(p, "%s: %zu bytes at %#llx", wrong, bytes, (unsigned long long)at);
    }
}

static void check_walkers(player *p)
{
    int broken = p->a->ops->check(p->a);
    if (broken != 0) {
        blame(p, "invariant %d is broken", broken);
    }
}

static bool is_refusal(const player *p, pleat_status st)
{
    return st == PLEAT_ENOMEM_DEVICE || st == PLEAT_EPENDING ||
           (st == PLEAT_ENOSPACE_VA && p->conf.address_bytes > 0);
}

/* Counts an operation and sometimes checks everything. False: the operation is skipped. */
static bool begin(player *p)
{
    player_gate_enter(&p->gate);
    player_gate_lock(&p->gate);
    bool is_time = ++p->counts.n_ops % PLAYER_EVERY == 0;
    player_gate_unlock(&p->gate);
    if (is_time) {
        check_walkers(p);
    }
    if (player_is_good(p)) {
        return true;
    }
    player_gate_leave(&p->gate);
    return false;
}

bool play_alloc(player *p, size_t id, size_t bytes, unsigned stream)
{
    player_block *b = &p->blocks[id];
    pleat_devptr ptr;
    if (!begin(p)) {
        return false;
    }
    pleat_status st = try_alloc(p, bytes, stream, &ptr);
    if (is_refusal(p, st)) {
        st = refused(p, st, bytes, stream, &ptr);
    }
    if (st == PLEAT_OK) {
        *b = (player_block){ .ptr = ptr, .bytes = bytes, .stream = stream, .last = stream };
        player_gate_lock(&p->gate);
        const char *wrong = model_add(&p->model, ptr, bytes);
        player_gate_unlock(&p->gate);
        note(p, wrong, ptr, bytes);
        work(p, b, stream, true);
    } else if (!is_refusal(p, st)) {
        blame(p, "allocating %zu bytes: status %d", bytes, (int)st);
    }
    player_gate_leave(&p->gate);
    return st == PLEAT_OK;
}

/* Free the block, first in the model, since afterwards another thread may get its address. */
static void free_block(player *p, player_block *b, unsigned stream)
{
    player_gate_lock(&p->gate);
    const char *wrong = model_remove(&p->model, b->ptr);
    player_gate_unlock(&p->gate);
    note(p, wrong, b->ptr, b->bytes);
    pleat_status st = p->a->ops->free(p->a, b->ptr, p->streams[stream]);
    if (st != PLEAT_OK) {
        blame(p, "freeing %zu bytes: status %d", b->bytes, (int)st);
    }
    b->ptr = 0;
}

static void free_own(player *p, player_block *b)
{
    if (b->ptr == 0 || !begin(p)) {
        return;
    }
    if (!b->is_used) {
        work(p, b, b->stream, false);
    }
    free_block(p, b, b->stream);
    player_gate_leave(&p->gate);
}

void play_free(player *p, size_t id)
{
    free_own(p, &p->blocks[id]);
}

void play_pass_on(player *p, size_t id, size_t shelf)
{
    player_gate_lock(&p->gate);
    player_block found = p->shelves[shelf];
    p->shelves[shelf] = p->blocks[id];
    player_gate_unlock(&p->gate);
    p->blocks[id].ptr = 0;
    free_own(p, &found);
}

void play_free_on(player *p, size_t id, unsigned stream)
{
    player_block *b = &p->blocks[id];
    if (p->captured != 0) {
        play_free(p, id);
        return;
    }
    if (b->ptr == 0 || !begin(p)) {
        return;
    }
    order(p, stream, b->last);
    work(p, b, stream, true);
    free_block(p, b, stream);
    player_gate_leave(&p->gate);
}

void play_use(player *p, size_t id, unsigned stream)
{
    player_block *b = &p->blocks[id];
    if (b->ptr == 0 || stream == b->stream || p->captured != 0 || !begin(p)) {
        return;
    }
    order(p, stream, b->last);
    work(p, b, stream, true);
    b->last = stream;
    b->is_used = true;
    if (p->a->ops->record_stream(p->a, b->ptr, p->streams[stream]) != PLEAT_OK) {
        blame(p, "recording a use");
    }
    player_gate_leave(&p->gate);
}

void play_finish(player *p)
{
    p->sim.finish();
}

void play_trim(player *p, uint64_t keep_bytes, bool wait)
{
    uint64_t released = 0;
    if (!begin(p)) {
        return;
    }
    pleat_status st = p->a->ops->trim(p->a, keep_bytes, wait, &released);
    if (st != PLEAT_OK && (st != PLEAT_EPENDING || p->captured == 0)) {
        blame(p, "trimming: status %d", (int)st);
    }
    player_gate_leave(&p->gate);
}

void play_limit(player *p, uint64_t bytes)
{
    if (p->captured != 0 || !begin(p)) {
        return;
    }
    player_gate_be_alone(&p->gate);
    pleat_status st = p->a->ops->set_limit(p->a, bytes);
    granules n = count_granules(p);
    size_t n_used = n.n_live + n.n_kept + n.n_tied;
    bool fits = n_used <= bytes / p->conf.granule_bytes;
    if (st == PLEAT_OK) {
        p->limit_bytes = bytes;
    }
    bool is_impatient = p->conf.options.wait_ms == 0 && st == PLEAT_EPENDING;
    if (st != (fits ? PLEAT_OK : PLEAT_ENOMEM_DEVICE) && !is_impatient) {
        blame(p, "limit of %llu with %zu granules live, kept or tied: status %d",
              (unsigned long long)bytes, n_used, (int)st);
    }
    player_gate_rejoin(&p->gate);
    player_gate_leave(&p->gate);
}

void play_release_other(player *p)
{
    if (!begin(p)) {
        return;
    }
    player_gate_be_alone(&p->gate);
    if (p->other != 0 && pl_device_mfree(p->dev, p->other) != PLEAT_OK) {
        blame(p, "the other's memory");
    }
    p->other = 0;
    player_gate_rejoin(&p->gate);
    player_gate_leave(&p->gate);
}

/* ---- captures ------------------------------------------------------------------------------- */

void play_begin_capture(player *p, unsigned stream, bool is_relaxed)
{
    int mode = is_relaxed ? CU_CAPTURE_MODE_RELAXED : CU_CAPTURE_MODE_GLOBAL;
    if (p->captured != 0 || stream == 0 || !begin(p)) {
        return;
    }
    p->a->ops->expect_captures(p->a, true); /* pleat may break an unseen capture */
    if (pl_device_enter(p->dev) != PLEAT_OK ||
        pl_cu_stream_begin_capture(p->sim.drv, p->handles[stream], mode) != CU_SUCCESS) {
        blame(p, "beginning a capture");
    }
    pl_device_leave(p->dev);
    p->captured = stream;
    player_gate_leave(&p->gate);
}

void play_end_capture(player *p)
{
    cu_graph graph = NULL;
    if (p->captured == 0) {
        return;
    }
    if (pl_device_enter(p->dev) != PLEAT_OK ||
        pl_cu_stream_end_capture(p->sim.drv, p->handles[p->captured], &graph) != CU_SUCCESS ||
        pl_cu_graph_destroy(p->sim.drv, graph) != CU_SUCCESS) {
        blame(p, "a capture was broken");
    }
    pl_device_leave(p->dev);
    p->a->ops->expect_captures(p->a, false);
    p->captured = 0;
}

void play_release_capture(player *p, unsigned stream)
{
    if (p->captured != 0 || !begin(p)) {
        return;
    }
    if (release_capture(p->a, p->streams[stream]) != PLEAT_OK) {
        blame(p, "releasing a capture");
    }
    player_gate_leave(&p->gate);
}

/* ---- looking -------------------------------------------------------------------------------- */

static void check_hazards(player *p)
{
    pleat_sim_hazard first;
    size_t n = p->sim.hazards(&first, 1);
    if (n > 0) {
        blame(p, "%zu hazards, the first of kind %d at %#llx: %s", n, (int)first.kind,
              (unsigned long long)first.ptr, first.text);
    }
}

void play_check(player *p)
{
    pleat_stats s;
    if (!begin(p)) {
        return;
    }
    player_gate_be_alone(&p->gate);
    check_walkers(p);
    check_hazards(p);
    p->a->ops->stats(p->a, &s);
    granules n = count_granules(p);
    size_t most = player_most_granules(p);
    if (s.pinned_granules != n.n_kept) {
        blame(p, "%llu pinned granules of %zu", (unsigned long long)s.pinned_granules, n.n_kept);
    }
    if (s.pending_bytes == 0 && s.tied_granules != n.n_tied) { /* shared chunks tie more */
        blame(p, "%llu tied granules of %zu", (unsigned long long)s.tied_granules, n.n_tied);
    }
    if (s.live_granules != n.n_live ||
        s.allocated_bytes[PLEAT_SIZES_ALL].current != p->model.live_bytes) {
        blame(p, "%llu live granules of %zu, %llu live bytes of %llu",
              (unsigned long long)s.live_granules, n.n_live,
              (unsigned long long)s.allocated_bytes[PLEAT_SIZES_ALL].current,
              (unsigned long long)p->model.live_bytes);
    }
    if (s.resident_bytes > (uint64_t)most * p->conf.granule_bytes) {
        blame(p, "%llu bytes resident, C = %zu granules", (unsigned long long)s.resident_bytes,
              most);
    }
    player_gate_rejoin(&p->gate);
    player_gate_leave(&p->gate);
}

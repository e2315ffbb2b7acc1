/* capture.c - see capture.h. Guarded by the device lock. */
#include "segments/capture.h"

#include "segments/capturers.h"
#include "segments/many.h"
#include "segments/private.h"
#include "segments/settle.h"
#include "vmm/driver.h"

enum { LOOK_AT = 1024, RELEASE_SOME = 256 };

/* ---- the captures there are ------------------------------------------------------------------ */

static pl_capture **head_of(pl_space *space, uint64_t id)
{
    return &space->captures[id % PL_CAPTURE_HEADS];
}

static pl_capture *find(pl_space *space, uint64_t id)
{
    pl_capture *capture = id != 0 ? *head_of(space, id) : NULL;

    while (capture != NULL && capture->id != id) {
        capture = capture->next;
    }
    return capture;
}

static void own_up(pl_space *space, pl_capture *capture)
{
    space->n_disowned -= capture->is_disowned ? 1 : 0;
    capture->is_disowned = false;
}

static void end(pl_space *space, pl_capture *capture)
{
    space->n_capturing -= capture->has_ended ? 0 : 1;
    capture->has_ended = true;
}

void pl_capture_drop(pl_space *space, pl_capture *capture)
{
    if (--capture->n_refs > 0) {
        return;
    }
    pl_capture **at = head_of(space, capture->id);
    while (*at != capture) {
        at = &(*at)->next;
    }
    *at = capture->next;
    end(space, capture);
    own_up(space, capture);
    space->n_captures--;
    pl_graph_watch_end(capture->watch);
    pl_host_free(&space->host, capture);
}

static pl_capture *create(pl_space *space, uint64_t id, pl_graph_watch *watch)
{
    pl_capture *capture = pl_host_calloc(&space->host, 1, sizeof(*capture));

    if (capture == NULL) {
        return NULL;
    }
    capture->id = id;
    capture->number = ++space->next_capture;
    capture->watch = watch;
    capture->next = *head_of(space, id);
    *head_of(space, id) = capture;
    space->n_captures++;
    space->n_capturing++;
    return capture;
}

/* A capture that broke since its stream was asked has no graph to watch: whoever did not notice
 * would keep its memory for a graph that never comes. A broken one has no id any more. */
static bool has_broken(pl_stream *stream)
{
    pl_capture_info now;

    return pl_stream_capture(stream, &now) == PLEAT_OK && now.is_broken;
}

/* Where the driver cannot tell of its end, its owner will. Drops the lock. */
static pl_graph_watch *watch_graph(pl_space *space, pl_stream *stream, pl_capture_info *info)
{
    pl_graph_watch *watch = NULL;

    if (info->graph == NULL) {
        return NULL;
    }
    pl_lock_release(&space->lock);
    pleat_status st = pl_graph_watch_begin(space->dev, info->graph, &watch);
    if (st != PLEAT_OK && st != PLEAT_ENOTSUP) {
        info->is_broken = has_broken(stream);
    }
    pl_lock_acquire(&space->lock);
    return watch;
}

/* Two streams of one capture may be seen for the first time at once. */
static pleat_status find_or_create(pl_space *space, pl_stream *stream, pl_capture_info *info,
                                   pl_capture **out)
{
    *out = find(space, info->id);
    if (*out != NULL) {
        return PLEAT_OK;
    }
    pl_graph_watch *watch = watch_graph(space, stream, info);
    *out = find(space, info->id);
    if (*out == NULL) {
        *out = create(space, info->id, watch);
        watch = *out != NULL ? NULL : watch;
    }
    pl_graph_watch_end(watch);
    return *out != NULL ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

/* ---- what a stream is seen doing ------------------------------------------------------------- */

/* Its graph is gone, or the pool is. */
static void leave_pool(pl_space *space, pl_capture *capture)
{
    if (capture->pool != NULL) {
        capture->pool->n_graphs--;
        capture->pool = NULL;
        pl_capture_drop(space, capture);
    }
}

/* Its end lets go on what waited for no more than that; of a broken one nothing else will come. */
static void see_end(pl_space *space, pl_capture *capture)
{
    end(space, capture);
    if (capture->is_broken && !capture->is_released) {
        capture->is_released = true;
        capture->over_tick = 0;
        own_up(space, capture);
        leave_pool(space, capture);
    }
    (void)pl_many_pass_capture(space, capture, RELEASE_SOME);
}

static void leave(pl_space *space, pl_lane *lane)
{
    pl_capture *capture = lane->capture;

    if (capture == NULL) {
        return;
    }
    lane->capture = NULL;
    capture->n_lanes--;
    see_end(space, capture);
    pl_capture_drop(space, capture);
}

void pl_capture_lose_lane(pl_space *space, pl_lane *lane)
{
    pl_capture *capture = lane->capture;

    if (capture == NULL) {
        return;
    }
    lane->capture = NULL;
    if (--capture->n_lanes == 0) {
        see_end(space, capture);
    }
    pl_capture_drop(space, capture);
}

static void take_part(pl_capture *capture, void *handle)
{
    for (unsigned i = 0; i < capture->n_streams; i++) {
        if (capture->streams[i] == handle) {
            return;
        }
    }
    if (capture->n_streams < PL_CAPTURE_STREAMS) {
        capture->streams[capture->n_streams++] = handle;
    }
}

static pleat_status enter(pl_space *space, pl_lane *lane, pl_capture_info *info)
{
    pl_capture *capture;

    lane->n_refs++; /* the lock is dropped */
    leave(space, lane);
    pleat_status st = find_or_create(space, lane->stream, info, &capture);
    lane->n_refs--;
    if (st != PLEAT_OK) {
        return st;
    }
    pl_capture_hold(capture);
    if (lane->capture != NULL) {
        lane->capture->n_lanes--;
        pl_capture_drop(space, lane->capture);
    }
    lane->capture = capture;
    capture->n_lanes++;
    take_part(capture, pl_stream_handle(lane->stream));
    return PLEAT_OK;
}

/* While the driver watches its graph, the pool need not wait for the whole context. The pool's end
 * is the capture's in any case. */
static void use_pool(pl_capture *capture, pl_private *pool)
{
    if (capture->pool == pool) {
        return;
    }
    if (capture->pool != NULL || capture->watch == NULL) {
        pool->is_unwatched = true;
    }
    if (capture->pool != NULL) {
        return;
    }
    capture->pool = pool;
    pl_capture_hold(capture);
    pool->n_graphs++;
}

pleat_status pl_capture_see(pl_space *space, pl_lane *lane, const pl_capture_info *info,
                            pl_private *pool)
{
    if (__builtin_expect(!info->is_capturing, true)) {
        if (__builtin_expect(lane->capture != NULL, false)) {
            leave(space, lane);
        }
        return PLEAT_OK;
    }
    pl_capture_info now = *info;
    pl_capturers_note(space);
    bool is_known = lane->capture != NULL && !lane->capture->has_ended &&
                    lane->capture->id == info->id;
    pleat_status st = is_known ? PLEAT_OK : enter(space, lane, &now);
    if (st == PLEAT_OK && now.is_broken) {
        lane->capture->is_broken = true;
        see_end(space, lane->capture); /* whenever the program ends it */
    }
    if (st == PLEAT_OK && pool != NULL) {
        use_pool(lane->capture, pool);
    }
    return st;
}

bool pl_capture_is_lasting(const pl_space *space, const pl_lane *lane)
{
    uint32_t plain = pl_lane_plain(lane->number);
    const pl_capture *capture = pl_space_lane_at(space, plain)->capture;

    return capture != NULL && !capture->has_ended;
}

static const pl_capture *find_lasting(const pl_space *space)
{
    for (unsigned i = 0; i < PL_CAPTURE_HEADS && space->n_capturing > 0; i++) {
        for (const pl_capture *c = space->captures[i]; c != NULL; c = c->next) {
            if (!c->has_ended && c->n_streams > 0) {
                return c;
            }
        }
    }
    return NULL;
}

bool pl_capture_name_lasting(const pl_space *space)
{
    const pl_capture *capture = find_lasting(space);

    if (capture != NULL) {
        pl_driver_set_detail("it waits for all work of the device, and for that a capture on the "
                             "stream %p has to end: if it has, name that stream in a call, or "
                             "retire it before it is destroyed, or destroy the graph",
                             capture->streams[0]);
    } else if (space->n_expected > 0) {
        pl_driver_set_detail("it waits for all work of the device, and for that no private pool "
                             "may be routed: see pleat_pool_end");
    }
    return capture != NULL || space->n_expected > 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static bool is_gone(const pl_capture *capture)
{
    return capture->watch != NULL && pl_graph_watch_is_gone(capture->watch);
}

/* What waits for it may go on, some now. True: not all has yet. */
static bool release(pl_space *space, pl_capture *capture, uint64_t over_tick)
{
    if (!capture->is_released) {
        capture->is_released = true;
        capture->over_tick = over_tick;
    }
    end(space, capture);
    own_up(space, capture);
    pl_capture_hold(capture);
    if (is_gone(capture)) {
        leave_pool(space, capture);
    }
    (void)pl_many_pass_capture(space, capture, RELEASE_SOME);
    bool has_more = capture->waiting.first != NULL;
    pl_capture_drop(space, capture);
    return has_more;
}

static pl_capture *find_gone(pl_capture *capture, size_t *n_looks)
{
    for (; capture != NULL; capture = capture->next) {
        ++*n_looks;
        if (is_gone(capture) &&
            (!capture->is_released || capture->waiting.first != NULL || capture->pool != NULL)) {
            return capture;
        }
    }
    return NULL;
}

/* From the head again after each: what a release lets go may drop other captures. */
bool pl_capture_look(pl_space *space)
{
    uint64_t n_gone = pl_graph_watch_n_gone();
    size_t n_looks = 0;
    bool any = false;

    if (n_gone == space->n_graphs_gone) {
        return false;
    }
    for (unsigned i = 0; i < PL_CAPTURE_HEADS && space->n_captures > 0; i++) {
        pl_capture *gone = find_gone(space->captures[i], &n_looks);
        for (; gone != NULL; gone = find_gone(space->captures[i], &n_looks)) {
            any = true;
            if (release(space, gone, 0)) { /* its launches are over, too */
                return true;               /* there is more of it */
            }
        }
        if (n_looks > LOOK_AT) {
            n_looks = 0;
            pl_space_breathe(space);
        }
    }
    space->n_graphs_gone = n_gone;
    return any;
}

enum { MOST_LOOKS = 64, MOST_VAIN = 16 };

void pl_capture_look_well(pl_space *space)
{
    for (unsigned n = MOST_LOOKS; n > 0 && pl_capture_look(space); n--) {
        pl_space_breathe(space);
    }
}

static pl_capture *find_of_pool(pl_capture *capture, const pl_private *pool, bool has_ended)
{
    while (capture != NULL && (capture->pool != pool || (capture->has_ended && !has_ended))) {
        capture = capture->next;
    }
    return capture;
}

/* Some at a time: what waits for the graph, not for the end, is passed over. */
static void pass_on(pl_space *space, pl_capture *capture)
{
    for (unsigned n_vain = 0; capture->waiting.first != NULL && n_vain < MOST_VAIN;) {
        n_vain = pl_many_pass_capture(space, capture, RELEASE_SOME) > 0 ? 0 : n_vain + 1;
        pl_space_breathe(space);
    }
}

/* From the head again after each: what goes on may drop other captures. */
void pl_capture_end_of_pool(pl_space *space, const pl_private *pool)
{
    for (unsigned i = 0; i < PL_CAPTURE_HEADS; i++) {
        for (pl_capture *c; (c = find_of_pool(space->captures[i], pool, false)) != NULL;) {
            pl_capture_hold(c);
            end(space, c);
            pass_on(space, c);
            pl_capture_drop(space, c);
        }
    }
}

void pl_capture_forget_pool(pl_space *space, const pl_private *pool)
{
    for (unsigned i = 0; i < PL_CAPTURE_HEADS && pool->n_graphs > 0; i++) {
        for (pl_capture *c; (c = find_of_pool(space->captures[i], pool, true)) != NULL;) {
            leave_pool(space, c);
        }
    }
}

void pl_capture_free_all(pl_space *space)
{
    for (unsigned i = 0; i < PL_CAPTURE_HEADS; i++) {
        while (space->captures[i] != NULL) {
            pl_capture *capture = space->captures[i];
            space->captures[i] = capture->next;
            pl_graph_watch_end(capture->watch);
            pl_host_free(&space->host, capture);
        }
    }
}

/* ---- what its owner says --------------------------------------------------------------------- */

static bool took_part(const pl_capture *capture, const void *handle)
{
    for (unsigned i = 0; i < capture->n_streams; i++) {
        if (capture->streams[i] == handle) {
            return true;
        }
    }
    return false;
}

/* The oldest that is not released. */
static pl_capture *find_of_stream(pl_space *space, const void *handle)
{
    pl_capture *oldest = NULL;

    for (unsigned i = 0; i < PL_CAPTURE_HEADS; i++) {
        for (pl_capture *c = space->captures[i]; c != NULL; c = c->next) {
            if (!c->is_released && !c->is_disowned && took_part(c, handle) &&
                (oldest == NULL || c->number < oldest->number)) {
                oldest = c;
            }
        }
    }
    return oldest;
}

/* PLEAT_ECAPTURE: that capture is still under way. PLEAT_OK: it is over, as the stream is at rest,
 * in another capture, or gone. Else why the driver did not answer. Drops the lock. */
static pleat_status ask_whether_over(pl_space *space, const pl_capture *capture, void *handle)
{
    pl_capture_info info = { .is_capturing = false };
    pl_stream *stream = NULL;
    uint64_t id = capture->id;

    pl_lock_release(&space->lock);
    pleat_status st = pl_stream_get(space->dev, handle, &stream);
    st = st == PLEAT_OK ? pl_stream_capture(stream, &info) : st;
    st = pl_stream_is_none(st) ? PLEAT_OK : st;
    pl_lock_acquire(&space->lock);
    return st == PLEAT_OK && info.is_capturing && info.id == id ? PLEAT_ECAPTURE : st;
}

/* Launches may be under way on any stream: what is over is what a tick of the context covers. */
static void release_launched(pl_space *space, pl_capture *capture)
{
    uint64_t over_tick = space->clock;

    space->context.next_tick = ++space->clock;
    pl_capture_hold(capture);
    capture->is_released = true;
    capture->over_tick = over_tick;
    end(space, capture);
    pl_settle_want_context(space);
    (void)pl_settle_poll(space, 0);
    while (capture->waiting.first != NULL) {
        (void)release(space, capture, over_tick);
        pl_space_breathe(space);
    }
    pl_capture_drop(space, capture);
}

/* While the driver watches the graph it is not taken at its owner's word: what a living graph may
 * launch is not given away. */
static pleat_status release_of_stream(pl_space *space, void *handle)
{
    pl_capture_look_well(space);
    pl_capture *capture = find_of_stream(space, handle);
    if (capture == NULL) {
        return PLEAT_OK;
    }
    pl_capture_hold(capture);
    pleat_status st = capture->has_ended ? PLEAT_OK : ask_whether_over(space, capture, handle);
    if (st == PLEAT_OK && !capture->is_released) {
        end(space, capture);
        (void)pl_many_pass_capture(space, capture, RELEASE_SOME);
        if (capture->watch == NULL) {
            release_launched(space, capture);
        } else if (!capture->is_disowned) {
            capture->is_disowned = true;
            space->n_disowned++;
        }
    }
    pl_capture_drop(space, capture);
    return st;
}

pleat_status pl_expandable_release_capture_of(pl_allocator *a, void *handle)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    pleat_status st = release_of_stream(space, handle);
    (void)pl_settle_some(space, PL_SETTLE_SOME);
    pl_lock_release(&space->lock);
    return st;
}

static pl_capture *find_ended(pl_capture *capture)
{
    while (capture != NULL && (!capture->has_ended || capture->waiting.first == NULL)) {
        capture = capture->next;
    }
    return capture;
}

void pl_expandable_let_captures_go(pl_allocator *a)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    for (unsigned i = 0; i < PL_CAPTURE_HEADS; i++) {
        for (pl_capture *c; (c = find_ended(space->captures[i])) != NULL;) {
            (void)release(space, c, 0);
            pl_space_breathe(space);
        }
    }
    pl_lock_release(&space->lock);
}

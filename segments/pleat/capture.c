/* capture.c - see capture.h. Guarded by the device lock. */
#include "segments/pleat/capture.h"

#include "segments/pleat/capturers.h"
#include "segments/pleat/context.h"
#include "segments/pleat/many.h"
#include "segments/pleat/private.h"
#include "segments/pleat/settle.h"
#include "segments/pleat/tick.h"
#include "vmm/driver.h"

enum { LOOK_SOME = 512, RELEASE_SOME = 256 };

/* ---- lists ----------------------------------------------------------------------------------- */

static void push(pl_capture **first, pl_capture *capture, pl_capture_list list)
{
    capture->links[list] = (pl_capture_link){ NULL, *first };
    if (*first != NULL) {
        (*first)->links[list].prev = capture;
    }
    *first = capture;
}

static void pull(pl_capture **first, pl_capture *capture, pl_capture_list list)
{
    pl_capture_link link = capture->links[list];

    *(link.prev != NULL ? &link.prev->links[list].next : first) = link.next;
    if (link.next != NULL) {
        link.next->links[list].prev = link.prev;
    }
}

static pl_participant **participants_like(pl_space *space, const void *handle)
{
    return &space->participants[((uintptr_t)handle >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 32 &
                                (PL_CAPTURE_HEADS - 1)];
}

/* Where it is, or would be. */
static pl_participant **find_participant(pl_space *space, const void *handle)
{
    pl_participant **at = participants_like(space, handle);

    for (; *at != NULL && (*at)->handle != handle; at = &(*at)->next) {
        pl_lock_touch(1);
    }
    return at;
}

/* Newest last: mostly it is. */
static void add_part(pl_participant *participant, pl_part *part)
{
    pl_part *older = participant->newest;

    while (older != NULL && older->capture->number > part->capture->number) {
        pl_lock_touch(1);
        older = older->older;
    }
    part->participant = participant;
    part->older = older;
    part->newer = older != NULL ? older->newer : participant->oldest;
    *(older != NULL ? &older->newer : &participant->oldest) = part;
    *(part->newer != NULL ? &part->newer->older : &participant->newest) = part;
}

static void remove_part(pl_space *space, pl_part *part)
{
    pl_participant *participant = part->participant;

    *(part->older != NULL ? &part->older->newer : &participant->oldest) = part->newer;
    *(part->newer != NULL ? &part->newer->older : &participant->newest) = part->older;
    pl_host_free(&space->host, part);
    if (participant->oldest == NULL) {
        *find_participant(space, participant->handle) = participant->next;
        pl_host_free(&space->host, participant);
    }
}

/* Its owner has said, or need not say any more, that it is gone. */
static void forget_parts(pl_space *space, pl_capture *capture)
{
    while (capture->parts != NULL) {
        pl_part *part = capture->parts;
        capture->parts = part->next;
        remove_part(space, part);
        pl_lock_touch(1);
    }
}

/* ---- the captures there are ------------------------------------------------------------------ */

static pl_capture **head_of(pl_space *space, uint64_t id)
{
    return &space->captures[id % PL_CAPTURE_HEADS];
}

static pl_capture *find(pl_space *space, uint64_t id)
{
    pl_capture *capture = id != 0 ? *head_of(space, id) : NULL;

    while (capture != NULL && capture->id != id) {
        pl_lock_touch(1);
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
    if (!capture->has_ended) {
        capture->has_ended = true;
        space->n_capturing--;
        pull(&space->under_way, capture, PL_CAPTURES_UNDER_WAY);
        pl_device_note_capture(space->dev, false);
    }
}

void pl_capture_drop(pl_space *space, pl_capture *capture)
{
    if (--capture->n_refs > 0) {
        return;
    }
    pl_capture **at = head_of(space, capture->id);
    while (*at != capture) {
        pl_lock_touch(1);
        at = &(*at)->next;
    }
    *at = capture->next;
    if (space->looked_up == capture) {
        space->looked_up = capture->links[PL_CAPTURES_ALL].next;
    }
    pull(&space->first_capture, capture, PL_CAPTURES_ALL);
    end(space, capture);
    forget_parts(space, capture);
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
    push(&space->first_capture, capture, PL_CAPTURES_ALL);
    push(&space->under_way, capture, PL_CAPTURES_UNDER_WAY);
    space->n_captures++;
    space->n_capturing++;
    pl_device_note_capture(space->dev, true);
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
        pull(&capture->pool->graphs, capture, PL_CAPTURES_OF_POOL);
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
        forget_parts(space, capture);
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

static bool took_part(const pl_capture *capture, const void *handle)
{
    const pl_part *part = capture->parts;

    while (part != NULL && part->participant->handle != handle) {
        pl_lock_touch(1);
        part = part->next;
    }
    return part != NULL;
}

static pleat_status find_or_add_participant(pl_space *space, void *handle, pl_participant **out)
{
    pl_participant **at = find_participant(space, handle);

    if (*at == NULL) {
        *at = pl_host_calloc(&space->host, 1, sizeof(**at));
        if (*at == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        (*at)->handle = handle;
    }
    *out = *at;
    return PLEAT_OK;
}

static pleat_status take_part(pl_space *space, pl_capture *capture, void *handle)
{
    pl_participant *participant;

    if (capture->is_released || capture->is_disowned || took_part(capture, handle)) {
        return PLEAT_OK;
    }
    pl_part *part = pl_host_calloc(&space->host, 1, sizeof(*part));
    if (part == NULL || find_or_add_participant(space, handle, &participant) != PLEAT_OK) {
        pl_host_free(&space->host, part);
        return PLEAT_ENOMEM_HOST;
    }
    part->capture = capture;
    part->next = capture->parts;
    capture->parts = part;
    add_part(participant, part);
    return PLEAT_OK;
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
    st = take_part(space, capture, pl_stream_handle(lane->stream));
    if (st != PLEAT_OK) {
        pl_capture_drop(space, capture);
        return st;
    }
    if (lane->capture != NULL) {
        lane->capture->n_lanes--;
        pl_capture_drop(space, lane->capture);
    }
    lane->capture = capture;
    capture->n_lanes++;
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
    push(&pool->graphs, capture, PL_CAPTURES_OF_POOL);
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

bool pl_capture_name_lasting(const pl_space *space)
{
    const pl_capture *capture = space->under_way;

    if (capture != NULL && capture->parts != NULL) {
        pl_driver_set_detail("it waits for all work of the device, and for that a capture on the "
                             "stream %p has to end: if it has, name that stream in a call, or "
                             "retire it before it is destroyed, or destroy the graph",
                             capture->parts->participant->handle);
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
    forget_parts(space, capture);
    pl_capture_hold(capture);
    if (is_gone(capture)) {
        leave_pool(space, capture);
    }
    (void)pl_many_pass_capture(space, capture, RELEASE_SOME);
    bool has_more = capture->waiting.first != NULL;
    pl_capture_drop(space, capture);
    return has_more;
}

static bool has_something_to_release(const pl_capture *capture)
{
    return is_gone(capture) &&
           (!capture->is_released || capture->waiting.first != NULL || capture->pool != NULL);
}

/* What a release lets go may drop other captures, the next one too: pl_capture_drop cares for
 * looked_up. */
bool pl_capture_look(pl_space *space)
{
    uint64_t since = space->n_pieces;
    size_t n = LOOK_SOME;
    bool any = false;

    if (space->looked_up == NULL) {
        uint64_t n_gone = pl_graph_watch_n_gone();
        if (n_gone == space->n_graphs_gone) {
            return false;
        }
        space->n_graphs_gone = n_gone;
        space->looked_up = space->first_capture;
    }
    for (; n > 0 && space->looked_up != NULL && !pl_space_is_tired(space, since); n--) {
        pl_capture *capture = space->looked_up;
        pl_lock_touch(1);
        space->looked_up = capture->links[PL_CAPTURES_ALL].next;
        if (!has_something_to_release(capture)) {
            continue;
        }
        any = true;
        pl_capture_hold(capture);
        if (release(space, capture, 0)) { /* its launches are over, too */
            space->looked_up = capture;   /* there is more of it */
            n = 1;
        }
        pl_capture_drop(space, capture);
    }
    return any;
}

enum { MOST_LOOKS = 64, MOST_VAIN = 16 };

void pl_capture_look_well(pl_space *space)
{
    for (size_t n = MOST_LOOKS + space->n_captures; n > 0; n--) {
        if (!pl_capture_look(space) && space->looked_up == NULL) {
            return;
        }
        pl_space_breathe(space);
    }
}

/* Some at a time: what waits for the graph, not for the end, is passed over. */
static void pass_on(pl_space *space, pl_capture *capture)
{
    for (unsigned n_vain = 0; capture->waiting.first != NULL && n_vain < MOST_VAIN;) {
        n_vain = pl_many_pass_capture(space, capture, RELEASE_SOME) > 0 ? 0 : n_vain + 1;
        pl_space_breathe(space);
    }
}

void pl_capture_end_gone(pl_space *space)
{
    for (pl_capture *c = space->under_way; c != NULL;) {
        pl_capture *next = c->links[PL_CAPTURES_UNDER_WAY].next;
        pl_lock_touch(1);
        if (is_gone(c)) {
            end(space, c);
        }
        c = next;
    }
}

static pl_capture *find_under_way(const pl_space *space, const pl_private *pool)
{
    pl_capture *capture = space->under_way;

    while (capture != NULL && capture->pool != pool) {
        pl_lock_touch(1);
        capture = capture->links[PL_CAPTURES_UNDER_WAY].next;
    }
    return capture;
}

/* From the head again after each: the lock was dropped. */
void pl_capture_end_of_pool(pl_space *space, const pl_private *pool)
{
    for (pl_capture *c; (c = find_under_way(space, pool)) != NULL;) {
        pl_capture_hold(c);
        end(space, c);
        pass_on(space, c);
        pl_capture_drop(space, c);
    }
}

bool pl_capture_forget_pool(pl_space *space, const pl_private *pool)
{
    size_t n = RELEASE_SOME;

    for (; n > 0 && pool->graphs != NULL; n--) {
        leave_pool(space, pool->graphs);
    }
    pl_lock_touch(RELEASE_SOME - n);
    return pool->graphs == NULL;
}

void pl_capture_free_all(pl_space *space)
{
    while (space->first_capture != NULL) {
        pl_capture *capture = space->first_capture;
        end(space, capture);
        space->first_capture = capture->links[PL_CAPTURES_ALL].next;
        forget_parts(space, capture);
        pl_graph_watch_end(capture->watch);
        pl_host_free(&space->host, capture);
    }
}

/* ---- what its owner says --------------------------------------------------------------------- */

/* The oldest that is not released. */
static pl_capture *find_of_stream(pl_space *space, const void *handle)
{
    const pl_participant *participant = *find_participant(space, handle);

    return participant != NULL ? participant->oldest->capture : NULL;
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
    if (st == PLEAT_OK) {
        st = pl_stream_capture(stream, &info);
        pl_stream_put(stream);
    }
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
    forget_parts(space, capture);
    pl_context_tick_want(space);
    (void)pl_tick_poll(space, 0);
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
            forget_parts(space, capture);
        }
    }
    pl_capture_drop(space, capture);
    return st;
}

pleat_status pl_pleat_release_capture_of(pl_allocator *a, void *handle)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    pleat_status st = release_of_stream(space, handle);
    (void)pl_settle_some(space, PL_SETTLE_SOME);
    pl_lock_release(&space->lock);
    return st;
}

/* Held while the lock is dropped, it stays in the list. */
void pl_pleat_let_captures_go(pl_allocator *a)
{
    pl_space *space = (pl_space *)a;
    size_t n_looks = 0;

    pl_lock_acquire(&space->lock);
    for (pl_capture *c = space->first_capture; c != NULL;) {
        pl_capture_hold(c);
        while (c->has_ended && c->waiting.first != NULL) {
            (void)release(space, c, 0);
            pl_space_breathe(space);
        }
        pl_lock_touch(1);
        if (++n_looks % LOOK_SOME == 0) {
            pl_space_breathe(space);
        }
        pl_capture *next = c->links[PL_CAPTURES_ALL].next;
        pl_capture_drop(space, c);
        c = next;
    }
    pl_lock_release(&space->lock);
}

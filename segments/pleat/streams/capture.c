/* capture.c - see capture.h: captures come, end and go. Guarded by the device lock. */
#include "segments/pleat/streams/capture.h"

#include "segments/pleat/space/private.h"
#include "vmm/driver.h"

/* ---- lists ----------------------------------------------------------------------------------- */

static struct pl_capture_list *captures_like(pl_space *space, uint64_t id)
{
    return &space->captures.by_id[id % PL_CAPTURE_HEADS];
}

pl_capture *pl_capture_find(pl_space *space, uint64_t id)
{
    pl_capture *capture = id != 0 ? LIST_FIRST(captures_like(space, id)) : NULL;

    while (capture != NULL && capture->id != id) {
        pl_lock_touch(1);
        capture = LIST_NEXT(capture, with_id);
    }
    return capture;
}

/* ---- by handle ------------------------------------------------------------------------------- */

static pl_participant **participants_like(pl_space *space, const void *handle)
{
    return &space->captures
                .by_handle[((uintptr_t)handle >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 32 &
                           (PL_CAPTURE_HEADS - 1)];
}

/* The link that points to the handle's participant, or to NULL at the end of the chain. */
static pl_participant **find_participant(pl_space *space, const void *handle)
{
    pl_participant **at = participants_like(space, handle);

    for (; *at != NULL && (*at)->handle != handle; at = &(*at)->next) {
        pl_lock_touch(1);
    }
    return at;
}

/* The participant's newest part of the capture or of an older one; NULL = none. Searched from the
 * newest, as the capture mostly is the newest. */
static pl_part *last_part_until(const pl_participant *participant, const pl_capture *capture)
{
    pl_part *part = participant->newest;

    while (part != NULL && part->capture->number > capture->number) {
        pl_lock_touch(1);
        part = part->older;
    }
    return part;
}

/* In order of the captures' numbers. */
static void add_part(pl_participant *participant, pl_part *part)
{
    pl_part *older = last_part_until(participant, part->capture);

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
    pl_meta_free(&space->meta, part);
    if (participant->oldest == NULL) {
        *find_participant(space, participant->handle) = participant->next;
        pl_meta_free(&space->meta, participant);
    }
}

void pl_capture_forget_parts(pl_space *space, pl_capture *capture)
{
    while (capture->parts != NULL) {
        pl_part *part = capture->parts;
        capture->parts = part->next;
        remove_part(space, part);
        pl_space_work(space, 1);
    }
}

static pleat_status find_or_add_participant(pl_space *space, void *handle, pl_participant **out)
{
    pl_participant **at = find_participant(space, handle);

    if (*at == NULL) {
        *at = pl_meta_calloc(&space->meta, 1, sizeof(**at));
        if (*at == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        (*at)->handle = handle;
    }
    *out = *at;
    return PLEAT_OK;
}

pleat_status pl_capture_take_part(pl_space *space, pl_capture *capture, void *handle)
{
    pl_participant *participant = *find_participant(space, handle);

    if (pl_capture_is_released(capture) || capture->is_disowned) {
        return PLEAT_OK;
    }
    const pl_part *last = participant != NULL ? last_part_until(participant, capture) : NULL;
    if (last != NULL && last->capture == capture) {
        return PLEAT_OK; /* e.g. pleat took the capture for over: each call comes here then */
    }
    pl_part *part = pl_meta_calloc(&space->meta, 1, sizeof(*part));
    if (part == NULL || find_or_add_participant(space, handle, &participant) != PLEAT_OK) {
        pl_meta_free(&space->meta, part);
        return PLEAT_ENOMEM_HOST;
    }
    part->capture = capture;
    part->next = capture->parts;
    capture->parts = part;
    add_part(participant, part);
    return PLEAT_OK;
}

pl_capture *pl_capture_find_of_stream(pl_space *space, const void *handle)
{
    const pl_participant *participant = *find_participant(space, handle);

    return participant != NULL ? participant->oldest->capture : NULL;
}

/* ---- the captures there are ------------------------------------------------------------------ */

void pl_capture_drop(pl_space *space, pl_capture *capture)
{
    if (--capture->n_refs > 0) {
        return;
    }
    LIST_REMOVE(capture, with_id);
    if (space->captures.looked_up == capture) {
        space->captures.looked_up = LIST_NEXT(capture, all);
    }
    LIST_REMOVE(capture, all);
    pl_capture_end(space, capture);
    pl_capture_forget_parts(space, capture);
    pl_capture_own_up(space, capture);
    space->captures.n--;
    pl_graph_watch_end(capture->watch);
    pl_meta_free(&space->meta, capture);
}

pl_capture *pl_capture_create(pl_space *space, uint64_t id, pl_graph_watch *watch)
{
    pl_capture *capture = pl_meta_calloc(&space->meta, 1, sizeof(*capture));

    if (capture == NULL) {
        return NULL;
    }
    capture->id = id;
    capture->number = ++space->captures.newest;
    capture->watch = watch;
    LIST_INSERT_HEAD(captures_like(space, id), capture, with_id);
    LIST_INSERT_HEAD(&space->captures.all, capture, all);
    LIST_INSERT_HEAD(&space->captures.under_way, capture, under_way);
    space->captures.n++;
    space->captures.n_capturing++;
    pl_device_note_capture(space->dev, true);
    return capture;
}

/* ---- captures end, their graphs go ----------------------------------------------------------- */

void pl_capture_own_up(pl_space *space, pl_capture *capture)
{
    space->captures.n_disowned -= capture->is_disowned ? 1 : 0;
    capture->is_disowned = false;
}

void pl_capture_end(pl_space *space, pl_capture *capture)
{
    if (!pl_capture_has_ended(capture)) {
        capture->clock.passed = PL_CAPTURE_ENDED;
        space->captures.n_capturing--;
        LIST_REMOVE(capture, under_way);
        pl_device_note_capture(space->dev, false);
    }
}

void pl_capture_lose_graph(pl_capture *capture, uint64_t over_tick)
{
    pl_assert(pl_capture_has_ended(capture));
    if (!pl_capture_is_released(capture)) {
        capture->clock.passed = PL_CAPTURE_RELEASED;
        capture->over_tick = over_tick;
    }
}

void pl_capture_end_gone(pl_space *space)
{
    for (pl_capture *c = LIST_FIRST(&space->captures.under_way); c != NULL;) {
        pl_capture *next = LIST_NEXT(c, under_way);
        pl_lock_touch(1);
        if (pl_capture_is_gone(c)) {
            pl_capture_end(space, c);
        }
        c = next;
    }
}

void pl_capture_leave_pool(pl_space *space, pl_capture *capture)
{
    if (capture->pool != NULL) {
        LIST_REMOVE(capture, of_pool);
        capture->pool->n_graphs--;
        capture->pool = NULL;
        pl_capture_drop(space, capture);
    }
}

bool pl_capture_forget_pool(pl_space *space, const pl_private *pool)
{
    uint64_t since = space->n_pieces;

    while (!LIST_EMPTY(&pool->graphs) && !pl_space_is_tired(space, since)) {
        pl_space_work(space, 1);
        pl_capture_leave_pool(space, LIST_FIRST(&pool->graphs));
    }
    return LIST_EMPTY(&pool->graphs);
}

void pl_capture_free_all(pl_space *space)
{
    while (!LIST_EMPTY(&space->captures.all)) {
        pl_capture *capture = LIST_FIRST(&space->captures.all);
        pl_capture_end(space, capture);
        LIST_REMOVE(capture, all);
        pl_capture_forget_parts(space, capture);
        pl_graph_watch_end(capture->watch);
        pl_meta_free(&space->meta, capture);
    }
}

/* ---- what is known of them ------------------------------------------------------------------- */

bool pl_capture_is_lasting(const pl_space *space, const pl_lane *lane)
{
    uint32_t plain = pl_lane_plain(lane->number);
    const pl_capture *capture = pl_space_lane_at(space, plain)->capture;

    return capture != NULL && !pl_capture_has_ended(capture);
}

bool pl_capture_name_lasting(const pl_space *space)
{
    const pl_capture *capture = LIST_FIRST(&space->captures.under_way);

    if (capture != NULL && capture->parts != NULL) {
        pl_driver_set_detail("it waits for all work of the device, and for that a capture on the "
                             "stream %p has to end: if it has, name that stream in a call, or "
                             "retire it before it is destroyed, or destroy the graph",
                             capture->parts->participant->handle);
    } else if (space->captures.n_expected > 0) {
        pl_driver_set_detail("it waits for all work of the device, and for that no private pool "
                             "may be routed: see pleat_pool_end");
    }
    return capture != NULL || space->captures.n_expected > 0;
}

/* capture_list.c - see capture_list.h. Guarded by the device lock. */
#include "segments/pleat/streams/capture_list.h"

/* ---- captures -------------------------------------------------------------------------------- */

void pl_capture_enlist(pl_capture **first, pl_capture *capture, pl_capture_list list)
{
    capture->links[list] = (pl_capture_link){ NULL, *first };
    if (*first != NULL) {
        (*first)->links[list].prev = capture;
    }
    *first = capture;
}

void pl_capture_delist(pl_capture **first, pl_capture *capture, pl_capture_list list)
{
    pl_capture_link link = capture->links[list];

    *(link.prev != NULL ? &link.prev->links[list].next : first) = link.next;
    if (link.next != NULL) {
        link.next->links[list].prev = link.prev;
    }
}

pl_capture **pl_capture_head_of(pl_space *space, uint64_t id)
{
    return &space->captures[id % PL_CAPTURE_HEADS];
}

pl_capture *pl_capture_find(pl_space *space, uint64_t id)
{
    pl_capture *capture = id != 0 ? *pl_capture_head_of(space, id) : NULL;

    while (capture != NULL && capture->id != id) {
        pl_lock_touch(1);
        capture = capture->next;
    }
    return capture;
}

/* ---- by handle ------------------------------------------------------------------------------- */

static pl_participant **participants_like(pl_space *space, const void *handle)
{
    return &space->participants[((uintptr_t)handle >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 32 &
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

/* In order of the captures' numbers; searched from the newest, as a new part mostly is. */
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

void pl_capture_forget_parts(pl_space *space, pl_capture *capture)
{
    while (capture->parts != NULL) {
        pl_part *part = capture->parts;
        capture->parts = part->next;
        remove_part(space, part);
        pl_lock_touch(1);
    }
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

pleat_status pl_capture_take_part(pl_space *space, pl_capture *capture, void *handle)
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

pl_capture *pl_capture_find_of_stream(pl_space *space, const void *handle)
{
    const pl_participant *participant = *find_participant(space, handle);

    return participant != NULL ? participant->oldest->capture : NULL;
}

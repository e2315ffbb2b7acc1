/* capturers.c - see capturers.h. Guarded by the device lock; a thread that is kept inside its call
 * waits on space.flights.landed, which is signalled when a hold or a recording ends. */
#include "segments/pleat/streams/capturers.h"

#include "segments/pleat/space/back.h"
#include "segments/pleat/streams/capture.h"
#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"
#include "vmm/streams/thread_life.h"

enum {
    QUIET_MS = 200,     /* a thread outside of calls for so long is not beginning a capture */
    FORGET_MS = 10000,  /* a thread not seen capturing for so long makes no more captures */
    PAUSE_NS = 50000,   /* between two looks */
    LOOKS_A_HOLD = 40,  /* at most so many while threads are kept inside, */
    SHORT_LOOKS = 20,   /* of which the first so many are made without a pause */
    PAUSES_BETWEEN = 4, /* two holds, for threads to leave their calls */
};

/* Seen capturing by any instance; other threads need not be searched for. */
static _Thread_local bool is_capturer;

/* ---- which threads --------------------------------------------------------------------------- */

static pl_capturer *find_own(pl_space *space)
{
    const pl_thread_life *own = is_capturer ? pl_thread_life_own() : NULL;

    for (unsigned i = 0; own != NULL && i < space->captures.n_capturers; i++) {
        if (space->captures.capturers[i].life == own) {
            return &space->captures.capturers[i];
        }
    }
    return NULL;
}

static void forget(pl_space *space, pl_capturer *capturer)
{
    pl_thread_life_drop(capturer->life);
    *capturer = space->captures.capturers[--space->captures.n_capturers];
}

/* The one that was seen capturing the longest ago. */
static pl_capturer *find_oldest(pl_space *space)
{
    pl_capturer *oldest = &space->captures.capturers[0];

    for (unsigned i = 1; i < space->captures.n_capturers; i++) {
        oldest = space->captures.capturers[i].seen_ms < oldest->seen_ms
                     ? &space->captures.capturers[i]
                     : oldest;
    }
    return oldest;
}

void pl_capturers_note(pl_space *space)
{
    pl_thread_life *life = pl_thread_life_own();

    is_capturer = life != NULL;
    pl_capturer *own = find_own(space);
    if (own == NULL && life != NULL) {
        if (space->captures.n_capturers == PL_MOST_CAPTURERS) {
            forget(space, find_oldest(space));
        }
        pl_thread_life_hold(life);
        own = &space->captures.capturers[space->captures.n_capturers++];
        *own = (pl_capturer){ .life = life };
    }
    if (own != NULL) {
        own->seen_ms = pl_clock_ms();
        own->missed_ms = 0;
    }
}

void pl_capturers_forget_all(pl_space *space)
{
    while (space->captures.n_capturers > 0) {
        forget(space, &space->captures.capturers[0]);
    }
}

/* ---- where they are -------------------------------------------------------------------------- */

bool pl_capturers_come_in(pl_space *space)
{
    pl_capturer *own = find_own(space);

    if (own == NULL) {
        return false;
    }
    own->is_inside = true;
    own->missed_ms = 0;
    return true;
}

/* While the host synchronises no thread is kept: the work it waits for may wait for the thread. */
static bool is_kept_inside(const pl_context *context)
{
    return context->phase == PL_CONTEXT_HOLDING || context->phase == PL_CONTEXT_RECORDING;
}

void pl_capturers_go_out(pl_space *space)
{
    while (is_kept_inside(&space->streams.context)) {
        pl_space_wait(space);
    }
    pl_capturer *own = find_own(space); /* only now: others may have moved it */
    if (own != NULL) {
        own->is_inside = false;
    }
}

/* ---- the moment ------------------------------------------------------------------------------ */

static bool is_past(const pl_capturer *capturer, uint64_t now)
{
    return pl_thread_life_is_over(capturer->life) || now - capturer->seen_ms > FORGET_MS;
}

/* May it just be beginning a capture? How long it is outside counts from the first look that misses
 * it inside. */
static bool is_in_the_way(pl_capturer *capturer, uint64_t now)
{
    if (capturer->is_inside) {
        return false;
    }
    capturer->missed_ms = capturer->missed_ms == 0 ? now : capturer->missed_ms;
    return now - capturer->missed_ms < QUIET_MS;
}

/* The calling thread is not in the way: it is inside this call. */
static bool is_clear(pl_space *space)
{
    const pl_capturer *own = find_own(space);
    uint64_t now = space->captures.n_capturers > 0 ? pl_clock_ms() : 0;
    bool is_any = pl_capture_forbids_tick(space);

    for (unsigned i = space->captures.n_capturers; i > 0; i--) {
        pl_capturer *capturer = &space->captures.capturers[i - 1];
        if (capturer == own) {
            continue;
        }
        if (!capturer->is_inside && is_past(capturer, now)) {
            forget(space, capturer);
            own = find_own(space);
        } else {
            is_any = is_in_the_way(capturer, now) || is_any;
        }
    }
    return !is_any;
}

void pl_capturers_pause(pl_space *space)
{
    pl_away(space);
    pl_sleep_ns(PAUSE_NS);
    pl_back(space);
}

/* Keep the threads that are inside for a moment, until the others come inside, too. */
static bool hold(pl_space *space)
{
    bool is_now = is_clear(space);

    space->streams.context.phase = PL_CONTEXT_HOLDING;
    for (unsigned n = 0; n < LOOKS_A_HOLD && !is_now; n++) {
        if (n < SHORT_LOOKS) {
            pl_space_yield(space); /* threads outside need the lock to come in */
        } else {
            pl_capturers_pause(space);
        }
        is_now = is_clear(space);
    }
    space->streams.context.phase = PL_CONTEXT_GATHERING;
    if (!is_now) {
        pl_space_wake(space);
    }
    return is_now;
}

bool pl_capturers_gather(pl_space *space, uint32_t patience_ms)
{
    bool is_now = is_clear(space);

    if (is_now || patience_ms == 0) {
        return is_now;
    }
    uint64_t end = pl_clock_ms() + patience_ms;
    space->streams.context.phase = PL_CONTEXT_GATHERING;
    for (is_now = hold(space); !is_now && pl_clock_ms() < end; is_now = hold(space)) {
        for (unsigned n = PAUSES_BETWEEN; n > 0; n--) {
            pl_capturers_pause(space);
        }
    }
    space->streams.context.phase = PL_CONTEXT_BUSY;
    return is_now;
}

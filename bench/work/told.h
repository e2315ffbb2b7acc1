/* told.h - how much of a run is recorded.
 *
 *   run         |-------------------------------------------------------|
 *   recording             |--------------------------|
 *                 begins late, or its ring is full    ends out of memory, or in a step
 *
 * The missing part may need more memory than the recorded one. So a need is a lower bound, and
 * nothing in the recording is an upper one: memory may have been held and given back before. A
 * failure in a part of the run is a failure of the whole run. A success in a part says nothing. */
#ifndef PLEAT_BENCH_TOLD_H
#define PLEAT_BENCH_TOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BENCH_GROWTH_BYTES = 384 };

/* All false and zero: the work is no recording, and whole. A recording is whole only if it shows
 * that its steps repeat (bench/import/steps.h). */
typedef struct bench_told {
    bool has_no_history; /* only the blocks at the moment of the snapshot */
    bool begins_late;    /* blocks lived, or memory was held, before the first entry */
    bool has_run_over;   /* the ring is full, and older entries are gone; */
    bool may_run_over;   /* only the number of entries says so */
    bool is_apart;       /* the history does not lead to the snapshot's blocks */
    bool ends_failed;    /* the last allocation was refused */
    bool has_gone_on;    /* a request was refused, and the run went on without it */
    bool ends_early;     /* in the middle of a step, with more live bytes than at its end */
    bool is_unrepeated;  /* too few steps, or the largest came only at the beginning */
    bool is_growing;     /* the last step is the largest, or the steps grow */
    bool lacks_requests; /* of the two entries of a free, free_requested: pending blocks count as
                          * live, so the need is a bound above */
    bool lacks_ends;     /* free_completed: how long blocks were pending is unknown */
    uint64_t n_entries;
    uint64_t n_steps;            /* recorded; of a job, of the rank with the fewest; 0 = unknown */
    uint64_t n_optimizer_steps;  /* as the stacks show them, two or more; 0 = they do not tell */
    uint64_t rise_bytes;         /* of what lives between two steps, a step; 0 = no steady rise */
    uint64_t n_rise_steps;       /* recorded steps with this rise */
    uint64_t live_before_bytes;  /* live before the first entry, each block rounded up to 512; */
    uint64_t held_before_bytes;  /* and from the driver; 0 = the snapshot does not tell */
    uint64_t most_refused_bytes; /* the largest request that the run went on without */
    uint64_t refused_on_bytes;   /* most memory of the device that refused; of a job, the least */
    uint64_t n_pools;            /* private pools of CUDA graphs, which share no memory */
    uint64_t pool_bytes;         /* held by them at the end */
    uint64_t pool_need_bytes;    /* least need with them; 0 = no pools */
    uint64_t unexplained_bytes;  /* held by the run, of which; 0 = a replay holds about as much */
    uint64_t replayed_bytes;     /* a replay under the run's own setting holds these */
    char growth[BENCH_GROWTH_BYTES]; /* the lines of code that keep more with each step, or "" */
} bench_told;

/* The steps, as the user counts them where the stacks tell. */
static inline uint64_t bench_told_steps(const bench_told *told)
{
    return told->n_optimizer_steps > 0 ? told->n_optimizer_steps : told->n_steps;
}

/* Something is missing at the beginning. */
static inline bool bench_told_lacks_start(const bench_told *told)
{
    return told->has_no_history || told->begins_late || told->has_run_over || told->is_apart;
}

/* Nothing shows that anything is missing. But nothing shows, either, that a longer run needs no
 * more. */
static inline bool bench_told_is_unproven(const bench_told *told)
{
    return told->is_unrepeated || told->is_growing || told->rise_bytes > 0;
}

/* A device like the one on which the advice says to record. No card comes near. */
#define BENCH_TOLD_AMPLE_BYTES (UINT64_C(990) << 30)

/* Would the run go another way on a device with more memory? */
static inline bool bench_told_wants_room(const bench_told *told)
{
    return (told->ends_failed || told->has_gone_on) &&
           told->refused_on_bytes < BENCH_TOLD_AMPLE_BYTES;
}

/* A part of the run is known to be missing. */
static inline bool bench_told_is_cut(const bench_told *told)
{
    return bench_told_lacks_start(told) || told->ends_failed || told->has_gone_on ||
           told->ends_early;
}

/* Did the run hold memory for which the history gives no reason? */
static inline bool bench_told_lacks_reason(const bench_told *told)
{
    return told->n_pools > 0 || told->unexplained_bytes > 0;
}

static inline bool bench_told_is_whole(const bench_told *told)
{
    return !bench_told_is_cut(told) && !bench_told_is_unproven(told) &&
           !bench_told_lacks_reason(told);
}

/* Was the work recorded from a run, which may have other steps? Other works were made up. */
static inline bool bench_told_is_recorded(const bench_told *told)
{
    return told->n_steps > 0 || !bench_told_is_whole(told);
}

/* Does what fails on the recording fail on the run? A history with a gap may count blocks that were
 * freed there. A run that goes on after a refused request takes less on a smaller device. */
static inline bool bench_told_rules_out(const bench_told *told)
{
    return !told->is_apart && !told->has_gone_on;
}

/* Does a longer recording tell more, or one on a larger device? If not, only a run tells: each step
 * keeps more, or the run fills whatever device it has. */
static inline bool bench_told_wants_recording(const bench_told *told)
{
    bool has_more_steps = told->is_unrepeated || (told->is_growing && told->rise_bytes == 0);
    return bench_told_lacks_start(told) || told->ends_early || has_more_steps ||
           bench_told_wants_room(told);
}

/* A job leaves a part out if any of its ranks does. */
static inline void bench_told_unite(bench_told *into, const bench_told *other)
{
    bool was_refused = into->ends_failed || into->has_gone_on;
    bool is_refused = other->ends_failed || other->has_gone_on;
    if (is_refused && (!was_refused || other->refused_on_bytes < into->refused_on_bytes)) {
        into->refused_on_bytes = other->refused_on_bytes;
    }
    into->has_no_history = into->has_no_history || other->has_no_history;
    into->begins_late = into->begins_late || other->begins_late;
    into->has_run_over = into->has_run_over || other->has_run_over;
    into->is_apart = into->is_apart || other->is_apart;
    into->ends_failed = into->ends_failed || other->ends_failed;
    into->has_gone_on = into->has_gone_on || other->has_gone_on;
    into->may_run_over = into->may_run_over || other->may_run_over;
    into->ends_early = into->ends_early || other->ends_early;
    into->is_unrepeated = into->is_unrepeated || other->is_unrepeated;
    into->is_growing = into->is_growing || other->is_growing;
    into->lacks_requests = into->lacks_requests || other->lacks_requests;
    into->lacks_ends = into->lacks_ends || other->lacks_ends;
    if (other->rise_bytes > into->rise_bytes) {
        into->rise_bytes = other->rise_bytes;
        into->n_rise_steps = other->n_rise_steps;
    }
    if (other->held_before_bytes > into->held_before_bytes) {
        into->held_before_bytes = other->held_before_bytes;
    }
    if (other->live_before_bytes > into->live_before_bytes) {
        into->live_before_bytes = other->live_before_bytes;
    }
    if (into->n_steps == 0 || (other->n_steps > 0 && other->n_steps < into->n_steps)) {
        into->n_steps = other->n_steps;
        into->n_optimizer_steps = other->n_optimizer_steps;
    }
    if (other->most_refused_bytes > into->most_refused_bytes) {
        into->most_refused_bytes = other->most_refused_bytes;
    }
    if (other->unexplained_bytes > into->unexplained_bytes) {
        into->unexplained_bytes = other->unexplained_bytes;
        into->replayed_bytes = other->replayed_bytes;
    }
    if (other->pool_bytes > into->pool_bytes) {
        into->pool_bytes = other->pool_bytes;
        into->n_pools = other->n_pools;
    }
    if (other->pool_need_bytes > into->pool_need_bytes) {
        into->pool_need_bytes = other->pool_need_bytes;
    }
    if (into->growth[0] == '\0') {
        memcpy(into->growth, other->growth, sizeof into->growth);
    }
    into->n_entries = other->n_entries > into->n_entries ? other->n_entries : into->n_entries;
}

#endif

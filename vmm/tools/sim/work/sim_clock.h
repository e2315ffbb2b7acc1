/* sim_clock.h - sparse vector clocks. A clock lists streams with the position that must come first.
 *
 * A shared clock is immutable, so raising a clock makes a copy. NULL is the clock without entries.
 * Positions of a slot only grow, even when the slot goes to another stream, so a stale entry stays
 * true. */
#ifndef PLEAT_SIM_CLOCK_H
#define PLEAT_SIM_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sim_tick {
    uint32_t slot;
    uint64_t position;
} sim_tick;

typedef struct sim_clock {
    uint32_t refs;
    uint32_t n;
    uint32_t room;
    sim_tick ticks[];
} sim_clock;

static inline uint64_t sim_clock_get(const sim_clock *clock, uint32_t slot)
{
    for (uint32_t i = 0; clock != NULL && i < clock->n; i++) {
        if (clock->ticks[i].slot == slot) {
            return clock->ticks[i].position;
        }
    }
    return 0;
}

static inline sim_clock *sim_clock_ref(sim_clock *clock)
{
    if (clock != NULL) {
        clock->refs++;
    }
    return clock;
}

void sim_clock_unref(sim_clock *clock);
/* Raises *clock to at least `position` for `slot`. */
void sim_clock_raise(sim_clock **clock, uint32_t slot, uint64_t position);
void sim_clock_join(sim_clock **clock, const sim_clock *other);

#endif

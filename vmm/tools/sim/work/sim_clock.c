/* sim_clock.c - raises and joins sparse vector clocks. */
#include "vmm/tools/sim/work/sim_clock.h"

#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/memory/pool.h"

void sim_clock_unref(sim_clock *clock)
{
    if (clock != NULL && --clock->refs == 0) {
        free(clock);
    }
}

/* Makes *clock unshared, with room for one more tick. */
static sim_clock *own_clock(sim_clock **clock)
{
    sim_clock *old = *clock;
    uint32_t n = old == NULL ? 0 : old->n;
    if (old != NULL && old->refs == 1 && n < old->room) {
        return old;
    }
    uint32_t room = n < 4 ? 4 : 2 * n;
    sim_clock *fresh = sim_new(sizeof(*fresh) + room * sizeof(fresh->ticks[0]));
    fresh->refs = 1;
    fresh->n = n;
    fresh->room = room;
    if (n > 0) {
        memcpy(fresh->ticks, old->ticks, n * sizeof(fresh->ticks[0]));
    }
    sim_clock_unref(old);
    *clock = fresh;
    return fresh;
}

void sim_clock_raise(sim_clock **clock, uint32_t slot, uint64_t position)
{
    if (sim_clock_get(*clock, slot) >= position) {
        return;
    }
    sim_clock *own = own_clock(clock);
    for (uint32_t i = 0; i < own->n; i++) {
        if (own->ticks[i].slot == slot) {
            own->ticks[i].position = position;
            return;
        }
    }
    own->ticks[own->n++] = (sim_tick){ slot, position };
}

void sim_clock_join(sim_clock **clock, const sim_clock *other)
{
    for (uint32_t i = 0; other != NULL && i < other->n; i++) {
        sim_clock_raise(clock, other->ticks[i].slot, other->ticks[i].position);
    }
}

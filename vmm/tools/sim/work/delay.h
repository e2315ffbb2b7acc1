/* delay.h - lets calls take longer, as a test demands: real time, outside the lock. */
#ifndef PLEAT_SIM_DELAY_H
#define PLEAT_SIM_DELAY_H

#include "vmm/tools/sim/entries/entry.h"

/* Microseconds. SIM_DELAY_YIELD yields to other threads instead of sleeping. */
enum { SIM_DELAY_MOST = 10000000, SIM_DELAY_YIELD = SIM_DELAY_MOST + 1 };

typedef enum sim_delay_when { SIM_DELAY_BEFORE, SIM_DELAY_AFTER, SIM_DELAY_WHENS } sim_delay_when;

/* Sleep as long as calls of the entry are to sleep here. Takes no lock; the caller holds none. */
void sim_delay_take(sim_entry entry, sim_delay_when when);
/* entry == SIM_N_ENTRIES: every entry point of the driver. */
void sim_delay_set(sim_entry entry, sim_delay_when when, unsigned us);

#endif

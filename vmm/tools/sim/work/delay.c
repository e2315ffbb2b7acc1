/* delay.c - sleeps before and after calls, so that races show reliably.
 *
 * No lock. A call reads a delay when it reaches the delay's point, so a new delay takes effect
 * during running calls. */
#include "vmm/tools/sim/work/delay.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

static _Atomic unsigned delays[SIM_DELAY_WHENS][SIM_N_ENTRIES]; /* atomic */

static void sleep_us(unsigned us)
{
    struct timespec left = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

void sim_delay_take(sim_entry entry, sim_delay_when when)
{
    unsigned us = atomic_load_explicit(&delays[when][entry], memory_order_relaxed);
    if (us == SIM_DELAY_YIELD) {
        sched_yield();
    } else if (us > 0) {
        sleep_us(us);
    }
}

void sim_delay_set(sim_entry entry, sim_delay_when when, unsigned us)
{
    unsigned first = entry == SIM_N_ENTRIES ? 0 : (unsigned)entry;
    unsigned end = entry == SIM_N_ENTRIES ? (unsigned)SIM_N_CU_ENTRIES : (unsigned)entry + 1;
    for (unsigned i = first; i < end; i++) {
        atomic_store_explicit(&delays[when][i], us, memory_order_relaxed);
    }
}

/* hazard_list.c - the hazards found so far. All are counted, and the first 1,024 kept. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vmm/tools/sim/entries/entry.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/scope.h"

enum { MAX_KEPT = 1024 };

static pleat_sim_hazard kept[MAX_KEPT + 1]; /* lock: the last one is not kept */
static _Atomic uint64_t n_found;            /* atomic: written under the lock */

pleat_sim_hazard *sim_hazard_add(pleat_sim_hazard_kind kind, uint64_t ptr, uint64_t bytes,
                                 const char *format, ...)
{
    pleat_sim_hazard *hazard = &kept[n_found < MAX_KEPT ? n_found : MAX_KEPT];
    n_found++;
    *hazard = (pleat_sim_hazard){
        .kind = kind,
        .ptr = ptr,
        .bytes = bytes,
        .call = sim.call_number,
        .place = sim_scope_self()->place,
    };
    va_list args;
    va_start(args, format);
    vsnprintf(hazard->text, sizeof(hazard->text), format, args);
    va_end(args);
    return hazard;
}

/* Like a driver that reads behind the handle. */
static void crash(const char *kind, uint64_t handle, uint64_t died_in_call)
{
    fprintf(stderr,
            "pleat_sim: %s of the %s 0x%llx, which call %llu destroyed (dead_handles:crash)\n",
            sim_entry_symbol((sim_entry)sim.entry), kind, (unsigned long long)handle,
            (unsigned long long)died_in_call);
    (void)raise(SIGSEGV);
}

void sim_hazard_check_dead(const char *kind, uint64_t handle, uint64_t died_in_call)
{
    if (sim.conf.dead_handles == SIM_DEAD_CRASH) {
        crash(kind, handle, died_in_call);
    } else if (sim.conf.dead_handles == SIM_DEAD_HAZARD) {
        sim_hazard_add(PLEAT_SIM_DEAD_HANDLE, handle, 0, "%s of %s 0x%llx, destroyed in call %llu",
                       sim_entry_symbol((sim_entry)sim.entry), kind, (unsigned long long)handle,
                       (unsigned long long)died_in_call);
    }
}

uint64_t sim_hazard_count(void)
{
    return n_found;
}

size_t sim_hazard_copy(pleat_sim_hazard *out, size_t n)
{
    size_t n_kept = n_found < MAX_KEPT ? n_found : MAX_KEPT;
    size_t n_copied = n < n_kept ? n : n_kept;
    if (n_copied > 0) {
        memcpy(out, kept, n_copied * sizeof(out[0]));
    }
    return n_found;
}

void sim_hazard_reset(void)
{
    n_found = 0;
}

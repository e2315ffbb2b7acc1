/* entry.h - the entry points as seen by the simulator: numbers, rules, names of arguments. */
#ifndef PLEAT_SIM_ENTRY_H
#define PLEAT_SIM_ENTRY_H

#include "vmm/tools/sim/sim_list.h"

#define SIM_EXPORT __attribute__((visibility("default")))
#define SIM_UNPAREN(...) __VA_ARGS__

typedef enum sim_entry {
#define SIM_ENTRY_ENUM(field, symbol, need, params, args) SIM_CU_##field,
    SIM_LIST(SIM_ENTRY_ENUM)
#undef SIM_ENTRY_ENUM
        SIM_N_CU_ENTRIES,
    /* The simulator's own calls that the log shows too. */
    SIM_OWN_WORK = SIM_N_CU_ENTRIES,
    SIM_OWN_FILL,
    SIM_OWN_VERIFY,
    SIM_OWN_ADVANCE,
    SIM_OWN_FINISH,
    SIM_OWN_USE,
    SIM_OWN_USE_END,
    SIM_N_ENTRIES
} sim_entry;

/* Prototypes of the exported functions, so that a definition unlike the list does not compile. */
#define SIM_ENTRY_PROTOTYPE(field, symbol, need, params, args)                                     \
    SIM_EXPORT cu_result symbol(SIM_UNPAREN params);
SIM_LIST(SIM_ENTRY_PROTOTYPE)
#undef SIM_ENTRY_PROTOTYPE

/* Further versions of entry points, counted as calls of the listed version. */
SIM_EXPORT cu_result cuCtxCreate_v3(cu_context *ctx, const void *affinity, int n_affinity,
                                    unsigned flags, cu_device dev);
SIM_EXPORT cu_result cuCtxCreate_v4(cu_context *ctx, const void *params, unsigned flags,
                                    cu_device dev);
SIM_EXPORT cu_result cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags);

/* Rules for every call of an entry point, checked before anything else. */
enum {
    SIM_RULE_EARLY = 1,    /* works before cuInit */
    SIM_RULE_FALLIBLE = 2, /* changes the driver's state: a fault "in any call" may strike */
    SIM_RULE_VMM = 4,      /* NOT_SUPPORTED on a device without VMM, which also lacks pools */
    SIM_RULE_RECENT = 8,   /* newer than CUDA 11.2 */
    SIM_RULE_CONTEXT = 16, /* needs a current context */
    SIM_RULE_UNSAFE = 32,  /* unsafe during stream capture */
};

unsigned sim_entry_rules(sim_entry entry);
const char *sim_entry_symbol(sim_entry entry); /* without _v2 */
const char *sim_entry_args(sim_entry entry);   /* names of the logged arguments, by spaces */
/* "cuMemAlloc" or "cuMemAlloc_v2"; SIM_N_ENTRIES for an unknown name. */
sim_entry sim_entry_find(const char *name);

#endif

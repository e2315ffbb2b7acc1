/* entry_symbol.c - exported calls: entry points by name, in the version that a program was compiled
 * for. */
#include <string.h>

#include "vmm/tools/sim/entries/call.h"

enum { FOUND = 0, NOT_FOUND_AT_ALL = 1, VERSION_TOO_LOW = 2, LEAST_VERSION = 2000 };

typedef void (*any_function)(void);

static const any_function functions[SIM_N_CU_ENTRIES] = {
#define FUNCTION(field, symbol, need, params, args) [SIM_CU_##field] = (any_function)symbol,
    SIM_LIST(FUNCTION)
#undef FUNCTION
};

/* The one entry point with different arguments in later versions. */
static any_function create_context(int version)
{
    enum { SINCE_V3 = 11040, SINCE_V4 = 12050 };
    return version >= SINCE_V4   ? (any_function)cuCtxCreate_v4
           : version >= SINCE_V3 ? (any_function)cuCtxCreate_v3
                                 : (any_function)cuCtxCreate_v2;
}

static any_function find(const char *symbol, int version)
{
    sim_entry entry = sim_entry_find(symbol);
    bool is_missing = entry >= SIM_N_CU_ENTRIES || sim.conf.lacks[entry] ||
                      ((sim_entry_rules(entry) & SIM_RULE_RECENT) != 0 &&
                       sim.conf.profile == SIM_PROFILE_OLD_DRIVER);
    if (is_missing) {
        return NULL;
    }
    return entry == SIM_CU_ctx_create ? create_context(version) : functions[entry];
}

cu_result cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags,
                              int *status)
{
    enum { MOST_FLAGS = 2 };
    sim_call call;
    any_function found = NULL;
    sim_call_begin(&call, SIM_CU_proc_address, (uint64_t)version, 0, 0, 0);
    if (call.result == CU_SUCCESS && (symbol == NULL || out == NULL || flags > MOST_FLAGS)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        found = version >= LEAST_VERSION ? find(symbol, version) : NULL;
        call.result = found != NULL ? CU_SUCCESS : CU_NOT_FOUND;
        memcpy(out, &found, sizeof(found));
        if (status != NULL) {
            *status = found != NULL             ? FOUND
                      : version < LEAST_VERSION ? VERSION_TOO_LOW
                                                : NOT_FOUND_AT_ALL;
        }
    }
    return sim_call_end(&call);
}

cu_result cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, out, version, flags, NULL);
}

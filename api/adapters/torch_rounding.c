/* torch_rounding.c - torch's setting roundup_power2_divisions on the default instance. */
#include "api/adapters/pleat_torch.h"
#include "api/instance/rounding.h"
#include "segments/base/rounding.h"

static pleat_status read_table(const size_t *divisions, size_t n, unsigned out[PL_N_DIVISIONS])
{
    if (!divisions || n != PL_N_DIVISIONS) {
        return pl_error_set(PLEAT_EINVAL, n, "roundup_power2_divisions: %zu entries, not %d", n,
                            PL_N_DIVISIONS);
    }
    for (unsigned i = 0; i < PL_N_DIVISIONS; i++) {
        if (!pl_rounding_is_division(divisions[i])) {
            return pl_error_set(PLEAT_EINVAL, divisions[i],
                                "roundup_power2_divisions: %zu is neither 0 nor a power of two up "
                                "to %d",
                                divisions[i], PL_ROUNDING_MOST);
        }
        out[i] = (unsigned)divisions[i];
    }
    return PLEAT_OK;
}

pleat_status pleat_torch_set_roundup(const size_t *divisions, size_t n)
{
    unsigned table[PL_N_DIVISIONS];
    pleat handle;
    pleat_status st = read_table(divisions, n, table);
    st = st == PLEAT_OK ? pleat_default(&handle) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    st = pl_instance_set_rounding(use.instance, table);
    pl_use_leave(use);
    return st;
}

/* fault.c - the rules "the k-th call fails" and "every call from the k-th on fails"; several may
 * apply. */
#include "vmm/tools/sim/entries/fault.h"

enum { MAX_RULES = 64 };

typedef struct fault_rule {
    sim_entry entry; /* SIM_N_ENTRIES: any fallible one */
    uint64_t n_left; /* calls to let pass */
    bool is_from;
    cu_result code;
} fault_rule;

bool sim_fault_is_armed;
static fault_rule rules[MAX_RULES]; /* lock */
static unsigned n_rules;            /* lock */
static uint64_t n_struck;           /* lock */

cu_result sim_fault_strike(sim_entry entry, bool is_fallible)
{
    cu_result code = CU_SUCCESS;
    unsigned n_kept = 0;
    for (unsigned i = 0; i < n_rules; i++) {
        fault_rule rule = rules[i];
        bool is_over = false;
        if (rule.entry == entry || (rule.entry == SIM_N_ENTRIES && is_fallible)) {
            if (rule.n_left > 0) {
                rule.n_left--;
            } else {
                code = rule.code;
                is_over = !rule.is_from;
            }
        }
        rules[n_kept] = rule;
        n_kept += !is_over;
    }
    n_rules = n_kept;
    sim_fault_is_armed = n_rules > 0;
    n_struck += code != CU_SUCCESS;
    return code;
}

bool sim_fault_add(sim_entry entry, uint64_t k, bool is_from, cu_result code)
{
    if (n_rules == MAX_RULES) {
        return false;
    }
    rules[n_rules++] = (fault_rule){ entry, k, is_from, code };
    sim_fault_is_armed = true;
    return true;
}

void sim_fault_clear(void)
{
    n_rules = 0;
    sim_fault_is_armed = false;
}

uint64_t sim_fault_count(void)
{
    return n_struck;
}

void sim_fault_reset(void)
{
    sim_fault_clear();
    n_struck = 0;
}

/* call.c - admits a call: initialised, not forked, no fault, known to the profile, in a context. */
#include "vmm/tools/sim/entries/call.h"

#include "vmm/tools/sim/cost.h"
#include "vmm/tools/sim/entries/fault.h"
#include "vmm/tools/sim/entries/log.h"
#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/delay.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/user_object.h"

static cu_result check_profile(sim_entry entry, unsigned rules)
{
    if (entry < SIM_N_CU_ENTRIES && sim.conf.lacks[entry]) {
        return CU_NOT_FOUND;
    }
    if ((rules & SIM_RULE_VMM) != 0 && sim.conf.profile == SIM_PROFILE_NO_VMM) {
        return CU_NOT_SUPPORTED;
    }
    if ((rules & SIM_RULE_RECENT) != 0 && sim.conf.profile == SIM_PROFILE_OLD_DRIVER) {
        return CU_NOT_FOUND;
    }
    return CU_SUCCESS;
}

static cu_result check_rules(sim_entry entry, unsigned rules)
{
    sim_context *context;
    cu_result result = check_profile(entry, rules);
    if (result == CU_SUCCESS && (rules & SIM_RULE_CONTEXT) != 0) {
        result = sim_context_current(&context);
    }
    bool is_of_vmm = entry >= SIM_CU_address_reserve && entry <= SIM_CU_mem_import;
    bool is_unsafe = (rules & SIM_RULE_UNSAFE) != 0 || (is_of_vmm && sim.conf.is_vmm_unsafe);
    if (result == CU_SUCCESS && is_unsafe && sim.captures != NULL) {
        result = sim_capture_unsafe_call();
    }
    return result;
}

static cu_result admit(sim_entry entry)
{
    unsigned rules = sim_entry_rules(entry);
    bool is_early = (rules & SIM_RULE_EARLY) != 0 && !(sim.is_forked && entry == SIM_CU_init);
    sim.call_number++;
    sim.n_calls[entry]++;
    if (entry < SIM_N_CU_ENTRIES) {
        sim.n_cu_calls++;
    }
    if (!is_early && (!sim.is_initialized || sim.is_forked)) {
        return CU_NOT_INITIALIZED;
    }
    if (!is_early && sim_user_object_is_running()) {
        sim_hazard_add(PLEAT_SIM_CALL_IN_DESTRUCTOR, 0, 0,
                       "%s in the destructor of a user object, which may call no driver",
                       sim_entry_symbol(entry));
        return CU_NOT_PERMITTED;
    }
    sim.cost_us += sim_costs[entry].call;
    if (sim.broken != 0 && (rules & (SIM_RULE_FALLIBLE | SIM_RULE_CONTEXT)) != 0) {
        return (cu_result)sim.broken;
    }
    if (sim_fault_is_armed && entry < SIM_N_CU_ENTRIES) {
        cu_result code = sim_fault_strike(entry, (rules & SIM_RULE_FALLIBLE) != 0);
        if (code != CU_SUCCESS) {
            return code;
        }
    }
    return check_rules(entry, rules);
}

void sim_call_begin(sim_call *call, sim_entry entry, uint64_t arg0, uint64_t arg1, uint64_t arg2,
                    uint64_t arg3)
{
    sim_delay_take(entry, SIM_DELAY_BEFORE);
    sim_state_lock();
    sim.entry = (int)entry;
    call->entry = entry;
    call->cost_us = sim.cost_us;
    call->args[0] = arg0;
    call->args[1] = arg1;
    call->args[2] = arg2;
    call->args[3] = arg3;
    call->result = admit(entry);
    call->number = sim.call_number;
}

cu_result sim_call_end(const sim_call *call)
{
    sim_log_add(call);
    sim_due *due = sim_user_object_take_due();
    sim_state_unlock();
    sim_user_object_run(due);
    sim_delay_take(call->entry, SIM_DELAY_AFTER);
    return call->result;
}

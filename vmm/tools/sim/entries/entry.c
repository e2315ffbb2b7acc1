/* entry.c - one line of rules per entry point.
 *
 * The CUDA Driver API reference says which calls need a context, and which are unsafe during a
 * capture. No VMM call needs a context and none disturbs a capture (reference/cuda-vmm.md, section
 * 3). Pools need VMM, so a device without VMM has no pools. Only calls that change the driver's
 * state are FALLIBLE. Queries fail only if a fault names them. */
#include "vmm/tools/sim/entries/entry.h"

#include <string.h>

#define EARLY SIM_RULE_EARLY
#define FALLIBLE SIM_RULE_FALLIBLE
#define VMM SIM_RULE_VMM
#define RECENT SIM_RULE_RECENT
#define CONTEXT SIM_RULE_CONTEXT
#define UNSAFE SIM_RULE_UNSAFE

typedef struct entry_rule {
    unsigned rules;
    const char *args;
} entry_rule;

static const entry_rule rules[SIM_N_ENTRIES] = {
    [SIM_CU_init] = { EARLY, "flags" },
    [SIM_CU_driver_version] = { EARLY, "version" },
    [SIM_CU_device_count] = { 0, "count" },
    [SIM_CU_device_get] = { 0, "ordinal" },
    [SIM_CU_device_name] = { 0, "device" },
    [SIM_CU_device_attribute] = { 0, "attribute device value" },
    [SIM_CU_device_total_mem] = { 0, "device bytes" },
    [SIM_CU_device_can_access] = { 0, "device peer can" },
    [SIM_CU_primary_retain] = { FALLIBLE, "device context" },
    [SIM_CU_primary_release] = { FALLIBLE, "device" },
    [SIM_CU_primary_state] = { FALLIBLE, "device active" },
    [SIM_CU_ctx_push] = { FALLIBLE, "context" },
    [SIM_CU_ctx_pop] = { 0, "context" },
    [SIM_CU_ctx_get_current] = { 0, "context" },
    [SIM_CU_ctx_get_device] = { CONTEXT, "device" },
    [SIM_CU_proc_address] = { EARLY, "version" },
    [SIM_CU_ctx_create] = { FALLIBLE, "context flags device" },
    [SIM_CU_ctx_destroy] = { FALLIBLE, "context" },
    [SIM_CU_ctx_set_current] = { FALLIBLE, "context" },
    [SIM_CU_ctx_synchronize] = { FALLIBLE | CONTEXT, "" },
    [SIM_CU_ctx_record_event] = { FALLIBLE | CONTEXT | RECENT, "context event" },
    [SIM_CU_mem_get_info] = { CONTEXT, "free total" },
    [SIM_CU_mem_alloc] = { FALLIBLE | CONTEXT | UNSAFE, "ptr bytes" },
    [SIM_CU_mem_free] = { FALLIBLE | CONTEXT | UNSAFE, "ptr" },
    [SIM_CU_host_alloc] = { FALLIBLE | CONTEXT | UNSAFE, "ptr bytes flags" },
    [SIM_CU_host_free] = { FALLIBLE | CONTEXT | UNSAFE, "ptr" },
    [SIM_CU_mem_alloc_host] = { FALLIBLE | CONTEXT | UNSAFE, "ptr bytes" },
    [SIM_CU_host_register] = { FALLIBLE | CONTEXT | UNSAFE, "ptr bytes flags" },
    [SIM_CU_host_unregister] = { FALLIBLE | CONTEXT | UNSAFE, "ptr" },
    [SIM_CU_host_pointer] = { CONTEXT, "ptr host flags" },
    [SIM_CU_mem_alloc_managed] = { FALLIBLE | CONTEXT | UNSAFE, "ptr bytes flags" },
    [SIM_CU_mem_alloc_async] = { FALLIBLE | VMM | CONTEXT, "ptr bytes stream" },
    [SIM_CU_mem_free_async] = { FALLIBLE | VMM | CONTEXT, "ptr stream" },
    [SIM_CU_pool_default] = { VMM, "device pool" },
    [SIM_CU_pool_create] = { FALLIBLE | VMM, "pool device bytes handle_types" },
    [SIM_CU_pool_destroy] = { FALLIBLE | VMM, "pool" },
    [SIM_CU_pool_set] = { FALLIBLE | VMM | UNSAFE, "pool attribute value" },
    [SIM_CU_pool_get] = { VMM | UNSAFE, "pool attribute value" },
    [SIM_CU_pool_set_access] = { FALLIBLE | VMM, "pool access count" },
    [SIM_CU_pool_trim] = { FALLIBLE | VMM, "pool bytes" },
    [SIM_CU_pool_alloc_async] = { FALLIBLE | VMM | CONTEXT, "ptr bytes pool stream" },
    [SIM_CU_address_reserve] = { FALLIBLE | VMM, "ptr bytes alignment hint" },
    [SIM_CU_address_free] = { FALLIBLE | VMM, "ptr bytes" },
    [SIM_CU_mem_create] = { FALLIBLE | VMM, "handle bytes device handle_types" },
    [SIM_CU_mem_release] = { FALLIBLE | VMM, "handle" },
    [SIM_CU_mem_map] = { FALLIBLE | VMM, "ptr bytes offset handle" },
    [SIM_CU_mem_unmap] = { FALLIBLE | VMM, "ptr bytes" },
    [SIM_CU_mem_set_access] = { FALLIBLE | VMM, "ptr bytes access count" },
    [SIM_CU_mem_get_access] = { VMM, "ptr device access" },
    [SIM_CU_mem_granularity] = { VMM, "bytes option" },
    [SIM_CU_mem_retain_handle] = { FALLIBLE | VMM, "handle ptr" },
    [SIM_CU_mem_handle_prop] = { VMM, "handle" },
    [SIM_CU_mem_export] = { FALLIBLE | VMM, "handle handle_type fd" },
    [SIM_CU_mem_import] = { FALLIBLE | VMM, "handle handle_type fd" },
    [SIM_CU_mem_address_range] = { CONTEXT, "ptr base bytes" },
    [SIM_CU_memset_async] = { FALLIBLE | CONTEXT, "ptr bytes value stream" },
    [SIM_CU_memcpy_dtoh_async] = { FALLIBLE | CONTEXT, "from bytes to stream" },
    [SIM_CU_memcpy_htod_async] = { FALLIBLE | CONTEXT, "to bytes from stream" },
    [SIM_CU_memcpy_dtod_async] = { FALLIBLE | CONTEXT, "to from bytes stream" },
    [SIM_CU_memset] = { FALLIBLE | CONTEXT, "ptr bytes value" },
    [SIM_CU_memcpy_htod] = { FALLIBLE | CONTEXT | UNSAFE, "to bytes from" },
    [SIM_CU_memcpy_dtoh] = { FALLIBLE | CONTEXT | UNSAFE, "from bytes to" },
    [SIM_CU_memcpy_dtod] = { FALLIBLE | CONTEXT | UNSAFE, "to from bytes" },
    [SIM_CU_range_handle] = { FALLIBLE | VMM | RECENT, "ptr bytes type" },
    [SIM_CU_multicast_create] = { FALLIBLE | VMM | RECENT, "group" },
    [SIM_CU_multicast_add] = { FALLIBLE | VMM | RECENT, "group device" },
    [SIM_CU_multicast_bind_mem] = { FALLIBLE | VMM | RECENT, "group offset handle bytes" },
    [SIM_CU_multicast_bind_addr] = { FALLIBLE | VMM | RECENT, "group offset ptr bytes" },
    [SIM_CU_multicast_unbind] = { FALLIBLE | VMM | RECENT, "group device offset bytes" },
    [SIM_CU_multicast_granularity] = { VMM | RECENT, "bytes option" },
    [SIM_CU_graph_get_nodes] = { 0, "graph nodes n" },
    [SIM_CU_ipc_mem_get] = { FALLIBLE | CONTEXT, "ptr" },
    [SIM_CU_ipc_mem_open] = { FALLIBLE | CONTEXT | UNSAFE, "ptr flags" },
    [SIM_CU_ipc_mem_close] = { FALLIBLE | CONTEXT | UNSAFE, "ptr" },
    [SIM_CU_ipc_event_get] = { FALLIBLE | CONTEXT | UNSAFE, "event" },
    [SIM_CU_ipc_event_open] = { FALLIBLE | CONTEXT, "event" },
    [SIM_CU_pointer_attribute] = { 0, "attribute ptr" },
    [SIM_CU_stream_create] = { FALLIBLE | CONTEXT, "stream flags id" },
    [SIM_CU_stream_create_priority] = { FALLIBLE | CONTEXT, "stream flags id priority" },
    [SIM_CU_priority_range] = { CONTEXT, "least greatest" },
    [SIM_CU_stream_priority] = { CONTEXT, "stream priority" },
    [SIM_CU_stream_flags] = { CONTEXT, "stream flags" },
    [SIM_CU_stream_destroy] = { FALLIBLE | CONTEXT, "stream" },
    [SIM_CU_stream_id] = { CONTEXT | RECENT | UNSAFE, "stream id" },
    [SIM_CU_stream_ctx] = { CONTEXT | UNSAFE, "stream context" },
    [SIM_CU_stream_green] = { CONTEXT | RECENT | UNSAFE, "stream context green" },
    [SIM_CU_device_resource] = { RECENT, "device type" },
    [SIM_CU_resource_split] = { RECENT, "n flags least" },
    [SIM_CU_resource_describe] = { RECENT, "n" },
    [SIM_CU_green_create] = { FALLIBLE | RECENT, "green flags device" },
    [SIM_CU_green_destroy] = { FALLIBLE | RECENT, "green" },
    [SIM_CU_green_context] = { FALLIBLE | RECENT, "green context" },
    [SIM_CU_green_resource] = { RECENT, "green type" },
    [SIM_CU_green_stream] = { FALLIBLE | RECENT, "stream flags id green" },
    [SIM_CU_green_record] = { FALLIBLE | CONTEXT | RECENT, "green event" },
    [SIM_CU_stream_get_green] = { CONTEXT | RECENT | UNSAFE, "stream green" },
    [SIM_CU_stream_query] = { CONTEXT | UNSAFE, "stream" },
    [SIM_CU_stream_synchronize] = { FALLIBLE | CONTEXT | UNSAFE, "stream" },
    [SIM_CU_stream_wait_event] = { FALLIBLE | CONTEXT, "stream event" },
    [SIM_CU_stream_is_capturing] = { CONTEXT, "stream status" },
    [SIM_CU_stream_capture_info] = { CONTEXT, "stream status id" },
    [SIM_CU_stream_begin_capture] = { FALLIBLE | CONTEXT, "stream mode" },
    [SIM_CU_stream_end_capture] = { FALLIBLE | CONTEXT, "stream graph" },
    [SIM_CU_thread_capture_mode] = { 0, "mode previous" },
    [SIM_CU_stream_write64] = { FALLIBLE | CONTEXT | RECENT, "stream ptr value" },
    [SIM_CU_stream_write32] = { FALLIBLE | CONTEXT | RECENT, "stream ptr value" },
    [SIM_CU_stream_wait32] = { FALLIBLE | CONTEXT | RECENT, "stream ptr value" },
    [SIM_CU_stream_wait64] = { FALLIBLE | CONTEXT | RECENT, "stream ptr value" },
    [SIM_CU_stream_batch] = { FALLIBLE | CONTEXT | RECENT, "stream n" },
    [SIM_CU_event_create] = { FALLIBLE | CONTEXT, "event flags" },
    [SIM_CU_event_record] = { FALLIBLE | CONTEXT, "event stream" },
    [SIM_CU_event_query] = { CONTEXT | UNSAFE, "event" },
    [SIM_CU_event_synchronize] = { FALLIBLE | CONTEXT | UNSAFE, "event" },
    [SIM_CU_event_elapsed] = { CONTEXT, "start end" },
    [SIM_CU_event_destroy] = { FALLIBLE | CONTEXT, "event" },
    [SIM_CU_graph_destroy] = { FALLIBLE, "graph" },
    [SIM_CU_graph_instantiate] = { FALLIBLE | CONTEXT | RECENT, "exec graph flags" },
    [SIM_CU_graph_launch] = { FALLIBLE | CONTEXT, "exec stream" },
    [SIM_CU_graph_exec_destroy] = { FALLIBLE, "exec" },
    [SIM_CU_user_object_create] = { FALLIBLE, "object ptr count flags" },
    [SIM_CU_user_object_retain] = { FALLIBLE, "object count" },
    [SIM_CU_user_object_release] = { FALLIBLE, "object count" },
    [SIM_CU_graph_retain_user_object] = { FALLIBLE, "graph object count flags" },
    [SIM_CU_graph_release_user_object] = { FALLIBLE, "graph object count" },
    [SIM_CU_error_name] = { EARLY, "error" },
    [SIM_CU_error_string] = { EARLY, "error" },
    [SIM_OWN_WORK] = { 0, "stream ptr bytes accesses" },
    [SIM_OWN_FILL] = { 0, "stream ptr bytes seed" },
    [SIM_OWN_VERIFY] = { 0, "stream ptr bytes seed" },
    [SIM_OWN_ADVANCE] = { 0, "operations" },
    [SIM_OWN_FINISH] = { 0, "" },
    [SIM_OWN_USE] = { 0, "stream ptr bytes after" },
    [SIM_OWN_USE_END] = { 0, "stream use" },
};

/* Symbols as exported; the version suffix is not part of an entry point's name. */
static const char *const symbols[SIM_N_ENTRIES] = {
#define SIM_ENTRY_SYMBOL(field, symbol, need, params, args) [SIM_CU_##field] = #symbol,
    SIM_LIST(SIM_ENTRY_SYMBOL)
#undef SIM_ENTRY_SYMBOL
        [SIM_OWN_WORK] = "pleat_sim_work",
    [SIM_OWN_FILL] = "pleat_sim_fill",
    [SIM_OWN_VERIFY] = "pleat_sim_verify",
    [SIM_OWN_ADVANCE] = "pleat_sim_advance",
    [SIM_OWN_FINISH] = "pleat_sim_finish",
    [SIM_OWN_USE] = "pleat_sim_use",
    [SIM_OWN_USE_END] = "pleat_sim_use_end",
};

/* Length of a symbol without _v2, _v3; but cuStreamGetCtx_v2 is a call of its own. */
static size_t base_length(const char *symbol)
{
    size_t length = strlen(symbol);
    if (length > 3 && strcmp(symbol, "cuStreamGetCtx_v2") != 0 && symbol[length - 3] == '_' &&
        symbol[length - 2] == 'v') {
        length -= 3;
    }
    return length;
}

unsigned sim_entry_rules(sim_entry entry)
{
    return rules[entry].rules;
}

const char *sim_entry_args(sim_entry entry)
{
    return rules[entry].args;
}

const char *sim_entry_symbol(sim_entry entry)
{
    static char names[SIM_N_ENTRIES][48]; /* filled before the first read: guarded by the lock */
    if (names[entry][0] == '\0') {
        memcpy(names[entry], symbols[entry], base_length(symbols[entry]));
    }
    return names[entry];
}

sim_entry sim_entry_find(const char *name)
{
    size_t length = base_length(name);
    for (int i = 0; i < SIM_N_ENTRIES; i++) {
        if (base_length(symbols[i]) == length && memcmp(symbols[i], name, length) == 0) {
            return (sim_entry)i;
        }
    }
    return SIM_N_ENTRIES;
}

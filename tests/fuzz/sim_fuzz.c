/* sim_fuzz.c - reads any text as the simulator's configuration and a cost file. The text is refused
 * with a sentence, or a small program runs on the simulator.
 *
 * The first line is the configuration. The other lines are the cost file, which `costs:@` names. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "vmm/base/pleat_sim.h"
#include "vmm/tools/sim/conf.h"
#include "vmm/tools/sim/entries/entry.h"
#include "vmm/tools/sim/state.h"

/* Reserve, create, map, write, copy and give back a granule, if there is room. */
static void run_granule(uint64_t granule)
{
    cu_mem_prop prop = { .type = CU_ALLOCATION_PINNED, .location = { .type = CU_LOCATION_DEVICE } };
    cu_access_desc access = { .location = prop.location, .flags = CU_ACCESS_READ_WRITE };
    cu_devptr at = 0;
    cu_mem_handle handle = 0;
    if (cuMemAddressReserve(&at, granule, 0, 0, 0) != CU_SUCCESS) {
        return;
    }
    if (cuMemCreate(&handle, granule, &prop, 0) == CU_SUCCESS) {
        if (cuMemMap(at, granule, 0, handle, 0) == CU_SUCCESS) {
            fuzz_check(cuMemSetAccess(at, granule, &access, 1) == CU_SUCCESS, "no access");
            fuzz_check(pleat_sim_fill(NULL, at, 4096, 7) == CU_SUCCESS, "no fill");
            fuzz_check(pleat_sim_verify(NULL, at, 4096, 7) == CU_SUCCESS, "no verification");
            pleat_sim_finish();
            fuzz_check(cuMemUnmap(at, granule) == CU_SUCCESS, "no unmap");
        }
        fuzz_check(cuMemRelease(handle) == CU_SUCCESS, "no release");
    }
    fuzz_check(cuMemAddressFree(at, granule) == CU_SUCCESS, "no free of addresses");
}

static void run_program(void)
{
    cu_context context = NULL;
    pleat_sim_counts counts;
    int n_devices = 0;
    size_t total = 0;
    fuzz_check(cuInit(0) == CU_SUCCESS, "no driver");
    fuzz_check(cuDeviceGetCount(&n_devices) == CU_SUCCESS && n_devices > 0, "no device");
    for (int i = 0; i < n_devices; i++) {
        fuzz_check(cuDeviceTotalMem_v2(&total, i) == CU_SUCCESS && total > 0, "no memory");
    }
    cu_result made = cuDevicePrimaryCtxRetain(&context, 0);
    if (made == CU_OUT_OF_MEMORY && sim.conf.context_bytes > 0) {
        return; /* a context's share may be more than the device has */
    }
    fuzz_check(made == CU_SUCCESS && cuCtxPushCurrent_v2(context) == CU_SUCCESS, "no context");
    size_t granule = 0;
    cu_mem_prop prop = { .type = CU_ALLOCATION_PINNED, .location = { .type = CU_LOCATION_DEVICE } };
    if (cuMemGetAllocationGranularity(&granule, &prop, 0) == CU_SUCCESS) {
        run_granule(granule);
    }
    fuzz_check(cuCtxPopCurrent_v2(&context) == CU_SUCCESS &&
                   cuDevicePrimaryCtxRelease_v2(0) == CU_SUCCESS,
               "the context stays");
    fuzz_check(pleat_sim_count(-1, &counts) == 0 && counts.hazards == 0 && counts.handles == 0 &&
                   counts.mappings == 0 && counts.reservations == 0,
               "something is left");
    fuzz_check(pleat_sim_cost_us() >= 0, "a cost below zero");
}

/* `costs:@` in the configuration becomes the path of the cost file. */
static char *insert_path(const char *conf, const char *path)
{
    const char *place = strstr(conf, "costs:@");
    size_t n_head = place ? (size_t)(place - conf) + strlen("costs:") : strlen(conf);
    size_t n = strlen(conf) + strlen(path) + 1;
    char *text = malloc(n);
    fuzz_check(text, "out of host memory");
    snprintf(text, n, "%.*s%s%s", (int)n_head, conf, place ? path : "",
             place ? conf + n_head + 1 : "");
    return text;
}

/* A configuration may remove calls that every program needs. */
static bool can_run_program(void)
{
    for (int entry = 0; entry < SIM_N_CU_ENTRIES; entry++) {
        if (sim.conf.lacks[entry]) {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *lines = fuzz_text(data, n);
    char *rest = lines;
    const char *conf = strsep(&rest, "\n");
    const char *costs = rest ? rest : "";
    /* The cost file may contain NUL. */
    size_t n_costs = rest ? n - (size_t)(rest - lines) : 0;
    if (strchr(conf, '/') == NULL) { /* the only file that is read is ours */
        char *whole = insert_path(conf, fuzz_plain_file((const uint8_t *)costs, n_costs));
        if (pleat_sim_reset(whole) != 0) {
            fuzz_check(pleat_sim_error()[0] != '\0', "refused without a sentence");
        } else if (can_run_program()) {
            run_program();
        }
        free(whole);
    }
    free(lines);
    return 0;
}

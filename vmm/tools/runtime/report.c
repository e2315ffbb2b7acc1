/* report.c - reports totals of the run when the process ends.
 *
 * PLEAT_RUNTIME_REPORT=1 writes lines for people on stderr. Any other value names a file for one
 * JSON object. Only the process that used the device reports. Its forked children do not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/runtime/runtime.h"

static pid_t owner; /* const after rt_report_begin */

void rt_report_begin(void)
{
    owner = getpid();
}

/* The counted calls, as the simulator names them. */
static const char *const calls[] = {
    "cuMemAlloc",     "cuMemFree",           "cuMemCreate",  "cuMemMap",
    "cuMemSetAccess", "cuMemUnmap",          "cuMemRelease", "cuMemAllocAsync",
    "cuMemFreeAsync", "cuStreamSynchronize", "cuEventRecord"
};

enum { N_CALLS = sizeof(calls) / sizeof(calls[0]) };

static double gibibytes(uint64_t bytes)
{
    return (double)bytes / (double)(UINT64_C(1) << 30);
}

static void write_text(FILE *file)
{
    pleat_sim_counts counts;
    for (int i = 0; pleat_sim_count(i, &counts) == 0; i++) {
        fprintf(file,
                "pleat_runtime: device %d of %.2f GiB held %.2f GiB at most, %.2f at the end\n", i,
                gibibytes(counts.capacity_bytes), gibibytes(counts.peak_physical_bytes),
                gibibytes(counts.physical_bytes));
    }
    fprintf(file, "pleat_runtime: %llu kernels",
            (unsigned long long)pleat_sim_n_calls("pleat_sim_work"));
    for (int i = 0; i < N_CALLS; i++) {
        unsigned long long n = (unsigned long long)pleat_sim_n_calls(calls[i]);
        if (n > 0) {
            fprintf(file, ", %llu %s", n, calls[i]);
        }
    }
    fprintf(file, "; a model of the driver gives %.1f ms for its calls\n",
            pleat_sim_cost_us() / 1000);
}

static void write_json(FILE *file)
{
    pleat_sim_counts counts;
    fprintf(file, "{\"devices\": [");
    for (int i = 0; pleat_sim_count(i, &counts) == 0; i++) {
        fprintf(file,
                "%s{\"capacity_bytes\": %llu, \"peak_bytes\": %llu, \"held_bytes\": %llu, "
                "\"hazards\": %llu}",
                i == 0 ? "" : ", ", (unsigned long long)counts.capacity_bytes,
                (unsigned long long)counts.peak_physical_bytes,
                (unsigned long long)counts.physical_bytes, (unsigned long long)counts.hazards);
    }
    fprintf(file, "], \"kernels\": %llu, \"calls\": {",
            (unsigned long long)pleat_sim_n_calls("pleat_sim_work"));
    for (int i = 0; i < N_CALLS; i++) {
        fprintf(file, "%s\"%s\": %llu", i == 0 ? "" : ", ", calls[i],
                (unsigned long long)pleat_sim_n_calls(calls[i]));
    }
    fprintf(file, "}, \"driver_us\": %.1f}\n", pleat_sim_cost_us());
}

__attribute__((destructor)) static void report(void)
{
    const char *to = secure_getenv("PLEAT_RUNTIME_REPORT");
    if (owner == 0 || owner != getpid() || to == NULL || to[0] == '\0' || strcmp(to, "0") == 0) {
        return;
    }
    if (strcmp(to, "1") == 0) {
        write_text(stderr);
        return;
    }
    FILE *file = fopen(to, "w");
    if (file == NULL) {
        fprintf(stderr, "pleat_runtime: %s cannot be written\n", to);
        return;
    }
    write_json(file);
    bool is_whole = ferror(file) == 0;
    if (fclose(file) != 0 || !is_whole) {
        fprintf(stderr, "pleat_runtime: %s cannot be written\n", to);
    }
}

/* probe_report.h - prints the results of `pleat probe`: as a table, as JSON, as the simulator's
 * cost file. */
#ifndef PLEAT_BENCH_PROBE_REPORT_H
#define PLEAT_BENCH_PROBE_REPORT_H

#include "bench/base/failure.h"
#include "vmm/tools/measure/measure.h"

typedef struct bench_probe {
    char kernel[192];  /* "Linux 6.1.0 x86_64" */
    char verdict[256]; /* "works", or why virtual memory management does not */
    bool has_vmm;
    pl_measure_report report;
} bench_probe;

void bench_probe_print(const bench_probe *probe);
void bench_probe_print_json(const bench_probe *probe);
/* Writes the format of the simulator's key `costs`. */
bool bench_probe_write_costs(const bench_probe *probe, const char *path, bench_failure *failure);

#endif

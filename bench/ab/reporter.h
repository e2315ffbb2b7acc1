/* reporter.h - runs the program that draws the report of a folder. */
#ifndef PLEAT_BENCH_REPORTER_H
#define PLEAT_BENCH_REPORTER_H

#include "bench/run/workers.h"

/* Draw report.html in `folder` by `program`: "report.py", of a fleet "fleet.py"; `option` of the
 * program may be NULL. If that fails, stderr shows the reason and the command that draws it later;
 * the data stay there. */
bench_workers_end bench_reporter_run(const char *folder, const char *program, const char *option);

#endif

/* reporter.h - run the program that draws the report of a folder. */
#ifndef PLEAT_BENCH_REPORTER_H
#define PLEAT_BENCH_REPORTER_H

#include "bench/ab/workers.h"

/* Draw report.html in `folder`. When it cannot be drawn stderr says why, and which command draws it
 * later: the data are there all the same. */
bench_workers_end bench_reporter_run(const char *folder);

#endif

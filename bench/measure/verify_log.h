/* verify_log.h - reads the sizes of calls from the simulator's log, in order. */
#ifndef PLEAT_BENCH_VERIFY_LOG_H
#define PLEAT_BENCH_VERIFY_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "bench/base/failure.h"
#include "vmm/driver.h"

/* Write the sizes of the last n successful calls of `entry` into bytes[0..n), from the simulator's
 * log, which must be full. False and a message when the log holds fewer, or cannot be read. */
bool bench_verify_log_read(const pl_driver *drv, pl_entry entry, uint64_t *bytes, size_t n,
                           bench_failure *failure);

#endif

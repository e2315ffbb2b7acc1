/* verify_log.h - the sizes that a simulated driver was asked for, in order. */
#ifndef PLEAT_BENCH_VERIFY_LOG_H
#define PLEAT_BENCH_VERIFY_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "bench/base/failure.h"
#include "vmm/driver.h"

/* The sizes of the last n successful calls of `entry`, from the simulator's log, which must be a
 * full one; into bytes[0..n). False and a message when it holds fewer, or cannot be read. */
bool bench_verify_log_read(const pl_driver *drv, pl_entry entry, uint64_t *bytes, size_t n,
                           bench_failure *failure);

#endif

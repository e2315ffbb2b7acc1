/* rmm.h - the logs of RMM's logging_resource_adaptor: Thread,Time,Action,Pointer,Size,Stream.
 *
 * Actions are `allocate`, `allocate failure` and `free`, of all threads, in the order of lines.
 * Addresses and streams are hexadecimal, in any form that a version of RMM writes: 0x7f00, 7f00,
 * (nil). The stream of a free is ignored, since a run frees a block on its own stream. Source: RMM,
 * logging_resource_adaptor.hpp; columns may come in any order. */
#ifndef PLEAT_BENCH_RMM_H
#define PLEAT_BENCH_RMM_H

#include "bench/work/inflate.h"
#include "bench/work/tape.h"

/* With `tries_failures` a failed request becomes an allocation that is freed at once; otherwise it
 * is left out. False and a message with file and line. */
bool bench_rmm_read(const char *path, const bench_limits *limits, bool tries_failures,
                    bench_tape *tape, bench_failure *failure);

#endif

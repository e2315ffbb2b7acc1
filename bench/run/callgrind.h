/* callgrind.h - counts the instructions of one function of this command with valgrind. */
#ifndef PLEAT_BENCH_CALLGRIND_H
#define PLEAT_BENCH_CALLGRIND_H

#include <stdint.h>

#include "bench/base/failure.h"

/* Run this command again with `arguments` (n of them, without the command itself) under callgrind
 * and count what is executed inside `symbol`, including everything it calls. False and a message
 * when valgrind is not installed, the run fails, or the symbol was never entered. */
bool bench_callgrind(const char *symbol, const char *const *arguments, unsigned n,
                     uint64_t *instructions, bench_failure *failure);

/* The same for each call of `symbol`, the first n_calls of them; so many there must be. */
bool bench_callgrind_calls(const char *symbol, const char *const *arguments, unsigned n,
                           uint64_t *instructions, unsigned n_calls, bench_failure *failure);

#endif

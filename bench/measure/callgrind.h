/* callgrind.h - counts the instructions of a function of this command with valgrind. */
#ifndef PLEAT_BENCH_CALLGRIND_H
#define PLEAT_BENCH_CALLGRIND_H

#include <stdint.h>

#include "bench/base/failure.h"

/* Run this command again under callgrind, with n `arguments` after the command's name. Count the
 * instructions inside `symbol` and in all functions called from it. False and a message when
 * valgrind is not installed, the run fails, or the symbol was never entered. */
bool bench_callgrind(const char *symbol, const char *const *arguments, unsigned n,
                     uint64_t *instructions, bench_failure *failure);

/* Count each of the first n_calls calls of `symbol` separately. At least n_calls calls must
 * happen. */
bool bench_callgrind_calls(const char *symbol, const char *const *arguments, unsigned n,
                           uint64_t *instructions, unsigned n_calls, bench_failure *failure);

#endif

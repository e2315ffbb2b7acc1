/* fuzz_pool.h - checkpoints of the private pools in fuzz_graph.h, and blocks at their addresses.
 *
 * All uses of a pool's memory come one after another, so a block that a restore brings back may be
 * used like any. A restore frees and makes blocks of the world; what lives then is compared with
 * what the checkpoint had. */
#ifndef PLEAT_TESTS_FUZZ_POOL_H
#define PLEAT_TESTS_FUZZ_POOL_H

#include "tests/fuzz/fuzz_graph.h"

enum { FUZZ_CHECKPOINTS = 3 };

void fuzz_pool_open(void); /* call after fuzz_graph_open */

void fuzz_take_checkpoint(unsigned checkpoint, unsigned pool);
void fuzz_restore_checkpoint(unsigned checkpoint, bool is_settled);
void fuzz_release_checkpoint(unsigned checkpoint);
/* Allocates what a checkpoint has and what does not live, on that stream. */
void fuzz_alloc_at(unsigned checkpoint, unsigned which, unsigned slot);
/* The users and the live blocks of a pool are what the program knows. */
void fuzz_compare_pool(unsigned pool);

#endif

/* fuzz_pool.h - checkpoints of the private pools in fuzz_graph.h, and blocks at their addresses.
 *
 * Uses of a pool's memory come one by one. So the program may use a restored block like any block.
 * A restore frees and makes blocks of the world; then the live blocks are compared with the
 * checkpoint's. */
#ifndef PLEAT_TESTS_FUZZ_POOL_H
#define PLEAT_TESTS_FUZZ_POOL_H

#include "tests/fuzz/fuzz_graph.h"

enum { FUZZ_CHECKPOINTS = 3 };

void fuzz_pool_open(void); /* call after fuzz_graph_open */

void fuzz_take_checkpoint(unsigned checkpoint, unsigned pool);
void fuzz_restore_checkpoint(unsigned checkpoint, bool is_settled);
void fuzz_release_checkpoint(unsigned checkpoint);
/* Allocate a block of the checkpoint that does not live now, on stream `slot`. */
void fuzz_alloc_at(unsigned checkpoint, unsigned which, unsigned slot);
/* The users and the live blocks of a pool are what the program knows. */
void fuzz_compare_pool(unsigned pool);

#endif

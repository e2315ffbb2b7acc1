/* segments_cache_load.h - stress of every classic cache: crowds, real contents, randomness. */
#ifndef PLEAT_TESTS_SEGMENTS_CACHE_LOAD_H
#define PLEAT_TESTS_SEGMENTS_CACHE_LOAD_H

#include "tests/support/segments/segments_cache.h"

/* Threads on several streams share a device with too little, but real, memory. Each block is filled
 * at its birth and compared before its end, on its stream or on a borrowing stream. Returns the
 * statistics after all blocks were freed and trimmed. */
pleat_stats cache_load_contents(const pl_allocator_ops *ops, const pl_allocator_options *options);
/* Threads without a current context share a device too small for their requests. */
void cache_load_crowd(const pl_allocator_ops *ops, const pl_allocator_options *options);
/* Random requests, frees and uses on one thread, with a walk after each step. */
void cache_load_random(const pl_allocator_ops *ops, const pl_allocator_options *options);

#endif

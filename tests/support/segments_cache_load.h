/* segments_cache_load.h - what every classic cache must survive: crowds, real contents, randomness.
 *
 * Each function opens and closes the cache itself, see segments_cache.h. `options` NULL = the
 * defaults. */
#ifndef PLEAT_TESTS_SEGMENTS_CACHE_LOAD_H
#define PLEAT_TESTS_SEGMENTS_CACHE_LOAD_H

#include "tests/support/segments_cache.h"

/* Threads on several streams of a device that is too small and has real memory behind it: each
 * block is filled when it is born and compared before it dies, on its stream or one that it was
 * lent to. Returns the statistics in the end, when all is freed and trimmed. */
pleat_stats cache_load_contents(const pl_allocator_ops *ops, const pl_allocator_options *options);
/* Threads without a current context share a device that is too small for all they ask for. */
void cache_load_crowd(const pl_allocator_ops *ops, const pl_allocator_options *options);
/* Random requests, frees and uses on one thread, with every walker after each step. */
void cache_load_random(const pl_allocator_ops *ops, const pl_allocator_options *options);

#endif

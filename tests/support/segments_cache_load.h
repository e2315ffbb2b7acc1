/* segments_cache_load.h - what every classic cache must survive: faults, crowds, real contents.
 *
 * Each function opens and closes the cache itself, see segments_cache.h. */
#ifndef PLEAT_TESTS_SEGMENTS_CACHE_LOAD_H
#define PLEAT_TESTS_SEGMENTS_CACHE_LOAD_H

#include "tests/support/segments_cache.h"

/* Fail the k-th driver call, or that and all later ones, for k = 0, 1, ... until nothing fails, in
 * a scenario that grows, uses several streams, fills the device and trims. After each failure what
 * users see is as before; afterwards everything works and all memory can be had. */
void cache_load_driver_faults(const pl_allocator_ops *ops, bool ever_after, int code);
/* The same for queries, which are not among "any call": one entry point by name. */
void cache_load_faults_of(const pl_allocator_ops *ops, const char *call);
/* The same for host memory. */
void cache_load_host_faults(const pl_allocator_ops *ops, bool ever_after);
/* A creation that fails for want of host memory leaves nothing. */
void cache_load_failed_creation(const pl_allocator_ops *ops);

/* Threads on several streams of a small device with real memory behind it: each block is filled
 * when it is born and compared before it dies, on its stream or one that it was lent to. */
void cache_load_contents(const pl_allocator_ops *ops);
/* Random requests, frees and uses on one thread, with every walker after each step. */
void cache_load_random(const pl_allocator_ops *ops, const pl_allocator_options *options);

#endif

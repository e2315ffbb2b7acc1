/* fuzz_graph.h - captures, graphs and private pools of the program in fuzz_world.h.
 *
 * One capture at a time, of one stream and those that are forked off it. A graph is launched behind
 * the last uses of all addresses it has; those of graphs that share a pool one after another. What
 * the rules of pleat_device_release_capture and pleat_pool_release ask for is done first. */
#ifndef PLEAT_TESTS_FUZZ_GRAPH_H
#define PLEAT_TESTS_FUZZ_GRAPH_H

#include "tests/fuzz/fuzz_world.h"

enum { FUZZ_POOLS = 2, FUZZ_ROUTES = 6 };

void fuzz_graph_open(void); /* behind fuzz_world_open */
/* Before fuzz_world_close: no capture, graph, route or pool is left. */
void fuzz_graph_close(void);

/* To the pool that the routes say. */
bool fuzz_alloc_routed(unsigned index, size_t bytes, unsigned slot);

void fuzz_begin_capture(unsigned slot, int mode);
void fuzz_fork(unsigned slot); /* it joins the capture */
/* The graph, if there is one, takes a free place. */
void fuzz_end_capture(void);
void fuzz_launch(unsigned graph, unsigned slot);
void fuzz_destroy_graph(unsigned graph);
void fuzz_release_capture(unsigned slot);
/* As fuzz_destroy_stream, once its launches are over. */
void fuzz_end_stream(unsigned slot);

/* All requests, or those on the stream only. */
void fuzz_begin_pool(unsigned pool, bool is_for_all, unsigned slot);
void fuzz_end_pool(unsigned pool);
void fuzz_release_pool(unsigned pool);

#endif

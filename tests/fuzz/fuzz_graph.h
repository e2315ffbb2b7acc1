/* fuzz_graph.h - captures, graphs and private pools of the program in fuzz_world.h.
 *
 * At any time there is at most one capture, of one stream and the streams forked from it. A launch
 * comes behind the last uses of all the graph's addresses. Graphs of the same pool are launched one
 * by one. Before pleat_device_release_capture and pleat_pool_release the program fulfils the rules
 * of these calls. */
#ifndef PLEAT_TESTS_FUZZ_GRAPH_H
#define PLEAT_TESTS_FUZZ_GRAPH_H

#include "tests/fuzz/fuzz_world.h"

enum { FUZZ_POOLS = 2, FUZZ_ROUTES = 6 };

void fuzz_graph_open(void); /* call after fuzz_world_open */
/* Call before fuzz_world_close: leaves no capture, graph, route or pool. */
void fuzz_graph_close(void);

pleat_pool_id fuzz_pool_name(unsigned number);
/* FUZZ_NO_DOMAIN: the pool does not exist now. */
int fuzz_pool_domain(unsigned number);
void fuzz_hold_pool(unsigned number); /* one more user, and no route */

/* Allocates from the pool that the routes select. */
bool fuzz_alloc_routed(unsigned index, size_t bytes, unsigned slot);
/* Is a request on the stream routed to a pool? */
bool fuzz_is_routed(unsigned slot);

void fuzz_begin_capture(unsigned slot, int mode);
void fuzz_fork(unsigned slot); /* the stream joins the capture */
/* The graph, if the capture made one, takes a free slot. */
void fuzz_end_capture(void);
void fuzz_launch(unsigned graph, unsigned slot);
void fuzz_destroy_graph(unsigned graph);
void fuzz_release_capture(unsigned slot);
/* Calls fuzz_destroy_stream once the stream's launches are over. */
void fuzz_end_stream(unsigned slot);

/* Routes all requests to the pool, or only those on the stream. */
void fuzz_begin_pool(unsigned pool, bool is_for_all, unsigned slot);
void fuzz_end_pool(unsigned pool);
void fuzz_release_pool(unsigned pool);

#endif

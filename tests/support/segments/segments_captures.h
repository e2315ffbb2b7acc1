/* segments_captures.h - captures on the streams of segments_sim.h, for tests. */
#ifndef PLEAT_TESTS_SEGMENTS_CAPTURES_H
#define PLEAT_TESTS_SEGMENTS_CAPTURES_H

#include "tests/support/segments/segments_sim.h"

void captures_begin(unsigned stream);
cu_graph captures_end_with_graph(unsigned stream); /* asserts that the capture is intact */
void captures_destroy(cu_graph graph);
void captures_end(unsigned stream); /* drops the graph at once */
/* Announces the capture first, since pleat may not see it. */
void captures_begin_announced(unsigned stream);
void captures_end_announced(unsigned stream);
pleat_status captures_release(unsigned stream);
/* Make a call that only names the stream. */
void captures_name_stream(unsigned stream);
/* Calls so far that captured streams must not see, or that would break a capture. */
uint64_t captures_n_forbidden(void);

#endif

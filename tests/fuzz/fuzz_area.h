/* fuzz_area.h - buffers, tags and shared memory of the program in fuzz_world.h, all outside of
 * captures.
 *
 * The program knows which pages of a buffer have memory, and uses only these pages. While a tag
 * sleeps, nothing of it is used or allocated. The program itself opens, checks and closes shared
 * memory. */
#ifndef PLEAT_TESTS_FUZZ_AREA_H
#define PLEAT_TESTS_FUZZ_AREA_H

#include "tests/fuzz/fuzz_graph.h"

enum { FUZZ_BUFFERS = 2, FUZZ_TAGS = 2 };

void fuzz_area_open(void);  /* call after fuzz_graph_open */
void fuzz_area_close(void); /* call before fuzz_world_close: leaves no buffer */

/* Make the buffer, or destroy it if it exists. */
void fuzz_change_buffer(unsigned buffer, unsigned n_pages, bool is_paged, unsigned slot);
void fuzz_resize_buffer(unsigned buffer, unsigned n_quarters, unsigned slot);
void fuzz_commit_buffer(unsigned buffer, unsigned from, unsigned n, bool is_commit, unsigned slot);
void fuzz_use_buffer(unsigned buffer, unsigned page, unsigned slot);

void fuzz_alloc_tagged(unsigned index, size_t bytes, unsigned slot, unsigned tag);
void fuzz_sleep(unsigned tag, bool is_kept);
void fuzz_wake(unsigned tag, uint64_t most_bytes);
void fuzz_limit_tag(unsigned tag, uint64_t bytes);

void fuzz_share(unsigned index, unsigned slot);

#endif

/* blocks.h - the blocks of a work over time, for the page that draws each of them: blocks.jsonl.
 *
 *   bytes ^          +---------+
 *         |     +----| block 1 |   the entries of `of`:  0 1 0 1
 *         |  +--+ 0  +---------+   the first of a block is its birth, the second its end
 *         +--------------------------> events
 *
 * Of a work with more blocks than `most` the largest are told one by one. The others are summed up:
 * `other` has the most of their bytes that live between an entry and the next one. */
#ifndef PLEAT_BENCH_BLOCKS_H
#define PLEAT_BENCH_BLOCKS_H

#include <stdint.h>
#include <stdio.h>

#include "bench/works/work.h"

enum { BENCH_BLOCKS_MOST = 120000 }; /* of all works together: a page of 5 MB */

/* Write an object and the end of its line:
 *
 *   blocks     the work's name
 *   n_events, n_blocks, n_other
 *   at         events of the entries, counted from 0; null: 0, 1, 2, ...
 *   of         blocks of the entries
 *   bytes, stream, stack    of the blocks; a stack is an index of `stacks`, -1 = none
 *   other      as above; null: n_other is 0
 *   stacks     texts, a line a frame, the innermost first
 *
 * False and a message when out of host memory, when the work cannot be read, or when writing
 * fails. */
bool bench_blocks_write(const bench_work *work, uint64_t most, FILE *file, bench_failure *failure);

#endif

/* trace.h - a recorded run: every allocation and free, in order.
 *
 * Text, gzip or plain. `# ...` comment; `a ID BYTES STREAM` allocation; `f ID` free; `i N` start of
 * iteration N. An ID is unique among live blocks and may be reused after its free. With the word
 * `host` behind STREAM the block is page-locked memory of the host, used by STREAM.
 *
 * `u USE ID STREAM` a further stream uses the live block ID; `e USE` the use is over. A block freed
 * in between waits for the end of the use. A USE is unique among the current uses. */
#ifndef PLEAT_BENCH_TRACE_H
#define PLEAT_BENCH_TRACE_H

#include "bench/work/inflate.h"
#include "bench/work/tape.h"

/* The wanted blocks of a trace with both kinds of memory. */
typedef enum bench_blocks {
    BENCH_BLOCKS_ALL, /* all blocks must be of one kind */
    BENCH_BLOCKS_DEVICE,
    BENCH_BLOCKS_HOST,
} bench_blocks;

/* Read and check the whole trace. False and a message with file and line when a line is malformed,
 * an id is unknown or allocated twice, or a size is 0 or absurd. Also when the file is damaged, too
 * large or without an allocation. `limits` may be NULL. Unwanted blocks are checked, too. */
bool bench_trace_read(const char *path, const bench_limits *limits, bench_blocks wanted,
                      bench_tape *tape, bench_failure *failure);

#endif

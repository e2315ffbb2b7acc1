/* divisions.h - PyTorch's list of roundings, [256:1,512:2,1024:4,>:8], read and written.
 *
 * In an entry `size:divisions` the size is in MiB and a power of two; the entry holds for requests
 * from that size to below twice that size. A request is rounded up to a multiple of its power of
 * two divided by `divisions`; with 0 or 1, of 512 bytes only. The first entry holds for all smaller
 * sizes too, `>` for all above the last. Sizes between two entries that no entry names get 0. */
#ifndef PLEAT_API_CONFIG_DIVISIONS_H
#define PLEAT_API_CONFIG_DIVISIONS_H

#include "api/config/parse.h"
#include "api/text.h"
#include "segments/base/option.h"

/* `list`: what stands in the brackets. Sizes ascend, `>` comes last, divisions are powers of two up
 * to `most` or 0. On false nothing is written. */
bool pl_divisions_read(pl_span list, uint64_t most, unsigned divisions[PL_N_DIVISIONS]);
/* The shortest form: one number, or a list. */
void pl_divisions_write(const unsigned divisions[PL_N_DIVISIONS], pl_text *text);

#endif

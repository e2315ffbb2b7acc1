/* divisions.h - PyTorch's list of roundings, [256:1,512:2,1024:4,>:8], read and written.
 *
 * In an entry `size:divisions` the size is in MiB and a power of two. The entry holds for requests
 * of at least the size and less than twice the size. A request is rounded up to a multiple of its
 * power of two divided by `divisions`; with 0 or 1, to a multiple of 512 bytes only. The first
 * entry holds for all smaller sizes too, `>` for all sizes above the last entry. Sizes between two
 * entries without an entry of their own get 0. */
#ifndef PLEAT_API_CONFIG_DIVISIONS_H
#define PLEAT_API_CONFIG_DIVISIONS_H

#include "api/base/text.h"
#include "api/config/parse.h"
#include "segments/base/option.h"

/* `list`: the text inside the brackets. Sizes ascend, `>` comes last, divisions are powers of two
 * up to `most` or 0. On false nothing is written. */
bool pl_divisions_read(pl_span list, uint64_t most, unsigned divisions[PL_N_DIVISIONS]);
/* The shortest form: one number, or a list. */
void pl_divisions_write(const unsigned divisions[PL_N_DIVISIONS], pl_text *text);

#endif

/* map.h - an allocator's addresses, piece by piece: live, freed, free, or a hole. */
#ifndef PLEAT_BENCH_MAP_H
#define PLEAT_BENCH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segments/base/allocator.h"

typedef struct bench_map_piece {
    uint64_t base;
    uint64_t bytes;
    uint64_t born;  /* live block: 1 + its allocation's event; else 0 */
    int32_t stream; /* number in the work; -1 = none */
    uint8_t kind;   /* a pl_piece_kind */
    bool is_first;  /* the piece is the first of a segment */
    bool is_small;  /* its segment is for small requests only */
} bench_map_piece;

/* Join pieces that touch and are alike. If more than `most` (at least 1) pieces are left, join the
 * smallest to the next one in the segment. Only if that does not suffice, join whole small
 * segments. A joined piece gets the kind of most of its bytes, while the sum of each kind stays
 * about right. The piece belongs to no block any more. Returns the number of pieces left. *n_joined
 * counts the pieces joined after the first step. */
size_t bench_map_merge(bench_map_piece *pieces, size_t n, size_t most, uint64_t *n_joined);

#endif

/* index.h - the size index: finds the smallest sufficient run.
 *
 * Sizes fall into bins, with a bitmap of the bins that are not empty. A unit is 512 bytes. Bins are
 * exact below 16 units; above, each power of two has 8 bins. Each bin is a bitwise digital tree
 * keyed by size. So the fit is a best fit, and its cost grows only with the logarithm of a bin's
 * population. Nodes of equal size form a ring behind one tree node. Nodes are embedded in their
 * owners. No operation allocates or fails. Sources: the bitmap of bins is from TLSF (Masmano et al.
 * 2004); the tree is from dlmalloc's large bins (Lea, "A Memory Allocator"). */
#ifndef PLEAT_SEGMENTS_INDEX_H
#define PLEAT_SEGMENTS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PL_INDEX_UNIT = 512, PL_INDEX_BINS = 320, PL_INDEX_WORDS = PL_INDEX_BINS / 64 };

typedef struct pl_index_node {
    struct pl_index_node *child[2];
    struct pl_index_node **slot;     /* pointer to this node; NULL = not first of a ring */
    struct pl_index_node *ring_next; /* nodes of equal size, circular */
    struct pl_index_node *ring_prev;
    size_t bytes; /* the key; set while in an index */
} pl_index_node;

/* I1  a bit of `filled` is set if and only if its bin is not empty
 * I2  a node's size falls into its bin, and its path spells the size's next bits
 * I3  every node of a ring has the same size, and exactly one of them has a slot
 * I4  n_nodes counts the nodes of all rings                                      */
typedef struct pl_index {
    uint64_t filled[PL_INDEX_WORDS];
    pl_index_node *bins[PL_INDEX_BINS];
    size_t n_nodes;
} pl_index;

/* bytes: a positive multiple of the unit. */
void pl_index_insert(pl_index *index, pl_index_node *node, size_t bytes);
void pl_index_remove(pl_index *index, pl_index_node *node);
/* Equal to a removal and an insertion with the new size. */
void pl_index_resize(pl_index *index, pl_index_node *node, size_t bytes);
/* The smallest node of at least `bytes`, or NULL. */
pl_index_node *pl_index_best(const pl_index *index, size_t bytes);
/* 0, or the number of the first broken invariant. */
int pl_index_check(const pl_index *index);

#endif

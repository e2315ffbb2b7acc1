/* tree.h - an ordered set (an AVL tree) of objects that embed their node.
 *
 * No function allocates, fails or recurses. Insertion and removal take O(log n). The order is
 * strict and total: of two nodes of a tree, one always comes before the second. The owner's lock
 * guards the tree. Source: Knuth, TAOCP 3, 6.2.3. */
#ifndef PLEAT_SEGMENTS_TREE_H
#define PLEAT_SEGMENTS_TREE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pl_tree_node {
    struct pl_tree_node *child[2]; /* earlier, later */
    struct pl_tree_node *parent;   /* NULL in the root */
    int balance;                   /* height of child[1] - height of child[0]: -1, 0 or 1 */
} pl_tree_node;

/* Does `a` come before `b`? */
typedef bool (*pl_tree_before)(const pl_tree_node *a, const pl_tree_node *b);

/* I1  every node is the `parent` of its children; the root has no parent
 * I2  every node's balance is the difference of its children's heights, and at most 1 apart
 * I3  walking from first to last, every node comes before the next
 * I4  count == the number of nodes */
typedef struct pl_tree {
    pl_tree_node *root;
    size_t count;
    pl_tree_before before; /* const */
} pl_tree;

/* The object around a node. */
#define PL_TREE_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

void pl_tree_init(pl_tree *tree, pl_tree_before before);
void pl_tree_insert(pl_tree *tree, pl_tree_node *node); /* in no tree yet; unequal to all here */
void pl_tree_remove(pl_tree *tree, pl_tree_node *node); /* the node is in this tree */

/* The first node not before `key`, or NULL. */
pl_tree_node *pl_tree_lower_bound(const pl_tree *tree, const pl_tree_node *key);
/* The last node not after `key`, or NULL. */
pl_tree_node *pl_tree_floor(const pl_tree *tree, const pl_tree_node *key);

pl_tree_node *pl_tree_first(const pl_tree *tree); /* NULL when empty */
pl_tree_node *pl_tree_last(const pl_tree *tree);
pl_tree_node *pl_tree_next(const pl_tree_node *node); /* NULL after the last */
pl_tree_node *pl_tree_prev(const pl_tree_node *node);

int pl_tree_check(const pl_tree *tree); /* 0, or the number of the first broken rule */

#endif

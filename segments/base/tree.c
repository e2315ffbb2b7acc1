/* tree.c - the AVL tree of tree.h. */
#include "segments/base/tree.h"

void pl_tree_init(pl_tree *tree, pl_tree_before before)
{
    *tree = (pl_tree){ .before = before };
}

/* Put `now` (or nothing) in the place of `old`. */
static void replace_in_parent(pl_tree *tree, const pl_tree_node *old, pl_tree_node *now)
{
    pl_tree_node *parent = old->parent;
    if (parent) {
        parent->child[parent->child[1] == old] = now;
    } else {
        tree->root = now;
    }
    if (now) {
        now->parent = parent;
    }
}

/* Rotate `node` above its parent. The caller sets the balances. */
static void lift(pl_tree *tree, pl_tree_node *node)
{
    pl_tree_node *parent = node->parent;
    int side = parent->child[1] == node;
    pl_tree_node *inner = node->child[!side];
    replace_in_parent(tree, parent, node);
    node->child[!side] = parent;
    parent->parent = node;
    parent->child[side] = inner;
    if (inner) {
        inner->parent = parent;
    }
}

/* Repair a node with balance 2 or -2. Returns the subtree's new root. */
static pl_tree_node *rebalance(pl_tree *tree, pl_tree_node *top)
{
    int heavy = top->balance > 0;
    int sign = heavy ? 1 : -1;
    pl_tree_node *high = top->child[heavy];
    if (high->balance != -sign) {
        lift(tree, high);
        top->balance = high->balance == 0 ? sign : 0;
        high->balance = high->balance == 0 ? -sign : 0;
        return high;
    }
    pl_tree_node *middle = high->child[!heavy];
    lift(tree, middle);
    lift(tree, middle);
    top->balance = middle->balance == sign ? -sign : 0;
    high->balance = middle->balance == -sign ? sign : 0;
    middle->balance = 0;
    return middle;
}

void pl_tree_insert(pl_tree *tree, pl_tree_node *node)
{
    pl_tree_node *parent = NULL;
    pl_tree_node **link = &tree->root;
    while (*link) {
        parent = *link;
        link = &parent->child[!tree->before(node, parent)];
    }
    *node = (pl_tree_node){ .parent = parent };
    *link = node;
    tree->count++;
    for (; parent; node = parent, parent = parent->parent) {
        parent->balance += parent->child[1] == node ? 1 : -1;
        if (parent->balance == 0) {
            return;
        }
        if (parent->balance < -1 || parent->balance > 1) {
            rebalance(tree, parent);
            return;
        }
    }
}

/* `side` of `parent` has become one lower. */
static void mend_upwards(pl_tree *tree, pl_tree_node *parent, int side)
{
    while (parent) {
        parent->balance += side ? -1 : 1;
        if (parent->balance == 1 || parent->balance == -1) {
            return;
        }
        if (parent->balance != 0) {
            parent = rebalance(tree, parent);
            if (parent->balance != 0) {
                return;
            }
        }
        const pl_tree_node *lower = parent;
        parent = parent->parent;
        side = parent && parent->child[1] == lower;
    }
}

static pl_tree_node *outermost(pl_tree_node *node, int side)
{
    while (node && node->child[side]) {
        node = node->child[side];
    }
    return node;
}

void pl_tree_remove(pl_tree *tree, pl_tree_node *node)
{
    tree->count--;
    pl_tree_node *parent = node->parent;
    int side = parent && parent->child[1] == node;
    if (!node->child[0] || !node->child[1]) {
        replace_in_parent(tree, node, node->child[node->child[0] == NULL]);
        mend_upwards(tree, parent, side);
        return;
    }
    pl_tree_node *heir = outermost(node->child[1], 0);
    side = heir == node->child[1];
    parent = side ? heir : heir->parent;
    if (!side) {
        replace_in_parent(tree, heir, heir->child[1]);
        heir->child[1] = node->child[1];
        heir->child[1]->parent = heir;
    }
    heir->child[0] = node->child[0];
    heir->child[0]->parent = heir;
    heir->balance = node->balance;
    replace_in_parent(tree, node, heir);
    mend_upwards(tree, parent, side);
}

pl_tree_node *pl_tree_lower_bound(const pl_tree *tree, const pl_tree_node *key)
{
    pl_tree_node *found = NULL;
    pl_tree_node *node = tree->root;
    while (node) {
        bool is_before = tree->before(node, key);
        found = is_before ? found : node;
        node = node->child[is_before];
    }
    return found;
}

pl_tree_node *pl_tree_floor(const pl_tree *tree, const pl_tree_node *key)
{
    pl_tree_node *found = NULL;
    pl_tree_node *node = tree->root;
    while (node) {
        bool is_after = tree->before(key, node);
        found = is_after ? found : node;
        node = node->child[!is_after];
    }
    return found;
}

pl_tree_node *pl_tree_first(const pl_tree *tree)
{
    return outermost(tree->root, 0);
}

pl_tree_node *pl_tree_last(const pl_tree *tree)
{
    return outermost(tree->root, 1);
}

/* The neighbour of `node` in the order, on `side`. */
static pl_tree_node *neighbour(const pl_tree_node *node, int side)
{
    if (node->child[side]) {
        return outermost(node->child[side], !side);
    }
    while (node->parent && node->parent->child[side] == node) {
        node = node->parent;
    }
    return node->parent;
}

pl_tree_node *pl_tree_next(const pl_tree_node *node)
{
    return neighbour(node, 1);
}

pl_tree_node *pl_tree_prev(const pl_tree_node *node)
{
    return neighbour(node, 0);
}

/* The height that the balances claim, found on the way down through the higher child. */
static int claimed_height(const pl_tree_node *node)
{
    int height = 0;
    for (; node; node = node->child[node->balance > 0]) {
        height++;
    }
    return height;
}

/* If I2 holds at every node below, then the heights that the children claim are true. */
static int check_node(const pl_tree_node *node)
{
    for (int side = 0; side < 2; side++) {
        if (node->child[side] && node->child[side]->parent != node) {
            return 1;
        }
    }
    int difference = claimed_height(node->child[1]) - claimed_height(node->child[0]);
    return node->balance == difference && difference >= -1 && difference <= 1 ? 0 : 2;
}

int pl_tree_check(const pl_tree *tree)
{
    if (tree->root && tree->root->parent) {
        return 1;
    }
    size_t n = 0;
    const pl_tree_node *last = NULL;
    for (const pl_tree_node *node = pl_tree_first(tree); node; node = pl_tree_next(node)) {
        int broken = check_node(node);
        if (broken != 0) {
            return broken;
        }
        if (last && !tree->before(last, node)) {
            return 3;
        }
        last = node;
        if (++n > tree->count) {
            return 4;
        }
    }
    return n == tree->count ? 0 : 4;
}

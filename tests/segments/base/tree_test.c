/* tree_test.c - the ordered set, against a plain table. */
/* labels: unit model */
#include <check.h>
#include <string.h>

#include "segments/base/tree.h"
#include "tests/support/suite.h"

enum { N = 512 };

typedef struct item {
    pl_tree_node node;
    size_t key;
} item;

static item items[N];
static bool is_in[N];
static pl_tree tree;

static bool is_before(const pl_tree_node *a, const pl_tree_node *b)
{
    return PL_TREE_ENTRY(a, const item, node)->key < PL_TREE_ENTRY(b, const item, node)->key;
}

static void make_items(void)
{
    pl_tree_init(&tree, is_before);
    for (size_t i = 0; i < N; i++) {
        items[i].key = 2 * i;
        is_in[i] = false;
    }
}

static void toggle(size_t i)
{
    if (is_in[i]) {
        pl_tree_remove(&tree, &items[i].node);
    } else {
        pl_tree_insert(&tree, &items[i].node);
    }
    is_in[i] = !is_in[i];
}

static pl_tree_node *expected_at_or_after(size_t key)
{
    for (size_t i = (key + 1) / 2; i < N; i++) {
        if (is_in[i]) {
            return &items[i].node;
        }
    }
    return NULL;
}

static pl_tree_node *expected_at_or_before(size_t key)
{
    for (size_t i = key / 2 + 1; i-- > 0;) {
        if (i < N && is_in[i]) {
            return &items[i].node;
        }
    }
    return NULL;
}

static int height(void)
{
    int most = 0;
    for (const pl_tree_node *node = pl_tree_first(&tree); node; node = pl_tree_next(node)) {
        int depth = 1;
        for (const pl_tree_node *up = node; up->parent; up = up->parent) {
            depth++;
        }
        most = depth > most ? depth : most;
    }
    return most;
}

START_TEST(an_empty_tree_has_no_first_and_no_last)
{
    item key = { .key = 1 };
    ck_assert_ptr_null(pl_tree_first(&tree));
    ck_assert_ptr_null(pl_tree_last(&tree));
    ck_assert_ptr_null(pl_tree_lower_bound(&tree, &key.node));
    ck_assert_ptr_null(pl_tree_floor(&tree, &key.node));
    ck_assert_int_eq(pl_tree_check(&tree), 0);
}
END_TEST

START_TEST(ascending_insertion_stays_shallow_and_in_order)
{
    for (size_t i = 0; i < N; i++) {
        toggle(i);
        ck_assert_int_eq(pl_tree_check(&tree), 0);
    }
    ck_assert_int_le(height(), 13); /* 1.44 x log2(514) */
    size_t i = 0;
    for (pl_tree_node *node = pl_tree_first(&tree); node; node = pl_tree_next(node)) {
        ck_assert_ptr_eq(node, &items[i++].node);
    }
    ck_assert_uint_eq(i, N);
    for (pl_tree_node *node = pl_tree_last(&tree); node; node = pl_tree_prev(node)) {
        ck_assert_ptr_eq(node, &items[--i].node);
    }
    ck_assert_uint_eq(i, 0);
}
END_TEST

START_TEST(removal_from_either_end_keeps_the_balance)
{
    for (size_t i = 0; i < N; i++) {
        toggle(i);
    }
    for (size_t i = 0; i < N / 2; i++) {
        toggle(i % 2 == 0 ? i / 2 : N - 1 - i / 2);
        ck_assert_int_eq(pl_tree_check(&tree), 0);
    }
    ck_assert_uint_eq(tree.count, N / 2);
    ck_assert_ptr_eq(pl_tree_first(&tree), &items[N / 4].node);
    ck_assert_ptr_eq(pl_tree_last(&tree), &items[N - 1 - N / 4].node);
}
END_TEST

START_TEST(random_operations_agree_with_a_table)
{
    uint64_t seed = 99;
    for (size_t step = 0; step < 20000; step++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        toggle((size_t)(seed >> 40) % N);
        item key = { .key = (size_t)(seed >> 20) % (2 * N + 2) };
        ck_assert_ptr_eq(pl_tree_lower_bound(&tree, &key.node), expected_at_or_after(key.key));
        ck_assert_ptr_eq(pl_tree_floor(&tree, &key.node), expected_at_or_before(key.key));
        if (step % 16 == 0) {
            ck_assert_int_eq(pl_tree_check(&tree), 0);
        }
    }
}
END_TEST

START_TEST(the_walker_names_what_is_broken)
{
    for (size_t i = 0; i < 7; i++) {
        toggle(i);
    }
    tree.count++;
    ck_assert_int_eq(pl_tree_check(&tree), 4);
    tree.count--;
    items[3].key = 100;
    ck_assert_int_eq(pl_tree_check(&tree), 3);
    items[3].key = 6;
    tree.root->balance = 1;
    ck_assert_int_eq(pl_tree_check(&tree), 2);
    tree.root->balance = 0;
    pl_tree_node *child = tree.root->child[0];
    tree.root->parent = child;
    ck_assert_int_eq(pl_tree_check(&tree), 1);
    tree.root->parent = NULL;
    ck_assert_int_eq(pl_tree_check(&tree), 0);
}
END_TEST

SUITE(segments_tree)
{
    TCase *tcase = tcase_create("tree");
    tcase_add_checked_fixture(tcase, make_items, NULL);
    tcase_add_test(tcase, an_empty_tree_has_no_first_and_no_last);
    tcase_add_test(tcase, ascending_insertion_stays_shallow_and_in_order);
    tcase_add_test(tcase, removal_from_either_end_keeps_the_balance);
    tcase_add_test(tcase, random_operations_agree_with_a_table);
    tcase_add_test(tcase, the_walker_names_what_is_broken);
    suite_add_tcase(suite, tcase);
}

/* index_test.c - the size index, against a plain list of sizes. */
/* labels: unit model */
#include <check.h>
#include <string.h>

#include "segments/base/index.h"
#include "tests/support/suite.h"

enum { N_NODES = 600 };

static pl_index list;
static pl_index_node nodes[N_NODES];
static bool is_in[N_NODES];
static uint64_t seed;

static void open_index(void)
{
    memset(&list, 0, sizeof(list));
    memset(is_in, 0, sizeof(is_in));
    seed = 20260117;
}

static void close_index(void)
{
    ck_assert_int_eq(pl_index_check(&list), 0);
}

static size_t random_below(size_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(seed >> 33) % n;
}

static void insert(size_t i, size_t units)
{
    pl_index_insert(&list, &nodes[i], units * PL_INDEX_UNIT);
    is_in[i] = true;
}

static void drop(size_t i)
{
    pl_index_remove(&list, &nodes[i]);
    is_in[i] = false;
}

/* The least size in the list of at least `bytes`; 0 = none. */
static size_t least_fit(size_t bytes)
{
    size_t least = 0;
    for (size_t i = 0; i < N_NODES; i++) {
        if (is_in[i] && nodes[i].bytes >= bytes && (least == 0 || nodes[i].bytes < least)) {
            least = nodes[i].bytes;
        }
    }
    return least;
}

static void assert_best(size_t units)
{
    size_t bytes = units * PL_INDEX_UNIT;
    const pl_index_node *found = pl_index_best(&list, bytes);
    size_t least = least_fit(bytes);
    ck_assert_uint_eq(found != NULL ? found->bytes : 0, least);
    if (found != NULL) {
        ck_assert(found >= nodes && found < nodes + N_NODES && is_in[found - nodes]);
    }
}

/* ---- finding ------------------------------------------------------------------------------- */

START_TEST(an_empty_index_finds_nothing)
{
    ck_assert_ptr_null(pl_index_best(&list, PL_INDEX_UNIT));
    ck_assert_ptr_null(pl_index_best(&list, (size_t)1 << 40));
    ck_assert_int_eq(pl_index_check(&list), 0);
}
END_TEST

START_TEST(the_smallest_that_is_large_enough_is_found)
{
    insert(0, 3);
    insert(1, 17);
    insert(2, 1000);
    ck_assert_ptr_eq(pl_index_best(&list, 1 * PL_INDEX_UNIT), &nodes[0]);
    ck_assert_ptr_eq(pl_index_best(&list, 3 * PL_INDEX_UNIT), &nodes[0]);
    ck_assert_ptr_eq(pl_index_best(&list, 4 * PL_INDEX_UNIT), &nodes[1]);
    ck_assert_ptr_eq(pl_index_best(&list, 18 * PL_INDEX_UNIT), &nodes[2]);
    ck_assert_ptr_null(pl_index_best(&list, 1001 * PL_INDEX_UNIT));
}
END_TEST

START_TEST(within_a_bin_the_fit_is_still_the_best)
{
    /* Sizes from 1024 to 1151 units share one bin. */
    static const size_t units[] = { 1100, 1030, 1151, 1024, 1063, 1062, 1064, 1127, 1089 };
    size_t n = sizeof units / sizeof units[0];
    for (size_t i = 0; i < n; i++) {
        insert(i, units[i]);
    }
    for (size_t ask = 1000; ask <= 1160; ask++) {
        assert_best(ask);
    }
}
END_TEST

START_TEST(sizes_at_the_edges_of_bins_are_told_apart)
{
    size_t n = 0;
    for (unsigned power = 0; power < 34; power++) {
        size_t units = (size_t)1 << power;
        for (size_t step = 0; step < 8 && n + 2 < N_NODES; step++) {
            size_t edge = units + (units >> 3) * step;
            insert(n++, edge);
            if (edge > 1) {
                insert(n++, edge - 1);
            }
        }
    }
    ck_assert_int_eq(pl_index_check(&list), 0);
    for (size_t i = 0; i < n; i++) {
        assert_best(nodes[i].bytes / PL_INDEX_UNIT);
        assert_best(nodes[i].bytes / PL_INDEX_UNIT + 1);
    }
}
END_TEST

START_TEST(absurd_sizes_are_asked_for_safely)
{
    insert(0, (size_t)1 << 36);
    ck_assert_ptr_null(pl_index_best(&list, (size_t)1 << 60));
    ck_assert_ptr_null(pl_index_best(&list, SIZE_MAX - PL_INDEX_UNIT + 1));
    ck_assert_ptr_eq(pl_index_best(&list, (size_t)1 << 45), &nodes[0]);
}
END_TEST

/* ---- rings --------------------------------------------------------------------------------- */

START_TEST(nodes_of_one_size_leave_in_any_order)
{
    for (int order = 0; order < 3; order++) {
        for (size_t i = 0; i < 9; i++) {
            insert(i, 700);
        }
        insert(9, 701);
        ck_assert_uint_eq(list.n_nodes, 10);
        for (size_t i = 0; i < 9; i++) {
            size_t victim = order == 0 ? i : order == 1 ? 8 - i : (i * 5) % 9;
            drop(victim);
            ck_assert_int_eq(pl_index_check(&list), 0);
            assert_best(700);
        }
        drop(9);
        ck_assert_uint_eq(list.n_nodes, 0);
        ck_assert_ptr_null(pl_index_best(&list, PL_INDEX_UNIT));
    }
}
END_TEST

START_TEST(of_one_size_the_oldest_leaves_first_and_the_trees_own_last)
{
    enum { N = 5 };
    for (size_t i = 0; i < N; i++) {
        insert(i, 40);
    }
    for (size_t i = 0; i < N; i++) {
        size_t expected = (i + 1) % N;
        ck_assert_ptr_eq(pl_index_best(&list, 40 * PL_INDEX_UNIT), &nodes[expected]);
        drop(expected);
    }
}
END_TEST

START_TEST(a_ring_takes_its_place_in_the_tree_along)
{
    insert(0, 1024); /* the root of its bin's tree */
    insert(1, 1024);
    insert(2, 1040);
    insert(3, 1100);
    insert(4, 1025);
    drop(0); /* the node of equal size inherits its children */
    ck_assert_int_eq(pl_index_check(&list), 0);
    for (size_t ask = 1020; ask < 1105; ask++) {
        assert_best(ask);
    }
    drop(1);
    for (size_t ask = 1020; ask < 1105; ask++) {
        assert_best(ask);
    }
}
END_TEST

/* ---- against the list ---------------------------------------------------------------------- */

static size_t random_units(int kind)
{
    switch (kind) {
    case 0: /* one bin, many equal sizes */
        return 2048 + random_below(64);
    case 1: /* few sizes */
        return (size_t)1 << random_below(20);
    default: /* sizes of all magnitudes */
        return 1 + random_below((size_t)1 << (1 + random_below(30)));
    }
}

START_TEST(random_insertions_and_removals_agree_with_a_list)
{
    for (int step = 0; step < 20000; step++) {
        size_t i = random_below(N_NODES);
        if (is_in[i]) {
            drop(i);
        } else {
            insert(i, random_units(_i));
        }
        assert_best(random_units(_i));
        if (step % 500 == 0) {
            ck_assert_int_eq(pl_index_check(&list), 0);
        }
    }
    size_t n = 0;
    for (size_t i = 0; i < N_NODES; i++) {
        n += is_in[i];
    }
    ck_assert_uint_eq(list.n_nodes, n);
}
END_TEST

/* ---- the walker ---------------------------------------------------------------------------- */

static void plant_some(void)
{
    insert(0, 1024);
    insert(1, 1024);
    insert(2, 1100);
    insert(3, 5);
}

START_TEST(a_bit_without_a_bin_breaks_rule_one)
{
    plant_some();
    list.filled[2] ^= UINT64_C(1) << 40;
    ck_assert_int_eq(pl_index_check(&list), 1);
    list.filled[2] ^= UINT64_C(1) << 40;
}
END_TEST

START_TEST(a_bin_without_a_bit_breaks_rule_one)
{
    plant_some();
    uint64_t before = list.filled[0];
    list.filled[0] = 0;
    ck_assert_int_eq(pl_index_check(&list), 1);
    list.filled[0] = before;
}
END_TEST

START_TEST(a_size_of_another_bin_breaks_rule_two)
{
    plant_some();
    nodes[3].bytes = 6 * PL_INDEX_UNIT;
    ck_assert_int_eq(pl_index_check(&list), 2);
    nodes[3].bytes = 5 * PL_INDEX_UNIT;
}
END_TEST

START_TEST(a_size_off_its_path_breaks_rule_two)
{
    plant_some();
    ck_assert_ptr_ne(nodes[2].slot, &list.bins[72]); /* below the root */
    nodes[2].bytes = 1030 * PL_INDEX_UNIT;           /* still in its bin, but on a different path */
    ck_assert_int_eq(pl_index_check(&list), 2);
    nodes[2].bytes = 1100 * PL_INDEX_UNIT;
}
END_TEST

START_TEST(a_slot_that_points_elsewhere_breaks_rule_two)
{
    plant_some();
    pl_index_node **slot = nodes[2].slot;
    nodes[2].slot = &nodes[3].child[0];
    ck_assert_int_eq(pl_index_check(&list), 2);
    nodes[2].slot = slot;
}
END_TEST

START_TEST(two_sizes_on_a_ring_break_rule_three)
{
    plant_some();
    nodes[1].bytes += PL_INDEX_UNIT;
    ck_assert_int_eq(pl_index_check(&list), 3);
    nodes[1].bytes -= PL_INDEX_UNIT;
}
END_TEST

START_TEST(two_slots_on_a_ring_break_rule_three)
{
    plant_some();
    nodes[1].slot = nodes[0].slot;
    ck_assert_int_eq(pl_index_check(&list), 3);
    nodes[1].slot = NULL;
}
END_TEST

START_TEST(a_torn_ring_breaks_rule_three)
{
    plant_some();
    nodes[1].ring_prev = &nodes[1];
    ck_assert_int_eq(pl_index_check(&list), 3);
    nodes[1].ring_prev = &nodes[0];
}
END_TEST

START_TEST(a_wrong_count_breaks_rule_four)
{
    plant_some();
    list.n_nodes++;
    ck_assert_int_eq(pl_index_check(&list), 4);
    list.n_nodes--;
}
END_TEST

static TCase *make_case(const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open_index, close_index);
    return tcase;
}

SUITE(segments_index)
{
    TCase *find = make_case("find");
    tcase_add_test(find, an_empty_index_finds_nothing);
    tcase_add_test(find, the_smallest_that_is_large_enough_is_found);
    tcase_add_test(find, within_a_bin_the_fit_is_still_the_best);
    tcase_add_test(find, sizes_at_the_edges_of_bins_are_told_apart);
    tcase_add_test(find, absurd_sizes_are_asked_for_safely);
    suite_add_tcase(suite, find);
    TCase *rings = make_case("rings");
    tcase_add_test(rings, nodes_of_one_size_leave_in_any_order);
    tcase_add_test(rings, of_one_size_the_oldest_leaves_first_and_the_trees_own_last);
    tcase_add_test(rings, a_ring_takes_its_place_in_the_tree_along);
    suite_add_tcase(suite, rings);
    TCase *model = make_case("against a list");
    tcase_add_loop_test(model, random_insertions_and_removals_agree_with_a_list, 0, 3);
    suite_add_tcase(suite, model);
    TCase *walker = make_case("walker");
    tcase_add_test(walker, a_bit_without_a_bin_breaks_rule_one);
    tcase_add_test(walker, a_bin_without_a_bit_breaks_rule_one);
    tcase_add_test(walker, a_size_of_another_bin_breaks_rule_two);
    tcase_add_test(walker, a_size_off_its_path_breaks_rule_two);
    tcase_add_test(walker, a_slot_that_points_elsewhere_breaks_rule_two);
    tcase_add_test(walker, two_sizes_on_a_ring_break_rule_three);
    tcase_add_test(walker, two_slots_on_a_ring_break_rule_three);
    tcase_add_test(walker, a_torn_ring_breaks_rule_three);
    tcase_add_test(walker, a_wrong_count_breaks_rule_four);
    suite_add_tcase(suite, walker);
}

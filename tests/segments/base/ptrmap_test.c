/* ptrmap_test.c - the map from addresses to objects in one word, against a table. */
/* labels: unit fault model */
#include <check.h>
#include <string.h>

#include "segments/base/ptrmap.h"
#include "tests/support/suite.h"

static pl_meta meta;
static pl_ptrmap map;

static void open_map(void)
{
    pl_meta_fail_never();
    ck_assert_int_eq(pl_meta_init(&meta), PLEAT_OK);
    pl_ptrmap_init(&map);
}

static void close_map(void)
{
    pl_meta_fail_never();
    pl_ptrmap_fini(&map, &meta);
    ck_assert_uint_eq(pl_meta_fini(&meta), 0);
}

typedef struct object {
    _Alignas(PL_PTRMAP_ALIGN) char first[PL_PTRMAP_KEY_AT];
    pleat_devptr key;
} object;

static void put(pleat_devptr key, object *o)
{
    o->key = key;
    pl_ptrmap_insert(&map, key, o);
}

static void insert(pleat_devptr key, object *o)
{
    ck_assert_int_eq(pl_ptrmap_reserve(&map, &meta, 1), PLEAT_OK);
    put(key, o);
}

static pleat_devptr address(size_t i)
{
    return UINT64_C(0x7f0000000000) + i * 512;
}

START_TEST(an_empty_map_finds_and_removes_nothing)
{
    ck_assert_ptr_null(pl_ptrmap_find(&map, address(0)));
    ck_assert_ptr_null(pl_ptrmap_find(&map, 0));
    ck_assert_ptr_null(pl_ptrmap_remove(&map, address(0)));
    size_t cursor = 0;
    ck_assert_ptr_null(pl_ptrmap_next(&map, &cursor));
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
}
END_TEST

START_TEST(what_was_inserted_is_found_until_it_is_removed)
{
    static object only;
    insert(address(7), &only);
    ck_assert_ptr_eq(pl_ptrmap_find(&map, address(7)), &only);
    ck_assert_uint_eq(map.count, 1);
    ck_assert_ptr_eq(pl_ptrmap_remove(&map, address(7)), &only);
    ck_assert_ptr_null(pl_ptrmap_find(&map, address(7)));
    ck_assert_ptr_null(pl_ptrmap_remove(&map, address(7)));
    ck_assert_uint_eq(map.count, 0);
}
END_TEST

START_TEST(foreign_numbers_are_not_found_even_near_a_key)
{
    static object only;
    insert(address(7), &only);
    ck_assert_ptr_null(pl_ptrmap_find(&map, 0));
    ck_assert_ptr_null(pl_ptrmap_find(&map, address(7) + 1));
    ck_assert_ptr_null(pl_ptrmap_find(&map, address(7) + 511));
    ck_assert_ptr_null(pl_ptrmap_find(&map, UINT64_MAX));
    ck_assert_ptr_null(pl_ptrmap_remove(&map, address(7) + 1));
    ck_assert_uint_eq(map.count, 1);
}
END_TEST

START_TEST(reserved_room_takes_that_many_without_asking_for_memory)
{
    enum { N = 5000 };
    static object objects[N];
    ck_assert_int_eq(pl_ptrmap_reserve(&map, &meta, N), PLEAT_OK);
    pl_meta_fail_from(0);
    for (size_t i = 0; i < N; i++) {
        put(address(i), &objects[i]);
    }
    pl_meta_fail_never();
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
    for (size_t i = 0; i < N; i++) {
        ck_assert_ptr_eq(pl_ptrmap_find(&map, address(i)), &objects[i]);
    }
}
END_TEST

START_TEST(however_full_it_gets_one_of_five_slots_is_empty)
{
    enum { N = 60000 };
    static object objects[N];
    for (size_t i = 0; i < N; i++) {
        insert(address(i), &objects[i]);
        ck_assert_uint_le(5 * map.count, 4 * (map.now.mask + 1));
        ck_assert_uint_le(map.count, map.most);
    }
    for (size_t i = 0; i < N; i++) {
        ck_assert_ptr_eq(pl_ptrmap_remove(&map, address(i)), &objects[i]);
    }
}
END_TEST

START_TEST(a_refused_reservation_leaves_the_map_as_it_was)
{
    static object objects[128];
    size_t n = 0;
    pl_meta_fail_at(1);
    pleat_status st = PLEAT_OK;
    for (; n < 128 && st == PLEAT_OK; n++) {
        st = pl_ptrmap_reserve(&map, &meta, 1);
        if (st == PLEAT_OK) {
            put(address(n), &objects[n]);
        }
    }
    ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
    n--;
    ck_assert_uint_eq(map.count, n);
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_eq(pl_ptrmap_find(&map, address(i)), &objects[i]);
    }
}
END_TEST

START_TEST(an_absurd_reservation_is_refused)
{
    ck_assert_int_eq(pl_ptrmap_reserve(&map, &meta, SIZE_MAX), PLEAT_ENOMEM_HOST);
    ck_assert_int_eq(pl_ptrmap_reserve(&map, &meta, SIZE_MAX / 2), PLEAT_ENOMEM_HOST);
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
}
END_TEST

START_TEST(the_walk_meets_every_value_once)
{
    enum { N = 300 };
    static object objects[N];
    static int n_met[N];
    memset(n_met, 0, sizeof n_met);
    for (size_t i = 0; i < N; i++) {
        insert(address(i * 4096), &objects[i]);
    }
    size_t cursor = 0;
    for (object *o; (o = pl_ptrmap_next(&map, &cursor)) != NULL;) {
        n_met[o - objects]++;
    }
    for (size_t i = 0; i < N; i++) {
        ck_assert_int_eq(n_met[i], 1);
    }
}
END_TEST

/* Keys like blocks of one segment, and keys of segments far apart. */
START_TEST(random_operations_agree_with_a_table)
{
    enum { N = 4096, N_STEPS = 200000 };
    static object objects[N];
    static bool is_in[N];
    memset(is_in, 0, sizeof is_in);
    uint64_t seed = 12345;
    for (size_t step = 0; step < N_STEPS; step++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        size_t i = (size_t)(seed >> 40) % N;
        pleat_devptr key = address(i % 2 == 0 ? i : i << 12);
        ck_assert_ptr_eq(pl_ptrmap_find(&map, key), is_in[i] ? &objects[i] : NULL);
        if (is_in[i]) {
            ck_assert_ptr_eq(pl_ptrmap_remove(&map, key), &objects[i]);
        } else {
            insert(key, &objects[i]);
        }
        is_in[i] = !is_in[i];
        if (step % 1000 == 0) {
            ck_assert_int_eq(pl_ptrmap_check(&map), 0);
        }
    }
}
END_TEST

/* ---- growing little by little -------------------------------------------------------------- */

enum { N_FULL = 1024 / 4, MOST_MOVED = 16 };

/* Fill 1,024 slots to their limit, and insert one more key. */
static void begin_growth(object *objects)
{
    for (size_t i = 0; i <= N_FULL; i++) {
        insert(address(i), &objects[i]);
    }
    ck_assert_uint_eq(map.now.mask, 2047);
    ck_assert_uint_ge(map.n_unmoved, 1024 - MOST_MOVED);
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
}

static size_t count_old(void)
{
    size_t n = 0;
    for (size_t i = 0; i < map.n_unmoved; i++) {
        n += map.old.slots[i] != 0;
    }
    return n;
}

START_TEST(no_reservation_moves_more_than_a_few_entries)
{
    static object objects[2 * N_FULL];
    begin_growth(objects);
    size_t n_steps = 0;
    for (size_t i = N_FULL + 1; map.n_unmoved > 0; i++, n_steps++) {
        size_t n_old = count_old();
        insert(address(i), &objects[i]);
        ck_assert_uint_le(n_old - count_old(), MOST_MOVED);
        ck_assert_int_eq(pl_ptrmap_check(&map), 0);
        for (size_t k = 0; k <= i; k++) {
            ck_assert_ptr_eq(pl_ptrmap_find(&map, address(k)), &objects[k]);
        }
        ck_assert_ptr_null(pl_ptrmap_find(&map, address(i + 1)));
    }
    ck_assert_uint_gt(n_steps, 40);
    ck_assert_uint_lt(n_steps, N_FULL / 2); /* long before the next growth */
    ck_assert_ptr_null(map.old.slots);
}
END_TEST

START_TEST(keys_of_either_table_are_removed_and_walked)
{
    static object objects[N_FULL + 1];
    static int n_met[N_FULL + 1];
    memset(n_met, 0, sizeof n_met);
    begin_growth(objects);
    for (size_t i = 0; i <= N_FULL; i += 3) {
        ck_assert_ptr_eq(pl_ptrmap_remove(&map, address(i)), &objects[i]);
        ck_assert_ptr_null(pl_ptrmap_remove(&map, address(i)));
        ck_assert_int_eq(pl_ptrmap_check(&map), 0);
    }
    ck_assert_uint_gt(map.n_unmoved, 0);
    size_t cursor = 0;
    for (object *o; (o = pl_ptrmap_next(&map, &cursor)) != NULL;) {
        n_met[o - objects]++;
    }
    for (size_t i = 0; i <= N_FULL; i++) {
        ck_assert_int_eq(n_met[i], i % 3 != 0);
    }
}
END_TEST

START_TEST(a_growth_that_overtakes_another_keeps_every_key)
{
    static object objects[N_FULL + 1];
    begin_growth(objects);
    ck_assert_int_eq(pl_ptrmap_reserve(&map, &meta, 100000), PLEAT_OK);
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
    ck_assert_uint_eq(map.old.mask, 2047);
    for (size_t i = 0; i <= N_FULL; i++) {
        ck_assert_ptr_eq(pl_ptrmap_find(&map, address(i)), &objects[i]);
    }
}
END_TEST

START_TEST(a_refused_growth_leaves_both_tables_as_they_were)
{
    static object objects[N_FULL + 1];
    begin_growth(objects);
    size_t n_unmoved = map.n_unmoved;
    pl_meta_fail_from(0);
    ck_assert_int_eq(pl_ptrmap_reserve(&map, &meta, 100000), PLEAT_ENOMEM_HOST);
    pl_meta_fail_never();
    ck_assert_uint_eq(map.n_unmoved, n_unmoved);
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
}
END_TEST

/* Mostly insertions, so the map grows from nothing in every round. */
START_TEST(random_operations_on_a_growing_map_agree_with_a_table)
{
    enum { N = 12000, ROUNDS = 6 };
    static object objects[N];
    static bool is_in[N];
    uint64_t seed = 54321;
    for (int round = 0; round < ROUNDS; round++) {
        close_map();
        open_map();
        memset(is_in, 0, sizeof is_in);
        for (size_t step = 0; step < 3 * N; step++) {
            seed = seed * UINT64_C(6364136223846793005) + 1;
            size_t i = (size_t)(seed >> 40) % N;
            pleat_devptr key = address(i % 3 == 0 ? i : i << 9);
            ck_assert_ptr_eq(pl_ptrmap_find(&map, key), is_in[i] ? &objects[i] : NULL);
            bool wants_out = is_in[i] && (seed >> 33) % 4 == 0;
            if (wants_out) {
                ck_assert_ptr_eq(pl_ptrmap_remove(&map, key), &objects[i]);
                is_in[i] = false;
            } else if (!is_in[i]) {
                insert(key, &objects[i]);
                is_in[i] = true;
            }
            if (step % 97 == 0) {
                ck_assert_int_eq(pl_ptrmap_check(&map), 0);
            }
        }
    }
}
END_TEST

START_TEST(the_walker_names_what_is_broken_while_a_map_grows)
{
    static object objects[N_FULL + 1];
    begin_growth(objects);
    map.quick = map.most;
    ck_assert_int_eq(pl_ptrmap_check(&map), 5);
    map.quick = 0;
    size_t n_unmoved = map.n_unmoved;
    map.n_unmoved = 1;
    ck_assert_int_eq(pl_ptrmap_check(&map), 5);
    map.n_unmoved = n_unmoved;
    size_t at = 0;
    while (map.old.slots[at] == 0) {
        at++;
    }
    static object same;
    put(pl_ptrmap_key(map.old.slots[at]), &same);
    ck_assert_int_eq(pl_ptrmap_check(&map), 4);
}
END_TEST

START_TEST(the_walker_names_what_is_broken)
{
    static object only;
    static object same;
    insert(address(1), &only);
    map.count++;
    ck_assert_int_eq(pl_ptrmap_check(&map), 2);
    map.count--;
    size_t at = pl_ptrmap_home(&map.now, pl_ptrmap_hash(address(1)));
    map.now.slots[at]++; /* the distance */
    ck_assert_int_eq(pl_ptrmap_check(&map), 3);
    map.now.slots[at]--;
    map.now.slots[at] ^= PL_PTRMAP_FAR + 1; /* the tag */
    ck_assert_int_eq(pl_ptrmap_check(&map), 3);
    map.now.slots[at] ^= PL_PTRMAP_FAR + 1;
    map.now.slots[(at + 2) & map.now.mask] = map.now.slots[at] + 2;
    map.now.slots[at] = 0;
    ck_assert_int_eq(pl_ptrmap_check(&map), 3);
    map.now.slots[at] = map.now.slots[(at + 2) & map.now.mask] - 2;
    map.now.slots[(at + 2) & map.now.mask] = 0;
    put(address(1), &same);
    ck_assert_int_eq(pl_ptrmap_check(&map), 4);
    map.most = map.now.mask + 1;
    ck_assert_int_eq(pl_ptrmap_check(&map), 1);
}
END_TEST

/* ---- far from home ------------------------------------------------------------------------- */

enum { N_ALIKE = 3 * PL_PTRMAP_FAR };

/* Keys with one home, and with one tag or any tags, in a table that does not grow. */
static void find_alike(pleat_devptr *keys, bool has_one_tag)
{
    ck_assert_int_eq(pl_ptrmap_reserve(&map, &meta, 4 * N_ALIKE), PLEAT_OK);
    uint64_t first = pl_ptrmap_hash(address(1));
    size_t n = 0;
    for (size_t i = 1; n < N_ALIKE; i++) {
        uint64_t hash = pl_ptrmap_hash(address(i));
        if (pl_ptrmap_home(&map.now, hash) == pl_ptrmap_home(&map.now, first) &&
            (!has_one_tag || pl_ptrmap_bits(hash) == pl_ptrmap_bits(first))) {
            keys[n++] = address(i);
        }
    }
}

START_TEST(keys_that_lie_far_from_their_home_are_found_and_removed)
{
    static object objects[2 * N_ALIKE];
    pleat_devptr keys[N_ALIKE];
    find_alike(keys, _i == 0);
    for (size_t i = 0; i < N_ALIKE; i++) {
        insert(keys[i], &objects[i]);
        insert(address(1000000 + i), &objects[N_ALIKE + i]); /* further keys lie between them */
        ck_assert_int_eq(pl_ptrmap_check(&map), 0);
    }
    for (size_t n = 0; n < N_ALIKE; n++) {
        size_t i = (n * 7) % N_ALIKE; /* 7 and 45 have no common factor */
        for (size_t k = 0; k < N_ALIKE; k++) {
            size_t rank = (k * 13) %
                          N_ALIKE; /* 13 x 7 = 91 = 1 modulo 45: removed as the rank-th */
            ck_assert_ptr_eq(pl_ptrmap_find(&map, keys[k]), rank < n ? NULL : &objects[k]);
        }
        ck_assert_ptr_eq(pl_ptrmap_remove(&map, keys[i]), &objects[i]);
        ck_assert_int_eq(pl_ptrmap_check(&map), 0);
    }
    ck_assert_uint_eq(map.count, N_ALIKE);
}
END_TEST

SUITE(segments_ptrmap)
{
    TCase *tcase = tcase_create("ptrmap");
    tcase_add_checked_fixture(tcase, open_map, close_map);
    tcase_add_test(tcase, an_empty_map_finds_and_removes_nothing);
    tcase_add_test(tcase, what_was_inserted_is_found_until_it_is_removed);
    tcase_add_test(tcase, foreign_numbers_are_not_found_even_near_a_key);
    tcase_add_test(tcase, reserved_room_takes_that_many_without_asking_for_memory);
    tcase_add_test(tcase, however_full_it_gets_one_of_five_slots_is_empty);
    tcase_add_test(tcase, a_refused_reservation_leaves_the_map_as_it_was);
    tcase_add_test(tcase, an_absurd_reservation_is_refused);
    tcase_add_test(tcase, the_walk_meets_every_value_once);
    tcase_add_test(tcase, random_operations_agree_with_a_table);
    tcase_add_test(tcase, the_walker_names_what_is_broken);
    suite_add_tcase(suite, tcase);
    TCase *growth = tcase_create("growing by and by");
    tcase_add_checked_fixture(growth, open_map, close_map);
    tcase_add_test(growth, no_reservation_moves_more_than_a_few_entries);
    tcase_add_test(growth, keys_of_either_table_are_removed_and_walked);
    tcase_add_test(growth, a_growth_that_overtakes_another_keeps_every_key);
    tcase_add_test(growth, a_refused_growth_leaves_both_tables_as_they_were);
    tcase_add_test(growth, random_operations_on_a_growing_map_agree_with_a_table);
    tcase_add_test(growth, the_walker_names_what_is_broken_while_a_map_grows);
    suite_add_tcase(suite, growth);
    TCase *far = tcase_create("far from home");
    tcase_add_checked_fixture(far, open_map, close_map);
    tcase_add_loop_test(far, keys_that_lie_far_from_their_home_are_found_and_removed, 0, 2);
    suite_add_tcase(suite, far);
}

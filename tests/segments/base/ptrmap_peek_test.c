/* ptrmap_peek_test.c - the map's lock-free look-up (peek) finds the right object or none, while
 * other threads insert, remove and grow. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "segments/base/ptrmap.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"

enum { N_OBJECTS = 20000 };

typedef struct object {
    _Alignas(PL_PTRMAP_ALIGN) char first[PL_PTRMAP_KEY_AT];
    pleat_devptr key;
} object;

static object objects[N_OBJECTS];
static bool is_in[N_OBJECTS];
static pl_meta meta;
static pl_ptrmap map;

static void open_map(void)
{
    pl_meta_fail_never();
    ck_assert_int_eq(pl_meta_init(&meta), PLEAT_OK);
    pl_ptrmap_init(&map);
    map.is_peeked = true;
}

static void close_map(void)
{
    pl_meta_fail_never();
    pl_ptrmap_fini(&map, &meta);
    ck_assert_uint_eq(pl_meta_fini(&meta), 0);
}

static pleat_devptr key_of(size_t i)
{
    return UINT64_C(0x7f0000000000) + i * 512;
}

/* Like the allocator: write the object before its insertion. */
static void insert(size_t i)
{
    ck_assert_int_eq(pl_ptrmap_reserve(&map, &meta, 1), PLEAT_OK);
    objects[i].key = key_of(i);
    pl_ptrmap_insert(&map, key_of(i), &objects[i]);
    is_in[i] = true;
}

static void drop(size_t i)
{
    ck_assert_ptr_eq(pl_ptrmap_remove(&map, key_of(i)), &objects[i]);
    is_in[i] = false;
}

/* Where the object was seen, it is. */
static void *peek(pleat_devptr key)
{
    size_t at = SIZE_MAX;
    void *found = pl_ptrmap_peek(&map, key, &at);
    ck_assert((found != NULL) == (at != SIZE_MAX));
    return found;
}

START_TEST(an_empty_map_has_nothing_to_peek_at)
{
    ck_assert_ptr_null(peek(key_of(0)));
    insert(0);
    ck_assert_ptr_eq(peek(key_of(0)), &objects[0]);
    ck_assert_ptr_null(peek(key_of(1)));
    ck_assert_ptr_null(peek(key_of(0) + 1));
    ck_assert_ptr_null(peek(0));
    drop(0);
    ck_assert_ptr_null(peek(key_of(0)));
}
END_TEST

/* A peek searches only a short way in the newest table. So it finds most objects, not all. */
START_TEST(in_a_growing_map_a_peek_finds_the_object_or_nothing)
{
    size_t n_missed = 0;
    size_t n_looks = 0;
    for (size_t i = 0; i < N_OBJECTS; i++) {
        insert(i);
        ck_assert(peek(key_of(i)) == &objects[i] || pl_ptrmap_find(&map, key_of(i)) == &objects[i]);
        for (size_t k = i % 97; k <= i; k += 997, n_looks++) {
            void *found = peek(key_of(k));
            ck_assert(found == NULL || found == &objects[k]);
            n_missed += found == NULL;
        }
        ck_assert_ptr_null(peek(key_of(N_OBJECTS + i)));
    }
    ck_assert_uint_lt(n_missed, n_looks / 2);
    for (size_t i = 0; i < N_OBJECTS; i += 2) {
        drop(i);
        ck_assert_ptr_null(peek(key_of(i)));
    }
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
}
END_TEST

START_TEST(spent_tables_go_when_they_are_discarded)
{
    size_t n_discards = 0;
    for (size_t i = 0; i < N_OBJECTS; i++) {
        insert(i);
        if (pl_ptrmap_has_spent(&map)) {
            size_t bytes = meta.bytes;
            pl_ptrmap_discard(&map, &meta);
            ck_assert_uint_lt(meta.bytes, bytes);
            ck_assert(!pl_ptrmap_has_spent(&map));
            n_discards++;
        }
        ck_assert_ptr_eq(pl_ptrmap_find(&map, key_of(i)), &objects[i]);
    }
    ck_assert_uint_ge(n_discards, 3);
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
}
END_TEST

START_TEST(a_growth_without_memory_for_its_view_changes_nothing)
{
    size_t n_failed = 0;
    for (size_t i = 0; i < 2000; i++) {
        for (uint64_t k = 0; k < 2; k++) {
            pl_meta_fail_at(k);
            size_t n_before = map.count;
            pleat_status st = pl_ptrmap_reserve(&map, &meta, 1);
            pl_meta_fail_never();
            ck_assert_uint_eq(map.count, n_before);
            ck_assert_int_eq(pl_ptrmap_check(&map), 0);
            n_failed += st == PLEAT_ENOMEM_HOST;
            if (i > 0 && i % 50 == 0) {
                ck_assert_ptr_eq(pl_ptrmap_find(&map, key_of(i - 1)), &objects[i - 1]);
            }
        }
        insert(i);
    }
    ck_assert_uint_gt(n_failed, 0);
}
END_TEST

/* ---- beside others --------------------------------------------------------------------------- */

static struct watch {
    pthread_rwlock_t held_off; /* read-locked by peeks, write-locked by a discard of tables */
    _Atomic bool is_over;
    _Atomic unsigned n_wrong;
    _Atomic uint64_t n_found;
    _Atomic unsigned n_begun;
} watch = { .held_off = PTHREAD_RWLOCK_INITIALIZER };

static void *peek_at_random(void *unused)
{
    enum { N_AT_ONCE = 50 };
    random_source r = { 77 + atomic_fetch_add(&watch.n_begun, 1) };
    while (!atomic_load(&watch.is_over)) {
        pthread_rwlock_rdlock(&watch.held_off);
        for (unsigned n = 0; n < N_AT_ONCE; n++) {
            size_t i = random_below(&r, N_OBJECTS + 100);
            size_t at;
            void *found = pl_ptrmap_peek(&map, key_of(i), &at);
            bool is_right = found == NULL || (i < N_OBJECTS && found == &objects[i]);
            atomic_fetch_add(&watch.n_wrong, !is_right);
            atomic_fetch_add(&watch.n_found, found != NULL);
        }
        pthread_rwlock_unlock(&watch.held_off);
    }
    return unused;
}

static void discard_if_spent(void)
{
    if (pl_ptrmap_has_spent(&map)) {
        pthread_rwlock_wrlock(&watch.held_off);
        pl_ptrmap_discard(&map, &meta);
        pthread_rwlock_unlock(&watch.held_off);
    }
}

START_TEST(peeks_beside_insertions_and_removals_find_the_right_object_or_none)
{
    enum { N_PEEKERS = 2, N_STEPS = 300000 };
    pthread_t peekers[N_PEEKERS];
    random_source r = { 4711 };
    for (unsigned i = 0; i < N_PEEKERS; i++) {
        ck_assert_int_eq(pthread_create(&peekers[i], NULL, peek_at_random, NULL), 0);
    }
    size_t most = 64; /* more and more of the objects take part, so the map grows */
    for (size_t n = 0; n < N_STEPS; n++) {
        size_t i = random_below(&r, most);
        if (is_in[i]) {
            drop(i);
        } else {
            insert(i);
        }
        discard_if_spent();
        most = n % 16 == 0 && most < N_OBJECTS ? most + 1 : most;
    }
    while (atomic_load(&watch.n_found) == 0 && atomic_load(&watch.n_wrong) == 0) {
        (void)sched_yield();
    }
    atomic_store(&watch.is_over, true);
    for (unsigned i = 0; i < N_PEEKERS; i++) {
        ck_assert_int_eq(pthread_join(peekers[i], NULL), 0);
    }
    ck_assert_uint_eq(atomic_load(&watch.n_wrong), 0);
    ck_assert_int_eq(pl_ptrmap_check(&map), 0);
}
END_TEST

SUITE(segments_ptrmap_peek)
{
    TCase *alone = suite_case(suite, "one thread", open_map, close_map);
    suite_one_thread(alone);
    tcase_add_test(alone, an_empty_map_has_nothing_to_peek_at);
    tcase_add_test(alone, in_a_growing_map_a_peek_finds_the_object_or_nothing);
    tcase_add_test(alone, spent_tables_go_when_they_are_discarded);
    tcase_add_test(alone, a_growth_without_memory_for_its_view_changes_nothing);
    TCase *beside = suite_case(suite, "beside others", open_map, close_map);
    tcase_add_test(beside, peeks_beside_insertions_and_removals_find_the_right_object_or_none);
}

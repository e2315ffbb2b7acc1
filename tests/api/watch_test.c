/* watch_test.c - watchers are told of every change, and see all memory in its present state. */
/* labels: unit stress */
#include <check.h>

#include "api/instance/instance.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, MOST = 256 };

typedef struct heard {
    pleat_change changes[MOST];
    unsigned n;
} heard;

static void hear(const pleat_change *change, void *context)
{
    heard *h = context;
    ck_assert_uint_lt(h->n, MOST);
    h->changes[h->n++] = *change;
}

static unsigned count(const heard *h, pleat_change_kind kind)
{
    unsigned n = 0;
    for (unsigned i = 0; i < h->n; i++) {
        n += h->changes[i].kind == kind;
    }
    return n;
}

START_TEST(a_blocks_life_is_told_in_its_order)
{
    heard h = { .n = 0 };
    pleat instance = api_make(_i, "capacity:256M,devices:2", "");
    ck_assert_int_eq(pleat_watch(instance, hear, &h), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 1, 1000, NULL);
    api_free(instance, 1, ptr, NULL);
    ck_assert_uint_eq(h.n, 4); /* the memory comes first */
    const pleat_change_kind kinds[] = { PLEAT_CHANGE_ALLOC, PLEAT_CHANGE_FREE_REQUESTED,
                                        PLEAT_CHANGE_FREE_COMPLETED };
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(h.changes[i + 1].kind, kinds[i]);
        ck_assert_int_eq(h.changes[i + 1].device, 1);
        ck_assert_uint_eq(h.changes[i + 1].base, ptr);
        ck_assert_uint_eq(h.changes[i + 1].bytes, 1000);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(nobody_is_told_once_the_watcher_is_gone)
{
    heard h = { .n = 0 };
    pleat instance = api_make(_i, "capacity:256M", "");
    ck_assert_int_eq(pleat_watch(instance, hear, &h), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
    unsigned n = h.n;
    ck_assert_int_eq(pleat_watch(instance, NULL, NULL), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    ck_assert_uint_eq(h.n, n);
    api_unmake(instance);
}
END_TEST

/* Blocks that a thread keeps in front of the allocator would come and go untold. */
START_TEST(small_blocks_are_told_though_they_were_quick_before)
{
    heard h = { .n = 0 };
    pleat instance = api_make(API_PLEAT, "capacity:256M", "");
    for (int i = 0; i < 100; i++) {
        pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
        api_free(instance, 0, ptr, NULL);
    }
    ck_assert_int_eq(pleat_watch(instance, hear, &h), PLEAT_OK);
    for (int i = 0; i < 10; i++) {
        pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
        api_free(instance, 0, ptr, NULL);
    }
    ck_assert_uint_eq(count(&h, PLEAT_CHANGE_ALLOC), 10);
    ck_assert_uint_eq(count(&h, PLEAT_CHANGE_FREE_COMPLETED), 10);
    api_unmake(instance);
}
END_TEST

START_TEST(a_refusal_is_told_with_the_devices_free_memory)
{
    heard h = { .n = 0 };
    pleat_devptr ptr;
    pleat instance = api_make(_i, "capacity:64M", "");
    ck_assert_int_eq(pleat_watch(instance, hear, &h), PLEAT_OK);
    ck_assert_int_ne(pleat_block_alloc(instance, 0, 100 * MIB, NULL, &ptr), PLEAT_OK);
    ck_assert_uint_eq(count(&h, PLEAT_CHANGE_OOM), 1);
    const pleat_change *last = &h.changes[h.n - 1];
    ck_assert_uint_eq(last->bytes, 100 * MIB);
    ck_assert_uint_gt(last->base, 0);
    api_unmake(instance);
}
END_TEST

typedef struct view {
    heard *heard;
    uint64_t live_bytes;
    unsigned n_live;
    unsigned n_first;
    pleat_devptr last;
} view;

static void look(const pleat_piece *piece, void *context)
{
    view *v = context;
    ck_assert_uint_ge(piece->base, v->last);
    v->last = piece->base + piece->bytes;
    v->n_first += piece->is_first;
    v->n_live += piece->use == PLEAT_PIECE_LIVE;
    v->live_bytes += piece->use == PLEAT_PIECE_LIVE ? piece->requested_bytes : 0;
    ck_assert(piece->use != PLEAT_PIECE_FREE || piece->requested_bytes == 0);
}

START_TEST(a_visit_shows_what_lives_and_the_watcher_hears_of_it)
{
    heard h = { .n = 0 };
    view v = { .heard = &h };
    pleat instance = api_make(_i, "capacity:256M,devices:2", "");
    pleat_devptr kept = api_alloc(instance, 0, 1000, NULL);
    pleat_devptr gone = api_alloc(instance, 0, 3 * MIB, NULL);
    ck_assert_int_eq(pleat_watch(instance, hear, &h), PLEAT_OK);
    api_free(instance, 0, gone, NULL);
    ck_assert_int_eq(pleat_visit(instance, 0, look, &v), PLEAT_OK);
    ck_assert_uint_eq(v.n_live, 1);
    ck_assert_uint_eq(v.live_bytes, 1000);
    ck_assert_uint_ge(v.n_first, 1);
    ck_assert_int_eq(h.changes[h.n - 1].kind, PLEAT_CHANGE_SNAPSHOT);
    ck_assert_int_eq(h.changes[h.n - 1].device, 0);
    api_free(instance, 0, kept, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    ck_assert_int_eq(pleat_visit(instance, 0, NULL, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_visit(instance, 7, look, NULL), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_visit(instance, 0, look, NULL), PLEAT_OK); /* never used: no piece */
    api_unmake(instance);
    ck_assert_int_eq(pleat_watch(instance, hear, NULL), PLEAT_EGONE);
}
END_TEST

SUITE(api_watch)
{
    TCase *tcase = tcase_create("watching");
    const int n = N_API_ALLOCATORS;
    tcase_add_checked_fixture(tcase, api_sim_load, NULL);
    tcase_add_test(tcase, small_blocks_are_told_though_they_were_quick_before);
    tcase_add_test(tcase, bad_arguments_are_refused);
    tcase_add_loop_test(tcase, a_blocks_life_is_told_in_its_order, 0, n);
    tcase_add_loop_test(tcase, nobody_is_told_once_the_watcher_is_gone, 0, n);
    tcase_add_loop_test(tcase, a_refusal_is_told_with_the_devices_free_memory, 0, n);
    tcase_add_loop_test(tcase, a_visit_shows_what_lives_and_the_watcher_hears_of_it, 0, n);
    suite_add_tcase(suite, tcase);
}

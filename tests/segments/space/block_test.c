/* block_test.c - the store of block structs, and their queues. */
/* labels: unit fault */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segments/pleat/space/block.h"
#include "tests/support/suite.h"

enum { N = 1500, HUGE_BYTES = 2 << 20, N_SLAB = HUGE_BYTES / sizeof(pl_block) - 1 };

static pl_meta meta;
static pl_block_store store;

static void open_store(void)
{
    pl_meta_fail_never();
    ck_assert_int_eq(pl_meta_init(&meta), PLEAT_OK);
    pl_block_store_init(&store, &meta);
}

static void close_store(void)
{
    pl_meta_fail_never();
    pl_block_store_fini(&store);
    ck_assert_uint_eq(pl_meta_fini(&meta), 0);
}

/* ---- the store ----------------------------------------------------------------------------- */

START_TEST(a_new_store_holds_no_memory)
{
    ck_assert_uint_eq(store.n_spare, 0);
    ck_assert_uint_eq(meta.bytes, 0);
}
END_TEST

START_TEST(reserved_blocks_are_had_without_asking_for_memory)
{
    static pl_block *got[N];
    ck_assert_int_eq(pl_block_store_reserve(&store, N), PLEAT_OK);
    ck_assert_uint_ge(store.n_spare, N);
    size_t n_spare = store.n_spare;
    pl_meta_fail_from(0);
    for (size_t i = 0; i < N; i++) {
        got[i] = pl_block_store_get(&store);
        got[i]->base = i;
    }
    ck_assert_uint_eq(store.n_spare, n_spare - N);
    for (size_t i = 0; i < N; i++) {
        ck_assert_uint_eq(got[i]->base, i); /* each block was given once */
    }
}
END_TEST

START_TEST(reserving_what_is_spare_takes_no_memory)
{
    ck_assert_int_eq(pl_block_store_reserve(&store, 1), PLEAT_OK);
    size_t bytes = meta.bytes;
    pl_meta_fail_from(0);
    ck_assert_int_eq(pl_block_store_reserve(&store, store.n_spare), PLEAT_OK);
    ck_assert_uint_eq(meta.bytes, bytes);
}
END_TEST

START_TEST(a_block_comes_back_clean)
{
    ck_assert_int_eq(pl_block_store_reserve(&store, 1), PLEAT_OK);
    pl_block *b = pl_block_store_get(&store);
    memset(b, 0xff, sizeof(*b));
    pl_block_store_put(&store, b);
    pl_block *again = pl_block_store_get(&store);
    ck_assert_ptr_eq(again, b); /* the last one put back comes first */
    ck_assert_ptr_null(again->next);
    ck_assert_ptr_null(again->prev);
    ck_assert_ptr_null(again->queue_prev);
    ck_assert_ptr_null(again->queue_next);
    ck_assert_ptr_null(again->uses);
    ck_assert_uint_eq(again->stamp, 0);
    ck_assert(!again->is_indexed && !again->is_private);
}
END_TEST

/* Take blocks of a fresh slab and give some back in turns. Taken blocks never repeat, and a used
 * block comes before an untouched one. */
START_TEST(blocks_are_carved_only_when_none_is_spare)
{
    static pl_block *got[N];
    size_t n_had = 0;
    for (size_t i = 0; i < N; i++) {
        ck_assert_int_eq(pl_block_store_reserve(&store, 3), PLEAT_OK);
        pl_block *used = pl_block_store_get(&store);
        got[n_had] = pl_block_store_get(&store);
        got[n_had]->base = n_had;
        n_had++;
        pl_block_store_put(&store, used);
        ck_assert_ptr_eq(pl_block_store_get(&store), used);
        pl_block_store_put(&store, used);
    }
    for (size_t i = 0; i < n_had; i++) {
        ck_assert_uint_eq(got[i]->base, i);
        ck_assert_uint_eq((uintptr_t)got[i] % 64, 0);
    }
    ck_assert_uint_lt(store.n_spare, 3 + 65536 / sizeof(pl_block));
}
END_TEST

START_TEST(without_host_memory_nothing_changes)
{
    ck_assert_int_eq(pl_block_store_reserve(&store, N_SLAB), PLEAT_OK);
    size_t n_spare = store.n_spare;
    ck_assert_uint_eq(n_spare, N_SLAB);
    pl_meta_fail_from(0);
    ck_assert_int_eq(pl_block_store_reserve(&store, n_spare + 1), PLEAT_ENOMEM_HOST);
    ck_assert_uint_eq(store.n_spare, n_spare);
    pl_meta_fail_never();
    ck_assert_int_eq(pl_block_store_reserve(&store, n_spare + 1), PLEAT_OK);
}
END_TEST

/* KiB of the process in huge pages. */
static size_t huge_kib(void)
{
    char line[256];
    size_t sum = 0;
    size_t kib;
    FILE *file = fopen("/proc/self/smaps", "r");

    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) != NULL) {
        sum += sscanf(line, "AnonHugePages: %zu kB", &kib) == 1 ? kib : 0;
    }
    (void)fclose(file);
    return sum;
}

/* Can the system do so at once? */
static bool can_collapse(void)
{
    char *p = pl_meta_reserve_aligned(&meta, HUGE_BYTES);
    ck_assert_ptr_nonnull(p);
    memset(p, 1, HUGE_BYTES);
    size_t before = huge_kib();
    pl_meta_merge_pages(p, HUGE_BYTES);
    bool can = huge_kib() > before;
    pl_meta_unreserve(&meta, p, HUGE_BYTES, 0);
    return can;
}

/* Each slab is merged once, after all its blocks were carved. The blocks keep their contents. */
START_TEST(slabs_that_are_carved_whole_go_into_huge_pages)
{
    static pl_block *got[2 * N_SLAB + 1];
    bool can = can_collapse();
    size_t n = 0;

    pl_block_slab_merge(NULL);
    for (size_t n_slabs = 1; n_slabs <= 2; n_slabs++) {
        while (n < n_slabs * N_SLAB + 1) {
            ck_assert_ptr_null(pl_block_store_take_full(&store));
            ck_assert_int_eq(pl_block_store_reserve(&store, 1), PLEAT_OK);
            got[n] = pl_block_store_get(&store);
            got[n]->base = n;
            n++;
        }
        struct pl_block_slab *full = pl_block_store_take_full(&store);
        ck_assert_uint_eq((uintptr_t)got[n - 2] / HUGE_BYTES, (uintptr_t)full / HUGE_BYTES);
        size_t before = huge_kib();
        pl_block_slab_merge(full);
        ck_assert_uint_eq(huge_kib() - before, can ? HUGE_BYTES / 1024 : 0);
    }
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(got[i]->base, i);
    }
}
END_TEST

/* ---- queues -------------------------------------------------------------------------------- */

static pl_block blocks[4];
static pl_block_queue queue;

static void open_queue(void)
{
    memset(blocks, 0, sizeof(blocks));
    queue = (pl_block_queue){ 0 };
    for (size_t i = 0; i < 3; i++) {
        pl_queue_push(&queue, &blocks[i]);
    }
}

/* The queue holds the blocks with these digits in this order, both forwards and backwards. */
static void assert_queue(const char *digits)
{
    char forth[8] = "";
    char back[8] = "";
    size_t n = strlen(digits);
    size_t i = 0;
    for (pl_block *b = queue.first; b != NULL && i < 7; b = b->queue_next) {
        forth[i++] = (char)('0' + (int)(b - blocks));
    }
    ck_assert_str_eq(forth, digits);
    for (pl_block *b = queue.last; b != NULL && i > 0; b = b->queue_prev) {
        back[--i] = (char)('0' + (int)(b - blocks));
    }
    ck_assert_uint_eq(i, 0);
    ck_assert_int_eq(memcmp(back, digits, n), 0);
}

START_TEST(a_queue_is_first_in_first_out)
{
    assert_queue("012");
    pl_queue_remove(&queue, queue.first);
    assert_queue("12");
    pl_queue_push(&queue, &blocks[0]);
    assert_queue("120");
}
END_TEST

START_TEST(a_block_leaves_a_queue_from_anywhere)
{
    pl_queue_remove(&queue, &blocks[1]);
    assert_queue("02");
    pl_queue_remove(&queue, &blocks[2]);
    assert_queue("0");
    pl_queue_remove(&queue, &blocks[0]);
    assert_queue("");
    ck_assert_ptr_null(queue.last);
    ck_assert_ptr_null(blocks[1].queue_prev);
    ck_assert_ptr_null(blocks[1].queue_next);
}
END_TEST

START_TEST(an_heir_stands_where_its_block_stood)
{
    static const char *const after[] = { "312", "032", "013" };
    pl_queue_replace(&queue, &blocks[_i], &blocks[3]);
    assert_queue(after[_i]);
    ck_assert_ptr_null(blocks[_i].queue_prev);
    ck_assert_ptr_null(blocks[_i].queue_next);
}
END_TEST

START_TEST(the_only_block_of_a_queue_has_an_heir)
{
    pl_queue_remove(&queue, &blocks[0]);
    pl_queue_remove(&queue, &blocks[1]);
    pl_queue_replace(&queue, &blocks[2], &blocks[3]);
    assert_queue("3");
}
END_TEST

SUITE(segments_block)
{
    TCase *stores = tcase_create("store");
    tcase_add_checked_fixture(stores, open_store, close_store);
    tcase_add_test(stores, a_new_store_holds_no_memory);
    tcase_add_test(stores, reserved_blocks_are_had_without_asking_for_memory);
    tcase_add_test(stores, reserving_what_is_spare_takes_no_memory);
    tcase_add_test(stores, a_block_comes_back_clean);
    tcase_add_test(stores, blocks_are_carved_only_when_none_is_spare);
    tcase_add_test(stores, without_host_memory_nothing_changes);
    tcase_add_test(stores, slabs_that_are_carved_whole_go_into_huge_pages);
    suite_add_tcase(suite, stores);
    TCase *queues = tcase_create("queue");
    tcase_add_checked_fixture(queues, open_queue, NULL);
    tcase_add_test(queues, a_queue_is_first_in_first_out);
    tcase_add_test(queues, a_block_leaves_a_queue_from_anywhere);
    tcase_add_loop_test(queues, an_heir_stands_where_its_block_stood, 0, 3);
    tcase_add_test(queues, the_only_block_of_a_queue_has_an_heir);
    suite_add_tcase(suite, queues);
}

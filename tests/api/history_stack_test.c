/* history_stack_test.c - stacks in a history: taken, stored once, bounded in number, named. */
/* labels: unit fault */
#include <check.h>
#include <string.h>

#include "tests/support/api/api_history.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

START_TEST(stacks_of_allocations_name_who_asked)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    history_record(instance, 100, PLEAT_HISTORY_FRAMES);
    history_call_by_name(instance, 1);
    size_t n = history_copy(instance, 0);
    const pl_history_entry *alloc = history_find(n, PL_ACTION_ALLOC, 0);
    ck_assert(history_is_gain(&history_entries[0]));
    ck_assert_uint_eq(history_entries[0].frames, alloc->frames);
    ck_assert(history_has_frame(instance, alloc->frames, "lfind+0x"));
    ck_assert_uint_eq(history_find(n, PL_ACTION_FREE_REQUESTED, 0)->frames, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(stacks_of_frees_are_kept_when_they_are_asked_for)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    history_record(instance, 100, PLEAT_HISTORY_FREE_FRAMES);
    history_call_by_name(instance, 1);
    size_t n = history_copy(instance, 0);
    ck_assert_uint_eq(history_find(n, PL_ACTION_ALLOC, 0)->frames, 0);
    ck_assert(history_has_frame(instance, history_find(n, PL_ACTION_FREE_REQUESTED, 0)->frames,
                                "lfind+0x"));
    api_unmake(instance);
}
END_TEST

START_TEST(equal_stacks_are_stored_once)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    history_record(instance, HISTORY_MOST, PLEAT_HISTORY_FRAMES);
    history_call_by_name(instance, 16);
    uint64_t bytes = api_stats(instance, 0).metadata_bytes;
    for (unsigned i = 0; i < 50; i++) {
        history_call_by_name(instance, 16); /* a second call site, so a different stack */
    }
    size_t n = history_copy(instance, 0);
    ck_assert_uint_eq(history_find(n, PL_ACTION_ALLOC, 0)->frames,
                      history_find(n, PL_ACTION_ALLOC, 15)->frames);
    ck_assert_uint_ne(history_find(n, PL_ACTION_ALLOC, 15)->frames,
                      history_find(n, PL_ACTION_ALLOC, 16)->frames);
    ck_assert_uint_eq(history_find(n, PL_ACTION_ALLOC, 16)->frames,
                      history_find(n, PL_ACTION_ALLOC, 815)->frames);
    ck_assert_uint_eq(api_stats(instance, 0).metadata_bytes, bytes);
    api_unmake(instance);
}
END_TEST

START_TEST(forgotten_stacks_are_not_taken_for_others)
{
    void *stack[PL_HISTORY_DEPTH];
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    history_record(instance, 100, PLEAT_HISTORY_FRAMES);
    history_call_by_name(instance, 1);
    uint32_t old = history_find(history_copy(instance, 0), PL_ACTION_ALLOC, 0)->frames;
    history_record(instance, 100, PLEAT_HISTORY_FRAMES | PLEAT_HISTORY_KEEP);
    ck_assert(history_has_frame(instance, old, "lfind"));
    history_record(instance, 100, PLEAT_HISTORY_FRAMES);
    ck_assert_uint_eq(pl_history_stack(history_of(instance, 0), old, stack), 0);
    history_call_by_name(instance, 1);
    ck_assert_uint_ne(history_find(history_copy(instance, 0), PL_ACTION_ALLOC, 0)->frames, old);
    ck_assert_uint_eq(pl_history_stack(history_of(instance, 0), old, stack), 0);
    ck_assert_uint_eq(pl_history_stack(history_of(instance, 0), 0, stack), 0);
    api_unmake(instance);
}
END_TEST

/* Name a stack unique to this number. */
static uint32_t name_made(pl_history_stacks *stacks, pl_meta *meta, uintptr_t number, void **made)
{
    for (uintptr_t k = 0; k < PL_HISTORY_DEPTH; k++) {
        made[k] = (void *)(k + 1 + number);
    }
    pl_stack_set(made, PL_HISTORY_DEPTH);
    uint32_t name = pl_stacks_name(stacks, meta);
    pl_stack_end();
    return name;
}

START_TEST(the_newest_stacks_are_kept_within_a_bound)
{
    enum { N = 100000, N_NEWEST = 16000 };
    static uint32_t names[N];
    pl_meta meta;
    pl_history_stacks stacks = { .now = { .n_words = 0 } };
    size_t most_bytes = 0;
    void *made[PL_HISTORY_DEPTH];
    void *stack[PL_HISTORY_DEPTH];
    ck_assert_int_eq(pl_meta_init(&meta), PLEAT_OK);
    for (uintptr_t i = 0; i < N; i++) {
        names[i] = name_made(&stacks, &meta, i, made);
        ck_assert_uint_gt(names[i], i > 0 ? names[i - 1] : 0);
        ck_assert_uint_eq(name_made(&stacks, &meta, i, made), names[i]);
        uintptr_t old = i > N_NEWEST ? i - N_NEWEST : 0;
        ck_assert_uint_eq(pl_stacks_get(&stacks, names[old], stack), PL_HISTORY_DEPTH);
        ck_assert_ptr_eq(stack[0], (void *)(old + 1));
        ck_assert_ptr_eq(stack[PL_HISTORY_DEPTH - 1], (void *)(old + PL_HISTORY_DEPTH));
        most_bytes = meta.bytes > most_bytes ? meta.bytes : most_bytes;
    }
    ck_assert_uint_eq(pl_stacks_get(&stacks, names[0], stack), 0);
    ck_assert_uint_eq(pl_stacks_get(&stacks, names[N - 1] + 1000, stack), 0);
    ck_assert_uint_gt(most_bytes, 15 * MIB);
    ck_assert_uint_le(most_bytes, 17 * MIB);
    pl_stacks_clear(&stacks);
    ck_assert_uint_eq(pl_stacks_get(&stacks, names[N - 1], stack), 0);
    ck_assert_uint_gt(name_made(&stacks, &meta, 5, made), names[N - 1]);
    pl_stacks_fini(&stacks, &meta);
    ck_assert_uint_eq(pl_meta_fini(&meta), 0);
}
END_TEST

START_TEST(addresses_without_a_name_are_described_all_the_same)
{
    pl_frame frame;
    pl_frame_describe((const void *)(uintptr_t)0x12345, &frame);
    ck_assert_str_eq(frame.name, "0x12345");
    ck_assert_str_eq(frame.filename, "??");
    pl_frame_describe(NULL, &frame);
    ck_assert_str_eq(frame.filename, "??");
}
END_TEST

/* The callback frees with its own stack. The retried request keeps its first stack. */
static pleat_devptr in_the_way;

static bool free_something(pleat instance, int device, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    if (in_the_way == 0) {
        return false;
    }
    api_free(instance, device, in_the_way, NULL);
    in_the_way = 0;
    return true;
}

START_TEST(a_request_that_a_callback_served_keeps_its_stack)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    pleat_devptr none;
    history_record(instance, 100, PLEAT_HISTORY_FRAMES | PLEAT_HISTORY_FREE_FRAMES);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, free_something, NULL), PLEAT_OK);
    in_the_way = api_alloc(instance, 0, 40 * MIB, NULL);
    pleat_devptr ptr = api_alloc(instance, 0, 40 * MIB, NULL);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 50 * MIB, NULL, &none), PLEAT_ENOMEM_DEVICE);
    size_t n = history_copy(instance, 0);
    ck_assert_uint_ne(history_find(n, PL_ACTION_ALLOC, 1)->frames, 0);
    ck_assert_uint_ne(history_find(n, PL_HISTORY_OOM, 0)->frames, 0);
    history_record(instance, 100, 0);
    api_free(instance, 0, ptr, NULL);
    ck_assert_uint_eq(history_find(history_copy(instance, 0), PL_ACTION_FREE_REQUESTED, 0)->frames,
                      0);
    api_unmake(instance);
}
END_TEST

START_TEST(a_stack_without_host_memory_leaves_an_entry_without_frames)
{
    for (uint64_t k = 0; k < 8; k++) {
        pleat instance = api_make(API_TORCH, "capacity:64M", "");
        pleat_devptr first = api_alloc(instance, 0, 2 * MIB, NULL);
        api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
        history_record(instance, 100, PLEAT_HISTORY_FRAMES);
        pl_meta_fail_from(k);
        pleat_devptr ptr = 0;
        pleat_status st = pleat_block_alloc(instance, 0, 600, NULL, &ptr);
        pl_meta_fail_never();
        size_t n = history_copy(instance, 0);
        if (st == PLEAT_OK) {
            ck_assert_uint_eq(history_entries[n - 1].action, PL_ACTION_ALLOC);
            ck_assert_uint_eq(history_entries[n - 1].base, ptr);
            api_free(instance, 0, ptr, NULL);
        }
        api_free(instance, 0, first, NULL);
        api_unmake(instance);
    }
}
END_TEST

SUITE(api_history_stack)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, stacks_of_allocations_name_who_asked, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, stacks_of_frees_are_kept_when_they_are_asked_for, 0,
                        N_API_ALLOCATORS);
    suite_add_tcase(suite, each);
    TCase *stacks = tcase_create("stacks");
    tcase_add_checked_fixture(stacks, api_sim_load, NULL);
    tcase_add_test(stacks, equal_stacks_are_stored_once);
    tcase_add_test(stacks, forgotten_stacks_are_not_taken_for_others);
    tcase_add_test(stacks, the_newest_stacks_are_kept_within_a_bound);
    tcase_add_test(stacks, a_stack_without_host_memory_leaves_an_entry_without_frames);
    tcase_add_test(stacks, addresses_without_a_name_are_described_all_the_same);
    tcase_add_test(stacks, a_request_that_a_callback_served_keeps_its_stack);
    suite_add_tcase(suite, stacks);
}

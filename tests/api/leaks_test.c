/* leaks_test.c - marks, and the blocks that were allocated after one and still live. */
/* labels: unit fault */
#include <check.h>
#include <string.h>

#include "tests/support/api/api_history.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, MOST = 16 };

typedef struct found {
    pleat_leak leaks[MOST];
    char texts[MOST][1024];
    unsigned n;
} found;

static void see(const pleat_leak *leak, void *context)
{
    found *f = context;
    ck_assert_uint_lt(f->n, MOST);
    ck_assert_uint_lt(strlen(leak->text), sizeof f->texts[0]);
    strcpy(f->texts[f->n], leak->text);
    f->leaks[f->n++] = *leak;
}

static found leaks_since(pleat instance, uint64_t mark)
{
    found f = { .n = 0 };
    pleat_status st = pleat_leaks(instance, 0, mark, see, &f);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return f;
}

static uint64_t mark_now(pleat instance)
{
    uint64_t mark;
    pleat_status st = pleat_mark(instance, 0, &mark);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return mark;
}

static void refuse(pleat instance, uint64_t mark, const char *words)
{
    found f = { .n = 0 };
    ck_assert_int_eq(pleat_leaks(instance, 0, mark, see, &f), PLEAT_EINVAL);
    ck_assert_uint_eq(f.n, 0);
    api_expect(PLEAT_EINVAL, words);
}

/* Two call sites. */
static __attribute__((noinline)) pleat_devptr ask_here(pleat instance, size_t bytes)
{
    pleat_devptr ptr = api_alloc(instance, 0, bytes, NULL);
    __asm__ volatile("" : "+r"(ptr)); /* no tail call */
    return ptr;
}

static __attribute__((noinline)) pleat_devptr ask_there(pleat instance, size_t bytes)
{
    pleat_devptr ptr = api_alloc(instance, 0, bytes, NULL);
    __asm__ volatile("" : "+r"(ptr) : : "memory");
    return ptr;
}

START_TEST(what_lives_since_the_mark_is_told_by_its_stack)
{
    pleat_devptr mine[4];
    pleat instance = api_make(_i, "capacity:256M", "");
    history_record(instance, 1000, PLEAT_HISTORY_FRAMES);
    pleat_devptr before = ask_here(instance, 5 * MIB);
    uint64_t mark = mark_now(instance);
    ck_assert_uint_eq(leaks_since(instance, mark).n, 0);
    volatile unsigned n = 3; /* the compiler makes no three calls of the loop's one */
    for (unsigned i = 0; i < n; i++) {
        mine[i] = ask_here(instance, MIB + i);
    }
    mine[3] = ask_there(instance, 4 * MIB);
    history_call_by_name(instance, 1); /* freed: no leak */
    found f = leaks_since(instance, mark);
    ck_assert_uint_eq(f.n, 2);
    ck_assert_uint_eq(f.leaks[0].bytes, 4 * MIB);
    ck_assert_uint_eq(f.leaks[0].n_blocks, 1);
    ck_assert_uint_eq(f.leaks[0].age, 1);
    ck_assert_uint_eq(f.leaks[1].bytes, 3 * MIB + 3);
    ck_assert_uint_eq(f.leaks[1].n_blocks, 3);
    ck_assert_uint_eq(f.leaks[1].age, 4);
    ck_assert_int_eq(f.leaks[1].device, 0);
    ck_assert_uint_gt(f.leaks[1].n_frames, 1);
    ck_assert_ptr_eq(strstr(f.texts[1], "3 blocks, 3.00 MiB, 4 allocations old, "), f.texts[1]);
    ck_assert_ptr_eq(strstr(f.texts[0], "1 block, 4.00 MiB, 1 allocation old, "), f.texts[0]);
    for (unsigned i = 0; i < 4; i++) {
        api_free(instance, 0, mine[i], NULL);
    }
    ck_assert_uint_eq(leaks_since(instance, mark).n, 0);
    api_free(instance, 0, before, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(without_stacks_all_blocks_are_one_row)
{
    pleat instance = api_make(_i, "capacity:256M", "");
    history_record(instance, 1000, 0);
    uint64_t mark = mark_now(instance);
    pleat_devptr a = ask_here(instance, 1000);
    pleat_devptr b = ask_there(instance, 2000);
    found f = leaks_since(instance, mark);
    ck_assert_uint_eq(f.n, 1);
    ck_assert_uint_eq(f.leaks[0].n_frames, 0);
    ck_assert_str_eq(f.texts[0], "2 blocks, 2.93 KiB, 1 allocation old");
    api_free(instance, 0, a, NULL);
    api_free(instance, 0, b, NULL);
    api_unmake(instance);
}
END_TEST

/* A block that is freed on a stream that works on it is not live, though its memory waits. */
START_TEST(blocks_that_wait_for_a_stream_are_no_leaks)
{
    pleat instance = api_make(_i, "capacity:256M,depth:1000", "");
    history_record(instance, 1000, 0);
    void *other = api_stream(instance, 0);
    uint64_t mark = mark_now(instance);
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    pleat_sim_access access = { .ptr = ptr, .bytes = MIB, .is_write = 1 };
    ck_assert_int_eq(sim.work(other, &access, 1), 0);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, other), PLEAT_OK);
    ck_assert_uint_eq(leaks_since(instance, mark).n, 1);
    api_free(instance, 0, ptr, NULL);
    ck_assert_uint_eq(leaks_since(instance, mark).n, 0);
    sim.finish();
    api_stream_end(instance, 0, other);
    api_unmake(instance);
}
END_TEST

/* ---- drawn programs ---- */

enum { N_BLOCKS = 60, N_MARKS = 8, N_STEPS = 400 };

typedef struct drawn {
    pleat instance;
    pleat_devptr ptrs[N_BLOCKS];
    size_t bytes[N_BLOCKS];
    unsigned born[N_BLOCKS]; /* step */
    uint64_t marks[N_MARKS];
    unsigned marked[N_MARKS]; /* step */
    unsigned seed;
} drawn;

static unsigned draw(drawn *d, unsigned below)
{
    d->seed = d->seed * 1664525 + 1013904223;
    return (d->seed >> 8) % below;
}

static void compare(drawn *d, unsigned m)
{
    uint64_t bytes = 0;
    size_t n_blocks = 0;
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (d->ptrs[i] != 0 && d->born[i] >= d->marked[m]) {
            bytes += d->bytes[i];
            n_blocks++;
        }
    }
    found f = leaks_since(d->instance, d->marks[m]);
    ck_assert_uint_eq(f.n, n_blocks > 0);
    ck_assert_uint_eq(f.n > 0 ? f.leaks[0].n_blocks : 0, n_blocks);
    ck_assert_uint_eq(f.n > 0 ? f.leaks[0].bytes : 0, bytes);
}

static void play(drawn *d, unsigned step)
{
    unsigned i = draw(d, N_BLOCKS);
    if (d->ptrs[i] != 0) {
        api_free(d->instance, 0, d->ptrs[i], NULL);
        d->ptrs[i] = 0;
        return;
    }
    d->bytes[i] = draw(d, 3) == 0 ? 1 + draw(d, 3 * MIB) : 1 + draw(d, 4000);
    d->ptrs[i] = api_alloc(d->instance, 0, d->bytes[i], NULL);
    d->born[i] = step;
}

START_TEST(every_mark_agrees_with_a_list_of_the_blocks)
{
    drawn d = { .instance = api_make(_i % N_API_ALLOCATORS, "capacity:512M", ""),
                .seed = (unsigned)_i };
    unsigned n_marks = 0;
    for (unsigned step = 0; step < N_STEPS; step++) {
        if (step == 20) { /* blocks that lived before anything was recorded */
            history_record(d.instance, 10000, 0);
        } else if (step == 200) { /* another ring, with the same entries */
            history_record(d.instance, 20000, PLEAT_HISTORY_KEEP);
        }
        if (step >= 20 && step % 40 == 20 && n_marks < N_MARKS) {
            d.marks[n_marks] = mark_now(d.instance);
            d.marked[n_marks++] = step;
        }
        play(&d, step);
        if (n_marks > 0 && step % 7 == 0) {
            compare(&d, draw(&d, n_marks));
        }
    }
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (d.ptrs[i] != 0) {
            api_free(d.instance, 0, d.ptrs[i], NULL);
        }
    }
    api_unmake(d.instance);
}
END_TEST

/* ---- refusals ---- */

START_TEST(a_mark_needs_a_recording)
{
    uint64_t mark = 77;
    pleat instance = api_make(_i, "capacity:64M", "");
    ck_assert_int_eq(pleat_mark(instance, 0, &mark), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "nothing is recorded; call pleat_history_record before");
    history_record(instance, 100, 0);
    ck_assert_int_eq(pleat_mark(instance, 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_mark(instance, 9, &mark), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_leaks(instance, 9, 0, see, NULL), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_leaks(instance, 0, 0, NULL, NULL), PLEAT_EINVAL);
    ck_assert_uint_eq(mark, 77);
    api_unmake(instance);
    ck_assert_int_eq(pleat_mark(instance, 0, &mark), PLEAT_EGONE);
    ck_assert_int_eq(pleat_leaks(instance, 0, 0, see, NULL), PLEAT_EGONE);
}
END_TEST

START_TEST(a_device_may_be_marked_before_its_first_use)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    history_record(instance, 100, 0);
    uint64_t mark = mark_now(instance);
    ck_assert_uint_eq(leaks_since(instance, mark).n, 0);
    refuse(instance, mark + 1, "device 0 never had the mark 1");
    pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
    ck_assert_uint_eq(leaks_since(instance, mark).n, 1);
    refuse(instance, UINT64_MAX, "never had the mark");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* What a device allocates at first is not recorded. */
START_TEST(a_gap_may_end_a_mark_from_before_the_first_use)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    history_record(instance, 100, 0);
    uint64_t mark = mark_now(instance);
    history_record(instance, 0, 0);
    pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
    history_record(instance, 100, 0);
    refuse(instance, mark, "stopped or begun anew");
    ck_assert_uint_eq(leaks_since(instance, mark_now(instance)).n, 0);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_gap_in_the_recording_ends_its_marks)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
    history_record(instance, 100, 0);
    uint64_t mark = mark_now(instance);
    history_record(instance, 0, 0);
    refuse(instance, mark, "stopped or begun anew after the mark; mark again");
    api_free(instance, 0, ptr, NULL);
    history_record(instance, 100, PLEAT_HISTORY_KEEP);
    refuse(instance, mark, "stopped or begun anew"); /* the free is not recorded */
    mark = mark_now(instance);
    ptr = api_alloc(instance, 0, 1000, NULL);
    ck_assert_uint_eq(leaks_since(instance, mark).n, 1);
    history_record(instance, 100, PLEAT_HISTORY_KEEP); /* nothing has changed */
    ck_assert_uint_eq(leaks_since(instance, mark).n, 1);
    history_record(instance, 100, 0);
    refuse(instance, mark, "stopped or begun anew");
    ck_assert_uint_eq(leaks_since(instance, mark_now(instance)).n, 0);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_full_ring_says_so_instead_of_half_the_truth)
{
    enum { ROOM = 64 };
    pleat instance = api_make(_i, "capacity:64M", "");
    api_free(instance, 0, api_alloc(instance, 0, 1000, NULL), NULL);
    history_record(instance, ROOM, 0);
    uint64_t mark = mark_now(instance);
    pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
    /* Each look leaves an entry, too: the ring is full after some of them, and not before. */
    for (unsigned i = 1; i < ROOM; i++) {
        ck_assert_uint_eq(leaks_since(instance, mark).n, 1);
    }
    refuse(instance, mark, "its history keeps 64 entries, and 65 came after the mark");
    history_record(instance, 2 * ROOM, PLEAT_HISTORY_KEEP);
    refuse(instance, mark, "its history keeps 65 entries, and 66 came after the mark");
    ck_assert_uint_eq(leaks_since(instance, mark_now(instance)).n, 0);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(without_host_memory_nothing_is_told)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    history_record(instance, 100, 0);
    uint64_t mark = mark_now(instance);
    pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
    pleat_status st = PLEAT_ENOMEM_HOST;
    for (unsigned k = 1; st != PLEAT_OK; k++) {
        found f = { .n = 0 };
        ck_assert_uint_lt(k, 20);
        pl_meta_fail_at(k);
        st = pleat_leaks(instance, 0, mark, see, &f);
        pl_meta_fail_never();
        ck_assert_uint_eq(f.n, st == PLEAT_OK);
        if (st != PLEAT_OK) {
            api_expect(PLEAT_ENOMEM_HOST, "device 0", "no host memory");
        }
    }
    ck_assert_uint_eq(leaks_since(instance, mark).n, 1);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

SUITE(api_leaks)
{
    TCase *tcase = tcase_create("leaks");
    const int n = N_API_ALLOCATORS;
    tcase_add_checked_fixture(tcase, api_sim_load, NULL);
    tcase_add_loop_test(tcase, what_lives_since_the_mark_is_told_by_its_stack, 0, n);
    tcase_add_loop_test(tcase, without_stacks_all_blocks_are_one_row, 0, n);
    tcase_add_loop_test(tcase, blocks_that_wait_for_a_stream_are_no_leaks, 0, n);
    tcase_add_loop_test(tcase, every_mark_agrees_with_a_list_of_the_blocks, 0, 3 * n);
    tcase_add_loop_test(tcase, a_mark_needs_a_recording, 0, n);
    tcase_add_loop_test(tcase, a_device_may_be_marked_before_its_first_use, 0, n);
    tcase_add_loop_test(tcase, a_gap_may_end_a_mark_from_before_the_first_use, 0, n);
    tcase_add_loop_test(tcase, a_gap_in_the_recording_ends_its_marks, 0, n);
    tcase_add_loop_test(tcase, a_full_ring_says_so_instead_of_half_the_truth, 0, n);
    tcase_add_loop_test(tcase, without_host_memory_nothing_is_told, 0, n);
    suite_add_tcase(suite, tcase);
}

/* told_test.c - work on blocks that are no more, as the allocator and the framework have told. */
/* labels: model */
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"
#include "vmm/tools/sim/memory/block.h"

static cu_devptr at; /* four granules */
static cu_stream a;
static cu_stream b;

static void begin_with(const char *conf)
{
    world_begin(conf);
    at = world_map(4);
    a = world_stream();
    b = world_stream();
}

static void begin(void)
{
    begin_with(NULL);
}

static void finish(void)
{
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
    world_unmap(at, 4);
}

static void end(void)
{
    finish();
    world_end();
}

static void end_with(pleat_sim_hazard_kind kind, size_t n)
{
    finish();
    world_end_with(kind, n);
    begin(); /* for the fixture */
}

static void tell_block(cu_stream stream, uint64_t ptr, uint64_t bytes, uint64_t place)
{
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_BLOCK, stream, ptr, bytes, place));
}

static void tell_free(uint64_t ptr, uint64_t place)
{
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_FREE, NULL, ptr, 0, place));
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_REUSE, NULL, ptr, 0, 0));
}

static pleat_sim_hazard last_hazard(void)
{
    pleat_sim_hazard all[16];
    size_t n = pleat_sim_hazards(all, 16);
    ck_assert_uint_gt(n, 0);
    return all[n - 1];
}

static void assert_says(const char *words)
{
    pleat_sim_hazard hazard = last_hazard();
    ck_assert_msg(strstr(hazard.text, words) != NULL, "\"%s\" lacks \"%s\"", hazard.text, words);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

START_TEST(work_on_a_freed_block_has_its_story)
{
    tell_block(a, at, 4096, 11);
    world_write(a, at, 4096);
    tell_free(at, 12);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(a, at + 1024, 512);
    pleat_sim_hazard hazard = last_hazard();
    ck_assert_uint_eq(hazard.block_ptr, at);
    ck_assert_uint_eq(hazard.block_bytes, 4096);
    ck_assert_uint_eq(hazard.born_place, 11);
    ck_assert_uint_eq(hazard.freed_place, 12);
    ck_assert_uint_ne(hazard.stream, 0);
    assert_says("the block of 4096 bytes");
    assert_says("1 calls ago");
    assert_says("its stream has had 0 pieces of work since");
    world_read(a, at + 1024, 512);
    assert_says("its stream has had 1 pieces of work since");
    end_with(PLEAT_SIM_LATE_USE, 2);
}
END_TEST

START_TEST(a_block_in_its_place_is_usable_and_the_rest_is_not)
{
    tell_block(a, at, 8192, 0);
    tell_free(at, 0);
    tell_block(a, at + 2048, 2048, 0);
    world_write(a, at + 2048, 2048);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(a, at, 512);
    ck_assert_uint_eq(world_hazards(), 1);
    end_with(PLEAT_SIM_LATE_USE, 1);
}
END_TEST

START_TEST(work_beyond_the_end_is_a_hazard_also_where_the_next_block_lives)
{
    tell_block(a, at, 4096, 0);
    tell_block(a, at + 4096, 4096, 0);
    world_write(a, at, 4096);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(a, at, 4608);
    ck_assert_uint_eq(world_hazards(), 1);
    assert_says("512 bytes beyond the end of the block of 4096 bytes");
    end_with(PLEAT_SIM_BEYOND_BLOCK, 1);
}
END_TEST

START_TEST(pages_that_are_one_buffer_may_be_used_as_one)
{
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_JOIN, NULL, at, 3 * GRANULE, 0));
    for (unsigned i = 0; i < 3; i++) {
        tell_block(a, at + i * GRANULE, GRANULE, 0);
    }
    world_write(a, at, 3 * GRANULE);
    ck_assert_uint_eq(world_hazards(), 0);
    tell_free(at + GRANULE, 0);
    world_write(a, at, 3 * GRANULE); /* one of its pages was given back */
    ck_assert_uint_eq(world_hazards(), 1);
    end_with(PLEAT_SIM_LATE_USE, 1);
}
END_TEST

START_TEST(after_the_buffer_its_addresses_are_blocks_again)
{
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_JOIN, NULL, at, GRANULE, 0));
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_PART, NULL, at, 0, 0));
    tell_block(a, at, 4096, 0);
    tell_block(a, at + 4096, 4096, 0);
    world_write(a, at, 8192);
    end_with(PLEAT_SIM_BEYOND_BLOCK, 1);
}
END_TEST

START_TEST(bytes_that_nobody_told_of_are_usable)
{
    tell_block(a, at, 4096, 0);
    world_write(a, at + 4096, GRANULE);
    tell_block(a, at + GRANULE, 0, 0); /* of unknown size */
    world_write(a, at + GRANULE, 4096);
}
END_TEST

START_TEST(addresses_given_back_and_reserved_again_are_new)
{
    cu_devptr other = world_map(1);
    tell_block(a, other, 4096, 0);
    tell_free(other, 0);
    world_unmap(other, 1);
    cu_devptr again;
    ck_ok(cuMemAddressReserve(&again, GRANULE, 0, other, 0));
    ck_assert_uint_eq(again, other);
    cu_mem_handle handle = world_create(1);
    ck_ok(cuMemMap(again, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    world_allow(again, 1, 0, CU_ACCESS_READ_WRITE);
    world_write(a, again, 4096);
    pleat_sim_finish();
    world_unmap(again, 1);
}
END_TEST

START_TEST(discarded_contents_are_written_before_they_are_read)
{
    cu_devptr other = world_map(1);
    tell_block(a, other, 4096, 5);
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_DISCARD, NULL, 0, 1, 0));
    ck_ok(cuMemUnmap(other, GRANULE));
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_DISCARD, NULL, 0, 0, 0));
    world_write(a, other, 512);
    ck_assert_int_eq(last_hazard().kind, PLEAT_SIM_UNMAPPED_ACCESS);
    assert_says("it sleeps");
    pleat_sim_finish();
    cu_mem_handle handle = world_create(1);
    ck_ok(cuMemMap(other, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    world_allow(other, 1, 0, CU_ACCESS_READ_WRITE);
    world_read(a, other, 512);
    ck_assert_uint_eq(world_hazards(), 2);
    ck_assert_int_eq(last_hazard().kind, PLEAT_SIM_NO_CONTENTS);
    world_write(a, other, 512);
    world_read(a, other, 512);
    ck_assert_uint_eq(world_hazards(), 2);
    pleat_sim_finish();
    world_unmap(other, 1);
    finish();
    ck_assert_uint_eq(world_hazards(), 2);
    begin();
}
END_TEST

START_TEST(the_allocator_s_own_work_touches_anything)
{
    tell_block(a, at, 4096, 0);
    tell_free(at, 0);
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_OWN, NULL, 0, 1, 0));
    world_write(a, at, GRANULE);
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_OWN, NULL, 0, 0, 0));
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(a, at, 512);
    end_with(PLEAT_SIM_LATE_USE, 1);
}
END_TEST

START_TEST(nobody_listens_where_blocks_are_untold)
{
    end();
    begin_with("blocks:untold");
    ck_assert(!pleat_sim_tell(PLEAT_SIM_TOLD_BLOCK, a, at, 4096, 0));
    ck_assert(!pleat_sim_tell(PLEAT_SIM_TOLD_FREE, NULL, at, 0, 0));
    world_write(a, at, 8192);
    end();
    begin();
}
END_TEST

/* ---- frees under work ------------------------------------------------------------------------ */

START_TEST(a_free_under_another_stream_s_work_shows_at_the_next_request)
{
    tell_block(a, at, 4096, 1);
    world_read(b, at, 4096);
    tell_free(at, 2);
    ck_assert_uint_eq(world_hazards(), 0);
    tell_block(b, at + GRANULE, 512, 0); /* of another stream */
    ck_assert_uint_eq(world_hazards(), 0);
    tell_block(a, at + 2 * GRANULE, 512, 0);
    ck_assert_uint_eq(world_hazards(), 1);
    tell_block(a, at + 3 * GRANULE, 512, 0);
    ck_assert_uint_eq(world_hazards(), 1);
    ck_assert_uint_eq(last_hazard().block_ptr, at);
    assert_says("record the stream");
    end_with(PLEAT_SIM_EARLY_FREE, 1);
}
END_TEST

START_TEST(a_stream_that_waits_before_its_next_request_is_right)
{
    tell_block(a, at, 4096, 0);
    world_read(b, at, 4096);
    tell_free(at, 0);
    world_order(b, a);
    tell_block(a, at + GRANULE, 512, 0);
    tell_block(b, at, 512, 0);
    world_read(a, at, 512);
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_FREE, NULL, at, 0, 0));
    pleat_sim_finish(); /* the use of b's block was recorded: its bytes come later */
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_REUSE, NULL, at, 0, 0));
    tell_block(b, at + 2 * GRANULE, 512, 0);
}
END_TEST

START_TEST(the_same_bytes_race_and_the_story_says_who_had_them)
{
    tell_block(a, at, 4096, 1);
    world_read(b, at, 4096);
    tell_free(at, 2);
    tell_block(a, at, 2048, 3);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(a, at, 2048);
    pleat_sim_hazard hazard = last_hazard();
    ck_assert_uint_eq(hazard.block_bytes, 4096);
    ck_assert_uint_eq(hazard.born_place, 1);
    ck_assert_uint_eq(hazard.freed_place, 2);
    assert_says("record the stream");
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

/* ---- graphs and operations ------------------------------------------------------------------- */

static cu_graph_exec capture_of(const pleat_sim_access *accesses, size_t n)
{
    cu_graph graph;
    cu_graph_exec exec;
    ck_ok(cuStreamBeginCapture_v2(a, CU_CAPTURE_MODE_RELAXED));
    for (size_t i = 0; i < n; i++) {
        ck_ok(pleat_sim_work(a, &accesses[i], 1));
    }
    tell_block(a, at + GRANULE, 4096, 0); /* the graph's own */
    world_write(a, at + GRANULE, 4096);
    tell_free(at + GRANULE, 0);
    ck_ok(cuStreamEndCapture(a, &graph));
    ck_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ck_ok(cuGraphDestroy(graph));
    return exec;
}

START_TEST(a_graph_keeps_its_own_blocks_and_loses_its_inputs)
{
    pleat_sim_access input = { at, 4096, false };
    tell_block(a, at, 4096, 7);
    cu_graph_exec exec = capture_of(&input, 1);
    ck_ok(cuGraphLaunch(exec, a));
    ck_assert_uint_eq(world_hazards(), 0);
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_FREE, NULL, at, 0, 8));
    ck_ok(cuGraphLaunch(exec, a)); /* the allocator keeps it for the graph */
    ck_assert_uint_eq(world_hazards(), 0);
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_REUSE, NULL, at, 0, 0));
    ck_ok(cuGraphLaunch(exec, a));
    ck_assert_uint_eq(world_hazards(), 1);
    ck_assert_uint_eq(last_hazard().freed_place, 8);
    tell_block(a, at, 4096, 9); /* another block at the same address */
    ck_ok(cuGraphLaunch(exec, a));
    ck_assert_uint_eq(world_hazards(), 2);
    ck_assert_uint_eq(last_hazard().born_place, 7);
    ck_ok(cuGraphExecDestroy(exec));
    end_with(PLEAT_SIM_LATE_USE, 2);
}
END_TEST

START_TEST(an_operation_s_kernels_touch_what_it_says)
{
    pleat_sim_access access = { at, 4096, false };
    tell_block(a, at, 4096, 0);
    pleat_sim_op_begin(21, &access, 1);
    ck_ok(pleat_sim_op_kernel(b));
    ck_assert_uint_eq(pleat_sim_op_end(), 0);
    ck_ok(pleat_sim_op_kernel(a)); /* outside of operations: no access */
    pleat_sim_op_begin(22, NULL, 0);
    world_write(a, at, 4096);
    ck_assert_uint_eq(pleat_sim_op_end(), 1);
    ck_assert_uint_eq(last_hazard().place, 22);
    ck_assert_uint_eq(last_hazard().other_place, 21);
    ck_assert_uint_ne(last_hazard().other_stream, last_hazard().stream);
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

/* What is not known counts as a use. */
START_TEST(the_streams_that_may_have_used_a_block_are_known)
{
    tell_block(a, at, 4096, 0);
    ck_assert(pleat_sim_may_use(at, a)); /* its own */
    ck_assert(!pleat_sim_may_use(at, b));
    ck_assert(pleat_sim_may_use(at + 64, b)); /* no block begins there */
    ck_assert(pleat_sim_may_use(at + 4096, b));
    ck_assert(pleat_sim_may_use(at, (cu_stream)(uintptr_t)12345));
    world_read(b, at + 4095, 1); /* and one byte behind the block */
    ck_assert(pleat_sim_may_use(at, b));
    pleat_sim_finish();
    ck_assert(pleat_sim_may_use(at, b)); /* for ever */
    tell_free(at, 0);
    ck_assert(pleat_sim_may_use(at, b));
    tell_block(a, at, 4096, 0);
    ck_assert(!pleat_sim_may_use(at, b)); /* another block */
    world_read(b, at + 4096, 64);
    ck_assert(!pleat_sim_may_use(at, b));
    ck_ok(pleat_sim_op_kernel(b)); /* it may touch anything that lives */
    ck_assert(pleat_sim_may_use(at, b));
    tell_block(a, at + 8192, 0, 0);
    ck_assert(pleat_sim_may_use(at + 8192, b)); /* how far it goes is not known */
}
END_TEST

/* More streams than a block remembers. */
START_TEST(a_block_of_many_streams_may_be_used_by_all)
{
    cu_stream streams[6];
    tell_block(a, at, 4096, 0);
    for (unsigned i = 0; i < 6; i++) {
        streams[i] = world_stream();
        ck_assert_int_eq(pleat_sim_may_use(at, streams[i]), i > SIM_BLOCK_USERS);
        world_read(streams[i], at, 64);
        ck_assert(pleat_sim_may_use(at, streams[i]));
    }
    pleat_sim_finish();
    for (unsigned i = 0; i < 6; i++) {
        ck_ok(cuStreamDestroy_v2(streams[i]));
    }
}
END_TEST

START_TEST(an_operation_writes_all_of_the_block_that_it_allocates)
{
    pleat_sim_op_begin(31, NULL, 0);
    tell_block(b, at, 0, 31); /* its size is known once the operation is over */
    ck_ok(pleat_sim_op_kernel(b));
    ck_assert(pleat_sim_tell(PLEAT_SIM_TOLD_BYTES, NULL, at, 8192, 31));
    (void)pleat_sim_op_end();
    world_read(a, at + 4096, 512);
    ck_assert_uint_eq(last_hazard().other_place, 31);
    world_read(b, at + 4096, 8192);
    ck_assert_int_eq(last_hazard().kind, PLEAT_SIM_BEYOND_BLOCK);
    ck_assert_uint_eq(world_hazards(), 2);
    finish();
    begin();
}
END_TEST

START_TEST(what_an_operation_allocates_and_frees_it_does_not_write_later)
{
    pleat_sim_op_begin(41, NULL, 0);
    tell_block(b, at, 0, 41);
    tell_free(at, 41);
    ck_ok(pleat_sim_op_kernel(b));
    ck_assert_uint_eq(pleat_sim_op_end(), 0);
}
END_TEST

/* ---- model ----------------------------------------------------------------------------------- */

enum { N_UNITS = 64, UNIT = 512, N_STEPS = 4000, FREED = -1, UNTOLD = 0 };

/* Which block each unit belongs to. */
typedef struct model {
    int owner[N_UNITS];
    bool is_first[N_UNITS];
    uint32_t random;
    int n_blocks;
} model;

static unsigned draw(model *m, unsigned n)
{
    m->random = m->random * 1664525U + 1013904223U;
    return (m->random >> 8) % n;
}

static unsigned end_of(const model *m, unsigned unit)
{
    unsigned end = unit + 1;
    while (end < N_UNITS && m->owner[end] == m->owner[unit] && !m->is_first[end]) {
        end++;
    }
    return end;
}

/* An allocator gives out only bytes that no live block has. */
static void allocate(model *m)
{
    unsigned from = draw(m, N_UNITS);
    unsigned n = 1 + draw(m, 8);
    unsigned to = from;
    while (to < N_UNITS && to < from + n && m->owner[to] <= 0) {
        to++;
    }
    if (to == from) {
        return;
    }
    m->n_blocks++;
    for (unsigned i = from; i < to; i++) {
        m->owner[i] = m->n_blocks;
        m->is_first[i] = i == from;
    }
    tell_block(a, at + from * UNIT, (to - from) * UNIT, (uint64_t)m->n_blocks);
}

static void free_one(model *m)
{
    unsigned unit = draw(m, N_UNITS);
    if (m->owner[unit] <= 0 || !m->is_first[unit]) {
        return;
    }
    unsigned to = end_of(m, unit);
    for (unsigned i = unit; i < to; i++) {
        m->owner[i] = FREED;
        m->is_first[i] = false;
    }
    tell_free(at + unit * UNIT, 0);
}

/* Wrong if it touches a freed unit, or leaves the block in which it begins. */
static bool is_wrong(const model *m, unsigned from, unsigned to)
{
    bool is_freed = false;
    for (unsigned i = from; i < to; i++) {
        is_freed = is_freed || m->owner[i] == FREED;
    }
    return is_freed || (m->owner[from] > 0 && end_of(m, from) < to);
}

START_TEST(a_naive_model_finds_the_same)
{
    model m = { .random = (uint32_t)_i + 1 };
    size_t n_expected = 0;
    for (int step = 0; step < N_STEPS; step++) {
        unsigned what = draw(&m, 4);
        if (what == 0) {
            allocate(&m);
        } else if (what == 1) {
            free_one(&m);
        } else {
            unsigned from = draw(&m, N_UNITS);
            unsigned n = 1 + draw(&m, 6);
            unsigned to = from + n < N_UNITS ? from + n : N_UNITS;
            n_expected += is_wrong(&m, from, to);
            world_write(a, at + from * UNIT, (to - from) * UNIT);
        }
        ck_assert_msg(world_hazards() == n_expected, "seed %d, step %d: %zu hazards, not %zu", _i,
                      step, world_hazards(), n_expected);
    }
    ck_assert_uint_gt(n_expected, 0);
    finish();
    begin();
}
END_TEST

SUITE(sim_told)
{
    TCase *blocks = suite_case(suite, "blocks", begin, end);
    tcase_add_test(blocks, work_on_a_freed_block_has_its_story);
    tcase_add_test(blocks, a_block_in_its_place_is_usable_and_the_rest_is_not);
    tcase_add_test(blocks, work_beyond_the_end_is_a_hazard_also_where_the_next_block_lives);
    tcase_add_test(blocks, pages_that_are_one_buffer_may_be_used_as_one);
    tcase_add_test(blocks, after_the_buffer_its_addresses_are_blocks_again);
    tcase_add_test(blocks, bytes_that_nobody_told_of_are_usable);
    tcase_add_test(blocks, addresses_given_back_and_reserved_again_are_new);
    tcase_add_test(blocks, discarded_contents_are_written_before_they_are_read);
    tcase_add_test(blocks, the_allocator_s_own_work_touches_anything);
    tcase_add_test(blocks, nobody_listens_where_blocks_are_untold);
    TCase *early = suite_case(suite, "early frees", begin, end);
    tcase_add_test(early, a_free_under_another_stream_s_work_shows_at_the_next_request);
    tcase_add_test(early, a_stream_that_waits_before_its_next_request_is_right);
    tcase_add_test(early, the_same_bytes_race_and_the_story_says_who_had_them);
    TCase *operations = suite_case(suite, "operations", begin, end);
    tcase_add_test(operations, a_graph_keeps_its_own_blocks_and_loses_its_inputs);
    tcase_add_test(operations, an_operation_s_kernels_touch_what_it_says);
    tcase_add_test(operations, the_streams_that_may_have_used_a_block_are_known);
    tcase_add_test(operations, a_block_of_many_streams_may_be_used_by_all);
    tcase_add_test(operations, an_operation_writes_all_of_the_block_that_it_allocates);
    tcase_add_test(operations, what_an_operation_allocates_and_frees_it_does_not_write_later);
    TCase *all = suite_case(suite, "model", begin, end);
    tcase_add_loop_test(all, a_naive_model_finds_the_same, 0, (int)suite_part(100));
}

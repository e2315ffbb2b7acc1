/* share_test.c - the numbers of shared chunks. Each chunk has one number, which is never reused,
 * and each call takes few steps for any number of chunks. Chunks are only names here; nothing is
 * created or mapped. */
/* labels: unit model */
#include <check.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/base/lock.h"
#include "vmm/chunk.h"
#include "vmm/share.h"

enum { N_MANY = 100000, N_HANDLES = 300, N_STEPS = 20000, MOST_STEPS = 4 };

static vmm_sim sim;
static pl_device *dev;

static void open_device(void)
{
    pl_device_options options = { .handle_posix_fd = PL_DEMAND_FIRM };
    vmm_sim_open(&sim, "capacity:1G");
    dev = vmm_sim_device(&sim, &options);
}

static void close_device(void)
{
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

/* Handles of drivers lie side by side, or are addresses. */
static pl_chunk handle_of(size_t i)
{
    return (pl_chunk)(i + 1) * (i % 2 == 0 ? 1 : 0x1000);
}

static uint64_t note(pl_chunk chunk)
{
    uint64_t number = 0;
    ck_assert_int_eq(pl_share_note(dev, chunk, &number), PLEAT_OK);
    ck_assert_uint_ne(number, 0);
    return number;
}

START_TEST(a_note_takes_few_steps_beside_very_many)
{
    static uint64_t numbers[N_MANY];
    for (size_t i = 0; i < N_MANY; i++) {
        size_t before = pl_lock_touched();
        numbers[i] = note(handle_of(2 * i));
        ck_assert_uint_le(pl_lock_touched() - before, MOST_STEPS);
    }
    for (size_t i = 0; i < N_MANY; i++) {
        ck_assert(pl_share_is_noted(dev, handle_of(2 * i)));
        ck_assert_uint_eq(note(handle_of(2 * i)), numbers[i]);
        ck_assert(i == 0 || numbers[i] > numbers[i - 1]);
    }
    for (size_t i = 0; i < N_MANY; i++) {
        pl_share_forget(dev, handle_of(2 * i));
        ck_assert(!pl_share_is_noted(dev, handle_of(2 * i)));
    }
}
END_TEST

/* Beside a table in plain order: chunks come and go while the slots grow. */
START_TEST(numbers_are_as_in_a_plain_list)
{
    uint64_t known[N_HANDLES] = { 0 };
    uint64_t newest = 0;
    uint64_t state = 88172645463325252u + (uint64_t)_i;
    for (size_t step = 0; step < N_STEPS; step++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t i = (size_t)(state >> 33) % (step % 4000 < 2000 ? N_HANDLES : N_HANDLES / 8);
        bool is_note = (state >> 20) % 100 < (step % 2000 < 1000 ? 70 : 30);
        if (is_note) {
            uint64_t number = note(handle_of(i));
            ck_assert(known[i] != 0 ? number == known[i] : number > newest);
            newest = number > newest ? number : newest;
            known[i] = number;
        } else {
            pl_share_forget(dev, handle_of(i));
            known[i] = 0;
        }
        size_t other = (size_t)(state >> 40) % N_HANDLES;
        ck_assert_int_eq(pl_share_is_noted(dev, handle_of(other)), known[other] != 0);
    }
}
END_TEST

START_TEST(no_chunk_has_a_number_where_none_can_be_exported)
{
    pl_device *plain = NULL;
    uint64_t number = 0;
    close_device();
    vmm_sim_open(&sim, "capacity:1G");
    plain = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_share_note(plain, 1, &number), PLEAT_ENOTSUP);
    ck_assert(!pl_share_is_noted(plain, 1));
    pl_share_forget(plain, 1);
    vmm_sim_close_device(plain);
    vmm_sim_close(&sim);
    open_device();
}
END_TEST

/* ---- drivers that take VMM for unsafe -------------------------------------------------------- */

static void open_unsafe(void)
{
    pl_device_options options = { .handle_posix_fd = PL_DEMAND_FIRM };
    vmm_sim_open(&sim, "capacity:1G,unkind:[unsafe_vmm]");
    dev = vmm_sim_device(&sim, &options);
}

static pleat_status give_fd(void *context, size_t i, int *out)
{
    (void)i;
    *out = *(int *)context;
    return PLEAT_OK;
}

/* Without an end of its own: the capture of the own thread would be broken by any unsafe call. */
START_TEST(nothing_that_is_shared_breaks_a_capture)
{
    pl_shared_chunk shared = { .bytes = 0 };
    cu_stream stream = vmm_sim_stream(dev, false);
    cu_graph graph = NULL;
    pl_range range;
    int fd = -1;
    ck_assert_int_eq(pl_chunk_create(dev, &shared.chunk), PLEAT_OK);
    shared.bytes = pl_device_chunk_bytes(dev);
    shared.number = note(shared.chunk);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, stream, CU_CAPTURE_MODE_GLOBAL),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_share_export(dev, &shared, &fd), PLEAT_OK);
    pl_fd_source source = { give_fd, &fd };
    ck_assert_int_eq(pl_share_map(dev, &shared, 1, source, &range), PLEAT_OK);
    pl_share_unmap(dev, range);
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, stream, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
    pl_device_leave(dev);
    close(fd);
    pl_share_forget(dev, shared.chunk);
    ck_assert_int_eq(pl_chunk_release(dev, shared.chunk), PLEAT_OK);
    vmm_sim_destroy_stream(dev, stream);
}
END_TEST

SUITE(vmm_share)
{
    TCase *tcase = suite_case(suite, "numbers", open_device, close_device);
    tcase_add_test(tcase, a_note_takes_few_steps_beside_very_many);
    tcase_add_loop_test(tcase, numbers_are_as_in_a_plain_list, 0, 4);
    tcase_add_test(tcase, no_chunk_has_a_number_where_none_can_be_exported);
    TCase *captures = suite_case(suite, "captures", open_unsafe, close_device);
    tcase_add_test(captures, nothing_that_is_shared_breaks_a_capture);
}

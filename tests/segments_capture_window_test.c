/* segments_capture_window_test.c - captures that break, or that no call has named yet. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>

#include "tests/support/segments_captures.h"
#include "tests/support/suite.h"
#include "vmm/driver_state.h"

static void open_plain(void)
{
    pleat_open("capacity:128M,depth:1048576", NULL);
}

/* ---- captures that break ----------------------------------------------------------------------
 */

static __typeof__(((pl_driver_table *)NULL)->user_object_create) plain_create;

/* As another thread might, between the question what the stream is doing and what follows. */
static cu_result break_and_create(cu_user_object *object, void *ptr, cu_host_fn destroy, unsigned n,
                                  unsigned flags)
{
    (void)pl_cu_ctx_synchronize(pleat.sim.drv);
    return plain_create(object, ptr, destroy, n, flags);
}

static void end_broken(unsigned stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[stream], &graph),
                     CU_CAPTURE_INVALIDATED);
}

START_TEST(a_capture_that_breaks_before_its_graph_is_watched_keeps_nothing)
{
    pl_driver_table *table = &pleat.sim.drv->table;
    plain_create = table->user_object_create;
    table->user_object_create = break_and_create;
    captures_begin(1);
    pleat_devptr ptr = pleat_get(20 * MIB, 1);
    table->user_object_create = plain_create;
    end_broken(1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_trim(0, true), 20 * MIB);
    ck_assert_uint_eq(pleat_counted().pinned_granules, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segments_capture_window");
    TCase *broken = suite_case(suite, "broken", open_plain, pleat_close);
    tcase_add_test(broken, a_capture_that_breaks_before_its_graph_is_watched_keeps_nothing);
    return suite_run(suite);
}

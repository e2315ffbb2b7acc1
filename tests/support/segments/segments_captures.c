/* segments_captures.c - see segments_captures.h. */
#include "tests/support/segments/segments_captures.h"
#include "tests/support/release.h"

#include <check.h>

void captures_begin(unsigned stream)
{
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(pleat.sim.drv, pleat.handles[stream], CU_CAPTURE_MODE_GLOBAL),
        CU_SUCCESS);
}

cu_graph captures_end_with_graph(unsigned stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[stream], &graph),
                     CU_SUCCESS);
    ck_assert_ptr_nonnull(graph);
    return graph;
}

void captures_destroy(cu_graph graph)
{
    ck_assert_int_eq(pl_cu_graph_destroy(pleat.sim.drv, graph), CU_SUCCESS);
}

void captures_end(unsigned stream)
{
    captures_destroy(captures_end_with_graph(stream));
}

void captures_begin_announced(unsigned stream)
{
    pleat.a->ops->expect_captures(pleat.a, true);
    captures_begin(stream);
}

void captures_end_announced(unsigned stream)
{
    captures_end(stream);
    pleat.a->ops->expect_captures(pleat.a, false);
}

pleat_status captures_release(unsigned stream)
{
    pleat_status st = release_capture(pleat.a, pleat.streams[stream]);
    pleat_assert_sound();
    return st;
}

void captures_name_stream(unsigned stream)
{
    pleat_put(pleat_get(512, stream), stream);
}

uint64_t captures_n_forbidden(void)
{
    static const char *const calls[] = { "cuEventRecord",       "cuEventQuery",
                                         "cuEventSynchronize",  "cuStreamWaitEvent",
                                         "cuStreamSynchronize", "cuMemUnmap",
                                         "cuCtxRecordEvent" };
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        n += pleat_calls(calls[i]);
    }
    return n;
}

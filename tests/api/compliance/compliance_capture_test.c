/* compliance_capture_test.c - no allocator breaks a graph capture beside it.
 *
 * The captures are global: an unsafe call of any thread breaks the capture, and then its end
 * fails. */
#include <stdlib.h>

#include "tests/support/api/api_compliance.h"
#include "tests/support/suite.h"

#define MIB ((size_t)1 << 20)

static const char patient[] = "capacity:1G,depth:1048576";

static void begin_capture(compliance *c, void *stream)
{
    int mode = CU_CAPTURE_MODE_GLOBAL;
    ck_assert_int_eq(pl_cu_stream_begin_capture(c->work.drv, stream, mode), CU_SUCCESS);
}

/* Ends the capture, which must be intact. */
static cu_graph end_capture(compliance *c, void *stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(c->work.drv, stream, &graph), CU_SUCCESS);
    ck_assert_ptr_nonnull(graph);
    return graph;
}

static void drop_graph(compliance *c, cu_graph graph)
{
    ck_assert_int_eq(pl_cu_graph_destroy(c->work.drv, graph), CU_SUCCESS);
}

static void release_capture(compliance *c, void *stream)
{
    ck_assert_int_eq(pleat_device_release_capture(c->instance, 0, stream), PLEAT_OK);
}

/* PyTorch test_graph_record_stream: no event query while capturing. */
START_TEST(a_capture_survives_what_is_allocated_and_freed_meanwhile)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr old = compliance_alloc(&c, 6 * MIB, c.streams[1]);
    compliance_use(&c, c.streams[2], old, 6 * MIB);
    compliance_record(&c, old, c.streams[2]);
    compliance_free(&c, old, c.streams[1]);
    begin_capture(&c, c.streams[0]);
    for (int i = 0; i < 4; i++) {
        pleat_devptr own = compliance_alloc(&c, (size_t)(i + 1) * 3 * MIB, c.streams[0]);
        compliance_use(&c, c.streams[0], own, 3 * MIB);
        compliance_free(&c, own, c.streams[0]);
        pleat_devptr other = compliance_alloc(&c, (size_t)(i + 1) * MIB, c.streams[1]);
        compliance_use(&c, c.streams[1], other, MIB);
        compliance_record(&c, other, c.streams[3]);
        compliance_free(&c, other, c.streams[1]);
    }
    compliance_check(&c);
    drop_graph(&c, end_capture(&c, c.streams[0]));
    release_capture(&c, c.streams[0]);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_graph_record_stream: deferred frees are processed later. */
/* Two blocks of more than half of the device do not fit together, so the second request fails only
 * because memory is withheld. */
START_TEST(what_a_captured_stream_uses_is_withheld_even_when_memory_is_short)
{
    compliance c = compliance_open(_i, patient, "wait_ms:0");
    pleat_devptr ptr = compliance_alloc(&c, 600 * MIB, c.streams[0]);
    begin_capture(&c, c.streams[1]);
    compliance_use(&c, c.streams[1], ptr, 600 * MIB);
    compliance_record(&c, ptr, c.streams[1]);
    compliance_free(&c, ptr, c.streams[0]);
    cu_graph graph = end_capture(&c, c.streams[1]);
    compliance_finish(&c);
    pleat_devptr other = 0;
    ck_assert_int_ne(pleat_block_alloc(c.instance, 0, 600 * MIB, c.streams[2], &other), PLEAT_OK);
    ck_assert_int_ne(pleat_block_alloc(c.instance, 0, 600 * MIB, c.streams[0], &other), PLEAT_OK);
    drop_graph(&c, graph);
    release_capture(&c, c.streams[1]);
    compliance_finish(&c);
    other = compliance_alloc(&c, 600 * MIB, c.streams[0]);
    compliance_free(&c, other, c.streams[0]);
    compliance_close(&c);
}
END_TEST

START_TEST(a_use_on_a_captured_stream_keeps_a_block_until_the_graph_is_gone)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr ptr = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    begin_capture(&c, c.streams[1]);
    compliance_use(&c, c.streams[1], ptr, 4 * MIB);
    compliance_record(&c, ptr, c.streams[1]);
    compliance_free(&c, ptr, c.streams[0]);
    pleat_devptr during = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    ck_assert_uint_ne(during, ptr);
    cu_graph graph = end_capture(&c, c.streams[1]);
    compliance_finish(&c);
    pleat_devptr after = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    ck_assert_uint_ne(after, ptr);
    drop_graph(&c, graph);
    release_capture(&c, c.streams[1]);
    pleat_devptr third = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    if (compliance_has(&c, COMPLIANCE_CACHES)) {
        ck_assert_uint_eq(third, ptr);
    }
    compliance_free(&c, during, c.streams[0]);
    compliance_free(&c, after, c.streams[0]);
    compliance_free(&c, third, c.streams[0]);
    compliance_close(&c);
}
END_TEST

/* PyTorch keeps a graph's allocations in its private pool. This test uses the default pool, where
 * the stream gets the memory back at once. MXNet and BFC know nothing of captures, so the first
 * request gets the memory. */
START_TEST(what_a_captured_stream_freed_is_withheld_or_goes_where_it_always_goes)
{
    compliance c = compliance_open(_i, patient, "");
    begin_capture(&c, c.streams[0]);
    pleat_devptr ptr = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    compliance_use(&c, c.streams[0], ptr, 4 * MIB);
    compliance_free(&c, ptr, c.streams[0]);
    cu_graph graph = end_capture(&c, c.streams[0]);
    pleat_devptr elsewhere = compliance_alloc(&c, 4 * MIB, c.streams[1]);
    pleat_devptr same = compliance_alloc(&c, 4 * MIB, c.streams[0]);
    if (compliance_has(&c, COMPLIANCE_WITHHOLDS)) {
        ck_assert_uint_ne(elsewhere, ptr);
        ck_assert_uint_ne(same, ptr);
    } else {
        ck_assert_uint_eq(compliance_has(&c, COMPLIANCE_SHARES_STREAMS) ? elsewhere : same, ptr);
    }
    compliance_free(&c, elsewhere, c.streams[1]);
    compliance_free(&c, same, c.streams[0]);
    drop_graph(&c, graph);
    release_capture(&c, c.streams[0]);
    compliance_finish(&c);
    compliance_trim(&c);
    ck_assert_uint_eq(compliance_counts(&c).physical_bytes, 0);
    compliance_close(&c);
}
END_TEST

/* PyTorch: while capturing the retry chain does not synchronise. */
START_TEST(a_request_that_would_have_to_wait_fails_rather_than_break_the_capture)
{
    compliance c = compliance_open(_i, patient, "");
    pleat_devptr ptr = compliance_alloc(&c, 700 * MIB, c.streams[1]);
    compliance_use(&c, c.streams[1], ptr, 700 * MIB);
    compliance_use(&c, c.streams[2], ptr, 0);
    compliance_record(&c, ptr, c.streams[2]);
    if (!compliance_has(&c, COMPLIANCE_CACHES)) {
        compliance_free(&c, ptr, c.streams[1]); /* without a cache the free waits for the GPU */
    }
    begin_capture(&c, c.streams[0]);
    if (compliance_has(&c, COMPLIANCE_CACHES)) {
        compliance_free(&c, ptr, c.streams[1]);
        pleat_devptr refused = 77;
        pleat_status st = compliance_try(&c, 800 * MIB, c.streams[0], &refused);
        ck_assert_msg(st == PLEAT_EPENDING || st == PLEAT_ENOMEM_DEVICE || st == PLEAT_ECAPTURE,
                      "%s", pleat_status_text(st));
        ck_assert_uint_eq(refused, 77);
    }
    compliance_check(&c);
    drop_graph(&c, end_capture(&c, c.streams[0]));
    release_capture(&c, c.streams[0]);
    pleat_devptr next = compliance_alloc(&c, 800 * MIB, c.streams[0]);
    compliance_free(&c, next, c.streams[0]);
    compliance_close(&c);
}
END_TEST

START_TEST(a_capture_that_allocated_is_not_released_while_it_lasts)
{
    compliance c = compliance_open(_i, patient, "");
    compliance_free(&c, compliance_alloc(&c, MIB, c.streams[0]), c.streams[0]);
    begin_capture(&c, c.streams[0]);
    compliance_free(&c, compliance_alloc(&c, MIB, c.streams[0]), c.streams[0]);
    ck_assert_int_eq(pleat_device_release_capture(c.instance, 0, c.streams[0]), PLEAT_ECAPTURE);
    drop_graph(&c, end_capture(&c, c.streams[0]));
    release_capture(&c, c.streams[0]);
    release_capture(&c, c.streams[0]); /* nothing is left to release: no error */
    compliance_close(&c);
}
END_TEST

/* PyTorch's emptyCache beside a capture. */
START_TEST(trimming_beside_a_capture_leaves_it_whole)
{
    compliance c = compliance_open(_i, patient, "");
    compliance_free(&c, compliance_alloc(&c, 40 * MIB, c.streams[1]), c.streams[1]);
    pleat_devptr kept = compliance_alloc(&c, 40 * MIB, c.streams[0]);
    begin_capture(&c, c.streams[0]);
    compliance_use(&c, c.streams[0], kept, 40 * MIB);
    uint64_t released = 0;
    pleat_status st = pleat_device_trim(c.instance, 0, 0, true, &released);
    ck_assert_msg(st == PLEAT_OK || st == PLEAT_EPENDING || st == PLEAT_ECAPTURE, "%s",
                  pleat_status_text(st));
    (void)compliance_query(&c, kept);
    drop_graph(&c, end_capture(&c, c.streams[0]));
    compliance_free(&c, kept, c.streams[0]);
    compliance_trim(&c);
    ck_assert_uint_eq(compliance_counts(&c).physical_bytes, 0);
    compliance_close(&c);
}
END_TEST

SUITE(api_compliance_capture)
{
    static const TTest *const *const tests[] = {
        &a_capture_survives_what_is_allocated_and_freed_meanwhile,
        &a_use_on_a_captured_stream_keeps_a_block_until_the_graph_is_gone,
        &what_a_captured_stream_uses_is_withheld_even_when_memory_is_short,
        &what_a_captured_stream_freed_is_withheld_or_goes_where_it_always_goes,
        &a_request_that_would_have_to_wait_fails_rather_than_break_the_capture,
        &a_capture_that_allocated_is_not_released_while_it_lasts,
        &trimming_beside_a_capture_leaves_it_whole,
    };
    compliance_add(suite, tests, sizeof tests / sizeof tests[0]);
}

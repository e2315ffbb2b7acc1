/* pool_gpu_test.c - the driver's own pool on a real GPU; skipped (77) where there is none. */
/* labels: gpu */
/* alone: a context of a real driver does not survive Check's forks */
#include <check.h>
#include <stdlib.h>

#include "vmm/async/async_pool.h"
#include "vmm/driver.h"

#define MIB ((size_t)1 << 20)

static pl_driver *drv;
static pl_device *dev;
static pl_async_pool *pool;
static cu_stream handle;
static pl_stream *stream;

static void open_pool(void)
{
    ck_assert_int_eq(pl_device_open(drv, 0, NULL, &dev), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_create(drv, &handle, CU_STREAM_NON_BLOCKING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_create(dev, 0, UINT64_MAX, &pool), PLEAT_OK);
}

static void close_pool(void)
{
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_OK);
    ck_assert_uint_eq(pl_async_pool_destroy(pool), 0);
    ck_assert_int_eq(pl_cu_stream_destroy(drv, handle), CU_SUCCESS);
    pl_device_leave(dev);
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
    ck_assert_uint_eq(pl_device_close(dev), 0);
}

static pleat_devptr get(size_t bytes)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(pl_async_pool_alloc(pool, bytes, stream, &ptr), PLEAT_OK);
    ck_assert_uint_eq(ptr % 256, 0);
    return ptr;
}

START_TEST(a_block_can_be_written_and_read_and_its_memory_comes_back)
{
    unsigned char seen = 0;
    uint64_t released = 0;
    pleat_devptr ptr = get(100 * MIB);
    ck_assert_int_eq(pl_cu_memset_async(drv, ptr, 0xA5, 100 * MIB, handle), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_memcpy_dtoh_async(drv, &seen, ptr + 100 * MIB - 1, 1, handle),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_OK);
    ck_assert_uint_eq(seen, 0xA5);
    ck_assert_uint_ge(pl_async_pool_held_bytes(pool), 100 * MIB);
    ck_assert_int_eq(pl_async_pool_free(pool, ptr, 100 * MIB, stream), PLEAT_OK);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_OK);
    ck_assert_uint_ge(pl_async_pool_held_bytes(pool), 100 * MIB);
    ck_assert_int_eq(pl_async_pool_trim(pool, 0, &released), PLEAT_OK);
    ck_assert_uint_ge(released, 100 * MIB);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), 0);
}
END_TEST

START_TEST(a_stream_has_its_freed_memory_back_at_once)
{
    pleat_devptr first = get(64 * MIB);
    ck_assert_int_eq(pl_async_pool_free(pool, first, 64 * MIB, stream), PLEAT_OK);
    uint64_t held_bytes = pl_async_pool_held_bytes(pool);
    pleat_devptr second = get(64 * MIB);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), held_bytes);
    ck_assert_int_eq(pl_async_pool_free(pool, second, 64 * MIB, stream), PLEAT_OK);
}
END_TEST

START_TEST(a_limit_holds_whoever_keeps_it)
{
    pl_async_pool *bounded = NULL;
    pleat_devptr ptr = 0;
    pleat_devptr none = 0;
    ck_assert_int_eq(pl_async_pool_create(dev, 256 * MIB, UINT64_MAX, &bounded), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_alloc(bounded, 150 * MIB, stream, &ptr), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_alloc(bounded, 150 * MIB, stream, &none), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_le(pl_async_pool_held_bytes(bounded), 256 * MIB);
    ck_assert_int_eq(pl_async_pool_set_limit(bounded, 512 * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_alloc(bounded, 150 * MIB, stream, &none), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_free(bounded, ptr, 150 * MIB, stream), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_free(bounded, none, 150 * MIB, stream), PLEAT_OK);
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_OK);
    ck_assert_uint_eq(pl_async_pool_destroy(bounded), 0);
}
END_TEST

START_TEST(a_capture_is_not_disturbed)
{
    cu_graph graph = NULL;
    pleat_devptr ptr = get(MIB);
    pleat_devptr none = 0;
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, handle, CU_CAPTURE_MODE_GLOBAL), CU_SUCCESS);
    ck_assert_int_eq(pl_async_pool_alloc(pool, MIB, stream, &none), PLEAT_ECAPTURE);
    ck_assert_int_eq(pl_async_pool_free(pool, ptr, MIB, stream), PLEAT_ECAPTURE);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, handle, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), CU_SUCCESS);
    ck_assert_int_eq(pl_async_pool_free(pool, ptr, MIB, stream), PLEAT_OK);
}
END_TEST

static bool has_pools(void)
{
    bool has = false;
    if (pl_device_open(drv, 0, NULL, &dev) == PLEAT_OK) {
        has = pl_async_pool_create(dev, 0, 0, &pool) == PLEAT_OK;
        has = has && pl_async_pool_destroy(pool) == 0;
        (void)pl_device_close(dev);
    }
    return has;
}

int main(void)
{
    if (pl_driver_open(PL_DRIVER_CUDA, NULL, &drv) != PLEAT_OK || !has_pools()) {
        pl_driver_close(drv);
        return 77;
    }
    Suite *suite = suite_create("vmm pool gpu");
    TCase *gpu = tcase_create("gpu");
    tcase_add_checked_fixture(gpu, open_pool, close_pool);
    tcase_add_test(gpu, a_block_can_be_written_and_read_and_its_memory_comes_back);
    tcase_add_test(gpu, a_stream_has_its_freed_memory_back_at_once);
    tcase_add_test(gpu, a_limit_holds_whoever_keeps_it);
    tcase_add_test(gpu, a_capture_is_not_disturbed);
    suite_add_tcase(suite, gpu);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); /* a context does not survive fork */
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    pl_driver_close(drv);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* mapping_test.c - chunks and runs: mappings, counts, and the state after a failure. */
/* labels: unit fault */
#include <check.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/chunk.h"
#include "vmm/mapping.h"
#include "vmm/range.h"

#define MIB ((size_t)1 << 20)

enum { N_CHUNKS = 4 };

static vmm_sim sim;
static pl_device *dev;
static pl_range range;

static void open_on(const char *conf)
{
    vmm_sim_open(&sim, conf);
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_range_reserve(dev, 32 * MIB, 32 * MIB, &range), PLEAT_OK);
}

static void open_all(void)
{
    open_on("capacity:64M");
}

static void close_all(void)
{
    sim.fail_never();
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

static void create_chunks(pl_chunk *chunks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(pl_chunk_create(dev, &chunks[i]), PLEAT_OK);
    }
}

static void release_chunks(const pl_chunk *chunks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(pl_chunk_release(dev, chunks[i]), PLEAT_OK);
    }
}

/* ---- chunks ---------------------------------------------------------------------------------- */

START_TEST(chunks_are_counted_in_bytes_while_they_are_held)
{
    pl_chunk chunks[N_CHUNKS];
    create_chunks(chunks, N_CHUNKS);
    ck_assert_uint_ne(chunks[0], 0);
    ck_assert_uint_ne(chunks[0], chunks[1]);
    ck_assert_uint_eq(pl_device_counted(dev).chunk_bytes, 8 * MIB);
    ck_assert_uint_eq(pl_device_counted(dev).bytes_created, 8 * MIB);
    release_chunks(chunks, N_CHUNKS);
    ck_assert_uint_eq(pl_device_counted(dev).chunk_bytes, 0);
    ck_assert_uint_eq(pl_device_counted(dev).bytes_created, 8 * MIB);
}
END_TEST

START_TEST(a_full_device_is_out_of_device_memory_and_nothing_is_counted)
{
    pl_chunk chunks[32];
    pl_chunk more = 0;
    create_chunks(chunks, 32);
    ck_assert_int_eq(pl_chunk_create(dev, &more), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(more, 0);
    ck_assert_uint_eq(pl_device_counted(dev).chunk_bytes, 64 * MIB);
    release_chunks(chunks, 32);
}
END_TEST

START_TEST(a_release_refused_twice_is_an_undo_failure_and_stays_held)
{
    pl_chunk chunk;
    create_chunks(&chunk, 1);
    sim.fail_from("cuMemRelease", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_chunk_release(dev, chunk), PLEAT_EDRIVER);
    sim.fail_never();
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 1);
    ck_assert_uint_eq(pl_device_counted(dev).chunk_bytes, 2 * MIB);
    sim.fail_at("cuMemRelease", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_chunk_release(dev, chunk), PLEAT_OK);
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 1);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    ck_assert_uint_eq(pl_device_close(dev), 0);
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_range_reserve(dev, 32 * MIB, 32 * MIB, &range), PLEAT_OK);
}
END_TEST

/* ---- runs ------------------------------------------------------------------------------------ */

START_TEST(a_run_is_mapped_in_order_with_one_set_access)
{
    pl_chunk chunks[N_CHUNKS];
    pleat_sim_mapping mappings[N_CHUNKS + 1];
    create_chunks(chunks, N_CHUNKS);
    ck_assert_int_eq(pl_mapping_map(dev, range.base + 4 * MIB, chunks, N_CHUNKS), PLEAT_OK);
    ck_assert_uint_eq(sim.mappings(mappings, N_CHUNKS + 1), N_CHUNKS);
    for (size_t i = 0; i < N_CHUNKS; i++) {
        ck_assert_uint_eq(mappings[i].ptr, range.base + 4 * MIB + i * 2 * MIB);
        ck_assert_uint_eq(mappings[i].bytes, 2 * MIB);
        ck_assert_int_eq(mappings[i].access, CU_ACCESS_READ_WRITE);
        ck_assert(i == 0 || mappings[i].handle != mappings[i - 1].handle);
    }
    ck_assert_uint_eq(sim.n_calls("cuMemMap"), N_CHUNKS);
    ck_assert_uint_eq(sim.n_calls("cuMemSetAccess"), 1);
    ck_assert_uint_eq(pl_device_counted(dev).ops_map, 1);
    ck_assert_uint_eq(pl_device_counted(dev).bytes_mapped, 8 * MIB);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + 4 * MIB, 8 * MIB), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuMemUnmap"), 1);
    ck_assert_uint_eq(pl_device_counted(dev).ops_unmap, 1);
    release_chunks(chunks, N_CHUNKS);
}
END_TEST

START_TEST(one_unmap_covers_neighbouring_runs)
{
    pl_chunk chunks[N_CHUNKS];
    create_chunks(chunks, N_CHUNKS);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, 1), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(dev, range.base + 2 * MIB, chunks + 1, 3), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 8 * MIB), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 0);
    release_chunks(chunks, N_CHUNKS);
}
END_TEST

START_TEST(a_chunk_may_be_mapped_at_two_places)
{
    pl_chunk chunk;
    create_chunks(&chunk, 1);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, &chunk, 1), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(dev, range.base + 8 * MIB, &chunk, 1), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mapped_bytes, 4 * MIB);
    ck_assert_uint_eq(vmm_sim_counted(&sim).physical_bytes, 2 * MIB);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 2 * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + 8 * MIB, 2 * MIB), PLEAT_OK);
    release_chunks(&chunk, 1);
}
END_TEST

START_TEST(an_empty_run_is_an_invalid_argument)
{
    pl_chunk chunk = 0;
    ck_assert_int_eq(pl_mapping_map(dev, range.base, &chunk, 0), PLEAT_EINVAL);
}
END_TEST

START_TEST(a_run_onto_a_mapped_place_leaves_only_what_was_there)
{
    pl_chunk chunks[N_CHUNKS];
    create_chunks(chunks, N_CHUNKS);
    ck_assert_int_eq(pl_mapping_map(dev, range.base + 4 * MIB, chunks, 1), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks + 1, 3), PLEAT_EDRIVER);
    pleat_sim_mapping mapping;
    ck_assert_uint_eq(sim.mappings(&mapping, 1), 1);
    ck_assert_uint_eq(mapping.ptr, range.base + 4 * MIB);
    ck_assert_uint_eq(pl_device_counted(dev).ops_map, 1);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + 4 * MIB, 2 * MIB), PLEAT_OK);
    release_chunks(chunks, N_CHUNKS);
}
END_TEST

START_TEST(an_unmap_with_holes_or_of_part_of_a_mapping_changes_nothing)
{
    pl_chunk chunks[2];
    create_chunks(chunks, 2);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, 1), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(dev, range.base + 4 * MIB, chunks + 1, 1), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 6 * MIB), PLEAT_EPOISONED);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 1 * MIB), PLEAT_EDRIVER);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 2);
    ck_assert_uint_eq(pl_device_counted(dev).ops_unmap, 0);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 2 * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + 4 * MIB, 2 * MIB), PLEAT_OK);
    release_chunks(chunks, 2);
}
END_TEST

/* ---- drivers that unmap a part --------------------------------------------------------------- */

static void open_untold(void)
{
    open_on("capacity:64M,without:[cuMemRetainAllocationHandle]");
}

static void open_partial(void)
{
    open_on("capacity:64M,unkind:[partial_unmap]");
}

START_TEST(what_a_refused_unmap_has_left_is_unmapped_one_by_one)
{
    pl_chunk chunks[N_CHUNKS];
    create_chunks(chunks, N_CHUNKS);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    sim.fail_at("cuMemUnmap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, N_CHUNKS * 2 * MIB), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 0);
    ck_assert_uint_eq(pl_device_counted(dev).ops_unmap, 1);
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
    release_chunks(chunks, N_CHUNKS);
}
END_TEST

START_TEST(what_is_unmapped_in_part_only_is_told_apart)
{
    pl_chunk chunks[N_CHUNKS];
    create_chunks(chunks, N_CHUNKS);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    sim.fail_from("cuMemUnmap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, N_CHUNKS * 2 * MIB), PLEAT_EPOISONED);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + (N_CHUNKS - 1) * 2 * MIB, 2 * MIB),
                     PLEAT_EDRIVER);
    sim.fail_never();
    ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, N_CHUNKS / 2);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + N_CHUNKS * MIB, N_CHUNKS * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS / 2), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, N_CHUNKS * MIB), PLEAT_OK);
    release_chunks(chunks, N_CHUNKS);
}
END_TEST

START_TEST(a_chunk_is_cleared_whether_it_is_mapped_or_not)
{
    pl_chunk chunk;
    create_chunks(&chunk, 1);
    ck_assert_int_eq(pl_mapping_clear(dev, range.base, 2 * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, &chunk, 1), PLEAT_OK);
    sim.fail_at("cuMemUnmap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_mapping_clear(dev, range.base, 2 * MIB), PLEAT_EPOISONED);
    ck_assert_int_eq(pl_mapping_clear(dev, range.base, 2 * MIB), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 0);
    release_chunks(&chunk, 1);
}
END_TEST

START_TEST(not_mapped_is_asked_for_twice)
{
    pl_chunk chunk;
    create_chunks(&chunk, 1);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, &chunk, 1), PLEAT_OK);
    sim.fail_at("cuMemRetainAllocationHandle", 0, CU_INVALID_VALUE);
    ck_assert_int_eq(pl_mapping_clear(dev, range.base, 2 * MIB), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 0);
    release_chunks(&chunk, 1);
}
END_TEST

/* No context is current here: the driver does not tell where a mapping ends. */
START_TEST(large_chunks_are_unmapped_one_by_one_without_a_context)
{
    pl_device_options options = { .chunk_granules = 4 };
    pl_device *big = vmm_sim_device(&sim, &options);
    pl_chunk chunks[4];
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(pl_chunk_create(big, &chunks[i]), PLEAT_OK);
    }
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(pl_mapping_map(big, range.base, chunks, 4), PLEAT_OK);
        if (i == 0) {
            sim.fail_at("cuMemUnmap", 0, CU_UNKNOWN);
        }
        ck_assert_int_eq(i == 0 ? pl_mapping_unmap(big, range.base, 32 * MIB)
                                : pl_mapping_clear(big, range.base, 32 * MIB),
                         PLEAT_OK);
        ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(pl_chunk_release(big, chunks[i]), PLEAT_OK);
    }
    vmm_sim_close_device(big);
}
END_TEST

/* ---- drivers that take VMM for unsafe -------------------------------------------------------- */

static void open_unsafe(void)
{
    open_on("capacity:64M,unkind:[unsafe_vmm]");
}

START_TEST(no_call_breaks_a_capture_of_its_own_thread)
{
    pl_chunk chunks[N_CHUNKS];
    cu_graph graph = NULL;
    cu_stream stream = NULL;
    char why[100];
    pl_range other;
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_create(sim.drv, &stream, CU_STREAM_NON_BLOCKING_FLAG),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, stream, CU_CAPTURE_MODE_GLOBAL),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_OK);
    ck_assert_int_eq(pl_range_reserve(dev, 2 * MIB, 2 * MIB, &other), PLEAT_OK);
    create_chunks(chunks, N_CHUNKS);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, N_CHUNKS * 2 * MIB), PLEAT_OK);
    release_chunks(chunks, N_CHUNKS);
    ck_assert_int_eq(pl_range_release(dev, other), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, stream, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_destroy(sim.drv, stream), CU_SUCCESS);
    pl_device_leave(dev);
}
END_TEST

START_TEST(bigger_chunks_are_mapped_side_by_side)
{
    pl_device_options options = { .chunk_granules = 4 };
    pl_device *big = vmm_sim_device(&sim, &options);
    pl_chunk chunks[2];
    ck_assert_int_eq(pl_chunk_create(big, &chunks[0]), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_create(big, &chunks[1]), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(big, range.base + 2 * MIB, chunks, 2), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mapped_bytes, 16 * MIB);
    ck_assert_int_eq(pl_mapping_unmap(big, range.base + 2 * MIB, 16 * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_release(big, chunks[0]), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_release(big, chunks[1]), PLEAT_OK);
    vmm_sim_close_device(big);
}
END_TEST

/* Chunks of 4, 2 and 1 granules, in the elements where they begin. */
enum { N_MIXED = 7 };
static const uint8_t mixed_log2s[N_MIXED] = { 2, 2, 2, 2, 1, 1, 0 };

static void create_mixed(pl_chunk *chunks)
{
    for (size_t i = 0; i < N_MIXED; i += (size_t)1 << mixed_log2s[i]) {
        ck_assert_int_eq(pl_chunk_create_sized(dev, 2 * MIB << mixed_log2s[i], &chunks[i]),
                         PLEAT_OK);
    }
}

static void release_mixed(const pl_chunk *chunks)
{
    for (size_t i = 0; i < N_MIXED; i += (size_t)1 << mixed_log2s[i]) {
        ck_assert_int_eq(pl_chunk_release_sized(dev, chunks[i], 2 * MIB << mixed_log2s[i]),
                         PLEAT_OK);
    }
}

START_TEST(chunks_of_several_sizes_are_mapped_with_one_map_each)
{
    pl_chunk chunks[N_MIXED] = { 0 };
    pleat_sim_mapping mappings[N_MIXED];
    create_mixed(chunks);
    pl_device_counts before = pl_device_counted(dev);
    ck_assert_int_eq(pl_mapping_map_mixed(dev, range.base + 2 * MIB, chunks, mixed_log2s, N_MIXED),
                     PLEAT_OK);
    ck_assert_uint_eq(sim.mappings(mappings, N_MIXED), 3);
    pleat_devptr at = range.base + 2 * MIB;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(mappings[i].ptr, at);
        ck_assert_uint_eq(mappings[i].bytes, 8 * MIB >> i);
        ck_assert_int_eq(mappings[i].access, CU_ACCESS_READ_WRITE);
        at += mappings[i].bytes;
    }
    ck_assert_uint_eq(sim.n_calls("cuMemMap"), 3);
    ck_assert_uint_eq(sim.n_calls("cuMemSetAccess"), 1);
    ck_assert_uint_eq(pl_device_counted(dev).ops_map, before.ops_map + 1);
    ck_assert_uint_eq(pl_device_counted(dev).bytes_mapped, before.bytes_mapped + 14 * MIB);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + 2 * MIB, 14 * MIB), PLEAT_OK);
    release_mixed(chunks);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

START_TEST(a_failed_step_is_rolled_back_and_named)
{
    pl_chunk chunks[N_CHUNKS];
    create_chunks(chunks, N_CHUNKS);
    for (uint64_t k = 0; k <= N_CHUNKS; k++) {
        bool is_access = k == N_CHUNKS;
        sim.fail_at(is_access ? "cuMemSetAccess" : "cuMemMap", is_access ? 0 : k, CU_OUT_OF_MEMORY);
        ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_ENOMEM_DEVICE);
        ck_assert_int_eq(pl_driver_last_error()->entry,
                         is_access ? PL_CU_mem_set_access : PL_CU_mem_map);
        ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 0);
        ck_assert_uint_eq(sim.n_calls("cuMemUnmap"), k); /* one per failure after the first */
    }
    ck_assert_uint_eq(pl_device_counted(dev).ops_map, 0);
    ck_assert_uint_eq(pl_device_counted(dev).bytes_mapped, 0);
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
    release_chunks(chunks, N_CHUNKS);
}
END_TEST

START_TEST(a_failed_step_unmaps_all_chunks_of_several_sizes)
{
    pl_chunk chunks[N_MIXED] = { 0 };
    create_mixed(chunks);
    for (uint64_t k = 0; k <= 3; k++) {
        sim.fail_at(k == 3 ? "cuMemSetAccess" : "cuMemMap", k % 3, CU_OUT_OF_MEMORY);
        ck_assert_int_eq(pl_mapping_map_mixed(dev, range.base, chunks, mixed_log2s, N_MIXED),
                         PLEAT_ENOMEM_DEVICE);
        ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 0);
        ck_assert_uint_eq(sim.n_calls("cuMemUnmap"), k); /* one per failure after the first */
    }
    ck_assert_uint_eq(pl_device_counted(dev).ops_map, 0);
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
    ck_assert_int_eq(pl_mapping_map_mixed(dev, range.base, chunks, mixed_log2s, 0), PLEAT_EINVAL);
    release_mixed(chunks);
}
END_TEST

START_TEST(one_refused_unmap_is_tried_again)
{
    pl_chunk chunk;
    create_chunks(&chunk, 1);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, &chunk, 1), PLEAT_OK);
    sim.fail_at("cuMemUnmap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 2 * MIB), PLEAT_OK);
    ck_assert_uint_eq(sim.n_faults(), 1);
    release_chunks(&chunk, 1);
}
END_TEST

START_TEST(a_failed_undo_is_counted_and_poisons)
{
    pl_chunk chunks[N_CHUNKS];
    create_chunks(chunks, N_CHUNKS);
    sim.fail_from("cuMemUnmap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_mapping_map(dev, range.base + 28 * MIB, chunks, N_CHUNKS),
                     PLEAT_EPOISONED); /* only two of them fit into the range */
    sim.fail_never();
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 1);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 2);
    release_chunks(chunks, N_CHUNKS);
    /* The chunks still mapped keep their range, which is reported. */
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_EDRIVER);
    ck_assert_uint_eq(pl_device_close(dev), 1);
    ck_assert_int_eq(sim.reset("capacity:64M"), 0);
    ck_assert_int_eq(pl_cu_init(sim.drv, 0), CU_SUCCESS);
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_range_reserve(dev, 32 * MIB, 32 * MIB, &range), PLEAT_OK);
}
END_TEST

/* Reserve, create, map, unmap, release. After a failure all earlier steps are undone. *is_leaky: an
 * undo failed. */
static pleat_status play(pl_device *d, bool *is_leaky)
{
    pl_range mine;
    pl_chunk chunks[N_CHUNKS];
    size_t n = 0;
    pleat_status back = PLEAT_OK;
    *is_leaky = false;
    pleat_status st = pl_range_reserve(d, 8 * MIB, 8 * MIB, &mine);
    if (st != PLEAT_OK) {
        return st;
    }
    while (st == PLEAT_OK && n < N_CHUNKS) {
        st = pl_chunk_create(d, &chunks[n]);
        n += st == PLEAT_OK ? 1 : 0;
    }
    if (st == PLEAT_OK) {
        st = pl_mapping_map(d, mine.base, chunks, n);
        *is_leaky = st == PLEAT_EPOISONED;
    }
    if (st == PLEAT_OK) {
        back = pl_mapping_unmap(d, mine.base, 8 * MIB);
        *is_leaky |= back != PLEAT_OK;
    }
    while (n > 0) {
        back = pl_chunk_release(d, chunks[--n]);
        *is_leaky |= back != PLEAT_OK;
    }
    back = pl_range_release(d, mine);
    *is_leaky |= back != PLEAT_OK;
    return st;
}

START_TEST(any_single_fault_leaves_the_driver_as_it_was)
{
    uint64_t n_hit;
    unsigned n_failed = 0;
    uint64_t k = 0;
    do {
        bool is_leaky;
        uint64_t before = sim.n_faults();
        sim.fail_at(NULL, k++, CU_OUT_OF_MEMORY);
        pleat_status st = play(dev, &is_leaky);
        n_hit = sim.n_faults() - before;
        sim.fail_never();
        n_failed += st != PLEAT_OK ? 1 : 0;
        ck_assert(!is_leaky);
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_DEVICE || st == PLEAT_ENOSPACE_VA);
        pleat_sim_counts counts = vmm_sim_counted(&sim);
        ck_assert_uint_eq(counts.reservations, 1); /* the fixture's */
        ck_assert_uint_eq(counts.handles, 0);
        ck_assert_uint_eq(counts.mappings, 0);
    } while (n_hit > 0);
    /* One reservation, 4 creates, 4 maps and a set-access fail; giving back is tried twice. */
    ck_assert_uint_eq(n_failed, 1 + N_CHUNKS + N_CHUNKS + 1);
    ck_assert_uint_eq(k, n_failed + 1 + N_CHUNKS + 1 + 1);
}
END_TEST

START_TEST(every_call_failing_from_some_point_on_is_counted_and_reported)
{
    uint64_t n_hit;
    uint64_t k = 0;
    do {
        bool is_leaky;
        pl_device *mine = vmm_sim_device(&sim, NULL);
        uint64_t before = sim.n_faults();
        sim.fail_from(NULL, k++, CU_UNKNOWN);
        pleat_status st = play(mine, &is_leaky);
        n_hit = sim.n_faults() - before;
        sim.fail_never();
        ck_assert(st != PLEAT_EPOISONED || pl_device_counted(mine).n_undo_failures > 0);
        pleat_sim_counts counts = vmm_sim_counted(&sim);
        uint64_t n_there = counts.reservations - 1 + counts.handles;
        ck_assert_uint_ge(n_there, counts.mappings > 0);
        ck_assert_int_eq(n_there > 0, is_leaky);
        ck_assert_uint_eq(pl_device_close(mine), n_there);
        sim.finish();
        if (n_there > 0) {
            pl_device_close(dev);
            ck_assert_int_eq(sim.reset("capacity:64M"), 0);
            ck_assert_int_eq(pl_cu_init(sim.drv, 0), CU_SUCCESS);
            dev = vmm_sim_device(&sim, NULL);
            ck_assert_int_eq(pl_range_reserve(dev, 32 * MIB, 32 * MIB, &range), PLEAT_OK);
            n_hit = 1;
        }
    } while (n_hit > 0);
    ck_assert_uint_ge(k, 16);
}
END_TEST

START_TEST(chunks_of_any_number_of_granules_are_counted_by_their_size)
{
    pl_chunk pages[2];
    ck_assert_int_eq(pl_chunk_create_sized(dev, 0, &pages[0]), PLEAT_EINVAL);
    ck_assert_int_eq(pl_chunk_create_sized(dev, MIB, &pages[0]), PLEAT_EINVAL);
    ck_assert_int_eq(pl_chunk_create_sized(dev, 6 * MIB, &pages[0]), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_create_sized(dev, 6 * MIB, &pages[1]), PLEAT_OK);
    pl_device_counts before = pl_device_counted(dev);
    ck_assert_uint_eq(before.chunk_bytes, 12 * MIB);
    ck_assert_uint_eq(before.bytes_created, 12 * MIB);
    ck_assert_int_eq(pl_mapping_map_sized(dev, range.base + 2 * MIB, pages, 2, 6 * MIB), PLEAT_OK);
    pl_device_counts after = pl_device_counted(dev);
    ck_assert_uint_eq(after.ops_map, before.ops_map + 1);
    ck_assert_uint_eq(after.bytes_mapped, before.bytes_mapped + 12 * MIB);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mapped_bytes, 12 * MIB);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + 2 * MIB, 12 * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_release_sized(dev, pages[0], 6 * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_release_sized(dev, pages[1], 6 * MIB), PLEAT_OK);
    ck_assert_uint_eq(pl_device_counted(dev).chunk_bytes, 0);
    ck_assert_uint_eq(pl_device_counted(dev).ops_unmap, before.ops_unmap + 1);
}
END_TEST

SUITE(vmm_mapping)
{
    TCase *partial = suite_case(suite, "partial unmap", open_partial, close_all);
    tcase_add_test(partial, what_a_refused_unmap_has_left_is_unmapped_one_by_one);
    tcase_add_test(partial, what_is_unmapped_in_part_only_is_told_apart);
    tcase_add_test(partial, large_chunks_are_unmapped_one_by_one_without_a_context);
    tcase_add_test(partial, a_chunk_is_cleared_whether_it_is_mapped_or_not);
    tcase_add_test(partial, not_mapped_is_asked_for_twice);
    TCase *untold = suite_case(suite, "without retained handles", open_untold, close_all);
    tcase_add_test(untold, a_chunk_is_cleared_whether_it_is_mapped_or_not);
    TCase *unsafe = suite_case(suite, "unsafe in captures", open_unsafe, close_all);
    tcase_add_test(unsafe, no_call_breaks_a_capture_of_its_own_thread);
    TCase *chunks = tcase_create("chunks");
    tcase_add_checked_fixture(chunks, open_all, close_all);
    tcase_add_test(chunks, chunks_are_counted_in_bytes_while_they_are_held);
    tcase_add_test(chunks, a_full_device_is_out_of_device_memory_and_nothing_is_counted);
    tcase_add_test(chunks, a_release_refused_twice_is_an_undo_failure_and_stays_held);
    suite_add_tcase(suite, chunks);
    TCase *runs = tcase_create("runs");
    tcase_add_checked_fixture(runs, open_all, close_all);
    tcase_add_test(runs, a_run_is_mapped_in_order_with_one_set_access);
    tcase_add_test(runs, one_unmap_covers_neighbouring_runs);
    tcase_add_test(runs, a_chunk_may_be_mapped_at_two_places);
    tcase_add_test(runs, an_empty_run_is_an_invalid_argument);
    tcase_add_test(runs, a_run_onto_a_mapped_place_leaves_only_what_was_there);
    tcase_add_test(runs, an_unmap_with_holes_or_of_part_of_a_mapping_changes_nothing);
    tcase_add_test(runs, bigger_chunks_are_mapped_side_by_side);
    tcase_add_test(runs, chunks_of_any_number_of_granules_are_counted_by_their_size);
    tcase_add_test(runs, chunks_of_several_sizes_are_mapped_with_one_map_each);
    suite_add_tcase(suite, runs);
    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, open_all, close_all);
    tcase_add_test(faults, a_failed_step_is_rolled_back_and_named);
    tcase_add_test(faults, a_failed_step_unmaps_all_chunks_of_several_sizes);
    tcase_add_test(faults, one_refused_unmap_is_tried_again);
    tcase_add_test(faults, a_failed_undo_is_counted_and_poisons);
    tcase_add_test(faults, any_single_fault_leaves_the_driver_as_it_was);
    tcase_add_test(faults, every_call_failing_from_some_point_on_is_counted_and_reported);
    suite_add_tcase(suite, faults);
}

/* peer_test.c - other devices work on blocks. With `peers` this is never a hazard. */
#include <check.h>
#include <string.h>

#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, N_SLOTS = 24, N_ROUNDS = 600 };

static void *pointer(pleat_devptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

/* Work of a device on a whole block of device 0, and the end of that work. */
static void touch(pleat instance, int device, pleat_devptr ptr, size_t bytes)
{
    api_torch_work(instance, device, NULL, pointer(ptr), bytes);
    sim.finish();
}

START_TEST(without_peers_another_devices_work_is_a_hazard)
{
    pleat instance = api_make(_i, "capacity:64M,devices:2", "");
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    touch(instance, 0, ptr, 5 * MIB);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    touch(instance, 1, ptr, 5 * MIB);
    pleat_sim_hazard hazard;
    ck_assert_uint_eq(sim.hazards(&hazard, 1), 1);
    ck_assert_int_eq(hazard.kind, PLEAT_SIM_UNMAPPED_ACCESS);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
}
END_TEST

START_TEST(with_peers_only_devices_that_can_reach_may_work)
{
    pleat instance = api_make(_i, "capacity:64M,devices:4,peers:pairs", "peers:True");
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    touch(instance, 1, ptr, 5 * MIB);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    touch(instance, 2, ptr, 5 * MIB);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 1);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
}
END_TEST

/* Blocks come and go on a full device, with trims in between, so memory is mapped, unmapped and
 * remapped elsewhere. Every device touches each live block. */
START_TEST(every_live_byte_is_reachable_however_often_its_memory_moved)
{
    pleat_devptr held[N_SLOTS] = { 0 };
    size_t bytes[N_SLOTS];
    unsigned seed = 20261121;
    pleat instance = api_make(_i, "capacity:96M,devices:3", "peers:True");
    for (int i = 0; i < N_ROUNDS; i++) {
        seed = seed * 1664525U + 1013904223U;
        size_t at = (seed >> 8) % N_SLOTS;
        if (held[at] != 0) {
            api_free(instance, 0, held[at], NULL);
            held[at] = 0;
            continue;
        }
        bytes[at] = ((seed >> 16) % 20 + 1) * 700000;
        if (pleat_block_alloc(instance, 0, bytes[at], NULL, &held[at]) == PLEAT_OK) {
            touch(instance, 1 + i % 2, held[at], bytes[at]);
        }
        if (i % 50 == 0) {
            ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
        }
    }
    for (size_t i = 0; i < N_SLOTS; i++) {
        if (held[i] != 0) {
            touch(instance, 1, held[i], bytes[i]);
            api_free(instance, 0, held[i], NULL);
        }
    }
    ck_assert(_i != API_PLEAT || api_stats(instance, 0).n_taken_granules > 0);
    api_unmake(instance);
}
END_TEST

/* A peer's default stream has no handle, so no call can name it. */
START_TEST(a_compaction_waits_for_peers_that_were_never_seen)
{
    enum { GRANULE = 2 * MIB, N_FIRST = 31, N_LARGE = 32 };
    pleat_compaction out;
    pleat instance = api_make(API_PLEAT, "capacity:512M,devices:2,depth:1048576",
                              "peers:True,chunks:mixed,chunk_share:1");
    pleat_devptr first = api_alloc(instance, 0, (size_t)N_FIRST * GRANULE, NULL);
    pleat_devptr large = api_alloc(instance, 0, (size_t)N_LARGE * GRANULE, NULL);
    api_free(instance, 0, large, NULL);
    pleat_devptr low = api_alloc(instance, 0, GRANULE, NULL);
    ck_assert_uint_eq(low, large);
    api_torch_work(instance, 1, NULL, pointer(low), GRANULE);
    ck_assert_int_eq(pleat_device_compact(instance, 0, &out), PLEAT_OK);
    ck_assert_uint_eq(out.n_split, 1);
    sim.finish();
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_free(instance, 0, low, NULL);
    api_free(instance, 0, first, NULL);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
}
END_TEST

/* ---- streams of peers ------------------------------------------------------------------------ */

/* Work on a stream of device 1. */
static void work(void *stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

/* Open device 1 as well, for its streams. */
static pleat make_pair(const char *sim_conf, const char *more)
{
    pleat_device_info info;
    pleat instance = api_make(API_PLEAT, sim_conf, more);
    ck_assert_int_eq(pleat_device_query(instance, 1, &info), PLEAT_OK);
    return instance;
}

START_TEST(without_peers_another_devices_stream_is_refused)
{
    pleat instance = make_pair("capacity:64M,devices:2", "");
    void *there = api_stream(instance, 1);
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, there), PLEAT_ESTREAM);
    api_expect(PLEAT_ESTREAM, "device 0", "peers:True");
    ck_assert_int_eq(pleat_block_free(instance, 0, ptr, there), PLEAT_ESTREAM);
    api_free(instance, 0, ptr, NULL);
    api_stream_end(instance, 1, there);
    api_unmake(instance);
}
END_TEST

/* How the peer's stream gets the block, and what becomes of the stream afterwards. */
enum { BY_RECORD, BY_FREE, BY_ALLOC, N_WAYS, STAYS = 0, RETIRES, DIES, N_ENDS };

static pleat_devptr use_there(pleat instance, void *here, void *there, int way)
{
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, way == BY_ALLOC ? there : here);
    api_stream_order(instance, 0, here, there);
    work(there, ptr, 5 * MIB);
    if (way == BY_RECORD) {
        ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, there), PLEAT_OK);
    }
    api_free(instance, 0, ptr, way == BY_RECORD ? here : there);
    return ptr;
}

static void end_there(pleat instance, void *there, int how)
{
    if (how == RETIRES) { /* retired on its own device, which tells the others */
        ck_assert_int_eq(pleat_stream_retire(instance, 1, there), PLEAT_OK);
    }
    if (how != STAYS) {
        api_stream_end(instance, 1, there);
    }
}

/* The memory is used again only behind the peer's work: the simulator would see the race. */
START_TEST(memory_waits_for_a_peers_stream)
{
    int way = _i / N_ENDS;
    int how = _i % N_ENDS;
    pleat instance = make_pair("capacity:64M,devices:2,depth:1000", "peers:True");
    void *here = api_stream(instance, 0);
    void *there = api_stream(instance, 1);
    pleat_devptr ptr = use_there(instance, here, there, way);
    end_there(instance, there, how);
    pleat_devptr next = api_alloc(instance, 0, 5 * MIB, here);
    ck_assert(next != ptr || api_stats(instance, 0).stream_waits > 0);
    work(here, next, 5 * MIB);
    api_free(instance, 0, next, here);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    pleat_stats s = api_stats(instance, 0);
    ck_assert_uint_eq(s.pending_bytes, 0);
    ck_assert_uint_eq(s.resident_bytes, 0);
    if (how == STAYS) {
        api_stream_end(instance, 1, there);
    }
    api_stream_end(instance, 0, here);
    sim.finish();
    api_unmake(instance);
}
END_TEST

enum { N_STREAMS = 8 };

typedef struct shared_block {
    pleat_devptr ptr;
    void *owner;
    size_t stream; /* index */
} shared_block;

/* Streams of three devices share the blocks of one full device. They come and go without a
 * retire. */
START_TEST(streams_of_three_devices_may_share_and_die)
{
    void *streams[N_STREAMS] = { NULL };
    shared_block held[N_SLOTS] = { 0 };
    unsigned seed = 77 + (unsigned)_i;
    pleat_device_info info;
    pleat instance = make_pair("capacity:96M,devices:3,depth:8", "peers:True");
    ck_assert_int_eq(pleat_device_query(instance, 2, &info), PLEAT_OK);
    for (int i = 0; i < 4 * N_ROUNDS; i++) {
        seed = seed * 1664525U + 1013904223U;
        size_t s = (seed >> 4) % N_STREAMS;
        size_t at = (seed >> 8) % N_SLOTS;
        if (streams[s] != NULL && (seed >> 24) % 16 == 0) {
            api_stream_end(instance, (int)(s % 3), streams[s]);
            streams[s] = NULL;
        }
        streams[s] = streams[s] != NULL ? streams[s] : api_stream(instance, (int)(s % 3));
        shared_block *b = &held[at];
        if (b->ptr != 0) {
            if (i % 3 != 0 && streams[b->stream] == b->owner) {
                api_stream_order(instance, (int)(b->stream % 3), b->owner, streams[s]);
                work(streams[s], b->ptr, MIB / 2);
            }
            api_free(instance, 0, b->ptr, streams[s]);
            b->ptr = 0;
        } else if (pleat_block_alloc(instance, 0, ((seed >> 16) % 9 + 1) * 700000, streams[s],
                                     &b->ptr) == PLEAT_OK) {
            b->owner = streams[s];
            b->stream = s;
            work(streams[s], b->ptr, MIB / 2);
        }
        if (i % 200 == 0) {
            api_check(instance);
        }
    }
    for (size_t i = 0; i < N_SLOTS; i++) {
        if (held[i].ptr != 0) {
            api_free(instance, 0, held[i].ptr, NULL);
        }
    }
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_stats(instance, 0).pending_bytes, 0);
    for (size_t s = 0; s < N_STREAMS; s++) {
        if (streams[s] != NULL) {
            api_stream_end(instance, (int)(s % 3), streams[s]);
        }
    }
    sim.finish();
    api_unmake(instance);
}
END_TEST

/* Captures were announced on device 1 and never end. Waits of device 0 for work there end
 * nevertheless, and the next instance is not held up. */
START_TEST(a_pool_that_was_never_ended_bars_nobody_after_its_instance)
{
    pleat_pool_id id = { 7, 0 };
    pleat instance = make_pair("capacity:64M,devices:2,depth:1000", "peers:True");
    void *here = api_stream(instance, 0);
    void *there = api_stream(instance, 1);
    (void)use_there(instance, here, there, BY_RECORD);
    ck_assert_int_eq(pleat_pool_begin(instance, 1, id, NULL, NULL, NULL), PLEAT_OK);
    api_stream_end(instance, 0, here);
    api_stream_end(instance, 1, there);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    sim.finish();
    api_sim_check_empty();
    instance = make_pair("capacity:64M,devices:2,depth:1000", "peers:True");
    here = api_stream(instance, 0);
    there = api_stream(instance, 1);
    (void)use_there(instance, here, there, BY_RECORD);
    api_stream_end(instance, 1, there);
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_stats(instance, 0).pending_bytes, 0);
    api_stream_end(instance, 0, here);
    api_unmake(instance);
}
END_TEST

START_TEST(the_configuration_tells_of_peers)
{
    char text[4096];
    size_t needed;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "peers:True");
    ck_assert_int_eq(pleat_instance_conf(instance, text, sizeof text, &needed), PLEAT_OK);
    ck_assert_ptr_nonnull(strstr(text, "peers:True"));
    api_unmake(instance);
    pleat other;
    ck_assert_int_eq(pleat_create("driver:sim,peers:yes", &other), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "'yes'", "'peers'", "True, False");
}
END_TEST

/* The program opens a classic cache's memory to peers itself, all or none of it: the key is
 * accepted and changes nothing. */
START_TEST(the_key_means_nothing_to_what_maps_nothing)
{
    pleat instance = api_make(API_TORCH, "capacity:64M,devices:2", "peers:True");
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    touch(instance, 0, ptr, 5 * MIB);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

SUITE(api_peer)
{
    TCase *mapped = tcase_create("allocators that map");
    tcase_add_checked_fixture(mapped, api_sim_load, NULL);
    tcase_add_loop_test(mapped, without_peers_another_devices_work_is_a_hazard, API_PLEAT,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(mapped, with_peers_only_devices_that_can_reach_may_work, API_PLEAT,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(mapped, every_live_byte_is_reachable_however_often_its_memory_moved,
                        API_PLEAT, N_API_ALLOCATORS);
    tcase_add_test(mapped, a_compaction_waits_for_peers_that_were_never_seen);
    suite_add_tcase(suite, mapped);
    TCase *streams = tcase_create("their streams");
    tcase_add_checked_fixture(streams, api_sim_load, NULL);
    tcase_add_test(streams, without_peers_another_devices_stream_is_refused);
    tcase_add_loop_test(streams, memory_waits_for_a_peers_stream, 0, N_WAYS * N_ENDS);
    tcase_add_test(streams, a_pool_that_was_never_ended_bars_nobody_after_its_instance);
    tcase_add_loop_test(streams, streams_of_three_devices_may_share_and_die, 0, 4);
    suite_add_tcase(suite, streams);
    TCase *keys = tcase_create("the key");
    tcase_add_checked_fixture(keys, api_sim_load, NULL);
    tcase_add_test(keys, the_configuration_tells_of_peers);
    tcase_add_test(keys, the_key_means_nothing_to_what_maps_nothing);
    suite_add_tcase(suite, keys);
}

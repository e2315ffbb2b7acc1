/* tag_test.c - tags: tagged blocks, figures, limits, and sleep without other threads. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

enum { MIB = 1 << 20, GRANULE = 2 << 20, KIB = 1 << 10 };

static pleat instance;

static void open_instance(void)
{
    api_sim_load();
    instance = api_make(API_PLEAT, "capacity:256M,backing:memory,depth:4", "");
}

static void close_instance(void)
{
    api_check(instance);
    api_unmake(instance);
}

static pleat_devptr tagged(const char *tag, size_t bytes, void *stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = pleat_tag_alloc(instance, 0, tag, bytes, stream, &ptr);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return ptr;
}

static pleat_tag_info figures(const char *tag)
{
    pleat_tag_info out;
    ck_assert_int_eq(pleat_tag_query(instance, 0, tag, &out), PLEAT_OK);
    return out;
}

static pleat_slept fall_asleep(const char *tag, pleat_sleep how)
{
    pleat_slept out;
    const char *folder = how == PLEAT_SLEEP_FILE ? "/tmp" : NULL;
    pleat_status st = pleat_tag_sleep(instance, 0, tag, how, folder, &out);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    api_check(instance);
    return out;
}

static pleat_slept wake_up(const char *tag)
{
    pleat_slept out;
    pleat_status st = pleat_tag_wake(instance, 0, tag, 0, &out);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    api_check(instance);
    return out;
}

static uint64_t resident(void)
{
    return api_stats(instance, 0).resident_bytes;
}

static void no_hazard(void)
{
    pleat_sim_hazard hazard;
    sim.finish();
    if (sim.hazards(&hazard, 1) != 0) {
        ck_abort_msg("hazard: %s", hazard.text);
    }
}

/* ---- scopes ---- */

START_TEST(scopes_nest_and_are_a_thread_s_own)
{
    ck_assert_ptr_null(pleat_tag_current());
    ck_assert_int_eq(pleat_tag_push("outer"), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_push("inner"), PLEAT_OK);
    ck_assert_str_eq(pleat_tag_current(), "inner");
    ck_assert_int_eq(pleat_tag_push(NULL), PLEAT_OK);
    ck_assert_ptr_null(pleat_tag_current());
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_str_eq(pleat_tag_current(), "inner");
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_str_eq(pleat_tag_current(), "outer");
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "no scope");
}
END_TEST

START_TEST(bad_tags_are_refused)
{
    char longest[PLEAT_TAG_BYTES];
    char longer[PLEAT_TAG_BYTES + 1];
    memset(longest, 'x', sizeof longest);
    memset(longer, 'x', sizeof longer);
    longest[sizeof longest - 1] = '\0';
    longer[sizeof longer - 1] = '\0';
    ck_assert_int_eq(pleat_tag_push(""), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_push(longer), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_push(longest), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    pleat_tag_info out;
    ck_assert_int_eq(pleat_tag_query(instance, 0, "nobody's", &out), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "nobody's", longest);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "nobody's", PLEAT_SLEEP_HOST, NULL, NULL),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "nobody's", 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, longest, PLEAT_SLEEP_FILE, NULL, NULL),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, longest, (pleat_sleep)7, NULL, NULL),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_sleep(instance, 9, longest, PLEAT_SLEEP_HOST, NULL, NULL),
                     PLEAT_EDEVICE);
}
END_TEST

START_TEST(there_is_an_end_to_tags_and_scopes)
{
    char tag[16];
    for (int i = 0; i < PLEAT_MOST_SCOPES; i++) {
        ck_assert_int_eq(pleat_tag_push("deep"), PLEAT_OK);
    }
    ck_assert_int_eq(pleat_tag_push("deep"), PLEAT_EINVAL);
    for (int i = 0; i < PLEAT_MOST_SCOPES; i++) {
        ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    }
    pleat_status st = PLEAT_OK;
    for (int i = 0; i <= PLEAT_MOST_TAGS && st == PLEAT_OK; i++) {
        snprintf(tag, sizeof tag, "tag%d", i);
        st = pleat_tag_push(tag);
        ck_assert_int_eq(pleat_tag_pop(), st == PLEAT_OK ? PLEAT_OK : PLEAT_EINVAL);
    }
    ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
    ck_assert_int_eq(pleat_tag_push("deep"), PLEAT_OK); /* a known tag works */
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_ptr_null(pleat_tag_name(PLEAT_MOST_TAGS));
}
END_TEST

/* ---- blocks ---- */

START_TEST(blocks_carry_the_tag_of_their_request)
{
    pleat_block_info info;
    pleat_devptr plain = api_alloc(instance, 0, 4 * KIB, NULL);
    pleat_devptr ptr = tagged("weights", 4 * KIB, NULL);
    ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
    ck_assert_str_eq(info.tag, "weights");
    ck_assert_int_eq(info.is_asleep, 0);
    ck_assert_int_eq(pleat_block_query(instance, 0, plain, &info), PLEAT_OK);
    ck_assert_ptr_null(info.tag);
    ck_assert_uint_ne(plain / GRANULE, ptr / GRANULE); /* no common granule */
    pleat_tag_info f = figures("weights");
    ck_assert_uint_eq(f.blocks.current, 1);
    ck_assert_uint_eq(f.allocated_bytes.current, 4 * KIB);
    ck_assert_uint_ge(f.resident_bytes, GRANULE);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, plain, NULL);
    f = figures("weights");
    ck_assert_uint_eq(f.blocks.current, 0);
    ck_assert_uint_eq(f.blocks.freed, 1);
}
END_TEST

/* A thread keeps small blocks that it freed. No request of a different tag may get them. */
START_TEST(freed_blocks_do_not_change_their_tag)
{
    pleat_block_info info;
    for (int i = 0; i < 5000; i++) {
        const char *tag = i % 3 == 0 ? NULL : i % 3 == 1 ? "a" : "b";
        pleat_devptr ptr = tag ? tagged(tag, KIB, NULL) : api_alloc(instance, 0, KIB, NULL);
        ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
        ck_assert(tag ? info.tag && strcmp(info.tag, tag) == 0 : info.tag == NULL);
        api_free(instance, 0, ptr, NULL);
    }
    ck_assert_uint_eq(figures("a").blocks.current, 0);
    ck_assert_uint_eq(figures("b").blocks.current, 0);
}
END_TEST

/* The device has 128 granules. */
START_TEST(free_memory_of_a_tag_serves_others)
{
    pleat_devptr a = tagged("a", 100 * MIB, NULL);
    pleat_devptr b = tagged("b", 100 * MIB, NULL);
    api_free(instance, 0, a, NULL);
    pleat_devptr plain = api_alloc(instance, 0, 120 * MIB, NULL);
    api_free(instance, 0, b, NULL);
    a = tagged("a", 120 * MIB, NULL);
    api_free(instance, 0, a, NULL);
    api_free(instance, 0, plain, NULL);
    uint64_t released;
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(resident(), 0);
    ck_assert_uint_eq(figures("a").resident_bytes, 0);
}
END_TEST

/* Pending memory of another stream is ordered or waited for, as without tags. */
START_TEST(pending_memory_of_a_tag_serves_others)
{
    void *one = api_stream(instance, 0);
    void *two = api_stream(instance, 0);
    for (int i = 0; i < 20; i++) {
        pleat_devptr a = tagged("a", 150 * MIB, one);
        ck_assert_int_eq(sim.fill(one, a, 150 * MIB, 1), 0);
        api_free(instance, 0, a, one);
        pleat_devptr b = tagged("b", 150 * MIB, two);
        ck_assert_int_eq(sim.fill(two, b, 150 * MIB, 2), 0);
        api_free(instance, 0, b, two);
        pleat_devptr plain = api_alloc(instance, 0, 150 * MIB, NULL);
        api_free(instance, 0, plain, NULL);
    }
    no_hazard();
    api_stream_end(instance, 0, one);
    api_stream_end(instance, 0, two);
}
END_TEST

START_TEST(a_limit_refuses_and_names_the_tag)
{
    pleat_devptr ptr;
    ck_assert_int_eq(pleat_tag_set_limit(instance, 0, "kv", 10 * MIB), PLEAT_OK);
    pleat_devptr first = tagged("kv", 8 * MIB, NULL);
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "kv", 4 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "\"kv\" may have 10.00 MiB", "8.00 MiB");
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_LIMIT);
    pleat_devptr other = tagged("weights", 40 * MIB, NULL);
    api_free(instance, 0, first, NULL);
    first = tagged("kv", 10 * MIB, NULL);
    ck_assert_int_eq(pleat_tag_set_limit(instance, 0, "kv", 0), PLEAT_OK);
    pleat_devptr second = tagged("kv", 10 * MIB, NULL);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 250 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "of the tags \"weights\" has 40.00 MiB, \"kv\" has 20.00 MiB");
    api_free(instance, 0, first, NULL);
    api_free(instance, 0, second, NULL);
    api_free(instance, 0, other, NULL);
}
END_TEST

/* ---- sleep ---- */

static const pleat_sleep hows[] = { PLEAT_SLEEP_DISCARD, PLEAT_SLEEP_HOST, PLEAT_SLEEP_FILE };
enum { N_HOWS = 3 };

START_TEST(memory_goes_and_comes_at_the_same_addresses)
{
    pleat_sleep how = hows[_i];
    pleat_devptr small[40];
    pleat_devptr large = tagged("weights", 37 * MIB + 512, NULL);
    pleat_devptr plain = api_alloc(instance, 0, 3 * MIB, NULL);
    for (unsigned i = 0; i < 40; i++) {
        small[i] = tagged("weights", (i + 1) * 3 * KIB, NULL);
        ck_assert_int_eq(sim.fill(NULL, small[i], (i + 1) * 3 * KIB, i), 0);
    }
    ck_assert_int_eq(sim.fill(NULL, large, 37 * MIB + 512, 99), 0);
    ck_assert_int_eq(sim.fill(NULL, plain, 3 * MIB, 98), 0);
    uint64_t before = figures("weights").resident_bytes;
    uint64_t all = resident();
    pleat_slept slept = fall_asleep("weights", how);
    ck_assert_uint_eq(slept.bytes, before);
    ck_assert_uint_eq(slept.shared_bytes, 0);
    ck_assert_uint_eq(resident(), all - before);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, all - before);
    pleat_tag_info f = figures("weights");
    ck_assert_uint_eq(f.resident_bytes, 0);
    ck_assert_uint_eq(f.asleep_bytes, before);
    ck_assert_int_eq(f.is_asleep, 1);
    ck_assert_uint_eq(f.kept_bytes > 0, how != PLEAT_SLEEP_DISCARD);
    ck_assert_uint_eq(f.blocks.current, 41);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, large + 9, &info), PLEAT_OK);
    ck_assert_uint_eq(info.base, large);
    ck_assert_int_eq(info.is_asleep, 1);
    pleat_slept woken = wake_up("weights");
    ck_assert_uint_eq(woken.left_bytes, 0);
    ck_assert_uint_le(woken.bytes, before);
    ck_assert_uint_eq(woken.kept_bytes > 0, how != PLEAT_SLEEP_DISCARD);
    ck_assert_int_eq(figures("weights").is_asleep, 0);
    for (unsigned i = 0; i < 40; i++) {
        size_t bytes = (i + 1) * 3 * KIB;
        ck_assert_int_eq(how == PLEAT_SLEEP_DISCARD ? sim.fill(NULL, small[i], bytes, i)
                                                    : sim.verify(NULL, small[i], bytes, i),
                         0);
        api_free(instance, 0, small[i], NULL);
    }
    if (how != PLEAT_SLEEP_DISCARD) {
        ck_assert_int_eq(sim.verify(NULL, large, 37 * MIB + 512, 99), 0);
    }
    ck_assert_int_eq(sim.verify(NULL, plain, 3 * MIB, 98), 0);
    no_hazard();
    api_free(instance, 0, large, NULL);
    api_free(instance, 0, plain, NULL);
}
END_TEST

START_TEST(sleeping_twice_and_waking_the_awake)
{
    pleat_devptr ptr = tagged("weights", 5 * MIB, NULL);
    ck_assert_uint_eq(wake_up("weights").bytes, 0);
    fall_asleep("weights", PLEAT_SLEEP_HOST);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_HOST, NULL, NULL),
                     PLEAT_EASLEEP);
    api_expect(PLEAT_EASLEEP, "weights", "wake it first");
    ck_assert_uint_eq(wake_up("weights").bytes, 6 * MIB);
    ck_assert_uint_eq(wake_up("weights").bytes, 0);
    ck_assert_uint_eq(figures("weights").n_sleeps, 1);
    api_free(instance, 0, ptr, NULL);
}
END_TEST

/* Chunks are sized by the future memory, also if nothing else is held. */
START_TEST(a_wake_has_large_chunks)
{
    close_instance();
    instance = api_make(API_PLEAT, "capacity:256M,backing:memory,depth:4", "chunk_share:1");
    pleat_devptr ptr = tagged("weights", 64 * MIB, NULL);
    fall_asleep("weights", PLEAT_SLEEP_DISCARD);
    ck_assert_uint_eq(resident(), 0);
    uint64_t n = sim.n_calls("cuMemCreate");
    ck_assert_uint_eq(wake_up("weights").bytes, 64 * MIB);
    ck_assert_uint_gt(sim.n_calls("cuMemCreate"), n);
    ck_assert_uint_le(sim.n_calls("cuMemCreate") - n, 16);
    api_free(instance, 0, ptr, NULL);
}
END_TEST

START_TEST(an_empty_tag_sleeps_as_well)
{
    pleat_devptr ptr;
    ck_assert_int_eq(pleat_tag_push("empty"), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_uint_eq(wake_up("empty").bytes, 0);
    ck_assert_uint_eq(fall_asleep("empty", PLEAT_SLEEP_HOST).bytes, 0);
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "empty", 512, NULL, &ptr), PLEAT_EASLEEP);
    api_expect(PLEAT_EASLEEP, "tag \"empty\" is asleep", "wake it first");
    wake_up("empty");
    api_free(instance, 0, tagged("empty", 512, NULL), NULL);
}
END_TEST

START_TEST(what_is_freed_asleep_is_not_brought_back)
{
    pleat_devptr ptr[8];
    for (unsigned i = 0; i < 8; i++) {
        ptr[i] = tagged("kv", 4 * MIB, NULL);
        ck_assert_int_eq(sim.fill(NULL, ptr[i], 4 * MIB, i), 0);
    }
    fall_asleep("kv", PLEAT_SLEEP_HOST);
    for (unsigned i = 0; i < 8; i += 2) {
        api_free(instance, 0, ptr[i], NULL);
        api_check(instance);
    }
    ck_assert_int_eq(pleat_block_free(instance, 0, ptr[0], NULL), PLEAT_EDOUBLEFREE);
    ck_assert_uint_eq(figures("kv").blocks.current, 4);
    pleat_slept woken = wake_up("kv");
    ck_assert_uint_eq(woken.bytes, 16 * MIB);
    ck_assert_uint_eq(resident(), 16 * MIB);
    for (unsigned i = 1; i < 8; i += 2) {
        ck_assert_int_eq(sim.verify(NULL, ptr[i], 4 * MIB, i), 0);
        api_free(instance, 0, ptr[i], NULL);
    }
    no_hazard();
}
END_TEST

START_TEST(all_may_be_freed_asleep)
{
    pleat_devptr ptr = tagged("kv", 9 * MIB, NULL);
    fall_asleep("kv", PLEAT_SLEEP_HOST);
    api_free(instance, 0, ptr, NULL);
    ck_assert_uint_eq(wake_up("kv").bytes, 0);
    ck_assert_uint_eq(resident(), 0);
    api_free(instance, 0, tagged("kv", 9 * MIB, NULL), NULL);
}
END_TEST

START_TEST(an_instance_goes_while_a_tag_sleeps)
{
    (void)tagged("kv", 9 * MIB, NULL);
    fall_asleep("kv", hows[_i]);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_EBUSY);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    api_sim_check_empty();
    instance = api_make(API_PLEAT, "", "");
}
END_TEST

START_TEST(waking_uses_the_free_memory_of_other_tags)
{
    pleat_devptr kv = tagged("kv", 120 * MIB, NULL);
    pleat_devptr weights = tagged("weights", 100 * MIB, NULL);
    ck_assert_int_eq(sim.fill(NULL, weights, 100 * MIB, 7), 0);
    fall_asleep("weights", PLEAT_SLEEP_HOST);
    pleat_devptr other = tagged("activations", 110 * MIB, NULL);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", 0, NULL), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "sleeps on", "\"kv\" has 120.00 MiB",
               "\"weights\" has 100.00 MiB (asleep)", "truly full");
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_FULL);
    ck_assert_uint_eq(pleat_last_error()->bytes, 100 * MIB);
    api_check(instance);
    ck_assert_int_eq(figures("weights").is_asleep, 1);
    api_free(instance, 0, other, NULL); /* the memory stays resident */
    ck_assert_uint_eq(wake_up("weights").bytes, 100 * MIB);
    ck_assert_int_eq(sim.verify(NULL, weights, 100 * MIB, 7), 0);
    no_hazard();
    api_free(instance, 0, kv, NULL);
    api_free(instance, 0, weights, NULL);
}
END_TEST

/* Most bytes of a wake, which all mean the whole. */
static const uint64_t all_of_it[] = { 0, 100 * MIB, UINT64_MAX / 2, UINT64_MAX - 5, UINT64_MAX };
enum { N_ALL = sizeof all_of_it / sizeof all_of_it[0] };

START_TEST(any_large_number_wakes_all)
{
    pleat_devptr weights = tagged("weights", 100 * MIB, NULL);
    for (unsigned i = 0; i < N_ALL; i++) {
        pleat_slept told;
        fall_asleep("weights", PLEAT_SLEEP_HOST);
        ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", all_of_it[i], &told), PLEAT_OK);
        ck_assert_uint_eq(told.bytes, 100 * MIB);
        ck_assert_uint_eq(told.left_bytes, 0);
        ck_assert_int_eq(figures("weights").is_asleep, 0);
    }
    api_free(instance, 0, weights, NULL);
}
END_TEST

START_TEST(a_limit_of_the_device_holds_for_waking)
{
    pleat_devptr weights = tagged("weights", 100 * MIB, NULL);
    fall_asleep("weights", PLEAT_SLEEP_HOST);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 90 * MIB), PLEAT_OK);
    for (unsigned i = 0; i < N_ALL; i++) {
        pleat_status st = pleat_tag_wake(instance, 0, "weights", all_of_it[i], NULL);
        ck_assert_int_eq(st, PLEAT_ENOMEM_DEVICE);
        ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_LIMIT);
        ck_assert_uint_eq(pleat_last_error()->bytes, 100 * MIB);
    }
    pleat_slept part;
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", 60 * MIB - 1, &part), PLEAT_OK);
    ck_assert_uint_eq(part.bytes, 60 * MIB);
    ck_assert_uint_eq(part.left_bytes, 40 * MIB);
    api_check(instance);
    ck_assert_int_eq(figures("weights").is_asleep, 1);
    ck_assert_uint_eq(figures("weights").asleep_bytes, 40 * MIB);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 0), PLEAT_OK);
    ck_assert_uint_eq(wake_up("weights").bytes, 40 * MIB);
    api_free(instance, 0, weights, NULL);
}
END_TEST

static pleat_devptr spare;

static bool give_spare(pleat asked, int device, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    if (spare == 0) {
        return false;
    }
    api_free(asked, device, spare, NULL);
    spare = 0;
    return true;
}

START_TEST(waking_asks_the_pressure_callback)
{
    pleat_devptr weights = tagged("weights", 100 * MIB, NULL);
    fall_asleep("weights", PLEAT_SLEEP_HOST);
    spare = api_alloc(instance, 0, 200 * MIB, NULL);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, give_spare, NULL), PLEAT_OK);
    wake_up("weights");
    ck_assert_uint_eq(spare, 0);
    api_free(instance, 0, weights, NULL);
}
END_TEST

START_TEST(only_work_before_the_call_is_waited_for)
{
    void *stream = api_stream(instance, 0);
    pleat_devptr ptr = tagged("weights", 20 * MIB, stream);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(sim.fill(stream, ptr, 20 * MIB, (uint64_t)i), 0);
        fall_asleep("weights", PLEAT_SLEEP_HOST);
        wake_up("weights");
        ck_assert_int_eq(sim.verify(stream, ptr, 20 * MIB, (uint64_t)i), 0);
    }
    no_hazard();
    api_free(instance, 0, ptr, stream);
    api_stream_end(instance, 0, stream);
}
END_TEST

START_TEST(a_folder_that_is_none_is_refused)
{
    pleat_devptr ptr = tagged("weights", 4 * MIB, NULL);
    ck_assert_int_eq(
        pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_FILE, "/nowhere/at/all", NULL),
        PLEAT_EWRITE);
    api_expect(PLEAT_EWRITE, "weights", "No such file");
    ck_assert_int_eq(figures("weights").is_asleep, 0);
    api_check(instance);
    api_free(instance, 0, ptr, NULL);
}
END_TEST

START_TEST(many_blocks_sleep)
{
    enum { N = PLEAT_DEBUG_LEVEL >= 2 ? 2000 : 100000 };
    pleat_devptr *ptr = calloc(N, sizeof *ptr);
    ck_assert_ptr_nonnull(ptr);
    for (size_t i = 0; i < N; i++) {
        ptr[i] = tagged("weights", 512 + i % 3 * 512, NULL);
    }
    uint64_t before = figures("weights").resident_bytes;
    ck_assert_uint_eq(fall_asleep("weights", PLEAT_SLEEP_HOST).bytes, before);
    for (size_t i = 0; i < N; i += 2) {
        api_free(instance, 0, ptr[i], NULL);
    }
    wake_up("weights");
    for (size_t i = 1; i < N; i += 2) {
        api_free(instance, 0, ptr[i], NULL);
    }
    free(ptr);
}
END_TEST

START_TEST(classic_caches_know_no_tags)
{
    pleat_devptr ptr;
    close_instance();
    pleat made = api_make(API_TORCH, "capacity:64M", "");
    ck_assert_int_eq(pleat_tag_alloc(made, 0, "weights", 512, NULL, &ptr), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_sleep(made, 0, "weights", PLEAT_SLEEP_HOST, NULL, NULL),
                     PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "torch-native", "allocator:pleat");
    ck_assert_int_eq(pleat_tag_set_limit(made, 0, "weights", 512), PLEAT_ENOTSUP);
    ck_assert_int_eq(pleat_tag_wake(made, 0, "weights", 0, NULL), PLEAT_OK);
    api_free(made, 0, ptr, NULL);
    api_unmake(made);
    instance = api_make(API_PLEAT, "", "");
}
END_TEST

/* A graph contains addresses. After the wake the addresses must mean the same blocks. */
START_TEST(a_captured_graph_is_launched_again)
{
    enum { RELAXED = 2 };
    pl_driver *drv = pleat_internal_driver(instance);
    void *stream = api_stream(instance, 0);
    pleat_devptr ptr = tagged("weights", 5 * MIB, stream);
    cu_graph graph;
    cu_graph_exec exec;
    ck_assert_int_eq(pl_device_enter(pleat_internal_device(instance, 0)), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, stream, RELAXED), CU_SUCCESS);
    ck_assert_int_eq(sim.fill(stream, ptr, 5 * MIB, 11), 0);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, stream, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_instantiate(drv, &exec, graph, 0), CU_SUCCESS);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pl_cu_graph_launch(drv, exec, stream), CU_SUCCESS);
        fall_asleep("weights", PLEAT_SLEEP_HOST);
        wake_up("weights");
        ck_assert_int_eq(sim.verify(stream, ptr, 5 * MIB, 11), 0);
    }
    no_hazard();
    ck_assert_int_eq(pl_cu_graph_exec_destroy(drv, exec), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), CU_SUCCESS);
    pl_device_leave(pleat_internal_device(instance, 0));
    api_free(instance, 0, ptr, stream);
    api_stream_end(instance, 0, stream);
}
END_TEST

/* ---- snapshots and pools --------------------------------------------------------------------- */

static char written[1 << 18];
static size_t n_written;

static bool append(void *context, const void *bytes, size_t n)
{
    (void)context;
    if (n >= sizeof written - n_written) {
        return false;
    }
    memcpy(written + n_written, bytes, n);
    n_written += n;
    written[n_written] = '\0';
    return true;
}

static unsigned n_in_snapshot(pleat_snapshot_format format, const char *what)
{
    unsigned n = 0;
    n_written = 0;
    ck_assert_int_eq(pleat_snapshot_write(instance, format, append, NULL), PLEAT_OK);
    for (size_t i = 0; i + strlen(what) <= n_written; i++) {
        n += memcmp(written + i, what, strlen(what)) == 0;
    }
    return n;
}

START_TEST(a_snapshot_names_tags)
{
    pleat_devptr plain = api_alloc(instance, 0, 4 * MIB, NULL);
    ck_assert_uint_eq(n_in_snapshot(PLEAT_SNAPSHOT_JSON, "pleat_tag"), 0);
    pleat_devptr weights = tagged("weights", 4 * MIB, NULL);
    pleat_devptr kv = tagged("kv", 4 * MIB, NULL);
    pleat_devptr more = tagged("kv", 4 * MIB, NULL);
    ck_assert_uint_eq(n_in_snapshot(PLEAT_SNAPSHOT_JSON, "\"pleat_tag\":\"weights\""), 1);
    ck_assert_uint_eq(n_in_snapshot(PLEAT_SNAPSHOT_JSON, "\"pleat_tag\":\"kv\""), 1);
    ck_assert_uint_eq(n_in_snapshot(PLEAT_SNAPSHOT_JSON, "\"pleat_asleep\":true"), 0);
    ck_assert_uint_eq(n_in_snapshot(PLEAT_SNAPSHOT_PICKLE, "pleat_tag"), 1); /* then recalled */
    fall_asleep("kv", PLEAT_SLEEP_HOST);
    ck_assert_uint_eq(
        n_in_snapshot(PLEAT_SNAPSHOT_JSON, "\"pleat_tag\":\"kv\",\"pleat_asleep\":true"), 1);
    ck_assert_uint_eq(n_in_snapshot(PLEAT_SNAPSHOT_JSON, "\"pleat_asleep\":false"), 1);
    wake_up("kv");
    ck_assert_uint_eq(n_in_snapshot(PLEAT_SNAPSHOT_JSON, "\"pleat_asleep\":true"), 0);
    api_free(instance, 0, plain, NULL);
    api_free(instance, 0, weights, NULL);
    api_free(instance, 0, kv, NULL);
    api_free(instance, 0, more, NULL);
}
END_TEST

START_TEST(a_shortage_names_tags)
{
    pleat_devptr weights = tagged("weights", 100 * MIB, NULL);
    pleat_devptr kv = tagged("kv", 60 * MIB, NULL);
    pleat_devptr none;
    fall_asleep("kv", PLEAT_SLEEP_DISCARD);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 200 * MIB, NULL, &none), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "\"weights\" has 100.00 MiB", "\"kv\" has 60.00 MiB (asleep)");
    api_free(instance, 0, weights, NULL);
    api_free(instance, 0, kv, NULL);
}
END_TEST

/* A pool takes precedence over a tag, since a graph's memory must exist during any sleep. */
START_TEST(a_private_pool_takes_no_tag)
{
    const pleat_pool_id pool = { 7, 7 };
    pleat_devptr before = tagged("weights", 4 * MIB, NULL);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, pool, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr ptr = tagged("weights", 4 * MIB, NULL);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
    ck_assert_ptr_null(info.tag);
    ck_assert_uint_eq(figures("weights").blocks.current, 1);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_HOST, NULL, NULL),
                     PLEAT_ECAPTURE); /* a capture may be under way in it */
    ck_assert_int_eq(pleat_pool_end(instance, 0, pool), PLEAT_OK);
    ck_assert_int_eq(sim.fill(NULL, ptr, 4 * MIB, 5), 0);
    ck_assert_uint_eq(fall_asleep("weights", PLEAT_SLEEP_HOST).bytes, 4 * MIB);
    ck_assert_int_eq(sim.verify(NULL, ptr, 4 * MIB, 5), 0);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, pool, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr later = tagged("weights", 4 * MIB, NULL); /* the tag sleeps, the pool does not */
    ck_assert_int_eq(pleat_pool_end(instance, 0, pool), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "weights", 512, NULL, &(pleat_devptr){ 0 }),
                     PLEAT_EASLEEP);
    wake_up("weights");
    no_hazard();
    api_free(instance, 0, before, NULL);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, later, NULL);
    ck_assert_int_eq(pleat_pool_release(instance, 0, pool), PLEAT_OK);
}
END_TEST

/* A block allocated in a capture, outside of pools, belongs to the graph, also with a tag. */
START_TEST(a_capture_keeps_tagged_blocks)
{
    enum { RELAXED = 2 };
    pl_driver *drv = pleat_internal_driver(instance);
    void *stream = api_stream(instance, 0);
    cu_graph graph;
    ck_assert_int_eq(pl_device_enter(pleat_internal_device(instance, 0)), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, stream, RELAXED), CU_SUCCESS);
    pleat_devptr ptr = tagged("weights", 5 * MIB, stream);
    ck_assert_int_eq(pleat_tag_sleep(instance, 0, "weights", PLEAT_SLEEP_HOST, NULL, NULL),
                     PLEAT_ECAPTURE);
    ck_assert_int_eq(figures("weights").is_asleep, 0);
    api_check(instance);
    api_free(instance, 0, ptr, stream);
    pleat_devptr other = tagged("weights", 5 * MIB, stream);
    ck_assert_uint_ne(other, ptr);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, stream, &graph), CU_SUCCESS);
    api_free(instance, 0, tagged("others", 512, stream),
             stream); /* the capture is seen to be over */
    fall_asleep("weights", PLEAT_SLEEP_HOST);
    ck_assert_uint_eq(wake_up("weights").bytes, figures("weights").resident_bytes);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), CU_SUCCESS);
    pl_device_leave(pleat_internal_device(instance, 0));
    api_free(instance, 0, other, stream);
    api_stream_end(instance, 0, stream);
}
END_TEST

/* A compaction moves no sleeping memory, and a sleep finds the blocks that a compaction moved. */
START_TEST(a_compaction_and_a_sleep_agree)
{
    pleat_compaction done;
    pleat_devptr ptr[16];
    for (unsigned i = 0; i < 16; i++) {
        ptr[i] = tagged("weights", 3 * MIB, NULL);
        ck_assert_int_eq(sim.fill(NULL, ptr[i], 3 * MIB, i), 0);
    }
    for (unsigned i = 0; i < 16; i += 2) {
        api_free(instance, 0, ptr[i], NULL);
    }
    ck_assert_int_eq(pleat_device_compact(instance, 0, &done), PLEAT_OK);
    fall_asleep("weights", PLEAT_SLEEP_HOST);
    ck_assert_int_eq(pleat_device_compact(instance, 0, &done), PLEAT_OK);
    wake_up("weights");
    ck_assert_int_eq(pleat_device_compact(instance, 0, &done), PLEAT_OK);
    for (unsigned i = 1; i < 16; i += 2) {
        ck_assert_int_eq(sim.verify(NULL, ptr[i], 3 * MIB, i), 0);
        api_free(instance, 0, ptr[i], NULL);
    }
    no_hazard();
}
END_TEST

SUITE(api_tag)
{
    TCase *scopes = suite_case(suite, "scopes", open_instance, close_instance);
    tcase_add_test(scopes, scopes_nest_and_are_a_thread_s_own);
    tcase_add_test(scopes, bad_tags_are_refused);
    tcase_add_test(scopes, there_is_an_end_to_tags_and_scopes);
    TCase *blocks = suite_case(suite, "blocks", open_instance, close_instance);
    tcase_add_test(blocks, blocks_carry_the_tag_of_their_request);
    tcase_add_test(blocks, freed_blocks_do_not_change_their_tag);
    tcase_add_test(blocks, free_memory_of_a_tag_serves_others);
    tcase_add_test(blocks, pending_memory_of_a_tag_serves_others);
    tcase_add_test(blocks, a_limit_refuses_and_names_the_tag);
    TCase *sleep_case = suite_case(suite, "sleep", open_instance, close_instance);
    tcase_add_loop_test(sleep_case, memory_goes_and_comes_at_the_same_addresses, 0, N_HOWS);
    tcase_add_test(sleep_case, sleeping_twice_and_waking_the_awake);
    tcase_add_test(sleep_case, a_wake_has_large_chunks);
    tcase_add_test(sleep_case, an_empty_tag_sleeps_as_well);
    tcase_add_test(sleep_case, what_is_freed_asleep_is_not_brought_back);
    tcase_add_test(sleep_case, all_may_be_freed_asleep);
    tcase_add_loop_test(sleep_case, an_instance_goes_while_a_tag_sleeps, 0, N_HOWS);
    tcase_add_test(sleep_case, waking_uses_the_free_memory_of_other_tags);
    tcase_add_test(sleep_case, any_large_number_wakes_all);
    tcase_add_test(sleep_case, a_limit_of_the_device_holds_for_waking);
    tcase_add_test(sleep_case, waking_asks_the_pressure_callback);
    tcase_add_test(sleep_case, only_work_before_the_call_is_waited_for);
    tcase_add_test(sleep_case, a_folder_that_is_none_is_refused);
    tcase_add_test(sleep_case, many_blocks_sleep);
    tcase_add_test(sleep_case, classic_caches_know_no_tags);
    tcase_add_test(sleep_case, a_compaction_and_a_sleep_agree);
    tcase_add_test(sleep_case, a_captured_graph_is_launched_again);
    tcase_add_test(sleep_case, a_capture_keeps_tagged_blocks);
    TCase *seen = suite_case(suite, "seen", open_instance, close_instance);
    tcase_add_test(seen, a_snapshot_names_tags);
    tcase_add_test(seen, a_shortage_names_tags);
    tcase_add_test(seen, a_private_pool_takes_no_tag);
}

/* tag_buffer_test.c - buffers with a tag: counted, limited, asleep and awake with the tag. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

static const uint64_t MIB = 1 << 20;
static const uint64_t GRANULE = 2 << 20;
enum { N_PAGES = 8, N_HOWS = 3, N_ROUNDS = 40, N_THREADS = 3 };

static const struct how {
    pleat_sleep how;
    const char *folder;
} hows[N_HOWS] = { { PLEAT_SLEEP_DISCARD, NULL },
                   { PLEAT_SLEEP_HOST, NULL },
                   { PLEAT_SLEEP_FILE, "/tmp" } };

static pleat instance;

static void open_instance(void)
{
    api_sim_load();
    instance = api_make(API_PLEAT, "capacity:128M,backing:memory,depth:16", "reserve_mb:0");
}

static void close_instance(void)
{
    sim.finish();
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_check(instance);
    api_unmake(instance);
}

static pleat_devptr make_in(const char *tag, uint64_t most_bytes, uint64_t page_bytes)
{
    pleat_devptr buffer = 0;
    ck_assert_int_eq(pleat_tag_push(tag), PLEAT_OK);
    pleat_status st = pleat_buffer_create(instance, 0, most_bytes, page_bytes, &buffer);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return buffer;
}

static pleat_status resize(pleat_devptr buffer, uint64_t bytes)
{
    return pleat_buffer_resize(instance, 0, buffer, bytes, NULL);
}

static pleat_status commit(pleat_devptr buffer, uint64_t page)
{
    return pleat_buffer_commit(instance, 0, buffer, page * GRANULE, GRANULE, NULL);
}

static pleat_status decommit(pleat_devptr buffer, uint64_t page)
{
    return pleat_buffer_decommit(instance, 0, buffer, page * GRANULE, GRANULE, NULL);
}

static void destroy(pleat_devptr buffer)
{
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
}

static pleat_buffer_info info_of(pleat_devptr buffer)
{
    pleat_buffer_info info;
    ck_assert_int_eq(pleat_buffer_query(instance, 0, buffer, &info), PLEAT_OK);
    return info;
}

static pleat_tag_info figures(const char *tag)
{
    pleat_tag_info f;
    ck_assert_int_eq(pleat_tag_query(instance, 0, tag, &f), PLEAT_OK);
    return f;
}

static pleat_slept fall_asleep(const char *tag, const struct how *how)
{
    pleat_slept slept;
    pleat_status st = pleat_tag_sleep(instance, 0, tag, how->how, how->folder, &slept);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return slept;
}

static pleat_slept wake_up(const char *tag)
{
    pleat_slept slept;
    pleat_status st = pleat_tag_wake(instance, 0, tag, 0, &slept);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return slept;
}

static void fill(pleat_devptr buffer, uint64_t page)
{
    ck_assert_int_eq(sim.fill(NULL, buffer + page * GRANULE, GRANULE, 7 + page), 0);
}

static void verify(pleat_devptr buffer, uint64_t page)
{
    ck_assert_int_eq(sim.verify(NULL, buffer + page * GRANULE, GRANULE, 7 + page), 0);
}

/* ---- counted and limited --------------------------------------------------------------------- */

START_TEST(its_pages_are_the_tag_s)
{
    pleat_devptr buffer = make_in("kv", 64 * MIB, 1);
    pleat_devptr plain = make_in(NULL, 64 * MIB, 1);
    ck_assert_str_eq(info_of(buffer).tag, "kv");
    ck_assert_ptr_null(info_of(plain).tag);
    ck_assert_uint_eq(figures("kv").blocks.current, 0);
    ck_assert_int_eq(resize(buffer, 6 * GRANULE), PLEAT_OK); /* outside of the scope */
    ck_assert_int_eq(resize(plain, 3 * GRANULE), PLEAT_OK);
    ck_assert_uint_eq(figures("kv").blocks.current, 1);
    ck_assert_int_eq(decommit(buffer, 2), PLEAT_OK);
    pleat_tag_info f = figures("kv");
    ck_assert_uint_eq(f.blocks.current, 2);
    ck_assert_uint_eq(f.allocated_bytes.current, 5 * GRANULE);
    ck_assert_uint_eq(f.allocated_bytes.peak, 6 * GRANULE);
    ck_assert_uint_eq(f.requested_bytes.current, 5 * GRANULE);
    ck_assert_uint_eq(f.resident_bytes, 6 * GRANULE);
    ck_assert_int_eq(commit(buffer, 2), PLEAT_OK);
    ck_assert_uint_eq(figures("kv").blocks.current, 1);
    destroy(buffer);
    ck_assert_uint_eq(figures("kv").blocks.current, 0);
    ck_assert_uint_eq(figures("kv").allocated_bytes.current, 0);
    destroy(plain);
}
END_TEST

START_TEST(the_tag_s_limit_holds_for_buffers_and_blocks_together)
{
    pleat_devptr block;
    pleat_devptr buffer = make_in("kv", 64 * MIB, 0);
    ck_assert_int_eq(pleat_tag_set_limit(instance, 0, "kv", 8 * MIB), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "kv", 3 * MIB, NULL, &block), PLEAT_OK);
    ck_assert_int_eq(resize(buffer, 4 * MIB), PLEAT_OK);
    ck_assert_int_eq(resize(buffer, 6 * MIB), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "\"kv\" may have 8.00 MiB", "7.00 MiB");
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_LIMIT);
    ck_assert_uint_eq(info_of(buffer).bytes, 4 * MIB);
    pleat_devptr plain = make_in(NULL, 64 * MIB, 0);
    ck_assert_int_eq(resize(plain, 16 * MIB), PLEAT_OK);
    api_free(instance, 0, block, NULL);
    ck_assert_int_eq(resize(buffer, 8 * MIB), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "kv", 512, NULL, &block), PLEAT_ENOMEM_DEVICE);
    destroy(buffer);
    destroy(plain);
}
END_TEST

START_TEST(what_it_gives_up_serves_others)
{
    pleat_devptr buffer = make_in("kv", 96 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 96 * MIB), PLEAT_OK);
    fill(buffer, 0);
    ck_assert_int_eq(resize(buffer, 0), PLEAT_OK);
    pleat_devptr block = api_alloc(instance, 0, 100 * MIB, NULL);
    ck_assert_uint_eq(figures("kv").resident_bytes, 0);
    api_free(instance, 0, block, NULL);
    ck_assert_int_eq(resize(buffer, 96 * MIB), PLEAT_OK);
    destroy(buffer);
}
END_TEST

/* The tag's requests search all memory of the tag except buffers, even if no other memory is left.
 * Otherwise the buffer's pages would find their addresses taken. */
START_TEST(blocks_of_the_tag_are_never_in_its_buffers)
{
    pleat_devptr blocks[7];
    pleat_devptr buffer = make_in("kv", 64 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 32 * MIB), PLEAT_OK);
    pleat_devptr plain = api_alloc(instance, 0, 96 * MIB, NULL);
    ck_assert_int_eq(resize(buffer, 2 * MIB), PLEAT_OK);
    for (unsigned i = 0; i < 7; i++) {
        ck_assert_int_eq(pleat_tag_alloc(instance, 0, "kv", (i + 1) * MIB, NULL, &blocks[i]),
                         PLEAT_OK);
        ck_assert(blocks[i] + (i + 1) * MIB <= buffer || blocks[i] >= buffer + 64 * MIB);
    }
    api_free(instance, 0, plain, NULL);
    ck_assert_int_eq(resize(buffer, 40 * MIB), PLEAT_OK);
    for (unsigned i = 0; i < 7; i++) {
        api_free(instance, 0, blocks[i], NULL);
    }
    destroy(buffer);
}
END_TEST

START_TEST(a_destroyed_one_leaves_its_addresses_to_its_tag)
{
    pleat_devptr kv = make_in("kv", 16 * MIB, 0);
    ck_assert_int_eq(resize(kv, 4 * MIB), PLEAT_OK);
    destroy(kv);
    pleat_devptr plain = make_in(NULL, 16 * MIB, 0);
    pleat_devptr other = make_in("weights", 16 * MIB, 0);
    ck_assert_uint_ne(plain, kv);
    ck_assert_uint_ne(other, kv);
    ck_assert_uint_eq(make_in("kv", 16 * MIB, 0), kv);
    ck_assert_int_eq(resize(kv, 16 * MIB), PLEAT_OK);
    ck_assert_uint_eq(figures("kv").allocated_bytes.current, 16 * MIB);
    destroy(plain);
    destroy(other);
    destroy(kv);
}
END_TEST

START_TEST(its_pages_travel_with_the_tag)
{
    enum { MOST = 4096 };
    static unsigned char name[MOST];
    size_t needed;
    pleat_devptr at;
    close_instance();
    instance = api_make(API_PLEAT, "capacity:128M,backing:memory", "shareable:True");
    pleat_devptr buffer = make_in("kv", 16 * MIB, 1);
    ck_assert_int_eq(resize(buffer, 3 * GRANULE), PLEAT_OK);
    ck_assert_int_eq(decommit(buffer, 1), PLEAT_OK);
    fill(buffer, 0);
    fill(buffer, 2);
    sim.finish();
    pleat_status st = pleat_share_export_tag(instance, 0, "kv", PLEAT_SHARE_SERVE, name, MOST,
                                             &needed);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    ck_assert_uint_eq(pleat_share_n_blocks(name, needed), 2);
    ck_assert_int_eq(pleat_share_open(instance, 0, name, needed, &at), PLEAT_OK);
    for (unsigned i = 0; i < 2; i++) {
        pleat_devptr there;
        uint64_t bytes;
        uint64_t offset;
        ck_assert_int_eq(pleat_share_block(name, needed, i, &there, &bytes, &offset), PLEAT_OK);
        ck_assert_uint_eq(bytes, GRANULE);
        uint64_t page = (there - buffer) / GRANULE;
        ck_assert_uint_eq(page, 2 * i);
        ck_assert_int_eq(sim.verify(NULL, at + offset, GRANULE, 7 + page), 0);
    }
    sim.finish();
    ck_assert_uint_eq(fall_asleep("kv", &hows[1]).shared_bytes, 2 * GRANULE);
    wake_up("kv");
    ck_assert_int_eq(pleat_share_close(instance, 0, at, NULL), PLEAT_OK);
    destroy(buffer);
}
END_TEST

/* ---- asleep ---------------------------------------------------------------------------------- */

START_TEST(it_sleeps_and_wakes_where_it_is)
{
    const struct how *how = &hows[_i];
    pleat_devptr buffer = make_in("kv", 64 * MIB, (uint64_t)_i % 2);
    pleat_devptr plain = make_in(NULL, 16 * MIB, 0);
    ck_assert_int_eq(resize(buffer, N_PAGES * GRANULE), PLEAT_OK);
    ck_assert_int_eq(resize(plain, GRANULE), PLEAT_OK);
    for (unsigned i = 0; i < N_PAGES; i++) {
        fill(buffer, i);
    }
    fill(plain, 0);
    ck_assert_int_eq(decommit(buffer, 3), PLEAT_OK);
    uint64_t before = figures("kv").resident_bytes;
    ck_assert_uint_eq(fall_asleep("kv", how).bytes, before);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, GRANULE);
    ck_assert_int_eq((int)info_of(buffer).is_asleep, 1);
    ck_assert_int_eq((int)info_of(plain).is_asleep, 0);
    ck_assert_uint_eq(info_of(buffer).committed_bytes, (N_PAGES - 1) * GRANULE);
    pleat_slept woken = wake_up("kv");
    ck_assert_uint_eq(woken.bytes, (N_PAGES - 1) * GRANULE);
    ck_assert_uint_eq(woken.kept_bytes, how->how == PLEAT_SLEEP_DISCARD ? 0 : woken.bytes);
    ck_assert_int_eq((int)info_of(buffer).is_asleep, 0);
    for (unsigned i = 0; i < N_PAGES; i++) {
        if (i != 3 && how->how != PLEAT_SLEEP_DISCARD) {
            verify(buffer, i);
        }
    }
    verify(plain, 0);
    ck_assert_int_eq(commit(buffer, 3), PLEAT_OK);
    fill(buffer, 3);
    destroy(buffer);
    destroy(plain);
}
END_TEST

START_TEST(asleep_it_may_shrink_but_not_grow)
{
    pleat_devptr buffer = make_in("kv", 64 * MIB, 1);
    pleat_devptr other;
    ck_assert_int_eq(resize(buffer, 6 * GRANULE), PLEAT_OK);
    for (unsigned i = 0; i < 6; i++) {
        fill(buffer, i);
    }
    fall_asleep("kv", &hows[1]);
    ck_assert_int_eq(resize(buffer, 7 * GRANULE), PLEAT_EASLEEP);
    api_expect(PLEAT_EASLEEP, "\"kv\"", "sleeps", "no pages", "pleat_tag_wake");
    ck_assert_int_eq(commit(buffer, 9), PLEAT_EASLEEP);
    ck_assert_uint_eq(info_of(buffer).bytes, 6 * GRANULE);
    ck_assert_int_eq(commit(buffer, 5), PLEAT_OK); /* page 5 has memory, now or after the wake */
    ck_assert_int_eq(pleat_tag_push("kv"), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_create(instance, 0, MIB, 0, &other), PLEAT_EASLEEP);
    api_expect(PLEAT_EASLEEP, "\"kv\"", "no buffers", "pleat_tag_wake");
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_int_eq(resize(buffer, 5 * GRANULE), PLEAT_OK);
    ck_assert_int_eq(decommit(buffer, 1), PLEAT_OK);
    ck_assert_uint_eq(wake_up("kv").bytes, 4 * GRANULE);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, 4 * GRANULE);
    for (unsigned i = 0; i < 5; i++) {
        if (i != 1) {
            verify(buffer, i);
        }
    }
    ck_assert_int_eq(resize(buffer, 7 * GRANULE), PLEAT_OK);
    ck_assert_int_eq(commit(buffer, 1), PLEAT_OK);
    destroy(buffer);
}
END_TEST

START_TEST(it_may_be_destroyed_asleep)
{
    pleat_devptr buffer = make_in("kv", 64 * MIB, 0);
    pleat_devptr other = make_in("kv", 64 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 6 * GRANULE), PLEAT_OK);
    ck_assert_int_eq(resize(other, 1 * GRANULE), PLEAT_OK);
    fill(other, 0);
    fall_asleep("kv", &hows[1]);
    destroy(buffer);
    ck_assert_uint_eq(figures("kv").allocated_bytes.current, GRANULE);
    ck_assert_uint_eq(wake_up("kv").bytes, GRANULE);
    verify(other, 0);
    ck_assert_uint_eq(make_in("kv", 64 * MIB, 0), buffer);
    ck_assert_int_eq(resize(buffer, 4 * GRANULE), PLEAT_OK);
    fill(buffer, 3);
    destroy(buffer);
    destroy(other);
}
END_TEST

START_TEST(an_instance_goes_while_its_buffers_sleep)
{
    pleat_devptr buffer = make_in("kv", 64 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 6 * GRANULE), PLEAT_OK);
    fall_asleep("kv", &hows[2]);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_EBUSY);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    api_sim_check_empty();
    instance = api_make(API_PLEAT, "capacity:128M", "");
}
END_TEST

START_TEST(its_memory_serves_others_while_it_sleeps)
{
    pleat_devptr buffer = make_in("kv", 96 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 96 * MIB), PLEAT_OK);
    fill(buffer, 40);
    fall_asleep("kv", &hows[1]);
    pleat_devptr block = api_alloc(instance, 0, 100 * MIB, NULL);
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "kv", 0, NULL), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq((int)info_of(buffer).is_asleep, 1);
    api_free(instance, 0, block, NULL);
    wake_up("kv");
    verify(buffer, 40);
    destroy(buffer);
}
END_TEST

/* ---- with threads ---------------------------------------------------------------------------- */

static atomic_bool is_over;

/* What goes wrong is the first odd status. */
static void *change_at_will(void *context)
{
    pleat_devptr buffer = *(pleat_devptr *)context;
    pleat_status odd = PLEAT_OK;
    for (unsigned i = 0; odd == PLEAT_OK && !atomic_load(&is_over); i++) {
        pleat_status st = i % 3 == 0   ? resize(buffer, (i % 7) * GRANULE)
                          : i % 3 == 1 ? decommit(buffer, i % 5)
                                       : commit(buffer, i % 6);
        bool is_fine = st == PLEAT_OK || (st == PLEAT_EASLEEP && i % 3 != 1);
        odd = is_fine ? PLEAT_OK : st;
    }
    *(pleat_devptr *)context = (pleat_devptr)odd;
    return NULL;
}

START_TEST(others_change_buffers_while_the_tag_falls_asleep)
{
    pleat_devptr buffers[N_THREADS];
    pleat_devptr told[N_THREADS];
    pthread_t threads[N_THREADS];
    pleat_devptr kept = make_in("kv", 8 * MIB, 0);
    ck_assert_int_eq(resize(kept, GRANULE), PLEAT_OK);
    fill(kept, 0);
    atomic_store(&is_over, false);
    for (unsigned i = 0; i < N_THREADS; i++) {
        buffers[i] = told[i] = make_in("kv", 16 * MIB, i % 2);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, change_at_will, &told[i]), 0);
    }
    for (unsigned i = 0; i < N_ROUNDS; i++) {
        fall_asleep("kv", &hows[1]);
        wake_up("kv");
        verify(kept, 0);
    }
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(told[i], PLEAT_OK);
        destroy(buffers[i]);
    }
    destroy(kept);
    ck_assert_uint_eq(figures("kv").allocated_bytes.current, 0);
}
END_TEST

SUITE(api_tag_buffer)
{
    TCase *count = suite_case(suite, "count", open_instance, close_instance);
    suite_one_thread(count);
    tcase_add_test(count, its_pages_are_the_tag_s);
    tcase_add_test(count, the_tag_s_limit_holds_for_buffers_and_blocks_together);
    tcase_add_test(count, what_it_gives_up_serves_others);
    tcase_add_test(count, blocks_of_the_tag_are_never_in_its_buffers);
    tcase_add_test(count, a_destroyed_one_leaves_its_addresses_to_its_tag);
    tcase_add_test(count, its_pages_travel_with_the_tag);
    TCase *asleep = suite_case(suite, "asleep", open_instance, close_instance);
    suite_one_thread(asleep);
    tcase_add_loop_test(asleep, it_sleeps_and_wakes_where_it_is, 0, N_HOWS);
    tcase_add_test(asleep, asleep_it_may_shrink_but_not_grow);
    tcase_add_test(asleep, it_may_be_destroyed_asleep);
    tcase_add_test(asleep, an_instance_goes_while_its_buffers_sleep);
    tcase_add_test(asleep, its_memory_serves_others_while_it_sleeps);
    TCase *threads = suite_case(suite, "threads", open_instance, close_instance);
    tcase_add_test(threads, others_change_buffers_while_the_tag_falls_asleep);
}

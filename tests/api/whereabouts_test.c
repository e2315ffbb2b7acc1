/* whereabouts_test.c - a call with an address of the wrong kind names the kind, and the right
 * call. */
/* labels: unit */
#include <check.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, NAME_ROOM = 4096 };

static pleat instance;
static pleat_devptr block;
static pleat_devptr buffer;
static pleat_devptr opened; /* the block once more, as from another process */

static void lay_out(void)
{
    static char name[NAME_ROOM];
    size_t needed;
    api_sim_load();
    instance = api_make(API_PLEAT, "capacity:64M,devices:2", "shareable:True");
    block = api_alloc(instance, 0, 4 * MIB, NULL);
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 64 * MIB, 0, &buffer), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, 8 * MIB, NULL), PLEAT_OK);
    pleat_status st = pleat_share_export(instance, 0, block, PLEAT_SHARE_SERVE, name, sizeof name,
                                         &needed);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    st = pleat_share_open(instance, 0, name, needed, &opened);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

static void clear(void)
{
    ck_assert_int_eq(pleat_share_close(instance, 0, opened, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
    api_free(instance, 0, block, NULL);
    api_check(instance);
    api_unmake(instance);
}

START_TEST(calls_for_blocks_name_buffers_and_what_is_open)
{
    pleat_block_info info;
    const pleat_devptr in_buffer[] = { buffer, buffer + 512, buffer + 20 * MIB };
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(pleat_block_free(instance, 0, in_buffer[i], NULL), PLEAT_EFOREIGN);
        api_expect(PLEAT_EFOREIGN, "no live block of device 0 is at 0x", "lies in the buffer",
                   "pleat_buffer_destroy");
        ck_assert_int_eq(pleat_block_record_stream(instance, 0, in_buffer[i], NULL),
                         PLEAT_EFOREIGN);
        api_expect(PLEAT_EFOREIGN, "lies in the buffer");
        ck_assert_int_eq(pleat_block_query(instance, 0, in_buffer[i], &info), PLEAT_EFOREIGN);
        api_expect(PLEAT_EFOREIGN, "lies in the buffer");
    }
    ck_assert_int_eq(pleat_block_free(instance, 0, opened, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "another process", "pleat_share_close");
    ck_assert_int_eq(pleat_block_free(instance, 1, block, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "belongs to device 0");
}
END_TEST

START_TEST(calls_for_buffers_name_blocks_and_where_the_buffer_begins)
{
    pleat_buffer_info info;
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, block, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "no buffer begins there", "pleat_block_free");
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer + 2 * MIB, MIB, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "no buffer begins there", "lies in the buffer that begins at");
    ck_assert_int_eq(pleat_buffer_query(instance, 0, block + 512, &info), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "lies in no buffer", "inside the block");
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, opened, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "pleat_share_close");
}
END_TEST

START_TEST(closing_names_what_was_never_opened)
{
    ck_assert_int_eq(pleat_share_close(instance, 0, block, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "nothing is open there", "pleat_block_free");
    ck_assert_int_eq(pleat_share_close(instance, 0, buffer, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "nothing is open there", "pleat_buffer_destroy");
    ck_assert_int_eq(pleat_share_close(instance, 1, block, NULL), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "nothing is open there", "belongs to device 0");
}
END_TEST

START_TEST(a_block_that_was_freed_is_still_called_that)
{
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_block_free(instance, 0, ptr, NULL), PLEAT_EDOUBLEFREE);
}
END_TEST

SUITE(api_whereabouts)
{
    TCase *all = suite_case(suite, "addresses", lay_out, clear);
    tcase_add_test(all, calls_for_blocks_name_buffers_and_what_is_open);
    tcase_add_test(all, calls_for_buffers_name_blocks_and_where_the_buffer_begins);
    tcase_add_test(all, closing_names_what_was_never_opened);
    tcase_add_test(all, a_block_that_was_freed_is_still_called_that);
}

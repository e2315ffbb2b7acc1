/* abi_test.c - a program and a library of different versions agree on numbers and structs. */
#include <check.h>
#include <string.h>

#include "api/base/sized.h"
#include "tests/support/api/api_abi.h"
#include "tests/support/api/api_first_versions.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, UNTOUCHED = 0xa5 };

START_TEST(numbers_and_places_are_those_of_every_version)
{
#define VALUE(constant, number) ck_assert_int_eq(constant, number);
#define SIZE(type, bytes) ck_assert_uint_eq(sizeof(type), bytes);
#define AT(type, member, offset) ck_assert_uint_eq(offsetof(type, member), offset);
    API_ABI_VALUES(VALUE)
    API_ABI_PLACES(SIZE, AT)
#undef VALUE
#undef SIZE
#undef AT
}
END_TEST

START_TEST(every_status_has_its_number)
{
    int n_listed = 0;
#define COUNT(constant, number) n_listed += strncmp(#constant, "PLEAT_VERDICT", 13) != 0;
#define IS_STATUS(constant, text) n_listed--;
    API_ABI_VALUES(COUNT)
    PLEAT_STATUS_LIST(IS_STATUS)
#undef COUNT
#undef IS_STATUS
    ck_assert_int_eq(n_listed, 39); /* includes the entries that are no status */
}
END_TEST

/* ---- structs that grow ----------------------------------------------------------------------- */

/* Three versions of one struct. */
typedef struct first_version {
    uint64_t a;
    uint64_t b;
} first_version;

typedef struct own_version {
    uint64_t a;
    uint64_t b;
    uint64_t c;
} own_version;

typedef struct later_version {
    own_version own;
    uint64_t d[2];
} later_version;

static const pl_sized kind = PL_SIZED("pleat_thing_read", own_version, b);

START_TEST(an_older_program_gets_what_it_knows)
{
    const own_version own = { 1, 2, 3 };
    struct {
        first_version it;
        uint64_t behind;
    } old = { .behind = 77 };
    ck_assert_int_eq(pl_sized_check(&kind, sizeof old.it, &old.it), PLEAT_OK);
    pl_sized_write(&kind, &own, sizeof old.it, &old.it);
    ck_assert_uint_eq(old.it.a, 1);
    ck_assert_uint_eq(old.it.b, 2);
    ck_assert_uint_eq(old.behind, 77);
}
END_TEST

START_TEST(a_newer_program_gets_zeros_for_the_rest)
{
    const own_version own = { 1, 2, 3 };
    later_version later;
    memset(&later, UNTOUCHED, sizeof later);
    ck_assert_int_eq(pl_sized_check(&kind, sizeof later, &later), PLEAT_OK);
    pl_sized_write(&kind, &own, sizeof later, &later);
    ck_assert_uint_eq(later.own.a, 1);
    ck_assert_uint_eq(later.own.c, 3);
    ck_assert_uint_eq(later.d[0] | later.d[1], 0);
}
END_TEST

START_TEST(what_no_version_can_have_is_refused)
{
    static const size_t bad[] = { 0, 8, 12, 15, 20, sizeof(own_version) + 4, 16392, SIZE_MAX };
    own_version out;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(pl_sized_check(&kind, bad[i], &out), PLEAT_EINVAL);
    }
    ck_assert_int_eq(pl_sized_check(&kind, 8, &out), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "pleat_thing_read", "8 bytes", "24", "sizeof(own_version)");
    ck_assert_int_eq(pl_sized_check(&kind, sizeof out, NULL), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "pleat_thing_read", "`out` is NULL");
}
END_TEST

/* ---- the calls ------------------------------------------------------------------------------- */

static pleat instance;
static pleat_devptr block;
static pleat_devptr buffer;

static void open_with_block(void)
{
    api_sim_load();
    instance = api_make(API_PLEAT, "capacity:64M", "");
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "weights", MIB, NULL, &block), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_create(instance, 0, MIB, 0, &buffer), PLEAT_OK);
}

static void close_with_block(void)
{
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
    api_free(instance, 0, block, NULL);
    api_unmake(instance);
}

static pleat_status read_stats(size_t bytes, void *out)
{
    return pleat_device_stats_sized(instance, 0, bytes, out);
}

static pleat_status read_info(size_t bytes, void *out)
{
    return pleat_device_query_sized(instance, 0, bytes, out);
}

static pleat_status read_block(size_t bytes, void *out)
{
    return pleat_block_query_sized(instance, 0, block, bytes, out);
}

static pleat_status compact(size_t bytes, void *out)
{
    return pleat_device_compact_sized(instance, 0, bytes, out);
}

static pleat_status read_buffer(size_t bytes, void *out)
{
    return pleat_buffer_query_sized(instance, 0, buffer, bytes, out);
}

static pleat_status read_tag(size_t bytes, void *out)
{
    return pleat_tag_query_sized(instance, 0, "weights", bytes, out);
}

static const struct {
    const char *call;
    size_t bytes;
    pleat_status (*read)(size_t bytes, void *out);
} readers[] = {
    { "pleat_device_stats", sizeof(pleat_stats), read_stats },
    { "pleat_device_query", sizeof(pleat_device_info), read_info },
    { "pleat_block_query", sizeof(pleat_block_info), read_block },
    { "pleat_device_compact", sizeof(pleat_compaction), compact },
    { "pleat_buffer_query", sizeof(pleat_buffer_info), read_buffer },
    { "pleat_tag_query", sizeof(pleat_tag_info), read_tag },
};

enum { N_READERS = sizeof readers / sizeof readers[0], ROOM = 4096 };

START_TEST(a_longer_struct_ends_in_zeros)
{
    static unsigned char own[ROOM];
    static unsigned char longer[ROOM];
    size_t bytes = readers[_i].bytes;
    memset(longer, UNTOUCHED, sizeof longer);
    ck_assert_int_eq(readers[_i].read(bytes, own), PLEAT_OK);
    ck_assert_int_eq(readers[_i].read(bytes + 64, longer), PLEAT_OK);
    for (size_t i = bytes; i < bytes + 64; i++) {
        ck_assert_uint_eq(longer[i], 0);
    }
    ck_assert_uint_eq(longer[bytes + 64], UNTOUCHED);
    ck_assert_mem_eq(longer, own, 32);
}
END_TEST

START_TEST(a_size_of_something_else_is_refused_and_nothing_written)
{
    static unsigned char out[ROOM];
    memset(out, UNTOUCHED, sizeof out);
    ck_assert_int_eq(readers[_i].read(sizeof(void *), out), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, readers[_i].call, "8 bytes", "sizeof(");
    ck_assert_int_eq(readers[_i].read(SIZE_MAX, out), PLEAT_EINVAL);
    ck_assert_int_eq(readers[_i].read(readers[_i].bytes, NULL), PLEAT_EINVAL);
    for (size_t i = 0; i < sizeof out; i++) {
        ck_assert_uint_eq(out[i], UNTOUCHED);
    }
}
END_TEST

/* Looked up by name, these calls write exactly the structs of 0.1. */
START_TEST(the_calls_of_the_first_version_write_its_structs)
{
    struct {
        pleat_stats stats;
        pleat_device_info info;
        pleat_block_info found;
        pleat_compaction done;
        uint64_t behind;
    } first = { .behind = 77 };
    const unsigned char *told = (const unsigned char *)&first.stats;
    pleat_stats stats;
    memset(&first.stats, UNTOUCHED, sizeof first.stats);
    ck_assert_int_eq(api_first_query(instance, block, &first.found), PLEAT_OK);
    ck_assert_int_eq(api_first_device(instance, &first.info), PLEAT_OK);
    ck_assert_int_eq(api_first_compact(instance, &first.done), PLEAT_OK);
    ck_assert_uint_eq(first.done.won_bytes, 0);
    ck_assert_int_eq(api_first_stats(instance, &first.stats), PLEAT_OK);
    ck_assert_int_eq(pleat_device_stats(instance, 0, &stats), PLEAT_OK);
    ck_assert_mem_eq(&first.stats, &stats, offsetof(pleat_stats, tied_granules));
    for (size_t i = offsetof(pleat_stats, tied_granules); i < sizeof stats; i++) {
        ck_assert_uint_eq(told[i], UNTOUCHED);
    }
    ck_assert_uint_eq(first.found.base, block);
    ck_assert_str_eq(first.info.driver, "sim");
    ck_assert_uint_eq(first.behind, 77);
    ck_assert_int_eq(api_first_stats(instance, NULL), PLEAT_EINVAL);
}
END_TEST

START_TEST(source_with_former_names_compiles)
{
    pleat_device_info info;
    pleat_tag_figures figures;
    ck_assert_int_eq(pleat_device_describe(instance, 0, &info), PLEAT_OK);
    ck_assert_str_eq(info.driver, "sim");
    ck_assert_int_eq(pleat_tag_stats(instance, 0, "nobody's", &figures), PLEAT_EINVAL);
}
END_TEST

START_TEST(behind_the_last_error_are_zeros)
{
    unsigned char room[PLEAT_ERROR_ROOM];
    ck_assert_int_eq(pleat_block_free(instance, 0, 0, NULL), PLEAT_EINVAL);
    memcpy(room, pleat_last_error(), sizeof room);
    for (size_t i = sizeof(pleat_error); i < sizeof room; i++) {
        ck_assert_uint_eq(room[i], 0);
    }
}
END_TEST

SUITE(api_abi)
{
    TCase *fixed = suite_case(suite, "fixed", NULL, NULL);
    tcase_add_test(fixed, numbers_and_places_are_those_of_every_version);
    tcase_add_test(fixed, every_status_has_its_number);
    TCase *sized = suite_case(suite, "sized", NULL, NULL);
    tcase_add_test(sized, an_older_program_gets_what_it_knows);
    tcase_add_test(sized, a_newer_program_gets_zeros_for_the_rest);
    tcase_add_test(sized, what_no_version_can_have_is_refused);
    TCase *calls = suite_case(suite, "calls", open_with_block, close_with_block);
    tcase_add_loop_test(calls, a_longer_struct_ends_in_zeros, 0, N_READERS);
    tcase_add_loop_test(calls, a_size_of_something_else_is_refused_and_nothing_written, 0,
                        N_READERS);
    tcase_add_test(calls, the_calls_of_the_first_version_write_its_structs);
    tcase_add_test(calls, source_with_former_names_compiles);
    tcase_add_test(calls, behind_the_last_error_are_zeros);
}

/* api_config_test.c - the configuration is read strictly, and errors say what was wrong. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "api/config.h"
#include "api/pleat.h"

static void clear_environment(void)
{
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
}

static pl_config read_good(const char *conf)
{
    pl_config config;
    pleat_status st = pl_config_read(conf, &config);
    ck_assert_msg(st == PLEAT_OK, "'%s': %s", conf ? conf : "NULL", pleat_last_error()->text);
    return config;
}

/* Every one of `parts` (ended by NULL) stands in the last error's text. */
static void check_text_has(const char *const *parts)
{
    for (; *parts; parts++) {
        ck_assert_msg(strstr(pleat_last_error()->text, *parts) != NULL, "no '%s' in: %s", *parts,
                      pleat_last_error()->text);
    }
}

START_TEST(nothing_given_means_the_defaults)
{
    static const char *const empty[] = { NULL, "", "  \t\n" };
    pl_allocator_options defaults;
    pl_allocator_options_init(&defaults);
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        pl_config config = read_good(empty[i]);
        ck_assert_int_eq(config.driver, PL_DRIVER_AUTO);
        ck_assert_str_eq(config.allocator->name, "pleat");
        ck_assert_ptr_null(config.fallback);
        ck_assert(!config.has_sim_conf);
        ck_assert_uint_eq(config.limit_bytes, 0);
        ck_assert_uint_eq(config.limit_parts, 0);
        ck_assert_uint_eq(config.device.chunk_granules, 1);
        ck_assert_uint_eq(config.options.wait_ms, defaults.wait_ms);
        ck_assert_uint_eq(config.options.small_bytes, defaults.small_bytes);
    }
}
END_TEST

START_TEST(every_key_reaches_its_field)
{
    pl_config config = read_good(
        "driver:sim,sim:[devices:2,capacity:8G],allocator:torch-native,fallback:torch-native,"
        "limit:3G,growth:frugal,cross_stream:settled,wait_ms:5,chunk_granules:4,"
        "address_budget:2T,shareable:True,rdma:True,time_calls:True,small_kib:64,token_refill:3,"
        "token_cap:7,order_interval:9,keep_permille:11,max_split_size_mb:200,"
        "max_non_split_rounding_mb:32,garbage_collection_threshold:0.25,"
        "roundup_power2_divisions:4");
    ck_assert_int_eq(config.driver, PL_DRIVER_SIM);
    ck_assert(config.has_sim_conf);
    ck_assert_str_eq(config.sim_conf, "devices:2,capacity:8G");
    ck_assert_str_eq(config.allocator->name, "torch-native");
    ck_assert_str_eq(config.fallback->name, "torch-native");
    ck_assert_uint_eq(config.limit_bytes, UINT64_C(3) << 30);
    ck_assert_int_eq(config.options.growth, PL_GROWTH_FRUGAL);
    ck_assert_int_eq(config.options.cross_stream, PL_CROSS_SETTLED);
    ck_assert_uint_eq(config.options.wait_ms, 5);
    ck_assert_uint_eq(config.device.chunk_granules, 4);
    ck_assert_uint_eq(config.device.address_budget_bytes, UINT64_C(2) << 40);
    ck_assert(config.device.handle_posix_fd);
    ck_assert(config.device.handle_rdma);
    ck_assert(config.time_calls);
    ck_assert_uint_eq(config.options.small_bytes, 64 << 10);
    ck_assert_uint_eq(config.options.token_refill, 3);
    ck_assert_uint_eq(config.options.token_cap, 7);
    ck_assert_uint_eq(config.options.order_interval, 9);
    ck_assert_uint_eq(config.options.keep_permille, 11);
    ck_assert_uint_eq(config.options.max_split_bytes, 200 << 20);
    ck_assert_uint_eq(config.options.max_non_split_rounding_bytes, 32 << 20);
    ck_assert_double_eq(config.options.garbage_collection_threshold, 0.25);
    for (unsigned i = 0; i < 16; i++) {
        ck_assert_uint_eq(config.options.roundup_divisions[i], 4);
    }
}
END_TEST

START_TEST(blanks_around_keys_and_values_do_not_matter)
{
    pl_config config = read_good(" driver : sim ,\n\tlimit\t: 0.5 , sim : [ capacity:1G ] ");
    ck_assert_int_eq(config.driver, PL_DRIVER_SIM);
    ck_assert_uint_eq(config.limit_parts, 500000000);
    ck_assert_str_eq(config.sim_conf, "capacity:1G");
}
END_TEST

START_TEST(the_argument_lies_over_the_environment_key_by_key)
{
    ck_assert_int_eq(setenv("PLEAT_CONF", "limit:0.5,wait_ms:3,sim:[devices:4]", 1), 0);
    pl_config config = read_good("wait_ms:4,limit:2G");
    ck_assert_uint_eq(config.options.wait_ms, 4);
    ck_assert_uint_eq(config.limit_bytes, UINT64_C(2) << 30);
    ck_assert_uint_eq(config.limit_parts, 0);
    ck_assert_str_eq(config.sim_conf, "devices:4");
    config = read_good("limit:none");
    ck_assert_uint_eq(config.limit_bytes, 0);
    ck_assert_uint_eq(config.limit_parts, 0);
    ck_assert_uint_eq(config.options.wait_ms, 3);
}
END_TEST

START_TEST(an_error_of_the_environment_says_so)
{
    pl_config config;
    ck_assert_int_eq(setenv("PLEAT_CONF", "limt:0.5", 1), 0);
    ck_assert_int_eq(pl_config_read("wait_ms:1", &config), PLEAT_ECONF);
    check_text_has((const char *[]){ "PLEAT_CONF", "unknown key", "'limt'", "limit", NULL });
}
END_TEST

/* What is wrong, and what the text must name. */
static const struct bad_conf {
    const char *conf;
    const char *parts[6];
} bad_confs[] = {
    { "limits:1", { "conf", "unknown key 'limits'", "limit", "growth", "max_split_size_mb" } },
    { "Limit:1", { "unknown key 'Limit'" } },
    { "limit", { "'limit'", "key:value" } },
    { ":3", { "key:value" } },
    { ",", { "key:value" } },
    { "wait_ms:1,", { "key:value" } },
    { "wait_ms:1,,limit:1", { "key:value" } },
    { "wait_ms:1;limit:1", { "'wait_ms'", "'1;limit:1'" } },
    { "wait_ms:", { "bad value ''", "'wait_ms'", "a number from 0 to 86400000" } },
    { "wait_ms:-1", { "'-1'", "'wait_ms'" } },
    { "wait_ms:1 0", { "'1 0'", "'wait_ms'" } },
    { "wait_ms:86400001", { "'86400001'" } },
    { "wait_ms:99999999999999999999999", { "'wait_ms'" } },
    { "wait_ms:[1]", { "'wait_ms'", "'1'" } },
    { "wait_ms:1,wait_ms:2", { "'wait_ms'", "twice", "'2'" } },
    { "sim:[devices:1],sim:[devices:1]", { "'sim'", "twice" } },
    { "driver:nvidia", { "'nvidia'", "'driver'", "auto, cuda, sim" } },
    { "growth:big", { "'big'", "'growth'", "balanced, frugal, ample" } },
    { "cross_stream:never", { "'never'", "'cross_stream'", "order, settled" } },
    { "allocator:glibc", { "'glibc'", "'allocator'", "pleat", "torch-native" } },
    { "allocator:", { "'allocator'" } },
    { "allocator:none", { "'none'", "'allocator'" } },
    { "fallback:pleat", { "'pleat'", "'fallback'", "torch-native, none" } },
    { "shareable:true", { "'true'", "'shareable'", "True, False" } },
    { "rdma:1", { "'1'", "'rdma'", "True, False" } },
    { "time_calls:yes", { "'yes'", "'time_calls'", "True, False" } },
    { "limit:0", { "'0'", "'limit'", "fraction", "none" } },
    { "limit:1.5", { "'1.5'", "'limit'" } },
    { "limit:-0.5", { "'-0.5'", "'limit'" } },
    { "limit:0.5G", { "'0.5G'", "'limit'" } },
    { "limit:2", { "'2'", "'limit'", "4096" } },
    { "limit:8GB", { "'8GB'", "'limit'", "8G" } },
    { "limit:None", { "'None'", "'limit'" } },
    { "address_budget:0", { "'0'", "'address_budget'", "size" } },
    { "address_budget:lots", { "'lots'", "'address_budget'" } },
    { "chunk_granules:0", { "'0'", "'chunk_granules'", "from 1 to 65536" } },
    { "order_interval:0", { "'0'", "'order_interval'" } },
    { "max_split_size_mb:19", { "'19'", "'max_split_size_mb'", "from 20" } },
    { "max_non_split_rounding_mb:1", { "'1'", "'max_non_split_rounding_mb'" } },
    { "garbage_collection_threshold:1", { "'1'", "'garbage_collection_threshold'" } },
    { "roundup_power2_divisions:3", { "'3'", "'roundup_power2_divisions'", "power of two" } },
    { "small_kib:1025", { "'1025'", "'small_kib'" } },
    { "sim:devices", { "'devices'", "'sim'", "[key:value,...]" } },
    { "sim:[devices:2", { "'sim'", "brackets" } },
    { "sim:devices:2]", { "'sim'", "brackets" } },
    { "sim:[a]b", { "'[a]b'", "'sim'" } },
    { "[driver:sim]", { "key:value" } },
};

START_TEST(a_bad_configuration_is_an_error_that_names_it)
{
    const struct bad_conf *bad = &bad_confs[_i];
    pl_config config;
    memset(&config, 0x5a, sizeof config);
    pl_config before = config;
    ck_assert_msg(pl_config_read(bad->conf, &config) == PLEAT_ECONF, "'%s'", bad->conf);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_ECONF);
    check_text_has(bad->parts);
    ck_assert_mem_eq(&config, &before, sizeof config);
}
END_TEST

START_TEST(a_bad_value_is_echoed_only_in_part)
{
    char conf[4000] = "growth:";
    memset(conf + 7, 'x', sizeof conf - 8);
    pl_config config;
    ck_assert_int_eq(pl_config_read(conf, &config), PLEAT_ECONF);
    ck_assert_uint_lt(strlen(pleat_last_error()->text), 200);
    memcpy(conf, "sim:[xx", 7);
    conf[sizeof conf - 2] = ']';
    ck_assert_int_eq(pl_config_read(conf, &config), PLEAT_ECONF);
    check_text_has((const char *[]){ "'sim'", "1023 characters", NULL });
}
END_TEST

START_TEST(what_is_written_reads_back_the_same)
{
    static const char *const confs[] = {
        "",
        "driver:sim,sim:[devices:2,nested:[1,2]],limit:0.123456789,growth:ample",
        ("allocator:torch-native,fallback:torch-native,limit:1,max_split_size_mb:64,"
         "garbage_collection_threshold:0.8,roundup_power2_divisions:8"),
        "limit:7G,address_budget:1T,shareable:True,wait_ms:0,token_cap:0",
    };
    for (size_t i = 0; i < sizeof confs / sizeof confs[0]; i++) {
        char text[4096];
        char again[4096];
        pl_config config = read_good(confs[i]);
        size_t needed = pl_config_write(&config, text, sizeof text);
        ck_assert_uint_eq(needed, strlen(text) + 1);
        ck_assert_uint_eq(pl_config_write(&config, NULL, 0), needed);
        config = read_good(text);
        pl_config_write(&config, again, sizeof again);
        ck_assert_str_eq(text, again);
    }
}
END_TEST

START_TEST(a_fraction_becomes_bytes_without_overflow)
{
    pl_config config = read_good("limit:0.9");
    ck_assert_uint_eq(pl_config_limit(&config, 1000), 900);
    ck_assert_uint_eq(pl_config_limit(&config, UINT64_C(1) << 60), 1037629354146162278);
    ck_assert_uint_eq(pl_config_limit(&config, 1), 1);
    config = read_good("limit:1");
    ck_assert_uint_eq(pl_config_limit(&config, (UINT64_C(1) << 37) + 5), (UINT64_C(1) << 37) + 5);
    config = read_good("limit:5G");
    ck_assert_uint_eq(pl_config_limit(&config, 1000), UINT64_C(5) << 30);
    config = read_good("");
    ck_assert_uint_eq(pl_config_limit(&config, 1000), 0);
}
END_TEST

/* Any bytes at all: never a crash, and the status is one of two. */
START_TEST(garbage_never_crashes)
{
    static const char letters[] = "driver:sm,[]limt.019GTruefas_ \t";
    unsigned seed = 12345;
    for (unsigned round = 0; round < 20000; round++) {
        char conf[48];
        unsigned n = (unsigned)rand_r(&seed) % (unsigned)(sizeof conf - 1);
        for (unsigned i = 0; i < n; i++) {
            conf[i] = letters[(unsigned)rand_r(&seed) % (unsigned)(sizeof letters - 1)];
        }
        conf[n] = '\0';
        pl_config config;
        pleat_status st = pl_config_read(conf, &config);
        ck_assert_msg(st == PLEAT_OK || st == PLEAT_ECONF, "'%s': %d", conf, (int)st);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api_config");
    TCase *tcase = tcase_create("reading");
    tcase_add_checked_fixture(tcase, clear_environment, NULL);
    tcase_add_test(tcase, nothing_given_means_the_defaults);
    tcase_add_test(tcase, every_key_reaches_its_field);
    tcase_add_test(tcase, blanks_around_keys_and_values_do_not_matter);
    tcase_add_test(tcase, the_argument_lies_over_the_environment_key_by_key);
    tcase_add_test(tcase, an_error_of_the_environment_says_so);
    tcase_add_loop_test(tcase, a_bad_configuration_is_an_error_that_names_it, 0,
                        (int)(sizeof bad_confs / sizeof bad_confs[0]));
    tcase_add_test(tcase, a_bad_value_is_echoed_only_in_part);
    tcase_add_test(tcase, garbage_never_crashes);
    suite_add_tcase(suite, tcase);
    TCase *use = tcase_create("use");
    tcase_add_checked_fixture(use, clear_environment, NULL);
    tcase_add_test(use, what_is_written_reads_back_the_same);
    tcase_add_test(use, a_fraction_becomes_bytes_without_overflow);
    suite_add_tcase(suite, use);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

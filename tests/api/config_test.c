/* config_test.c - the configuration is read strictly, and errors name the bad part. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/config.h"
#include "api/config/key.h"
#include "api/pleat.h"
#include "segments/classic/cuda_async.h"
#include "segments/classic/mxnet_options.h"
#include "segments/classic/tf_bfc.h"
#include "segments/classic/torch/torch_options.h"
#include "segments/pleat/space/options.h"
#include "tests/support/suite.h"

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

/* The last error's text contains every one of `parts` (ended by NULL). */
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
        ck_assert_uint_eq(pl_pleat_own(&config.options).reserve_bytes,
                          pl_pleat_own(&defaults).reserve_bytes);
    }
}
END_TEST

START_TEST(every_key_reaches_its_field)
{
    pl_config config = read_good(
        "driver:sim,sim:[devices:2,capacity:8G],allocator:torch-native,fallback:torch-native,"
        "limit:3G,growth:frugal,cross_stream:settled,wait_ms:5,chunk_granules:4,"
        "address_budget:2T,shareable:True,rdma:True,peers:True,time_calls:True,"
        "policy:[/a,b.so],chunk_share:7,reserve_mb:13,max_split_size_mb:200,"
        "max_non_split_rounding_mb:32,garbage_collection_threshold:0.25,"
        "roundup_power2_divisions:4,large_segment_size_mb:32,per_process_memory_fraction:0.75,"
        "expandable_small_page_mb:4,expandable_large_page_mb:64,bfc_allow_growth:False,"
        "bfc_garbage_collection:False,bfc_fragmentation_fraction:0.125,"
        "async_release_threshold:3G,mxnet_gpu_mem_pool_reserve:7,mxnet_gpu_pool_page_size:8K,"
        "mxnet_gpu_mem_large_alloc_round_size:4M,mxnet_gpu_mem_pool_round_linear_cutoff:26");
    const pl_pleat_options own = pl_pleat_own(&config.options);
    const pl_torch_options torch = pl_torch_own(&config.options);
    const pl_mxnet_options mxnet = pl_mxnet_own(&config.options);
    const pl_bfc_options bfc = pl_bfc_own(&config.options);
    const pl_async_options async = pl_async_own(&config.options);
    ck_assert_int_eq(config.driver, PL_DRIVER_SIM);
    ck_assert(config.has_sim_conf);
    ck_assert_str_eq(config.sim_conf, "devices:2,capacity:8G");
    ck_assert_str_eq(config.allocator->name, "torch-native");
    ck_assert_str_eq(config.fallback->name, "torch-native");
    ck_assert_uint_eq(config.limit_bytes, UINT64_C(3) << 30);
    ck_assert_int_eq(own.growth, PL_GROWTH_FRUGAL);
    ck_assert_int_eq(own.cross_stream, PL_CROSS_SETTLED);
    ck_assert_uint_eq(config.options.wait_ms, 5);
    ck_assert_uint_eq(config.device.chunk_granules, 4);
    ck_assert_uint_eq(config.device.address_budget_bytes, UINT64_C(2) << 40);
    ck_assert_int_eq(config.device.handle_posix_fd, PL_DEMAND_FIRM);
    ck_assert_int_eq(config.device.handle_rdma, PL_DEMAND_FIRM);
    ck_assert(config.device.peers);
    ck_assert(config.time_calls);
    ck_assert_uint_eq(own.chunk_share, 7);
    ck_assert_str_eq(config.policy, "/a,b.so");
    ck_assert_uint_eq(own.reserve_bytes, 13 << 20);
    ck_assert_uint_eq(torch.max_split_bytes, 200 << 20);
    ck_assert_uint_eq(torch.max_non_split_rounding_bytes, 32 << 20);
    ck_assert_double_eq(torch.garbage_collection_threshold, 0.25);
    for (unsigned i = 0; i < 16; i++) {
        ck_assert_uint_eq(config.options.roundup_divisions[i], 4);
    }
    ck_assert_uint_eq(torch.large_segment_bytes, 32 << 20);
    ck_assert_double_eq(torch.per_process_memory_fraction, 0.75);
    ck_assert_uint_eq(torch.expandable_small_page_bytes, 4 << 20);
    ck_assert_uint_eq(torch.expandable_large_page_bytes, 64 << 20);
    ck_assert(!bfc.allow_growth);
    ck_assert(!bfc.garbage_collection);
    ck_assert_double_eq(bfc.fragmentation_fraction, 0.125);
    ck_assert_uint_eq(async.release_threshold_bytes, UINT64_C(3) << 30);
    ck_assert_uint_eq(mxnet.reserve_percent, 7);
    ck_assert_uint_eq(mxnet.page_bytes, 8 << 10);
    ck_assert_uint_eq(mxnet.large_bytes, 4 << 20);
    ck_assert_uint_eq(mxnet.cutoff, 26);
}
END_TEST

/* The divisions that a list gives the 16 intervals from 1 MiB to 32 GiB, and the list's written
 * form. */
static const struct divisions_case {
    const char *list;
    unsigned divisions[16];
    const char *written;
} divisions_cases[] = {
    { "[256:1,512:2,1024:4,>:8]",
      { 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8 },
      "[256:1,512:2,1024:4,>:8]" },
    { " [ 64 : 0 , 128 : 2 , 256:4,512:2,1024:4,>:1 ] ",
      { 0, 0, 0, 0, 0, 0, 0, 2, 4, 2, 4, 1, 1, 1, 1, 1 },
      "[64:0,128:2,256:4,512:2,1024:4,>:1]" },
    { "[4:16]", { 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, "[4:16,>:0]" },
    { "[2:4,8:2,>:1]", { 4, 4, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, "[2:4,4:0,8:2,>:1]" },
    { "[32768:64]", { 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64 }, "64" },
    { "[16384:2,>:64]", { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 64 }, "[16384:2,>:64]" },
    { "[1:8,>:8]", { 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 }, "8" },
};

START_TEST(a_list_of_divisions_is_read_by_interval_and_written_back)
{
    const struct divisions_case *c = &divisions_cases[_i];
    char conf[128];
    char text[4096];
    snprintf(conf, sizeof conf, "roundup_power2_divisions:%s,wait_ms:3", c->list);
    pl_config config = read_good(conf);
    ck_assert_mem_eq(config.options.roundup_divisions, c->divisions, sizeof c->divisions);
    pl_config_write(&config, text, sizeof text);
    const char *at = strstr(text, "roundup_power2_divisions:");
    ck_assert_ptr_nonnull(at);
    at += strlen("roundup_power2_divisions:");
    ck_assert_msg(strncmp(at, c->written, strlen(c->written)) == 0, "%s", at);
    ck_assert_int_eq(at[strlen(c->written)], ',');
    config = read_good(text);
    ck_assert_mem_eq(config.options.roundup_divisions, c->divisions, sizeof c->divisions);
}
END_TEST

START_TEST(a_large_segment_bounds_what_is_compared_with_it)
{
    static const char *const good[] = {
        "large_segment_size_mb:11,max_split_size_mb:11,max_non_split_rounding_mb:11",
        "max_split_size_mb:100,max_non_split_rounding_mb:64,large_segment_size_mb:64",
        "large_segment_size_mb:1024",
    };
    pl_config config;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        (void)read_good(good[i]);
    }
    /* Also if the keys come from two strings, each of which is correct. */
    ck_assert_int_eq(setenv("PLEAT_CONF", "max_split_size_mb:48", 1), 0);
    (void)read_good("");
    ck_assert_int_eq(pl_config_read("large_segment_size_mb:64", &config), PLEAT_ECONF);
    check_text_has(
        (const char *[]){ "'max_split_size_mb' is 48", "'large_segment_size_mb', 64", NULL });
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

/* Refused configurations, and names that must be in the error texts. */
static const struct bad_conf {
    const char *conf;
    const char *parts[6];
} bad_confs[] = {
    { "limits:1", { "conf", "unknown key 'limits'", "did you mean 'limit'?" } },
    { "qqqq:1", { "conf", "unknown key 'qqqq'", "limit", "growth", "max_split_size_mb" } },
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
    { "fallback:pleat", { "'pleat'", "'fallback'", "torch-native", ", none" } },
    { "shareable:true", { "'true'", "'shareable'", "False, True, auto" } },
    { "rdma:1", { "'1'", "'rdma'", "False, True, auto" } },
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
    { "chunk_share:0", { "'0'", "'chunk_share'" } },
    { "take_ms:7", { "'take_ms'" } },
    { "large_segment_size_mb:10", { "'10'", "'large_segment_size_mb'", "from 11" } },
    { "max_split_size_mb:10", { "'10'", "'max_split_size_mb'", "from 11" } },
    { "max_split_size_mb:19", { "'max_split_size_mb' is 19", "'large_segment_size_mb', 20" } },
    { "max_non_split_rounding_mb:1", { "'1'", "'max_non_split_rounding_mb'" } },
    { "max_non_split_rounding_mb:31,large_segment_size_mb:32",
      { "'max_non_split_rounding_mb' is 31", "'large_segment_size_mb', 32" } },
    { "per_process_memory_fraction:0", { "'0'", "'per_process_memory_fraction'", "0.8, 1" } },
    { "per_process_memory_fraction:1.1", { "'1.1'", "'per_process_memory_fraction'" } },
    { "expandable_small_page_mb:0", { "'0'", "'expandable_small_page_mb'", "from 1" } },
    { "expandable_large_page_mb:2M", { "'2M'", "'expandable_large_page_mb'" } },
    { "bfc_allow_growth:1", { "'1'", "'bfc_allow_growth'", "True, False" } },
    { "bfc_garbage_collection:no", { "'no'", "'bfc_garbage_collection'" } },
    { "bfc_fragmentation_fraction:1", { "'1'", "'bfc_fragmentation_fraction'", "below 1" } },
    { "async_release_threshold:0", { "'0'", "'async_release_threshold'", "size" } },
    { "mxnet_gpu_mem_pool_reserve:101",
      { "'101'", "'mxnet_gpu_mem_pool_reserve'", "from 0 to 100" } },
    { "mxnet_gpu_pool_page_size:31", { "'31'", "'mxnet_gpu_pool_page_size'", "at least 32" } },
    { "mxnet_gpu_mem_pool_page_size:16", { "'16'", "'mxnet_gpu_mem_pool_page_size'" } },
    { "mxnet_gpu_mem_pool_page_size:64,mxnet_gpu_pool_page_size:128",
      { "'mxnet_gpu_mem_pool_page_size'", "'mxnet_gpu_pool_page_size'", "differ" } },
    { "mxnet_gpu_mem_large_alloc_round_size:0",
      { "'0'", "'mxnet_gpu_mem_large_alloc_round_size'" } },
    { "mxnet_gpu_mem_pool_round_linear_cutoff:19",
      { "'19'", "'mxnet_gpu_mem_pool_round_linear_cutoff'", "from 20 to 34" } },
    { "mxnet_gpu_mem_pool_round_linear_cutoff:35", { "'35'" } },
    { "fallback:mxnet", { "'mxnet'", "'fallback'" } },
    { "garbage_collection_threshold:1", { "'1'", "'garbage_collection_threshold'" } },
    { "roundup_power2_divisions:3", { "'3'", "'roundup_power2_divisions'", "power of two" } },
    { "roundup_power2_divisions:128", { "'128'", "up to 64" } },
    { "roundup_power2_divisions:[]", { "''", "'roundup_power2_divisions'", "[256:1,512:2,>:4]" } },
    { "roundup_power2_divisions:[4]", { "'4'", "'roundup_power2_divisions'" } },
    { "roundup_power2_divisions:[256:1,]", { "'256:1,'" } },
    { "roundup_power2_divisions:[,256:1]", { "',256:1'" } },
    { "roundup_power2_divisions:[256:3]", { "'256:3'" } },
    { "roundup_power2_divisions:[256:128]", { "'256:128'" } },
    { "roundup_power2_divisions:[300:2]", { "'300:2'" } },
    { "roundup_power2_divisions:[0:2]", { "'0:2'" } },
    { "roundup_power2_divisions:[65536:2]", { "'65536:2'" } },
    { "roundup_power2_divisions:[>:2]", { "'>:2'" } },
    { "roundup_power2_divisions:[256:2,>:4,512:2]", { "'256:2,>:4,512:2'" } },
    { "roundup_power2_divisions:[512:2,256:2]", { "'512:2,256:2'" } },
    { "roundup_power2_divisions:[256:2,256:2]", { "'256:2,256:2'" } },
    { "roundup_power2_divisions:[256:2,>:4,>:4]", { "'256:2,>:4,>:4'" } },
    { "roundup_power2_divisions:[256:2:4]", { "'256:2:4'" } },
    { "chunk_share:1000001", { "'1000001'", "'chunk_share'" } },
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

/* The longest lists fit into an error's text: of every key, of every allocator. */
START_TEST(an_error_lists_all_that_is_known)
{
    char written[4096];
    pl_config config = read_good("sim:[devices:1],address_budget:1G,max_split_size_mb:20,"
                                 "max_non_split_rounding_mb:20,expandable_large_page_mb:20,"
                                 "async_release_threshold:1G");
    pl_config_write(&config, written, sizeof written);
    ck_assert_int_eq(pl_config_read("no_such_key:1", &config), PLEAT_ECONF);
    check_text_has((const char *[]){ "mxnet_gpu_mem_pool_page_size", NULL });
    unsigned n = 0;
    for (const char *at = written; at; n++) {
        char name[64];
        size_t length = strcspn(at, ":");
        ck_assert_uint_lt(length, sizeof name);
        memcpy(name, at, length);
        name[length] = '\0';
        check_text_has((const char *[]){ name, NULL });
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    ck_assert_uint_gt(n, 30);
    ck_assert_int_eq(pl_config_read("allocator:no_such", &config), PLEAT_ECONF);
    check_text_has((const char *[]){ "'allocator'; allowed: ", ", mxnet", NULL });
    for (unsigned i = 0; pl_allocator_name(i); i++) {
        check_text_has((const char *[]){ pl_allocator_name(i), NULL });
    }
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
        ("large_segment_size_mb:32,max_split_size_mb:64,per_process_memory_fraction:0.000000001,"
         "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],expandable_small_page_mb:2,"
         "expandable_large_page_mb:32,bfc_allow_growth:False,bfc_garbage_collection:False,"
         "bfc_fragmentation_fraction:0.999999999,async_release_threshold:7"),
        ("mxnet_gpu_mem_pool_reserve:0,mxnet_gpu_mem_pool_page_size:96,"
         "mxnet_gpu_mem_large_alloc_round_size:1,mxnet_gpu_mem_pool_round_linear_cutoff:34"),
        "limit:7G,address_budget:1T,shareable:auto,wait_ms:0,chunk_share:3",
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

/* docs/configuration.md has a row for each key; the row of an allocator's own key agrees with the
 * allocator's table. */
START_TEST(every_key_is_documented)
{
    static char text[64 << 10];
    FILE *file = fopen(PLEAT_SOURCE_DIR "/docs/configuration.md", "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    pl_key key;
    for (unsigned i = 0; pl_key_at(i, &key); i++) {
        char name[PL_KEY_NAME_BYTES];
        const char *help = key.option->help;
        int n = snprintf(name, sizeof name, "`%s`", key.option->name);
        ck_assert_int_lt(n, PL_KEY_NAME_BYTES);
        ck_assert_msg(strstr(text, name) != NULL, "%s is not documented", name);
        bool is_own = key.base != 0;
        ck_assert_msg(!is_own || help, "%s has no help", name);
        ck_assert_msg(!is_own || strstr(text, help) != NULL, "%s: no '%s'", name, help);
    }
}
END_TEST

/* No bytes crash the reader. The status is one of two. */
START_TEST(garbage_never_crashes)
{
    static const char letters[] = "driver:sm,[]limt.019GTruefas_> \t";
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

SUITE(api_config)
{
    TCase *tcase = tcase_create("reading");
    tcase_add_checked_fixture(tcase, clear_environment, NULL);
    tcase_add_test(tcase, nothing_given_means_the_defaults);
    tcase_add_test(tcase, every_key_reaches_its_field);
    tcase_add_test(tcase, blanks_around_keys_and_values_do_not_matter);
    tcase_add_test(tcase, the_argument_lies_over_the_environment_key_by_key);
    tcase_add_test(tcase, an_error_of_the_environment_says_so);
    tcase_add_loop_test(tcase, a_bad_configuration_is_an_error_that_names_it, 0,
                        (int)(sizeof bad_confs / sizeof bad_confs[0]));
    tcase_add_loop_test(tcase, a_list_of_divisions_is_read_by_interval_and_written_back, 0,
                        (int)(sizeof divisions_cases / sizeof divisions_cases[0]));
    tcase_add_test(tcase, a_large_segment_bounds_what_is_compared_with_it);
    tcase_add_test(tcase, an_error_lists_all_that_is_known);
    tcase_add_test(tcase, a_bad_value_is_echoed_only_in_part);
    tcase_add_test(tcase, every_key_is_documented);
    tcase_add_test(tcase, garbage_never_crashes);
    suite_add_tcase(suite, tcase);
    TCase *use = tcase_create("use");
    tcase_add_checked_fixture(use, clear_environment, NULL);
    tcase_add_test(use, what_is_written_reads_back_the_same);
    tcase_add_test(use, a_fraction_becomes_bytes_without_overflow);
    suite_add_tcase(suite, use);
}

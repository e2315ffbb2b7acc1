/* config_mxnet_test.c - MXNet's own variables configure only its pools. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/config.h"
#include "api/pleat.h"
#include "segments/classic/mxnet_options.h"
#include "tests/support/suite.h"

static const char *const variables[] = {
    "PLEAT_CONF",
    "MXNET_GPU_MEM_POOL_RESERVE",
    "MXNET_GPU_POOL_PAGE_SIZE",
    "MXNET_GPU_MEM_POOL_PAGE_SIZE",
    "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE",
    "MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF",
    "MXNET_GPU_MEM_POOL_TYPE",
    "MXNET_USE_NAIVE_STORAGE_MANAGER",
    "MXNET_USE_NAIVE_STORAGE_MANAGERS",
};

static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        ck_assert_int_eq(unsetenv(variables[i]), 0);
    }
}

static void set(const char *name, const char *value)
{
    ck_assert_int_eq(setenv(name, value, 1), 0);
}

static pl_config read_good(const char *conf)
{
    pl_config config = { .driver = PL_DRIVER_AUTO };
    pleat_status st = pl_config_read(conf, &config);
    ck_assert_msg(st == PLEAT_OK, "'%s': %s", conf, pleat_last_error()->text);
    return config;
}

static pl_mxnet_options read_own(const char *conf)
{
    pl_config config = read_good(conf);
    return pl_mxnet_own(&config.options);
}

/* `conf` is refused, and the error's text contains both parts. */
static void check_refused(const char *conf, const char *part, const char *other)
{
    pl_config config;
    ck_assert_msg(pl_config_read(conf, &config) == PLEAT_ECONF, "'%s' was read", conf);
    const char *text = pleat_last_error()->text;
    ck_assert_msg(strstr(text, part) && strstr(text, other), "no '%s' or '%s' in: %s", part, other,
                  text);
}

static const char *const pools[] = { "allocator:mxnet-naive", "allocator:mxnet-round",
                                     "allocator:mxnet19-naive", "allocator:mxnet19-round",
                                     "fallback:mxnet-naive" };

START_TEST(the_variables_set_the_options)
{
    set("MXNET_GPU_MEM_POOL_RESERVE", "9");
    set("MXNET_GPU_POOL_PAGE_SIZE", "8192");
    set("MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE", "1");
    set("MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF", "20");
    pl_mxnet_options own = read_own(pools[_i]);
    ck_assert_uint_eq(own.reserve_percent, 9);
    ck_assert_uint_eq(own.page_bytes, 8192);
    ck_assert_uint_eq(own.large_bytes, 1);
    ck_assert_uint_eq(own.cutoff, 20);
    ck_assert_int_eq(unsetenv("MXNET_GPU_POOL_PAGE_SIZE"), 0);
    set("MXNET_GPU_MEM_POOL_PAGE_SIZE", "64");
    ck_assert_uint_eq(read_own(pools[_i]).page_bytes, 64);
}
END_TEST

START_TEST(a_variable_that_is_unset_or_empty_means_the_default)
{
    pl_allocator_options defaults;
    pl_allocator_options_init(&defaults);
    for (size_t i = 1; i < sizeof variables / sizeof variables[0]; i++) {
        set(variables[i], "");
    }
    pl_mxnet_options own = read_own(pools[_i]);
    const pl_mxnet_options usual = pl_mxnet_own(&defaults);
    ck_assert_uint_eq(own.reserve_percent, usual.reserve_percent);
    ck_assert_uint_eq(own.page_bytes, usual.page_bytes);
    ck_assert_uint_eq(own.large_bytes, usual.large_bytes);
    ck_assert_uint_eq(own.cutoff, usual.cutoff);
}
END_TEST

START_TEST(the_strings_lie_above_the_variables_in_any_spelling)
{
    char conf[256];
    set("MXNET_GPU_MEM_POOL_RESERVE", "9");
    set("MXNET_GPU_POOL_PAGE_SIZE", "64");
    set("PLEAT_CONF", "mxnet_gpu_mem_pool_page_size:128,mxnet_gpu_mem_pool_reserve:10");
    snprintf(conf, sizeof conf, "%s", pools[_i]);
    pl_mxnet_options own = read_own(conf);
    ck_assert_uint_eq(own.reserve_percent, 10);
    ck_assert_uint_eq(own.page_bytes, 128);
    snprintf(conf, sizeof conf, "mxnet_gpu_pool_page_size:256,%s", pools[_i]);
    ck_assert_uint_eq(read_own(conf).page_bytes, 256);
}
END_TEST

START_TEST(a_bad_value_is_an_error_that_names_the_variable)
{
    static const char *const bad[][2] = {
        { "MXNET_GPU_MEM_POOL_RESERVE", "101" },
        { "MXNET_GPU_MEM_POOL_RESERVE", "-5" },
        { "MXNET_GPU_POOL_PAGE_SIZE", "31" },
        { "MXNET_GPU_MEM_POOL_PAGE_SIZE", "many" },
        { "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE", "0" },
        { "MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF", "35" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        clear_environment();
        set(bad[i][0], bad[i][1]);
        check_refused(pools[_i], bad[i][0], bad[i][1]);
    }
    check_refused("allocator:mxnet", bad[5][0], bad[5][1]);
}
END_TEST

START_TEST(other_programs_variables_do_not_break_other_allocators)
{
    static const char *const others[] = { "", "allocator:pleat", "allocator:torch-native",
                                          "allocator:torch-native,fallback:torch-native" };
    set("MXNET_GPU_MEM_POOL_RESERVE", "lots");
    set("MXNET_GPU_POOL_PAGE_SIZE", "64");
    set("MXNET_GPU_MEM_POOL_PAGE_SIZE", "128");
    set("MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF", "1");
    set("MXNET_GPU_MEM_POOL_TYPE", "Fancy");
    set("MXNET_USE_NAIVE_STORAGE_MANAGER", "yes");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        pl_mxnet_options own = read_own(others[i]);
        ck_assert_uint_eq(own.reserve_percent, 5);
        ck_assert_uint_eq(own.cutoff, 24);
    }
    set("PLEAT_CONF", "allocator:mxnet"); /* the argument overrides PLEAT_CONF */
    ck_assert_str_eq(read_good("allocator:pleat").allocator->name, "pleat");
}
END_TEST

START_TEST(two_spellings_must_agree)
{
    set("MXNET_GPU_POOL_PAGE_SIZE", "64");
    set("MXNET_GPU_MEM_POOL_PAGE_SIZE", "128");
    check_refused(pools[_i], "MXNET_GPU_POOL_PAGE_SIZE", "MXNET_GPU_MEM_POOL_PAGE_SIZE");
    set("MXNET_GPU_MEM_POOL_PAGE_SIZE", "64");
    ck_assert_uint_eq(read_own(pools[_i]).page_bytes, 64);
    ck_assert_int_eq(unsetenv("MXNET_GPU_POOL_PAGE_SIZE"), 0);
    set("MXNET_GPU_MEM_POOL_PAGE_SIZE", "4096"); /* the other spelling alone may give the default */
    ck_assert_uint_eq(read_own(pools[_i]).page_bytes, 4096);
}
END_TEST

START_TEST(round_needs_a_page_that_is_a_power_of_two_within_the_cutoff)
{
    static const char *const rounds[] = { "allocator:mxnet-round", "allocator:mxnet19-round" };
    char conf[256];
    set("MXNET_GPU_POOL_PAGE_SIZE", "96");
    check_refused(rounds[_i], "mxnet_gpu_pool_page_size is 96", "power of two");
    (void)read_good("allocator:mxnet-naive");
    snprintf(conf, sizeof conf, "%s,mxnet_gpu_pool_page_size:32M", rounds[_i]);
    check_refused(conf, "2^24", "mxnet_gpu_mem_pool_round_linear_cutoff");
    snprintf(conf, sizeof conf, "%s,mxnet_gpu_pool_page_size:16M", rounds[_i]);
    (void)read_good(conf);
}
END_TEST

static const struct pool_choice {
    const char *type;
    const char *naive;  /* MXNET_USE_NAIVE_STORAGE_MANAGER */
    const char *naives; /* the documented spelling */
    const char *allocator;
} pool_choices[] = {
    { NULL, NULL, NULL, "mxnet-naive" },    { "Naive", NULL, NULL, "mxnet-naive" },
    { "Round", NULL, NULL, "mxnet-round" }, { "Unpooled", NULL, NULL, "unpooled" },
    { "Round", "0", NULL, "mxnet-round" },  { "Round", "1", NULL, "unpooled" },
    { "Naive", NULL, "1", "unpooled" },     { NULL, "2", "2", "unpooled" },
    { "Round", "0", "0", "mxnet-round" },   { "", "", "", "mxnet-naive" },
    { "Unpooled", "0", "", "unpooled" },
};

START_TEST(allocator_mxnet_is_the_pool_that_the_variables_choose)
{
    const struct pool_choice *c = &pool_choices[_i];
    if (c->type) {
        set("MXNET_GPU_MEM_POOL_TYPE", c->type);
    }
    if (c->naive) {
        set("MXNET_USE_NAIVE_STORAGE_MANAGER", c->naive);
    }
    if (c->naives) {
        set("MXNET_USE_NAIVE_STORAGE_MANAGERS", c->naives);
    }
    pl_config config = read_good("allocator:mxnet");
    ck_assert_str_eq(config.allocator->name, c->allocator);
    char text[4096];
    pl_config_write(&config, text, sizeof text);
    set("MXNET_GPU_MEM_POOL_TYPE", "Naive"); /* the written text names the pool, not its alias */
    ck_assert_str_eq(read_good(text).allocator->name, c->allocator);
    ck_assert_str_eq(read_good("allocator:mxnet-round").allocator->name, "mxnet-round");
}
END_TEST

START_TEST(a_bad_choice_of_a_pool_is_an_error_that_names_the_variable)
{
    set("MXNET_GPU_MEM_POOL_TYPE", "round");
    check_refused("allocator:mxnet", "MXNET_GPU_MEM_POOL_TYPE", "Naive, Round, Unpooled");
    set("MXNET_USE_NAIVE_STORAGE_MANAGER", "1"); /* takes precedence, but the other is checked */
    check_refused("allocator:mxnet", "MXNET_GPU_MEM_POOL_TYPE", "'round'");
    set("MXNET_GPU_MEM_POOL_TYPE", "Round");
    set("MXNET_USE_NAIVE_STORAGE_MANAGERS", "0");
    check_refused("allocator:mxnet", "MXNET_USE_NAIVE_STORAGE_MANAGER ",
                  "MXNET_USE_NAIVE_STORAGE_MANAGERS ");
    set("MXNET_USE_NAIVE_STORAGE_MANAGERS", "True");
    check_refused("allocator:mxnet", "MXNET_USE_NAIVE_STORAGE_MANAGERS", "'True'");
}
END_TEST

static void add_pools(TCase *tcase)
{
    const int n_pools = (int)(sizeof pools / sizeof pools[0]);
    tcase_add_loop_test(tcase, the_variables_set_the_options, 0, n_pools);
    tcase_add_loop_test(tcase, a_variable_that_is_unset_or_empty_means_the_default, 0, n_pools);
    tcase_add_loop_test(tcase, the_strings_lie_above_the_variables_in_any_spelling, 0, n_pools);
    tcase_add_loop_test(tcase, a_bad_value_is_an_error_that_names_the_variable, 0, n_pools);
    tcase_add_loop_test(tcase, two_spellings_must_agree, 0, n_pools);
    tcase_add_loop_test(tcase, round_needs_a_page_that_is_a_power_of_two_within_the_cutoff, 0, 2);
    tcase_add_loop_test(tcase, allocator_mxnet_is_the_pool_that_the_variables_choose, 0,
                        (int)(sizeof pool_choices / sizeof pool_choices[0]));
}

SUITE(api_config_mxnet)
{
    TCase *tcase = tcase_create("variables");
    tcase_add_checked_fixture(tcase, clear_environment, NULL);
    tcase_add_test(tcase, other_programs_variables_do_not_break_other_allocators);
    tcase_add_test(tcase, a_bad_choice_of_a_pool_is_an_error_that_names_the_variable);
    add_pools(tcase);
    suite_add_tcase(suite, tcase);
}

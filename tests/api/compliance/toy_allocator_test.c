/* toy_allocator_test.c - the example of docs/allocators.md. An allocator in one file is listed, has
 * a separate option and passes the tests of the classic caches. */
/* labels: unit fault */
/* alone: it adds an allocator to the list of all */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/config.h"
#include "api/pleat.h"
#include "segments/base/tree.h"
#include "segments/classic/cache.h"
#include "segments/classic/order.h"
#include "segments/classic/torch/torch_options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_cache_load.h"
#include "tests/support/segments/segments_faults.h"
#include "tests/support/suite.h"

/* ---- the toy: one driver allocation for each request, in multiples of toy_unit_kib --------- */

typedef struct pl_toy_options {
    size_t unit_bytes;
} pl_toy_options;

static const pl_option rows[] = {
    { "toy_unit_kib", PL_OPTION_NUMBER, PL_OPTION_AT(pl_toy_options, unit_bytes), .initial = 64,
      .least = 1, .most = 1024, .scale = 1024, .help = "sizes are multiples of it" },
};

static const pl_option_table pl_toy_option_table = {
    PL_OPTION_ROWS(rows),
    .bytes = sizeof(pl_toy_options),
};

static pl_toy_options pl_toy_own(const pl_allocator_options *options)
{
    pl_toy_options own;
    pl_own_get(options, &pl_toy_option_table, &own);
    return own;
}

typedef struct toy_block {
    pl_tree_node node;
    pleat_devptr ptr;
    size_t bytes;
    size_t requested_bytes;
    pl_stream *stream;
    uint64_t lanes; /* lanes of the streams using the block */
} toy_block;

typedef struct toy {
    pl_cache base;
    pl_toy_options options;
    pl_order order;
    pl_tree blocks; /* live, by address */
} toy;

static toy *toy_of(pl_allocator *a)
{
    return (toy *)(void *)a;
}

static toy_block *block_of(pl_tree_node *node)
{
    return node ? PL_TREE_ENTRY(node, toy_block, node) : NULL;
}

static bool is_before(const pl_tree_node *a, const pl_tree_node *b)
{
    return PL_TREE_ENTRY(a, const toy_block, node)->ptr <
           PL_TREE_ENTRY(b, const toy_block, node)->ptr;
}

static toy_block *block_around(const toy *t, pleat_devptr ptr)
{
    const toy_block key = { .ptr = ptr };
    toy_block *block = block_of(pl_tree_floor(&t->blocks, &key.node));
    return block && ptr - block->ptr < block->bytes ? block : NULL;
}

static toy_block *find_live(const toy *t, pleat_devptr ptr)
{
    toy_block *block = block_around(t, ptr);
    return block && block->ptr == ptr ? block : NULL;
}

static void begin_live(toy *t, toy_block *block)
{
    pleat_stats *s = &t->base.stats;
    unsigned pool = pl_stats_pool(block->bytes);
    t->base.reserved_bytes += block->bytes;
    pl_stats_add(s->allocation, pool, 1);
    pl_stats_add(s->allocated_bytes, pool, block->bytes);
    pl_stats_add(s->active, pool, 1);
    pl_stats_add(s->active_bytes, pool, block->bytes);
    pl_stats_add(s->reserved_bytes, pool, block->bytes);
    pl_stats_add(s->requested_bytes, pool, block->requested_bytes);
    s->rounding_bytes += block->bytes - block->requested_bytes;
}

static void end_live(toy *t, toy_block *block)
{
    pleat_stats *s = &t->base.stats;
    unsigned pool = pl_stats_pool(block->bytes);
    t->base.reserved_bytes -= block->bytes;
    pl_stats_sub(s->allocation, pool, 1);
    pl_stats_sub(s->allocated_bytes, pool, block->bytes);
    pl_stats_sub(s->active, pool, 1);
    pl_stats_sub(s->active_bytes, pool, block->bytes);
    pl_stats_sub(s->reserved_bytes, pool, block->bytes);
    pl_stats_sub(s->requested_bytes, pool, block->requested_bytes);
    s->rounding_bytes -= block->bytes - block->requested_bytes;
}

/* Called with the lock, which is dropped for the driver call. */
static pleat_status ask_driver(toy *t, toy_block *block)
{
    uint64_t limit = t->base.limit_bytes;
    if (limit != 0 && t->base.reserved_bytes + t->base.growing_bytes + block->bytes > limit) {
        return PLEAT_ENOMEM_DEVICE;
    }
    t->base.growing_bytes += block->bytes;
    pl_lock_release(&t->base.lock);
    pleat_status st = pl_device_malloc(t->base.dev, block->bytes, &block->ptr);
    pl_lock_acquire(&t->base.lock);
    t->base.growing_bytes -= block->bytes;
    return st;
}

static pleat_status toy_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    pleat_status st = pl_cache_check_request(bytes, stream);
    if (st != PLEAT_OK) {
        return st;
    }
    toy *t = toy_of(a);
    size_t unit = t->options.unit_bytes;
    pl_lock_acquire(&t->base.lock);
    toy_block *block = pl_meta_alloc(&t->base.meta, sizeof *block);
    if (!block) {
        pl_lock_release(&t->base.lock);
        return PLEAT_ENOMEM_HOST;
    }
    *block = (toy_block){ .bytes = (bytes + unit - 1) / unit * unit,
                          .requested_bytes = bytes,
                          .stream = stream,
                          .lanes = pl_order_lane(stream) };
    st = ask_driver(t, block);
    if (st == PLEAT_OK) {
        pl_tree_insert(&t->blocks, &block->node);
        begin_live(t, block);
        *out = block->ptr;
    } else {
        pl_meta_free(&t->base.meta, block);
    }
    pl_lock_release(&t->base.lock);
    return st;
}

/* Waits on the host for all streams that used the block. The block leaves the tree before the
 * driver call, since the driver may hand out its address again. */
static pleat_status free_live(toy *t, toy_block *block, pl_stream *stream)
{
    uint64_t lanes = block->lanes | (stream ? pl_order_lane(stream) : 0);
    pl_tree_remove(&t->blocks, &block->node);
    t->base.releasing_bytes += block->bytes;
    pleat_status st = pl_order_wait(&t->order, lanes, UINT32_MAX);
    if (st == PLEAT_OK) {
        pl_lock_release(&t->base.lock);
        st = pl_device_mfree(t->base.dev, block->ptr);
        pl_lock_acquire(&t->base.lock);
    }
    t->base.releasing_bytes -= block->bytes;
    if (st != PLEAT_OK) {
        pl_tree_insert(&t->blocks, &block->node);
        return st;
    }
    end_live(t, block);
    pl_meta_free(&t->base.meta, block);
    return PLEAT_OK;
}

static pleat_status free_at(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    toy *t = toy_of(&c->base);
    toy_block *block = find_live(t, ptr);
    return block ? free_live(t, block, stream) : PLEAT_EFOREIGN;
}

static pleat_status record(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    toy_block *block = find_live(toy_of(&c->base), ptr);
    if (!block) {
        return PLEAT_EFOREIGN;
    }
    block->lanes |= pl_order_lane(stream);
    return PLEAT_OK;
}

static pleat_status query(pl_cache *c, pleat_devptr ptr, pleat_block_info *out)
{
    const toy_block *block = block_around(toy_of(&c->base), ptr);
    if (!block) {
        return PLEAT_EFOREIGN;
    }
    *out = pl_cache_info(c, block->ptr, block->bytes, block->requested_bytes, block->stream);
    return PLEAT_OK;
}

/* ---- what every cache provides --------------------------------------------------------------- */

static size_t release_all(pl_cache *c)
{
    toy *t = toy_of(&c->base);
    size_t n_refused = 0;
    pl_order_wait_all(&t->order);
    for (toy_block *block; (block = block_of(pl_tree_first(&t->blocks))) != NULL;) {
        pl_tree_remove(&t->blocks, &block->node);
        n_refused += pl_device_mfree(c->dev, block->ptr) != PLEAT_OK;
        pl_meta_free(&c->meta, block);
    }
    return n_refused;
}

/* Nothing is cached. */
static pleat_status release(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    (void)c;
    (void)keep_bytes;
    (void)wait;
    *released = 0;
    return PLEAT_OK;
}

static pleat_status end_capture(pl_cache *c, pl_stream *stream)
{
    (void)c;
    (void)stream;
    return PLEAT_OK;
}

static void tell_stats(pl_cache *c, pleat_stats *out)
{
    (void)c;
    (void)out;
}

static void visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context)
{
    const toy *t = toy_of(&c->base);
    for (pl_tree_node *n = pl_tree_first(&t->blocks); n; n = pl_tree_next(n)) {
        const toy_block *block = block_of(n);
        see(context, &(pl_piece){ .base = block->ptr,
                                  .bytes = block->bytes,
                                  .requested_bytes = block->requested_bytes,
                                  .stream = block->stream,
                                  .kind = PL_PIECE_LIVE,
                                  .is_first = true });
    }
}

static int check(pl_cache *c)
{
    const toy *t = toy_of(&c->base);
    uint64_t bytes = 0;
    for (pl_tree_node *n = pl_tree_first(&t->blocks); n; n = pl_tree_next(n)) {
        bytes += block_of(n)->bytes;
    }
    return bytes + c->releasing_bytes == c->reserved_bytes ? 0 : 1;
}

static const pl_cache_kind kind = {
    .free = free_at,
    .record = record,
    .query = query,
    .release_all = release_all,
    .release = release,
    .end_capture = end_capture,
    .tell_stats = tell_stats,
    .visit = visit,
    .check = check,
};

static const pl_allocator_ops toy_ops;

static pleat_status toy_create(pl_device *dev, const pl_allocator_options *options,
                               pl_allocator **out)
{
    pl_cache *c = NULL;
    pleat_status st = pl_cache_create(sizeof(toy), &toy_ops, &kind, dev, options, &c);
    if (st == PLEAT_OK) {
        toy *t = toy_of(&c->base);
        t->options = pl_toy_own(options);
        pl_order_init(&t->order, dev, &c->lock);
        pl_tree_init(&t->blocks, is_before);
        *out = &c->base;
    }
    return st;
}

static const pl_allocator_ops toy_ops = {
    .name = "toy",
    .options = &pl_toy_option_table,
    .create = toy_create,
    .alloc = toy_alloc,
    .free = pl_cache_free,
    .set_limit = pl_cache_set_limit,
    PL_CACHE_OPS,
};

/* Replaces the list of segments/base/allocator_list.c. */
const pl_allocator_ops *const pl_allocators[] = { PL_ALLOCATOR_LIST(PL_ALLOCATOR_ADDRESS) & toy_ops,
                                                  NULL };

/* ---- its option ------------------------------------------------------------------------------ */

static pl_config read_good(const char *conf)
{
    pl_config config = { .driver = PL_DRIVER_AUTO };
    pleat_status st = pl_config_read(conf, &config);
    ck_assert_msg(st == PLEAT_OK, "'%s': %s", conf, pleat_last_error()->text);
    return config;
}

static void check_refused(const char *conf, const char *text)
{
    pl_config config;
    ck_assert_int_eq(pl_config_read(conf, &config), PLEAT_ECONF);
    ck_assert_msg(strstr(pleat_last_error()->text, text) != NULL, "no '%s' in: %s", text,
                  pleat_last_error()->text);
}

START_TEST(its_option_is_read_and_written_like_any_other)
{
    char text[4096];
    pl_config config = read_good("max_split_size_mb:64");
    ck_assert_uint_eq(pl_toy_own(&config.options).unit_bytes, 64 << 10);
    config = read_good("allocator:toy, toy_unit_kib : 16 ,max_split_size_mb:64");
    ck_assert_ptr_eq(config.allocator, &toy_ops);
    ck_assert_uint_eq(pl_toy_own(&config.options).unit_bytes, 16 << 10);
    ck_assert_uint_eq(pl_torch_own(&config.options).max_split_bytes, 64 << 20);
    pl_config_write(&config, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "allocator:toy,"));
    ck_assert_ptr_nonnull(strstr(text, ",toy_unit_kib:16"));
    config = read_good(text);
    ck_assert_uint_eq(pl_toy_own(&config.options).unit_bytes, 16 << 10);
}
END_TEST

START_TEST(a_bad_value_is_an_error_that_says_what_is_allowed)
{
    check_refused("toy_unit_kib:0", "conf: bad value '0' of the key 'toy_unit_kib'; allowed: a "
                                    "number from 1 to 1024");
    check_refused("toy_unit_kib:1025", "'1025'");
    check_refused("toy_unit_kib:[1]", "'toy_unit_kib'");
    check_refused("toy_unit_kib:1,toy_unit_kib:2", "twice");
    check_refused("toy_unit:1", "toy_unit_kib");
    check_refused("allocator:toys", "cuda-async, toy, torch-pinned, mxnet");
}
END_TEST

/* ---- its behaviour --------------------------------------------------------------------------- */

START_TEST(an_instance_is_made_with_it)
{
    pleat instance;
    pleat_devptr ptr = 0;
    ck_assert_int_eq(pleat_create("driver:sim,allocator:toy,toy_unit_kib:16", &instance), PLEAT_OK);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 1000, NULL, &ptr), PLEAT_OK);
    pleat_stats stats;
    ck_assert_int_eq(pleat_device_stats(instance, 0, &stats), PLEAT_OK);
    ck_assert_uint_eq(stats.resident_bytes, 16 << 10);
    ck_assert_int_eq(pleat_block_free(instance, 0, ptr, NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
}
END_TEST

START_TEST(sizes_are_multiples_of_its_unit)
{
    pl_allocator_options options = cache_defaults();
    SET_OWN(toy, &options, unit_bytes, 96 << 10);
    cache_open(&toy_ops, "capacity:1G", &options);
    ck_assert_uint_eq(cache_info(cache_get(1, 0)).bytes, 96 << 10);
    ck_assert_uint_eq(cache_info(cache_get((96 << 10) + 1, 0)).bytes, 192 << 10);
    ck_assert_uint_eq(cache_resident(), 288 << 10);
    cache_close();
}
END_TEST

START_TEST(contents_survive_threads_and_streams)
{
    pleat_stats s = cache_load_contents(&toy_ops, NULL);
    ck_assert_uint_eq(s.resident_bytes, 0);
}
END_TEST

START_TEST(a_crowd_finds_it_sound)
{
    cache_load_crowd(&toy_ops, NULL);
}
END_TEST

START_TEST(any_call_may_fail)
{
    const fault_scenario scenario = { .ops = &toy_ops };
    fault_creation(&toy_ops);
    for (int ever_after = 0; ever_after < 2; ever_after++) {
        ck_assert_uint_gt(fault_driver(&scenario, NULL, ever_after, CACHE_UNKNOWN), 10);
        ck_assert_uint_gt(fault_host(&scenario, ever_after), 5);
    }
}
END_TEST

START_TEST(random_requests_find_it_sound)
{
    cache_load_random(&toy_ops, NULL);
}
END_TEST

SUITE(api_toy_allocator)
{
    (void)unsetenv("PLEAT_CONF");
    TCase *option = suite_case(suite, "option", NULL, NULL);
    tcase_add_test(option, its_option_is_read_and_written_like_any_other);
    tcase_add_test(option, a_bad_value_is_an_error_that_says_what_is_allowed);
    TCase *use = suite_case(suite, "use", NULL, NULL);
    tcase_add_test(use, an_instance_is_made_with_it);
    tcase_add_test(use, sizes_are_multiples_of_its_unit);
    tcase_add_test(use, contents_survive_threads_and_streams);
    tcase_add_test(use, a_crowd_finds_it_sound);
    tcase_add_test(use, any_call_may_fail);
    tcase_add_test(use, random_requests_find_it_sound);
}

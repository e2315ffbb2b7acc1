/* undo_test.c - two driver calls of an operation fail, or all calls for a while: then one of them
 * is mostly a step that undoes.
 *
 * A world with blocks, a tag, buffers, a private pool and stale addresses is drawn by a seed. One
 * operation runs while the driver fails. Whatever it answers, the walkers pass, live blocks and
 * their contents are as before, and pleat counts the memory that the simulator holds. Then the
 * driver works again: the operation succeeds, and after a trim nothing is held, mapped or stale.
 * A failing pleat_destroy tells what is left, and only then. */
/* labels: unit fault model */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/pleat_buffer.h"
#include "api/pleat_checkpoint.h"
#include "api/pleat_pool.h"
#include "api/pleat_share.h"
#include "api/pleat_tag.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { GRANULE = 1 << 14, N_BLOCKS = 20, N_PAGES = 6, MOST_FDS = 64, NAME_ROOM = 4096 };
enum { N_WORLDS = 500 }; /* of each operation */

typedef enum act {
    ALLOC,
    FREE,
    TRIM,
    TRIM_AT_ONCE,
    LIMIT,
    BUFFER_OPEN,
    BUFFER_GROW,
    BUFFER_COMMIT,
    BUFFER_DECOMMIT,
    BUFFER_CLOSE,
    SLEEP,
    WAKE,
    COMPACT,
    RESTORE,
    POOL_RELEASE,
    EXPORT,
    IMPORT,
    IMPORT_CLOSE,
    OPEN,
    DESTROY,
    N_ACTS
} act;

static const char *const act_names[] = {
    "alloc",           "free",         "trim",         "trim at once",
    "limit",           "buffer open",  "buffer grow",  "buffer commit",
    "buffer decommit", "buffer close", "sleep",        "wake",
    "compact",         "restore",      "pool release", "export",
    "import",          "import close", "open",         "destroy",
};

static const pleat_pool_id pool = { 7, 7 };

typedef struct block {
    pleat_devptr ptr; /* 0 = none */
    size_t bytes;
    uint64_t contents; /* the seed of its pattern */
    int stream;
    bool is_tagged;
} block;

static struct world {
    act act;
    uint64_t seed;
    uint64_t state; /* of the random numbers */
    char fault[160];
    pleat instance;
    void *streams[2]; /* [0] is the legacy default stream */
    block blocks[N_BLOCKS];
    pleat_devptr buffer; /* 0 = none */
    bool is_committed[N_PAGES];
    pleat_checkpoint checkpoint;
    bool has_pool;
    char name[NAME_ROOM];
    size_t name_bytes;
    pleat_devptr import; /* 0 = none */
} w;

static uint64_t draw(uint64_t n)
{
    w.state ^= w.state << 13;
    w.state ^= w.state >> 7;
    w.state ^= w.state << 17;
    return (w.state >> 11) % n;
}

static void blame(const char *what)
{
    ck_abort_msg("%s, world %llu, %s: %s; last error: %s", act_names[w.act],
                 (unsigned long long)w.seed, w.fault, what, pleat_last_error()->text);
}

static void must(pleat_status st, const char *what)
{
    if (st != PLEAT_OK) {
        blame(what);
    }
}

/* ---- the world ------------------------------------------------------------------------------- */

static void fill_block(block *b)
{
    b->contents = draw(UINT32_MAX);
    ck_assert_int_eq(sim.fill(w.streams[b->stream], b->ptr, b->bytes, b->contents), 0);
}

static size_t draw_bytes(void)
{
    return draw(3) == 0 ? 512 + draw(10000) : (1 + draw(9)) * GRANULE - draw(2) * 1024;
}

static pleat_status get(block *b, bool is_tagged)
{
    *b = (block){ .bytes = draw_bytes(), .stream = (int)draw(2), .is_tagged = is_tagged };
    pleat_status st = pleat_tag_alloc(w.instance, 0, is_tagged ? "weights" : NULL, b->bytes,
                                      w.streams[b->stream], &b->ptr);
    if (st == PLEAT_OK) {
        fill_block(b);
    }
    return st;
}

static pleat_status put(block *b)
{
    pleat_status st = pleat_block_free(w.instance, 0, b->ptr, w.streams[b->stream]);
    b->ptr = st == PLEAT_OK ? 0 : b->ptr;
    return st;
}

static pleat_devptr page_at(unsigned i)
{
    return w.buffer + (pleat_devptr)i * GRANULE;
}

static void fill_pages(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        if (!w.is_committed[i]) {
            w.is_committed[i] = true;
            ck_assert_int_eq(sim.fill(NULL, page_at(i), GRANULE, 100 + i), 0);
        }
    }
}

static void lay_out_buffer(void)
{
    must(pleat_buffer_create(w.instance, 0, 2 * N_PAGES * GRANULE, 1, &w.buffer), "a buffer");
    must(pleat_buffer_resize(w.instance, 0, w.buffer, 4 * GRANULE, NULL), "its pages");
    fill_pages(0, 4);
    must(pleat_buffer_decommit(w.instance, 0, w.buffer, GRANULE, GRANULE, NULL), "a page goes");
    w.is_committed[1] = false;
}

static void lay_out_pool(void)
{
    pleat_devptr ptrs[3];
    must(pleat_pool_begin(w.instance, 0, pool, NULL, NULL, NULL), "a pool");
    w.has_pool = true;
    for (size_t i = 0; i < 3; i++) {
        ptrs[i] = api_alloc(w.instance, 0, draw_bytes(), NULL);
    }
    must(pleat_checkpoint_take(w.instance, 0, pool, &w.checkpoint), "a checkpoint");
    for (size_t i = 0; i < 3; i++) {
        api_free(w.instance, 0, ptrs[i], NULL);
    }
    must(pleat_pool_end(w.instance, 0, pool), "the pool's end");
}

/* The last request takes chunks, which leaves stale addresses. Of some 20,000 worlds one has more
 * blocks than room. */
static void lay_out_blocks(void)
{
    for (unsigned i = 0; i < N_BLOCKS - 2; i++) {
        pleat_status st = get(&w.blocks[i], i % 5 == 4);
        if (st == PLEAT_ENOMEM_DEVICE) {
            break;
        }
        must(st, "a block");
    }
    for (unsigned i = 0; i < N_BLOCKS - 2; i++) {
        if (draw(5) < 2 && w.blocks[i].ptr != 0) {
            must(put(&w.blocks[i]), "a free");
        }
    }
    if (draw(2) == 0) {
        sim.finish();
    }
    must(get(&w.blocks[N_BLOCKS - 2], false), "a block that takes");
}

static void make_instance(void)
{
    static const char *const kinds[] = { "", ",unkind:[partial_unmap]" };
    static const char *const options[] = { ",chunks:mixed,chunk_share:1", ",chunks:granule",
                                           ",growth:frugal", "" };
    char sim_conf[128];
    char more[96];
    snprintf(sim_conf, sizeof sim_conf, "capacity:%s,granularity:16K,backing:memory,depth:%s%s",
             draw(2) == 0 ? "2M" : "4M", draw(2) == 0 ? "4" : "100000", kinds[draw(2)]);
    snprintf(more, sizeof more, "shareable:True,reserve_mb:0%s", options[draw(4)]);
    w.instance = api_make(API_PLEAT, sim_conf, more);
}

static void put_to_sleep(void)
{
    must(pleat_tag_sleep(w.instance, 0, "weights", PLEAT_SLEEP_HOST, NULL, NULL), "the sleep");
}

static void name_block(void)
{
    must(pleat_share_export(w.instance, 0, w.blocks[N_BLOCKS - 2].ptr, 0, w.name, sizeof w.name,
                            &w.name_bytes),
         "a name");
    ck_assert_uint_le(w.name_bytes, sizeof w.name);
}

static pleat_status open_import(void);

static void lay_out(act what, uint64_t seed)
{
    w = (struct world){ .act = what, .seed = seed, .state = seed * 0x9E3779B97F4A7C15 + 1 };
    snprintf(w.fault, sizeof w.fault, "without a fault");
    make_instance();
    if (what == OPEN) {
        return;
    }
    w.streams[1] = api_stream(w.instance, 0);
    lay_out_buffer();
    lay_out_pool();
    lay_out_blocks();
    if (draw(3) > 0) {
        sim.finish();
    }
    if (what == WAKE) {
        put_to_sleep();
    } else if (what == EXPORT || what == IMPORT || what == IMPORT_CLOSE) {
        name_block();
    }
    if (what == IMPORT_CLOSE) {
        must(open_import(), "an import");
        sim.finish();
    }
}

static bool is_asleep(void)
{
    pleat_tag_info info;
    must(pleat_tag_query(w.instance, 0, "weights", &info), "the tag");
    return info.is_asleep != 0;
}

/* ---- operations ------------------------------------------------------------------------------ */

static pleat_status get_fds(int fds[MOST_FDS], size_t *n)
{
    *n = pleat_share_n_fds(w.name, w.name_bytes);
    ck_assert_uint_le(*n, MOST_FDS);
    return pleat_share_fds(w.instance, w.name, w.name_bytes, fds, *n);
}

static void close_fds(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        close(fds[i]);
    }
}

static pleat_status export(void)
{
    int fds[MOST_FDS];
    size_t n;
    pleat_status st = get_fds(fds, &n);
    if (st == PLEAT_OK) {
        close_fds(fds, n);
    }
    return st;
}

static pleat_status open_import(void)
{
    int fds[MOST_FDS];
    size_t n;
    pleat_status st = get_fds(fds, &n);
    if (st == PLEAT_OK) {
        st = pleat_share_open_fds(w.instance, 0, w.name, w.name_bytes, fds, n, &w.import);
        close_fds(fds, n);
    }
    return st;
}

static pleat_status close_import(void)
{
    pleat_status st = pleat_share_close(w.instance, 0, w.import, NULL);
    w.import = st == PLEAT_OK ? 0 : w.import;
    return st;
}

static pleat_status commit(bool is_grown)
{
    pleat_status st = is_grown
                          ? pleat_buffer_resize(w.instance, 0, w.buffer, N_PAGES * GRANULE, NULL)
                          : pleat_buffer_commit(w.instance, 0, w.buffer, 0, N_PAGES * GRANULE,
                                                NULL);
    if (st == PLEAT_OK) {
        fill_pages(is_grown ? 4 : 0, N_PAGES);
    }
    return st;
}

static pleat_status decommit(void)
{
    pleat_status st = pleat_buffer_decommit(w.instance, 0, w.buffer, 2 * GRANULE, GRANULE, NULL);
    w.is_committed[2] = w.is_committed[2] && st != PLEAT_OK;
    return st;
}

static pleat_status close_buffer(void)
{
    pleat_status st = pleat_buffer_destroy(w.instance, 0, w.buffer, NULL);
    if (st == PLEAT_OK) {
        w.buffer = 0;
        memset(w.is_committed, 0, sizeof w.is_committed);
    }
    return st;
}

static pleat_status open_buffer(void)
{
    pleat_devptr buffer;
    pleat_status st = pleat_buffer_create(w.instance, 0, 2 * N_PAGES * GRANULE, 1, &buffer);
    if (st == PLEAT_OK) {
        must(pleat_buffer_destroy(w.instance, 0, buffer, NULL), "a buffer that has no page");
    }
    return st;
}

/* The pool's blocks are garbage, and go again. */
static void forget_restored(void *context, pleat_restored what, const pleat_pool_block *b)
{
    pleat_devptr *ptrs = context;
    for (; what == PLEAT_RESTORED_MADE && *ptrs != 0; ptrs++) {
    }
    *ptrs = what == PLEAT_RESTORED_MADE ? b->base : *ptrs;
}

static pleat_status restore(void)
{
    pleat_devptr ptrs[8] = { 0 };
    pleat_status st = pleat_checkpoint_restore(w.instance, 0, w.checkpoint, 0, forget_restored,
                                               ptrs);
    for (size_t i = 0; ptrs[i] != 0; i++) {
        must(pleat_block_free(w.instance, 0, ptrs[i], NULL), "a restored block");
    }
    return st;
}

static pleat_status release_pool(void)
{
    pleat_status st = pleat_pool_release(w.instance, 0, pool);
    w.has_pool = w.has_pool && st != PLEAT_OK;
    return st;
}

static pleat_status set_limit(void)
{
    pleat_stats s = api_stats(w.instance, 0);
    uint64_t least = (s.live_granules + s.pinned_granules + s.tied_granules) * s.granule_bytes;
    return pleat_device_set_limit(w.instance, 0, least + 4 * GRANULE);
}

static pleat_status open_device(void)
{
    pleat_devptr ptr;
    pleat_status st = pleat_block_alloc(w.instance, 0, 3 * GRANULE, NULL, &ptr);
    if (st == PLEAT_OK) {
        must(pleat_block_free(w.instance, 0, ptr, NULL), "the first block");
    }
    return st;
}

static pleat_status compact(void)
{
    pleat_compaction told;
    return pleat_device_compact(w.instance, 0, &told);
}

/* After a failed undo the tag sleeps, and the next call is a wake. */
static pleat_status sleep_or_wake(void)
{
    pleat_slept told;
    uint64_t before = api_sim_counts().physical_bytes;
    if (is_asleep()) {
        return pleat_tag_wake(w.instance, 0, "weights", 0, NULL);
    }
    pleat_status st = pleat_tag_sleep(w.instance, 0, "weights", PLEAT_SLEEP_HOST, NULL, &told);
    if (st == PLEAT_OK && told.bytes != before - api_sim_counts().physical_bytes) {
        blame("a sleep tells another number of bytes than went");
    }
    return st;
}

static block *a_live_block(void)
{
    block *b = &w.blocks[N_BLOCKS - 2];
    for (unsigned i = 0; i < N_BLOCKS - 2; i++) {
        b = w.blocks[i].ptr != 0 && !w.blocks[i].is_tagged ? &w.blocks[i] : b;
    }
    return b;
}

static pleat_status act_once(void)
{
    switch (w.act) {
    case ALLOC:
        return get(&w.blocks[N_BLOCKS - 1], false);
    case FREE:
        return put(a_live_block());
    case TRIM:
        return pleat_device_trim(w.instance, 0, 0, true, NULL);
    case TRIM_AT_ONCE:
        return pleat_device_trim(w.instance, 0, 0, false, NULL);
    case LIMIT:
        return set_limit();
    case BUFFER_OPEN:
        return open_buffer();
    case BUFFER_GROW:
        return commit(true);
    case BUFFER_COMMIT:
        return commit(false);
    case BUFFER_DECOMMIT:
        return decommit();
    case BUFFER_CLOSE:
        return close_buffer();
    case SLEEP:
        return sleep_or_wake();
    case WAKE:
        return pleat_tag_wake(w.instance, 0, "weights", 0, NULL);
    case COMPACT:
        return compact();
    case RESTORE:
        return restore();
    case POOL_RELEASE:
        return release_pool();
    case EXPORT:
        return export();
    case IMPORT:
        return open_import();
    case IMPORT_CLOSE:
        return close_import();
    case OPEN:
        return open_device();
    default:
        return pleat_destroy(w.instance, PLEAT_DESTROY_FORCE);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Two calls fail, of any kind or of these; or all do, until the operation ends. 1 is the answer of
 * a driver that is asked about addresses without memory: for a while, nobody could tell. */
static void arm(void)
{
    static const int codes[] = { 999, 2, 600, 801, 1 };
    static const char *const calls[] = {
        "cuMemUnmap",          "cuMemMap",
        "cuMemSetAccess",      "cuMemRelease",
        "cuMemCreate",         "cuMemAddressFree",
        "cuMemAddressReserve", "cuMemRetainAllocationHandle",
        "cuEventRecord",       "cuMemImportFromShareableHandle",
    };
    enum { N_CALLS = sizeof calls / sizeof calls[0] };
    uint64_t how = draw(4);
    uint64_t n = draw(UINT64_C(1) << draw(6));
    uint64_t m = draw(UINT64_C(1) << draw(4));
    int code = codes[draw(how < 2 ? 5 : 4)];
    const char *first = how % 2 == 0 ? NULL : calls[draw(N_CALLS)];
    const char *then = how == 1 ? calls[draw(N_CALLS)] : NULL;
    snprintf(w.fault, sizeof w.fault, "%s %s from %d on, code %d, %s %d", how < 2 ? "at" : "from",
             first != NULL ? first : "any call", (int)n, code, then != NULL ? then : "any", (int)m);
    if (how < 2) {
        sim.fail_at(first, n, code);
        sim.fail_at(then, first == NULL ? n + 1 + m : m, code);
        return;
    }
    sim.fail_from(first, n, code);
}

/* ---- what must hold -------------------------------------------------------------------------- */

static void check_counts(void)
{
    int broken = 0;
    must(pleat_check(w.instance, &broken), "the walkers");
    if (broken != 0) {
        char what[64];
        snprintf(what, sizeof what, "invariant %d is broken", broken);
        blame(what);
    }
    pleat_stats s = api_stats(w.instance, 0);
    pleat_sim_counts held = api_sim_counts();
    if (s.resident_bytes != held.physical_bytes || s.live_granules > s.peak_live_granules ||
        s.reserved_bytes[0].current != s.resident_bytes ||
        s.reserved_bytes[0].allocated - s.reserved_bytes[0].freed != s.resident_bytes) {
        char what[128];
        snprintf(what, sizeof what, "%llu bytes are said to be held, %llu are",
                 (unsigned long long)s.resident_bytes, (unsigned long long)held.physical_bytes);
        blame(what);
    }
}

static void check_contents(void)
{
    bool sleeps = is_asleep();
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        const block *b = &w.blocks[i];
        if (b->ptr != 0 && !(b->is_tagged && sleeps)) {
            ck_assert_int_eq(sim.verify(w.streams[b->stream], b->ptr, b->bytes, b->contents), 0);
        }
    }
    for (unsigned i = 0; i < N_PAGES; i++) {
        if (w.is_committed[i]) {
            ck_assert_int_eq(sim.verify(NULL, page_at(i), GRANULE, 100 + i), 0);
        }
    }
    sim.finish();
    pleat_sim_hazard hazard;
    if (sim.hazards(&hazard, 1) != 0) {
        blame(hazard.text);
    }
}

static void check_same(const pleat_stats *before)
{
    pleat_stats now = api_stats(w.instance, 0);
    if (now.allocation[0].current != before->allocation[0].current ||
        now.allocated_bytes[0].current != before->allocated_bytes[0].current) {
        blame("after a failure other blocks live");
    }
    if (now.reserved_bytes[0].freed < before->reserved_bytes[0].freed ||
        now.reserved_bytes[0].allocated < before->reserved_bytes[0].allocated) {
        blame("a count that only rises went back");
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void free_all(void)
{
    must(pleat_tag_wake(w.instance, 0, "weights", 0, NULL), "the wake");
    check_contents();
    if (w.import != 0) {
        must(close_import(), "the import's close");
    }
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (w.blocks[i].ptr != 0) {
            must(put(&w.blocks[i]), "a free at the end");
        }
    }
    if (w.buffer != 0) {
        must(close_buffer(), "the buffer's close");
    }
    if (w.has_pool) {
        must(release_pool(), "the pool's release");
    }
}

static void check_nothing_held(void)
{
    pleat_sim_counts held = api_sim_counts();
    pleat_stats s = api_stats(w.instance, 0);
    if (held.handles + held.mappings + held.physical_bytes + held.imported_bytes != 0 ||
        s.resident_bytes != 0 || s.stale_bytes != 0) {
        char what[128];
        snprintf(what, sizeof what, "after all there are %d handles, %d mappings, %llu stale bytes",
                 (int)held.handles, (int)held.mappings, (unsigned long long)s.stale_bytes);
        blame(what);
    }
}

/* The driver works again. */
static void recover(void)
{
    must(pleat_device_set_limit(w.instance, 0, 0), "no limit");
    if (w.act != OPEN) {
        free_all();
        sim.finish();
    }
    for (unsigned tries = 0; tries < 2; tries++) { /* a released pool drains meanwhile */
        must(pleat_device_trim(w.instance, 0, 0, true, NULL), "the trim");
    }
    if (w.act != OPEN) {
        check_counts();
        check_nothing_held();
    }
}

static void end_streams(void)
{
    if (w.streams[1] != NULL) {
        api_stream_end(w.instance, 0, w.streams[1]);
    }
}

static bool is_sim_empty(void)
{
    pleat_sim_counts n = api_sim_counts();
    return n.reservations + n.handles + n.mappings + n.allocations + n.events + n.contexts +
               n.host_bytes + n.user_objects ==
           0;
}

/* While the device was opened, or destroyed, something may have been lost. */
static void check_destroyed(pleat_status st)
{
    if (w.act != OPEN && w.act != DESTROY) {
        must(st, "destroy");
    }
    if ((st == PLEAT_OK) != is_sim_empty()) {
        blame(st == PLEAT_OK ? "destroy leaves something, and does not say so"
                             : "destroy claims a leak that is none");
    }
}

static void destroy_while_failing(void)
{
    sim.finish();
    end_streams();
    arm();
    pleat_status st = act_once();
    sim.fail_never();
    check_destroyed(st);
}

static void play(act what, uint64_t seed)
{
    lay_out(what, seed);
    if (what == DESTROY) {
        destroy_while_failing();
        return;
    }
    pleat_stats before = what == OPEN ? (pleat_stats){ 0 } : api_stats(w.instance, 0);
    arm();
    uint64_t n_faults = sim.n_faults();
    pleat_status st = act_once();
    bool is_hit = sim.n_faults() > n_faults;
    sim.fail_never();
    if (st != PLEAT_OK && !is_hit) {
        blame("it fails without a fault");
    }
    if (what != OPEN) {
        check_counts();
    }
    if (st != PLEAT_OK && what != OPEN) {
        check_same(&before);
    }
    bool is_torn = st == PLEAT_EPOISONED && what == COMPACT;
    if (what != OPEN && !is_torn) {
        check_contents();
    }
    if (st != PLEAT_OK && draw(4) > 0) {
        must(act_once(), "again, with a driver that works");
        is_torn = false;
    }
    if (draw(4) > 0 && !is_torn) {
        recover();
    }
    sim.finish();
    end_streams();
    check_destroyed(pleat_destroy(w.instance, PLEAT_DESTROY_FORCE));
}

START_TEST(an_operation_is_undone_or_tried_again)
{
    uint64_t n = suite_part(N_WORLDS);
    for (uint64_t i = 0; i < n; i++) {
        play((act)_i, i);
    }
}
END_TEST

SUITE(api_undo)
{
    TCase *all = suite_case(suite, "all", api_sim_load, NULL);
    tcase_add_loop_test(all, an_operation_is_undone_or_tried_again, 0, N_ACTS);
}

/* snapshot_test.c - snapshots of every allocator: agreement of state and history, facts about
 * blocks, failures of writing. */
/* labels: unit fault stress */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/api/api_compliance.h"
#include "tests/support/api/api_snapshot.h"
#include "tests/support/suite.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { ENTRIES = 100000, MOST_BYTES = 1 << 23 };

static char out[MOST_BYTES + 1];
static size_t n_out;
static unsigned n_writes;
static unsigned n_allowed = UINT32_MAX; /* number of writes before the output refuses */

static bool write_out(void *context, const void *bytes, size_t n)
{
    (void)context;
    if (n_writes++ >= n_allowed || n > MOST_BYTES - n_out) {
        return false;
    }
    memcpy(out + n_out, bytes, n);
    n_out += n;
    out[n_out] = '\0';
    return true;
}

static pleat_status write_snapshot(pleat instance, pleat_snapshot_format format)
{
    n_out = 0;
    n_writes = 0;
    return pleat_snapshot_write(instance, format, write_out, NULL);
}

static compliance open_recording(int allocator, const char *sim_conf)
{
    compliance c = compliance_open(allocator, sim_conf, "");
    ck_assert_int_eq(pleat_history_record(c.instance, ENTRIES, 0), PLEAT_OK);
    return c;
}

/* ---- copies ---- */

typedef struct copy {
    pl_meta meta;
    pl_snapshot_state state;
} copy;

static pl_gpu *gpu_of(pleat instance)
{
    pl_use use = pl_use_enter(instance);
    ck_assert_ptr_nonnull(use.instance);
    pl_gpu *gpu = pl_use_gpu(use.instance, 0);
    ck_assert_ptr_nonnull(gpu);
    pl_use_leave(use);
    return gpu;
}

static copy take_copy(const compliance *c)
{
    copy k = { .state = { .gpu = NULL } };
    ck_assert_int_eq(pl_meta_init(&k.meta), PLEAT_OK);
    ck_assert_int_eq(pl_snapshot_copy(gpu_of(c->instance), &k.meta, &k.state), PLEAT_OK);
    return k;
}

static void drop_copy(copy *k)
{
    pl_snapshot_forget(&k->meta, &k->state);
    ck_assert_uint_eq(pl_meta_fini(&k->meta), 0);
}

static const pl_snapshot_block *block_at(const copy *k, pleat_devptr base)
{
    for (size_t i = 0; i < k->state.n_blocks; i++) {
        if (k->state.blocks[i].base == base) {
            return &k->state.blocks[i];
        }
    }
    return NULL;
}

/* Replaying the history gives the state, and the state agrees with the statistics. */
static void check_copy(compliance *c)
{
    copy k = take_copy(c);
    const char *wrong = api_snapshot_replay(&k.state);
    ck_assert_msg(!wrong, "%s", wrong);
    api_snapshot_sums sums = api_snapshot_sum(&k.state);
    pleat_stats stats = compliance_stats(c);
    ck_assert_uint_eq(sums.n_allocated, stats.allocation[0].current);
    ck_assert_uint_eq(sums.allocated_bytes, stats.allocated_bytes[0].current);
    /* PyTorch counts the requested bytes of a block until its free is completed. */
    ck_assert_uint_ge(stats.requested_bytes[0].current, sums.requested_bytes);
    ck_assert_uint_le(stats.requested_bytes[0].current, sums.requested_bytes + sums.awaited_bytes);
    bool is_opaque = compliance_has(c, COMPLIANCE_OPAQUE);
    ck_assert_uint_eq(sums.total_bytes, is_opaque ? stats.active_bytes[0].current
                                                  : stats.resident_bytes - stats.idle_bytes);
    drop_copy(&k);
}

START_TEST(an_empty_device_has_no_segments)
{
    compliance c = open_recording(_i, "capacity:256M");
    compliance_free(&c, compliance_alloc(&c, MIB, NULL), NULL);
    compliance_finish(&c);
    compliance_trim(&c);
    copy k = take_copy(&c);
    ck_assert_uint_eq(k.state.n_blocks, 0);
    ck_assert_uint_ge(k.state.n_entries, 3); /* the freed blocks are in the history */
    ck_assert_ptr_null(api_snapshot_replay(&k.state));
    drop_copy(&k);
    compliance_close(&c);
}
END_TEST

START_TEST(the_history_leads_to_the_state_after_every_step)
{
    enum { N = 120, STEPS = 400 };
    pleat_devptr ptrs[N] = { 0 };
    unsigned seed = 7;
    compliance c = open_recording(_i, "capacity:192M,depth:16");
    for (int i = 0; i < STEPS; i++) {
        seed = seed * 1664525 + 1013904223;
        unsigned slot = (seed >> 8) % N;
        void *stream = c.streams[slot % 3];
        if (ptrs[slot] != 0) {
            compliance_free(&c, ptrs[slot], c.streams[(slot + (seed >> 28 == 0)) % 3]);
            ptrs[slot] = 0;
        } else {
            size_t bytes = (seed >> 16) % 5 == 0 ? 3 * MIB + seed % MIB : 1 + seed % (200 * KIB);
            if (compliance_try(&c, bytes, stream, &ptrs[slot]) == PLEAT_OK) {
                compliance_use(&c, stream, ptrs[slot], bytes);
            }
        }
        if (i % 97 == 96) {
            compliance_trim(&c);
        }
        check_copy(&c);
    }
    for (unsigned i = 0; i < N; i++) {
        if (ptrs[i] != 0) {
            compliance_free(&c, ptrs[i], c.streams[i % 3]);
        }
    }
    compliance_finish(&c);
    check_copy(&c);
    compliance_close(&c);
}
END_TEST

START_TEST(a_block_that_others_may_use_is_pending_until_its_free_is_completed)
{
    compliance c = open_recording(_i, "capacity:256M,depth:100000");
    pleat_devptr ptr = compliance_alloc(&c, 5 * MIB + 1, c.streams[0]);
    compliance_record(&c, ptr, c.streams[1]);
    compliance_use(&c, c.streams[1], ptr, 5 * MIB);
    compliance_free(&c, ptr, c.streams[0]);
    copy k = take_copy(&c);
    ck_assert_ptr_null(api_snapshot_replay(&k.state));
    unsigned n_completed = 0;
    for (size_t i = 0; i < k.state.n_entries; i++) {
        const pl_history_entry *entry = &k.state.entries[i];
        n_completed += entry->action == PL_ACTION_FREE_COMPLETED;
        ck_assert(entry->action > PL_ACTION_FREE_COMPLETED || entry->bytes == 5 * MIB + 1);
    }
    const pl_snapshot_block *block = block_at(&k, ptr);
    ck_assert(n_completed == 1 || (block && block->use == PL_SNAPSHOT_PENDING));
    ck_assert(n_completed == 0 || !block || block->use == PL_SNAPSHOT_INACTIVE);
    bool waits = compliance_has(&c, COMPLIANCE_WAITS_ON_REUSE) ||
                 compliance_has(&c, COMPLIANCE_ORDERS_ON_REUSE);
    bool caches = compliance_has(&c, COMPLIANCE_CACHES); /* else frees wait */
    ck_assert(n_completed == 0 || waits || !caches);
    drop_copy(&k);
    compliance_finish(&c);
    compliance_trim(&c);
    check_copy(&c);
    compliance_close(&c);
}
END_TEST

START_TEST(what_waits_for_its_own_stream_only_is_inactive)
{
    compliance c = open_recording(_i, "capacity:256M,depth:100000");
    pleat_devptr other = compliance_alloc(&c, MIB, c.streams[1]);
    pleat_devptr ptr = compliance_alloc(&c, 5 * MIB, c.streams[0]);
    compliance_use(&c, c.streams[0], ptr, 5 * MIB);
    compliance_free(&c, ptr, c.streams[0]);
    copy k = take_copy(&c);
    ck_assert_ptr_null(api_snapshot_replay(&k.state));
    api_snapshot_sums sums = api_snapshot_sum(&k.state);
    ck_assert_uint_eq(sums.n_allocated, 1);
    ck_assert_uint_eq(sums.n_pending, 0);
    drop_copy(&k);
    compliance_free(&c, other, c.streams[1]);
    compliance_close(&c);
}
END_TEST

START_TEST(segments_carry_the_stream_that_their_memory_came_on)
{
    compliance c = open_recording(_i, "capacity:256M");
    pleat_devptr ptrs[2];
    for (int i = 0; i < 2; i++) {
        ptrs[i] = compliance_alloc(&c, 3 * MIB, c.streams[i]);
    }
    copy k = take_copy(&c);
    for (size_t i = 0; i < k.state.n_entries; i++) {
        const pl_history_entry *entry = &k.state.entries[i];
        bool is_growth = entry->action == PL_ACTION_SEGMENT_ALLOC ||
                         entry->action == PL_ACTION_SEGMENT_MAP;
        const pl_snapshot_block *block = is_growth ? block_at(&k, entry->base) : NULL;
        ck_assert(!block || block->stream == entry->stream);
        if (entry->action == PL_ACTION_ALLOC) {
            ck_assert_ptr_eq(entry->stream, c.streams[entry->base == ptrs[1]]);
        }
    }
    drop_copy(&k);
    for (int i = 0; i < 2; i++) {
        compliance_free(&c, ptrs[i], c.streams[i]);
    }
    compliance_close(&c);
}
END_TEST

/* ---- writing ---- */

static size_t count_text(const char *text)
{
    size_t n = 0;
    for (const char *at = out; (at = strstr(at, text)) != NULL; at++) {
        n++;
    }
    return n;
}

START_TEST(json_lists_every_device_and_every_block)
{
    compliance c = compliance_open(_i, "capacity:256M,devices:3", "");
    pleat_devptr ptrs[4];
    for (int i = 0; i < 4; i++) {
        ptrs[i] = compliance_alloc(&c, 12345, NULL);
    }
    ck_assert_int_eq(write_snapshot(c.instance, PLEAT_SNAPSHOT_JSON), PLEAT_OK);
    ck_assert_ptr_nonnull(strstr(out, "\"device_traces\":[[],[],[]]"));
    ck_assert_uint_eq(count_text("\"active_allocated\""), 4);
    ck_assert_uint_eq(count_text("\"requested_size\":12345,\"state\""), 4);
    ck_assert_ptr_nonnull(strstr(out, "\"host_traces\":[]}"));
    for (int i = 0; i < 4; i++) {
        compliance_free(&c, ptrs[i], NULL);
    }
    compliance_close(&c);
}
END_TEST

START_TEST(what_lies_in_a_private_pool_names_it)
{
    const pleat_pool_id id = { 7, 9 };
    compliance c = open_recording(_i, "capacity:256M");
    pleat_status st = pleat_pool_begin(c.instance, 0, id, NULL, NULL, NULL);
    if (st == PLEAT_ENOTSUP) {
        compliance_close(&c);
        return;
    }
    ck_assert_int_eq(st, PLEAT_OK);
    pleat_devptr inside = compliance_alloc(&c, MIB, c.streams[0]);
    ck_assert_int_eq(pleat_pool_end(c.instance, 0, id), PLEAT_OK);
    pleat_devptr outside = compliance_alloc(&c, MIB, c.streams[0]);
    ck_assert_int_eq(write_snapshot(c.instance, PLEAT_SNAPSHOT_JSON), PLEAT_OK);
    ck_assert_uint_eq(count_text("\"segment_pool_id\":[7,9]"), 1);
    ck_assert_uint_eq(count_text("\"segment_pool_id\":[0,0]"), 1);
    ck_assert_uint_eq(count_text("\"pool_id\":[7,9]"), 2); /* segment_alloc, alloc */
    check_copy(&c);
    compliance_free(&c, inside, c.streams[0]);
    check_copy(&c);
    ck_assert_int_eq(pleat_pool_release(c.instance, 0, id), PLEAT_OK);
    check_copy(&c);
    ck_assert_int_eq(write_snapshot(c.instance, PLEAT_SNAPSHOT_JSON), PLEAT_OK);
    ck_assert_uint_eq(count_text("\"segment_pool_id\":[7,9]"), 0);
    ck_assert_uint_eq(count_text("\"pool_id\":[7,9]"), 4); /* one allocation, two parts of a free */
    compliance_free(&c, outside, c.streams[0]);
    compliance_close(&c);
}
END_TEST

/* Pools are released and begun while the snapshot is written. */
static bool write_and_rename(void *context, const void *bytes, size_t n)
{
    const pleat *instance = context;
    if (n_writes == 0 &&
        (pleat_pool_release(*instance, 0, (pleat_pool_id){ 7, 9 }) != PLEAT_OK ||
         pleat_pool_begin(*instance, 0, (pleat_pool_id){ 8, 8 }, NULL, NULL, NULL) != PLEAT_OK)) {
        return false;
    }
    return write_out(NULL, bytes, n);
}

START_TEST(a_pool_that_goes_meanwhile_leaves_its_name_in_the_snapshot)
{
    enum { N_BLOCKS = 800 };
    pleat_devptr ptrs[N_BLOCKS];
    compliance c = compliance_open(_i, "capacity:1G", ""); /* without a history pools go at once */
    pleat_status st = pleat_pool_begin(c.instance, 0, (pleat_pool_id){ 7, 9 }, NULL, NULL, NULL);
    if (st == PLEAT_ENOTSUP) {
        compliance_close(&c);
        return;
    }
    ck_assert_int_eq(st, PLEAT_OK);
    for (size_t i = 0; i < N_BLOCKS; i++) {
        ptrs[i] = compliance_alloc(&c, MIB, c.streams[i % 2]);
    }
    ck_assert_int_eq(pleat_pool_end(c.instance, 0, (pleat_pool_id){ 7, 9 }), PLEAT_OK);
    n_out = 0;
    n_writes = 0;
    ck_assert_int_eq(
        pleat_snapshot_write(c.instance, PLEAT_SNAPSHOT_JSON, write_and_rename, &c.instance),
        PLEAT_OK);
    ck_assert_uint_gt(n_writes, 1);
    ck_assert_uint_gt(count_text("\"segment_pool_id\":[7,9]"), 1);
    ck_assert_uint_eq(count_text("[8,8]"), 0);
    for (size_t i = 0; i < N_BLOCKS; i++) {
        compliance_free(&c, ptrs[i], c.streams[i % 2]);
    }
    ck_assert_int_eq(pleat_pool_end(c.instance, 0, (pleat_pool_id){ 8, 8 }), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(c.instance, 0, (pleat_pool_id){ 8, 8 }), PLEAT_OK);
    compliance_close(&c);
}
END_TEST

START_TEST(a_ring_that_ran_over_is_told)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    ck_assert_int_eq(write_snapshot(c.instance, PLEAT_SNAPSHOT_JSON), PLEAT_OK);
    ck_assert_ptr_null(strstr(out, "trace_alloc"));
    ck_assert_int_eq(pleat_history_record(c.instance, 8, 0), PLEAT_OK);
    ck_assert_int_eq(write_snapshot(c.instance, PLEAT_SNAPSHOT_JSON), PLEAT_OK);
    ck_assert_ptr_nonnull(strstr(out, "\"trace_alloc_max_entries\":8"));
    ck_assert_ptr_nonnull(strstr(out, "\"trace_alloc_overflowed\":false"));
    for (int i = 0; i < 4; i++) {
        compliance_free(&c, compliance_alloc(&c, MIB, NULL), NULL);
    }
    ck_assert_int_eq(write_snapshot(c.instance, PLEAT_SNAPSHOT_JSON), PLEAT_OK);
    ck_assert_ptr_nonnull(strstr(out, "\"trace_alloc_overflowed\":true"));
    ck_assert_uint_eq(count_text("\"action\""), 8);
    compliance_close(&c);
}
END_TEST

START_TEST(an_output_that_refuses_ends_the_snapshot_and_harms_nothing)
{
    enum { N = 300 };
    pleat_devptr ptrs[N];
    compliance c = open_recording(_i, "capacity:256M");
    for (int i = 0; i < N; i++) {
        ptrs[i] = compliance_alloc(&c, 1024, NULL);
    }
    for (n_allowed = 0;; n_allowed++) {
        pleat_status st = write_snapshot(c.instance, PLEAT_SNAPSHOT_PICKLE);
        if (st == PLEAT_OK) {
            break;
        }
        ck_assert_int_eq(st, PLEAT_EWRITE);
        ck_assert_int_eq(pleat_last_error()->status, PLEAT_EWRITE);
        ck_assert_uint_eq(n_writes, n_allowed + 1);
    }
    ck_assert_uint_gt(n_allowed, 0);
    n_allowed = UINT32_MAX;
    for (int i = 0; i < N; i++) {
        compliance_free(&c, ptrs[i], NULL);
    }
    compliance_close(&c);
}
END_TEST

static void write_when_out_of_memory(pleat instance, int device, size_t bytes, const char *text,
                                     void *context)
{
    (void)text;
    bool is_right = device == 0 && bytes == 300 * MIB;
    *(int *)context += is_right && write_snapshot(instance, PLEAT_SNAPSHOT_JSON) == PLEAT_OK;
}

START_TEST(the_callback_for_out_of_memory_may_take_one)
{
    int n_written = 0;
    pleat_devptr ptr;
    compliance c = open_recording(_i, "capacity:256M");
    ck_assert_int_eq(pleat_set_oom_callback(c.instance, write_when_out_of_memory, &n_written),
                     PLEAT_OK);
    ck_assert_int_eq(compliance_try(&c, 300 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(n_written, 1);
    ck_assert_uint_eq(count_text("\"action\":\"oom\",\"device_free\":"), 1);
    ck_assert_ptr_nonnull(strstr(out, ",\"size\":314572800,\"stream\":0,"));
    compliance_close(&c);
}
END_TEST

START_TEST(without_host_memory_it_says_so_and_holds_nothing)
{
    compliance c = open_recording(_i, "capacity:256M");
    ck_assert_int_eq(pleat_history_record(c.instance, 1000, PLEAT_HISTORY_FRAMES), PLEAT_OK);
    pleat_devptr ptr = compliance_alloc(&c, 3 * MIB, NULL);
    pleat_status st = PLEAT_ENOMEM_HOST;
    uint64_t k = 0;
    for (; st != PLEAT_OK && k < 1000; k++) {
        pl_meta_fail_at(k);
        st = write_snapshot(c.instance, PLEAT_SNAPSHOT_PICKLE);
        pl_meta_fail_never();
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST);
    }
    ck_assert_uint_gt(k, 3);
    /* Without host memory to remember frames, the snapshot only gets longer. */
    for (uint64_t at = k; at < k + 20; at++) {
        pl_meta_fail_at(at);
        ck_assert_int_eq(write_snapshot(c.instance, PLEAT_SNAPSHOT_PICKLE), PLEAT_OK);
        pl_meta_fail_never();
    }
    compliance_free(&c, ptr, NULL);
    compliance_close(&c);
}
END_TEST

/* ---- files ---- */

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/pleat-snapshot-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static size_t n_files(void)
{
    glob_t found;
    int result = glob(in_folder("*"), 0, NULL, &found);
    size_t n = result == 0 ? found.gl_pathc : 0;
    if (result == 0) {
        globfree(&found);
    }
    return n;
}

static size_t read_file(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(descriptor, 0);
    ssize_t n = read(descriptor, out, MOST_BYTES);
    ck_assert_int_ge(n, 0);
    close(descriptor);
    out[n] = '\0';
    return (size_t)n;
}

START_TEST(the_files_ending_chooses_its_format_and_a_dump_replaces_it)
{
    compliance c = open_recording(_i, "capacity:64M");
    make_folder();
    static const char *const names[] = { "a.json", "a.pickle", "json", "a.json.bak" };
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 4; i++) {
            ck_assert_int_eq(pleat_snapshot_dump(c.instance, in_folder(names[i])), PLEAT_OK);
            size_t n = read_file(in_folder(names[i]));
            ck_assert_uint_gt(n, 100);
            ck_assert_int_eq(out[0], i == 0 ? '{' : (char)0x80);
            ck_assert_int_eq(out[n - 1], i == 0 ? '\n' : '.');
        }
        ck_assert_uint_eq(n_files(), 4);
    }
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(unlink(in_folder(names[i])), 0);
    }
    ck_assert_int_eq(rmdir(folder), 0);
    compliance_close(&c);
}
END_TEST

/* The limit on the size of files plays a full disk. */
START_TEST(a_dump_that_fails_leaves_the_old_file_and_nothing_else)
{
    enum { N = 3000, LIMIT = 8192 };
    pleat_devptr ptrs[N];
    compliance c = open_recording(_i, "capacity:256M");
    make_folder();
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, in_folder("s.pickle")), PLEAT_OK);
    size_t n_before = read_file(in_folder("s.pickle"));
    char *before = malloc(n_before);
    ck_assert_ptr_nonnull(before);
    memcpy(before, out, n_before);
    for (int i = 0; i < N; i++) {
        ptrs[i] = compliance_alloc(&c, 1024, NULL);
    }
    struct rlimit usual;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &usual), 0);
    struct rlimit small = { .rlim_cur = LIMIT, .rlim_max = usual.rlim_max };
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    pleat_status st = pleat_snapshot_dump(c.instance, in_folder("s.pickle"));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &usual), 0);
    ck_assert_int_eq(st, PLEAT_EWRITE);
    ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, in_folder("s.pickle")));
    ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, strerror(EFBIG)));
    ck_assert_uint_eq(n_files(), 1);
    ck_assert_uint_eq(read_file(in_folder("s.pickle")), n_before);
    ck_assert_mem_eq(out, before, n_before);
    free(before);
    ck_assert_int_eq(unlink(in_folder("s.pickle")), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    for (int i = 0; i < N; i++) {
        compliance_free(&c, ptrs[i], NULL);
    }
    compliance_close(&c);
}
END_TEST

START_TEST(a_dump_keeps_the_mode_of_a_file_and_the_links_to_it)
{
    struct stat known;
    compliance c = compliance_open(_i, "capacity:64M", "");
    make_folder();
    ck_assert_int_eq(close(open(in_folder("s.pickle"), O_WRONLY | O_CREAT, 0600)), 0);
    ck_assert_int_eq(symlink("s.pickle", in_folder("link")), 0);
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, in_folder("link")), PLEAT_OK);
    ck_assert_int_eq(lstat(in_folder("link"), &known), 0);
    ck_assert(S_ISLNK(known.st_mode));
    ck_assert_int_eq(stat(in_folder("s.pickle"), &known), 0);
    ck_assert_uint_eq(known.st_mode, S_IFREG | 0600);
    ck_assert_uint_gt(read_file(in_folder("s.pickle")), 100);
    ck_assert_uint_eq(n_files(), 2);
    ck_assert_int_eq(unlink(in_folder("link")), 0);
    ck_assert_int_eq(symlink("/no/such/folder/s.pickle", in_folder("link")), 0);
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, in_folder("link")), PLEAT_EWRITE);
    ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, "leads to /no/such/folder/s.pickle: "));
    ck_assert_int_eq(unlink(in_folder("link")), 0);
    ck_assert_int_eq(unlink(in_folder("s.pickle")), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    compliance_close(&c);
}
END_TEST

START_TEST(a_path_that_cannot_be_written_is_named)
{
    char longest[5000];
    compliance c = compliance_open(_i, "capacity:64M", "");
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, "/no/such/folder/s.pickle"), PLEAT_EWRITE);
    ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, "/no/such/folder/s.pickle"));
    ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, strerror(ENOENT)));
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, "/tmp"), PLEAT_EWRITE);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, longest), PLEAT_EWRITE);
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, "/dev/full"), PLEAT_EWRITE);
    ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, strerror(ENOSPC)));
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, "/dev/null"), PLEAT_OK);
    struct stat known;
    ck_assert_int_eq(stat("/dev/null", &known), 0);
    ck_assert(S_ISCHR(known.st_mode));
    compliance_close(&c);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
    compliance c = compliance_open(_i, "capacity:64M", "");
    pleat gone = { 63, 12345 };
    ck_assert_int_eq(pleat_snapshot_write(c.instance, PLEAT_SNAPSHOT_JSON, NULL, NULL),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_snapshot_write(c.instance, (pleat_snapshot_format)2, write_out, NULL),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_snapshot_dump(c.instance, ""), PLEAT_EINVAL);
    ck_assert_int_eq(write_snapshot(gone, PLEAT_SNAPSHOT_JSON), PLEAT_EGONE);
    ck_assert_int_eq(pleat_snapshot_dump(gone, "/tmp/never"), PLEAT_EGONE);
    compliance_close(&c);
}
END_TEST

/* ---- threads ---- */

typedef struct crowd {
    compliance *c;
    _Atomic unsigned n_started;
    _Atomic unsigned n_steps; /* per thread, bounded: the ring must hold all events */
    _Atomic bool is_over;
    _Atomic unsigned n_wrong;
} crowd;

static void *allocate_until_over(void *arg)
{
    enum { N = 40 };
    crowd *all = arg;
    pleat_devptr ptrs[N] = { 0 };
    unsigned own = atomic_fetch_add(&all->n_started, 1);
    unsigned seed = own * 7919 + 1;
    void *stream = all->c->streams[own % COMPLIANCE_STREAMS];
    for (unsigned step = 0; !atomic_load(&all->is_over);) {
        if (step >= atomic_load(&all->n_steps)) {
            sched_yield();
            continue;
        }
        step++;
        seed = seed * 1664525 + 1013904223;
        unsigned slot = (seed >> 8) % N;
        pleat_status st = PLEAT_OK;
        if (ptrs[slot] != 0) {
            void *by = all->c->streams[(own + (seed >> 29 == 0)) % COMPLIANCE_STREAMS];
            st = pleat_block_free(all->c->instance, 0, ptrs[slot], by);
            ptrs[slot] = 0;
        } else {
            size_t bytes = seed % 7 == 0 ? 2 * MIB + seed % MIB : 1 + seed % (100 * KIB);
            st = pleat_block_alloc(all->c->instance, 0, bytes, stream, &ptrs[slot]);
        }
        all->n_wrong += st != PLEAT_OK;
    }
    for (unsigned i = 0; i < N; i++) {
        all->n_wrong += ptrs[i] != 0 &&
                        pleat_block_free(all->c->instance, 0, ptrs[i], stream) != PLEAT_OK;
    }
    return NULL;
}

START_TEST(snapshots_taken_while_eight_threads_allocate_are_consistent)
{
    enum { THREADS = 8, SNAPSHOTS = 25, STEPS = 1000 };
    pthread_t threads[THREADS];
    compliance c = compliance_open(_i, "capacity:8G,depth:32", "");
    crowd all = { .c = &c };
    ck_assert_int_eq(pleat_history_record(c.instance, (size_t)1 << 20, 0), PLEAT_OK);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_until_over, &all), 0);
    }
    while (atomic_load(&all.n_started) < THREADS) {
        usleep(100);
    }
    const char *wrong = NULL;
    for (int i = 0; i < SNAPSHOTS && !wrong; i++) {
        atomic_fetch_add(&all.n_steps, STEPS);
        copy k = take_copy(&c);
        wrong = api_snapshot_replay(&k.state);
        drop_copy(&k);
    }
    atomic_store(&all.is_over, true);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_uint_eq(all.n_wrong, 0);
    check_copy(&c);
    compliance_close(&c);
}
END_TEST

static void *record_anew_until_over(void *arg)
{
    crowd *all = arg;
    for (unsigned i = 0; !atomic_load(&all->is_over); i++) {
        unsigned flags = i % 2 ? PLEAT_HISTORY_FRAMES | PLEAT_HISTORY_FREE_FRAMES : 0;
        flags |= i % 5 == 0 ? PLEAT_HISTORY_KEEP : 0;
        size_t n_entries = i % 7 == 0 ? 0 : 1 + i % 900;
        all->n_wrong += pleat_history_record(all->c->instance, n_entries, flags) != PLEAT_OK;
        sched_yield();
    }
    return NULL;
}

START_TEST(recording_may_start_and_stop_while_snapshots_are_written)
{
    enum { THREADS = 3, SNAPSHOTS = 40, STEPS = 200 };
    pthread_t threads[THREADS];
    compliance c = compliance_open(_i, "capacity:8G,depth:32", "");
    crowd all = { .c = &c };
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL,
                                        i == 0 ? record_anew_until_over : allocate_until_over,
                                        &all),
                         0);
    }
    for (int i = 0; i < SNAPSHOTS; i++) {
        atomic_fetch_add(&all.n_steps, STEPS);
        pleat_snapshot_format format = i % 2 ? PLEAT_SNAPSHOT_JSON : PLEAT_SNAPSHOT_PICKLE;
        all.n_wrong += write_snapshot(c.instance, format) != PLEAT_OK;
        all.n_wrong += n_out < 100 || out[n_out - 1] != (i % 2 ? '\n' : '.');
    }
    atomic_store(&all.is_over, true);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(all.n_wrong, 0);
    compliance_close(&c);
}
END_TEST

SUITE(api_snapshot)
{
    static const TTest *const *const tests[] = {
        &an_empty_device_has_no_segments,
        &the_history_leads_to_the_state_after_every_step,
        &a_block_that_others_may_use_is_pending_until_its_free_is_completed,
        &what_waits_for_its_own_stream_only_is_inactive,
        &segments_carry_the_stream_that_their_memory_came_on,
        &json_lists_every_device_and_every_block,
        &what_lies_in_a_private_pool_names_it,
        &a_pool_that_goes_meanwhile_leaves_its_name_in_the_snapshot,
        &a_ring_that_ran_over_is_told,
        &an_output_that_refuses_ends_the_snapshot_and_harms_nothing,
        &the_callback_for_out_of_memory_may_take_one,
        &without_host_memory_it_says_so_and_holds_nothing,
        &the_files_ending_chooses_its_format_and_a_dump_replaces_it,
        &a_dump_that_fails_leaves_the_old_file_and_nothing_else,
        &a_dump_keeps_the_mode_of_a_file_and_the_links_to_it,
        &a_path_that_cannot_be_written_is_named,
        &bad_arguments_are_refused,
    };
    static const TTest *const *const threads[] = {
        &snapshots_taken_while_eight_threads_allocate_are_consistent,
        &recording_may_start_and_stop_while_snapshots_are_written,
    };
    compliance_add(suite, tests, sizeof tests / sizeof tests[0]);
    compliance_add_threads(suite, threads, sizeof threads / sizeof threads[0]);
}

/* api_fuzz.c - runs any bytes as a program on the public interface: pleat.h, pools, checkpoints,
 * buffers, tags, and shared memory.
 *
 * Five bytes configure simulator and instance. Then each operation is three bytes: the kind of
 * operation, and two arguments (slots of blocks and streams, sizes, modes). Operations that a
 * correct program may not do are left out (fuzz_world.h). So every fault is pleat's mistake: a
 * hazard, a broken invariant, a refusal without a reason, a leak. */
#include <stdio.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_area.h"
#include "tests/fuzz/fuzz_pool.h"

enum { HEADER_BYTES = 5, OPERATION_BYTES = 3, MOST_OPERATIONS = 400 };

typedef struct operation {
    uint8_t code;
    uint8_t a;
    uint8_t b;
} operation;

static unsigned stream_of(uint8_t byte)
{
    return byte % FUZZ_STREAMS;
}

static unsigned block_of(uint8_t byte)
{
    return byte % FUZZ_BLOCKS;
}

/* ---- the configuration ----------------------------------------------------------------------- */

static void open_world(const uint8_t header[HEADER_BYTES])
{
    static const char *const allocators[] = {
        "pleat",       "pleat",        "pleat",    "pleat",
        "pleat",       "pleat",        "pleat",    "pleat",
        "pleat",       "torch-native", "tf-bfc",   "cuda-async",
        "mxnet-naive", "mxnet-round",  "unpooled", "torch-expandable",
    };
    static const char *const growths[] = { "balanced", "frugal", "ample" };
    static const unsigned waits[] = { 0, 0, 1, 1000 };
    static const unsigned depths[] = { 0, 1, 3, 8, 30, 200, 1000, 100000 };
    const char *allocator = allocators[header[0] & 15];
    bool is_pleat = (header[0] & 15) < 9;
    bool has_memory = is_pleat && (header[0] & 48) == 16; /* a small device, since it is filled */
    unsigned granule_kib = !is_pleat || (header[0] & 32) != 0 ? 2048 : has_memory ? 16 : 64;
    unsigned n_granules = is_pleat ? 2 + header[1] % 62 : 24 + header[1] % 40;
    unsigned chunk_granules = (header[0] & 64) != 0 ? 2 : 1;
    char sim_conf[160];
    char conf[320];
    snprintf(sim_conf, sizeof sim_conf, "capacity:%uK,granularity:%uK,depth:%u,backing:%s",
             n_granules * granule_kib, granule_kib, depths[header[2] & 7],
             has_memory ? "memory" : "none");
    snprintf(conf, sizeof conf,
             "allocator:%s,chunk_granules:%u,growth:%s,cross_stream:%s,wait_ms:%u,"
             "history:%u,chunk_share:%u%s%s",
             allocator, chunk_granules, growths[(header[2] >> 3) % 3],
             (header[2] & 64) != 0 ? "settled" : "order", waits[header[3] & 3],
             (header[3] & 8) != 0 ? 16 : 0, (header[3] & 16) != 0 ? 1 : 1024,
             (header[3] & 64) != 0 ? ",address_budget:16M" : "",
             is_pleat && (header[4] & 24) == 24 ? ",shareable:True" : "");
    fuzz_world_open(sim_conf, conf, is_pleat, is_pleat && (header[4] & 4) != 0);
    fuzz_graph_open();
    fuzz_pool_open();
    fuzz_area_open();
    fuzz_create_stream(1, false);
    fuzz_create_stream(2, (header[4] & 2) != 0);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Sizes of all kinds: below and at the borders of quanta, granules and classes. */
static size_t size_of(uint8_t byte)
{
    static const size_t sizes[] = {
        1,       512,     513,     4096,    60000,         65536,   65537,         100000,
        131072,  200000,  262144,  524288,  (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20,
        3 << 20, 4 << 20, 6 << 20, 8 << 20,
    };
    enum { N = sizeof sizes / sizeof sizes[0] };
    if (byte == 255) {
        return 0;
    }
    if (byte == 254) {
        return ((size_t)1 << 60) + 1;
    }
    return byte < 160 ? sizes[byte % N] : (size_t)(byte - 159) * 17321;
}

static void alloc(operation op)
{
    unsigned index = block_of((uint8_t)(op.b >> 3));
    unsigned slot = stream_of(op.b & 7);
    for (unsigned i = 0; i < FUZZ_BLOCKS && world.blocks[index].ptr != 0; i++) {
        index = (index + 1) % FUZZ_BLOCKS;
    }
    if (fuzz_alloc_routed(index, size_of(op.a), slot)) {
        (void)fuzz_use(index, slot, true);
    }
}

static void free_block(operation op)
{
    unsigned index = block_of(op.a);
    unsigned slot = (op.b & 8) != 0 ? stream_of(op.b & 7) : world.blocks[index].owner;
    if ((op.b & 16) != 0) {
        (void)fuzz_use(index, world.blocks[index].last, false);
    }
    fuzz_free(index, slot);
}

static void trim(operation op)
{
    uint64_t released = 0;
    uint32_t allowed = FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_EPENDING) |
                       (world.is_pleat ? 0 : FUZZ_BIT(PLEAT_EDRIVER));
    fuzz_begin_call();
    pleat_status st = pleat_device_trim(world.instance, 0, (uint64_t)op.a << 17, (op.b & 1) != 0,
                                        &released);
    fuzz_end_call("trim", st, allowed);
}

/* The program submits nothing meanwhile. If a fault makes the compaction lose mappings, the next
 * compaction must find them again before any use. */
static void compact(void)
{
    pleat_compaction out;
    uint32_t allowed = FUZZ_BIT(PLEAT_OK);
    allowed |= world.is_pleat ? FUZZ_BIT(PLEAT_ECAPTURE) | FUZZ_BIT(PLEAT_ENOSPACE_VA)
                              : FUZZ_BIT(PLEAT_ENOTSUP);
    if (world.is_capturing) {
        return; /* pleat may not know the stream yet, and its capture would break */
    }
    fuzz_begin_call();
    pleat_status st = pleat_device_compact(world.instance, 0, &out);
    fuzz_end_call("compact", st, allowed);
    if (st == PLEAT_EPOISONED) {
        fuzz_begin_call();
        fuzz_end_call("compact again", pleat_device_compact(world.instance, 0, &out), allowed);
    }
}

static void set_limit(operation op)
{
    uint32_t allowed = FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_EPENDING) |
                       FUZZ_BIT(PLEAT_ENOMEM_DEVICE) |
                       (world.is_pleat ? 0 : FUZZ_BIT(PLEAT_EDRIVER));
    fuzz_begin_call();
    pleat_status st = pleat_device_set_limit(world.instance, 0, (uint64_t)op.a << 17);
    fuzz_end_call("set_limit", st, allowed);
}

static void check(void)
{
    int broken = -1;
    pleat_stats stats;
    pleat_status st = pleat_check(world.instance, &broken);
    fuzz_end_call("check", st, FUZZ_BIT(PLEAT_OK));
    fuzz_check(broken == 0, "invariant %d is broken", broken);
    st = pleat_device_stats(world.instance, 0, &stats);
    fuzz_end_call("stats", st, FUZZ_BIT(PLEAT_OK));
}

/* Lets the next call of pleat fail somewhere. */
static void arm_fault(operation op)
{
    static const char *const calls[] = {
        NULL,
        NULL,
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemUnmap",
        "cuMemRelease",
        "cuMemAddressReserve",
        "cuMemAddressFree",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventQuery",
        "cuEventSynchronize",
        "cuStreamWaitEvent",
        "cuStreamIsCapturing",
        "cuStreamGetId",
        "cuStreamSynchronize",
        "cuCtxPushCurrent",
        "cuMemAlloc",
        "cuMemFree",
        "cuMemAllocFromPoolAsync",
        "cuMemFreeAsync",
        "cuThreadExchangeStreamCaptureMode",
    };
    static const int codes[] = { 2, 2, 999, 1 };
    world.fault = (fuzz_fault){
        .is_armed = true,
        .is_for_good = (op.b & 4) != 0,
        .call = calls[op.a % (sizeof calls / sizeof calls[0])],
        .k = op.b >> 3,
        .code = codes[op.b & 3],
    };
}

static void change_streams(operation op)
{
    unsigned slot = stream_of(op.a);
    if (world.streams[slot].is_live) {
        fuzz_end_stream(slot);
    } else {
        fuzz_create_stream(slot, (op.b & 1) != 0);
    }
}

static void capture(operation op)
{
    if (!world.is_capturing) {
        fuzz_begin_capture(stream_of(op.a), op.b % 3);
    } else if ((op.b & 1) != 0) {
        fuzz_fork(stream_of(op.a));
    } else {
        fuzz_end_capture();
    }
}

static void advance_time(operation op)
{
    if (op.a == 255) {
        world.sim_finish();
    } else {
        world.sim_advance(-1, op.a);
    }
    fuzz_end_call("time", PLEAT_OK, FUZZ_BIT(PLEAT_OK));
}

static void use_pool(operation op)
{
    unsigned pool = op.a % FUZZ_POOLS;
    switch (op.b % 3) {
    case 0:
        fuzz_begin_pool(pool, (op.b & 128) != 0, stream_of(op.b >> 2 & 7));
        break;
    case 1:
        fuzz_end_pool(pool);
        break;
    default:
        fuzz_release_pool(pool);
        break;
    }
}

static void use_checkpoint(operation op)
{
    unsigned checkpoint = op.a % FUZZ_CHECKPOINTS;
    unsigned pool = (op.a >> 2) % FUZZ_POOLS;
    switch (op.b & 7) {
    case 0:
    case 1:
        fuzz_take_checkpoint(checkpoint, pool);
        break;
    case 2:
        fuzz_alloc_at(checkpoint, op.a >> 2, stream_of((uint8_t)(op.b >> 3)));
        break;
    case 3:
        fuzz_compare_pool(pool);
        break;
    case 4:
        if ((op.b & 8) != 0) {
            fuzz_hold_pool(pool);
        } else {
            fuzz_release_checkpoint(checkpoint);
        }
        break;
    default:
        fuzz_restore_checkpoint(checkpoint, (op.b & 8) != 0);
        break;
    }
}

static void use_buffer(operation op)
{
    unsigned buffer = op.a % FUZZ_BUFFERS;
    unsigned slot = stream_of((uint8_t)(op.b >> 3));
    switch (op.b & 7) {
    case 0:
        fuzz_change_buffer(buffer, op.a >> 2, (op.a & 2) != 0, slot);
        break;
    case 1:
    case 2:
        fuzz_resize_buffer(buffer, op.a >> 1, slot);
        break;
    case 3:
        fuzz_commit_buffer(buffer, op.a >> 1 & 7, op.a >> 4, true, slot);
        break;
    case 4:
        fuzz_commit_buffer(buffer, op.a >> 1 & 7, op.a >> 4, false, slot);
        break;
    default:
        fuzz_use_buffer(buffer, op.a >> 1, slot);
        break;
    }
}

static void use_tag(operation op)
{
    unsigned tag = op.a % FUZZ_TAGS;
    unsigned slot = stream_of((uint8_t)(op.b >> 3));
    unsigned index = fuzz_find(0);
    switch (op.b & 7) {
    case 0:
        fuzz_sleep(tag, (op.b & 8) != 0);
        break;
    case 1:
        fuzz_wake(tag, (op.a & 2) != 0 ? (uint64_t)op.a << 15 : 0);
        break;
    case 2:
        fuzz_limit_tag(tag, (uint64_t)(op.a >> 1) << 17);
        break;
    case 3:
        fuzz_share(block_of(op.a), slot);
        break;
    default:
        if (index < FUZZ_BLOCKS) {
            fuzz_alloc_tagged(index, size_of(op.a), slot, tag);
        }
        break;
    }
}

static void look(operation op)
{
    if ((op.b & 3) == 0) {
        fuzz_free_badly(block_of(op.a));
    } else if ((op.b & 3) == 1) {
        check();
    } else {
        fuzz_query(block_of(op.a));
    }
}

/* Only pleat has these operations. */
static void run_further(operation op)
{
    if (!world.is_pleat) {
        return;
    }
    if (op.code % 3 == 0) {
        use_checkpoint(op);
    } else if (op.code % 3 == 1) {
        use_buffer(op);
    } else {
        use_tag(op);
    }
}

static void run_operation(operation op)
{
    if (op.code >= 192) { /* the seeds of old have smaller codes */
        run_further(op);
        return;
    }
    switch (op.code % 24) {
    case 0:
        if ((op.b & 6) == 6) {
            compact();
        } else {
            trim(op);
        }
        break;
    case 1:
        set_limit(op);
        break;
    case 2:
        arm_fault(op);
        break;
    case 3:
        change_streams(op);
        break;
    case 4:
        advance_time(op);
        break;
    case 5:
    case 6:
        capture(op);
        break;
    case 7:
        fuzz_launch(op.a % FUZZ_GRAPHS, stream_of(op.b));
        break;
    case 8:
        fuzz_destroy_graph(op.a % FUZZ_GRAPHS);
        break;
    case 9:
        fuzz_release_capture(stream_of(op.a));
        break;
    case 10:
    case 11:
        use_pool(op);
        break;
    case 12:
        look(op);
        break;
    case 13:
    case 14:
    case 15:
        (void)fuzz_use(block_of(op.a), stream_of(op.b & 7), (op.b & 8) != 0);
        break;
    case 16:
    case 17:
    case 18:
        free_block(op);
        break;
    default:
        alloc(op);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < HEADER_BYTES) {
        return 0;
    }
    open_world(data);
    size_t n_operations = (n - HEADER_BYTES) / OPERATION_BYTES;
    for (size_t i = 0; i < n_operations && i < MOST_OPERATIONS; i++) {
        const uint8_t *at = data + HEADER_BYTES + i * OPERATION_BYTES;
        run_operation((operation){ .code = at[0], .a = at[1], .b = at[2] });
    }
    fuzz_graph_close();
    fuzz_area_close();
    fuzz_world_close((data[4] & 1) != 0);
    return 0;
}

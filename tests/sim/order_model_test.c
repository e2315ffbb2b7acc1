/* order_model_test.c - random streams, events and work beside a naive model of time.
 *
 * The model keeps for every operation the set of all operations before it. Operations finish by the
 * definition: once `depth` later ones are submitted, the whole set is finished. Two operations race
 * if neither set contains the other operation, one is unfinished when the second is submitted, and
 * their bytes overlap. */
/* labels: model */
#include <stdio.h>
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

enum {
    N_STREAMS = 10, /* 0 to 4 on device 0, the rest on device 1; 0 and 5 are legacy streams */
    N_EVENTS = 6,
    MAX_OPS = 512,
    N_STEPS = 900,
    N_SEEDS = 60,
    MAX_GONE = 512,
    UNIT = 256
};

typedef struct op_set {
    bool has[MAX_OPS];
} op_set;

typedef struct model_op {
    op_set before;
    int device;
    size_t index; /* among the operations of its device */
    bool is_finished;
    bool is_counted;
    unsigned first; /* touches units [first, last] of the memory */
    unsigned last;
    bool is_write;
} model_op;

static model_op ops[MAX_OPS];
static size_t n_ops;
static size_t n_submitted[2];
static op_set stream_sets[N_STREAMS];
static size_t last_ops[N_STREAMS]; /* 1 + the stream's last operation; 0: none */
static op_set event_sets[N_EVENTS];

/* Destroyed streams. Their waits count until the end of their last operation. */
static struct {
    op_set set;
    size_t last_op; /* 1 + the last operation */
    int device;
} gone[MAX_GONE];
static size_t n_gone;

static cu_stream streams[N_STREAMS];
static cu_event events[N_EVENTS];
static cu_context contexts[2];
static size_t depth;
static size_t n_races;
static uint64_t seed;

static unsigned draw(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 16) % n);
}

static int device_of(int stream)
{
    return stream >= N_STREAMS / 2;
}

static bool is_legacy(int stream)
{
    return stream % (N_STREAMS / 2) == 0;
}

static bool is_blocking(int stream)
{
    return stream % (N_STREAMS / 2) < 3;
}

static void join(op_set *set, const op_set *other)
{
    for (size_t i = 0; i < n_ops; i++) {
        set->has[i] |= other->has[i];
    }
}

static void join_default(int stream)
{
    int legacy = device_of(stream) * (N_STREAMS / 2);
    if (is_legacy(stream)) {
        join(&stream_sets[stream], &stream_sets[legacy + 1]);
        join(&stream_sets[stream], &stream_sets[legacy + 2]);
    } else if (is_blocking(stream)) {
        join(&stream_sets[stream], &stream_sets[legacy]);
    }
}

static bool is_all_finished(const op_set *set)
{
    for (size_t i = 0; i < n_ops; i++) {
        if (set->has[i] && !ops[i].is_finished) {
            return false;
        }
    }
    return true;
}

static bool is_due(const model_op *op)
{
    return !op->is_counted || n_submitted[op->device] - op->index > depth;
}

static void let_time_pass(void)
{
    bool goes_on = true;
    while (goes_on) {
        goes_on = false;
        for (size_t i = 0; i < n_ops; i++) {
            if (!ops[i].is_finished && is_due(&ops[i]) && is_all_finished(&ops[i].before)) {
                ops[i].is_finished = true;
                goes_on = true;
            }
        }
    }
}

static void finish_set(const op_set *set)
{
    for (size_t i = 0; i < n_ops; i++) {
        ops[i].is_finished |= set->has[i];
    }
    let_time_pass();
}

static bool races(const model_op *op)
{
    for (size_t i = 0; i < n_ops; i++) {
        const model_op *other = &ops[i];
        if (!other->is_finished && !op->before.has[i] && (op->is_write || other->is_write) &&
            op->first <= other->last && other->first <= op->last) {
            return true;
        }
    }
    return false;
}

static void submit(int stream, cu_devptr at, bool is_counted)
{
    model_op *op = &ops[n_ops];
    join_default(stream);
    *op = (model_op){
        .before = stream_sets[stream],
        .device = device_of(stream),
        .index = n_submitted[device_of(stream)],
        .is_counted = is_counted,
        .first = draw(48),
        .is_write = !is_counted || draw(3) != 0,
    };
    op->last = is_counted ? op->first + draw(4) : op->first;
    n_races += races(op);
    n_submitted[op->device] += is_counted;
    stream_sets[stream].has[n_ops] = true;
    n_ops++;
    last_ops[stream] = n_ops;
    let_time_pass();
    cu_devptr ptr = at + draw(2) * GRANULE + op->first * UNIT; /* one of two aliases */
    if (is_counted) {
        pleat_sim_access access = { ptr, (op->last - op->first + 1) * UNIT, op->is_write };
        ck_ok(pleat_sim_work(streams[stream], &access, 1));
    } else {
        ck_ok(cuStreamWriteValue64_v2(streams[stream], ptr, 1, 0));
    }
}

static void recreate(int stream)
{
    if (!is_blocking(stream)) {
        ck_ok(cuStreamDestroy_v2(streams[stream]));
        streams[stream] = world_stream();
        if (last_ops[stream] > 0 && n_gone < MAX_GONE) {
            gone[n_gone].set = stream_sets[stream];
            gone[n_gone].last_op = last_ops[stream];
            gone[n_gone++].device = device_of(stream);
        }
        last_ops[stream] = 0;
        memset(&stream_sets[stream], 0, sizeof(stream_sets[stream]));
    }
}

/* All operations of the context. */
static void collect_context(op_set *set, int device)
{
    memset(set, 0, sizeof(*set));
    for (int i = 0; i < N_STREAMS; i++) {
        if (device_of(i) == device) {
            join(set, &stream_sets[i]);
        }
    }
    for (size_t i = 0; i < n_gone; i++) {
        if (gone[i].device == device && !ops[gone[i].last_op - 1].is_finished) {
            join(set, &gone[i].set);
        }
    }
}

static void step_context(int event, int device)
{
    op_set set;
    collect_context(&set, device);
    if (event % 2 == device) {
        event_sets[event] = set;
        ck_ok(cuCtxRecordEvent(contexts[device], events[event]));
    } else if (draw(8) == 0) {
        finish_set(&set);
        ck_ok(cuCtxSynchronize());
    }
}

static void step(cu_devptr at)
{
    int stream = (int)draw(N_STREAMS);
    int event = (int)draw(N_EVENTS);
    int device = device_of(stream);
    ck_ok(cuCtxPushCurrent_v2(contexts[device]));
    switch (draw(17)) {
    case 0:
    case 1:
        if (event % 2 == device) {
            join_default(stream);
            event_sets[event] = stream_sets[stream];
            ck_ok(cuEventRecord(events[event], streams[stream]));
        }
        break;
    case 2:
    case 3:
    case 4:
        join(&stream_sets[stream], &event_sets[event]);
        ck_ok(cuStreamWaitEvent(streams[stream], events[event], 0));
        break;
    case 5:
        if (draw(8) == 0) {
            if (is_legacy(stream)) {
                join_default(stream);
            }
            finish_set(&stream_sets[stream]);
            ck_ok(cuStreamSynchronize(streams[stream]));
        }
        break;
    case 6:
        if (draw(8) == 0) {
            finish_set(&event_sets[event]);
            ck_ok(cuEventSynchronize(events[event]));
        }
        break;
    case 7:
        recreate(stream);
        break;
    case 8:
        submit(stream, at, false);
        break;
    case 9:
        step_context(event, device);
        break;
    default:
        submit(stream, at, true);
    }
    ck_ok(cuCtxPopCurrent_v2(NULL));
}

static size_t count_unfinished(void)
{
    size_t n = 0;
    for (size_t i = 0; i < n_ops; i++) {
        n += !ops[i].is_finished;
    }
    return n;
}

static void compare(void)
{
    ck_assert_uint_eq(world_unfinished(), count_unfinished());
    ck_assert_uint_eq(world_hazards(), n_races);
    for (int i = 0; i < N_EVENTS; i++) {
        ck_assert_int_eq(cuEventQuery(events[i]),
                         is_all_finished(&event_sets[i]) ? CU_SUCCESS : CU_NOT_READY);
    }
    for (int i = 0; i < N_STREAMS; i++) {
        if (!is_legacy(i)) {
            ck_assert_int_eq(cuStreamQuery(streams[i]),
                             is_all_finished(&stream_sets[i]) ? CU_SUCCESS : CU_NOT_READY);
        }
    }
}

static void make_objects(void)
{
    for (int device = 0; device < 2; device++) {
        ck_ok(cuDevicePrimaryCtxRetain(&contexts[device], device));
        ck_ok(cuCtxPushCurrent_v2(contexts[device]));
        for (int i = device * N_STREAMS / 2; i < (device + 1) * N_STREAMS / 2; i++) {
            streams[i] = NULL;
            if (!is_legacy(i)) {
                ck_ok(cuStreamCreate(&streams[i], is_blocking(i) ? 0 : 1));
            }
        }
        for (int i = device; i < N_EVENTS; i += 2) {
            events[i] = world_event();
        }
        ck_ok(cuCtxPopCurrent_v2(NULL));
    }
}

static void destroy_objects(void)
{
    for (int i = 0; i < N_STREAMS; i++) {
        if (!is_legacy(i)) {
            ck_ok(cuStreamDestroy_v2(streams[i]));
        }
    }
    for (int i = 0; i < N_EVENTS; i++) {
        ck_ok(cuEventDestroy_v2(events[i]));
    }
    ck_ok(cuDevicePrimaryCtxRelease_v2(0));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
}

/* Map a granule of memory twice, once for each device. */
static cu_devptr map_shared(void)
{
    cu_devptr at = world_reserve(2);
    cu_mem_handle handle = world_create(1);
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_ok(cuMemMap(at + GRANULE, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    world_allow(at, 2, 0, CU_ACCESS_READ_WRITE);
    world_allow(at, 2, 1, CU_ACCESS_READ_WRITE);
    return at;
}

static void run_once(uint64_t number)
{
    static const size_t depths[] = { 0, 1, 3, 16, 100 };
    char conf[64];
    seed = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    depth = depths[number % 5];
    n_ops = 0;
    n_races = 0;
    n_gone = 0;
    memset(last_ops, 0, sizeof(last_ops));
    memset(n_submitted, 0, sizeof(n_submitted));
    memset(stream_sets, 0, sizeof(stream_sets));
    memset(event_sets, 0, sizeof(event_sets));
    snprintf(conf, sizeof(conf), "devices:2,depth:%zu", depth);
    world_begin(conf);
    make_objects();
    cu_devptr at = map_shared();
    for (size_t i = 0; i < N_STEPS && n_ops < MAX_OPS; i++) {
        step(at);
        compare();
    }
    pleat_sim_finish();
    destroy_objects();
    world_unmap(at, 2);
    world_end_with(PLEAT_SIM_RACE, n_races);
}

/* The seed is the number behind the test's name. */
START_TEST(time_order_and_races_agree_with_the_naive_model)
{
    run_once((uint64_t)_i);
    ck_assert(n_ops > 100);
    ck_assert(n_races > 0 || depth < 2);
}
END_TEST

SUITE(sim_order_model)
{
    TCase *model = tcase_create("model");
    tcase_add_loop_test(model, time_order_and_races_agree_with_the_naive_model, 1,
                        1 + (int)suite_most(N_SEEDS));
    suite_add_tcase(suite, model);
}

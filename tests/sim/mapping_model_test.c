/* mapping_model_test.c - random virtual memory calls, most of them wrong, beside a naive model: an
 * array of granules and a list of handles. Result codes, counts, mappings and the bytes that work
 * may touch must agree after every call. */
/* labels: model */
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

enum {
    N_PLACES = 24, /* granules of address space, in N_RANGES adjacent reservations */
    N_RANGES = 3,
    N_HANDLES = 8,
    CAPACITY = 12, /* granules */
    N_STEPS = 1500,
    N_SEEDS = 40
};

typedef struct model_handle {
    bool is_live;
    cu_mem_handle value;
    unsigned granules;
    unsigned refs;
    unsigned mappings;
} model_handle;

typedef struct model_place {
    int handle;      /* -1: not mapped */
    unsigned offset; /* index of the granule in its mapping */
    int access[2];
} model_place;

static model_handle handles[N_HANDLES];
static model_place places[N_PLACES];
static cu_devptr base;
static size_t n_hazards;
static uint64_t seed;

static unsigned draw(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 16) % n);
}

static unsigned range_of(unsigned place)
{
    return place / (N_PLACES / N_RANGES);
}

/* Whether [first, first + n) lies in one reservation. */
static bool is_within(unsigned first, unsigned n)
{
    return n > 0 && first + n <= N_PLACES && range_of(first) == range_of(first + n - 1);
}

static unsigned physical(void)
{
    unsigned n = 0;
    for (int i = 0; i < N_HANDLES; i++) {
        n += handles[i].is_live ? handles[i].granules : 0;
    }
    return n;
}

static void settle(int handle)
{
    model_handle *it = &handles[handle];
    it->is_live = it->is_live && (it->refs > 0 || it->mappings > 0);
}

static void create(void)
{
    int i = (int)draw(N_HANDLES);
    unsigned n = 1 + draw(3);
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle value;
    if (handles[i].is_live) {
        return;
    }
    cu_result expected = physical() + n <= CAPACITY ? CU_SUCCESS : CU_OUT_OF_MEMORY;
    ck_assert_int_eq(cuMemCreate(&value, n * GRANULE, &prop, 0), expected);
    if (expected == CU_SUCCESS) {
        handles[i] = (model_handle){ true, value, n, 1, 0 };
    }
}

static void release(void)
{
    int i = (int)draw(N_HANDLES);
    bool is_good = handles[i].is_live && handles[i].refs > 0;
    ck_assert_int_eq(cuMemRelease(handles[i].value), is_good ? CU_SUCCESS : CU_INVALID_VALUE);
    if (is_good) {
        handles[i].refs--;
        settle(i);
    }
}

static void retain(void)
{
    unsigned place = draw(N_PLACES);
    cu_mem_handle value;
    void *address = (void *)(uintptr_t)(base + place * GRANULE + draw((unsigned)GRANULE));
    cu_result result = cuMemRetainAllocationHandle(&value, address);
    if (places[place].handle < 0) {
        ck_assert_int_eq(result, CU_INVALID_VALUE);
        return;
    }
    ck_assert_int_eq(result, CU_SUCCESS);
    ck_assert_uint_eq(value, handles[places[place].handle].value);
    handles[places[place].handle].refs++;
}

static void map(void)
{
    int i = (int)draw(N_HANDLES);
    unsigned first = draw(N_PLACES);
    unsigned n = draw(4) == 0 ? draw(5) : handles[i].granules;
    bool is_good = handles[i].is_live && handles[i].refs > 0 && n == handles[i].granules &&
                   is_within(first, n);
    for (unsigned k = 0; is_good && k < n; k++) {
        is_good = places[first + k].handle < 0;
    }
    ck_assert_int_eq(cuMemMap(base + first * GRANULE, n * GRANULE, 0, handles[i].value, 0),
                     is_good ? CU_SUCCESS : CU_INVALID_VALUE);
    for (unsigned k = 0; is_good && k < n; k++) {
        places[first + k] = (model_place){ .handle = i, .offset = k };
    }
    handles[i].mappings += is_good;
}

/* Whether the piece is whole mappings without a hole. */
static bool is_whole(unsigned first, unsigned n)
{
    bool is_good = is_within(first, n) && places[first].offset == 0;
    for (unsigned k = 0; is_good && k < n; k++) {
        is_good = places[first + k].handle >= 0;
    }
    if (!is_good) {
        return false;
    }
    const model_place *last = &places[first + n - 1];
    return last->offset == handles[last->handle].granules - 1;
}

/* Draws a piece, which often starts and ends where mappings do. */
static void draw_piece(unsigned *first, unsigned *n)
{
    *first = draw(N_PLACES);
    *n = draw(6);
    if (draw(3) != 0 && places[*first].handle >= 0) {
        *first -= places[*first].offset;
        *n = handles[places[*first].handle].granules;
    }
}

static void unmap(void)
{
    unsigned first;
    unsigned n;
    draw_piece(&first, &n);
    bool is_good = is_whole(first, n);
    ck_assert_int_eq(cuMemUnmap(base + first * GRANULE, n * GRANULE),
                     is_good ? CU_SUCCESS : CU_INVALID_VALUE);
    for (unsigned k = 0; is_good && k < n; k++) {
        model_place *place = &places[first + k];
        if (place->offset == handles[place->handle].granules - 1) {
            handles[place->handle].mappings--;
            settle(place->handle);
        }
        place->handle = -1;
    }
}

static void set_access(void)
{
    static const int flags[] = { CU_ACCESS_NONE, CU_ACCESS_READ, CU_ACCESS_READ_WRITE };
    unsigned first;
    unsigned n;
    int device = (int)draw(2);
    cu_access_desc desc = { { CU_LOCATION_DEVICE, device }, flags[draw(3)] };
    draw_piece(&first, &n);
    bool is_good = is_whole(first, n);
    ck_assert_int_eq(cuMemSetAccess(base + first * GRANULE, n * GRANULE, &desc, 1),
                     is_good ? CU_SUCCESS : CU_INVALID_VALUE);
    for (unsigned k = 0; is_good && k < n; k++) {
        places[first + k].access[device] = desc.flags;
    }
}

static void touch(void)
{
    uint64_t begin = draw(N_PLACES * (unsigned)GRANULE);
    uint64_t bytes = 1 + draw(4 * (unsigned)GRANULE);
    bool is_write = draw(2) != 0;
    bool is_good = begin + bytes <= N_PLACES * GRANULE;
    for (uint64_t k = begin / GRANULE; is_good && k <= (begin + bytes - 1) / GRANULE; k++) {
        int access = places[k].handle < 0 ? CU_ACCESS_NONE : places[k].access[0];
        is_good = is_write ? access == CU_ACCESS_READ_WRITE : access != CU_ACCESS_NONE;
    }
    pleat_sim_access access = { base + begin, bytes, is_write };
    ck_ok(pleat_sim_work(NULL, &access, 1));
    n_hazards += !is_good;
}

static size_t count_mappings(void)
{
    pleat_sim_mapping list[N_PLACES];
    size_t n = pleat_sim_mappings(list, N_PLACES);
    size_t i = 0;
    for (unsigned k = 0; k < N_PLACES; k++) {
        if (places[k].handle >= 0 && places[k].offset == 0) {
            ck_assert_uint_eq(list[i].ptr, base + k * GRANULE);
            ck_assert_uint_eq(list[i].handle, handles[places[k].handle].value);
            ck_assert_uint_eq(list[i].bytes, handles[places[k].handle].granules * GRANULE);
            ck_assert_int_eq(list[i].access, places[k].access[0]);
            i++;
        }
    }
    ck_assert_uint_eq(n, i);
    return n;
}

static void compare(void)
{
    pleat_sim_counts counts = world_counts();
    size_t n_handles = 0;
    for (int i = 0; i < N_HANDLES; i++) {
        n_handles += handles[i].is_live;
    }
    ck_assert_uint_eq(counts.handles, n_handles);
    ck_assert_uint_eq(counts.physical_bytes, physical() * GRANULE);
    ck_assert_uint_eq(counts.mappings, count_mappings());
    ck_assert_uint_eq(counts.hazards, n_hazards);
}

static void step(void)
{
    static void (*const moves[])(void) = { create, release,    retain, map,  map,
                                           unmap,  set_access, touch,  touch };
    moves[draw(sizeof(moves) / sizeof(moves[0]))]();
}

static void begin_model(uint64_t number)
{
    cu_devptr at;
    seed = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    memset(handles, 0, sizeof(handles));
    for (unsigned k = 0; k < N_PLACES; k++) {
        places[k] = (model_place){ .handle = -1 };
    }
    n_hazards = 0;
    world_begin("devices:2,capacity:24M,depth:0,granularity:2M");
    size_t bytes = N_PLACES / N_RANGES * GRANULE;
    ck_ok(cuMemAddressReserve(&base, bytes, 0, UINT64_C(1) << 40, 0));
    for (unsigned i = 1; i < N_RANGES; i++) {
        ck_ok(cuMemAddressReserve(&at, bytes, 0, base + i * bytes, 0));
        ck_assert_uint_eq(at, base + i * bytes);
    }
}

static void end_model(void)
{
    size_t bytes = N_PLACES / N_RANGES * GRANULE;
    for (unsigned k = 0; k < N_PLACES; k++) {
        if (places[k].handle >= 0 && places[k].offset == 0) {
            ck_ok(cuMemUnmap(base + k * GRANULE, handles[places[k].handle].granules * GRANULE));
        }
    }
    for (int i = 0; i < N_HANDLES; i++) {
        for (; handles[i].is_live && handles[i].refs > 0; handles[i].refs--) {
            ck_ok(cuMemRelease(handles[i].value));
        }
    }
    for (unsigned i = 0; i < N_RANGES; i++) {
        ck_ok(cuMemAddressFree(base + i * bytes, bytes));
    }
    world_end_with(PLEAT_SIM_UNMAPPED_ACCESS, n_hazards);
}

/* The seed is the number behind the test's name. */
START_TEST(calls_agree_with_the_naive_model)
{
    begin_model((uint64_t)_i);
    for (int i = 0; i < N_STEPS; i++) {
        step();
        compare();
    }
    ck_assert_uint_gt(n_hazards, 0);
    ck_assert_uint_eq(world_counts().peak_physical_bytes, CAPACITY * GRANULE);
    end_model();
}
END_TEST

SUITE(sim_mapping_model)
{
    TCase *model = tcase_create("model");
    tcase_add_loop_test(model, calls_agree_with_the_naive_model, 1, 1 + (int)suite_most(N_SEEDS));
    suite_add_tcase(suite, model);
}

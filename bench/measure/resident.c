/* resident.c - measures a free and an allocation in memory that is already resident. */
#include "bench/measure/resident.h"

#include <stdlib.h>
#include <time.h>

#include "api/calls/internal.h"

#define UNIT_BYTES 512u
#define LARGEST_UNITS 69632u
#define SMALL_UNITS 2048u /* PyTorch treats blocks up to 1 MiB separately */
#define N_SPARE 64u       /* spare blocks of the largest size, and of the largest small size */
#define LEAST_MOVABLE 8u

typedef struct field {
    const bench_resident_options *options;
    bench_failure *failure;
    pleat instance;
    pl_driver *drv;
    pleat_devptr *walls; /* room for the gaps, too */
    pleat_devptr *movable;
    bench_pair *pairs;
    unsigned n_movable;
    unsigned n_walls;
    bench_random random;
} field;

uint64_t bench_resident_draw_bytes(bench_random *random)
{
    uint64_t kind = bench_random_between(random, 1, 10);
    uint64_t units;
    if (kind <= 6) {
        units = bench_random_between(random, 1, 64);
    } else if (kind <= 9) {
        units = bench_random_between(random, 64, 4160);
    } else {
        units = bench_random_between(random, 4096, LARGEST_UNITS);
    }
    return units * UNIT_BYTES;
}

static void draw_pairs(field *f)
{
    for (unsigned i = 0; i < f->options->n_pairs; i++) {
        f->pairs[i].index = (uint32_t)bench_random_between(&f->random, 0, f->n_movable - 1);
        f->pairs[i].bytes = bench_resident_draw_bytes(&f->random);
    }
}

static inline __attribute__((always_inline)) pleat_status run_pairs(pleat instance,
                                                                    pleat_devptr *blocks,
                                                                    const bench_pair *pairs,
                                                                    unsigned n_pairs)
{
    pleat_status st = PLEAT_OK;
    for (unsigned i = 0; i < n_pairs && st == PLEAT_OK; i++) {
        pleat_devptr *block = &blocks[pairs[i].index];
        st = pleat_block_free(instance, 0, *block, NULL);
        if (st == PLEAT_OK) {
            st = pleat_block_alloc(instance, 0, pairs[i].bytes, NULL, block);
        }
    }
    return st;
}

__attribute__((noinline)) pleat_status bench_resident_pairs(pleat instance, pleat_devptr *blocks,
                                                            const bench_pair *pairs,
                                                            unsigned n_pairs)
{
    return run_pairs(instance, blocks, pairs, n_pairs);
}

/* A copy of bench_resident_pairs under a name that callgrind does not count. */
static __attribute__((noinline)) pleat_status warm_up(field *f, unsigned n_pairs)
{
    return run_pairs(f->instance, f->movable, f->pairs, n_pairs);
}

static bool say(field *f, const char *what)
{
    return bench_fail(f->failure, "%s: %s: %s", f->options->allocator, what,
                      pleat_last_error()->text);
}

static bool allocate(field *f, uint64_t bytes, pleat_devptr *out)
{
    return pleat_block_alloc(f->instance, 0, bytes, NULL, out) == PLEAT_OK ||
           say(f, "an allocation failed");
}

static bool release(field *f, pleat_devptr ptr)
{
    return pleat_block_free(f->instance, 0, ptr, NULL) == PLEAT_OK || say(f, "a free failed");
}

static int by_address(const void *a, const void *b)
{
    pleat_devptr x = *(const pleat_devptr *)a;
    pleat_devptr y = *(const pleat_devptr *)b;
    return (x > y) - (x < y);
}

/* Allocate twice as many blocks as gaps are wanted, and free every second one in the order of
 * addresses. So the allocator's placement does not matter. The walls stay in the first half of the
 * array. */
static bool build_gaps(field *f)
{
    unsigned n = 2 * f->n_walls;
    for (unsigned i = 0; i < n; i++) {
        if (!allocate(f, bench_resident_draw_bytes(&f->random), &f->walls[i])) {
            return false;
        }
    }
    qsort(f->walls, n, sizeof *f->walls, by_address);
    for (unsigned i = 0; i < n; i += 2) {
        if (!release(f, f->walls[i + 1])) {
            return false;
        }
        f->walls[i / 2] = f->walls[i];
    }
    return true;
}

static bool build(field *f)
{
    pleat_devptr spare[2 * N_SPARE];
    for (unsigned i = 0; i < 2 * N_SPARE; i++) {
        uint64_t units = i < N_SPARE ? LARGEST_UNITS : SMALL_UNITS;
        if (!allocate(f, units * UNIT_BYTES, &spare[i])) {
            return false;
        }
    }
    if (!build_gaps(f)) {
        return false;
    }
    for (unsigned i = 0; i < 2 * N_SPARE; i++) {
        if (!release(f, spare[i])) {
            return false;
        }
    }
    for (unsigned i = 0; i < f->n_movable; i++) {
        if (!allocate(f, bench_resident_draw_bytes(&f->random), &f->movable[i])) {
            return false;
        }
    }
    return true;
}

static int by_base(const void *a, const void *b)
{
    const pleat_block_info *x = a;
    const pleat_block_info *y = b;
    return (x->base > y->base) - (x->base < y->base);
}

/* Count the free blocks by the addresses of live blocks, so the count means the same for every
 * allocator. */
static bool count_free(field *f, uint64_t *n_free, uint64_t *live_bytes)
{
    unsigned n = f->n_walls + f->n_movable;
    pleat_block_info *live = calloc(n, sizeof *live);
    if (!live) {
        return bench_fail(f->failure, "out of host memory");
    }
    bool ok = true;
    *n_free = 0;
    *live_bytes = 0;
    for (unsigned i = 0; i < n && ok; i++) {
        pleat_devptr ptr = i < f->n_walls ? f->walls[i] : f->movable[i - f->n_walls];
        ok = pleat_block_query(f->instance, 0, ptr, &live[i]) == PLEAT_OK ||
             say(f, "a query failed");
        *live_bytes += live[i].bytes;
    }
    qsort(live, n, sizeof *live, by_base);
    for (unsigned i = 1; i < n && ok; i++) {
        *n_free += live[i - 1].base + live[i - 1].bytes < live[i].base;
    }
    free(live);
    return ok;
}

static uint64_t all_driver_calls(const field *f)
{
    uint64_t sum = 0;
    for (int i = 0; i < PL_N_ENTRIES; i++) {
        sum += pl_driver_n_calls(f->drv, (pl_entry)i);
    }
    return sum;
}

/* This thread's processor time. Other programs are excluded, and a pair never blocks. */
static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool measure(field *f, bench_resident_result *out)
{
    unsigned n_pairs = f->options->n_pairs;
    draw_pairs(f);
    if (warm_up(f, n_pairs) != PLEAT_OK) {
        return say(f, "a pair failed");
    }
    if (!count_free(f, &out->n_free_start, &out->live_bytes_start)) {
        return false;
    }
    uint64_t calls = all_driver_calls(f);
    uint64_t least_ns = UINT64_MAX;
    for (unsigned round = 0; round < f->options->n_rounds; round++) {
        draw_pairs(f);
        uint64_t begin = thread_ns();
        pleat_status st = bench_resident_pairs(f->instance, f->movable, f->pairs, n_pairs);
        uint64_t ns = thread_ns() - begin;
        if (st != PLEAT_OK) {
            return say(f, "a pair failed");
        }
        least_ns = ns < least_ns ? ns : least_ns;
    }
    out->n_driver_calls = all_driver_calls(f) - calls;
    out->n_live = f->n_walls + f->n_movable;
    out->ns_per_pair = (double)least_ns / n_pairs;
    return count_free(f, &out->n_free_end, &out->live_bytes_end);
}

static bool run_with_instance(field *f, bench_resident_result *out)
{
    f->drv = pleat_internal_driver(f->instance);
    bool ok = f->drv && build(f) && measure(f, out);
    pleat_status st = pleat_destroy(f->instance, PLEAT_DESTROY_FORCE);
    return ok && (st == PLEAT_OK || say(f, "destruction failed"));
}

bool bench_resident(const bench_resident_options *options, bench_resident_result *out,
                    bench_failure *failure)
{
    field f = { .options = options, .failure = failure, .random = { options->seed } };
    unsigned n = options->n_blocks;
    f.n_movable = n / 8 > LEAST_MOVABLE ? n / 8 : LEAST_MOVABLE;
    f.n_walls = n + f.n_movable; /* a movable block fills about one gap */
    f.walls = calloc(2 * (size_t)f.n_walls, sizeof *f.walls);
    f.movable = calloc(f.n_movable, sizeof *f.movable);
    f.pairs = calloc(options->n_pairs, sizeof *f.pairs);
    bool ok = f.walls && f.movable && f.pairs;
    if (!ok) {
        bench_fail(failure, "out of host memory");
    } else {
        ok = bench_setup_create(options->setup, options->allocator, 0, &f.instance, failure) &&
             run_with_instance(&f, out);
    }
    free(f.walls);
    free(f.movable);
    free(f.pairs);
    return ok;
}

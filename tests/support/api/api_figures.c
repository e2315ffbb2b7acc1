/* api_figures.c - see api_figures.h. */
#include "tests/support/api/api_figures.h"

#include <check.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { QUANTUM = 512 };

static size_t rounded(size_t requested)
{
    return (requested + QUANTUM - 1) / QUANTUM * QUANTUM;
}

static void begin(pleat_stat group[PLEAT_N_SIZES], unsigned pool, uint64_t n)
{
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        if (i == PLEAT_SIZES_ALL || i == pool) {
            pleat_stat *s = &group[i];
            s->current += n;
            s->allocated += n;
            s->peak = s->current > s->peak ? s->current : s->peak;
        }
    }
}

static void end(pleat_stat group[PLEAT_N_SIZES], unsigned pool, uint64_t n)
{
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        if (i == PLEAT_SIZES_ALL || i == pool) {
            group[i].current -= n;
            group[i].freed += n;
        }
    }
}

static unsigned pool_of(size_t requested)
{
    return rounded(requested) <= MIB ? PLEAT_SIZES_SMALL : PLEAT_SIZES_LARGE;
}

void api_figures_begin(api_figures *f, size_t requested)
{
    unsigned pool = pool_of(requested);
    begin(f->n, pool, 1);
    begin(f->bytes, pool, rounded(requested));
    begin(f->requested, pool, requested);
}

void api_figures_end(api_figures *f, size_t requested)
{
    unsigned pool = pool_of(requested);
    end(f->n, pool, 1);
    end(f->bytes, pool, rounded(requested));
    end(f->requested, pool, requested);
}

void api_figures_reset_peaks(api_figures *f)
{
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        f->n[i].peak = f->n[i].current;
        f->bytes[i].peak = f->bytes[i].current;
        f->requested[i].peak = f->requested[i].current;
    }
}

static void expect(const char *name, const pleat_stat *want, const pleat_stat *is, uint64_t when)
{
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        ck_assert_msg(memcmp(&want[i], &is[i], sizeof is[i]) == 0,
                      "at %llu: %s[%u] is { current %llu, peak %llu, allocated %llu, freed %llu }, "
                      "not { %llu, %llu, %llu, %llu }",
                      (unsigned long long)when, name, i, (unsigned long long)is[i].current,
                      (unsigned long long)is[i].peak, (unsigned long long)is[i].allocated,
                      (unsigned long long)is[i].freed, (unsigned long long)want[i].current,
                      (unsigned long long)want[i].peak, (unsigned long long)want[i].allocated,
                      (unsigned long long)want[i].freed);
    }
}

void api_figures_expect(const api_figures *f, const pleat_stats *s, uint64_t when)
{
    expect("allocation", f->n, s->allocation, when);
    expect("allocated_bytes", f->bytes, s->allocated_bytes, when);
    expect("requested_bytes", f->requested, s->requested_bytes, when);
}

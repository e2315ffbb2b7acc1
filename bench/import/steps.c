/* steps.c - see steps.h. */
#include "bench/import/steps.h"

enum {
    /* Of a step's height, or of the peak: levels that differ by at most this part are equal. The
     * lengths of batches differ, and the last batch may live between two steps. */
    LEVEL_PARTS = 20,
    /* Steps. The first one may be the loading of the weights, and what it keeps lives in all later
     * ones. So three further ones have to be seen. */
    LEAST_STEPS = 4,
    /* Of a step's height. If all later steps stay below the first two by more than this part, they
     * are of another kind, such as evaluations. */
    KIND_PARTS = 4,
    /* Of the lows, or of the highs. Each part has one level, so steps that vary do not hide a
     * rise. */
    MOST_PARTS = 8,
    /* Steps, more than most trainings have. A rise that adds up to no other level by then changes
     * nothing, such as a loss of 512 bytes that each step keeps. */
    LONGEST_RUN = 100000,
};

/* ---- highs and lows -------------------------------------------------------------------------- */

/* The depth of the deepest valley: how far below both the highest level before it and the highest
 * one behind it. `before` and `behind` move towards each other from the ends; the lower of their
 * highest levels bounds its own side. */
static uint64_t deepest(const uint64_t *levels, size_t n)
{
    uint64_t most = 0;
    uint64_t high_before = 0;
    uint64_t high_behind = 0;
    for (size_t before = 0, behind = n; before < behind;) {
        bool is_before = high_before <= high_behind;
        uint64_t level = is_before ? levels[before++] : levels[--behind];
        uint64_t *high = is_before ? &high_before : &high_behind;
        *high = level > *high ? level : *high;
        most = *high - level > most ? *high - level : most;
    }
    return most;
}

/* The highs and the lows of a recording in turn: a high and a low are a step. */
typedef struct course {
    const uint64_t *at;
    size_t n_steps;
    bool is_up; /* behind the last step: it has gone up, and not come down */
} course;

/* Keep what goes up and down by at least this depth, in the place of the levels. */
static course keep_course(uint64_t *levels, size_t n, uint64_t depth)
{
    size_t n_kept = 0; /* each high and each low has its own entry */
    uint64_t high = 0;
    uint64_t low = 0;
    bool is_down = false;
    for (size_t i = 0; i < n; i++) {
        uint64_t level = levels[i];
        if (is_down && level >= low + depth) {
            levels[n_kept++] = high;
            levels[n_kept++] = low;
            is_down = false;
            high = level;
        } else if (is_down) {
            low = level < low ? level : low;
        } else {
            high = level > high ? level : high;
            is_down = high - level >= depth;
            low = level;
        }
    }
    if (is_down) {
        levels[n_kept++] = high;
        levels[n_kept++] = low;
    }
    return (course){ levels, n_kept / 2, !is_down };
}

/* Highs or lows: every second level of a course. */
typedef struct row {
    const uint64_t *first;
    size_t n;
    bool is_high;
} row;

static row highs_of(const course *c, size_t from, size_t end)
{
    return (row){ c->at + 2 * from, end - from, true };
}

static row lows_of(const course *c, size_t from, size_t end)
{
    return (row){ c->at + 2 * from + 1, end - from, false };
}

static uint64_t most_of(row r)
{
    uint64_t most = 0;
    for (size_t i = 0; i < r.n; i++) {
        most = r.first[2 * i] > most ? r.first[2 * i] : most;
    }
    return most;
}

/* The level of a part: of highs the highest one, of lows the lowest one. */
static uint64_t part_of(row r, size_t part, size_t n_parts)
{
    size_t from = part * r.n / n_parts;
    size_t end = (part + 1) * r.n / n_parts;
    uint64_t level = r.first[2 * from];
    for (size_t i = from; i < end; i++) {
        uint64_t other = r.first[2 * i];
        level = (r.is_high ? other > level : other < level) ? other : level;
    }
    return level;
}

/* From a step to the next, on the mean; 0 = no rise. No part lies below the one before it, and the
 * second half rises: what came with the first steps and then stayed is no rise. */
static uint64_t rise_of(row r, uint64_t peak)
{
    size_t n_parts = r.n < MOST_PARTS ? r.n : MOST_PARTS;
    if (n_parts < LEAST_STEPS - 1) {
        return 0;
    }
    uint64_t first = part_of(r, 0, n_parts);
    uint64_t middle = first;
    uint64_t last = first;
    for (size_t part = 1; part < n_parts; part++) {
        uint64_t level = part_of(r, part, n_parts);
        if (level < last) {
            return 0;
        }
        last = level;
        middle = 2 * part < n_parts ? level : middle;
    }
    uint64_t of_step = last > middle ? (last - first) / ((n_parts - 1) * r.n / n_parts) : 0;
    return of_step > peak / LEVEL_PARTS / LONGEST_RUN ? of_step : 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* More lives at the end than between two steps; without steps, than in the second half. */
static bool ends_high(const uint64_t *levels, size_t n, uint64_t peak)
{
    uint64_t end = n > 0 ? levels[n - 1] : 0;
    uint64_t low = end;
    for (size_t i = n / 2; i < n; i++) {
        low = levels[i] < low ? levels[i] : low;
    }
    return end - low > peak / LEVEL_PARTS;
}

/* A run that frees everything at its end has no valley there. The first valley may come before the
 * first step. A rise by more than a step's height is one step, whose layers go up and down. */
static void find_rise(const course *c, uint64_t height, uint64_t peak, bench_steps *out)
{
    size_t n = c->n_steps;
    size_t end = c->at[2 * n - 1] < c->at[2 * n - 3] ? n - 1 : n;
    row lows = lows_of(c, 1, end);
    uint64_t rise = rise_of(lows, peak);
    out->n_rise_steps = rise > 0 ? lows.n - 1 : 0;
    out->rise_bytes = rise;
    if (rise * out->n_rise_steps > height) {
        out->is_unrepeated = true;
        out->rise_bytes = out->n_rise_steps = 0;
    }
}

/* A high and a low that differ by no more than equal levels are no step. */
void bench_steps_look(uint64_t *levels, size_t n, uint64_t peak, bench_steps *out)
{
    uint64_t end = n > 0 ? levels[n - 1] : 0;
    uint64_t height = deepest(levels, n);
    *out = (bench_steps){ .ends_high = ends_high(levels, n, peak), .is_unrepeated = true };
    if (height <= peak / LEVEL_PARTS) {
        return;
    }
    course c = keep_course(levels, n, height / 2);
    out->n_steps = c.n_steps;
    out->depth_bytes = height / 2;
    out->ends_high = c.is_up || (c.n_steps > 1 && end > most_of(lows_of(&c, 0, c.n_steps - 1)) +
                                                            height / LEVEL_PARTS);
    if (c.n_steps < LEAST_STEPS) {
        return;
    }
    uint64_t last = most_of(highs_of(&c, c.n_steps - 1, c.n_steps));
    uint64_t later = most_of(highs_of(&c, 2, c.n_steps));
    out->is_unrepeated = most_of(highs_of(&c, 0, 2)) > later + height / KIND_PARTS;
    out->is_growing = rise_of(highs_of(&c, 1, c.n_steps), peak) > 0 ||
                      last > most_of(highs_of(&c, 0, c.n_steps - 1)) + height / LEVEL_PARTS;
    find_rise(&c, height, peak, out);
}

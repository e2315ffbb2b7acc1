/* steps.c - see steps.h. */
#include "bench/import/steps.h"

/* Levels that differ by at most this part of the peak are equal. */
enum { LEVEL_PARTS = 20 };

/* A step is a rise over the final level, and the way back. More lives at the end than before if the
 * second half came down lower, or if there is only one step. */
static bool ends_high(const uint64_t *levels, size_t n, uint64_t peak)
{
    uint64_t end = n > 0 ? levels[n - 1] : 0;
    uint64_t little = peak / LEVEL_PARTS;
    uint64_t low = end;
    unsigned n_steps = 0;
    bool is_up = false;
    for (size_t i = 0; i < n; i++) {
        low = i >= n / 2 && levels[i] < low ? levels[i] : low;
        n_steps += is_up && levels[i] <= end + little;
        is_up = levels[i] > end + 2 * little || (is_up && levels[i] > end + little);
    }
    return end - low > little || (n_steps == 1 && end > little);
}

/* ---- a rise from step to step ---------------------------------------------------------------- */

enum {
    /* Valleys. Five levels without a trend come in rising order once in 5! = 120 recordings. */
    LEAST_VALLEYS = 5,
    /* Of the valleys. Each has a lowest one, so levels that vary from step to step do not hide a
     * rise; eight come in rising order by chance once in 8! = 40,320 recordings. */
    MOST_PARTS = 8,
    /* Steps, more than most trainings have. A rise that adds up to no other level by then changes
     * nothing, such as a loss of 512 bytes that each step keeps. */
    LONGEST_RUN = 100000,
};

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

/* Move the levels of all valleys of at least this depth to the front; returns how many. */
static size_t keep_valleys(uint64_t *levels, size_t n, uint64_t depth)
{
    size_t n_kept = 0;
    uint64_t high = 0;
    uint64_t low = 0;
    bool is_down = false;
    for (size_t i = 0; i < n; i++) {
        uint64_t level = levels[i];
        if (is_down && level >= low + depth) {
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
    return n_kept;
}

/* The lowest valley of a part. */
static uint64_t floor_of(const uint64_t *valleys, size_t n, size_t part, size_t n_parts)
{
    size_t first = part * n / n_parts;
    uint64_t low = valleys[first];
    for (size_t i = first; i < (part + 1) * n / n_parts; i++) {
        low = valleys[i] < low ? valleys[i] : low;
    }
    return low;
}

/* The rise from the first part to the last one; 0 if some part lies no higher than the one before
 * it. */
static uint64_t steady_rise(const uint64_t *valleys, size_t n, size_t n_parts)
{
    uint64_t first = floor_of(valleys, n, 0, n_parts);
    uint64_t last = first;
    for (size_t part = 1; part < n_parts; part++) {
        uint64_t level = floor_of(valleys, n, part, n_parts);
        if (level <= last) {
            return 0;
        }
        last = level;
    }
    return last - first;
}

/* A valley at least half as deep as the deepest one lies between two steps. The first valley may
 * come before the first step, and is left out of many. A recording of a single step rises with its
 * layers, by more than a layer comes down. A leak that is as large is no small part of the peak,
 * and its recording ends high: the second half rises by half of that. */
static void find_rise(uint64_t *levels, size_t n, uint64_t peak, bench_steps *out)
{
    uint64_t depth = deepest(levels, n);
    size_t n_valleys = depth > 1 ? keep_valleys(levels, n, depth / 2) : 0;
    if (n_valleys < LEAST_VALLEYS) {
        return;
    }
    size_t skipped = n_valleys > LEAST_VALLEYS;
    n_valleys -= skipped;
    size_t n_parts = n_valleys < MOST_PARTS ? n_valleys : MOST_PARTS;
    uint64_t rise = steady_rise(levels + skipped, n_valleys, n_parts);
    uint64_t of_step = rise / ((n_parts - 1) * n_valleys / n_parts);
    bool is_in_step = rise > depth && rise > 2 * (peak / LEVEL_PARTS);
    if (!is_in_step && of_step > peak / LEVEL_PARTS / LONGEST_RUN) {
        out->rise_bytes = of_step;
        out->n_steps = n_valleys - 1;
    }
}

void bench_steps_look(uint64_t *levels, size_t n, uint64_t peak, bench_steps *out)
{
    *out = (bench_steps){ .ends_high = ends_high(levels, n, peak) };
    find_rise(levels, n, peak, out);
}

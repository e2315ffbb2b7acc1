/* optimizer_steps.c - a step is a sequence of allocations inside an optimizer. */
#include "bench/import/optimizer_steps.h"

#include <stdlib.h>
#include <string.h>

enum { UNKNOWN, INSIDE, OUTSIDE };

static bool has(const char *text, size_t n, const char *word)
{
    return memmem(text, n, word, strlen(word)) != NULL;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t n_end = strlen(end);
    return n >= n_end && memcmp(text + n - n_end, end, n_end) == 0;
}

/* A line "FILE:LINE FUNCTION". torch.optim.Optimizer wraps the step of each class derived from it,
 * in optimizer.py. */
static bool is_step(const char *line, size_t n)
{
    const char *colon = memrchr(line, ':', n);
    size_t n_file = colon ? (size_t)(colon - line) : 0;
    return (ends_with(line, n_file, "optimizer.py") && ends_with(line, n, " wrapper")) ||
           (has(line, n_file, "optim") && ends_with(line, n, " step"));
}

static bool is_inside(const char *stack)
{
    for (const char *line = stack; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (is_step(line, n)) {
            return true;
        }
        line += n + (line[n] == '\n');
    }
    return false;
}

bool bench_stepper_init(bench_stepper *stepper, const bench_snapshot *snapshot)
{
    *stepper = (bench_stepper){ .snapshot = snapshot,
                                .known = calloc(snapshot->n_stacks + 1, sizeof *stepper->known) };
    return stepper->known != NULL;
}

void bench_stepper_fini(bench_stepper *stepper)
{
    free(stepper->known);
    stepper->known = NULL;
}

bool bench_stepper_begins(bench_stepper *stepper, const bench_snapshot_entry *entry)
{
    if (entry->action != BENCH_SNAPSHOT_ALLOC || entry->stack == 0) {
        return false;
    }
    uint8_t *place = &stepper->known[entry->stack];
    if (*place == UNKNOWN) {
        *place = is_inside(stepper->snapshot->stacks[entry->stack - 1]) ? INSIDE : OUTSIDE;
    }
    bool begins = *place == INSIDE && !stepper->was_inside;
    stepper->was_inside = *place == INSIDE;
    return begins;
}

uint64_t bench_optimizer_steps(const bench_snapshot *snapshot)
{
    bench_stepper stepper;
    uint64_t n_steps = 0;
    bool ok = bench_stepper_init(&stepper, snapshot);
    for (size_t i = 0; ok && i < snapshot->n_entries; i++) {
        n_steps += bench_stepper_begins(&stepper, &snapshot->entries[i]);
    }
    bench_stepper_fini(&stepper);
    return n_steps > 1 ? n_steps : 0;
}

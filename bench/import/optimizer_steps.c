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

uint64_t bench_optimizer_steps(const bench_snapshot *snapshot)
{
    uint8_t *known = calloc(snapshot->n_stacks + 1, 1); /* each stack is looked at once */
    uint64_t n_steps = 0;
    bool was_inside = false;
    for (size_t i = 0; known && i < snapshot->n_entries; i++) {
        const bench_snapshot_entry *entry = &snapshot->entries[i];
        if (entry->action != BENCH_SNAPSHOT_ALLOC || entry->stack == 0) {
            continue;
        }
        uint8_t *place = &known[entry->stack];
        if (*place == UNKNOWN) {
            *place = is_inside(snapshot->stacks[entry->stack - 1]) ? INSIDE : OUTSIDE;
        }
        n_steps += *place == INSIDE && !was_inside;
        was_inside = *place == INSIDE;
    }
    free(known);
    return n_steps > 1 ? n_steps : 0;
}

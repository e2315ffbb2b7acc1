/* parse_sizes.c - see parse_sizes.h. */
#include "bench/command/parse_sizes.h"

#include <stdio.h>
#include <string.h>

#include "bench/base/cards.h"

typedef bool (*size_parser)(const char *text, bench_memory *out);
typedef const char *(*size_refusal)(const char *text, char *out, size_t n);

void bench_parse_sizes(struct argp_state *state, bool is_card, const char *list,
                       bench_ab_memory *out, unsigned *n)
{
    const char *option = is_card ? "--card" : "--memory";
    size_parser parse_one = is_card ? bench_card_parse : bench_memory_parse;
    size_refusal refusal_of = is_card ? bench_card_refusal : bench_memory_refusal;
    *n = 0;
    for (const char *p = list;; p++) {
        size_t length = strcspn(p, ",");
        bench_ab_memory *memory = &out[*n];
        if (*n == BENCH_MOST_MEMORIES) {
            argp_error(state, "%s: more than %d sizes", option, BENCH_MOST_MEMORIES);
            return;
        }
        snprintf(memory->label, sizeof memory->label, "%.*s", (int)length, p);
        if (length >= sizeof memory->label || !parse_one(memory->label, &memory->memory)) {
            char word[128];
            char why[256];
            snprintf(word, sizeof word, "%.*s", (int)length, p);
            argp_error(state, "%s: %s", option, refusal_of(word, why, sizeof why));
            return;
        }
        for (unsigned i = 0; i < *n; i++) {
            if (strcmp(out[i].label, memory->label) == 0) {
                argp_error(state, "%s: '%s' is given twice", option, memory->label);
                return;
            }
        }
        ++*n;
        p += length;
        if (*p == '\0') {
            return;
        }
    }
}

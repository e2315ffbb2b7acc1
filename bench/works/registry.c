/* registry.c - see registry.h. */
#include "bench/works/registry.h"

#include <string.h>

#include "bench/generate/generators.h"
#include "bench/patterns/patterns.h"

const bench_generator *bench_generator_at(unsigned index)
{
    unsigned n_generators = 0;
    while (bench_generators[n_generators]) {
        n_generators++;
    }
    return index < n_generators ? bench_generators[index] : bench_patterns[index - n_generators];
}

const bench_generator *bench_generator_find(const char *name, size_t n)
{
    const bench_generator *generator;
    for (unsigned i = 0; (generator = bench_generator_at(i)) != NULL; i++) {
        if (strlen(generator->name) == n && memcmp(generator->name, name, n) == 0) {
            return generator;
        }
    }
    return NULL;
}

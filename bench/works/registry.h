/* registry.h - the generators and published patterns by name. */
#ifndef PLEAT_BENCH_REGISTRY_H
#define PLEAT_BENCH_REGISTRY_H

#include "bench/work/generator.h"

/* Every generator by index; NULL at the end. */
const bench_generator *bench_generator_at(unsigned index);
const bench_generator *bench_generator_find(const char *name, size_t n);

#endif

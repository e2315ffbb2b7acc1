/* optimizer.h - the blocks of an optimizer's step, after clipping of the gradients' norm if asked
 * for. Its state lives as long as the graph's parameters. */
#ifndef PLEAT_BENCH_OPTIMIZER_H
#define PLEAT_BENCH_OPTIMIZER_H

#include "bench/generate/eager.h"

typedef enum optimizer_kind {
    OPTIMIZER_NONE,
    OPTIMIZER_SGD,          /* with momentum, in place */
    OPTIMIZER_ADAMW_LOOP,   /* parameter by parameter */
    OPTIMIZER_ADAMW_FOREACH /* over lists of all parameters */
} optimizer_kind;

extern const char *const optimizer_words[]; /* in the order of the enum, NULL-terminated */

typedef struct optimizer {
    optimizer_kind kind;
    bool clips;
    bool has_state;
    uint32_t *scratch; /* blocks, two for each parameter */
    uint32_t n_scratch;
} optimizer;

void optimizer_fini(optimizer *o);
/* One step on all parameters with a gradient. */
void optimizer_step(optimizer *o, eager *e);

#endif

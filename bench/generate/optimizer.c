/* optimizer.c - the blocks of optimizers' steps, in PyTorch's order. */
#include "bench/generate/optimizer.h"

#include <stdlib.h>

const char *const optimizer_words[] = { "none", "sgd", "adamw", "adamw_foreach", NULL };

void optimizer_fini(optimizer *o)
{
    free(o->scratch);
    *o = (optimizer){ .kind = OPTIMIZER_NONE };
}

static bool make_room(optimizer *o, eager *e)
{
    if (o->n_scratch < 2 * e->n_leaves) {
        uint32_t *scratch = realloc(o->scratch, 2 * (size_t)e->n_leaves * sizeof *scratch);
        if (!scratch) {
            e->has_failed = true;
            e->tape->problem = "out of host memory";
            return false;
        }
        o->scratch = scratch;
        o->n_scratch = 2 * e->n_leaves;
    }
    return true;
}

static eager_value value_of(uint32_t block)
{
    return (eager_value){ .block = block };
}

/* Take one block per parameter with a gradient. `bytes` is its size; 0 = the parameter's size. */
static void take_list(eager *e, uint32_t *list, uint64_t bytes)
{
    for (uint32_t i = 0; i < e->n_leaves; i++) {
        const eager_leaf *leaf = &e->leaves[i];
        list[i] = leaf->gradient ? eager_new(e, bytes ? bytes : leaf->bytes).block : 0;
    }
}

static void drop_list(eager *e, const uint32_t *list)
{
    for (uint32_t i = 0; i < e->n_leaves; i++) {
        eager_drop(e, value_of(list[i]));
    }
}

enum { SCALAR = 4 };

/* The blocks of clipping: a norm per gradient, the stack of norms, the stack's norm, the
 * coefficient. Scaling is in place. */
static void clip(optimizer *o, eager *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_leaves; i++) {
        n += e->leaves[i].gradient != 0;
    }
    if (n == 0) {
        return;
    }
    take_list(e, o->scratch, SCALAR);
    eager_value stack = eager_new(e, (uint64_t)n * SCALAR);
    drop_list(e, o->scratch);
    eager_value norm = eager_new(e, SCALAR);
    eager_drop(e, stack);
    eager_value sum = eager_new(e, SCALAR);
    eager_value inverse = eager_new(e, SCALAR);
    eager_value coefficient = eager_new(e, SCALAR);
    eager_drop(e, sum);
    eager_drop(e, inverse);
    eager_value clamped = eager_new(e, SCALAR);
    eager_drop(e, norm);
    eager_drop(e, clamped);
    eager_drop(e, coefficient);
}

/* Makes two moments for each parameter, before the first step. */
static void make_moments(eager *e)
{
    for (uint32_t i = 0; i < e->n_leaves; i++) {
        if (e->leaves[i].gradient) {
            eager_new(e, e->leaves[i].bytes);
            eager_new(e, e->leaves[i].bytes);
        }
    }
}

/* For each parameter a root, then a quotient. The previous quotient is dropped last. */
static void step_adamw_loop(eager *e)
{
    eager_value denominator = { .block = 0 };
    for (uint32_t i = 0; i < e->n_leaves; i++) {
        if (e->leaves[i].gradient) {
            eager_value root = eager_new(e, e->leaves[i].bytes);
            eager_value quotient = eager_new(e, e->leaves[i].bytes);
            eager_drop(e, root);
            eager_drop(e, denominator);
            denominator = quotient;
        }
    }
    eager_drop(e, denominator);
}

static void step_adamw_foreach(optimizer *o, eager *e)
{
    uint32_t *sums = o->scratch + e->n_leaves;
    take_list(e, o->scratch, 0);
    take_list(e, sums, 0);
    drop_list(e, o->scratch);
    drop_list(e, sums);
}

/* Make the momentum of each parameter before the first step. All else is in place. */
static void make_momentum(eager *e)
{
    for (uint32_t i = 0; i < e->n_leaves; i++) {
        if (e->leaves[i].gradient) {
            eager_new(e, e->leaves[i].bytes);
        }
    }
}

void optimizer_step(optimizer *o, eager *e)
{
    if (e->has_failed || !make_room(o, e)) {
        return;
    }
    if (o->clips) {
        clip(o, e);
    }
    bool is_first = !o->has_state;
    o->has_state = true;
    if (is_first && o->kind == OPTIMIZER_SGD) {
        make_momentum(e);
    } else if (is_first && o->kind != OPTIMIZER_NONE) {
        make_moments(e);
    }
    if (o->kind == OPTIMIZER_ADAMW_LOOP) {
        step_adamw_loop(e);
    } else if (o->kind == OPTIMIZER_ADAMW_FOREACH) {
        step_adamw_foreach(o, e);
    }
}

/* train.c - the training of a decoder. */
#include "bench/generate/train.h"

enum { SCALAR = 4 };

/* Hooks: a checkpointed layer runs again; a layer's backward pass begins or is over. */
#define HOOK_CHECKPOINT (UINT32_C(1) << 30)
#define HOOK_BEGIN (UINT32_C(2) << 30)
#define HOOK_END (UINT32_C(3) << 30)
#define HOOK_MASK (UINT32_C(3) << 30)

/* Run the layer again, now with a graph, and pass the incoming gradient to the graph. A node at the
 * bottom of the new graph keeps the arguments, the output and the gradient until the end, and
 * passes the input's gradient on. */
static void run_again(train *t, uint32_t i, const eager_node *node)
{
    eager *e = &t->d.e;
    eager_value input = { .block = node->saved[0] };
    eager_value x = { .block = 0 };
    eager_value gradient = { .block = node->gradients[0] };
    e->is_recording = true;
    t->d.mask.block = node->saved[1];
    t->d.cosine.block = node->saved[2];
    t->d.sine.block = node->saved[3];
    eager_node *gate = eager_record(e, &x);
    x.block = input.block;
    uint32_t at = e->n_nodes - 1;
    eager_pass(e, gate, node->n_steps ? node->steps[0].edge : 0);
    eager_save(e, gate, input);
    eager_save(e, gate, gradient);
    eager_save(e, gate, t->d.mask);
    eager_save(e, gate, t->d.cosine);
    eager_save(e, gate, t->d.sine);
    eager_value out = decoder_layer_run(&t->d, i, x);
    e->is_recording = false;
    if (!e->has_failed) {
        eager_save(e, &e->nodes[at], out);
        eager_deliver(e, out.edge, eager_keep(e, gradient));
    }
    eager_drop(e, out);
    decoder_drop_casts(&t->d);
    t->d.mask.block = t->d.cosine.block = t->d.sine.block = 0;
}

static bool hook(void *owner, uint32_t argument, const eager_node *node)
{
    train *t = owner;
    uint32_t i = argument & ~HOOK_MASK;
    switch (argument & HOOK_MASK) {
    case HOOK_CHECKPOINT:
        run_again(t, i, node);
        return true;
    case HOOK_BEGIN:
        shards_gather(&t->shards, i, -1);
        return false;
    case HOOK_END:
    default:
        shards_release(&t->shards, i);
        shards_reduce(&t->shards, i);
        return false;
    }
}

bool train_init(train *t, const decoder_shape *shape, const train_plan *plan, uint64_t seed,
                bench_failure *failure)
{
    *t = (train){ .plan = *plan };
    t->random.state = seed;
    t->optimizer.kind = plan->optimizer;
    t->optimizer.clips = plan->clips;
    if (!decoder_init(&t->d, shape, failure)) {
        return false;
    }
    if (!shards_init(&t->shards, &t->d, plan->n_shards, plan->n_ahead, &t->random, failure)) {
        decoder_fini(&t->d);
        return false;
    }
    return true;
}

void train_fini(train *t)
{
    shards_fini(&t->shards);
    optimizer_fini(&t->optimizer);
    decoder_fini(&t->d);
}

void train_make(train *t)
{
    t->d.e.hook = hook;
    t->d.e.owner = t;
    t->d.random = &t->random;
    t->shards.d = &t->d;
    t->shards.random = &t->random;
    decoder_make(&t->d);
    shards_make(&t->shards);
}

/* Run the layer without a graph. A node stands for the layer, and will run it again. */
static eager_value run_checkpointed(train *t, uint32_t i, eager_value x)
{
    eager *e = &t->d.e;
    bool was_recording = e->is_recording;
    e->is_recording = false;
    eager_value y = decoder_layer_run(&t->d, i, x);
    e->is_recording = was_recording;
    if (was_recording && !e->has_failed) {
        eager_node *node = eager_record(e, &y);
        node->has_hook = true;
        node->argument = HOOK_CHECKPOINT | i;
        eager_save(e, node, x);
        eager_save(e, node, t->d.mask);
        eager_save(e, node, t->d.cosine);
        eager_save(e, node, t->d.sine);
        eager_pass(e, node, x.edge);
    }
    return y;
}

eager_value train_layers(train *t, eager_value x)
{
    eager *e = &t->d.e;
    bool is_sharded = t->plan.n_shards > 1;
    for (uint32_t i = 0; i < t->d.shape.n_layers; i++) {
        shards_gather(&t->shards, i, 1);
        if (is_sharded) {
            x = op_replace(e, x, eager_hook(e, x, HOOK_END | i));
        }
        eager_value y = t->plan.checkpoints ? run_checkpointed(t, i, x)
                                            : decoder_layer_run(&t->d, i, x);
        eager_drop(e, x);
        x = is_sharded ? op_replace(e, y, eager_hook(e, y, HOOK_BEGIN | i)) : y;
        shards_release(&t->shards, i);
        shards_poll(&t->shards, false);
    }
    return x;
}

void train_micro(train *t, uint32_t length)
{
    decoder *d = &t->d;
    eager *e = &d->e;
    decoder_begin(d, t->plan.batch, length);
    eager_value indices = eager_new(e, d->sizes.indices);
    eager_value labels = eager_new(e, d->sizes.indices);
    eager_value x = decoder_embed(d, indices);
    eager_drop(e, indices);
    x = train_layers(t, x);
    eager_value h = op_replace(e, x, decoder_norm(d, x, d->norm, d->norm_bias));
    eager_value logits = decoder_logits(d, h);
    eager_value loss = decoder_loss(d, logits, labels);
    eager_drop(e, h);
    decoder_end(d);
    eager_value scaled = t->plan.n_micro > 1 ? op_unary(e, loss, SCALAR, SCALAR, OP_KEEPS_NOTHING)
                                             : eager_keep(e, loss);
    eager_value one = eager_new(e, SCALAR);
    eager_deliver(e, scaled.edge, eager_keep(e, one));
    eager_backward(e);
    eager_drop(e, scaled);
    eager_drop(e, one);
    eager_drop(e, loss);
}

void train_step(train *t)
{
    for (uint32_t i = 0; i < t->plan.n_micro; i++) {
        train_micro(t, bench_length_longest(&t->random, &t->plan.lengths, t->plan.batch));
    }
    shards_poll(&t->shards, true);
    optimizer_step(&t->optimizer, &t->d.e);
    eager_zero_gradients(&t->d.e);
}

/* rlhf.c - the generator `rlhf`: alternates generation and training, like reinforcement learning
 * from feedback.
 *
 * In each iteration a policy writes outputs for a batch of prompts. Its caches grow token by token.
 * The policy and a frozen reference then score the outputs. The policy, with a value head, is
 * trained on them for some epochs. */
#include <stdlib.h>

#include "bench/generate/generators.h"
#include "bench/generate/inference.h"
#include "bench/generate/params.h"
#include "bench/generate/train.h"

enum {
    P_LAYERS,
    P_HIDDEN,
    P_HEADS,
    P_KV_HEADS,
    P_FF,
    P_VOCAB,
    P_BATCH,
    P_PROMPT,
    P_PROMPT_SIGMA,
    P_MOST_PROMPT,
    P_OUTPUT,
    P_OUTPUT_SIGMA,
    P_MOST_OUTPUT,
    P_CACHE,
    P_PAGE,
    P_REFERENCE,
    P_EPOCHS,
    P_CHECKPOINT,
    P_OPTIMIZER,
    P_CLIP
};

static const bench_param params[] = {
    BENCH_WHOLE("layers", "how many", 16, 1, 1000),
    BENCH_WHOLE("hidden", "width", 2048, 1, 1 << 20),
    BENCH_WHOLE("heads", "of attention", 32, 1, 1024),
    BENCH_WHOLE("kv_heads", "of keys and values; 0 = heads", 8, 0, 1024),
    BENCH_WHOLE("ff", "inner width of the gated mlp", 8192, 1, 1 << 24),
    BENCH_WHOLE("vocab", "tokens", 32000, 2, 1 << 24),
    BENCH_WHOLE("batch", "prompts", 8, 1, 4096),
    BENCH_WHOLE("prompt", "tokens: the median", 128, 1, 1 << 16),
    BENCH_SIGMA("prompt_sigma", 0.5),
    BENCH_WHOLE("most_prompt", "longer prompts are cut", 512, 1, 1 << 16),
    BENCH_WHOLE("output", "tokens: the median", 64, 1, 1 << 16),
    BENCH_SIGMA("output_sigma", 0.5),
    BENCH_WHOLE("most_output", "longer outputs are cut", 256, 1, 1 << 16),
    BENCH_CHOICE("cache", "grown by concatenation, or by pages", inference_cache_words, 0),
    BENCH_WHOLE("page", "tokens of a page", 16, 1, 1 << 16),
    BENCH_CHOICE("reference", "a frozen model scores too", bench_no_yes, 1),
    BENCH_WHOLE("epochs", "training steps on a batch", 1, 1, 100),
    BENCH_CHOICE("checkpoint", "layers run again in the backward pass", bench_no_yes, 0),
    BENCH_CHOICE("optimizer", "its step", optimizer_words, OPTIMIZER_ADAMW_FOREACH),
    BENCH_CHOICE("clip", "the gradients' norm is clipped", bench_no_yes, 1),
    { .name = NULL },
};

enum { WIDE = 4, INDEX = 8 };

typedef struct rlhf {
    train policy;
    decoder reference;
    inference inference;
    eager_value value_head;
    bench_lengths prompts;
    bench_lengths outputs;
    bench_values values;
    bool is_made;
} rlhf;

static bench_lengths read_lengths(const bench_values *values, unsigned median)
{
    return (bench_lengths){ .median = values->of[median],
                            .sigma = values->of[median + 1],
                            .most = (uint32_t)values->of[median + 2],
                            .multiple = 1 };
}

static decoder_shape read_shape(const bench_values *values)
{
    const double *of = values->of;
    return (decoder_shape){
        .family = DECODER_LLAMA,
        .type = DECODER_BF16,
        .n_layers = (uint32_t)of[P_LAYERS],
        .n_heads = (uint32_t)of[P_HEADS],
        .n_kv_heads = (uint32_t)(of[P_KV_HEADS] > 0 ? of[P_KV_HEADS] : of[P_HEADS]),
        .hidden = (uint64_t)of[P_HIDDEN],
        .ff = (uint64_t)of[P_FF],
        .vocabulary = (uint64_t)of[P_VOCAB],
        .is_gated = true,
        .is_flash = true,
    };
}

static void destroy(void *state)
{
    rlhf *r = state;
    inference_fini(&r->inference);
    decoder_fini(&r->reference);
    train_fini(&r->policy);
    free(r);
}

static bool init(rlhf *r, const bench_values *values, bench_failure *failure)
{
    decoder_shape shape = read_shape(values);
    decoder_shape frozen = shape;
    frozen.is_frozen = true;
    train_plan plan = {
        .batch = (uint32_t)values->of[P_BATCH],
        .n_micro = 1,
        .n_shards = 1,
        .checkpoints = values->of[P_CHECKPOINT] > 0,
        .clips = values->of[P_CLIP] > 0,
        .optimizer = (optimizer_kind)values->of[P_OPTIMIZER],
    };
    r->values = *values;
    r->prompts = read_lengths(values, P_PROMPT);
    r->outputs = read_lengths(values, P_OUTPUT);
    inference_plan generation = {
        .n_requests = 1,
        .n_rows = plan.batch,
        .most_tokens = r->prompts.most + r->outputs.most,
        .page = (uint32_t)values->of[P_PAGE],
        .cache = (inference_cache)values->of[P_CACHE],
    };
    return train_init(&r->policy, &shape, &plan, values->seed, failure) &&
           decoder_init(&r->reference, &frozen, failure) &&
           inference_init(&r->inference, &r->policy.d, &generation, failure);
}

static void *create(const bench_values *values, bench_failure *failure)
{
    decoder_shape shape = read_shape(values);
    if (!decoder_shape_check("rlhf", &shape, failure)) {
        return NULL;
    }
    rlhf *r = calloc(1, sizeof *r);
    if (!r) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    if (!init(r, values, failure)) {
        destroy(r);
        return NULL;
    }
    return r;
}

static void make(rlhf *r)
{
    eager *e = &r->policy.d.e;
    train_make(&r->policy);
    r->value_head = eager_parameter(e, r->policy.d.shape.hidden * r->policy.d.parameter, false);
    if (r->values.of[P_REFERENCE] > 0) {
        decoder_make(&r->reference);
    }
}

/* The caches grow during generation and are then dropped. */
static void generate(rlhf *r, uint32_t prompt, uint32_t output)
{
    const uint32_t request = 0;
    inference_prefill(&r->inference, request, prompt);
    for (uint32_t i = 1; i < output && !r->policy.d.e.has_failed; i++) {
        inference_decode(&r->inference, &request, 1);
    }
    inference_drop(&r->inference, request);
    inference_end(&r->inference);
}

/* Runs tokens through all layers and the last norm. */
static eager_value run(train *t, decoder *d, uint32_t n_rows, uint32_t length)
{
    eager *e = &d->e;
    decoder_begin(d, n_rows, length);
    eager_value indices = eager_new(e, d->sizes.indices);
    eager_value x = decoder_embed(d, indices);
    eager_drop(e, indices);
    if (t) {
        x = train_layers(t, x);
    } else {
        for (uint32_t i = 0; i < d->shape.n_layers; i++) {
            x = op_replace(e, x, decoder_layer_run(d, i, x));
        }
    }
    return op_replace(e, x, decoder_norm(d, x, d->norm, d->norm_bias));
}

/* A model's score for each token, 4 bytes per token. The caller drops the block. */
static eager_value score(decoder *d, uint32_t n_rows, uint32_t length)
{
    eager *e = &d->e;
    e->is_recording = false;
    eager_value h = run(NULL, d, n_rows, length);
    eager_value logits = decoder_logits(d, h);
    eager_value chances = eager_new(e, d->sizes.n_tokens * d->shape.vocabulary * WIDE);
    eager_drop(e, logits);
    eager_value scores = eager_new(e, d->sizes.n_tokens * WIDE);
    eager_drop(e, chances);
    eager_drop(e, h);
    decoder_end(d);
    e->is_recording = true;
    return scores;
}

/* One step on the policy's and the value head's losses. */
static void learn(rlhf *r, uint32_t length)
{
    train *t = &r->policy;
    decoder *d = &t->d;
    eager *e = &d->e;
    eager_value none = { .block = 0 };
    eager_value h = run(t, d, t->plan.batch, length);
    eager_value labels = eager_new(e, d->sizes.indices);
    eager_value value = op_linear(e, h, r->value_head, none, d->sizes.n_tokens * d->element,
                                  d->sizes.activation);
    eager_value loss = decoder_loss(d, decoder_logits(d, h), labels);
    eager_value value_loss = op_unary(e, value, WIDE, d->sizes.n_tokens * d->element,
                                      OP_KEEPS_INPUT);
    eager_value sum = op_add(e, loss, value_loss, WIDE);
    decoder_end(d);
    eager_value locals[] = { h, value, value_loss, loss, sum };
    eager_value one = eager_new(e, WIDE);
    eager_deliver(e, sum.edge, one);
    eager_backward(e);
    for (unsigned i = 0; i < sizeof locals / sizeof locals[0]; i++) {
        eager_drop(e, locals[i]);
    }
    optimizer_step(&t->optimizer, e);
    eager_zero_gradients(e);
}

static void iterate(rlhf *r)
{
    train *t = &r->policy;
    uint32_t n_rows = t->plan.batch;
    uint32_t prompt = bench_length_longest(&t->random, &r->prompts, n_rows);
    uint32_t output = bench_length_longest(&t->random, &r->outputs, n_rows);
    uint32_t length = prompt + output;
    generate(r, prompt, output);
    eager_value own = score(&t->d, n_rows, length);
    eager_value other = { .block = 0 };
    if (r->values.of[P_REFERENCE] > 0) {
        other = score(&r->reference, n_rows, length);
    }
    for (uint32_t i = 0; i < (uint32_t)r->values.of[P_EPOCHS]; i++) {
        learn(r, length);
    }
    eager_drop(&t->d.e, own);
    eager_drop(&r->reference.e, other);
}

static bool write(void *state, uint64_t number, bench_tape *tape)
{
    rlhf *r = state;
    (void)number;
    r->policy.d.e.tape = tape;
    r->reference.e.tape = tape;
    if (!r->is_made) {
        make(r);
        r->is_made = true;
    }
    iterate(r);
    return !r->policy.d.e.has_failed && !r->reference.e.has_failed;
}

const bench_generator bench_rlhf = {
    .name = "rlhf",
    .doc = "generation with growing caches and training by turns; a policy and a reference",
    .params = params,
    .iterations = 20,
    .create = create,
    .destroy = destroy,
    .write = write,
};

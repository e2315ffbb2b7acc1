/* training.c - the generators `decoder` and `moe`: a decoder in training. */
#include <stdlib.h>

#include "bench/generate/generators.h"
#include "bench/generate/params.h"
#include "bench/generate/train.h"

enum {
    P_FAMILY,
    P_LAYERS,
    P_HIDDEN,
    P_HEADS,
    P_KV_HEADS,
    P_FF,
    P_VOCAB,
    P_MLP,
    P_TIED,
    P_POSITIONS,
    P_DTYPE,
    P_ATTENTION,
    P_DROPOUT,
    P_BATCH,
    P_LENGTH,
    P_SIGMA,
    P_MOST_LENGTH,
    P_MULTIPLE,
    P_CHECKPOINT,
    P_ACCUMULATE,
    P_OPTIMIZER,
    P_CLIP,
    P_N_COMMON,
    P_LORA = P_N_COMMON, /* of decoder */
    P_SHARDS,
    P_AHEAD,
    P_EXPERTS = P_N_COMMON, /* of moe */
    P_TOP_K
};

static const char *const family_words[] = { "llama", "gpt", NULL };
static const char *const mlp_words[] = { "auto", "plain", "gated", NULL };
static const char *const type_words[] = { "bf16", "fp32", "amp", NULL };
static const char *const attention_words[] = { "flash", "eager", NULL };

/* Shared by both tables, in the order of the enum. */
#define COMMON_PARAMS(layers_, hidden_, heads_, ff_, batch_, length_)                              \
    BENCH_CHOICE("family", "norms, positions, biases", family_words, DECODER_LLAMA),               \
        BENCH_WHOLE("layers", "how many", layers_, 1, 1000),                                       \
        BENCH_WHOLE("hidden", "width", hidden_, 1, 1 << 20),                                       \
        BENCH_WHOLE("heads", "of attention", heads_, 1, 1024),                                     \
        BENCH_WHOLE("kv_heads", "of keys and values; 0 = heads", 0, 0, 1024),                      \
        BENCH_WHOLE("ff", "inner width of the mlp; 0 = 4 hidden, gated 8/3", ff_, 0, 1 << 24),     \
        BENCH_WHOLE("vocab", "tokens", 32000, 2, 1 << 24),                                         \
        BENCH_CHOICE("mlp", "auto: gated for llama", mlp_words, 0),                                \
        BENCH_CHOICE("tied", "the head is the embedding", bench_no_yes, 0),                        \
        BENCH_WHOLE("positions", "learned, for gpt", 1024, 1, 1 << 24),                            \
        BENCH_CHOICE("dtype", "amp: parameters fp32, autocast to bf16", type_words, DECODER_BF16), \
        BENCH_CHOICE("attention", "fused, or step by step", attention_words, 0),                   \
        BENCH_CHOICE("dropout", "for gpt", bench_no_yes, 0),                                       \
        BENCH_WHOLE("batch", "sequences of a micro-batch", batch_, 1, 4096),                       \
        BENCH_WHOLE("length", "tokens of a sequence: the median", length_, 2, 1 << 18),            \
        BENCH_SIGMA("sigma", 0),                                                                   \
        BENCH_WHOLE("most_length", "longer sequences are cut", 8192, 2, 1 << 18),                  \
        BENCH_WHOLE("multiple", "lengths are padded to it", 8, 1, 65536),                          \
        BENCH_CHOICE("checkpoint", "layers run again in the backward pass", bench_no_yes, 0),      \
        BENCH_WHOLE("accumulate", "micro-batches of a step", 1, 1, 1024),                          \
        BENCH_CHOICE("optimizer", "its step", optimizer_words, OPTIMIZER_ADAMW_FOREACH),           \
        BENCH_CHOICE("clip", "the gradients' norm is clipped", bench_no_yes, 0)

static const bench_param decoder_params[] = {
    COMMON_PARAMS(12, 1024, 16, 0, 4, 512),
    BENCH_WHOLE("lora", "rank of the trained matrices, all else frozen; 0 = off", 0, 0, 4096),
    BENCH_WHOLE("shards", "ranks that the layers are sharded over", 1, 1, 65536),
    BENCH_WHOLE("ahead", "layers gathered before they are needed", 1, 0, 8),
    { .name = NULL },
};

static const bench_param moe_params[] = {
    COMMON_PARAMS(10, 1536, 16, 2816, 4, 512),
    BENCH_WHOLE("experts", "a layer", 16, 1, DECODER_MOST_EXPERTS),
    BENCH_WHOLE("top_k", "experts of a token", 2, 1, DECODER_MOST_EXPERTS),
    { .name = NULL },
};

typedef struct training {
    train t;
    bool is_made;
} training;

static decoder_shape read_shape(const bench_values *values)
{
    const double *of = values->of;
    decoder_shape s = {
        .family = (decoder_family)of[P_FAMILY],
        .type = (decoder_type)of[P_DTYPE],
        .n_layers = (uint32_t)of[P_LAYERS],
        .n_heads = (uint32_t)of[P_HEADS],
        .n_kv_heads = (uint32_t)(of[P_KV_HEADS] > 0 ? of[P_KV_HEADS] : of[P_HEADS]),
        .hidden = (uint64_t)of[P_HIDDEN],
        .ff = (uint64_t)of[P_FF],
        .vocabulary = (uint64_t)of[P_VOCAB],
        .n_positions = (uint64_t)of[P_POSITIONS],
        .is_tied = of[P_TIED] > 0,
        .is_flash = of[P_ATTENTION]<1, .has_dropout = of[P_DROPOUT]> 0,
    };
    s.is_gated = of[P_MLP] > 0 ? of[P_MLP] > 1 : s.family == DECODER_LLAMA;
    if (s.ff == 0) {
        s.ff = s.is_gated ? (8 * s.hidden / 3 + 255) / 256 * 256 : 4 * s.hidden;
    }
    return s;
}

static train_plan read_plan(const bench_values *values)
{
    const double *of = values->of;
    return (train_plan){
        .lengths = { .median = of[P_LENGTH],
                     .sigma = of[P_SIGMA],
                     .most = (uint32_t)of[P_MOST_LENGTH],
                     .multiple = (uint32_t)of[P_MULTIPLE] },
        .batch = (uint32_t)of[P_BATCH],
        .n_micro = (uint32_t)of[P_ACCUMULATE],
        .n_shards = 1,
        .checkpoints = of[P_CHECKPOINT] > 0,
        .clips = of[P_CLIP] > 0,
        .optimizer = (optimizer_kind)of[P_OPTIMIZER],
    };
}

/* Refuse impossible combinations. */
static bool check(const char *name, const decoder_shape *s, const train_plan *plan,
                  bench_failure *failure)
{
    if (s->has_dropout && s->family != DECODER_GPT) {
        return bench_fail(failure, "%s: dropout=yes is for family=gpt", name);
    }
    if (s->family == DECODER_GPT && plan->lengths.most > s->n_positions) {
        return bench_fail(failure, "%s: most_length (%u) is more than positions (%llu)", name,
                          plan->lengths.most, (unsigned long long)s->n_positions);
    }
    if (plan->lengths.median > plan->lengths.most) {
        return bench_fail(failure, "%s: length is more than most_length (%u)", name,
                          plan->lengths.most);
    }
    if (plan->n_shards > 1 &&
        (s->type != DECODER_BF16 || s->family != DECODER_LLAMA || s->lora_rank > 0)) {
        return bench_fail(failure, "%s: shards go with family=llama, dtype=bf16 and lora=0 only",
                          name);
    }
    return decoder_shape_check(name, s, failure);
}

static void *create(const char *name, const decoder_shape *shape, const train_plan *plan,
                    uint64_t seed, bench_failure *failure)
{
    if (!check(name, shape, plan, failure)) {
        return NULL;
    }
    training *g = calloc(1, sizeof *g);
    if (!g) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    if (!train_init(&g->t, shape, plan, seed, failure)) {
        free(g);
        return NULL;
    }
    return g;
}

static void *create_decoder(const bench_values *values, bench_failure *failure)
{
    decoder_shape shape = read_shape(values);
    train_plan plan = read_plan(values);
    shape.lora_rank = (uint32_t)values->of[P_LORA];
    plan.n_shards = (uint32_t)values->of[P_SHARDS];
    plan.n_ahead = (uint32_t)values->of[P_AHEAD];
    return create("decoder", &shape, &plan, values->seed, failure);
}

static void *create_moe(const bench_values *values, bench_failure *failure)
{
    decoder_shape shape = read_shape(values);
    train_plan plan = read_plan(values);
    shape.n_experts = (uint32_t)values->of[P_EXPERTS];
    shape.top_k = (uint32_t)values->of[P_TOP_K];
    return create("moe", &shape, &plan, values->seed, failure);
}

static void destroy(void *state)
{
    training *g = state;
    train_fini(&g->t);
    free(g);
}

static bool write(void *state, uint64_t number, bench_tape *tape)
{
    training *g = state;
    (void)number;
    g->t.d.e.tape = tape;
    if (!g->is_made) {
        train_make(&g->t);
        g->is_made = true;
    }
    train_step(&g->t);
    return !g->t.d.e.has_failed;
}

const bench_generator bench_decoder = {
    .name = "decoder",
    .doc = "training of a transformer decoder",
    .params = decoder_params,
    .iterations = 20,
    .create = create_decoder,
    .destroy = destroy,
    .write = write,
};

const bench_generator bench_moe = {
    .name = "moe",
    .doc = "training of a decoder whose layers have experts; their shares vary each time",
    .params = moe_params,
    .iterations = 20,
    .create = create_moe,
    .destroy = destroy,
    .write = write,
};

/* serving.c - the generator `serving`: continuous batching. Requests arrive with prompts and
 * outputs of random lengths. A limited number runs at once. Each pass makes a token for every
 * running request. */
#include <stdlib.h>

#include "bench/generate/generators.h"
#include "bench/generate/inference.h"
#include "bench/generate/lengths.h"
#include "bench/generate/params.h"

enum {
    P_LAYERS,
    P_HIDDEN,
    P_HEADS,
    P_KV_HEADS,
    P_FF,
    P_VOCAB,
    P_REQUESTS,
    P_FIRST,
    P_ARRIVALS,
    P_PASSES,
    P_PROMPT,
    P_PROMPT_SIGMA,
    P_MOST_PROMPT,
    P_OUTPUT,
    P_OUTPUT_SIGMA,
    P_MOST_OUTPUT,
    P_CACHE,
    P_PAGE
};

static const bench_param params[] = {
    BENCH_WHOLE("layers", "how many", 24, 1, 1000),
    BENCH_WHOLE("hidden", "width", 2560, 1, 1 << 20),
    BENCH_WHOLE("heads", "of attention", 32, 1, 1024),
    BENCH_WHOLE("kv_heads", "of keys and values; 0 = heads", 0, 0, 1024),
    BENCH_WHOLE("ff", "inner width of the gated mlp", 6912, 1, 1 << 24),
    BENCH_WHOLE("vocab", "tokens", 32000, 2, 1 << 24),
    BENCH_WHOLE("requests", "most at once", 16, 1, INFERENCE_MOST_REQUESTS),
    BENCH_WHOLE("first", "requests at the beginning", 4, 1, INFERENCE_MOST_REQUESTS),
    BENCH_WHOLE("arrivals", "most new requests between two passes", 3, 1, INFERENCE_MOST_REQUESTS),
    BENCH_WHOLE("passes", "of an iteration", 10, 1, 100000),
    BENCH_WHOLE("prompt", "tokens: the median", 250, 1, 1 << 18),
    BENCH_SIGMA("prompt_sigma", 1.0),
    BENCH_WHOLE("most_prompt", "longer prompts are cut", 2500, 1, 1 << 18),
    BENCH_WHOLE("output", "tokens: the median", 50, 1, 1 << 18),
    BENCH_SIGMA("output_sigma", 0.8),
    BENCH_WHOLE("most_output", "longer outputs are cut", 1024, 1, 1 << 18),
    BENCH_CHOICE("cache", "grown by concatenation, or by pages", inference_cache_words, 0),
    BENCH_WHOLE("page", "tokens of a page", 16, 1, 1 << 18),
    { .name = NULL },
};

typedef struct serving {
    decoder d;
    inference inference;
    bench_random random;
    bench_lengths prompts;
    bench_lengths outputs;
    bench_values values;
    uint32_t *left; /* tokens still to make, by request; 0 = free */
    uint32_t *running;
    bool is_made;
} serving;

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
        .is_frozen = true,
        .is_gated = true,
        .is_flash = true,
    };
}

static bench_lengths read_lengths(const bench_values *values, unsigned median)
{
    return (bench_lengths){ .median = values->of[median],
                            .sigma = values->of[median + 1],
                            .most = (uint32_t)values->of[median + 2],
                            .multiple = 1 };
}

static void destroy(void *state)
{
    serving *s = state;
    inference_fini(&s->inference);
    decoder_fini(&s->d);
    free(s->left);
    free(s->running);
    free(s);
}

static bool init(serving *s, const bench_values *values, bench_failure *failure)
{
    decoder_shape shape = read_shape(values);
    s->values = *values;
    s->random.state = values->seed;
    s->prompts = read_lengths(values, P_PROMPT);
    s->outputs = read_lengths(values, P_OUTPUT);
    inference_plan plan = {
        .n_requests = (uint32_t)values->of[P_REQUESTS],
        .n_rows = 1,
        .most_tokens = s->prompts.most + s->outputs.most,
        .page = (uint32_t)values->of[P_PAGE],
        .cache = (inference_cache)values->of[P_CACHE],
    };
    s->left = calloc(plan.n_requests, sizeof *s->left);
    s->running = calloc(plan.n_requests, sizeof *s->running);
    if (!s->left || !s->running) {
        return bench_fail(failure, "out of host memory");
    }
    return decoder_init(&s->d, &shape, failure) &&
           inference_init(&s->inference, &s->d, &plan, failure);
}

static void *create(const bench_values *values, bench_failure *failure)
{
    decoder_shape shape = read_shape(values);
    if (!decoder_shape_check("serving", &shape, failure)) {
        return NULL;
    }
    if (values->of[P_FIRST] > values->of[P_REQUESTS]) {
        bench_fail(failure, "serving: first is more than requests");
        return NULL;
    }
    serving *s = calloc(1, sizeof *s);
    if (!s) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    if (!init(s, values, failure)) {
        destroy(s);
        return NULL;
    }
    return s;
}

static void admit(serving *s, uint32_t most)
{
    uint32_t n_requests = s->inference.plan.n_requests;
    for (uint32_t r = 0; r < n_requests && most > 0 && !s->d.e.has_failed; r++) {
        if (s->left[r] == 0) {
            s->left[r] = bench_length_draw(&s->random, &s->outputs);
            inference_prefill(&s->inference, r, bench_length_draw(&s->random, &s->prompts));
            most--;
        }
    }
}

/* Make a token for every request; complete requests leave. */
static void pass(serving *s)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < s->inference.plan.n_requests; r++) {
        if (s->left[r] > 0) {
            s->running[n++] = r;
        }
    }
    if (n == 0) {
        return;
    }
    inference_decode(&s->inference, s->running, n);
    for (uint32_t i = 0; i < n && !s->d.e.has_failed; i++) {
        if (--s->left[s->running[i]] == 0) {
            inference_drop(&s->inference, s->running[i]);
        }
    }
}

static bool write(void *state, uint64_t number, bench_tape *tape)
{
    serving *s = state;
    (void)number;
    s->d.e.tape = tape;
    if (!s->is_made) {
        decoder_make(&s->d);
        s->is_made = true;
        admit(s, (uint32_t)s->values.of[P_FIRST]);
    }
    for (uint32_t i = 0; i < (uint32_t)s->values.of[P_PASSES] && !s->d.e.has_failed; i++) {
        pass(s);
        admit(s, (uint32_t)bench_random_between(&s->random, 0, (uint64_t)s->values.of[P_ARRIVALS]));
    }
    return !s->d.e.has_failed;
}

const bench_generator bench_serving = {
    .name = "serving",
    .doc = "continuous batching: requests of random lengths, a cache for each and layer",
    .params = params,
    .iterations = 16,
    .create = create,
    .destroy = destroy,
    .write = write,
};

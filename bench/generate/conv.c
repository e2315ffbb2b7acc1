/* conv.c - the generator `conv`: training of a residual network (He and others, 2016, bottleneck
 * blocks). Height and width of the images are drawn anew each step.
 *
 * Values have 4 bytes. Batch normalisation has running statistics; activations and residual sums
 * are in place. Each convolution wider than one pixel has a workspace. The library chooses its
 * algorithm by shape, so the workspace's size is drawn once per shape and direction in a step. */
#include <stdlib.h>

#include "bench/generate/generators.h"
#include "bench/generate/lengths.h"
#include "bench/generate/ops.h"
#include "bench/generate/optimizer.h"
#include "bench/generate/params.h"

enum { MOST_WORKSPACE = 1 << 30 };
enum { ELEMENT = 4, INDEX = 8, WORKSPACE = 8519680, N_STAGES = 4, EXPANSION = 4 };

enum {
    P_DEPTH,
    P_WIDTH,
    P_CLASSES,
    P_BATCH,
    P_LEAST_H,
    P_MOST_H,
    P_LEAST_W,
    P_MOST_W,
    P_STEP,
    P_WORKSPACES,
    P_OPTIMIZER
};

static const char *const depth_words[] = { "50", "101", "152", NULL };
static const unsigned n_blocks[][N_STAGES] = { { 3, 4, 6, 3 }, { 3, 4, 23, 3 }, { 3, 8, 36, 3 } };
enum { MOST_BLOCKS = 3 + 8 + 36 + 3 };

static const bench_param params[] = {
    BENCH_CHOICE("depth", "layers", depth_words, 0),
    BENCH_WHOLE("width", "channels of the first layer", 64, 1, 4096),
    BENCH_WHOLE("classes", "of the images", 1000, 1, 1 << 20),
    BENCH_WHOLE("batch", "images", 32, 1, 4096),
    BENCH_WHOLE("least_height", "pixels", 224, 32, 8192),
    BENCH_WHOLE("most_height", "pixels", 640, 32, 8192),
    BENCH_WHOLE("least_width", "pixels", 224, 32, 8192),
    BENCH_WHOLE("most_width", "pixels", 640, 32, 8192),
    BENCH_WHOLE("step", "heights and widths are the least one plus a multiple of it", 32, 1, 8192),
    BENCH_CHOICE("workspaces", "of convolutions", bench_no_yes, 1),
    BENCH_CHOICE("optimizer", "its step", optimizer_words, OPTIMIZER_SGD),
    { .name = NULL },
};

typedef struct image {
    uint64_t channels;
    uint64_t height;
    uint64_t width;
} image;

typedef struct layer {
    eager_value weight;
    eager_value scale;
    eager_value shift;
    uint64_t channels; /* of the result */
    unsigned side;     /* of the convolution's window */
    unsigned stride;
} layer;

typedef struct block {
    layer layers[3];
    layer shortcut; /* if the shape changes; channels 0 = none */
} block;

typedef struct network {
    eager e;
    optimizer optimizer;
    bench_random random;
    bench_values values;
    const unsigned *n_blocks;
    layer stem;
    block blocks[MOST_BLOCKS];
    eager_value head, head_bias;
    uint64_t batch;
    uint64_t workspace_seed; /* of the current step */
    bool is_made;
} network;

static void *create(const bench_values *values, bench_failure *failure)
{
    const double *of = values->of;
    if (of[P_LEAST_H] > of[P_MOST_H] || of[P_LEAST_W] > of[P_MOST_W]) {
        bench_fail(failure, "conv: least_height or least_width is more than the most");
        return NULL;
    }
    network *n = calloc(1, sizeof *n);
    if (!n) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    eager_init(&n->e);
    n->values = *values;
    n->random.state = values->seed;
    n->optimizer.kind = (optimizer_kind)of[P_OPTIMIZER];
    n->n_blocks = n_blocks[(size_t)of[P_DEPTH]];
    n->batch = (uint64_t)of[P_BATCH];
    return n;
}

static void destroy(void *state)
{
    network *n = state;
    optimizer_fini(&n->optimizer);
    eager_fini(&n->e);
    free(n);
}

static void make_weight(network *n, layer *l, uint64_t in, uint64_t out, unsigned side,
                        unsigned stride)
{
    *l = (layer){ .channels = out, .side = side, .stride = stride };
    l->weight = eager_parameter(&n->e, in * out * side * side * ELEMENT, false);
}

/* Makes scale and shift; the running statistics are no parameters. */
static void make_norm(network *n, layer *l)
{
    l->scale = eager_parameter(&n->e, l->channels * ELEMENT, false);
    l->shift = eager_parameter(&n->e, l->channels * ELEMENT, false);
    eager_new(&n->e, l->channels * ELEMENT);
    eager_new(&n->e, l->channels * ELEMENT);
}

static void make_block(network *n, block *b, uint64_t in, uint64_t middle, unsigned stride)
{
    uint64_t out = middle * EXPANSION;
    make_weight(n, &b->layers[0], in, middle, 1, 1);
    make_weight(n, &b->layers[1], middle, middle, 3, stride);
    make_weight(n, &b->layers[2], middle, out, 1, 1);
    for (unsigned i = 0; i < 3; i++) {
        make_norm(n, &b->layers[i]);
    }
    if (in != out || stride != 1) {
        make_weight(n, &b->shortcut, in, out, 1, stride);
        make_norm(n, &b->shortcut);
    }
}

static void make_network(network *n)
{
    uint64_t channels = (uint64_t)n->values.of[P_WIDTH];
    uint64_t middle = channels;
    uint64_t n_classes = (uint64_t)n->values.of[P_CLASSES];
    block *b = n->blocks;
    make_weight(n, &n->stem, 3, channels, 7, 2);
    make_norm(n, &n->stem);
    for (unsigned stage = 0; stage < N_STAGES; stage++) {
        for (unsigned i = 0; i < n->n_blocks[stage]; i++) {
            make_block(n, b++, channels, middle, stage > 0 && i == 0 ? 2 : 1);
            channels = middle * EXPANSION;
        }
        middle *= 2;
    }
    n->head = eager_parameter(&n->e, channels * n_classes * ELEMENT, false);
    n->head_bias = eager_parameter(&n->e, n_classes * ELEMENT, false);
    eager_new(&n->e, WORKSPACE);
}

static uint64_t bytes_of(const network *n, const image *i)
{
    return n->batch * i->channels * i->height * i->width * ELEMENT;
}

/* One in six shapes has no workspace. Others have 2^-9 to 2^3 times the result, spread evenly over
 * the powers, and at most 1 GiB. */
static uint64_t draw_workspace(const network *n, const image *out, unsigned direction)
{
    if (n->values.of[P_WORKSPACES] < 1) {
        return 0;
    }
    bench_random random = { .state = n->workspace_seed ^ (out->channels << 40) ^
                                     (out->height << 20) ^ (out->width << 1) ^ direction };
    if (bench_random_between(&random, 0, 5) == 0) {
        return 0;
    }
    uint64_t most = bytes_of(n, out) * 8 < MOST_WORKSPACE ? bytes_of(n, out) * 8 : MOST_WORKSPACE;
    most >>= bench_random_between(&random, 0, 11);
    return bench_random_between(&random, most / 2 + 1, most + 1);
}

static eager_value convolve(network *n, const layer *l, eager_value x, const image *in,
                            const image *out)
{
    eager *e = &n->e;
    eager_value y = eager_new(e, bytes_of(n, out));
    uint64_t bytes = l->side > 1 ? draw_workspace(n, out, 0) : 0;
    if (bytes) {
        eager_drop(e, eager_new(e, bytes));
    }
    if (eager_needs(e, x.edge | l->weight.edge)) {
        eager_node *node = eager_record(e, &y);
        eager_give(e, node, x.edge, bytes_of(n, in));
        eager_give(e, node, l->weight.edge, eager_leaf_of(e, l->weight)->bytes);
        bytes = l->side > 1 ? draw_workspace(n, out, 1) : 0;
        if (bytes) {
            eager_temporary(node, bytes);
        }
        eager_save(e, node, x);
    }
    return y;
}

static eager_value activate(network *n, eager_value x, const image *i)
{
    eager *e = &n->e;
    eager_value y = { .block = x.block };
    eager_node *node = eager_record(e, &y);
    eager_give(e, node, x.edge, bytes_of(n, i));
    eager_save(e, node, y);
    return y;
}

/* Convolution and normalisation; `image` becomes the result's shape. Does not consume the
 * argument. */
static eager_value run_layer(network *n, const layer *l, eager_value x, image *shape)
{
    eager *e = &n->e;
    image out = { .channels = l->channels,
                  .height = (shape->height + l->stride - 1) / l->stride,
                  .width = (shape->width + l->stride - 1) / l->stride };
    uint64_t small = l->channels * ELEMENT;
    eager_value y = convolve(n, l, x, shape, &out);
    *shape = out;
    return op_replace(e, y, op_norm(e, y, l->scale, l->shift, bytes_of(n, &out), small, small));
}

static eager_value run_block(network *n, const block *b, eager_value x, image *shape)
{
    eager *e = &n->e;
    image side = *shape;
    eager_value y = eager_keep(e, x);
    for (unsigned i = 0; i < 3; i++) {
        y = op_replace(e, y, run_layer(n, &b->layers[i], y, shape));
        y = i < 2 ? activate(n, y, shape) : y;
    }
    eager_value identity = b->shortcut.channels ? run_layer(n, &b->shortcut, x, &side)
                                                : eager_keep(e, x);
    eager_value sum = { .block = y.block };
    eager_node *node = eager_record(e, &sum);
    eager_pass(e, node, identity.edge);
    eager_pass(e, node, y.edge);
    sum = activate(n, sum, shape);
    eager_drop(e, identity);
    eager_drop(e, x);
    return sum;
}

/* A 3 x 3 maximum at every second pixel, and the indices of the maxima. */
static eager_value pool(network *n, eager_value x, image *shape)
{
    eager *e = &n->e;
    uint64_t in = bytes_of(n, shape);
    shape->height = (shape->height + 1) / 2;
    shape->width = (shape->width + 1) / 2;
    uint64_t out = bytes_of(n, shape);
    eager_value y = eager_new(e, out);
    eager_value places = eager_new(e, out / ELEMENT * INDEX);
    eager_node *node = eager_record(e, &y);
    eager_give(e, node, x.edge, in);
    eager_save(e, node, x);
    eager_save(e, node, places);
    eager_drop(e, places);
    eager_drop(e, x);
    return y;
}

/* Mean over the pixels, the scores of the classes, the loss; then hands in the gradient of the
 * loss. */
static void finish(network *n, eager_value x, const image *shape, eager_value labels,
                   eager_value *kept)
{
    eager *e = &n->e;
    uint64_t features = n->batch * shape->channels * ELEMENT;
    uint64_t scores = n->batch * (uint64_t)n->values.of[P_CLASSES] * ELEMENT;
    eager_value mean = op_unary(e, x, features, bytes_of(n, shape), OP_KEEPS_INPUT);
    eager_drop(e, x);
    eager_value logits = op_linear(e, mean, n->head, n->head_bias, scores, features);
    eager_drop(e, mean);
    eager_value chances = op_unary(e, logits, scores, scores, OP_KEEPS_RESULT);
    eager_value loss = eager_new(e, ELEMENT);
    eager_value total = eager_new(e, ELEMENT);
    eager_node *node = eager_record(e, &loss);
    eager_give(e, node, chances.edge, scores);
    eager_save(e, node, labels);
    eager_save(e, node, total);
    eager_drop(e, logits);
    eager_drop(e, labels);
    eager_drop(e, total);
    eager_drop(e, chances);
    kept[0] = eager_new(e, ELEMENT);
    kept[1] = loss;
    eager_deliver(e, loss.edge, eager_keep(e, kept[0]));
}

static uint64_t draw_side(network *n, unsigned least, unsigned most)
{
    uint64_t from = (uint64_t)n->values.of[least];
    uint64_t step = (uint64_t)n->values.of[P_STEP];
    uint64_t n_steps = ((uint64_t)n->values.of[most] - from) / step;
    return from + step * bench_random_between(&n->random, 0, n_steps);
}

static void train(network *n)
{
    eager *e = &n->e;
    image shape = { .channels = 3,
                    .height = draw_side(n, P_LEAST_H, P_MOST_H),
                    .width = draw_side(n, P_LEAST_W, P_MOST_W) };
    n->workspace_seed = bench_random_next(&n->random);
    eager_value images = eager_new(e, bytes_of(n, &shape));
    eager_value labels = eager_new(e, n->batch * INDEX);
    eager_value x = run_layer(n, &n->stem, images, &shape);
    eager_drop(e, images);
    x = pool(n, activate(n, x, &shape), &shape);
    const block *b = n->blocks;
    for (unsigned stage = 0; stage < N_STAGES; stage++) {
        for (unsigned i = 0; i < n->n_blocks[stage]; i++) {
            x = run_block(n, b++, x, &shape);
        }
    }
    eager_value kept[2];
    finish(n, x, &shape, labels, kept);
    eager_backward(e);
    eager_drop(e, kept[0]);
    eager_drop(e, kept[1]);
    optimizer_step(&n->optimizer, e);
    eager_zero_gradients(e);
}

static bool write(void *state, uint64_t number, bench_tape *tape)
{
    network *n = state;
    (void)number;
    n->e.tape = tape;
    if (!n->is_made) {
        make_network(n);
        n->is_made = true;
    }
    if (!n->e.has_failed) {
        train(n);
    }
    return !n->e.has_failed;
}

const bench_generator bench_conv = {
    .name = "conv",
    .doc = "training of a residual network on images of varying height and width",
    .params = params,
    .iterations = 50,
    .create = create,
    .destroy = destroy,
    .write = write,
};

/* decoder.h - a transformer decoder as an eager framework runs it: its weights, the sizes of a
 * step's blocks, forward, loss. Training and serving are in the generators' own files. */
#ifndef PLEAT_BENCH_DECODER_H
#define PLEAT_BENCH_DECODER_H

#include "bench/base/failure.h"
#include "bench/base/random.h"
#include "bench/generate/ops.h"

typedef enum decoder_family {
    DECODER_LLAMA, /* RMSNorm, rotary positions, no biases */
    DECODER_GPT    /* LayerNorm, learned positions, biases, one matrix for q, k and v */
} decoder_family;

typedef enum decoder_type { DECODER_BF16, DECODER_FP32, DECODER_AMP } decoder_type;

typedef struct decoder_shape {
    decoder_family family;
    decoder_type type;
    uint32_t n_layers;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint64_t hidden;
    uint64_t ff;
    uint64_t vocabulary;
    uint64_t n_positions; /* learned positions: rows of the table */
    uint32_t lora_rank;   /* 0 = all weights are trained */
    uint32_t n_experts;   /* 0 = one mlp for all tokens */
    uint32_t top_k;
    bool is_frozen; /* nothing is trained: no gradients */
    bool is_gated;
    bool is_tied;
    bool is_flash;
    bool has_dropout;
} decoder_shape;

enum { DECODER_MOST_EXPERTS = 256 };

typedef struct decoder_expert {
    eager_value gate;
    eager_value up;
    eager_value down;
} decoder_expert;

typedef struct decoder_layer {
    eager_value norm1, norm1_bias, norm2, norm2_bias;
    eager_value q, q_bias; /* GPT: q, k and v in one matrix */
    eager_value k, v;
    eager_value out, out_bias;
    eager_value gate, up, up_bias, down, down_bias;
    eager_value q_low, q_high, v_low, v_high; /* LoRA */
    eager_value router;
    decoder_expert *experts;
} decoder_layer;

/* The sizes in bytes of one step's blocks. */
typedef struct decoder_sizes {
    uint64_t n_rows; /* sequences */
    uint64_t length;
    uint64_t n_tokens;
    uint64_t indices;    /* of token indices, 8 bytes each */
    uint64_t activation; /* tokens x hidden, as matrix products read it */
    uint64_t residual;   /* tokens x hidden, as residual sums use it */
    uint64_t wide;       /* tokens x hidden, 4 bytes each */
    uint64_t row;        /* 4 bytes per token: statistics */
    uint64_t kv;         /* tokens x the heads of k or v */
    uint64_t inner;      /* tokens x ff */
    uint64_t scores;     /* rows x heads x length x length */
    uint64_t table;      /* of rotary positions */
} decoder_sizes;

typedef struct decoder {
    eager e;
    decoder_shape shape;
    decoder_sizes sizes;
    uint64_t element;   /* of one element in a matrix product */
    uint64_t parameter; /* of one in a parameter */
    decoder_layer *layers;
    decoder_expert *experts; /* of all layers */
    eager_value embedding, positions, norm, norm_bias, head;
    eager_value mask, cosine, sine; /* of this step */
    bool keeps_kv;                  /* keep the last layer's k and v, for a cache */
    eager_value kept_k, kept_v;
    eager_value *casts; /* copies of parameters made by autocast */
    uint32_t n_casts;
    uint32_t most_casts;
    bench_random *random; /* draws the tokens of an expert */
} decoder;

/* Check that the numbers fit together. */
bool decoder_shape_check(const char *generator, const decoder_shape *shape, bench_failure *failure);
/* Takes host memory only; decoder_make makes the parameters. False and a message without memory. */
bool decoder_init(decoder *d, const decoder_shape *shape, bench_failure *failure);
void decoder_fini(decoder *d);
void decoder_make(decoder *d);
/* The parameters of layer i in their order, without experts and biases. */
enum { DECODER_MOST_PARAMETERS = 9 };
uint32_t decoder_layer_parameters(decoder *d, uint32_t i, eager_value **out);

/* Set the sizes of a step on `n_rows` sequences padded to `length`. */
void decoder_begin(decoder *d, uint64_t n_rows, uint64_t length);
eager_value decoder_embed(decoder *d, eager_value indices);
/* Run a layer. Does not consume the argument. */
eager_value decoder_layer_run(decoder *d, uint32_t i, eager_value x);
eager_value decoder_norm(decoder *d, eager_value x, eager_value weight, eager_value bias);
/* Logits after the last norm. */
eager_value decoder_logits(decoder *d, eager_value x);
/* The cross-entropy of the logits. Drops the logits. */
eager_value decoder_loss(decoder *d, eager_value logits, eager_value labels);
void decoder_drop_casts(decoder *d); /* autocast ends */
void decoder_end(decoder *d);        /* the end of a step: drops the mask and the tables, too */

/* Pieces that several files of a decoder use. */
eager_value decoder_linear(decoder *d, eager_value x, eager_value weight, eager_value bias,
                           uint64_t out, uint64_t in);
eager_value decoder_cast(decoder *d, eager_value residual);
eager_value decoder_plus(decoder *d, eager_value x, eager_value branch);
eager_value decoder_attention(decoder *d, eager_value q, eager_value k, eager_value v);
eager_value decoder_mlp(decoder *d, const decoder_layer *layer, eager_value x);
eager_value decoder_experts(decoder *d, const decoder_layer *layer, eager_value x);

#endif

/* inference.h - a decoder that generates text. A prompt is followed by token after token, with
 * caches of keys and values for each request and layer. */
#ifndef PLEAT_BENCH_INFERENCE_H
#define PLEAT_BENCH_INFERENCE_H

#include "bench/generate/decoder.h"

typedef enum inference_cache {
    INFERENCE_CONCAT, /* a block each for keys and values; growth makes a new block */
    INFERENCE_PAGED   /* in blocks of a fixed number of tokens */
} inference_cache;

extern const char *const inference_cache_words[];

enum { INFERENCE_MOST_REQUESTS = 1024 };

typedef struct inference_plan {
    uint32_t n_requests;  /* most at once */
    uint32_t n_rows;      /* sequences of a request */
    uint32_t most_tokens; /* of a sequence */
    uint32_t page;        /* tokens */
    inference_cache cache;
} inference_plan;

typedef struct inference {
    decoder *d;
    inference_plan plan;
    eager_value *keys; /* by request and layer */
    eager_value *values;
    uint32_t *pages; /* blocks, by request, layer and number */
    uint32_t n_pages;
    uint32_t *lengths; /* tokens in the caches, by request; 0 = none */
    eager_value logits;
} inference;

bool inference_init(inference *n, decoder *d, const inference_plan *plan, bench_failure *failure);
void inference_fini(inference *n);
/* Run a prompt and fill the request's caches, which must be empty. */
void inference_prefill(inference *n, uint32_t request, uint32_t length);
/* Generate one more token for each listed request. */
void inference_decode(inference *n, const uint32_t *requests, uint32_t n_requests);
void inference_drop(inference *n, uint32_t request);
/* Drop the logits and tables that stay until the next pass. */
void inference_end(inference *n);

#endif

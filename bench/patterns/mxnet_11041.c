/* mxnet_11041.c - an LSTM over sequences of every length: a cache of exact sizes never hits.
 *
 * For each length from 500 down to 11, ten times: a batch of inputs, the output, and the LSTM's
 * saved blocks in between. Every tensor is a multiple of length x batch x hidden floats. So each
 * new length misses in a cache that reuses equal sizes only.
 *
 *   script   for seq_len in 500, 499 ... 11: ten times: inputs = normal(...); out = lstm(inputs)
 *   here     input +, last input -, output +, saved +, saved -, last output -
 *
 * Published: the script (mxnet#10453) with batch 32, hidden size 200 and one layer. Also the memory
 * taken from the device: 55.45 GB where sizes had to match, 1.32 GB with Round. Not published: the
 * LSTM's saved blocks. A single saved block must have the size of 15.58 tensors to give 55.45 GiB.
 * Then Round takes 1.30 GiB:
 *
 *   mxnet#11041:batch=32,saved=1,units=15.58   where mxnet-naive matches sizes as it did in 2018:
 *   --conf mxnet_gpu_pool_page_size:32,mxnet_gpu_mem_large_alloc_round_size:1
 *
 * Since then Naive rounds sizes above 2 MiB up to multiples of 2 MiB, and the script takes 9.4 GiB.
 * Smaller tensors are treated as before. So the defaults are a batch of 8 and 168 saved blocks,
 * each as large as one tensor. This takes 55.4 GiB under today's mxnet-naive and 1.32 GiB under
 * mxnet-round. The batch and the saved blocks are chosen here. Lengths, repeats, hidden size and
 * both figures are published.
 *
 * Memory: both MXNet pools round 3.1 MiB up to 4 MiB and need 1.31 times the peak. The need of
 * torch-native is 1.11, since it cuts 6 tensors from 20 MiB. Others need 1.03 to 1.05, and pleat
 * needs the peak.
 *
 * Source: github.com/apache/mxnet/pull/11041 and /issues/10453. */
#include <math.h>
#include <stdlib.h>

#include "bench/patterns/patterns.h"

enum { P_LONGEST, P_REPEATS, P_BATCH, P_HIDDEN, P_SAVED, P_UNITS, N_LENGTHS = 490 };

static const bench_param params[] = {
    { .name = "longest",
      .doc = "length of the first sequences; each iteration is one shorter",
      .standard = 500,
      .least = 1,
      .most = 1000000,
      .is_whole = true },
    { .name = "repeats",
      .doc = "batches of each length",
      .standard = 10,
      .least = 1,
      .most = 1000000,
      .is_whole = true },
    { .name = "batch",
      .doc = "sequences in a batch",
      .standard = 8,
      .least = 1,
      .most = 65536,
      .is_whole = true },
    { .name = "hidden",
      .doc = "numbers of 4 bytes in a step of a sequence",
      .standard = 200,
      .least = 1,
      .most = 65536,
      .is_whole = true },
    { .name = "saved",
      .doc = "blocks that live inside a pass",
      .standard = 168,
      .least = 0,
      .most = 100000,
      .is_whole = true },
    { .name = "units",
      .doc = "size of such a block, in tensors of length x batch x hidden",
      .standard = 1,
      .least = 0.001,
      .most = 1000 },
    { .name = NULL },
};

typedef struct lstm {
    uint64_t longest;
    uint64_t n_repeats;
    uint64_t step_bytes; /* of all sequences of a batch */
    double units;
    bool has_last; /* of the previous batch */
    uint32_t input;
    uint32_t output;
    size_t n_saved;
    uint32_t saved[];
} lstm;

static void *create(const bench_values *values, bench_failure *failure)
{
    const double *of = values->of;
    if (values->iterations > (uint64_t)of[P_LONGEST]) {
        bench_fail(failure, "mxnet#11041: iterations is more than longest");
        return NULL;
    }
    size_t n_saved = (size_t)of[P_SAVED];
    lstm *l = calloc(1, sizeof *l + n_saved * sizeof l->saved[0]);
    if (!l) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    l->longest = (uint64_t)of[P_LONGEST];
    l->n_repeats = (uint64_t)of[P_REPEATS];
    l->step_bytes = (uint64_t)(of[P_BATCH] * of[P_HIDDEN]) * sizeof(float);
    l->units = of[P_UNITS];
    l->n_saved = n_saved;
    return l;
}

static bool save(lstm *l, uint64_t bytes, bench_tape *tape)
{
    for (size_t i = 0; i < l->n_saved; i++) {
        if (!bench_tape_alloc(tape, bytes, 0, &l->saved[i])) {
            return false;
        }
    }
    return true;
}

static bool forget(lstm *l, bench_tape *tape)
{
    for (size_t i = l->n_saved; i-- > 0;) {
        if (!bench_tape_free(tape, l->saved[i])) {
            return false;
        }
    }
    return true;
}

/* One batch. As in Python, the old tensor lives until the new one is made. */
static bool run_batch(lstm *l, uint64_t bytes, bench_tape *tape)
{
    uint64_t saved_bytes = (uint64_t)ceil((double)bytes * l->units);
    uint32_t last_input = l->input;
    uint32_t last_output = l->output;
    bool ok = bench_tape_alloc(tape, bytes, 0, &l->input) &&
              (!l->has_last || bench_tape_free(tape, last_input)) &&
              bench_tape_alloc(tape, bytes, 0, &l->output) && save(l, saved_bytes, tape) &&
              forget(l, tape) && (!l->has_last || bench_tape_free(tape, last_output));
    l->has_last = true;
    return ok;
}

/* An iteration is one length. */
static bool write(void *state, uint64_t number, bench_tape *tape)
{
    lstm *l = state;
    uint64_t bytes = (l->longest - number) * l->step_bytes;
    for (uint64_t i = 0; i < l->n_repeats; i++) {
        if (!run_batch(l, bytes, tape)) {
            return false;
        }
    }
    return true;
}

const bench_generator bench_mxnet_11041 = {
    .name = "mxnet#11041",
    .doc = "an LSTM over sequences of every length: exact sizes never come again",
    .params = params,
    .iterations = N_LENGTHS,
    .create = create,
    .destroy = free,
    .write = write,
};

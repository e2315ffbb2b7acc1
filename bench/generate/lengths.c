/* lengths.c - random lengths from exact arithmetic.
 *
 * exp(x) is the Taylor polynomial of degree 12 at x/1024, squared ten times. Only IEEE additions,
 * multiplications and divisions in a fixed order are used. So every machine draws the same lengths.
 * FP_CONTRACT and the explicit temporaries keep the compiler from fusing operations. */
#include "bench/generate/lengths.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

double bench_random_part(bench_random *random)
{
    return (double)(bench_random_next(random) >> 11) * 0x1p-53;
}

/* The volatile stores keep multiplication and addition apart in every mode of the compiler. */
static double exponential(double x)
{
    double small = x / 1024.0;
    double sum = 1.0;
    for (int n = 12; n > 0; n--) {
        volatile double term = sum * small / n;
        sum = 1.0 + term;
    }
    for (int i = 0; i < 10; i++) {
        volatile double square = sum * sum;
        sum = square;
    }
    return sum;
}

/* A value of the standard normal distribution: the sum of twelve uniform draws, less six. The tails
 * end at six deviations. */
static double normal(bench_random *random)
{
    double sum = -6.0;
    for (int i = 0; i < 12; i++) {
        sum += bench_random_part(random);
    }
    return sum;
}

uint32_t bench_length_draw(bench_random *random, const bench_lengths *lengths)
{
    double length = lengths->median;
    if (lengths->sigma > 0.0) {
        volatile double power = lengths->sigma * normal(random);
        volatile double scaled = length * exponential(power);
        length = scaled;
    }
    double most = lengths->most;
    uint32_t whole = length >= most ? lengths->most : length < 1.0 ? 1 : (uint32_t)length;
    uint64_t rounded = ((uint64_t)whole + lengths->multiple - 1) / lengths->multiple;
    rounded *= lengths->multiple;
    return rounded < lengths->most ? (uint32_t)rounded : lengths->most;
}

uint32_t bench_length_longest(bench_random *random, const bench_lengths *lengths, uint32_t n)
{
    uint32_t longest = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t length = bench_length_draw(random, lengths);
        longest = length > longest ? length : longest;
    }
    return longest;
}

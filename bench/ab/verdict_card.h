/* verdict_card.h - what the advice of a verdict says beside the place: how much memory a card of
 * that name has, the driver's time there, and how to go back. */
#ifndef PLEAT_BENCH_VERDICT_CARD_H
#define PLEAT_BENCH_VERDICT_CARD_H

#include "bench/ab/verdict.h"
#include "bench/base/line.h"

/* "; a 24 GB card has 21.5 GiB for tensors, as an L4 or A10G", and whether a simpler setting does
 * on larger cards of that name. Nothing where no card is advised. */
void bench_verdict_put_card(const bench_verdict_input *in, const bench_verdict *v, bench_line *l);
/* "; driver calls take 0.68 s there in a first pass, modelled (torch-native, on 32 GB: 0.29 s)", of
 * a setting to change to. */
void bench_verdict_put_time(const bench_verdict_input *in, const bench_verdict *v, bench_line *l);
/* How to undo the advice; nothing where nothing is to change. */
void bench_verdict_write_back(const bench_verdict *v, bench_line *l);

#endif

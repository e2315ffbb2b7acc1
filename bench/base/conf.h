/* conf.h - reads the items of a text like PYTORCH_CUDA_ALLOC_CONF (key:value,key:[value,...]). */
#ifndef PLEAT_BENCH_CONF_H
#define PLEAT_BENCH_CONF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct bench_conf_item {
    const char *text; /* key and value */
    size_t n;
    size_t n_key;
    const char *value; /* behind the colon */
    size_t n_value;
} bench_conf_item;

/* Read the item at *at and move *at behind it. False: no item is left. Commas in brackets end no
 * item. */
bool bench_conf_next(const char **at, bench_conf_item *out);
bool bench_conf_is(const bench_conf_item *item, const char *key);
bool bench_conf_has_value(const bench_conf_item *item, const char *value);
/* Copy the PyTorch settings that change driver calls and that the models also know. */
void bench_conf_modelled(const char *conf, char *out, size_t n);

#endif

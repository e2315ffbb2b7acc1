/* conf.c - the items of a text such as PYTORCH_CUDA_ALLOC_CONF. */
#include "bench/base/conf.h"

#include <stdio.h>
#include <string.h>

bool bench_conf_next(const char **at, bench_conf_item *out)
{
    const char *begin = *at + strspn(*at, ", ");
    const char *end = begin;
    for (int nesting = 0; *end && !(*end == ',' && nesting <= 0); end++) {
        nesting += (*end == '[') - (*end == ']');
    }
    *at = end;
    *out = (bench_conf_item){ .text = begin, .n = (size_t)(end - begin) };
    size_t n_key = strcspn(begin, ":=, ");
    out->n_key = n_key < out->n ? n_key : out->n;
    out->value = begin + out->n_key;
    while (out->value < end && strchr(":= ", *out->value)) {
        out->value++;
    }
    out->n_value = (size_t)(end - out->value);
    while (out->n_value > 0 && out->value[out->n_value - 1] == ' ') {
        out->n_value--;
    }
    return out->n > 0;
}

bool bench_conf_is(const bench_conf_item *item, const char *key)
{
    return strlen(key) == item->n_key && memcmp(key, item->text, item->n_key) == 0;
}

bool bench_conf_has_value(const bench_conf_item *item, const char *value)
{
    return strlen(value) == item->n_value && memcmp(value, item->value, item->n_value) == 0;
}

void bench_conf_modelled(const char *conf, char *out, size_t n)
{
    static const char *const keys[] = { "large_segment_size_mb", "max_split_size_mb",
                                        "max_non_split_rounding_mb", "roundup_power2_divisions" };
    bench_conf_item item;
    size_t used = 0;
    out[0] = '\0';
    while (bench_conf_next(&conf, &item)) {
        for (size_t i = 0; i < sizeof keys / sizeof keys[0] && used + item.n + 2 < n; i++) {
            if (bench_conf_is(&item, keys[i])) {
                used += (size_t)snprintf(out + used, n - used, "%s%.*s", used ? "," : "",
                                         (int)item.n, item.text);
            }
        }
    }
}

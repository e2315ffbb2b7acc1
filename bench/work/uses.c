/* uses.c - the current uses of blocks on other streams, and the freed bytes waiting for these
 * uses. */
#include "bench/work/uses.h"

#include <string.h>

#include "vmm/base/assert.h"

void bench_uses_fini(bench_uses *uses, bench_host *host)
{
    bench_host_free(host, uses->of, uses->capacity * sizeof *uses->of);
    bench_host_free(host, uses->first_of, uses->n_slots * sizeof *uses->first_of);
    *uses = (bench_uses){ .n = 0 };
}

static bool make_room(bench_uses *uses, bench_host *host, uint32_t slot)
{
    if (slot >= uses->n_slots) {
        uint32_t n = 2 * (slot + 1);
        uint32_t *first_of = bench_host_resize(
            host, uses->first_of, uses->n_slots * sizeof *first_of, n * sizeof *first_of);
        if (!first_of) {
            return false;
        }
        memset(first_of + uses->n_slots, 0, (n - uses->n_slots) * sizeof *first_of);
        uses->first_of = first_of;
        uses->n_slots = n;
    }
    if (uses->first_free == 0 && uses->n == uses->capacity) {
        uint32_t capacity = uses->capacity ? 2 * uses->capacity : 64;
        bench_use *of = bench_host_resize(host, uses->of, uses->capacity * sizeof *of,
                                          capacity * sizeof *of);
        if (!of) {
            return false;
        }
        uses->of = of;
        uses->capacity = capacity;
    }
    return true;
}

bool bench_uses_begin(bench_uses *uses, bench_host *host, uint32_t slot, uint64_t bytes,
                      uint32_t *use)
{
    if (!make_room(uses, host, slot)) {
        return false;
    }
    uint32_t i = uses->n;
    if (uses->first_free > 0) {
        i = uses->first_free - 1;
        uses->first_free = uses->of[i].next;
    } else {
        uses->n++;
    }
    uses->of[i] = (bench_use){ .bytes = bytes, .slot = slot, .next = i, .previous = i };
    uint32_t first = uses->first_of[slot];
    if (first > 0) {
        bench_use *after = &uses->of[first - 1];
        uses->of[i].next = after->next;
        uses->of[i].previous = first - 1;
        uses->of[after->next].previous = i;
        after->next = i;
    }
    uses->first_of[slot] = i + 1;
    *use = i;
    return true;
}

void bench_uses_freed(bench_uses *uses, uint32_t slot)
{
    uint32_t first = slot < uses->n_slots ? uses->first_of[slot] : 0;
    if (first == 0) {
        return;
    }
    uses->first_of[slot] = 0;
    uses->pending_bytes += uses->of[first - 1].bytes;
    uint32_t i = first - 1;
    do {
        uses->of[i].is_freed = true;
        i = uses->of[i].next;
    } while (i != first - 1);
}

void bench_uses_end(bench_uses *uses, uint32_t use)
{
    bench_use *it = &uses->of[use];
    pl_assert(use < uses->n && it->bytes > 0);
    bool is_last = it->next == use;
    if (!it->is_freed) {
        uses->first_of[it->slot] = is_last ? 0 : it->next + 1;
    } else if (is_last) {
        uses->pending_bytes -= it->bytes;
    }
    uses->of[it->previous].next = it->next;
    uses->of[it->next].previous = it->previous;
    it->bytes = 0;
    it->next = uses->first_free;
    uses->first_free = use + 1;
}

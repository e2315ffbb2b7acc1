/* restores.c - see restores.h. */
#include "tests/support/restores.h"

#include <check.h>
#include <stdlib.h>

static bool is_full(size_t n)
{
    return (n & (n - 1)) == 0; /* room for the next power of two is made */
}

void restores_see(void *context, pleat_restored what, const pleat_pool_block *block)
{
    restores *told = context;
    size_t n = told->n[what];
    if (is_full(n)) {
        told->blocks[what] = realloc(told->blocks[what], (n == 0 ? 1 : 2 * n) * sizeof *block);
        ck_assert_ptr_nonnull(told->blocks[what]);
    }
    ck_assert(n == 0 || told->blocks[what][n - 1].base < block->base);
    ck_assert(what != PLEAT_RESTORED_FREED ||
              told->n[PLEAT_RESTORED_KEPT] + told->n[PLEAT_RESTORED_MADE] == 0);
    told->blocks[what][n] = *block;
    told->n[what]++;
}

void restores_see_block(void *context, const pleat_pool_block *block)
{
    restores_see(context, PLEAT_RESTORED_KEPT, block);
}

const pleat_pool_block *restores_find(const restores *told, pleat_restored what, pleat_devptr base)
{
    for (size_t i = 0; i < told->n[what]; i++) {
        if (told->blocks[what][i].base == base) {
            return &told->blocks[what][i];
        }
    }
    return NULL;
}

void restores_clear(restores *told)
{
    for (size_t i = 0; i < 3; i++) {
        free(told->blocks[i]);
    }
    *told = (restores){ 0 };
}

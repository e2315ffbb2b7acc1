/* fuzz_pool.c - see fuzz_pool.h. */
#include "tests/fuzz/fuzz_pool.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

typedef struct saved {
    pleat_devptr ptr;
    size_t bytes;
    unsigned owner;
    uint32_t owner_life;
} saved;

typedef struct checkpoint {
    pleat_checkpoint handle; /* number 0: the slot is free */
    unsigned pool;
    int domain; /* the pool's life */
    saved blocks[FUZZ_BLOCKS];
    unsigned n;
} checkpoint;

static checkpoint all[FUZZ_CHECKPOINTS];

void fuzz_pool_open(void)
{
    memset(all, 0, sizeof all);
}

static unsigned count_live(int domain)
{
    unsigned n = 0;
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        n += world.blocks[i].ptr != 0 && world.blocks[i].domain == domain;
    }
    return n;
}

static const saved *find_saved(const checkpoint *c, pleat_devptr ptr)
{
    for (unsigned i = 0; i < c->n; i++) {
        if (c->blocks[i].ptr == ptr) {
            return &c->blocks[i];
        }
    }
    return NULL;
}

/* ---- taking and releasing -------------------------------------------------------------------- */

void fuzz_release_checkpoint(unsigned number)
{
    checkpoint *c = &all[number];
    bool is_there = c->handle.number != 0;
    fuzz_begin_call();
    pleat_status st = pleat_checkpoint_release(world.instance, 0, c->handle);
    fuzz_end_call("checkpoint_release", st, FUZZ_BIT(is_there ? PLEAT_OK : PLEAT_EINVAL));
    c->handle.number = st == PLEAT_OK ? 0 : c->handle.number;
}

void fuzz_take_checkpoint(unsigned number, unsigned pool)
{
    checkpoint *c = &all[number];
    int domain = fuzz_pool_domain(pool);
    checkpoint taken = { .pool = pool, .domain = domain };
    if (c->handle.number != 0) {
        fuzz_release_checkpoint(number);
    }
    fuzz_begin_call();
    pleat_status st = pleat_checkpoint_take(world.instance, 0, fuzz_pool_name(pool), &taken.handle);
    fuzz_end_call("checkpoint_take", st,
                  FUZZ_BIT(domain != FUZZ_NO_DOMAIN ? PLEAT_OK : PLEAT_EPOOL));
    for (unsigned i = 0; i < FUZZ_BLOCKS && st == PLEAT_OK; i++) {
        const fuzz_block *b = &world.blocks[i];
        if (b->ptr != 0 && b->domain == domain) {
            taken.blocks[taken.n++] = (saved){ b->ptr, b->bytes, b->owner, b->owner_life };
        }
    }
    if (st == PLEAT_OK) {
        *c = taken;
    }
}

/* ---- restoring ------------------------------------------------------------------------------- */

static void see(void *context, pleat_restored what, const pleat_pool_block *told)
{
    const checkpoint *c = context;
    const saved *wanted = find_saved(c, told->base);
    unsigned index = fuzz_find(told->base);
    bool is_live = index < FUZZ_BLOCKS;
    if (what == PLEAT_RESTORED_FREED) {
        fuzz_check(is_live, "%#llx is freed, and did not live", (unsigned long long)told->base);
        fuzz_say("block %u: freed by the restore", index);
        world.blocks[index].ptr = 0;
        return;
    }
    fuzz_check(wanted != NULL && wanted->bytes == told->requested_bytes,
               "%#llx lives, and is not the checkpoint's", (unsigned long long)told->base);
    fuzz_check(is_live == (what == PLEAT_RESTORED_KEPT), "%#llx is kept or made wrongly",
               (unsigned long long)told->base);
    if (what == PLEAT_RESTORED_MADE) {
        fuzz_adopt(wanted->ptr, wanted->bytes, wanted->owner, wanted->owner_life, c->domain);
    }
}

/* Are there slots for all blocks made by the restore? */
static bool has_room(const checkpoint *c)
{
    unsigned n = 0;
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        n += world.blocks[i].ptr == 0 || world.blocks[i].domain == c->domain;
    }
    return n >= c->n;
}

void fuzz_restore_checkpoint(unsigned number, bool is_settled)
{
    checkpoint *c = &all[number];
    if (world.is_capturing || !has_room(c)) {
        return;
    }
    fuzz_tell_last_uses();
    if (is_settled) {
        world.sim_finish();
    }
    bool is_there = c->handle.number != 0;
    bool is_gone = is_there && c->domain != fuzz_pool_domain(c->pool);
    uint32_t allowed = FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_EPENDING);
    allowed = is_gone ? FUZZ_BIT(PLEAT_EPOOL) : is_there ? allowed : FUZZ_BIT(PLEAT_EINVAL);
    unsigned n_before = count_live(c->domain);
    fuzz_begin_call();
    pleat_status st = pleat_checkpoint_restore(world.instance, 0, c->handle,
                                               is_settled ? PLEAT_RESTORE_SETTLED : 0, see, c);
    fuzz_end_call("checkpoint_restore", st, allowed);
    fuzz_check(!is_there || is_gone || count_live(c->domain) == (st == PLEAT_OK ? c->n : n_before),
               "a restore leaves %u blocks of %u", count_live(c->domain), c->n);
}

/* ---- at an address, and comparing ------------------------------------------------------------ */

void fuzz_alloc_at(unsigned number, unsigned which, unsigned slot)
{
    const checkpoint *c = &all[number];
    const fuzz_stream *s = &world.streams[slot];
    if (c->handle.number == 0 || c->n == 0 || !s->is_live || world.is_capturing ||
        fuzz_find(0) == FUZZ_BLOCKS) {
        return;
    }
    const saved *wanted = &c->blocks[which % c->n];
    uint32_t allowed = FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_EPENDING) | FUZZ_BIT(PLEAT_EBUSY);
    bool is_gone = c->domain != fuzz_pool_domain(c->pool); /* a new pool may have the name */
    allowed |= is_gone ? FUZZ_BIT(PLEAT_EPOOL) | FUZZ_BIT(PLEAT_EFOREIGN) : 0;
    fuzz_begin_call();
    pleat_status st = pleat_pool_alloc_at(world.instance, 0, fuzz_pool_name(c->pool), wanted->ptr,
                                          wanted->bytes, s->handle);
    fuzz_end_call("pool_alloc_at", st, allowed);
    if (st == PLEAT_OK) {
        fuzz_adopt(wanted->ptr, wanted->bytes, slot, s->life, fuzz_pool_domain(c->pool));
    }
}

void fuzz_compare_pool(unsigned pool)
{
    pleat_devptr live[FUZZ_BLOCKS];
    pleat_devptr odd = 0;
    size_t n = 0;
    bool is_same = false;
    unsigned users = 0;
    int domain = fuzz_pool_domain(pool);
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        if (world.blocks[i].ptr != 0 && world.blocks[i].domain == domain) {
            live[n++] = world.blocks[i].ptr;
        }
    }
    pleat_status st = pleat_pool_users(world.instance, 0, fuzz_pool_name(pool), &users);
    fuzz_end_call("pool_users", st, FUZZ_BIT(PLEAT_OK));
    fuzz_check((users > 0) == (domain != FUZZ_NO_DOMAIN), "a pool has %u users", users);
    st = pleat_pool_compare(world.instance, 0, fuzz_pool_name(pool), live, n, &is_same, &odd);
    fuzz_end_call("pool_compare", st, FUZZ_BIT(domain != FUZZ_NO_DOMAIN ? PLEAT_OK : PLEAT_EPOOL));
    fuzz_check(st != PLEAT_OK || is_same, "the pool's blocks differ at %#llx",
               (unsigned long long)odd);
}

/* scope.c - see scope.h. Belongs to its thread, so it needs no lock. */
#include "vmm/tools/sim/work/scope.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/memory/pool.h"

static _Thread_local sim_scope self;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void make_key(void)
{
    (void)pthread_key_create(&key, free);
}

sim_scope *sim_scope_self(void)
{
    return &self;
}

/* The list goes with its thread. */
static void grow(size_t n)
{
    if (n <= self.room) {
        return;
    }
    (void)pthread_once(&once, make_key);
    self.room = 2 * n;
    self.accesses = sim_grow(self.accesses, self.room * sizeof(self.accesses[0]));
    (void)pthread_setspecific(key, self.accesses);
}

pleat_sim_access *sim_scope_room(size_t n)
{
    sim_scope_end();
    grow(n);
    return self.accesses;
}

void sim_scope_begin(uint64_t place, size_t n)
{
    self.n = n;
    self.place = place;
    self.is_on = true;
}

void sim_scope_end(void)
{
    self.is_on = false;
    self.place = 0;
    self.n = 0;
}

void sim_scope_add(uint64_t ptr, uint64_t bytes)
{
    bool is_new = true;
    for (size_t i = 0; i < self.n; i++) {
        is_new = is_new && !(self.accesses[i].is_write && self.accesses[i].ptr == ptr);
    }
    if (self.is_on && is_new) {
        grow(self.n + 1);
        self.accesses[self.n++] = (pleat_sim_access){ ptr, bytes > 0 ? bytes : 1, true };
    }
}

void sim_scope_drop(uint64_t ptr)
{
    size_t n = 0;
    for (size_t i = 0; i < self.n; i++) {
        if (!(self.accesses[i].is_write && self.accesses[i].ptr == ptr)) {
            self.accesses[n++] = self.accesses[i];
        }
    }
    self.n = n;
}

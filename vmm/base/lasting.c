/* lasting.c - see lasting.h. Its own lock (rank 90, a leaf) guards its own host. */
#include "vmm/base/lasting.h"

#include <pthread.h>

#include "vmm/base/lock.h"
#include "vmm/base/meta.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    bool is_ready; /* const after `once` */
    pl_lock lock;
    bool has_host; /* lock */
    pl_meta meta;  /* lock */
} lasting;

/* A thread of the parent may have been inside an allocation during the fork. */
static void begin_child(void)
{
    lasting.has_host = false;
    pl_lock_init(&lasting.lock, PL_RANK_STATS);
}

static void get_ready(void)
{
    pl_lock_init(&lasting.lock, PL_RANK_STATS);
    lasting.is_ready = pthread_atfork(NULL, NULL, begin_child) == 0;
}

void *pl_lasting_alloc(size_t bytes)
{
    (void)pthread_once(&once, get_ready);
    if (!lasting.is_ready) {
        return NULL;
    }
    pl_lock_acquire(&lasting.lock);
    lasting.has_host = lasting.has_host || pl_meta_init(&lasting.meta) == PLEAT_OK;
    void *p = lasting.has_host ? pl_meta_calloc(&lasting.meta, 1, bytes) : NULL;
    pl_lock_release(&lasting.lock);
    return p;
}

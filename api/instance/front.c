/* front.c - see front.h. The list of threads' fronts has a lock of its own (rank 90, a leaf). */
#include "api/instance/front.h"

#include <pthread.h>
#include <string.h>

#include "api/instance/slot.h"
#include "vmm/base/lasting.h"

/* Serves no call: the key is 0, and the stream matches none. */
pl_front pl_front_none = { .stream = (const void *)UINTPTR_MAX };

_Thread_local pl_fronts *pl_fronts_self;
static _Thread_local pl_fronts *hidden; /* or here, while is_hidden */
static _Thread_local bool is_hidden;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    bool has_key;      /* const after `once` */
    pthread_key_t key; /* const after `once` */
    pl_lock lock;
    pl_fronts *first; /* lock: of all */
} all;

/* ---- a thread's fronts ----------------------------------------------------------------------- */

/* Blocks of an instance that is gone, or going, go with the instance. */
static void unbind(pl_front *front)
{
    uint64_t key = atomic_load_explicit(&front->key, memory_order_relaxed);
    if (key == 0 || pl_slot_probe(pl_front_handle(key)) != PLEAT_OK) {
        return;
    }
    pl_use use = pl_use_enter(pl_front_handle(key));
    if (use.instance) {
        pl_gpu *gpu = front->user;
        gpu->ops->front_unbind(gpu->allocator, front);
        pl_use_leave(use);
    }
}

/* The thread ends. */
static void leave_all(void *fronts)
{
    pl_fronts *own = fronts;
    for (unsigned i = 0; i < PL_FRONTS_OF_THREAD; i++) {
        unbind(&own->front[i]);
    }
    pl_fronts_self = NULL;
    hidden = NULL;
    pl_caller_self.front = &pl_front_none;
    pl_lock_acquire(&all.lock);
    own->is_taken = false;
    pl_lock_release(&all.lock);
}

/* The forked child has one thread, and its instances are gone. Other threads may have held the
 * lock, and been inside their fronts. */
static void begin_child(void)
{
    pl_lock_init(&all.lock, PL_RANK_STATS);
    for (pl_fronts *f = all.first; f; f = f->next) {
        f->is_taken = f == pl_fronts_self || f == hidden;
        memset(f->front, 0, sizeof f->front);
    }
}

static void prepare(void)
{
    pl_lock_init(&all.lock, PL_RANK_STATS);
    pl_barrier_prepare();
    all.has_key = pthread_key_create(&all.key, leave_all) == 0 &&
                  pthread_atfork(NULL, NULL, begin_child) == 0;
}

static pl_fronts *take_used(void)
{
    pl_lock_acquire(&all.lock);
    pl_fronts *own = all.first;
    while (own && own->is_taken) {
        own = own->next;
    }
    if (own) {
        own->is_taken = true;
    }
    pl_lock_release(&all.lock);
    return own;
}

static pl_fronts *make(void)
{
    pl_fronts *own = pl_lasting_alloc(sizeof *own);
    if (own) {
        pl_lock_acquire(&all.lock);
        own->is_taken = true;
        own->next = all.first;
        all.first = own;
        pl_lock_release(&all.lock);
    }
    return own;
}

void pl_fronts_hide(bool hides)
{
    if (hides) {
        hidden = pl_fronts_self;
        pl_fronts_self = NULL;
    } else {
        pl_fronts_self = hidden;
        hidden = NULL;
    }
    is_hidden = hides;
    if (pl_caller_self.record) { /* any of its fronts: the next call looks which one it needs */
        pl_caller_self.front = pl_fronts_self ? &pl_fronts_self->front[0] : &pl_front_none;
    }
}

/* NULL: fronts are hidden, or host memory is out. */
static pl_fronts *own_fronts(void)
{
    if (pl_fronts_self || is_hidden) {
        return pl_fronts_self;
    }
    (void)pthread_once(&once, prepare);
    pl_fronts *own = all.has_key ? take_used() : NULL;
    own = own || !all.has_key ? own : make();
    if (own && pthread_setspecific(all.key, own) != 0) {
        leave_all(own);
        return NULL;
    }
    pl_fronts_self = own;
    return own;
}

pl_front *pl_front_find(uint64_t key, const void *stream)
{
    pl_fronts *own = pl_fronts_self;
    for (unsigned i = 0; own && i < PL_FRONTS_OF_THREAD; i++) {
        if (pl_front_is_for(&own->front[i], key, stream)) {
            pl_caller_self.front = &own->front[i];
            return &own->front[i];
        }
    }
    return NULL;
}

/* ---- binding --------------------------------------------------------------------------------- */

static bool is_bound(const pl_front *front)
{
    return atomic_load_explicit(&front->key, memory_order_acquire) != 0;
}

/* The place of the stream, or else a free place. */
static unsigned choose_place(const pl_fronts *own, const void *stream)
{
    unsigned place = pl_front_place(stream);
    for (unsigned i = 0; i < PL_FRONTS_OF_THREAD && is_bound(&own->front[place]); i++) {
        place = is_bound(&own->front[i]) ? place : i;
    }
    return place;
}

/* A front keeps serving its stream for a while: otherwise streams that take turns in one place
 * would bind the front in every call. */
static bool is_time_to_bind(const pl_front *front, unsigned n_offers)
{
    return is_bound(front) ? n_offers >= PL_FRONT_PATIENCE : n_offers % PL_FRONT_PATIENCE == 0;
}

void pl_front_offer(pl_instance *instance, pl_gpu *gpu, pl_stream *on, const void *stream)
{
    pl_fronts *own = gpu->ops->front_bind ? own_fronts() : NULL;
    if (!own) {
        return;
    }
    unsigned place = choose_place(own, stream);
    pl_front *front = &own->front[place];
    if (!is_time_to_bind(front, own->n_offers[place]++)) {
        return;
    }
    unbind(front);
    own->n_offers[place] = 1;
    if (is_bound(front)) { /* its instance is just being destroyed */
        return;
    }
    front->stream = stream;
    front->user = gpu;
    if (gpu->ops->front_bind(gpu->allocator, front, on,
                             pl_front_key(instance->handle, gpu->ordinal))) {
        pl_caller_self.front = front;
        own->n_offers[place] = 0;
    }
}

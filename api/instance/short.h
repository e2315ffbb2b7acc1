/* short.h - a request, and the remedies when memory is short: ask the application for memory, and
 * wait for pending memory. */
#ifndef PLEAT_API_SHORT_H
#define PLEAT_API_SHORT_H

#include "api/instance/instance.h"

/* The request, and where it goes. */
typedef struct pl_want {
    pl_gpu *gpu;
    pl_keeper *in; /* NULL = the default pool */
    size_t bytes;
    pl_stream *stream;
    const pl_buffer_change *change; /* the buffer change to make, without a block; NULL = a block */
    const pl_capture_info *asked;   /* the driver's last answer about the stream; NULL = nothing */
    bool is_patient;                /* PyTorch's: a request that meets pending memory is repeated,
                                     * and a refusal's text names what Python has */
} pl_want;

static inline pleat_status pl_want_ask_plainly(const pl_want *w, pleat_devptr *out)
{
    const pl_allocator_ops *ops = w->gpu->ops;
    if (__builtin_expect(w->change != NULL, 0)) {
        return ops->buffers->change(w->gpu->allocator, w->change, w->stream);
    }
    if (ops->alloc_asked != NULL) {
        return ops->alloc_asked(w->gpu->allocator, w->in, w->bytes, w->stream, w->asked, out);
    }
    return ops->alloc(w->gpu->allocator, w->bytes, w->stream, out);
}

pleat_status pl_want_ask_with_stack(const pl_want *w, pleat_devptr *out) __attribute__((cold));

/* Ask the allocator, once. */
static inline pleat_status pl_want_ask(const pl_want *w, pleat_devptr *out)
{
    if (pl_history_wants_stack(&w->gpu->history, PLEAT_HISTORY_FRAMES)) {
        return pl_want_ask_with_stack(w, out);
    }
    return pl_want_ask_plainly(w, out);
}

/* The allocator refused with `st`: apply remedies, ask again, else explain. `n_errors`:
 * pl_driver_n_errors at the beginning of the call. */
pleat_status pl_short_alloc(const pl_want *w, uint64_t n_errors, pleat_status st, pleat_devptr *out)
    __attribute__((cold));
/* The refusal in a child that a callback has forked. */
pleat_status pl_short_refuse_child(void);

#endif

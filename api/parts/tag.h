/* tag.h - the heaps of one device's allocator, by tag. The calls are in api/tag.
 *
 *   I1  a heap is made by the first request, limit or sleep that needs it, and stays until the
 *       device is closed */
#ifndef PLEAT_API_TAG_TAG_H
#define PLEAT_API_TAG_TAG_H

#include <stdatomic.h>

#include "api/base/text.h"
#include "api/pleat.h"
#include "segments/base/allocator.h"
#include "vmm/base/lock.h"

struct pl_gpu;

typedef struct pl_tags {
    pl_lock lock;                                /* rank 10: while a heap is made */
    _Atomic(pl_keeper *) heaps[PLEAT_MOST_TAGS]; /* atomic, written under the lock: by number - 1 */
} pl_tags;

void pl_tags_init(pl_tags *tags);
void pl_tags_fini(pl_tags *tags);

/* The tag's heap on the device, or NULL. */
static inline pl_keeper *pl_tags_find(const pl_tags *tags, unsigned tag)
{
    return tag != 0 ? atomic_load_explicit(&tags->heaps[tag - 1], memory_order_acquire) : NULL;
}

/* The tag's heap, made if need be; NULL if the allocator has no heaps. PLEAT_OK; ENOMEM_HOST. */
pleat_status pl_tags_heap(struct pl_gpu *gpu, unsigned tag, pl_keeper **out);

/* The tag of a heap; NULL if it is no tag's. */
const char *pl_tags_name(const pl_tags *tags, const pl_keeper *heap);

/* Name the tags with most memory, for a refusal: nothing if no tag has any. */
void pl_tags_say(struct pl_gpu *gpu, pl_text *text);

/* If the tag's limit refuses `bytes`, say so and return true. */
bool pl_tags_say_limit(struct pl_gpu *gpu, const pl_keeper *heap, uint64_t bytes, pl_text *text);

#endif

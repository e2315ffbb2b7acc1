/* tag.h - the rooms of one device's allocator, by tag.
 *
 *   I1  a room is made by the first request, limit or sleep that needs it, and stays until the
 *       device is closed */
#ifndef PLEAT_API_TAG_TAG_H
#define PLEAT_API_TAG_TAG_H

#include <stdatomic.h>

#include "api/pleat.h"
#include "api/text.h"
#include "segments/base/allocator.h"
#include "vmm/base/lock.h"

struct pl_gpu;

typedef struct pl_tags {
    pl_lock lock; /* rank 10: while a room is made */
    _Atomic(pl_private *)
        rooms[PLEAT_MOST_TAGS]; /* atomic, written under the lock: by number - 1 */
} pl_tags;

void pl_tags_init(pl_tags *tags);
void pl_tags_fini(pl_tags *tags);

/* The tag's room on the device, or NULL. */
static inline pl_private *pl_tags_find(const pl_tags *tags, unsigned tag)
{
    return tag != 0 ? atomic_load_explicit(&tags->rooms[tag - 1], memory_order_acquire) : NULL;
}

/* The tag's room, made if need be; NULL if the allocator has no rooms. PLEAT_OK; ENOMEM_HOST. */
pleat_status pl_tags_room(struct pl_gpu *gpu, unsigned tag, pl_private **out);

/* Name the tags with most memory, for a refusal: nothing if no tag has any. */
void pl_tags_say(struct pl_gpu *gpu, pl_text *text);

/* If the tag's limit refuses `bytes`, say so and return true. */
bool pl_tags_say_limit(struct pl_gpu *gpu, const pl_private *room, uint64_t bytes, pl_text *text);

#endif

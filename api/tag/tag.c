/* tag.c - see tag.h. */
#include "api/parts/tag.h"

#include "api/instance/instance.h"
#include "api/tag/scope.h"

void pl_tags_init(pl_tags *tags)
{
    pl_lock_init(&tags->lock, PL_RANK_API);
    for (unsigned i = 0; i < PLEAT_MOST_TAGS; i++) {
        atomic_store(&tags->heaps[i], NULL);
    }
}

void pl_tags_fini(pl_tags *tags)
{
    pl_lock_fini(&tags->lock);
}

pleat_status pl_tags_heap(pl_gpu *gpu, unsigned tag, pl_keeper **out)
{
    pleat_status st = PLEAT_OK;
    pl_tags *tags = &gpu->tags;
    *out = pl_tags_find(tags, tag);
    if (*out || tag == 0 || !gpu->ops->tags) {
        return PLEAT_OK;
    }
    pl_lock_acquire(&tags->lock);
    *out = pl_tags_find(tags, tag);
    if (!*out) {
        st = gpu->ops->tags->open(gpu->allocator, pl_tag_text(tag), out);
        if (st == PLEAT_OK) {
            atomic_store_explicit(&tags->heaps[tag - 1], *out, memory_order_release);
        }
    }
    pl_lock_release(&tags->lock);
    return st;
}

/* ---- in texts -------------------------------------------------------------------------------- */

enum { MOST_SAID = 4 };

/* The numbers of the MOST_SAID tags with most bytes, in descending order. */
typedef struct largest {
    unsigned tag[MOST_SAID];
    pl_heap_figures of[MOST_SAID];
    unsigned n;
} largest;

static void add(largest *l, unsigned tag, const pl_heap_figures *f)
{
    unsigned i = l->n < MOST_SAID ? l->n++ : MOST_SAID - 1;
    if (i == MOST_SAID - 1 && l->tag[i] != 0 &&
        l->of[i].allocated_bytes.current >= f->allocated_bytes.current) {
        return;
    }
    for (; i > 0 && l->of[i - 1].allocated_bytes.current < f->allocated_bytes.current; i--) {
        l->tag[i] = l->tag[i - 1];
        l->of[i] = l->of[i - 1];
    }
    l->tag[i] = tag;
    l->of[i] = *f;
}

/* 0 = none. */
static unsigned number_of(const pl_tags *tags, const pl_keeper *heap)
{
    for (unsigned tag = 1; heap && tag <= PLEAT_MOST_TAGS; tag++) {
        if (pl_tags_find(tags, tag) == heap) {
            return tag;
        }
    }
    return 0;
}

const char *pl_tags_name(const pl_tags *tags, const pl_keeper *heap)
{
    return pl_tag_text(number_of(tags, heap));
}

void pl_tags_say(pl_gpu *gpu, pl_text *text)
{
    largest l = { .n = 0 };
    for (unsigned tag = 1; tag <= PLEAT_MOST_TAGS; tag++) {
        pl_heap_figures f;
        pl_keeper *heap = pl_tags_find(&gpu->tags, tag);
        if (heap) {
            gpu->ops->tags->read(gpu->allocator, heap, &f);
        }
        if (heap && f.blocks.current > 0) {
            add(&l, tag, &f);
        }
    }
    for (unsigned i = 0; i < l.n; i++) {
        pl_text_add(text, "%s\"%s\" has ", i == 0 ? "; of the tags " : ", ", pl_tag_text(l.tag[i]));
        pl_text_add_bytes(text, l.of[i].allocated_bytes.current);
        pl_text_add(text, "%s", l.of[i].is_asleep ? " (asleep)" : "");
    }
}

bool pl_tags_say_limit(pl_gpu *gpu, const pl_keeper *heap, uint64_t bytes, pl_text *text)
{
    pl_heap_figures f;
    unsigned tag = number_of(&gpu->tags, heap);
    if (tag == 0) {
        return false;
    }
    gpu->ops->tags->read(gpu->allocator, pl_tags_find(&gpu->tags, tag), &f);
    if (f.limit_bytes == 0 || f.allocated_bytes.current + bytes <= f.limit_bytes) {
        return false;
    }
    pl_text_add(text, "the tag \"%s\" may have ", pl_tag_text(tag));
    pl_text_add_bytes(text, f.limit_bytes);
    pl_text_add(text, " and has ");
    pl_text_add_bytes(text, f.allocated_bytes.current);
    pl_text_add(text, "; free some of it, or raise its limit (pleat_tag_set_limit)");
    return true;
}

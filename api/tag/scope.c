/* scope.c - see scope.h. */
#include "api/tag/scope.h"

#include <stdatomic.h>
#include <string.h>

#include "api/base/error.h"
#include "vmm/base/lasting.h"

_Thread_local pl_scopes pl_scopes_self;

static _Atomic(const char *) tags[PLEAT_MOST_TAGS]; /* atomic: written once each, in order */

/* ---- tags ------------------------------------------------------------------------------------ */

const char *pl_tag_text(unsigned tag)
{
    return tag > 0 && tag <= PLEAT_MOST_TAGS ? atomic_load(&tags[tag - 1]) : NULL;
}

unsigned pl_tag_find(const char *tag)
{
    const char *known;

    for (unsigned i = 1; tag && (known = pl_tag_text(i)) != NULL; i++) {
        if (strcmp(known, tag) == 0) {
            return i;
        }
    }
    return 0;
}

/* Append the tag, unless another thread does so first. 0: the list is full. */
static unsigned append(const char *copy)
{
    for (unsigned i = 0; i < PLEAT_MOST_TAGS; i++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&tags[i], &none, copy) || strcmp(none, copy) == 0) {
            return i + 1;
        }
    }
    return 0;
}

pleat_status pl_tag_get(const char *tag, unsigned *out)
{
    size_t bytes = tag ? strnlen(tag, PLEAT_TAG_BYTES) + 1 : 0;
    if (bytes < 2 || bytes > PLEAT_TAG_BYTES) {
        return pl_error_set(PLEAT_EINVAL, 0, "a tag has 1 to %d bytes", PLEAT_TAG_BYTES - 1);
    }
    *out = pl_tag_find(tag);
    if (*out != 0) {
        return PLEAT_OK;
    }
    bool is_full = pl_tag_text(PLEAT_MOST_TAGS) != NULL;
    char *copy = is_full ? NULL : pl_lasting_alloc(bytes);
    if (!copy && !is_full) {
        return pl_error_set(PLEAT_ENOMEM_HOST, 0, "out of host memory: the tag \"%s\" is not kept",
                            tag);
    }
    if (copy) {
        memcpy(copy, tag, bytes);
        *out = append(copy);
    }
    return *out != 0 ? PLEAT_OK
                     : pl_error_set(PLEAT_ENOMEM_HOST, 0,
                                    "the tag \"%s\" is one too many: a process has at most %d", tag,
                                    PLEAT_MOST_TAGS);
}

const char *pleat_tag_name(unsigned index)
{
    return index < PLEAT_MOST_TAGS ? pl_tag_text(index + 1) : NULL;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

pleat_status pleat_tag_push(const char *tag)
{
    pl_scopes *scopes = &pl_scopes_self;
    unsigned number = 0;
    pleat_status st = tag ? pl_tag_get(tag, &number) : PLEAT_OK;
    if (st == PLEAT_OK && scopes->n == PLEAT_MOST_SCOPES) {
        st = pl_error_set(PLEAT_EINVAL, 0, "%d scopes of tags in each other are too many",
                          PLEAT_MOST_SCOPES);
    }
    if (st == PLEAT_OK) {
        scopes->outer[scopes->n++] = (uint8_t)scopes->tag;
        scopes->tag = number;
    }
    return st;
}

pleat_status pleat_tag_pop(void)
{
    pl_scopes *scopes = &pl_scopes_self;
    if (scopes->n == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "this thread is in no scope of a tag");
    }
    scopes->tag = scopes->outer[--scopes->n];
    return PLEAT_OK;
}

const char *pleat_tag_current(void)
{
    return pl_tag_text(pl_scopes_self.tag);
}

pleat_status pleat_tag_alloc(pleat handle, int device, const char *tag, size_t bytes, void *stream,
                             pleat_devptr *out)
{
    pleat_status st = pleat_tag_push(tag);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pleat_block_alloc(handle, device, bytes, stream, out);
    return pleat_tag_pop() == PLEAT_OK ? st : PLEAT_EINVAL;
}

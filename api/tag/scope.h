/* scope.h - the tags of the process, and the scopes of the calling thread.
 *
 * Tags are numbered from 1 in order of first use, and stay. The list is only appended to, without a
 * lock, so that a forked child finds a whole list. */
#ifndef PLEAT_API_TAG_SCOPE_H
#define PLEAT_API_TAG_SCOPE_H

#include <stdint.h>

#include "api/pleat.h"

typedef struct pl_scopes {
    unsigned tag; /* of the innermost; 0 = none */
    unsigned n;
    uint8_t outer[PLEAT_MOST_SCOPES]; /* the tags of the scopes around this one */
} pl_scopes;

extern _Thread_local pl_scopes pl_scopes_self;

/* The tag's number; 0 for a new tag, or a text that is no tag. */
unsigned pl_tag_find(const char *tag);
/* The tag's number; a new tag is added. PLEAT_OK; EINVAL; ENOMEM_HOST, with the error's text. */
pleat_status pl_tag_get(const char *tag, unsigned *out);
/* The text of a given number; 0 = NULL. */
const char *pl_tag_text(unsigned tag);

#endif

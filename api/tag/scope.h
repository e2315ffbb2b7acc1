/* scope.h - the tags of the process, and the scopes of the calling thread.
 *
 * Tags are numbered from 1 in order of first use, and stay. The list is only appended to, without a
 * lock, so that a forked child finds it whole. While a thread is in a scope its fronts are hidden
 * (api/front.h): so only calls that go the long way look for a tag. */
#ifndef PLEAT_API_TAG_SCOPE_H
#define PLEAT_API_TAG_SCOPE_H

#include <stdint.h>

#include "api/pleat.h"

typedef struct pl_scopes {
    unsigned tag; /* of the innermost; 0 = none */
    unsigned n;
    uint8_t outer[PLEAT_MOST_SCOPES]; /* the tags of those around it */
} pl_scopes;

extern _Thread_local pl_scopes pl_scopes_self;

/* The tag's number, 0 if it is new or no tag. */
unsigned pl_tag_find(const char *tag);
/* The same, but a new one is made. PLEAT_OK; EINVAL; ENOMEM_HOST, with the error's text. */
pleat_status pl_tag_get(const char *tag, unsigned *out);
/* Of a number that was given out; 0 = NULL. */
const char *pl_tag_text(unsigned tag);

#endif

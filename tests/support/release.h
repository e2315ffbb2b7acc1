/* release.h - the release of a stream's capture, by the operation that the allocator has. */
#ifndef PLEAT_TESTS_RELEASE_H
#define PLEAT_TESTS_RELEASE_H

#include "segments/base/allocator.h"

static inline pleat_status release_capture(pl_allocator *a, pl_stream *stream)
{
    return a->ops->release_capture_of != NULL
               ? a->ops->release_capture_of(a, pl_stream_handle(stream))
               : a->ops->release_capture(a, stream);
}

#endif

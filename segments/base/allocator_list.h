/* allocator_list.h - every built-in allocator, in the order in which users see the names. A new
 * allocator adds a line here: docs/allocators.md. */
#ifndef PLEAT_SEGMENTS_ALLOCATOR_LIST_H
#define PLEAT_SEGMENTS_ALLOCATOR_LIST_H

/* clang-format off */
#define PL_ALLOCATOR_LIST(X)   \
    X(pl_pleat_ops)            /* "pleat" */                             \
    X(pl_torch_native_ops)     /* "torch-native" */                      \
    X(pl_torch_expandable_ops) /* "torch-expandable" */                  \
    X(pl_mxnet_naive_ops)      /* "mxnet-naive": as in MXNet 2 */        \
    X(pl_mxnet_round_ops)      /* "mxnet-round": as in MXNet 2 */        \
    X(pl_mxnet19_naive_ops)    /* "mxnet19-naive": as in 1.6 to 1.9 */   \
    X(pl_mxnet19_round_ops)    /* "mxnet19-round": as in 1.6 to 1.9 */   \
    X(pl_unpooled_ops)         /* "unpooled" */                          \
    X(pl_tf_bfc_ops)           /* "tf-bfc" */                            \
    X(pl_cuda_async_ops)       /* "cuda-async" */

/* Allocators for pinned memory of the host only: found by name, but not listed among all. */
#define PL_HOST_ALLOCATOR_LIST(X) \
    X(pl_torch_pinned_ops)     /* "torch-pinned": PyTorch's */
/* clang-format on */

#endif

/* blas.c - the matrix library. A handle remembers its stream and modes, and each call launches a
 * kernel. */
#include <stdlib.h>
#include <string.h>

#include "vmm/tools/runtime/blas_list.h"
#include "vmm/tools/runtime/runtime.h"

enum { BLAS_SUCCESS = 0, BLAS_ALLOC_FAILED = 3, BLAS_EXECUTION_FAILED = 13, LT_VERSION = 130100 };

typedef struct blas_handle {
    cu_stream stream;
    int math_mode;
    int pointer_mode;
} blas_handle;

/* Descriptors of the light library. Callers may also place descriptors in their own memory, so a
 * descriptor owns nothing. */
typedef struct blas_descriptor {
    uint64_t data[32];
} blas_descriptor;

static int run_on(cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = rt_work(stream);
    }
    return rt_end("cublas", result) == CU_SUCCESS ? BLAS_SUCCESS : BLAS_EXECUTION_FAILED;
}

/* The body of every call of blas_list.h. Parameters after the handle do not matter. The linker
 * needs its name for the aliases below. */
int rt_blas_run(void *handle);

int rt_blas_run(void *handle)
{
    return run_on(((const blas_handle *)handle)->stream);
}

#define RT_BLAS_ALIAS(name) RT_EXPORT int name(void *handle) __attribute__((alias("rt_blas_run")));
RT_BLAS_LIST(RT_BLAS_ALIAS)
#undef RT_BLAS_ALIAS

int cublasCreate_v2(void **handle)
{
    if (rt_end(__func__, rt_enter()) != CU_SUCCESS) {
        return BLAS_EXECUTION_FAILED;
    }
    *handle = calloc(1, sizeof(blas_handle));
    return *handle != NULL ? BLAS_SUCCESS : BLAS_ALLOC_FAILED;
}

int cublasDestroy_v2(void *handle)
{
    free(handle);
    return BLAS_SUCCESS;
}

int cublasSetStream_v2(void *handle, cu_stream stream)
{
    ((blas_handle *)handle)->stream = stream;
    return BLAS_SUCCESS;
}

int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    (void)handle;
    (void)workspace;
    (void)bytes;
    return BLAS_SUCCESS;
}

int cublasSetSmCountTarget(void *handle, int n_multiprocessors)
{
    (void)handle;
    (void)n_multiprocessors;
    return BLAS_SUCCESS;
}

int cublasGetMathMode(void *handle, int *mode)
{
    *mode = ((const blas_handle *)handle)->math_mode;
    return BLAS_SUCCESS;
}

int cublasSetMathMode(void *handle, int mode)
{
    ((blas_handle *)handle)->math_mode = mode;
    return BLAS_SUCCESS;
}

int cublasGetPointerMode_v2(void *handle, int *mode)
{
    *mode = ((const blas_handle *)handle)->pointer_mode;
    return BLAS_SUCCESS;
}

int cublasSetPointerMode_v2(void *handle, int mode)
{
    ((blas_handle *)handle)->pointer_mode = mode;
    return BLAS_SUCCESS;
}

/* ---- the light library ----------------------------------------------------------------------- */

size_t cublasLtGetVersion(void)
{
    return LT_VERSION;
}

static int create_descriptor(void **out)
{
    *out = calloc(1, sizeof(blas_descriptor));
    return *out != NULL ? BLAS_SUCCESS : BLAS_ALLOC_FAILED;
}

static int destroy_descriptor(void *descriptor)
{
    free(descriptor);
    return BLAS_SUCCESS;
}

int cublasLtMatmulDescCreate(void **desc, int compute_type, int scale_type)
{
    (void)compute_type;
    (void)scale_type;
    return create_descriptor(desc);
}

int cublasLtMatmulDescDestroy(void *desc)
{
    return destroy_descriptor(desc);
}

int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes)
{
    (void)desc;
    (void)attribute;
    (void)value;
    (void)bytes;
    return BLAS_SUCCESS;
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    (void)type;
    (void)rows;
    (void)cols;
    (void)ld;
    return create_descriptor(layout);
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
    return destroy_descriptor(layout);
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes)
{
    (void)layout;
    (void)attribute;
    (void)value;
    (void)bytes;
    return BLAS_SUCCESS;
}

int cublasLtMatmulPreferenceCreate(void **preference)
{
    return create_descriptor(preference);
}

int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return destroy_descriptor(preference);
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                         size_t bytes)
{
    (void)preference;
    (void)attribute;
    (void)value;
    (void)bytes;
    return BLAS_SUCCESS;
}

/* There is one algorithm, without a workspace. */
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                   void *preference, int n, rt_lt_heuristic *results,
                                   int *n_results)
{
    (void)handle;
    (void)desc;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    (void)preference;
    *n_results = n > 0 ? 1 : 0;
    if (n > 0) {
        memset(&results[0], 0, sizeof(results[0]));
        results[0].waves = 1.0F;
    }
    return BLAS_SUCCESS;
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const void *algo, void *workspace,
                   size_t workspace_bytes, cu_stream stream)
{
    (void)handle;
    (void)desc;
    (void)alpha;
    (void)a;
    (void)a_layout;
    (void)b;
    (void)b_layout;
    (void)beta;
    (void)c;
    (void)c_layout;
    (void)d;
    (void)d_layout;
    (void)algo;
    (void)workspace;
    (void)workspace_bytes;
    return run_on(stream);
}

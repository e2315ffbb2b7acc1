/* engine.c - see engine.h. One thread, no lock, no policy. */
#include "vmm/tools/measure/engine.h"

#include "vmm/base/clock.h"

enum { N_STREAMS = 4, MOST_PIECES = 4096 };
static const uint64_t piece_bytes = UINT64_C(32) << 20;

typedef struct engine {
    pl_driver *drv;
    cu_stream streams[N_STREAMS];
    void *pieces[MOST_PIECES]; /* of the host */
    size_t n_pieces;
    pleat_devptr ptr;
    uint64_t bytes;
} engine;

static uint64_t piece_at(const engine *e, size_t i)
{
    uint64_t left = e->bytes - i * piece_bytes;

    return left < piece_bytes ? left : piece_bytes;
}

static pleat_status acquire(engine *e)
{
    cu_result result = CU_SUCCESS;

    for (unsigned i = 0; i < N_STREAMS && result == CU_SUCCESS; i++) {
        result = pl_cu_stream_create(e->drv, &e->streams[i], CU_STREAM_NON_BLOCKING_FLAG);
    }
    for (size_t i = 0; i < e->n_pieces && result == CU_SUCCESS; i++) {
        result = pl_cu_host_alloc(e->drv, &e->pieces[i], piece_at(e, i), 0);
    }
    return result == CU_OUT_OF_MEMORY ? PLEAT_ENOMEM_HOST : pl_driver_status(result);
}

static pleat_status release(const engine *e)
{
    cu_result result = CU_SUCCESS;

    for (size_t i = 0; i < e->n_pieces; i++) {
        cu_result one = e->pieces[i] ? pl_cu_host_free(e->drv, e->pieces[i]) : CU_SUCCESS;
        result = result == CU_SUCCESS ? one : result;
    }
    for (unsigned i = 0; i < N_STREAMS; i++) {
        cu_result one = e->streams[i] ? pl_cu_stream_destroy(e->drv, e->streams[i]) : CU_SUCCESS;
        result = result == CU_SUCCESS ? one : result;
    }
    return pl_driver_status(result);
}

static pleat_status copy(const engine *e, bool is_out)
{
    cu_result result = CU_SUCCESS;

    for (size_t i = 0; i < e->n_pieces && result == CU_SUCCESS; i++) {
        pleat_devptr at = e->ptr + i * piece_bytes;
        cu_stream stream = e->streams[i % N_STREAMS];
        result = is_out ? pl_cu_memcpy_dtoh_async(e->drv, e->pieces[i], at, piece_at(e, i), stream)
                        : pl_cu_memcpy_htod_async(e->drv, at, e->pieces[i], piece_at(e, i), stream);
    }
    for (unsigned i = 0; i < N_STREAMS; i++) { /* whatever has failed: before memory goes */
        cu_result one = pl_cu_stream_synchronize(e->drv, e->streams[i]);
        result = result == CU_SUCCESS ? one : result;
    }
    return pl_driver_status(result);
}

pleat_status pl_engine_time(pl_work *work, pleat_devptr ptr, uint64_t bytes, pl_engine_times *out)
{
    static engine e;

    e = (engine){ .drv = work->drv, .ptr = ptr, .bytes = bytes };
    e.n_pieces = (size_t)((bytes + piece_bytes - 1) / piece_bytes);
    if (e.n_pieces > MOST_PIECES) {
        return PLEAT_ENOMEM_HOST;
    }
    if (!pl_driver_has(e.drv, PL_CU_host_alloc) || !pl_driver_has(e.drv, PL_CU_host_free)) {
        return PLEAT_ENOTSUP;
    }
    uint64_t begin = pl_clock_ns();
    pleat_status st = acquire(&e);
    uint64_t locked = pl_clock_ns();
    st = st == PLEAT_OK ? copy(&e, true) : st;
    uint64_t gone = pl_clock_ns();
    st = st == PLEAT_OK ? copy(&e, false) : st;
    uint64_t back = pl_clock_ns();
    if (st == PLEAT_OK) {
        *out = (pl_engine_times){ locked - begin, gone - locked, back - gone };
    }
    pleat_status freed = release(&e);
    return st == PLEAT_OK ? freed : st;
}

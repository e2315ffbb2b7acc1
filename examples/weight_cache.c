/* weight_cache.c - ten models on a device with room for three: weights sleep and wake.
 *
 * Each model's weights carry a tag. A model without requests sleeps. Its memory goes back to the
 * driver, the contents go to the host, and the tensors keep their addresses. So nothing has to be
 * loaded, built or captured again. If a waking model finds no room, the least recently used model
 * goes to sleep.
 *
 *     cc weight_cache.c -o weight_cache $(pkg-config --cflags --libs pleat)
 *     PLEAT_CONF=driver:sim,sim:[capacity:130M] ./weight_cache     # or as it is, on a GPU:
 *     PLEAT_CONF=limit:130M ./weight_cache
 */
#include <pleat.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)

enum { N_MODELS = 10, N_LAYERS = 20, LAYER_MIB = 2, N_REQUESTS = 100 };

typedef struct model {
    char tag[16];
    pleat_devptr layers[N_LAYERS];
    unsigned used_at; /* the last request for it */
    bool is_awake;
} model;

static pleat gpu;
static model models[N_MODELS];
static void *stream; /* a CUstream; NULL is the legacy default stream */
static uint64_t woken_bytes;
static unsigned n_wakes;

static void require(pleat_status status)
{
    if (status != PLEAT_OK) {
        fprintf(stderr, "%s\n", pleat_last_error()->text);
        exit(EXIT_FAILURE);
    }
}

/* False: all other models sleep already. */
static bool send_one_to_sleep(const model *but)
{
    model *oldest = NULL;
    for (unsigned i = 0; i < N_MODELS; i++) {
        model *m = &models[i];
        if (m != but && m->is_awake && (oldest == NULL || m->used_at < oldest->used_at)) {
            oldest = m;
        }
    }
    if (oldest == NULL) {
        return false;
    }
    require(pleat_tag_sleep(gpu, 0, oldest->tag, PLEAT_SLEEP_HOST, NULL, NULL));
    oldest->is_awake = false;
    return true;
}

/* Called once for each model at the start; earlier models sleep as soon as room is short. */
static void load(model *m, unsigned number)
{
    snprintf(m->tag, sizeof m->tag, "model %u", number);
    m->is_awake = true;
    for (unsigned i = 0; i < N_LAYERS; i++) {
        pleat_status status;
        do {
            status = pleat_tag_alloc(gpu, 0, m->tag, LAYER_MIB * MIB, stream, &m->layers[i]);
        } while (status == PLEAT_ENOMEM_DEVICE && send_one_to_sleep(m));
        require(status);
        /* ... cuMemcpyHtoDAsync(m->layers[i], ...) ... */
    }
}

static void wake(model *m)
{
    pleat_slept woken;
    pleat_status status;
    do {
        status = pleat_tag_wake(gpu, 0, m->tag, 0, &woken);
    } while (status == PLEAT_ENOMEM_DEVICE && send_one_to_sleep(m));
    require(status);
    m->is_awake = true;
    woken_bytes += woken.bytes;
    n_wakes++;
}

static void serve(model *m, unsigned now)
{
    m->used_at = now;
    if (!m->is_awake) {
        wake(m);
    }
    /* ... kernels, or a graph captured at the start, on m->layers: their addresses never change */
}

/* Draws some models more often than others. */
static unsigned draw_model(void)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t drawn = state >> 33;
    unsigned most = drawn % 4 == 0 ? N_MODELS : 3;
    return (unsigned)(drawn / 4 % most);
}

int main(void)
{
    pleat_device_info device;
    unsigned n_ready = 0;
    unsigned n_there = 0;

    require(pleat_create(NULL, &gpu)); /* PLEAT_CONF alone */
    require(pleat_device_query(gpu, 0, &device));
    for (unsigned i = 0; i < N_MODELS; i++) {
        load(&models[i], i);
    }
    for (unsigned now = 1; now <= N_REQUESTS; now++) {
        model *m = &models[draw_model()];
        n_ready += m->is_awake;
        serve(m, now);
    }
    printf(
        "%d models of %llu MiB on %llu MiB\n", N_MODELS, (unsigned long long)(N_LAYERS * LAYER_MIB),
        (unsigned long long)((device.limit_bytes ? device.limit_bytes : device.total_bytes) / MIB));
    printf("%d requests: %u found their model awake, %u woke it, %llu MiB each\n", N_REQUESTS,
           n_ready, n_wakes, (unsigned long long)(n_wakes ? woken_bytes / n_wakes / MIB : 0));
    for (unsigned i = 0; i < N_MODELS; i++) { /* also of models that sleep */
        for (unsigned k = 0; k < N_LAYERS; k++) {
            pleat_block_info info;
            require(pleat_block_query(gpu, 0, models[i].layers[k], &info));
            n_there += info.base == models[i].layers[k] && !info.is_asleep == models[i].is_awake;
            require(pleat_block_free(gpu, 0, models[i].layers[k], stream));
        }
    }
    printf("%u of %d tensors are where they were at the start\n", n_there, N_MODELS * N_LAYERS);
    require(pleat_destroy(gpu, 0));
    return EXIT_SUCCESS;
}

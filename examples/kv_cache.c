/* kv_cache.c - the KV cache of a server: addresses for the longest sequence, memory for the tokens.
 *
 * Each sequence has a slot of the cache, with addresses for its largest number of tokens. Pages are
 * committed as tokens come, and decommitted when the sequence ends. So a kernel sees a sequence as
 * one array, without a table of pages. Cache and activations share memory: each uses pages given up
 * by the other. If memory is short, the youngest sequence is put back, and for a while the server
 * runs one sequence less.
 *
 *     cc kv_cache.c -o kv_cache $(pkg-config --cflags --libs pleat)
 *     PLEAT_CONF=driver:sim,sim:[capacity:1G] ./kv_cache     # or as it is, on a GPU
 */
#include <pleat.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)
#define TOKEN_BYTES ((uint64_t)64 << 10) /* 16 layers, keys and values, 8 heads of 128, 16 bits */
#define MOST_TOKENS ((uint64_t)2048)
#define SLOT_BYTES (MOST_TOKENS * TOKEN_BYTES)
#define PAGE_BYTES (2 * MIB)

enum { N_SLOTS = 64, N_REQUESTS = 500, TOKENS_A_STEP = 8, ACTIVATION_MIB = 2 };

typedef struct sequence {
    uint64_t tokens; /* so far */
    uint64_t length; /* at its end; 0 = the slot is free */
    unsigned since;  /* the step in which the sequence began */
} sequence;

static pleat gpu;
static pleat_devptr cache;
static sequence slots[N_SLOTS];
static void *stream; /* a CUstream; NULL is the legacy default stream */
static uint64_t peak_bytes;
static unsigned n_put_back;
static unsigned n_places = N_SLOTS; /* for sequences that may begin */

static void require(pleat_status status)
{
    if (status != PLEAT_OK) {
        fprintf(stderr, "%s\n", pleat_last_error()->text);
        exit(EXIT_FAILURE);
    }
}

/* Most answers are short, some are as long as they may be. */
static uint64_t draw_length(void)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t drawn = state >> 33;
    return drawn % 16 == 0 ? MOST_TOKENS : 32 + drawn / 16 % 256;
}

/* Its pages wait for the stream's work, not the program for the stream. */
static void end_sequence(unsigned slot)
{
    require(pleat_buffer_decommit(gpu, 0, cache, slot * SLOT_BYTES, SLOT_BYTES, stream));
    slots[slot].length = 0;
}

/* False: nobody is left but `slot`. */
static bool put_back_the_youngest(unsigned slot, unsigned *n_waiting)
{
    unsigned youngest = slot;
    for (unsigned i = 0; i < N_SLOTS; i++) {
        bool is_other = i != slot && slots[i].length > 0;
        if (is_other && (youngest == slot || slots[i].since > slots[youngest].since)) {
            youngest = i;
        }
    }
    if (youngest == slot) {
        return false;
    }
    end_sequence(youngest);
    n_put_back++;
    ++*n_waiting;
    return true;
}

/* Commit memory for further tokens; tokens on a committed page cost no driver call. */
static void grow(unsigned slot, unsigned *n_waiting)
{
    uint64_t bytes = slots[slot].tokens * TOKEN_BYTES;
    pleat_status status;
    do {
        status = pleat_buffer_commit(gpu, 0, cache, slot * SLOT_BYTES, bytes, stream);
    } while (status == PLEAT_ENOMEM_DEVICE && put_back_the_youngest(slot, n_waiting));
    require(status);
}

/* Allocate a layer's activations for a moment, from the same memory as the cache. */
static void run_layers(unsigned n_live, unsigned *n_waiting)
{
    pleat_devptr activations;
    pleat_status status;
    do {
        status = pleat_block_alloc(gpu, 0, (size_t)(n_live * ACTIVATION_MIB * MIB), stream,
                                   &activations);
    } while (status == PLEAT_ENOMEM_DEVICE && put_back_the_youngest(N_SLOTS, n_waiting));
    require(status);
    /* ... kernels that append to, and read, cache + slot * SLOT_BYTES ... */
    require(pleat_block_free(gpu, 0, activations, stream));
}

static unsigned step(unsigned now, unsigned *n_waiting)
{
    unsigned n_live = 0;
    unsigned n_ended = 0;
    for (unsigned i = 0; i < N_SLOTS; i++) {
        if (slots[i].length == 0 && *n_waiting > 0 && n_places > 0) {
            slots[i] = (sequence){ .tokens = 0, .length = draw_length(), .since = now };
            --*n_waiting;
            n_places--;
        }
        if (slots[i].length > 0) {
            slots[i].tokens += TOKENS_A_STEP;
            grow(i, n_waiting);
            n_live++;
        }
    }
    run_layers(n_live, n_waiting);
    for (unsigned i = 0; i < N_SLOTS; i++) {
        if (slots[i].length > 0 && slots[i].tokens >= slots[i].length) {
            end_sequence(i);
            n_places++;
            n_ended++;
        }
    }
    n_places += now % 16 == 0 && n_places + n_live < N_SLOTS;
    return n_ended;
}

int main(void)
{
    pleat_device_info device;
    pleat_buffer_info info;
    pleat_stats stats;
    unsigned n_waiting = N_REQUESTS;
    unsigned n_served = 0;
    unsigned n_steps = 0;

    require(pleat_create(NULL, &gpu)); /* PLEAT_CONF alone */
    require(pleat_device_query(gpu, 0, &device));
    require(pleat_buffer_create(gpu, 0, N_SLOTS * SLOT_BYTES, PAGE_BYTES, &cache));
    for (; n_served < N_REQUESTS; n_steps++) {
        n_served += step(n_steps, &n_waiting);
        require(pleat_buffer_query(gpu, 0, cache, &info));
        peak_bytes = info.committed_bytes > peak_bytes ? info.committed_bytes : peak_bytes;
    }
    require(pleat_device_stats(gpu, 0, &stats));
    printf("%u requests in %u steps, up to %d at once, on %llu MiB\n", n_served, n_steps, N_SLOTS,
           (unsigned long long)(device.total_bytes / MIB));
    printf("addresses for %llu MiB of cache, memory for at most %llu MiB of it\n",
           (unsigned long long)(N_SLOTS * SLOT_BYTES / MIB),
           (unsigned long long)(peak_bytes / MIB));
    printf("%u sequences were put back; left when all are served: %llu MiB\n", n_put_back,
           (unsigned long long)(info.committed_bytes / MIB));
    printf("%llu maps of memory, nothing was copied\n", (unsigned long long)stats.ops_map);
    require(pleat_buffer_destroy(gpu, 0, cache, stream));
    require(pleat_destroy(gpu, 0));
    return EXIT_SUCCESS;
}

/* zip.c - see zip.h. The directory at the archive's end is believed, and each header that it names.
 * Source: PKWARE, .ZIP File Format Specification (APPNOTE), 4.3. */
#include "bench/pickle/zip.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/size.h"

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    LONGEST_NOTE = 65535,
    STORED = 0,
    DEFLATED = 8,
    ENCRYPTED = 1,
};

typedef struct member {
    uint32_t packed;
    uint32_t bytes;
    uint32_t header; /* its offset */
    unsigned method;
    unsigned flags;
    unsigned rank; /* of its name; 0 = unwanted */
} member;

static uint32_t number(const unsigned char *at, unsigned n)
{
    uint32_t out = 0;
    for (unsigned i = n; i-- > 0;) {
        out = out << 8 | at[i];
    }
    return out;
}

bool bench_zip_is(const unsigned char *data, size_t n)
{
    return n >= 4 && memcmp(data, "PK\3\4", 4) == 0;
}

static bool ends_in(const unsigned char *name, size_t n, const char *ending)
{
    size_t cut = strlen(ending);
    return n >= cut && memcmp(name + n - cut, ending, cut) == 0;
}

static unsigned rank_of(const unsigned char *name, size_t n)
{
    return ends_in(name, n, "data.pkl") ? 2
           : ends_in(name, n, ".pickle") || ends_in(name, n, ".pkl") || ends_in(name, n, ".json")
               ? 1
               : 0;
}

/* The end of the directory: behind it is a note at most. */
static const unsigned char *find_end(const bench_bytes *bytes)
{
    size_t most = END_BYTES + LONGEST_NOTE < bytes->n ? END_BYTES + LONGEST_NOTE : bytes->n;
    for (size_t back = END_BYTES; back <= most; back++) {
        const unsigned char *at = bytes->data + bytes->n - back;
        if (memcmp(at, "PK\5\6", 4) == 0) {
            return at;
        }
    }
    return NULL;
}

/* The best member. False: the directory is damaged. */
static bool find_member(const bench_bytes *bytes, const unsigned char *end, member *best)
{
    unsigned n = number(end + 10, 2);
    size_t at = number(end + 16, 4);
    *best = (member){ .rank = 0 };
    for (unsigned i = 0; i < n; i++) {
        if (at > bytes->n || bytes->n - at < CENTRAL_BYTES ||
            memcmp(bytes->data + at, "PK\1\2", 4) != 0) {
            return false;
        }
        const unsigned char *c = bytes->data + at;
        size_t n_name = number(c + 28, 2);
        size_t n_all = CENTRAL_BYTES + n_name + number(c + 30, 2) + number(c + 32, 2);
        if (bytes->n - at < n_all) {
            return false;
        }
        member found = { .packed = number(c + 20, 4),
                         .bytes = number(c + 24, 4),
                         .header = number(c + 42, 4),
                         .method = number(c + 10, 2),
                         .flags = number(c + 8, 2),
                         .rank = rank_of(c + CENTRAL_BYTES, n_name) };
        *best = found.rank > best->rank ? found : *best;
        at += n_all;
    }
    return true;
}

/* Where the member's bytes begin; NULL: not within the file. */
static unsigned char *begin_of(const bench_bytes *bytes, const member *of)
{
    if (of->header > bytes->n || bytes->n - of->header < LOCAL_BYTES) {
        return NULL;
    }
    unsigned char *local = bytes->data + of->header;
    size_t at = of->header + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
    bool is_there = memcmp(local, "PK\3\4", 4) == 0 && at <= bytes->n &&
                    bytes->n - at >= of->packed;
    return is_there ? bytes->data + at : NULL;
}

static bool inflate_member(const char *path, const bench_limits *limits, const member *of,
                           unsigned char *begin, bench_bytes *out, bench_failure *failure)
{
    uint64_t most = limits && limits->inflated_bytes
                        ? limits->inflated_bytes
                        : BENCH_INFLATE_BASE + BENCH_INFLATE_RATIO * (uint64_t)of->packed;
    char text[32];
    if (of->bytes > most) {
        return bench_fail(failure,
                          "%s: the archive's member is said to be larger than %s, which its size "
                          "makes suspect; inflate=SIZE behind the name allows more",
                          path, bench_size_format(most, text, sizeof text));
    }
    *out = (bench_bytes){ .data = malloc((size_t)of->bytes + 1), .n = of->bytes };
    z_stream stream = {
        .next_in = begin, .avail_in = of->packed, .next_out = out->data, .avail_out = of->bytes
    };
    if (!out->data || inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
        bench_bytes_free(out);
        return bench_fail(failure, "%s: out of host memory", path);
    }
    int end = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    if (end != Z_STREAM_END || stream.avail_out > 0) {
        bench_bytes_free(out);
        return bench_fail(failure, "%s: the archive's compressed data are damaged", path);
    }
    return true;
}

bool bench_zip_find(const char *path, const bench_limits *limits, bench_bytes *bytes,
                    bench_bytes *out, bench_failure *failure)
{
    const unsigned char *end = find_end(bytes);
    member best;
    if (!end || !find_member(bytes, end, &best)) {
        return bench_fail(failure,
                          "%s: an archive (zip, as torch.save writes) that is cut short or "
                          "damaged: it has %zu bytes. Copy the file again, or save it again",
                          path, bytes->n);
    }
    if (best.rank == 0) {
        return bench_fail(failure,
                          "%s: an archive (zip) without data.pkl, .pickle, .pkl or .json: unpack "
                          "it, and name the snapshot in it",
                          path);
    }
    unsigned char *begin = begin_of(bytes, &best);
    bool is_known = best.method == STORED || best.method == DEFLATED;
    if (!begin || !is_known || best.flags & ENCRYPTED) {
        return bench_fail(failure, "%s: the archive's pickle %s", path,
                          !begin      ? "lies outside of the file: copy it again"
                          : !is_known ? "is compressed in a way that is not known: unpack it"
                                      : "is encrypted: unpack it");
    }
    if (best.method == STORED) {
        *out = (bench_bytes){ .data = begin, .n = best.packed };
        return true;
    }
    bench_bytes inflated;
    if (!inflate_member(path, limits, &best, begin, &inflated, failure)) {
        return false;
    }
    bench_bytes_free(bytes);
    *bytes = *out = inflated;
    return true;
}

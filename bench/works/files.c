/* files.c - works in files: finds the files, their kinds and their events.
 *
 * The bundled traces are beside the repository's command, or installed. */
#include "bench/works/files.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/base/folder.h"
#include "bench/base/size.h"
#include "bench/import/csv.h"
#include "bench/import/minimalloc.h"
#include "bench/import/recording.h"
#include "bench/import/rmm.h"
#include "bench/pickle/bytes.h"
#include "bench/pickle/json.h"
#include "bench/pickle/zip.h"
#include "bench/work/trace.h"
#include "bench/works/registry.h"

enum { LONGEST_PATH = 4096, PEEK_BYTES = 1024 };

typedef enum file_kind { FILE_TRACE, FILE_SNAPSHOT, FILE_RMM, FILE_MINIMALLOC } file_kind;

/* Keys that only some kinds of files have. */
static const struct {
    const char *key;
    unsigned kinds; /* 1 << file_kind */
    const char *of;
} keys[] = {
    { "device", 1u << FILE_SNAPSHOT, "a PyTorch snapshot" },
    { "scale", 1u << FILE_MINIMALLOC, "a table of minimalloc" },
    { "failures", 1u << FILE_SNAPSHOT | 1u << FILE_RMM, "a PyTorch snapshot or a log of RMM" },
    { "blocks", 1u << FILE_TRACE, "a trace" },
    { "rank", 1u << FILE_SNAPSHOT, "a PyTorch snapshot" },
};

enum { KEY_DEVICE, KEY_SCALE, KEY_FAILURES, KEY_BLOCKS, KEY_RANK, N_KEYS };

static bool find_folder(char *path, size_t n)
{
    return bench_folder_find("PLEAT_TRACES", "traces", path, n);
}

static int is_trace(const struct dirent *entry)
{
    const char *ending = strstr(entry->d_name, ".trace");
    return ending && (strcmp(ending, ".trace") == 0 || strcmp(ending, ".trace.gz") == 0);
}

unsigned bench_file_bundled(char *folder, size_t n, struct dirent ***entries)
{
    *entries = NULL;
    int n_found = find_folder(folder, n) ? scandir(folder, entries, is_trace, alphasort) : 0;
    return n_found > 0 ? (unsigned)n_found : 0;
}

/* The length of the path before `:key=value`, or of all of `text` if a file has this name. */
static size_t path_length(const char *text)
{
    const char *colon = strrchr(text, ':');
    if (!colon || !strchr(colon, '=') || access(text, F_OK) == 0) {
        return strlen(text);
    }
    return (size_t)(colon - text);
}

bool bench_file_find(const char *work, char *path, size_t n)
{
    static const char *const endings[] = { "", ".gz", ".trace.gz", ".trace" };
    size_t length = path_length(work);
    char name[LONGEST_PATH];
    if (length >= sizeof name) {
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)length, work);
    if (work[length] && bench_generator_find(name, length)) {
        return false; /* parameters look like options, but a generator has no options */
    }
    if (access(name, F_OK) == 0 || strchr(name, '/')) {
        return (size_t)snprintf(path, n, "%s", work) < n;
    }
    char folder[2048];
    if (!find_folder(folder, sizeof folder)) {
        return false;
    }
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(path, n, "%s/%s%s", folder, name, endings[i]);
        if (access(path, F_OK) == 0) {
            size_t used = strlen(path);
            return (size_t)snprintf(path + used, n - used, "%s", work + length) < n - used;
        }
    }
    return false;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *out)
{
    uint64_t n = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && n <= most; p++) {
        n = n * 10 + (uint64_t)(*p - '0');
    }
    *out = n;
    return p != text && *p == '\0' && n <= most;
}

static bool set_option(const char *key, const char *value, bench_file_options *out)
{
    uint64_t number;
    if (strcmp(key, keys[KEY_DEVICE].key) == 0 && parse_number(value, 1 << 20, &number)) {
        out->device = (int)number;
        out->given[KEY_DEVICE] = keys[KEY_DEVICE].key;
        return true;
    }
    if (strcmp(key, keys[KEY_SCALE].key) == 0 && parse_number(value, UINT64_C(1) << 40, &number) &&
        number > 0) {
        out->scale = number;
        out->given[KEY_SCALE] = keys[KEY_SCALE].key;
        return true;
    }
    if (strcmp(key, keys[KEY_RANK].key) == 0 && value[0] && strlen(value) < sizeof out->rank) {
        snprintf(out->rank, sizeof out->rank, "%s", value);
        out->given[KEY_RANK] = keys[KEY_RANK].key;
        return true;
    }
    if (strcmp(key, "inflate") == 0) {
        return bench_size_parse(value, &out->limits.inflated_bytes);
    }
    if (strcmp(key, "memory") == 0) {
        return bench_size_parse(value, &out->limits.host_bytes);
    }
    bool is_host = strcmp(value, "host") == 0;
    if (strcmp(key, keys[KEY_BLOCKS].key) == 0 && (is_host || strcmp(value, "device") == 0)) {
        out->blocks = is_host ? BENCH_BLOCKS_HOST : BENCH_BLOCKS_DEVICE;
        out->given[KEY_BLOCKS] = keys[KEY_BLOCKS].key;
        return true;
    }
    bool drops = strcmp(value, "drop") == 0;
    if (strcmp(key, keys[KEY_FAILURES].key) == 0 && (drops || strcmp(value, "try") == 0)) {
        out->drops_failures = drops;
        out->given[KEY_FAILURES] = keys[KEY_FAILURES].key;
        return true;
    }
    return false;
}

bool bench_file_split(const char *found, char *path, size_t n, bench_file_options *out,
                      bench_failure *failure)
{
    size_t length = path_length(found);
    *out = (bench_file_options){ .device = BENCH_ANY_DEVICE, .scale = BENCH_MINIMALLOC_SCALE };
    if ((size_t)snprintf(path, n, "%.*s", (int)length, found) >= n) {
        return bench_fail(failure, "%.96s...: too long a path", found);
    }
    const char *at = found + length;
    while (*at == ':' || *at == ',') {
        char item[64];
        size_t n_item = strcspn(++at, ",");
        snprintf(item, sizeof item, "%.*s", n_item < sizeof item ? (int)n_item : 0, at);
        char *equals = strchr(item, '=');
        if (equals) {
            *equals = '\0';
        }
        for (unsigned i = 0; equals && i < sizeof keys / sizeof keys[0]; i++) {
            if (out->given[i] && strcmp(out->given[i], item) == 0) {
                return bench_fail(failure, "%s: '%s' is given twice", path, item);
            }
        }
        if (!equals || !set_option(item, equals + 1, out)) {
            return bench_fail(failure,
                              "%s: '%.*s' is not an option of a file; there are: device=N, "
                              "rank=NAME, scale=N (1 to 2^40), failures=try or drop, "
                              "blocks=device or host, inflate=SIZE, memory=SIZE",
                              path, n_item < 64 ? (int)n_item : 64, at);
        }
        at += n_item;
    }
    return true;
}

/* A table's kind by the names of its columns. */
static bool find_table(const char *path, const char *begin, const char *end, file_kind *out,
                       bench_failure *failure)
{
    bool has_size = bench_csv_has_column(begin, end, "size");
    if (has_size && bench_csv_has_column(begin, end, "action")) {
        *out = FILE_RMM;
        return true;
    }
    if (has_size && bench_csv_has_column(begin, end, "lower")) {
        *out = FILE_MINIMALLOC;
        return true;
    }
    return bench_fail(failure,
                      "%s:1: a table of unknown columns; known are RMM's (Thread,Time,Action,"
                      "Pointer,Size,Stream) and minimalloc's (id,lower,upper,size)",
                      path);
}

/* A file is opened twice, for the kind and for the events. A pipe would lose its beginning. */
static bool check_seekable(const char *path, bench_failure *failure)
{
    struct stat st;
    return stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ||
           bench_fail(failure,
                      "%s: is no regular file, but a pipe or a device: write it to a file first",
                      path);
}

/* Does `name` have this ending, perhaps followed by gzip's? */
static bool ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path);
    n -= n > 3 && strcmp(path + n - 3, ".gz") == 0 ? 3 : 0;
    size_t cut = strlen(ending);
    return n > cut && strncmp(path + n - cut, ending, cut) == 0;
}

static bool is_text(const char *begin, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)begin[i];
        if (c < ' ' && c != '\n' && c != '\r' && c != '\t') {
            return false;
        }
    }
    return true;
}

/* What people have in the place of a file: packed, or not fetched. NULL: none of these. */
static const char *name_stranger(const char *begin, size_t n)
{
    static const struct {
        size_t at;
        size_t n;
        const char *bytes;
        const char *words;
    } strangers[] = {
        { 0, 3, "BZh", "packed by bzip2: unpack it first" },
        { 0, 5, "\xfd\x37zXZ", "packed by xz: unpack it first" },
        { 0, 4, "\x28\xb5\x2f\xfd", "packed by zstd: unpack it first" },
        { 0, 6, "7z\xbc\xaf\x27\x1c", "an archive of 7-Zip: unpack it first" },
        { 257, 5, "ustar", "an archive of tar: unpack it first" },
        { 0, 2, "\xff\xfe", "text in UTF-16: write it in UTF-8" },
        { 0, 2, "\xfe\xff", "text in UTF-16: write it in UTF-8" },
        { 0, 23, "version https://git-lfs",
          "only a pointer of Git LFS: git lfs pull fetches the file" },
        { 0, 1, "<", "a page of the web, not the file that the page is about: fetch that one" },
    };

    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        size_t end = strangers[i].at + strangers[i].n;
        if (n >= end && memcmp(begin + strangers[i].at, strangers[i].bytes, strangers[i].n) == 0) {
            return strangers[i].words;
        }
    }
    return NULL;
}

/* A trace is text and begins with a trace line. A file that does not, but is called a pickle or
 * holds words of a snapshot, was a pickle before. */
static bool check_text(const char *path, const char *begin, size_t n, bench_failure *failure)
{
    bool is_binary = !is_text(begin, n);
    bool is_line = n >= 2 && strchr("#afiue", begin[0]) != NULL && !is_binary;
    bool is_named = ends_in(path, ".pickle") || ends_in(path, ".pkl");
    bool is_called_trace = ends_in(path, ".trace"); /* then the reader names the line */
    if ((is_binary && !is_called_trace) || (is_named && !is_line)) {
        return bench_fail(
            failure, "%s: %s", path,
            is_named || memmem(begin, n, "segments", 8) || memmem(begin, n, "device_traces", 13)
                ? "a damaged snapshot: its first bytes are not those of a pickle, of "
                  "JSON or of a file of torch.save"
                : "neither text nor a pickle: no trace, and no snapshot of PyTorch's");
    }
    return true;
}

/* A pickle of protocol 2 or later; one of protocol 0 or 1, which begins with a container; an
 * archive of torch.save; JSON. No line of a trace and no table begins so. */
static bool begins_snapshot(const char *begin, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)begin;
    return n > 0 && (memchr("\x80(]}", bytes[0], 4) != NULL || bench_zip_is(bytes, n) ||
                     bench_json_is(bytes, n));
}

/* The first line of a table has commas. An unreadable file is left to a reader that names the
 * place. */
static bool find_kind(const char *path, file_kind *out, bench_failure *failure)
{
    char begin[PEEK_BYTES];
    size_t n = 0;
    bench_failure damage;
    bool is_whole = bench_bytes_peek(path, begin, sizeof begin, &n, &damage);
    if (is_whole && n == 0) {
        return bench_fail(failure, "%s: the file is empty", path);
    }
    const char *stranger = name_stranger(begin, n);
    if (stranger != NULL) {
        return bench_fail(failure, "%s: %s", path, stranger);
    }
    *out = begins_snapshot(begin, n) ? FILE_SNAPSHOT : FILE_TRACE;
    const char *newline = memchr(begin, '\n', n);
    const char *end = newline ? newline : begin + n;
    bool is_table = *out == FILE_TRACE && n > 0 && begin[0] != '#' &&
                    is_text(begin, (size_t)(end - begin)) &&
                    memchr(begin, ',', (size_t)(end - begin)) != NULL;
    if (is_table && !newline && !is_whole) {
        *failure = damage;
        return false;
    }
    return is_table ? find_table(path, begin, end, out, failure)
                    : *out != FILE_TRACE || n == 0 || check_text(path, begin, n, failure);
}

bool bench_file_check_snapshot(const char *path, bench_failure *failure)
{
    static const char *const names[] = { [FILE_TRACE] = "a trace",
                                         [FILE_RMM] = "a log of RMM",
                                         [FILE_MINIMALLOC] = "a problem of minimalloc" };
    file_kind kind;
    struct stat st;
    if (stat(path, &st) != 0 || st.st_size == 0 || access(path, R_OK) != 0) {
        return true; /* the reader reports the error */
    }
    if (!check_seekable(path, failure) || !find_kind(path, &kind, failure)) {
        return false;
    }
    return kind == FILE_SNAPSHOT ||
           bench_fail(failure,
                      "%s: %s. verify is for PyTorch's snapshots, which tell what PyTorch asked "
                      "of the driver; `pleat replay` runs this file",
                      path, names[kind]);
}

static bool check_options(const char *path, file_kind kind, const bench_file_options *options,
                          bench_failure *failure)
{
    for (unsigned i = 0; i < N_KEYS; i++) {
        if (options->given[i] && !(keys[i].kinds & 1u << kind)) {
            return bench_fail(failure, "%s: '%s' is an option of %s, which this is not", path,
                              options->given[i], keys[i].of);
        }
    }
    return true;
}

static bool read_snapshot(const char *path, const bench_file_options *options, bench_tape *tape,
                          bench_origin *origin, bench_failure *failure)
{
    bench_snapshot snapshot;
    bench_recording recording;
    if (!bench_snapshot_read(path, &options->limits, options->rank[0] ? options->rank : NULL,
                             options->device, &snapshot, failure)) {
        return false;
    }
    bool ok = bench_recording_write(path, &snapshot, !options->drops_failures, tape, &recording,
                                    failure);
    if (ok && origin) {
        bench_recording_origin(&snapshot, &recording, tape, origin);
    }
    if (ok) {
        bench_recording_free(&recording);
    }
    bench_snapshot_free(&snapshot);
    return ok;
}

bool bench_file_ranks(const char *found, bench_rank_name **names, unsigned *n,
                      bench_failure *failure)
{
    char path[LONGEST_PATH];
    bench_file_options options;
    bench_failure other; /* reading tells */
    file_kind kind;
    struct stat st;
    *n = 0;
    if (!bench_file_split(found, path, sizeof path, &options, &other) || options.rank[0] ||
        stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !find_kind(path, &kind, &other) ||
        kind != FILE_SNAPSHOT) {
        return true;
    }
    return bench_snapshot_ranks(path, &options.limits, names, n, failure);
}

bool bench_file_read(const char *found, bench_progress *progress, bench_tape *tape,
                     bench_origin *origin, bench_failure *failure)
{
    char path[LONGEST_PATH];
    bench_file_options options;
    file_kind kind;
    if (!bench_file_split(found, path, sizeof path, &options, failure) ||
        !check_seekable(path, failure) || !find_kind(path, &kind, failure) ||
        !check_options(path, kind, &options, failure)) {
        return false;
    }
    options.limits.progress = progress;
    tape->host.most_bytes = options.limits.host_bytes ? options.limits.host_bytes
                                                      : BENCH_MOST_HOST_BYTES;
    switch (kind) {
    case FILE_SNAPSHOT:
        return read_snapshot(path, &options, tape, origin, failure);
    case FILE_RMM:
        if (origin) {
            origin->is_rmm = true;
        }
        return bench_rmm_read(path, &options.limits, !options.drops_failures, tape, failure);
    case FILE_MINIMALLOC:
        return bench_minimalloc_read(path, &options.limits, options.scale, tape, failure);
    case FILE_TRACE:
        break;
    }
    return bench_trace_read(path, &options.limits, options.blocks, tape, failure);
}

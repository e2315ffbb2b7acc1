/* torch.c - PyTorch's allocator of device memory, over pleat's simulated CUDA runtime.
 *
 * On demand torch.sh compiles torch.cpp against the wheel, into the folder `pairs` beside the
 * command. First libpleat_runtime.so is loaded with global names. So the loader takes CUDA's names
 * from there, not from the wheel's runtime. */
#include "bench/pairs/through.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/adapters/pleat_torch.h"
#include "bench/base/folder.h"

#define RUNTIME "libpleat_runtime.so"

enum { PATH_BYTES = 4096, LINE_BYTES = 512, PLAIN = 0, PLUGGABLE, CLASS, PINNED, N_SHIMS };

typedef struct shim {
    void *library; /* NULL = not loaded */
    bool is_tried;
    bench_failure why; /* of the first try */
    const char *(*open)(void *(*hook_malloc)(size_t, int, void *),
                        void (*hook_free)(void *, size_t, int, void *));
    const char *(*version)(void);
    void (*enter)(void);
    void *(*alloc)(size_t bytes, void *stream);
    void (*release)(void *ptr);
    void (*use)(void *ptr, void *stream);
    const char *problem; /* of open, which is called once for all rows */
    bool is_open;
} shim;

static shim shims[N_SHIMS];

static unsigned shim_of(const bench_through_kind *kind)
{
    if (bench_through_is_pinned(kind)) {
        return PINNED;
    }
    if (kind->is_torch) {
        return PLAIN;
    }
    return strcmp(kind->name, "torch-class") == 0 ? CLASS : PLUGGABLE;
}

extern char **environ;

/* ---- loading --------------------------------------------------------------------------------- */

static bool find_beside_command(const char *name, char *path, size_t n)
{
    char command[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", command, sizeof command - 1);
    command[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(command, '/');
    if (!slash) {
        return false;
    }
    *slash = '\0';
    return (size_t)snprintf(path, n, "%s/%s", command, name) < n;
}

/* Keep the last line that a program prints, without newline. */
static void read_last_line(FILE *from, char *out, size_t n)
{
    char line[PATH_BYTES];
    out[0] = '\0';
    while (fgets(line, sizeof line, from)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0]) {
            snprintf(out, n, "%s", line);
        }
    }
}

/* Runs torch.sh; `out` is the path of the shared object or, if false, the reason. */
static bool run_script(char *const *argv, char *out, size_t n)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) {
        snprintf(out, n, "%s", strerror(errno));
        return false;
    }
    pid_t child;
    int error = posix_spawn_file_actions_init(&actions);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    error = error ? error : posix_spawn_file_actions_addclose(&actions, ends[0]);
    error = error ? error : posix_spawn_file_actions_addclose(&actions, ends[1]);
    error = error ? error : posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *from = error ? NULL : fdopen(ends[0], "r");
    if (!from) {
        close(ends[0]);
        snprintf(out, n, "%s: %s", argv[0], strerror(error ? error : errno));
        return false;
    }
    read_last_line(from, out, n);
    fclose(from);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool find_shim(unsigned index, char *path, size_t n, bench_failure *failure)
{
    static char names[N_SHIMS][16] = { "plain", "pluggable", "class", "pinned" };
    char script[PATH_BYTES];
    char folder[PATH_BYTES];
    if (!bench_folder_find("PLEAT_PAIRS", "pairs", script, sizeof script - sizeof "/torch.sh") ||
        !find_beside_command("pairs", folder, sizeof folder)) {
        return bench_fail(failure, "bench/pairs/torch.sh is not beside this command");
    }
    strncat(script, "/torch.sh", sizeof script - strlen(script) - 1);
    char *argv[] = { script, folder, names[index], NULL };
    return run_script(argv, path, n) || bench_fail(failure, "%.900s", path);
}

static bool find_functions(shim *s, bench_failure *failure)
{
    const struct {
        const char *name;
        void *into;
    } wanted[] = {
        { "pleat_pairs_torch_open", &s->open },    { "pleat_pairs_torch_version", &s->version },
        { "pleat_pairs_torch_enter", &s->enter },  { "pleat_pairs_torch_alloc", &s->alloc },
        { "pleat_pairs_torch_free", &s->release }, { "pleat_pairs_torch_use", &s->use },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *address = dlsym(s->library, wanted[i].name);
        if (!address) {
            return bench_fail(failure, "the shim for PyTorch has no %s", wanted[i].name);
        }
        memcpy(wanted[i].into, &address, sizeof address);
    }
    return true;
}

static bool load_shim(shim *s, unsigned index, bench_failure *failure)
{
    char runtime[PATH_BYTES];
    char path[PATH_BYTES];
    if (!find_beside_command(RUNTIME, runtime, sizeof runtime) || access(runtime, R_OK) != 0) {
        return bench_fail(failure, "there is no " RUNTIME " beside this command");
    }
    if (!find_shim(index, path, sizeof path, failure)) {
        return false;
    }
    if (!dlopen(runtime, RTLD_NOW | RTLD_GLOBAL)) {
        return bench_fail(failure, "%s", dlerror());
    }
    s->library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!s->library) {
        return bench_fail(failure, "%.900s", dlerror());
    }
    if (!find_functions(s, failure)) {
        s->library = NULL;
    }
    return s->library != NULL;
}

bool bench_torch_load(const bench_through_kind *kind, bench_failure *failure)
{
    unsigned index = shim_of(kind);
    shim *s = &shims[index];
    if (!s->is_tried) {
        s->is_tried = true;
        (void)load_shim(s, index, &s->why);
    }
    return s->library != NULL || bench_fail(failure, "%s: %.900s", kind->name, s->why.text);
}

const char *bench_torch_version(void)
{
    const shim *s = shims[PLAIN].library ? &shims[PLAIN] : &shims[PINNED];
    return s->library ? s->version() : NULL;
}

/* ---- calling --------------------------------------------------------------------------------- */

static pleat_devptr alloc_plain(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    return (pleat_devptr)(uintptr_t)shims[PLAIN].alloc(bytes, stream);
}

/* PyTorch knows the streams of its blocks. */
static bool free_plain(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    (void)stream;
    shims[PLAIN].release((void *)(uintptr_t)ptr);
    return true;
}

static pleat_devptr alloc_pluggable(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    return (pleat_devptr)(uintptr_t)shims[PLUGGABLE].alloc(bytes, stream);
}

static bool free_pluggable(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    (void)stream;
    shims[PLUGGABLE].release((void *)(uintptr_t)ptr);
    return true;
}

static pleat_devptr alloc_class(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    return (pleat_devptr)(uintptr_t)shims[CLASS].alloc(bytes, stream);
}

static bool free_class(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    (void)stream;
    shims[CLASS].release((void *)(uintptr_t)ptr);
    return true;
}

static pleat_devptr alloc_pinned(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    return (pleat_devptr)(uintptr_t)shims[PINNED].alloc(bytes, stream);
}

static bool free_pinned(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    (void)stream;
    shims[PINNED].release((void *)(uintptr_t)ptr);
    return true;
}

static bool free_used(const bench_through *through, pleat_devptr ptr, void *stream)
{
    shims[PINNED].use((void *)(uintptr_t)ptr, stream);
    return free_pinned(through, ptr, stream);
}

bool bench_torch_open(bench_through *through, bench_failure *failure)
{
    static pleat_devptr (*const allocs[N_SHIMS])(const bench_through *, uint64_t,
                                                 void *) = { alloc_plain, alloc_pluggable,
                                                             alloc_class, alloc_pinned };
    static bool (*const releases[N_SHIMS])(const bench_through *, pleat_devptr,
                                           void *) = { free_plain, free_pluggable, free_class,
                                                       free_pinned };
    unsigned index = shim_of(through->kind);
    shim *s = &shims[index];
    if (!s->is_open) {
        s->is_open = true;
        s->problem = s->open(pleat_torch_malloc, pleat_torch_free);
    }
    through->alloc = allocs[index];
    through->release = through->kind->stream == BENCH_THROUGH_USED ? free_used : releases[index];
    through->enter = s->enter;
    return !s->problem || bench_fail(failure, "%s: %s", through->kind->name, s->problem);
}

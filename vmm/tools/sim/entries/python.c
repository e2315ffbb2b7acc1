/* python.c - what a check calls for each operation of a script, as functions of Python.
 *
 * A call through ctypes takes longer than what is called, and a walk over frames in Python longer
 * than many an operation. Python takes a function from its PyMethodDef. Definition and calls belong
 * to what Python has kept stable since 3.9, so no header of Python is needed. Its symbols are weak:
 * a process without Python has none of them, and calls nothing here. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/sim/memory/pool.h"
#include "vmm/tools/sim/work/scope.h"

/* Python's own names for its own objects, all of them opaque here. */
typedef struct py_object py_object;

#define PYTHON __attribute__((weak)) extern

PYTHON py_object *PyEval_GetFrame(void);
PYTHON py_object *PyFrame_GetBack(py_object *frame);
PYTHON py_object *PyFrame_GetCode(py_object *frame);
PYTHON int PyFrame_GetLineNumber(py_object *frame);
PYTHON py_object *PyBytes_FromStringAndSize(const char *text, ptrdiff_t n);
PYTHON ptrdiff_t PyBytes_Size(py_object *bytes);
PYTHON char *PyBytes_AsString(py_object *bytes);
PYTHON py_object *PyObject_CallFunctionObjArgs(py_object *call, ...);
PYTHON py_object *PyErr_Occurred(void);
PYTHON void PyErr_SetString(py_object *kind, const char *text);
PYTHON unsigned long long PyLong_AsUnsignedLongLongMask(py_object *number);
PYTHON py_object *PyLong_FromUnsignedLongLong(unsigned long long number);
PYTHON ptrdiff_t PyList_Size(py_object *list);
PYTHON py_object *PyList_GetItem(py_object *list, ptrdiff_t at);
PYTHON py_object *PyBool_FromLong(long is_true);
PYTHON void Py_IncRef(py_object *object);
PYTHON void Py_DecRef(py_object *object);
PYTHON py_object *PyExc_TypeError;

enum { FAST_CALL = 0x80, NO_ARGUMENTS = 0x04, ONE_ARGUMENT = 0x08 }; /* as in PyMethodDef */

static py_object *refuse(const char *usage)
{
    PyErr_SetString(PyExc_TypeError, usage);
    return NULL;
}

/* ---- operations and blocks ------------------------------------------------------------------- */

/* Numbers of Python; what is none has set an error. */
static bool read_numbers(py_object *const *args, size_t n, uint64_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = PyLong_AsUnsignedLongLongMask(args[i]);
    }
    return PyErr_Occurred() == NULL;
}

/* op_begin(place, [ptr, bytes, is_write, ...]) */
static py_object *op_begin(py_object *self, py_object *const *args, ptrdiff_t n)
{
    (void)self;
    uint64_t place;
    ptrdiff_t n_numbers = n == 2 ? PyList_Size(args[1]) : -1;
    if (n_numbers < 0 || n_numbers % 3 != 0) {
        return refuse("op_begin(place, [ptr, bytes, is_write, ...])");
    }
    if (!read_numbers(args, 1, &place)) {
        return NULL;
    }
    size_t n_accesses = (size_t)n_numbers / 3;
    pleat_sim_access *accesses = sim_scope_room(n_accesses);
    for (size_t i = 0; i < n_accesses; i++) {
        uint64_t values[3];
        py_object *const items[3] = { PyList_GetItem(args[1], (ptrdiff_t)(3 * i)),
                                      PyList_GetItem(args[1], (ptrdiff_t)(3 * i + 1)),
                                      PyList_GetItem(args[1], (ptrdiff_t)(3 * i + 2)) };
        if (!read_numbers(items, 3, values)) {
            return NULL;
        }
        accesses[i] = (pleat_sim_access){ values[0], values[1], values[2] != 0 };
    }
    sim_scope_begin(place, n_accesses);
    return PyBool_FromLong(true);
}

/* op_end() */
static py_object *op_end(py_object *self, py_object *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromUnsignedLongLong(pleat_sim_op_end());
}

/* tell(what, stream, ptr, bytes, place) */
static py_object *tell(py_object *self, py_object *const *args, ptrdiff_t n)
{
    (void)self;
    uint64_t it[5];
    if (n != 5) {
        return refuse("tell(what, stream, ptr, bytes, place)");
    }
    if (!read_numbers(args, 5, it)) {
        return NULL;
    }
    void *stream = (void *)(uintptr_t)it[1];
    return PyBool_FromLong(pleat_sim_tell((pleat_sim_told)it[0], stream, it[2], it[3], it[4]));
}

/* ---- frames ---------------------------------------------------------------------------------- */

static py_object *judges; /* whose code it is: judge(code). Keeps each code that it is asked of */
static py_object *adds; /* the number of a new place: add(what, key, is_outer_s). Keeps each what */

/* follow(judge, add) */
static py_object *follow(py_object *self, py_object *const *args, ptrdiff_t n)
{
    (void)self;
    if (n != 2) {
        return refuse("follow(judge, add)");
    }
    Py_IncRef(args[0]);
    Py_IncRef(args[1]);
    judges = args[0];
    adds = args[1];
    return PyBool_FromLong(true);
}

typedef struct verdict {
    const py_object *code; /* NULL: free */
    uint64_t kind;
} verdict;

enum { NOT_USER_S, USER_S, OUTERMOST, MAX_FRAMES = 6, FEWEST = 1024 };

static verdict *verdicts; /* Python's lock: open addressing, at most half of them used */
static size_t n_verdicts; /* Python's lock */
static size_t room;       /* Python's lock: a power of two */

/* The frames of the call whose work runs on threads without any of the user's. */
static uint64_t outer[2 * MAX_FRAMES]; /* Python's lock */
static size_t n_outer;                 /* Python's lock */

static verdict *find_in(verdict *table, size_t n, const py_object *code)
{
    size_t at = ((uintptr_t)code >> 4) * 0x9e3779b1U;
    while (table[at & (n - 1)].code != NULL && table[at & (n - 1)].code != code) {
        at++;
    }
    return &table[at & (n - 1)];
}

static void grow(void)
{
    size_t more = room == 0 ? FEWEST : 2 * room;
    verdict *table = sim_new(more * sizeof(table[0]));
    for (size_t i = 0; i < room; i++) {
        if (verdicts[i].code != NULL) {
            *find_in(table, more, verdicts[i].code) = verdicts[i];
        }
    }
    free(verdicts);
    verdicts = table;
    room = more;
}

/* Of a code that was not seen before. This may run other threads of Python, and fail. */
static bool ask(py_object *code, uint64_t *kind)
{
    py_object *answer = PyObject_CallFunctionObjArgs(judges, code, (py_object *)NULL);
    if (answer == NULL || !read_numbers(&answer, 1, kind)) {
        return false;
    }
    Py_DecRef(answer);
    if (2 * n_verdicts >= room) {
        grow();
    }
    verdict *it = find_in(verdicts, room, code);
    n_verdicts += it->code == NULL;
    *it = (verdict){ code, *kind };
    return true;
}

static bool find_kind(py_object *code, uint64_t *kind)
{
    const verdict *it = room != 0 ? find_in(verdicts, room, code) : NULL;
    if (it == NULL || it->code == NULL) {
        return ask(code, kind);
    }
    *kind = it->kind;
    return true;
}

/* The user's frames from the caller on: code, line, code, line... False: an error. */
static bool walk(size_t most, uint64_t *key, size_t *n)
{
    py_object *frame = PyEval_GetFrame();
    uint64_t kind = NOT_USER_S;
    bool is_good = true;
    most = most < MAX_FRAMES ? most : MAX_FRAMES;
    *n = 0;
    if (frame != NULL) {
        Py_IncRef(frame);
    }
    while (frame != NULL && is_good) {
        py_object *code = PyFrame_GetCode(frame);
        is_good = find_kind(code, &kind);
        if (is_good && kind != NOT_USER_S) {
            key[(*n)++] = (uintptr_t)code;
            key[(*n)++] = (uint64_t)PyFrame_GetLineNumber(frame);
        }
        bool is_last = kind == OUTERMOST || *n == 2 * most;
        py_object *back = is_good && !is_last ? PyFrame_GetBack(frame) : NULL;
        Py_DecRef(code);
        Py_DecRef(frame);
        frame = back;
    }
    return is_good;
}

static py_object *bytes_of(const uint64_t *key, size_t n)
{
    return PyBytes_FromStringAndSize((const char *)key, (ptrdiff_t)(n * sizeof(key[0])));
}

/* user_key(): of the caller, as bytes */
static py_object *user_key(py_object *self, py_object *unused)
{
    (void)self;
    (void)unused;
    uint64_t key[2 * MAX_FRAMES];
    size_t n;
    return walk(MAX_FRAMES, key, &n) ? bytes_of(key, n) : NULL;
}

/* set_outer(key) */
static py_object *set_outer(py_object *self, py_object *key)
{
    (void)self;
    ptrdiff_t n = PyBytes_Size(key);
    if (n < 0 || n > (ptrdiff_t)sizeof(outer)) {
        return refuse("set_outer(user_key())");
    }
    memcpy(outer, PyBytes_AsString(key), (size_t)n);
    n_outer = (size_t)n / sizeof(outer[0]);
    return PyBool_FromLong(true);
}

/* ---- places ---------------------------------------------------------------------------------- */

typedef struct place {
    uint64_t number; /* 0: free */
    const py_object *what;
    bool is_outer_s;
    size_t n;
    uint64_t key[2 * MAX_FRAMES];
} place;

static place *places;      /* Python's lock: as the verdicts */
static size_t n_places;    /* Python's lock */
static size_t places_room; /* Python's lock */

static bool is_same(const place *one, const place *other)
{
    return one->what == other->what && one->is_outer_s == other->is_outer_s && one->n == other->n &&
           memcmp(one->key, other->key, one->n * sizeof(one->key[0])) == 0;
}

static place *find_place(place *table, size_t n, const place *it)
{
    uint64_t hash = (uintptr_t)it->what;
    for (size_t i = 0; i < it->n; i++) {
        hash = (hash ^ it->key[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    size_t at = (size_t)(hash ^ hash >> 16);
    while (table[at & (n - 1)].number != 0 && !is_same(&table[at & (n - 1)], it)) {
        at++;
    }
    return &table[at & (n - 1)];
}

static void grow_places(void)
{
    size_t more = places_room == 0 ? FEWEST : 2 * places_room;
    place *table = sim_new(more * sizeof(table[0]));
    for (size_t i = 0; i < places_room; i++) {
        if (places[i].number != 0) {
            *find_place(table, more, &places[i]) = places[i];
        }
    }
    free(places);
    places = table;
    places_room = more;
}

/* Of a place that was not seen before. `add` may run other threads of Python, and fail. */
static py_object *add_place(py_object *what, place *it)
{
    py_object *key = bytes_of(it->key, it->n);
    py_object *is_outer_s = PyBool_FromLong(it->is_outer_s);
    py_object *number = PyObject_CallFunctionObjArgs(adds, what, key, is_outer_s,
                                                     (py_object *)NULL);
    Py_DecRef(key);
    Py_DecRef(is_outer_s);
    if (number == NULL || !read_numbers(&number, 1, &it->number)) {
        return NULL;
    }
    if (2 * n_places >= places_room) {
        grow_places();
    }
    place *at = find_place(places, places_room, it);
    n_places += at->number == 0;
    *at = *it;
    return number;
}

/* here(what[, most]): the number of the caller's place; where that is nobody's, of the outer one */
static py_object *here(py_object *self, py_object *const *args, ptrdiff_t n)
{
    (void)self;
    uint64_t most = MAX_FRAMES;
    place it = { .what = n > 0 ? args[0] : NULL };
    if (n < 1 || n > 2 || judges == NULL) {
        return refuse("here(what[, most]), after follow()");
    }
    if ((n == 2 && !read_numbers(&args[1], 1, &most)) || !walk((size_t)most, it.key, &it.n)) {
        return NULL;
    }
    if (it.n == 0) {
        it.is_outer_s = true;
        it.n = n_outer < 2 * most ? n_outer : (size_t)(2 * most);
        memcpy(it.key, outer, it.n * sizeof(outer[0]));
    }
    const place *known = places_room != 0 ? find_place(places, places_room, &it) : NULL;
    return known != NULL && known->number != 0 ? PyLong_FromUnsignedLongLong(known->number)
                                               : add_place(args[0], &it);
}

/* ---- the functions --------------------------------------------------------------------------- */

typedef void (*any_call)(void);

static const pleat_sim_method methods[] = {
    { "op_begin", (any_call)op_begin, FAST_CALL, NULL },
    { "op_end", (any_call)op_end, NO_ARGUMENTS, NULL },
    { "tell", (any_call)tell, FAST_CALL, NULL },
    { "follow", (any_call)follow, FAST_CALL, NULL },
    { "user_key", (any_call)user_key, NO_ARGUMENTS, NULL },
    { "set_outer", (any_call)set_outer, ONE_ARGUMENT, NULL },
    { "here", (any_call)here, FAST_CALL, NULL },
    { NULL, NULL, 0, NULL },
};

const pleat_sim_method *pleat_sim_methods(void)
{
    return methods;
}

/* policy_python.c - a growth policy in Python: libpleat_policy_python.so.
 *
 * A script as the command's `policy` stands for this object, with the script in the variable
 * PLEAT_POLICY_SCRIPT. The first decision of a process starts python3 with the script; each further
 * one is a message there and back, some 20 us. The script defines functions of pleat_policy.h
 * without their prefix: order(now, own), slack(now, own), may_order(now, own), place(now, own). */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vmm/base/pleat_policy.h"

#define EXPORT __attribute__((visibility("default")))

enum { ORDER, SLACK, MAY_ORDER, PLACE };

/* The other end. Its first byte says which functions the script has. A name that is nearly one of
 * them is no rule of the script's, so it is told. Answers are numbers, cut to what fits. */
static const char runner[] =
    "import difflib, importlib.util, socket, struct, sys, types\n"
    "spec = importlib.util.spec_from_file_location('policy', sys.argv[1])\n"
    "policy = importlib.util.module_from_spec(spec)\n"
    "spec.loader.exec_module(policy)\n"
    "rules = ('order', 'slack', 'may_order', 'place')\n"
    "calls = [getattr(policy, name, None) for name in rules]\n"
    "missing = [name for name, call in zip(rules, calls) if not call]\n"
    "mine = [n for n, f in vars(policy).items() if isinstance(f, types.FunctionType)]\n"
    "for name in mine:\n"
    "    for rule in difflib.get_close_matches(name, missing, 1, 0.75):\n"
    "        sys.exit(f'{sys.argv[1]}: {name} is no rule: did you mean {rule}?')\n"
    "if len(missing) == len(rules):\n"
    "    sys.exit(f'{sys.argv[1]}: it defines none of {\", \".join(rules)}')\n"
    "names = 'granule_bytes total cap held pinned peak_pinned tied taken asked bytes at'.split()\n"
    "file = socket.socket(fileno=int(sys.argv[2])).makefile('rwb', 0)\n"
    "file.write(bytes([sum(1 << i for i, call in enumerate(calls) if call)]))\n"
    "while data := file.read(104):\n"
    "    kind, own, *values = struct.unpack('13Q', data)\n"
    "    now = types.SimpleNamespace(**dict(zip(names, values)))\n"
    "    said = calls[kind](now, own)\n"
    "    if not isinstance(said, (int, float)):\n"
    "        sys.exit(f'{sys.argv[1]}: {rules[kind]}(now, own) returned {said!r}, no number')\n"
    "    file.write(struct.pack('Q', int(min(max(said, 0), 2 ** 64 - 1))))\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int other = -1;    /* lock */
static pid_t owner;       /* lock: a forked child starts a python of its own */
static unsigned char has; /* lock: a set of functions */

/* A policy that cannot answer ends the process: a study without it would mislead. */
static void give_up(const char *what)
{
    fprintf(stderr, "pleat: the policy in Python: %s\n", what);
    _exit(2);
}

static void transfer(void *bytes, size_t n, int is_write)
{
    for (size_t done = 0; done < n;) {
        char *at = (char *)bytes + done;
        ssize_t part = is_write ? write(other, at, n - done) : read(other, at, n - done);
        if (part == 0 || (part < 0 && errno != EINTR)) {
            give_up("it ended, as told above");
        }
        done += part > 0 ? (size_t)part : 0;
    }
}

static void start(void)
{
    const char *script = getenv("PLEAT_POLICY_SCRIPT");
    int ends[2];
    char end[16];
    if (!script || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        give_up("PLEAT_POLICY_SCRIPT names no script");
    }
    pid_t child = fork();
    if (child == 0) {
        int kept = dup(ends[1]);
        snprintf(end, sizeof end, "%d", kept);
        execlp("python3", "python3", "-c", runner, script, end, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (child < 0) {
        give_up("python3 cannot be started");
    }
    other = ends[0];
    owner = getpid();
    transfer(&has, 1, 0);
}

static uint64_t ask(uint64_t kind, const pleat_policy_view *now, uint64_t own)
{
    struct {
        uint64_t kind;
        uint64_t own;
        pleat_policy_view now;
    } message = { kind, own, *now };
    _Static_assert(sizeof message == 104, "as the runner reads it");
    uint64_t answer = own;
    pthread_mutex_lock(&lock);
    if (other < 0 || owner != getpid()) {
        start();
    }
    if ((has >> kind & 1) != 0) {
        transfer(&message, sizeof message, 1);
        transfer(&answer, sizeof answer, 0);
    }
    pthread_mutex_unlock(&lock);
    return answer;
}

EXPORT uint64_t pleat_policy_order(const pleat_policy_view *now, uint64_t own)
{
    return ask(ORDER, now, own);
}

EXPORT uint64_t pleat_policy_slack(const pleat_policy_view *now, uint64_t own)
{
    return ask(SLACK, now, own);
}

EXPORT uint64_t pleat_policy_may_order(const pleat_policy_view *now, uint64_t own)
{
    return ask(MAY_ORDER, now, own);
}

EXPORT uint64_t pleat_policy_place(const pleat_policy_view *now, uint64_t own)
{
    return ask(PLACE, now, own);
}

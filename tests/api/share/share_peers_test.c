/* share_peers_test.c - shared memory with a difficult other process: silent, hanging up, stopped,
 * or forking. Also with a driver that does not unmap. */
/* labels: unit fault stress */
/* alone: the test runs itself as the other process, and replaces clock_gettime and sendmsg */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/share/ask.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/clock.h"
#include "vmm/driver.h"

#define MIB (UINT64_C(1) << 20)

enum { NAME_ROOM = 65536, MOST_CHUNKS = 256 };

/* ---- what is libc's elsewhere ---------------------------------------------------------------- */

static _Atomic uint64_t stopped_ms; /* 0 = the clock runs */
static atomic_int n_refusals;       /* how many messages the system does not send, from now on */

int clock_gettime(clockid_t id, struct timespec *out)
{
    uint64_t ms = atomic_load(&stopped_ms);
    if (ms == 0 || id != CLOCK_MONOTONIC) {
        return (int)syscall(SYS_clock_gettime, id, out);
    }
    *out = (struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000 * 1000000) };
    return 0;
}

/* No deadline passes. */
static void stop_clock(void)
{
    atomic_store(&stopped_ms, pl_clock_ms());
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (atomic_load(&n_refusals) > 0) {
        atomic_fetch_sub(&n_refusals, 1);
        errno = ETOOMANYREFS;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* ---- what the tests share -------------------------------------------------------------------- */

typedef struct shared_name {
    char bytes[NAME_ROOM];
    size_t n;
} shared_name;

static pleat make_sharing(const char *more)
{
    char conf[256];
    snprintf(conf, sizeof conf, "shareable:True%s%s", more[0] != '\0' ? "," : "", more);
    return api_make(API_PLEAT, "capacity:1G", conf);
}

static void name_block(pleat instance, pleat_devptr ptr, shared_name *out)
{
    pleat_status st = pleat_share_export(instance, 0, ptr, PLEAT_SHARE_SERVE, out->bytes,
                                         sizeof out->bytes, &out->n);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    ck_assert_uint_le(out->n, sizeof out->bytes);
}

static pleat_devptr open_name(pleat instance, const shared_name *name)
{
    pleat_devptr at = 0;
    pleat_status st = pleat_share_open(instance, 0, name->bytes, name->n, &at);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return at;
}

static void close_at(pleat instance, pleat_devptr at, void *stream)
{
    pleat_status st = pleat_share_close(instance, 0, at, stream);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

static void trim(pleat instance)
{
    ck_assert_int_eq(pleat_device_trim(instance, 0, UINT64_MAX, false, NULL), PLEAT_OK);
}

/* ---- a process that the test plays ----------------------------------------------------------- */

/* Listen under a made-up process number, and change the name to a block of that process. */
static int pretend(shared_name *name)
{
    static pl_shared_chunk chunks[MOST_CHUNKS];
    pl_shared_block block;
    pl_name header;
    ck_assert(pl_name_read(name->bytes, name->n, &header));
    ck_assert_uint_le(header.n, MOST_CHUNKS);
    pl_name_read_chunks(name->bytes, &header, chunks);
    header.process[0] ^= 1;
    pl_name_read_block(name->bytes, &header, 0, &block);
    pl_name_write(&header, chunks, &block, name->bytes);
    socklen_t bytes;
    struct sockaddr_un address = pl_talk_address(header.process, &bytes);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

/* Waits for a call and its question. */
static int answer_call(int listener)
{
    pl_question question;
    int fd = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(recv(fd, &question, sizeof question, 0), (ssize_t)sizeof question);
    return fd;
}

typedef struct opener {
    pleat instance;
    const shared_name *name;
    pleat_status status;
    char text[512];
    atomic_bool is_over;
} opener;

static void *open_it(void *context)
{
    opener *o = context;
    pleat_devptr at;
    o->status = pleat_share_open(o->instance, 0, o->name->bytes, o->name->n, &at);
    snprintf(o->text, sizeof o->text, "%s", pleat_last_error()->text);
    atomic_store(&o->is_over, true);
    return NULL;
}

START_TEST(nobody_waits_for_who_asks_a_silent_process)
{
    static shared_name names[2];
    static opener o;
    pthread_t thread;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, 3 * MIB, NULL);
    name_block(instance, ptr, &names[0]);
    names[1] = names[0];
    pleat_devptr at = open_name(instance, &names[0]);
    int listener = pretend(&names[1]);
    o = (opener){ .instance = instance, .name = &names[1] };
    ck_assert_int_eq(pthread_create(&thread, NULL, open_it, &o), 0);
    int fd = answer_call(listener);
    trim(instance);
    ck_assert_uint_eq(open_name(instance, &names[0]), at);
    close_at(instance, at, NULL);
    close_at(instance, at, NULL);
    ck_assert(!atomic_load(&o.is_over));
    close(listener);
    close(fd);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(o.status, PLEAT_ESHARE);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(who_is_hung_up_on_calls_once_more)
{
    static shared_name name;
    static opener o;
    pthread_t thread;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, 3 * MIB, NULL);
    name_block(instance, ptr, &name);
    int listener = pretend(&name);
    o = (opener){ .instance = instance, .name = &name };
    ck_assert_int_eq(pthread_create(&thread, NULL, open_it, &o), 0);
    close(answer_call(listener));
    close(answer_call(listener));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(o.status, PLEAT_ESHARE);
    ck_assert_ptr_nonnull(strstr(o.text, "hung up"));
    close(listener);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- conversations --------------------------------------------------------------------------- */

typedef struct talking {
    shared_name text;
    pl_name name;
    pl_shared_chunk chunks[MOST_CHUNKS];
    pl_asker asker;
} talking;

static void begin_talking(talking *t, pleat instance, pleat_devptr ptr)
{
    name_block(instance, ptr, &t->text);
    ck_assert(pl_name_read(t->text.bytes, t->text.n, &t->name));
    ck_assert_uint_le(t->name.n, MOST_CHUNKS);
    pl_name_read_chunks(t->text.bytes, &t->name, t->chunks);
    ck_assert_int_eq(pl_asker_begin(&t->asker, &t->name, t->chunks), PLEAT_OK);
}

/* The server hangs up after two seconds of silence, as from a process that maps slowly. */
START_TEST(a_conversation_goes_on_after_a_hang_up)
{
    static talking t;
    int fd = -1;
    pleat instance = make_sharing("chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 200 * MIB, NULL);
    begin_talking(&t, instance, ptr);
    ck_assert_uint_gt(t.name.n, PL_TALK_MOST);
    ck_assert_int_eq(pl_asker_fd(&t.asker, 0, &fd), PLEAT_OK);
    ck_assert_int_eq(shutdown(t.asker.held.socket, SHUT_RDWR), 0);
    ck_assert_int_eq(pl_asker_fd(&t.asker, PL_TALK_MOST, &fd), PLEAT_OK);
    ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
    pl_asker_end(&t.asker);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- the server ------------------------------------------------------------------------------ */

enum { SEATS = 64, TURN_MS = 2000, LONG_SECONDS = 10 };

static talking talks[2];

/* Make a sharing instance with a block that needs several questions. */
static pleat serve_block(pleat_devptr *ptr)
{
    pleat instance = make_sharing("chunks:granule");
    *ptr = api_alloc(instance, 0, 200 * MIB, NULL);
    return instance;
}

static void end_block(pleat instance, pleat_devptr ptr)
{
    atomic_store(&stopped_ms, 0); /* Check measures time, too */
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}

static void ask_for(talking *t, size_t i)
{
    int fd = -1;
    pleat_status st = pl_asker_fd(&t->asker, i, &fd);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
}

static void ask_once(pleat instance, pleat_devptr ptr)
{
    begin_talking(&talks[0], instance, ptr);
    ask_for(&talks[0], 0);
    pl_asker_end(&talks[0].asker);
}

/* Call that process and say nothing. */
static int call(const uint64_t process[2])
{
    socklen_t bytes;
    struct sockaddr_un address = pl_talk_address(process, &bytes);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    pl_talk_limit(fd, LONG_SECONDS);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, bytes), 0);
    return fd;
}

static bool is_hung_up_on(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    ck_assert(got == 0 || errno == EAGAIN || errno == ECONNRESET);
    return got == 0 || errno == ECONNRESET;
}

/* The clock stands still. So no caller is silent for too long. */
START_TEST(silent_callers_delay_nobody)
{
    static const int numbers[] = { 6, SEATS, 300 };
    int silent[300];
    int n = numbers[_i];
    int n_gone = 0;
    pleat_devptr ptr;
    pleat instance = serve_block(&ptr);
    ask_once(instance, ptr);
    stop_clock();
    for (int i = 0; i < n; i++) {
        silent[i] = call(talks[0].name.process);
    }
    ask_once(instance, ptr);
    for (int i = 0; i < n; i++) {
        ck_assert(!is_hung_up_on(silent[i]) || n_gone++ == i);
    }
    ck_assert_int_eq(n_gone, n < SEATS ? 0 : n + 1 - SEATS); /* the first callers */
    for (int i = 0; i < n; i++) {
        close(silent[i]);
    }
    end_block(instance, ptr);
}
END_TEST

START_TEST(who_is_silent_for_long_is_hung_up_on)
{
    pleat_devptr ptr;
    pleat instance = serve_block(&ptr);
    ask_once(instance, ptr);
    stop_clock();
    int silent = call(talks[0].name.process);
    ask_once(instance, ptr);
    atomic_fetch_add(&stopped_ms, TURN_MS - 1);
    ask_once(instance, ptr);
    ck_assert(!is_hung_up_on(silent));
    atomic_fetch_add(&stopped_ms, 1);
    ask_once(instance, ptr);
    ck_assert(is_hung_up_on(silent));
    close(silent);
    end_block(instance, ptr);
}
END_TEST

START_TEST(askers_are_answered_in_turn)
{
    pleat_devptr ptr;
    pleat instance = serve_block(&ptr);
    stop_clock();
    begin_talking(&talks[0], instance, ptr);
    begin_talking(&talks[1], instance, ptr);
    for (size_t i = 0; i < talks[0].name.n; i += PL_TALK_MOST) {
        ask_for(&talks[0], i);
        ask_for(&talks[1], i);
    }
    pl_asker_end(&talks[0].asker);
    pl_asker_end(&talks[1].asker);
    end_block(instance, ptr);
}
END_TEST

START_TEST(who_takes_no_answers_is_hung_up_on)
{
    static pl_question question; /* names a process that does not exist */
    pleat_devptr ptr;
    pleat instance = serve_block(&ptr);
    ask_once(instance, ptr);
    stop_clock();
    int deaf = call(talks[0].name.process);
    ssize_t sent;
    do {
        sent = send(deaf, &question, sizeof question, MSG_NOSIGNAL);
    } while (sent > 0);
    ck_assert(errno == EPIPE || errno == ECONNRESET);
    ask_once(instance, ptr);
    close(deaf);
    end_block(instance, ptr);
}
END_TEST

/* The system limits the descriptors on their way between a user's processes. */
START_TEST(what_the_system_does_not_send_is_sent_later)
{
    pleat_devptr ptr;
    pleat instance = serve_block(&ptr);
    stop_clock();
    atomic_store(&n_refusals, 3);
    ask_once(instance, ptr);
    ck_assert_int_eq(atomic_load(&n_refusals), 0);
    end_block(instance, ptr);
}
END_TEST

/* ---- forks ----------------------------------------------------------------------------------- */

static void finish(pid_t child)
{
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_forked_child_closes_what_its_parent_asked_for)
{
    static talking t;
    int fd = -1;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, 3 * MIB, NULL);
    begin_talking(&t, instance, ptr);
    ck_assert_int_eq(pl_asker_fd(&t.asker, 0, &fd), PLEAT_OK);
    pid_t child = fork();
    if (child == 0) {
        bool is_closed = fcntl(fd, F_GETFD) == -1 && t.asker.held.socket == -1;
        _exit(is_closed ? 0 : 1);
    }
    finish(child);
    ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
    pl_asker_end(&t.asker);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* Count the process's open descriptors of a file called `what`. */
static int count_fds(const char *what)
{
    int n = 0;
    DIR *all = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(all);
    for (const struct dirent *it; (it = readdir(all)) != NULL;) {
        char target[256] = "";
        ssize_t bytes = readlinkat(dirfd(all), it->d_name, target, sizeof target - 1);
        n += bytes > 0 && strstr(target, what) != NULL;
    }
    closedir(all);
    return n;
}

static const char chunk_file[] = "pleat-sim-handle";

START_TEST(a_forked_child_closes_what_its_parent_hands_out)
{
    static shared_name name;
    static opener o;
    static int fds[MOST_CHUNKS];
    pthread_t thread;
    pleat instance = make_sharing("chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 100 * MIB, NULL);
    name_block(instance, ptr, &name);
    size_t n = pleat_share_n_fds(name.bytes, name.n);
    ck_assert_int_eq(pleat_share_fds(instance, name.bytes, name.n, fds, MOST_CHUNKS), PLEAT_OK);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        close(fds[i]);
    }
    int n_before = count_fds(chunk_file); /* the simulator's own */
    int n_sockets = count_fds("socket:");
    sim.delay("cuMemExportToShareableHandle", 4000);
    o = (opener){ .instance = instance, .name = &name };
    ck_assert_int_eq(pthread_create(&thread, NULL, open_it, &o), 0);
    while (count_fds(chunk_file) < n_before + 2) {
        sched_yield();
    }
    pid_t child = fork();
    if (child == 0) {
        _exit(count_fds(chunk_file) == n_before && count_fds("socket:") < n_sockets ? 0 : 1);
    }
    finish(child);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(o.status, PLEAT_OK);
    sim.delay("cuMemExportToShareableHandle", 0);
    pleat_devptr at = open_name(instance, &name); /* the thread's */
    close_at(instance, at, NULL);
    close_at(instance, at, NULL);
    while (count_fds(chunk_file) != n_before) { /* the thread that hands out closes its own last */
        sched_yield();
    }
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- a stopped process ----------------------------------------------------------------------- */

enum { SAY_AT = 101 }; /* where a started process finds the pipe to the test */

/* Shares a block, says its name, and waits to be ended. */
START_TEST(role_export)
{
    static shared_name name;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    name_block(instance, ptr, &name);
    ck_assert_int_eq(write(SAY_AT, name.bytes, name.n), (ssize_t)name.n);
    pause();
}
END_TEST

static pid_t start_exporter(int say)
{
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(say, SAY_AT);
        execl("/proc/self/exe", "api_share_peers", "role_export", NULL);
        _exit(3);
    }
    ck_assert_int_gt(child, 0);
    close(say); /* if it ends, the pipe does */
    return child;
}

START_TEST(a_stopped_process_is_named)
{
    static shared_name name;
    int say[2];
    int status = -1;
    pleat_devptr at;
    char pid[32];
    ck_assert_int_eq(pipe(say), 0);
    pid_t child = start_exporter(say[1]);
    ssize_t n = read(say[0], name.bytes, sizeof name.bytes);
    ck_assert_int_gt(n, 0);
    name.n = (size_t)n;
    ck_assert_int_eq(kill(child, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    pleat instance = make_sharing("");
    ck_assert_int_eq(pleat_share_open(instance, 0, name.bytes, name.n, &at), PLEAT_ESHARE);
    snprintf(pid, sizeof pid, "process %d", (int)child);
    api_expect(PLEAT_ESHARE, pid, "is it stopped?");
    ck_assert_int_eq(kill(child, SIGCONT), 0);
    close_at(instance, open_name(instance, &name), NULL);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    api_unmake(instance);
}
END_TEST

/* ---- closes ---------------------------------------------------------------------------------- */

START_TEST(closes_that_are_over_are_forgotten_while_it_is_open)
{
    static shared_name name;
    uint64_t n_events = 0;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    name_block(instance, ptr, &name);
    pleat_devptr at = open_name(instance, &name);
    for (int i = 0; i < 30; i++) {
        void *stream = api_stream(instance, 0);
        pleat_sim_access access = { .ptr = at, .bytes = 1000 };
        ck_assert_uint_eq(open_name(instance, &name), at);
        ck_assert_int_eq(sim.work(stream, &access, 1), 0);
        close_at(instance, at, stream);
        sim.finish();
        api_stream_end(instance, 0, stream);
        n_events = i < 3 ? api_sim_counts().events : n_events;
    }
    ck_assert_uint_le(api_sim_counts().events, n_events);
    close_at(instance, at, NULL);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(what_the_driver_does_not_unmap_is_tried_again)
{
    static shared_name name;
    pleat instance = make_sharing("");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    name_block(instance, ptr, &name);
    uint64_t mappings = api_sim_counts().mappings;
    pleat_devptr at = open_name(instance, &name);
    sim.fail_from("cuMemUnmap", 0, CU_INVALID_VALUE);
    close_at(instance, at, NULL);
    sim.fail_never();
    ck_assert_uint_eq(api_sim_counts().mappings, mappings + 1);
    trim(instance);
    ck_assert_uint_eq(api_sim_counts().mappings, mappings);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("api share peers");
    TCase *others = tcase_create("other processes");
    tcase_add_checked_fixture(others, api_sim_load, NULL);
    tcase_add_test(others, nobody_waits_for_who_asks_a_silent_process);
    tcase_add_test(others, who_is_hung_up_on_calls_once_more);
    tcase_add_test(others, a_conversation_goes_on_after_a_hang_up);
    tcase_add_test(others, a_stopped_process_is_named);
    suite_add_tcase(suite, others);
    TCase *server = tcase_create("the server");
    tcase_add_checked_fixture(server, api_sim_load, NULL);
    tcase_add_loop_test(server, silent_callers_delay_nobody, 0, 3);
    tcase_add_test(server, who_is_silent_for_long_is_hung_up_on);
    tcase_add_test(server, askers_are_answered_in_turn);
    tcase_add_test(server, who_takes_no_answers_is_hung_up_on);
    tcase_add_test(server, what_the_system_does_not_send_is_sent_later);
    suite_add_tcase(suite, server);
    TCase *forks = tcase_create("forks");
    tcase_add_checked_fixture(forks, api_sim_load, NULL);
    tcase_add_test(forks, a_forked_child_closes_what_its_parent_asked_for);
    tcase_add_test(forks, a_forked_child_closes_what_its_parent_hands_out);
    suite_add_tcase(suite, forks);
    TCase *closes = tcase_create("closes");
    tcase_add_checked_fixture(closes, api_sim_load, NULL);
    tcase_add_test(closes, closes_that_are_over_are_forgotten_while_it_is_open);
    tcase_add_test(closes, what_the_driver_does_not_unmap_is_tried_again);
    suite_add_tcase(suite, closes);
    return suite;
}

/* In the other process: play one test without Check's forks. */
static Suite *make_role(void)
{
    Suite *suite = suite_create("role");
    TCase *alone = tcase_create("role");
    tcase_add_checked_fixture(alone, api_sim_load, NULL);
    tcase_add_test(alone, role_export);
    suite_add_tcase(suite, alone);
    return suite;
}

int main(int argc, char **argv)
{
    (void)argv;
    return argc == 2 ? suite_play(make_role()) : suite_run(make_suite());
}

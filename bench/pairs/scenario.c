/* scenario.c - reads the names of scenarios and draws their requests. */
#include "bench/pairs/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "bench/works/work.h"

enum { N_HOT = 8, CROWD_BLOCKS = 4096 };

static const char *const short_ones[] = { "random:100", "random:4096", "random:65536",    "hot",
                                          "threads:1",  "threads:2",   "threads:2,shared" };
static const char *const all_of_them[] = {
    "random:100",
    "random:4096",
    "random:65536",
    "random:1000000",
    "hot",
    "threads:1",
    "threads:2",
    "threads:3",
    "threads:4",
    "threads:2,shared",
    "threads:3,shared",
    "threads:4,shared",
    "threads:1,hot",
    "threads:2,hot",
    "threads:2,shared,hot",
    "streams:1",
    "streams:10",
    "streams:100",
    "streams:1000",
};

const char *bench_scenario_standard(bool all, unsigned index)
{
    size_t n = all ? sizeof all_of_them / sizeof all_of_them[0]
                   : sizeof short_ones / sizeof short_ones[0];
    return index >= n ? NULL : all ? all_of_them[index] : short_ones[index];
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Read the number behind `prefix`, and set *end behind the number. False when the text begins
 * otherwise. */
static bool read_number(const char *text, const char *prefix, const char **end, uint64_t *out)
{
    size_t n = strlen(prefix);
    if (strncmp(text, prefix, n) != 0) {
        return false;
    }
    const char *p = text + n;
    *out = 0;
    for (; *p >= '0' && *p <= '9' && *out < UINT32_MAX; p++) {
        *out = *out * 10 + (uint64_t)(*p - '0');
    }
    *end = p;
    return true;
}

/* Does the text begin with the word? If so, move *rest behind the word. */
static bool take_word(const char **rest, const char *word)
{
    size_t n = strlen(word);
    bool is_there = strncmp(*rest, word, n) == 0;
    *rest += is_there ? n : 0;
    return is_there;
}

static bool check(const char *text, const char *prefix, uint64_t number, const char *rest,
                  uint64_t least, uint64_t most, bench_failure *failure)
{
    bool is_good = rest[0] == '\0' && number >= least && number <= most;
    return is_good || bench_fail(failure, "'%.200s': behind '%s' stands a number from %llu to %llu",
                                 text, prefix, (unsigned long long)least, (unsigned long long)most);
}

bool bench_scenario_parse(const char *text, bench_scenario *out, bench_failure *failure)
{
    uint64_t n = 0;
    const char *rest = "";
    *out = (bench_scenario){ .kind = BENCH_SCENARIO_WORK, .n_threads = 1, .n_streams = 1 };
    if ((size_t)snprintf(out->name, sizeof out->name, "%s", text) >= sizeof out->name) {
        return bench_fail(failure, "'%.60s...': the name is too long", text);
    }
    if (strcmp(text, "hot") == 0) {
        out->kind = BENCH_SCENARIO_HOT;
        out->is_hot = true;
        out->n_blocks = N_HOT;
        return true;
    }
    if (read_number(text, "random:", &rest, &n)) {
        out->kind = BENCH_SCENARIO_RANDOM;
        out->n_blocks = (uint32_t)n;
        return check(text, "random:", n, rest, 1, BENCH_SCENARIO_MOST_BLOCKS, failure);
    }
    if (read_number(text, "threads:", &rest, &n)) {
        bool is_shared = take_word(&rest, ",shared");
        out->kind = BENCH_SCENARIO_THREADS;
        out->is_hot = take_word(&rest, ",hot");
        out->n_threads = (uint32_t)n;
        out->n_blocks = out->is_hot ? N_HOT * out->n_threads : CROWD_BLOCKS;
        out->n_streams = is_shared ? 1 : out->n_threads;
        return check(text, "threads:", n, rest, 1, BENCH_SCENARIO_MOST_THREADS, failure);
    }
    if (read_number(text, "streams:", &rest, &n)) {
        out->kind = BENCH_SCENARIO_STREAMS;
        out->n_blocks = CROWD_BLOCKS;
        out->n_streams = (uint32_t)n;
        return check(text, "streams:", n, rest, 1, BENCH_SCENARIO_MOST_STREAMS, failure);
    }
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

static const uint64_t hot_bytes[N_HOT] = { 512, 1024, 2048, 5120, 8192, 20480, 65536, 262144 };

static bool open_pairs(bench_course *course, unsigned n_pairs, bench_failure *failure)
{
    const bench_scenario *scenario = course->scenario;
    course->n_slots = scenario->n_blocks;
    course->n_pairs = n_pairs;
    course->first_bytes = calloc(course->n_slots, sizeof *course->first_bytes);
    course->pairs = calloc((size_t)scenario->n_threads * n_pairs, sizeof *course->pairs);
    if (!course->first_bytes || !course->pairs) {
        return bench_fail(failure, "%s: out of host memory", scenario->name);
    }
    for (uint32_t i = 0; i < course->n_slots; i++) {
        course->first_bytes[i] = scenario->is_hot ? hot_bytes[i % N_HOT]
                                                  : bench_resident_draw_bytes(&course->random);
    }
    return true;
}

static bool copy_events(bench_course *course, const bench_work *work, bench_failure *failure)
{
    course->events = calloc(work->n_events, sizeof *course->events);
    bench_cursor cursor;
    if (!course->events || !bench_cursor_open(work, &cursor, failure)) {
        return bench_fail(failure, "%.200s: out of host memory", work->name);
    }
    const bench_event *entries;
    size_t n;
    while ((n = bench_cursor_next(&cursor, &entries, failure)) > 0 && n != SIZE_MAX) {
        for (size_t i = 0; i < n; i++) {
            if (bench_event_is_block(&entries[i])) {
                course->events[course->n_events++] = entries[i];
            }
        }
    }
    bench_cursor_close(&cursor);
    return n == 0;
}

static bool open_work(bench_course *course, bench_failure *failure)
{
    bench_work work;
    if (!bench_work_open_device(course->scenario->name, NULL, &work, failure)) {
        return false;
    }
    snprintf(course->name, sizeof course->name, "%s", work.name);
    course->n_slots = work.n_slots;
    course->n_streams = work.n_streams;
    bool ok = copy_events(course, &work, failure);
    bench_work_close(&work);
    return ok;
}

bool bench_course_open(const bench_scenario *scenario, unsigned n_pairs, uint64_t seed,
                       bench_course *out, bench_failure *failure)
{
    *out = (bench_course){ .scenario = scenario,
                           .n_streams = scenario->n_streams,
                           .random = { seed } };
    snprintf(out->name, sizeof out->name, "%s", scenario->name);
    bool ok = scenario->kind == BENCH_SCENARIO_WORK ? open_work(out, failure)
                                                    : open_pairs(out, n_pairs, failure);
    if (!ok) {
        bench_course_close(out);
    }
    return ok;
}

void bench_course_close(bench_course *course)
{
    free(course->first_bytes);
    free(course->pairs);
    free(course->events);
    *course = (bench_course){ .scenario = NULL };
}

void bench_course_draw(bench_course *course)
{
    const bench_scenario *scenario = course->scenario;
    uint32_t each = course->n_slots / scenario->n_threads;
    for (uint32_t t = 0; course->pairs && t < scenario->n_threads; t++) {
        bench_pair *pairs = course->pairs + (size_t)t * course->n_pairs;
        for (unsigned i = 0; i < course->n_pairs; i++) {
            if (scenario->is_hot) {
                pairs[i].bytes = hot_bytes[i % N_HOT];
                pairs[i].index = t * each + i % N_HOT;
                continue;
            }
            pairs[i].index = t * each +
                             (uint32_t)bench_random_between(&course->random, 0, each - 1);
            pairs[i].bytes = bench_resident_draw_bytes(&course->random);
        }
    }
}

size_t bench_course_units(const bench_course *course)
{
    return course->events ? course->n_events : course->n_pairs;
}

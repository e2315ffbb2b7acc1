/* replace_test.c - replacing files: mode, owner, links, pipes, refusals. */
/* labels: unit fault */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/replace.h"
#include "tests/support/suite.h"

enum { NOBODY = 65534 };

static char folder[64];
static pl_replace file;

/* A path in the test's folder; valid for the next three calls. */
static const char *at(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static size_t n_files(void)
{
    glob_t found;
    int result = glob(at("*"), GLOB_PERIOD, NULL, &found); /* . and .. are among the paths found */
    ck_assert_int_eq(result, 0);
    size_t n = found.gl_pathc - 2;
    globfree(&found);
    return n;
}

static void put(const char *name, const char *content, mode_t mode)
{
    int descriptor = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq(write(descriptor, content, strlen(content)), (ssize_t)strlen(content));
    ck_assert_int_eq(fchmod(descriptor, mode), 0);
    close(descriptor);
}

static void expect(const char *name, const char *content)
{
    char got[64];
    int descriptor = open(at(name), O_RDONLY);
    ck_assert_msg(descriptor >= 0, "%s: %s", name, strerror(errno));
    ssize_t n = read(descriptor, got, sizeof got - 1);
    ck_assert_int_ge(n, 0);
    close(descriptor);
    got[n] = '\0';
    ck_assert_str_eq(got, content);
}

static struct stat look(const char *name)
{
    struct stat found;
    ck_assert_msg(lstat(at(name), &found) == 0, "%s: %s", name, strerror(errno));
    return found;
}

static void link_to(const char *name, const char *target)
{
    ck_assert_int_eq(symlink(target, at(name)), 0);
}

/* 0, or the errno of the first step that failed. */
static int replace(const char *path, const char *content, bool is_whole)
{
    int error = pl_replace_open(&file, path);
    if (error != 0) {
        return error;
    }
    ck_assert_int_eq(write(file.descriptor, content, strlen(content)), (ssize_t)strlen(content));
    ck_assert_int_eq(close(file.descriptor), 0);
    return pl_replace_end(&file, is_whole);
}

static void make_folder(void)
{
    umask(022);
    snprintf(folder, sizeof folder, "/tmp/pleat-replace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    put("old", "old", 0640);
}

static void remove_folder(void)
{
    static const char *const names[] = { "*", "inner/*", "inner" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        glob_t found;
        if (glob(at(names[i]), 0, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc; k++) {
                (void)remove(found.gl_pathv[k]);
            }
            globfree(&found);
        }
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

START_TEST(a_new_file_has_what_the_umask_leaves)
{
    umask(027);
    ck_assert_int_eq(replace(at("new"), "new", true), 0);
    ck_assert_uint_eq(look("new").st_mode, S_IFREG | 0640);
    expect("new", "new");
    ck_assert_uint_eq(n_files(), 2);
}
END_TEST

START_TEST(the_mode_of_an_old_file_stays)
{
    static const mode_t modes[] = { 0600, 0644, 0666, 0400, 0755, 02640 };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        put("it", "old", 0600);
        ck_assert_int_eq(chmod(at("it"), modes[i]), 0);
        ck_assert_int_eq(replace(at("it"), "new", true), 0);
        ck_assert_uint_eq(look("it").st_mode, S_IFREG | modes[i]);
        expect("it", "new");
        ck_assert_int_eq(unlink(at("it")), 0);
    }
}
END_TEST

START_TEST(until_it_is_whole_there_is_the_old_one_and_nobody_else_may_read_the_new_one)
{
    struct stat beside;
    put("old", "old", 0600);
    ck_assert_int_eq(pl_replace_open(&file, at("old")), 0);
    ck_assert_int_eq(fstat(file.descriptor, &beside), 0);
    ck_assert_uint_eq(beside.st_mode, S_IFREG | 0600);
    expect("old", "old");
    ck_assert_int_eq(close(file.descriptor), 0);
    ck_assert_int_eq(pl_replace_end(&file, false), 0);
    expect("old", "old");
    ck_assert_uint_eq(n_files(), 1);
}
END_TEST

START_TEST(links_stay_and_what_they_lead_to_is_replaced)
{
    ck_assert_int_eq(mkdir(at("inner"), 0777), 0);
    link_to("inner/one", "../old");
    link_to("two", "inner/one");
    link_to("three", at("two"));
    ck_assert_int_eq(replace(at("three"), "new", true), 0);
    ck_assert(S_ISLNK(look("inner/one").st_mode));
    ck_assert(S_ISLNK(look("two").st_mode));
    ck_assert(S_ISLNK(look("three").st_mode));
    ck_assert_uint_eq(look("old").st_mode, S_IFREG | 0640);
    expect("old", "new");
    ck_assert_uint_eq(n_files(), 4);
}
END_TEST

START_TEST(a_link_that_is_found_from_the_present_folder_is_followed)
{
    link_to("link", "old");
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(replace("link", "new", true), 0);
    ck_assert(S_ISLNK(look("link").st_mode));
    expect("old", "new");
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(what_a_dangling_link_leads_to_is_made)
{
    link_to("link", "missing");
    ck_assert_int_eq(replace(at("link"), "new", true), 0);
    ck_assert(S_ISLNK(look("link").st_mode));
    ck_assert_uint_eq(look("missing").st_mode, S_IFREG | 0644);
    expect("missing", "new");
    link_to("lost", "no/such/folder");
    ck_assert_int_eq(replace(at("lost"), "new", true), ENOENT);
    ck_assert(S_ISLNK(look("lost").st_mode));
    ck_assert_uint_eq(n_files(), 4);
}
END_TEST

START_TEST(links_that_lead_in_a_circle_are_refused)
{
    link_to("a", "b");
    link_to("b", "a");
    ck_assert_int_eq(replace(at("a"), "new", true), ELOOP);
    ck_assert(S_ISLNK(look("a").st_mode));
    ck_assert_uint_eq(n_files(), 3);
}
END_TEST

START_TEST(another_hard_link_keeps_the_old_content)
{
    ck_assert_int_eq(link(at("old"), at("other")), 0);
    ck_assert_int_eq(replace(at("old"), "new", true), 0);
    expect("old", "new");
    expect("other", "old");
}
END_TEST

START_TEST(a_pipe_is_written_to_through_a_link_too)
{
    char got[8];
    ck_assert_int_eq(mkfifo(at("pipe"), 0600), 0);
    link_to("link", "pipe");
    int reader = open(at("pipe"), O_RDONLY | O_NONBLOCK);
    ck_assert_int_ge(reader, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(replace(at(i == 0 ? "pipe" : "link"), "new", true), 0);
        ck_assert_int_eq(read(reader, got, sizeof got), 3);
        ck_assert_mem_eq(got, "new", 3);
    }
    close(reader);
    ck_assert(S_ISFIFO(look("pipe").st_mode));
    ck_assert(S_ISLNK(look("link").st_mode));
    ck_assert_uint_eq(n_files(), 3);
}
END_TEST

START_TEST(what_is_no_file_and_cannot_be_written_is_refused)
{
    ck_assert_int_eq(replace(folder, "new", true), EISDIR);
    ck_assert_int_eq(replace(at("old/new"), "new", true), ENOTDIR);
    ck_assert_int_eq(replace(at("no/new"), "new", true), ENOENT);
    ck_assert_uint_eq(n_files(), 1);
}
END_TEST

/* A link in /proc may lead to a file without a name. */
START_TEST(a_file_without_a_name_is_written_to)
{
    char path[64];
    char got[8];
    int descriptor = open(at("old"), O_RDWR);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq(unlink(at("old")), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    ck_assert_int_eq(replace(path, "n", true), 0);
    ck_assert_int_eq(pread(descriptor, got, sizeof got, 0), 1);
    ck_assert_int_eq(got[0], 'n');
    close(descriptor);
    ck_assert_uint_eq(n_files(), 0);
}
END_TEST

/* ---- owners: as the superuser only ---- */

START_TEST(the_owner_stays_where_files_may_be_given_away)
{
    if (geteuid() != 0) {
        return;
    }
    ck_assert_int_eq(chown(at("old"), 1234, 5678), 0);
    ck_assert_int_eq(chmod(at("old"), 06640), 0);
    ck_assert_int_eq(replace(at("old"), "new", true), 0);
    struct stat now = look("old");
    ck_assert_uint_eq(now.st_uid, 1234);
    ck_assert_uint_eq(now.st_gid, 5678);
    ck_assert_uint_eq(now.st_mode, S_IFREG | 06640);
}
END_TEST

START_TEST(who_may_not_give_files_away_opens_them_to_no_other_group)
{
    if (geteuid() != 0) {
        return;
    }
    ck_assert_int_eq(chmod(folder, 0777), 0);
    put("its", "old", 0664);
    ck_assert_int_eq(setegid(NOBODY), 0);
    ck_assert_int_eq(seteuid(NOBODY), 0);
    int error = replace(at("its"), "new", true);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(setegid(0), 0);
    ck_assert_int_eq(error, 0);
    struct stat now = look("its");
    ck_assert_uint_eq(now.st_uid, NOBODY);
    ck_assert_uint_eq(now.st_mode, S_IFREG | 0644);
    expect("its", "new");
}
END_TEST

START_TEST(in_a_folder_that_refuses_new_files_nothing_is_replaced)
{
    if (geteuid() != 0) {
        return;
    }
    ck_assert_int_eq(mkdir(at("inner"), 0755), 0);
    put("inner/its", "old", 0666);
    link_to("link", "inner/its");
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(seteuid(NOBODY), 0);
    int error = replace(at("link"), "new", true);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(error, EACCES);
    ck_assert(S_ISLNK(look("link").st_mode));
    expect("inner/its", "old");
}
END_TEST

SUITE(api_replace)
{
    const TTest *const tests[] = {
        a_new_file_has_what_the_umask_leaves,
        the_mode_of_an_old_file_stays,
        until_it_is_whole_there_is_the_old_one_and_nobody_else_may_read_the_new_one,
        links_stay_and_what_they_lead_to_is_replaced,
        a_link_that_is_found_from_the_present_folder_is_followed,
        what_a_dangling_link_leads_to_is_made,
        links_that_lead_in_a_circle_are_refused,
        another_hard_link_keeps_the_old_content,
        a_pipe_is_written_to_through_a_link_too,
        what_is_no_file_and_cannot_be_written_is_refused,
        a_file_without_a_name_is_written_to,
        the_owner_stays_where_files_may_be_given_away,
        who_may_not_give_files_away_opens_them_to_no_other_group,
        in_a_folder_that_refuses_new_files_nothing_is_replaced,
    };
    TCase *all = suite_case(suite, "all", make_folder, remove_folder);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        tcase_add_test(all, tests[i]);
    }
}

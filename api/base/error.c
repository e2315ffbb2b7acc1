/* error.c - the calling thread's last failure. Thread-local: no lock, no heap memory. */
#include "api/base/error.h"

#include <string.h>

#include "api/base/text.h"
#include "vmm/base/status.h"
#include "vmm/driver.h"

/* A program that was compiled for a later version reads zeros behind the members. */
static _Thread_local union {
    pleat_error error;
    unsigned char room[PLEAT_ERROR_ROOM];
} last;
_Static_assert(sizeof(pleat_error) <= PLEAT_ERROR_ROOM, "promised to programs of all versions");

static _Thread_local char last_text[PL_ERROR_TEXT_BYTES];

/* True for failures of the driver: the error then includes the driver's message. */
static bool is_from_driver(pleat_status status)
{
    switch (status) {
    case PLEAT_ECONF:
    case PLEAT_EDRIVER:
    case PLEAT_ENODRIVER:
    case PLEAT_ENOVMM:
    case PLEAT_ENOMEM_DEVICE:
    case PLEAT_ENOSPACE_VA:
    case PLEAT_EPENDING:
    case PLEAT_EPOISONED:
    case PLEAT_ESTREAM:
    case PLEAT_ECAPTURE:
        return true;
    default:
        return false;
    }
}

/* Appends the driver's message and fills in its part of the error. */
static void merge_driver(pleat_error *error, pl_text *text, const pl_driver_error *driver)
{
    error->driver_call = "";
    if (!is_from_driver(error->status)) {
        return;
    }
    if (driver->result != 0) {
        error->driver_result = driver->result;
        error->driver_call = pl_entry_symbol(driver->entry);
        pl_text_add(text, " (%s: %s)", error->driver_call, driver->text);
    }
    if (pl_driver_is_sticky(driver->result)) {
        pl_text_add(text, "; a kernel or the GPU failed before this call, and the process can use "
                          "the GPU no more");
    }
    if (driver->detail[0] != '\0') {
        pl_text_add(text, "; %s", driver->detail);
    }
    pl_driver_clear_error();
}

static void publish(pleat_error error, pl_text *text, const pl_driver_error *driver)
{
    merge_driver(&error, text, driver);
    error.text = last_text;
    last.error = error;
}

pleat_status pl_error_set(pleat_status status, uint64_t bytes, const char *format, ...)
{
    pl_text text;
    va_list list;
    pl_text_init(&text, last_text, sizeof last_text);
    va_start(list, format);
    pl_text_add_list(&text, format, list);
    va_end(list);
    publish((pleat_error){ .status = status, .bytes = bytes }, &text, pl_driver_last_error());
    return status;
}

pleat_status pl_error_set_verdict(pleat_status status, uint64_t bytes, pleat_verdict verdict,
                                  const char *sentence, const pl_driver_error *driver)
{
    pl_text text;
    pl_text_init(&text, last_text, sizeof last_text);
    pl_text_add(&text, "%s", sentence);
    publish((pleat_error){ .status = status, .bytes = bytes, .verdict = verdict }, &text, driver);
    return status;
}

pleat_status pl_error_status(void)
{
    return last.error.status;
}

void pl_error_copy_text(char *text, size_t capacity)
{
    pl_text copy;
    pl_text_init(&copy, text, capacity);
    pl_text_add(&copy, "%s", last_text);
}

void pl_error_restore(const pleat_error *error, const char *text)
{
    pl_text copy;
    last.error = *error;
    pl_text_init(&copy, last_text, sizeof last_text);
    pl_text_add(&copy, "%s", text);
}

const pleat_error *pleat_last_error(void)
{
    if (!last.error.text) {
        last.error.text = last_text;
        last.error.driver_call = "";
    }
    return &last.error;
}

const char *pleat_status_text(pleat_status status)
{
    return pl_status_text(status);
}

#define VERSION_TEXT_OF(major, minor, patch) #major "." #minor "." #patch
#define VERSION_TEXT(major, minor, patch) VERSION_TEXT_OF(major, minor, patch)

const char *pleat_version(void)
{
    return VERSION_TEXT(PLEAT_VERSION_MAJOR, PLEAT_VERSION_MINOR, PLEAT_VERSION_PATCH);
}

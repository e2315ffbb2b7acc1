/* entry_error.c - exported calls: names and texts of result codes, as the real driver has them. */
#include "vmm/driver_results.h"
#include "vmm/tools/sim/entries/call.h"

static const struct {
    cu_result code;
    const char *name;
    const char *text;
} errors[] = {
#define ERROR_ROW(code, name, text) { code, name, text },
    PL_RESULT_LIST(ERROR_ROW)
#undef ERROR_ROW
};

enum { N_ERRORS = sizeof(errors) / sizeof(errors[0]) };

static int find_error(cu_result code)
{
    for (int i = 0; i < N_ERRORS; i++) {
        if (errors[i].code == code) {
            return i;
        }
    }
    return -1;
}

/* Answers the string in one of two columns; NULL and INVALID_VALUE for an unknown code. */
static cu_result answer(sim_entry entry, cu_result error, const char **out)
{
    sim_call call;
    sim_call_begin(&call, entry, (uint64_t)error, 0, 0, 0);
    int i = find_error(error);
    if (call.result == CU_SUCCESS && (i < 0 || out == NULL)) {
        call.result = CU_INVALID_VALUE;
    }
    if (out != NULL && call.result == CU_SUCCESS) {
        *out = entry == SIM_CU_error_name ? errors[i].name : errors[i].text;
    } else if (out != NULL) {
        *out = NULL;
    }
    return sim_call_end(&call);
}

cu_result cuGetErrorName(cu_result error, const char **name)
{
    return answer(SIM_CU_error_name, error, name);
}

cu_result cuGetErrorString(cu_result error, const char **text)
{
    return answer(SIM_CU_error_string, error, text);
}

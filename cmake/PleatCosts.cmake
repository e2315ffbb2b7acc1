# The simulator's cost files, vmm/tools/sim/costs/*.cost, as one C file: a table of names and texts.

file(GLOB cost_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/vmm/tools/sim/costs/*.cost")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${cost_files})
set(cost_table "")
foreach(path IN LISTS cost_files)
    get_filename_component(name "${path}" NAME_WLE)
    file(READ "${path}" text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n      \"" text "${text}")
    string(APPEND cost_table "    { \"${name}\",\n      \"${text}\" },\n")
endforeach()
set(cost_source "${PROJECT_BINARY_DIR}/sim_cost_files.c")
file(CONFIGURE OUTPUT "${cost_source}" @ONLY CONTENT
"/* Made by cmake/PleatCosts.cmake of vmm/tools/sim/costs/. */
#include \"vmm/tools/sim/cost.h\"

const sim_cost_file sim_cost_files[] = {
@cost_table@    { 0 },
};
")

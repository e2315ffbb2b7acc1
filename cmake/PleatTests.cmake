# The tests in C and C++. tests/FOLDER/FILE_test.c, or FILE_test.c in a folder of that folder, is the
# suite FOLDER_FILE and a ctest of that name; the suites of FOLDER are one program, FOLDER_tests. Comments near the top of a file are read:
#   /* labels: unit fault */     ctest labels; "unit" where there is none; "figures" are replays of
#                                whole runs for what they come to: not under the sanitizers; "long"
#                                are other replays of whole runs: under the sanitizers only in
#                                `./dev test --long`
#   /* alone: REASON */          the suite is a program of its own, FOLDER_FILE_test
# The label "quick" is measured: suites that take a second or less by tests/times.csv, which
# `./dev times` writes, and new ones.

pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)
add_library(pleat_check INTERFACE)
target_link_libraries(pleat_check INTERFACE PkgConfig::CHECK)
target_include_directories(pleat_check BEFORE INTERFACE "${PROJECT_SOURCE_DIR}/tests/support/check")

# Of any test, in seconds: it ends what hangs and judges nothing. The slowest one takes 100 on two
# idle cores (a model under the thread sanitizer), the slowest Python test 60.
set(PLEAT_TEST_LIMIT 1800 CACHE STRING "Seconds after which a test is ended")
set(test_limit ${PLEAT_TEST_LIMIT})

# tests/support/FOLDER goes to the tests of that folder and of the layers above; what lies in
# tests/support itself goes to all. There runner.c has main(): the linker takes it from the
# archive for programs of SUITEs.
foreach(folder IN ITEMS sim vmm segments api bench)
    pleat_add_layer(support_${folder} tests/support/${folder}/*.c)
    pleat_link_layer(support_${folder} pleat_check)
endforeach()
pleat_add_layer(support_common tests/support/*.c)
pleat_link_layer(support_common pleat_check)

set(links_sim support_sim support_common pl_sim m)
set(links_vmm support_vmm support_common pl_measure pl_vmm m)
set(links_segments support_segments support_vmm support_common pl_segments pl_vmm m)
set(links_models ${links_segments})
set(links_api support_api support_segments support_vmm support_common
    pl_api pl_segments pl_measure pl_vmm m)
set(links_bench support_bench support_api support_segments support_vmm support_common
    pl_bench pl_api pl_segments pl_measure pl_vmm m)

set(test_environment "CK_DEFAULT_TIMEOUT=0"
    "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:history_size=4:allocator_may_return_null=1")

# What more than one thread runs: suites that start threads, themselves or by what they include, and
# those of what starts them in the library. The thread sanitizer has nothing to say of the others.
set(starts_threads "pthread|support/(api/api_hands|segments/segments_cache_load)\\.h|pleat_share\\.h|api/share/|api/metrics/|metrics:|bench/pairs/")

file(STRINGS "${PROJECT_SOURCE_DIR}/tests/times.csv" times REGEX ",[0-9.]+$")
foreach(line IN LISTS times)
    string(REGEX REPLACE "^(.*),(.*)$" "seconds_\\1;\\2" pair "${line}")
    list(GET pair 0 key)
    list(GET pair 1 ${key})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/times.csv")

# Long tests start first, so that no core waits for the last one. A test without a recorded time
# counts as one of `unknown_seconds`: a long one that started last would run alone.
function(pleat_set_cost name unknown_seconds)
    set(seconds ${unknown_seconds})
    if(DEFINED seconds_${name})
        set(seconds ${seconds_${name}})
    endif()
    set_tests_properties(${name} PROPERTIES COST ${seconds})
endfunction()

# A program of tests, of the layer that PREFIX names.
function(pleat_add_test_program name prefix)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE ${links_${prefix}} pleat_flags pleat_check)
    target_link_options(${name} PRIVATE ${pleat_test_link})
    if(TARGET pleat_sim)
        add_dependencies(${name} pleat_sim)
    endif()
    if(prefix STREQUAL "bench" AND TARGET pleat_command) # its suites start the command
        add_dependencies(${name} pleat_command)
    endif()
endfunction()

function(pleat_add_suite name program source)
    add_test(NAME ${name} COMMAND ${program})
    pleat_test_note(labels "${source}" labels unit)
    separate_arguments(labels)
    set(kind slow)
    if(NOT DEFINED seconds_${name} OR seconds_${name} LESS_EQUAL 1)
        set(kind quick)
        list(APPEND labels quick)
    endif()
    set(environment ${test_environment})
    if(NOT program STREQUAL "${name}_test") # else it is alone, perhaps under another name
        list(APPEND environment "CK_RUN_SUITE=${name}")
    endif()
    set_tests_properties(${name} PROPERTIES
        LABELS "${labels}" TIMEOUT ${test_limit} SKIP_RETURN_CODE 77
        ENVIRONMENT "${environment}")
    pleat_set_cost(${name} 0)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    set_property(GLOBAL APPEND PROPERTY pleat_suites "${name} ${program} ${kind}")
endfunction()

# The folders are known to a source only where it asks: others compile to the same everywhere, which
# a compiler cache can tell.
function(pleat_tell_folders source)
    file(STRINGS "${source}" lines REGEX "PLEAT_(BUILD|SOURCE)_DIR")
    if(lines)
        set_source_files_properties("${source}" PROPERTIES COMPILE_DEFINITIONS
            "PLEAT_BUILD_DIR=\"${PROJECT_BINARY_DIR}\";PLEAT_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
    endif()
endfunction()

function(pleat_add_test_folder folder)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*_test.c"
        "${PROJECT_SOURCE_DIR}/tests/${folder}/*/*_test.c")
    set(together "")
    foreach(source IN LISTS sources)
        if(PLEAT_SANITIZE STREQUAL "thread")
            file(STRINGS "${source}" lines REGEX "${starts_threads}")
            if(NOT lines)
                continue()
            endif()
        endif()
        get_filename_component(file "${source}" NAME_WE)
        string(REGEX REPLACE "_test$" "" name "${folder}_${file}")
        pleat_tell_folders("${source}")
        pleat_test_note(alone "${source}" alone "")
        if(alone)
            set(program ${name}_test)
            pleat_add_test_program(${program} ${folder} "${source}")
        else()
            file(STRINGS "${source}" suites REGEX "^SUITE\\(")
            if(NOT suites STREQUAL "SUITE(${name})")
                message(FATAL_ERROR "${source}: has to define SUITE(${name}) and no other: ${suites}")
            endif()
            set(program ${folder}_tests)
            list(APPEND together "${source}")
        endif()
        pleat_add_suite(${name} ${program} "${source}")
    endforeach()
    if(together)
        pleat_add_test_program(${folder}_tests ${folder} ${together})
    endif()
endfunction()

foreach(folder IN ITEMS sim vmm segments models api bench)
    pleat_add_test_folder(${folder})
endforeach()

# Plays a tool that NVTX injects; opened by name.
if(pleat_nvtx_include)
    add_library(pleat_test_tool SHARED tests/support/tool/tool.c)
    target_link_libraries(pleat_test_tool PRIVATE pleat_flags)
    target_include_directories(pleat_test_tool SYSTEM PRIVATE "${pleat_nvtx_include}")
    add_dependencies(api_nvtx_test pleat_test_tool)
endif()

# Each suite, its program, and whether it is quick: `./dev check` and `./dev mutate` read it.
get_property(suites GLOBAL PROPERTY pleat_suites)
list(JOIN suites "\n" suites)
file(WRITE "${PROJECT_BINARY_DIR}/suites.txt" "${suites}\n")

# A C++ program, like PyTorch. A fake libc10.so stands for PyTorch itself, once with std::string as
# it is and once as wheels up to 2.6 have it; each has a folder of its own, so that only who names
# it finds it.
function(pleat_add_shim_test name std_string)
    add_library(${name}_c10 SHARED tests/torch/fake_c10.cpp)
    target_link_libraries(${name}_c10 PRIVATE pleat_cxx_flags)
    target_compile_definitions(${name}_c10 PRIVATE _GLIBCXX_USE_CXX11_ABI=${std_string})
    set_target_properties(${name}_c10 PROPERTIES OUTPUT_NAME c10
        LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fake/${name}")
    add_dependencies(torch_shim_test ${name}_c10)
    add_test(NAME ${name} COMMAND torch_shim_test "$<TARGET_FILE:${name}_c10>")
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${test_limit}
        ENVIRONMENT "${test_environment}")
endfunction()

if(TARGET pleat_torch)
    add_executable(torch_shim_test tests/torch/shim_test.cpp)
    target_link_libraries(torch_shim_test PRIVATE pleat_torch pleat_cxx_flags)
    add_dependencies(torch_shim_test pleat_sim)
    pleat_add_shim_test(torch_shim_test 1)
    pleat_add_shim_test(torch_shim_old_string_test 0)
endif()

# C++ programs of users', on the header alone.
if(TARGET pleat_shared AND TARGET pleat_cxx_flags)
    add_executable(cxx_test tests/api/cxx_test.cpp)
    target_compile_features(cxx_test PRIVATE cxx_std_17)
    target_include_directories(cxx_test PRIVATE "${PROJECT_BINARY_DIR}/include")
    target_link_libraries(cxx_test PRIVATE pleat_shared pleat_sim pleat_cxx_flags)
    add_test(NAME cxx_test COMMAND cxx_test)
    set_tests_properties(cxx_test PROPERTIES LABELS unit TIMEOUT ${test_limit}
        ENVIRONMENT "${test_environment}")
endif()

# The examples in C and C++, with the headers as they are installed; what they say is looked at, on
# a device of the size that examples/README.md names. More arguments are further libraries.
function(pleat_add_example file capacity said)
    string(REPLACE "." "_" name "example_${file}")
    set(flags pleat_flags)
    if(file MATCHES "[.]cpp$")
        set(flags pleat_cxx_flags)
    endif()
    add_executable(${name} "examples/${file}")
    target_include_directories(${name} BEFORE PRIVATE "${PROJECT_BINARY_DIR}/include")
    target_link_libraries(${name} PRIVATE pleat_shared ${flags} ${ARGN})
    add_dependencies(${name} pleat_sim)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${test_limit}
        ENVIRONMENT "${test_environment};PLEAT_CONF=driver:sim,sim:[capacity:${capacity}]"
        PASS_REGULAR_EXPRESSION "${said}")
endfunction()

if(TARGET pleat_shared AND TARGET pleat_sim)
    pleat_add_example(blocks.c 300M
        "live 260 MiB, resident [23][0-9][0-9] MiB, [1-9][0-9]* granules moved")
    pleat_add_example(kv_cache.c 1G "addresses for 8192 MiB of cache, memory for at most 1?[0-9][0-9][0-9] MiB\
.*all are served: 0 MiB.*nothing was copied")
    pleat_add_example(weight_cache.c 130M
        "10 models of 40 MiB on 130 MiB.*[1-9][0-9] woke it, 40 MiB each.*200 of 200 tensors")
    pleat_add_example(two_streams.c 64M "hazards with record_stream: 0.*hazards without it: 1.*\
write on stream 0x[0-9a-f]+, read in call [0-9]+ on stream 0x[0-9a-f]+, unordered: a forgotten record_stream"
        pleat_sim)
    set(graphs_said "three graphs captured: +3 users, +[67][0-9] MiB held.*no room beside them: +128 \
MiB.*graphs and users gone: +0 users, +0 MiB held.*room again: +128 MiB")
    pleat_add_example(cuda_graph.c 192M "${graphs_said}" pleat_sim)
    if(TARGET pleat_cxx_flags)
        pleat_add_example(cuda_graph.cpp 192M
            "two graphs: 1 user, [67][0-9] MiB held.*graphs and pool are gone: room for 160 MiB"
            pleat_sim)
    endif()
endif()

# The ABI is compared with the vendor's header where there is one.
find_path(pleat_cuda_include cuda.h
    HINTS "${PLEAT_CUDA_INCLUDE}" ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda /opt/cuda /usr/lib/cuda /usr/local/cuda/targets/x86_64-linux
    PATH_SUFFIXES include NO_CACHE)
if(TARGET vmm_abi_test AND pleat_cuda_include)
    message(STATUS "cuda.h: ${pleat_cuda_include}")
    target_include_directories(vmm_abi_test SYSTEM PRIVATE "${pleat_cuda_include}")
    target_compile_definitions(vmm_abi_test PRIVATE PLEAT_HAVE_CUDA_H=1)
endif()
if(TARGET vmm_runtime_abi_test AND EXISTS "${pleat_cuda_include}/cuda_runtime_api.h")
    target_include_directories(vmm_runtime_abi_test SYSTEM PRIVATE "${pleat_cuda_include}")
    target_compile_definitions(vmm_runtime_abi_test PRIVATE PLEAT_HAVE_CUDA_H=1)
endif()

include(PleatChecks)

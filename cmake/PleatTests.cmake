# Every tests/NAME_test.c is an executable NAME_test and a ctest of that name. Its prefix says what
# it is linked with: sim_, vmm_, segments_, api_, bench_. A comment near its top is read:
#   /* labels: unit fault */     ctest labels; "unit" where there is none; "figures" are replays of
#                                whole runs for what they come to: not under the sanitizers

pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)

# Of any test, in seconds: it ends what hangs and judges nothing. The slowest one takes 100 on two
# idle cores (a model under the thread sanitizer), the slowest Python test 60.
set(PLEAT_TEST_LIMIT 1800 CACHE STRING "Seconds after which a test is ended")
set(test_limit ${PLEAT_TEST_LIMIT})

# tests/support/PREFIX_*.c go to the tests of that prefix and of the layers above; the rest to all.
foreach(prefix IN ITEMS sim vmm segments api bench)
    pleat_add_layer(support_${prefix} tests/support/${prefix}_*.c)
endforeach()
file(GLOB support_rest CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.c")
list(FILTER support_rest EXCLUDE REGEX "/(sim|vmm|segments|api|bench)_[^/]*$")
if(support_rest)
    add_library(support_common STATIC ${support_rest})
    target_link_libraries(support_common PUBLIC pleat_flags)
    set_target_properties(support_common PROPERTIES
        ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/layers")
else()
    add_library(support_common INTERFACE)
endif()

set(links_sim support_sim support_common pl_sim m)
set(links_vmm support_vmm support_common pl_measure pl_vmm m)
set(links_segments support_segments support_vmm support_common pl_segments pl_vmm m)
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
set(starts_threads "pthread|support/(api_hands|segments_cache_load)\\.h|pleat_share\\.h|api/share/|api/metrics/|metrics:|bench/pairs/")

function(pleat_add_test source)
    get_filename_component(name "${source}" NAME_WE)
    if(PLEAT_SANITIZE STREQUAL "thread")
        file(STRINGS "${source}" lines REGEX "${starts_threads}")
        if(NOT lines)
            return()
        endif()
    endif()
    string(REGEX REPLACE "_.*" "" prefix "${name}")
    if(NOT DEFINED links_${prefix})
        message(FATAL_ERROR "${name}: no layer is called ${prefix}")
    endif()
    add_executable(${name} "${source}")
    target_link_libraries(${name} PRIVATE ${links_${prefix}} pleat_flags PkgConfig::CHECK)
    target_link_options(${name} PRIVATE ${pleat_test_link})
    target_compile_definitions(${name} PRIVATE
        PLEAT_BUILD_DIR="${PROJECT_BINARY_DIR}" PLEAT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    if(TARGET pleat_sim)
        add_dependencies(${name} pleat_sim)
    endif()
    add_test(NAME ${name} COMMAND ${name})
    pleat_test_note(labels "${source}" labels unit)
    separate_arguments(labels)
    set_tests_properties(${name} PROPERTIES
        LABELS "${labels}" TIMEOUT ${test_limit} SKIP_RETURN_CODE 77
        ENVIRONMENT "${test_environment}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
endfunction()

file(GLOB test_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*_test.c")
foreach(source IN LISTS test_sources)
    pleat_add_test("${source}")
endforeach()

# A C++ program, like PyTorch. A fake libc10.so stands for PyTorch itself, once with std::string as
# it is and once as wheels up to 2.6 have it; each has a folder of its own, so that only who names
# it finds it.
function(pleat_add_shim_test name std_string)
    add_library(${name}_c10 SHARED tests/torch_fake_c10.cpp)
    target_link_libraries(${name}_c10 PRIVATE pleat_cxx_flags)
    target_compile_definitions(${name}_c10 PRIVATE _GLIBCXX_USE_CXX11_ABI=${std_string})
    set_target_properties(${name}_c10 PROPERTIES OUTPUT_NAME c10
        LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fake/${name}")
    add_test(NAME ${name} COMMAND torch_shim_test "$<TARGET_FILE:${name}_c10>")
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${test_limit}
        ENVIRONMENT "${test_environment}")
endfunction()

if(TARGET pleat_torch)
    add_executable(torch_shim_test tests/torch_shim_test.cpp)
    target_link_libraries(torch_shim_test PRIVATE pleat_torch pleat_cxx_flags)
    add_dependencies(torch_shim_test pleat_sim)
    pleat_add_shim_test(torch_shim_test 1)
    pleat_add_shim_test(torch_shim_old_string_test 0)
endif()

# C++ programs of users', on the header alone.
if(TARGET pleat_shared AND TARGET pleat_cxx_flags)
    add_executable(cxx_test tests/cxx_test.cpp)
    target_compile_features(cxx_test PRIVATE cxx_std_17)
    target_include_directories(cxx_test PRIVATE "${PROJECT_BINARY_DIR}/include")
    target_link_libraries(cxx_test PRIVATE pleat_shared pleat_cxx_flags)
    add_dependencies(cxx_test pleat_sim)
    add_test(NAME cxx_test COMMAND cxx_test)
    set_tests_properties(cxx_test PROPERTIES LABELS unit TIMEOUT ${test_limit}
        ENVIRONMENT "${test_environment}")
endif()

# The examples in C, with the header as it is installed; what they say is looked at.
function(pleat_add_example name capacity said)
    add_executable(example_${name} "examples/${name}.c")
    target_include_directories(example_${name} BEFORE PRIVATE "${PROJECT_BINARY_DIR}/include")
    target_link_libraries(example_${name} PRIVATE pleat_shared pleat_flags)
    add_dependencies(example_${name} pleat_sim)
    add_test(NAME example_${name} COMMAND example_${name})
    set_tests_properties(example_${name} PROPERTIES LABELS unit TIMEOUT ${test_limit}
        ENVIRONMENT "${test_environment};PLEAT_CONF=driver:sim,sim:[capacity:${capacity}]"
        PASS_REGULAR_EXPRESSION "${said}")
endfunction()

if(TARGET pleat_shared AND TARGET pleat_sim)
    pleat_add_example(blocks 1G "live 260 MiB, resident [23][0-9][0-9] MiB, [1-9][0-9]* granules moved")
    pleat_add_example(kv_cache 1G "addresses for 8192 MiB of cache, memory for at most 1?[0-9][0-9][0-9] MiB\
.*all are served: 0 MiB.*nothing was copied")
    pleat_add_example(weight_cache 130M
        "10 models of 40 MiB on 130 MiB.*[1-9][0-9] woke it, 40 MiB each.*200 of 200 tensors")
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

# Checks of the source, and of what is built and installed. Not in sanitizers' builds: they check
# the same source, and their libraries are not for use.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(pleat_add_check name label)
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES
        LABELS ${label} TIMEOUT ${test_limit} SKIP_RETURN_CODE 77)
endfunction()

if(NOT PLEAT_SANITIZE)
    set(tests "${PROJECT_SOURCE_DIR}/tests")
    foreach(check IN ITEMS lint_layers lint_size lint_docs lint_self_test)
        pleat_add_check(${check} lint Python3::Interpreter -B "${tests}/lint/${check}.py")
    endforeach()
    pleat_add_check(mutations lint Python3::Interpreter -B "${tests}/mutate/mutate.py" --check)
    pleat_add_check(format_check lint "${tests}/lint/format_check.sh")
endif()

# What a pair costs in instructions, against a recorded number. Only of the build that is shipped:
# other compilers and options give other numbers.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND PLEAT_LTO AND
        PLEAT_DEBUG_LEVEL EQUAL 0 AND NOT PLEAT_SANITIZE AND
        CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND TARGET pleat_command)
    pleat_add_check(instructions instructions Python3::Interpreter -B
        "${PROJECT_SOURCE_DIR}/tests/instructions.py" "$<TARGET_FILE:pleat_command>")
endif()

if(NOT PLEAT_SANITIZE AND TARGET pleat_shared AND TARGET pleat_sim)
    set(prefix "${PROJECT_BINARY_DIR}/installed")
    set(load_library Python3::Interpreter -B "${tests}/python/load_library.py")
    pleat_add_check(lint_exports lint
        Python3::Interpreter -B "${tests}/lint/lint_exports.py" "${PROJECT_BINARY_DIR}")
    pleat_add_check(python_built_library install ${load_library} "$<TARGET_FILE:pleat_shared>")
    pleat_add_check(report_page install
        Python3::Interpreter -B "${tests}/python/report_page.py" "$<TARGET_FILE:pleat_command>")
    pleat_add_check(report_verdict install
        Python3::Interpreter -B "${tests}/python/report_verdict.py" "$<TARGET_FILE:pleat_command>")
    if(TARGET pleat_runtime)
        pleat_add_check(doc_commands install
            Python3::Interpreter -B "${tests}/python/doc_commands.py" "$<TARGET_FILE:pleat_command>"
            "${PROJECT_BINARY_DIR}/pleat-runtime")
    endif()
    pleat_add_check(fleet_ranks install
        Python3::Interpreter -B "${tests}/python/fleet_ranks.py" "$<TARGET_FILE:pleat_command>")
    pleat_add_check(command_output install
        "${tests}/consumer/output.sh" "$<TARGET_FILE:pleat_command>")
    pleat_add_check(snapshot_files python
        Python3::Interpreter -B "${tests}/python/snapshot_run.py" "$<TARGET_FILE:pleat_command>"
        "$<TARGET_FILE:pleat_shared>" "$<TARGET_FILE:pleat_sim>")
    set(bench "${PROJECT_SOURCE_DIR}/bench")
    set_tests_properties(report_page report_verdict fleet_ranks snapshot_files doc_commands PROPERTIES
        ENVIRONMENT "PLEAT_TRACES=${bench}/traces;PLEAT_REPORT=${bench}/report")
    pleat_add_check(install_tree install "${tests}/consumer/install.sh"
        "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${prefix}")
    pleat_add_check(python_installed_library install
        ${load_library} "${prefix}/${CMAKE_INSTALL_LIBDIR}/libpleat.so")
    pleat_add_check(consumer_with_cmake install
        "${tests}/consumer/with_cmake.sh" "${prefix}" "${PROJECT_BINARY_DIR}/consumer/cmake")
    pleat_add_check(consumer_with_pkg_config install
        "${tests}/consumer/with_pkg_config.sh" "${prefix}" "${PROJECT_BINARY_DIR}/consumer/pkg")
    pleat_add_check(consumer_with_cccl install "${tests}/consumer/with_cccl.sh"
        "${prefix}" "${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}/consumer/cccl")
    pleat_add_check(consumer_with_umf install "${tests}/consumer/with_umf.sh"
        "${prefix}" "${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}/consumer/umf")
    pleat_add_check(installed_command_runs install
        "${prefix}/${CMAKE_INSTALL_BINDIR}/pleat" probe --driver sim)
    pleat_add_check(tutorial install "${tests}/consumer/tutorial.sh" "${prefix}"
        "${PROJECT_BINARY_DIR}/consumer/tutorial")
    pleat_add_check(reference install "${tests}/consumer/reference.sh"
        "${PROJECT_BINARY_DIR}/docs")
    pleat_add_check(manuals_and_completion install "${tests}/consumer/manuals.sh" "${prefix}")
    pleat_add_check(uninstall install "${tests}/consumer/uninstall.sh"
        "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}/consumer/uninstall")
    pleat_add_check(as_subproject install "${tests}/consumer/as_subproject.sh" "${CMAKE_COMMAND}"
        "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/consumer/parent")
    set_tests_properties(install_tree PROPERTIES FIXTURES_SETUP installed)
    set_tests_properties(python_installed_library consumer_with_cmake consumer_with_pkg_config
        consumer_with_cccl consumer_with_umf installed_command_runs manuals_and_completion tutorial
        PROPERTIES FIXTURES_REQUIRED installed)
    pleat_add_check(debian_packages install "${tests}/consumer/debian.sh" "${CMAKE_CPACK_COMMAND}"
        "${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}/consumer/debian")
    # One writes the record of what was installed that another goes by.
    set_tests_properties(install_tree uninstall debian_packages PROPERTIES RESOURCE_LOCK install_manifest)
    set_tests_properties(python_built_library python_installed_library PROPERTIES
        ENVIRONMENT "PLEAT_CONF=driver:sim")
endif()

# Python tests: python/tests/ of the installed package, tests/python/ of anything else.
# Each FILE_test.py there is a ctest python_FILE, run by pytest in the environment that `./dev venv`
# makes (cmake/venv.sh), skipped without it. Lines read near its top:
#   # labels: python stress      "python" where there is none
#   # needs: package             PYTHONPATH leads to the package `pleat`, built by pip from a wheel;
#                                what lies in python/tests always does
function(pleat_add_python_test source)
    get_filename_component(name "${source}" NAME_WE)
    string(REGEX REPLACE "_test$" "" name "python_${name}")
    set(environment "PLEAT_BUILD_DIR=${PROJECT_BINARY_DIR}" "PLEAT_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
        "PYTHONDONTWRITEBYTECODE=1")
    add_test(NAME ${name} COMMAND "${PROJECT_SOURCE_DIR}/cmake/venv.sh" run
        -m pytest -q -rs -p no:cacheprovider --basetemp "${PROJECT_BINARY_DIR}/pytest-${name}"
        "${source}")
    pleat_test_note(labels "${source}" labels python)
    pleat_test_note(needs "${source}" needs "")
    separate_arguments(labels)
    if(needs STREQUAL "package" OR source MATCHES "/python/tests/")
        list(APPEND environment "PYTHONPATH=${pleat_python_package}")
        set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED python_package)
    else()
        list(APPEND environment "PLEAT_LIBRARY=$<TARGET_FILE:pleat_shared>")
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${test_limit}
        SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
endfunction()

if(NOT PLEAT_SANITIZE AND TARGET pleat_shared AND TARGET pleat_sim)
    set(pleat_python_package "${PROJECT_BINARY_DIR}/python-package")
    if(EXISTS "${PROJECT_SOURCE_DIR}/pyproject.toml")
        add_test(NAME python_wheel COMMAND "${PROJECT_SOURCE_DIR}/python/tests/build_package.sh"
            "${PROJECT_BINARY_DIR}" "${pleat_python_package}")
        set_tests_properties(python_wheel PROPERTIES LABELS python TIMEOUT ${test_limit}
            SKIP_RETURN_CODE 77 FIXTURES_SETUP python_package)
    endif()
    file(GLOB python_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/tests/*_test.py"
        "${PROJECT_SOURCE_DIR}/tests/python/*_test.py"
        "${PROJECT_SOURCE_DIR}/tests/python/*/*_test.py")
    foreach(source IN LISTS python_tests)
        pleat_add_python_test("${source}")
    endforeach()
    # The class under another version of PyTorch, by the commit; skipped where `./dev torch-turn` has
    # not made its environment.
    pleat_add_check(torch_turn python Python3::Interpreter -B
        "${PROJECT_SOURCE_DIR}/tests/torch/versions.py" "${PROJECT_BINARY_DIR}" --turn)
endif()

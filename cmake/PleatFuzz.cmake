# Every tests/fuzz/NAME_fuzz.c is an executable fuzz_NAME. In the preset `fuzz` (clang, PLEAT_FUZZ)
# libFuzzer drives it: tests/fuzz/run.sh. In all other builds it runs over its corpus and no more:
# the ctest fuzz_NAME. Near its top a comment may name functions that it wraps (ld --wrap):
#   /* wraps: malloc realloc */

pleat_add_layer(support_fuzz tests/fuzz/fuzz*.c)
pleat_link_layer(support_fuzz pl_bench)

set(fuzz_links_sim pl_sim)

# Tracing comparisons helps to find the words of a grammar; below the parsers it costs half of the
# time and finds nothing.
if(PLEAT_FUZZ)
    foreach(layer IN ITEMS pl_sim pl_vmm pl_segments)
        target_compile_options(${layer} PRIVATE -fno-sanitize-coverage=trace-cmp)
    endforeach()
endif()

function(pleat_add_fuzz_target source)
    get_filename_component(file "${source}" NAME_WE)
    string(REGEX REPLACE "_fuzz$" "" name "${file}")
    set(driver "${PROJECT_SOURCE_DIR}/tests/fuzz/standalone.c")
    if(PLEAT_FUZZ)
        set(driver "")
    endif()
    add_executable(fuzz_${name} "${source}" ${driver})
    target_link_libraries(fuzz_${name} PRIVATE support_fuzz pl_bench ${fuzz_links_${name}}
        pl_api pl_segments pl_vmm pleat_flags m)
    if(TARGET pleat_sim)
        add_dependencies(fuzz_${name} pleat_sim)
    endif()
    pleat_test_note(wraps "${source}" wraps "")
    separate_arguments(wraps)
    list(TRANSFORM wraps PREPEND "LINKER:--wrap=")
    target_link_options(fuzz_${name} PRIVATE ${wraps})
    if(PLEAT_FUZZ)
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        return()
    endif()
    target_link_options(fuzz_${name} PRIVATE ${pleat_test_link})
    add_test(NAME fuzz_${name}
        COMMAND fuzz_${name} "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
    set_tests_properties(fuzz_${name} PROPERTIES LABELS unit TIMEOUT ${test_limit}
        ENVIRONMENT "${test_environment}")
endfunction()

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.c")
foreach(source IN LISTS fuzz_sources)
    pleat_add_fuzz_target("${source}")
endforeach()

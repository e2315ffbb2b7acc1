# Options, and the compiler flags that all targets share.

option(PLEAT_TESTS "Build the tests (needs Check)" ${PROJECT_IS_TOP_LEVEL})
option(PLEAT_COMMAND "Build the command (needs zlib and jansson; the tests need it)"
    ${PROJECT_IS_TOP_LEVEL})
option(PLEAT_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
option(PLEAT_INSTALL "Say what `cmake --install` installs" ${PROJECT_IS_TOP_LEVEL})
option(PLEAT_META_SYSTEM "Metadata from the system's malloc instead of the private jemalloc" OFF)
option(PLEAT_LTO "Optimise what is shipped across files (gcc, Release)" ON)
option(PLEAT_LTO_LINK "Link what is shipped so; else the same objects, sooner and as they are" ON)
mark_as_advanced(PLEAT_LTO_LINK)
set(PLEAT_DEBUG_LEVEL 0 CACHE STRING "0 none, 1 asserts, 2 walkers after calls, 3 poison too")
set(PLEAT_SANITIZE "" CACHE STRING "Value for -fsanitize=, such as address,undefined")
option(PLEAT_FUZZ "Build the fuzz targets for libFuzzer, no tests (clang; see the preset fuzz)" OFF)
set(PLEAT_CUDA_INCLUDE "" CACHE PATH "Folder of cuda.h, for the ABI test only")

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
    if(CMAKE_C_FLAGS_DEBUG STREQUAL "-g") # CMake's own: a preset may say another
        set(CMAKE_C_FLAGS_DEBUG "-Og -g")
    endif()
endif()

# Objects do not tell where they were built: what is shipped should not, and a compiler cache serves
# all checkouts. A debugger that is started in the source folder finds the sources.
set(prefix_map "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")

# Everything lands in the top build folder: the loader finds the simulator beside the object that
# holds its code, be that libpleat.so, the command or a test.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")

find_package(Threads REQUIRED)

add_library(pleat_flags INTERFACE)
target_compile_options(pleat_flags INTERFACE
    -Wall -Wextra -Wundef -Wshadow -Wconversion -Wmissing-prototypes -Wvla
    ${prefix_map} $<$<BOOL:${PLEAT_WERROR}>:-Werror>)
target_compile_definitions(pleat_flags INTERFACE
    _GNU_SOURCE
    PLEAT_DEBUG_LEVEL=${PLEAT_DEBUG_LEVEL}
    $<$<BOOL:${PLEAT_META_SYSTEM}>:PLEAT_META_SYSTEM>)
target_include_directories(pleat_flags INTERFACE
    "${PROJECT_SOURCE_DIR}"
    "${PROJECT_SOURCE_DIR}/api"
    "${PROJECT_SOURCE_DIR}/vmm/base")
target_link_libraries(pleat_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(PLEAT_SANITIZE)
    set(sanitize_flags -fsanitize=${PLEAT_SANITIZE} -fno-omit-frame-pointer)
    if(PLEAT_SANITIZE MATCHES "undefined")
        list(APPEND sanitize_flags -fno-sanitize-recover=undefined)
    endif()
    target_compile_options(pleat_flags INTERFACE ${sanitize_flags})
    target_link_options(pleat_flags INTERFACE ${sanitize_flags})
endif()

# The objects of what ships carry both machine code and what the link-time optimiser needs: the
# libraries and the command are optimised across files, and the many tests are linked fast. The
# objects of the tests carry machine code only, and compile in less time. Options of each kind:
set(pleat_ship_compile "")
set(pleat_ship_link "")
set(pleat_test_link "")
if(PLEAT_LTO AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release" AND
        NOT PLEAT_SANITIZE)
    # Two counts that lie side by side in one vector take more instructions than two additions.
    set(pleat_ship_compile -flto -ffat-lto-objects -fno-tree-slp-vectorize)
    set(pleat_ship_link -fno-lto)
    if(PLEAT_LTO_LINK)
        set(pleat_ship_link -flto=auto -O2)
    endif()
    set(pleat_test_link -fno-lto)
endif()

# A static library of the sources that match the patterns; an INTERFACE library that holds nothing
# while there are none. ARGN: globbing expressions relative to the source folder.
function(pleat_add_layer name)
    set(patterns ${ARGN})
    list(TRANSFORM patterns PREPEND "${PROJECT_SOURCE_DIR}/")
    file(GLOB sources CONFIGURE_DEPENDS ${patterns})
    list(FILTER sources EXCLUDE REGEX "/bench/(command/main|run/policy_python)\\.c$") # of their own
    if(sources)
        add_library(${name} STATIC ${sources})
        target_link_libraries(${name} PUBLIC pleat_flags)
        set_target_properties(${name} PROPERTIES
            ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/layers")
    else()
        add_library(${name} INTERFACE)
        target_link_libraries(${name} INTERFACE pleat_flags)
    endif()
endfunction()

# Says what a layer needs, whichever kind of library it is.
function(pleat_link_layer name)
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
        target_link_libraries(${name} PUBLIC ${ARGN})
    else()
        target_link_libraries(${name} INTERFACE ${ARGN})
    endif()
endfunction()

# What a layer is compiled with because it ships.
function(pleat_ship_layer name)
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
        target_compile_options(${name} PRIVATE ${pleat_ship_compile})
    endif()
endfunction()

# The object files of a layer, or nothing.
function(pleat_layer_objects out name)
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
        set(${out} "$<TARGET_OBJECTS:${name}>" PARENT_SCOPE)
    else()
        set(${out} "" PARENT_SCOPE)
    endif()
endfunction()

# Reads `KEY: VALUE` out of a comment (a line of its own in Python) in the first lines of a test.
function(pleat_test_note out source key default)
    file(STRINGS "${source}" lines LIMIT_COUNT 30 REGEX "(/\\*|^#) ${key}: [^*]*")
    set(value "${default}")
    if(lines)
        list(GET lines 0 line)
        string(REGEX REPLACE ".*(/\\*|^#) ${key}: ([^*]*).*" "\\2" value "${line}")
        string(STRIP "${value}" value)
    endif()
    set(${out} "${value}" PARENT_SCOPE)
endfunction()

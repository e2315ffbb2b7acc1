# The private jemalloc: target pleat_jemalloc (empty where metadata comes from the system's malloc).
#
# Built once by cmake/jemalloc.sh into a cache folder that all build folders share, so that a
# second configure does nothing.

set(PLEAT_JEMALLOC_TARBALL "" CACHE FILEPATH "jemalloc-5.3.0.tar.bz2, if it is on this machine")
if(DEFINED ENV{XDG_CACHE_HOME})
    set(cache_default "$ENV{XDG_CACHE_HOME}/pleat")
elseif(DEFINED ENV{HOME})
    set(cache_default "$ENV{HOME}/.cache/pleat")
else()
    set(cache_default "${PROJECT_SOURCE_DIR}/build/cache")
endif()
set(PLEAT_CACHE_DIR "${cache_default}" CACHE PATH "Where the private jemalloc is kept")

add_library(pleat_jemalloc INTERFACE)
if(NOT PLEAT_META_SYSTEM)
    execute_process(
        COMMAND "${PROJECT_SOURCE_DIR}/cmake/jemalloc.sh" "${PLEAT_CACHE_DIR}"
                "${PLEAT_JEMALLOC_TARBALL}"
        OUTPUT_VARIABLE PLEAT_JEMALLOC_DIR
        OUTPUT_STRIP_TRAILING_WHITESPACE
        RESULT_VARIABLE jemalloc_result)
    if(NOT jemalloc_result EQUAL 0)
        message(FATAL_ERROR "the private jemalloc could not be built; see above")
    endif()
    set(PLEAT_JEMALLOC_ARCHIVE "${PLEAT_JEMALLOC_DIR}/lib/libjemalloc_pic.a")
    target_include_directories(pleat_jemalloc SYSTEM INTERFACE "${PLEAT_JEMALLOC_DIR}/include")
    target_link_libraries(pleat_jemalloc INTERFACE "${PLEAT_JEMALLOC_ARCHIVE}" Threads::Threads
        ${CMAKE_DL_LIBS})
endif()

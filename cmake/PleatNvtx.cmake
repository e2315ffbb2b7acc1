# NVTX's headers with its memory extension, by which an injected tool hears of blocks. They come from
# a CUDA toolkit, or alone out of a Python package of NVIDIA's. Without them nothing is told, and all
# else is the same.

set(PLEAT_NVTX_INCLUDE "" CACHE PATH "Folder of nvtx3/nvToolsExtMem.h, if it is on this machine")

function(pleat_find_nvtx)
    find_path(pleat_nvtx_include nvtx3/nvToolsExtMem.h
        HINTS "${PLEAT_NVTX_INCLUDE}" ENV CUDA_HOME ENV CUDA_PATH ${ARGN}
        PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES include NO_CACHE)
    set(pleat_nvtx_include "${pleat_nvtx_include}" PARENT_SCOPE)
endfunction()

pleat_find_nvtx()
if(NOT pleat_nvtx_include)
    execute_process(
        COMMAND ${CMAKE_COMMAND} -E env "PLEAT_CACHE_DIR=${PLEAT_CACHE_DIR}" PIP_RETRIES=1
            "${PROJECT_SOURCE_DIR}/cmake/venv.sh" fetch nvidia-nvtx==13.5.25
        OUTPUT_VARIABLE nvtx_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    file(GLOB_RECURSE nvtx_headers "${nvtx_folder}/*/nvToolsExtMem.h")
    list(TRANSFORM nvtx_headers REPLACE "/nvtx3/nvToolsExtMem.h$" "")
    pleat_find_nvtx(${nvtx_headers})
endif()
if(pleat_nvtx_include)
    message(STATUS "NVTX: ${pleat_nvtx_include}")
    set_source_files_properties("${PROJECT_SOURCE_DIR}/api/parts/nvtx.c" PROPERTIES
        COMPILE_OPTIONS "-isystem;${pleat_nvtx_include}" COMPILE_DEFINITIONS PLEAT_HAVE_NVTX)
else()
    message(STATUS "NVTX: no headers, so no tool is told of blocks")
endif()

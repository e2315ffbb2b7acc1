# libpleat_torch.so: the hooks of PyTorch that take C++ objects or throw. Left out where there is no
# C++ compiler: nothing else needs one.
#
# Exceptions cross from it into PyTorch, so it uses the process's own libstdc++.

include(CheckLanguage)
if(PROJECT_IS_TOP_LEVEL)
    check_language(CXX)
endif()
# Languages are a matter of the whole build: in somebody else's, C++ is there or it is not.
if(CMAKE_CXX_COMPILER AND TARGET pleat_shared AND
        (PROJECT_IS_TOP_LEVEL OR CMAKE_CXX_COMPILER_LOADED))
    enable_language(CXX)
    set(CMAKE_CXX_STANDARD 17)
    set(CMAKE_CXX_STANDARD_REQUIRED ON)
    set(CMAKE_CXX_EXTENSIONS OFF)
    set(CMAKE_CXX_VISIBILITY_PRESET hidden)
    set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
    if(PROJECT_IS_TOP_LEVEL)
        set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g -DNDEBUG")
        set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")
    endif()

    # As pleat_flags, but for what only C has.
    add_library(pleat_cxx_flags INTERFACE)
    target_compile_options(pleat_cxx_flags INTERFACE -Wall -Wextra -Wundef -Wshadow -Wconversion
        ${prefix_map} $<$<BOOL:${PLEAT_WERROR}>:-Werror> ${sanitize_flags})
    target_link_options(pleat_cxx_flags INTERFACE ${sanitize_flags})
    target_include_directories(pleat_cxx_flags INTERFACE
        "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/api" "${PROJECT_SOURCE_DIR}/vmm/base")
    target_link_libraries(pleat_cxx_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

    add_library(pleat_torch SHARED api/adapters/torch_shim.cpp)
    add_library(pleat::pleat_torch ALIAS pleat_torch)
    target_link_libraries(pleat_torch PRIVATE pleat_cxx_flags PUBLIC pleat_shared)
    set(torch_map "${PROJECT_SOURCE_DIR}/api/adapters/pleat_torch.map")
    set_target_properties(pleat_torch PROPERTIES INSTALL_RPATH "$ORIGIN" BUILD_RPATH "$ORIGIN"
        BUILD_RPATH_USE_ORIGIN ON LINK_DEPENDS "${torch_map}")
    target_link_options(pleat_torch PRIVATE -Wl,-z,nodelete "-Wl,--version-script=${torch_map}")
    if(NOT PLEAT_SANITIZE)
        target_link_options(pleat_torch PRIVATE -Wl,-z,defs)
    endif()
elseif(NOT CMAKE_CXX_COMPILER)
    message(STATUS "no C++ compiler: libpleat_torch.so is left out, and with it CUDA graphs and "
        "torch.OutOfMemoryError under PyTorch")
endif()

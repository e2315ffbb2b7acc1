# The command `pleat`: bench/command/main.c on top of the layer pl_bench. The Python package goes
# without it where zlib or jansson is missing.

if(SKBUILD)
    find_package(PkgConfig)
    find_package(ZLIB)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
    endif()
    if(NOT ZLIB_FOUND OR NOT JANSSON_FOUND)
        message(STATUS "zlib or jansson is missing: the package gets no command pleat")
        return()
    endif()
else()
    find_package(PkgConfig REQUIRED)
    find_package(ZLIB REQUIRED)
    pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
endif()

pleat_add_layer(pl_bench bench/*/*.c bench/*/*/*.c)
pleat_ship_layer(pl_bench)
pleat_link_layer(pl_bench pl_measure pl_api ZLIB::ZLIB PkgConfig::JANSSON m)

if(EXISTS "${PROJECT_SOURCE_DIR}/bench/command/main.c")
    add_executable(pleat_command bench/command/main.c)
    set_target_properties(pleat_command PROPERTIES OUTPUT_NAME pleat)
    target_link_libraries(pleat_command PRIVATE pl_bench pleat_flags)
    target_compile_options(pleat_command PRIVATE ${pleat_ship_compile})
    target_link_options(pleat_command PRIVATE ${pleat_ship_link})
    if(TARGET pleat_sim)
        add_dependencies(pleat_command pleat_sim)
    endif()
endif()

# Policies in Python, for `policy:SCRIPT.py` (bench/run/policy.h).
if(TARGET pleat_command AND NOT SKBUILD)
    add_library(pleat_policy_python MODULE bench/run/policy_python.c)
    target_link_libraries(pleat_policy_python PRIVATE pleat_flags)
    target_include_directories(pleat_policy_python PRIVATE "${PROJECT_SOURCE_DIR}")
    add_dependencies(pleat_command pleat_policy_python)
    install(TARGETS pleat_policy_python LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        COMPONENT command)
endif()

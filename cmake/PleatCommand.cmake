# The command `pleat`: bench/main.c on top of the layer pl_bench.

find_package(PkgConfig REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

pleat_add_layer(pl_bench bench/*.c bench/*/*.c)
get_target_property(bench_type pl_bench TYPE)
if(bench_type STREQUAL "STATIC_LIBRARY")
    target_link_libraries(pl_bench PUBLIC pl_api ZLIB::ZLIB PkgConfig::JANSSON m)
endif()

if(EXISTS "${PROJECT_SOURCE_DIR}/bench/main.c")
    add_executable(pleat_command bench/main.c)
    set_target_properties(pleat_command PROPERTIES OUTPUT_NAME pleat)
    target_link_libraries(pleat_command PRIVATE pl_bench pleat_flags)
    if(TARGET pleat_sim)
        add_dependencies(pleat_command pleat_sim)
    endif()
endif()

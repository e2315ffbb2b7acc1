# The command `pleat`: bench/command/main.c on top of the layer pl_bench.

find_package(PkgConfig REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

pleat_add_layer(pl_bench bench/*/*.c)
pleat_link_layer(pl_bench pl_measure pl_api ZLIB::ZLIB PkgConfig::JANSSON m)

if(EXISTS "${PROJECT_SOURCE_DIR}/bench/command/main.c")
    add_executable(pleat_command bench/command/main.c)
    set_target_properties(pleat_command PROPERTIES OUTPUT_NAME pleat)
    target_link_libraries(pleat_command PRIVATE pl_bench pleat_flags)
    target_link_options(pleat_command PRIVATE ${pleat_ship_link})
    if(TARGET pleat_sim)
        add_dependencies(pleat_command pleat_sim)
    endif()
endif()

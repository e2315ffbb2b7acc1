# libpleat_runtime.so: a CUDA runtime over the simulated driver, to be preloaded under a program
# that has none. It calls itself libcuda.so.1, so that whoever opens the driver by that name gets
# the simulated one. Not in sanitizers' builds: a preloaded object cannot bring them along.

if(NOT PLEAT_SANITIZE)
    pleat_add_layer(pl_runtime vmm/tools/runtime/*.c)
    pleat_ship_layer(pl_runtime)
    pleat_layer_objects(runtime_objects pl_runtime)
endif()

if(runtime_objects AND TARGET pleat_sim)
    add_library(pleat_runtime SHARED ${runtime_objects})
    set_target_properties(pleat_runtime PROPERTIES LINKER_LANGUAGE C NO_SONAME ON
        BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON)
    target_link_libraries(pleat_runtime PRIVATE pleat_flags pleat_sim)
    target_link_options(pleat_runtime PRIVATE ${pleat_ship_link}
        -Wl,-soname,libcuda.so.1 -Wl,-z,defs)
    # --card: what `pleat` knows, too. A line's rest may look like further entries to CMake.
    set(cards_file "${PROJECT_SOURCE_DIR}/bench/base/cards.c")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${cards_file}")
    file(STRINGS "${cards_file}" card_lines REGEX "\"[0-9]+ GB\", ")
    set(PLEAT_CARDS "")
    set(PLEAT_GPUS "")
    set(list "[^0-9]*\"([^\"]+)\"") # behind the size, which `- OTHERS) * MIB, ` ends
    foreach(line IN LISTS card_lines)
        if(NOT line MATCHES "\"([0-9]+) GB\", \\(?([0-9]+)${list}")
            continue()
        endif()
        string(APPEND PLEAT_CARDS " ${CMAKE_MATCH_1}GB=${CMAKE_MATCH_2}")
        string(REPLACE ", " "=${CMAKE_MATCH_2};" gpus "${CMAKE_MATCH_3}=${CMAKE_MATCH_2}")
        if(line MATCHES "\", \"([^\"]+)\", \\(([0-9]+)")
            string(REPLACE ", " "=${CMAKE_MATCH_2};" larger "${CMAKE_MATCH_1}=${CMAKE_MATCH_2}")
            list(APPEND gpus "${larger}")
        endif()
        string(REPLACE " " "" gpus "${gpus}")
        string(REPLACE ";" " " gpus "${gpus}")
        string(APPEND PLEAT_GPUS " ${gpus}")
    endforeach()
    string(STRIP "${PLEAT_CARDS}" PLEAT_CARDS)
    string(STRIP "${PLEAT_GPUS}" PLEAT_GPUS)
    if(PLEAT_CARDS STREQUAL "" OR PLEAT_GPUS STREQUAL "")
        message(FATAL_ERROR "no cards were found in ${cards_file}")
    endif()
    configure_file(vmm/tools/runtime/pleat-runtime.sh "${PROJECT_BINARY_DIR}/pleat-runtime" @ONLY)
endif()

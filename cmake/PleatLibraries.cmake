# The layers, libpleat.so, libpleat.a and the simulator.

pleat_add_layer(pl_sim vmm/sim/*.c vmm/sim/*/*.c)
pleat_add_layer(pl_vmm vmm/*.c vmm/base/*.c)
pleat_add_layer(pl_segments segments/*.c segments/classic/*.c)
pleat_add_layer(pl_api api/*.c api/*/*.c)

get_target_property(vmm_type pl_vmm TYPE)
if(vmm_type STREQUAL "STATIC_LIBRARY")
    target_link_libraries(pl_vmm PUBLIC pleat_jemalloc)
    get_target_property(segments_type pl_segments TYPE)
    get_target_property(api_type pl_api TYPE)
    if(segments_type STREQUAL "STATIC_LIBRARY")
        target_link_libraries(pl_segments PUBLIC pl_vmm)
    else()
        target_link_libraries(pl_segments INTERFACE pl_vmm)
    endif()
    if(api_type STREQUAL "STATIC_LIBRARY")
        target_link_libraries(pl_api PUBLIC pl_segments)
    else()
        target_link_libraries(pl_api INTERFACE pl_segments)
    endif()
endif()

pleat_layer_objects(sim_objects pl_sim)
pleat_layer_objects(vmm_objects pl_vmm)
pleat_layer_objects(segments_objects pl_segments)
pleat_layer_objects(api_objects pl_api)

if(sim_objects AND EXISTS "${PROJECT_SOURCE_DIR}/vmm/sim/pleat_sim.map")
    add_library(pleat_sim SHARED ${sim_objects})
    set_target_properties(pleat_sim PROPERTIES LINKER_LANGUAGE C
        LINK_DEPENDS "${PROJECT_SOURCE_DIR}/vmm/sim/pleat_sim.map")
    target_link_libraries(pleat_sim PRIVATE pleat_flags m)
    target_link_options(pleat_sim PRIVATE -Wl,-Bsymbolic
        "-Wl,--version-script=${PROJECT_SOURCE_DIR}/vmm/sim/pleat_sim.map")
endif()

if(api_objects)
    set(pleat_objects ${vmm_objects} ${segments_objects} ${api_objects})
    add_library(pleat_shared SHARED ${pleat_objects})
    add_library(pleat::pleat ALIAS pleat_shared)
    set_target_properties(pleat_shared PROPERTIES OUTPUT_NAME pleat EXPORT_NAME pleat
        LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION 0
        LINK_DEPENDS "${PROJECT_SOURCE_DIR}/api/pleat.map")
    target_link_libraries(pleat_shared PRIVATE pleat_flags pleat_jemalloc)
    target_link_options(pleat_shared PRIVATE
        -Wl,-z,nodelete -Wl,--exclude-libs,ALL
        "-Wl,--version-script=${PROJECT_SOURCE_DIR}/api/pleat.map")
    if(NOT PLEAT_SANITIZE)
        target_link_options(pleat_shared PRIVATE -Wl,-z,defs)
    endif()
    if(TARGET pleat_sim)
        add_dependencies(pleat_shared pleat_sim)
    endif()
endif()

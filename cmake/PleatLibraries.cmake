# The layers, libpleat.so, libpleat.a and the simulator.

include(PleatCosts)
pleat_add_layer(pl_sim vmm/tools/sim/*.c vmm/tools/sim/*/*.c)
target_sources(pl_sim PRIVATE "${cost_source}")
pleat_add_layer(pl_vmm vmm/*.c vmm/base/*.c vmm/streams/*.c vmm/async/*.c)
# What bench and tests know of the driver beside the library: what its calls cost, and work for it.
pleat_add_layer(pl_measure vmm/tools/measure/*.c)
pleat_add_layer(pl_segments segments/*/*.c segments/*/*/*.c)
pleat_add_layer(pl_api api/*.c api/*/*.c)
pleat_link_layer(pl_sim m)
pleat_link_layer(pl_vmm pleat_jemalloc)
pleat_link_layer(pl_measure pl_vmm)
pleat_link_layer(pl_segments pl_vmm)
pleat_link_layer(pl_api pl_segments)
foreach(layer IN ITEMS pl_sim pl_vmm pl_measure pl_segments pl_api)
    pleat_ship_layer(${layer})
endforeach()

pleat_layer_objects(sim_objects pl_sim)
pleat_layer_objects(vmm_objects pl_vmm)
pleat_layer_objects(segments_objects pl_segments)
pleat_layer_objects(api_objects pl_api)
set(pleat_objects ${vmm_objects} ${segments_objects} ${api_objects})

# What programs include. A program in the same build finds links to them in one folder: the folders
# of the sources have headers of ours, too, and one is called error.h.
set(pleat_headers api/pleat.h api/pleat_pool.h api/pleat_tag.h api/pleat_share.h
    api/pleat_checkpoint.h api/pleat_buffer.h api/pleat_host.h
    api/pleat_mapping.h
    api/pleat_snapshot.h api/pleat_watch.h
    api/adapters/pleat_torch.h api/adapters/pleat_torch.hpp api/adapters/pleat_frameworks.h
    api/adapters/pleat_cuda_mr.hpp api/adapters/pleat_cxx.hpp api/adapters/pleat_cxx_base.hpp
    api/adapters/pleat_cxx_pmr.hpp api/adapters/pleat_cxx_scopes.hpp api/adapters/pleat_umf.h
    vmm/base/pleat_types.h vmm/base/pleat_policy.h vmm/base/pleat_sim.h)
list(TRANSFORM pleat_headers PREPEND "${PROJECT_SOURCE_DIR}/")
set(include_dir "${PROJECT_BINARY_DIR}/include")
file(MAKE_DIRECTORY "${include_dir}")
foreach(header IN LISTS pleat_headers)
    get_filename_component(name "${header}" NAME)
    file(CREATE_LINK "${header}" "${include_dir}/${name}" SYMBOLIC)
endforeach()

set(sim_map "${PROJECT_SOURCE_DIR}/vmm/tools/sim/pleat_sim.map")
if(sim_objects AND EXISTS "${sim_map}")
    add_library(pleat_sim SHARED ${sim_objects})
    set_target_properties(pleat_sim PROPERTIES LINKER_LANGUAGE C LINK_DEPENDS "${sim_map}")
    add_library(pleat::pleat_sim ALIAS pleat_sim)
    target_link_libraries(pleat_sim PRIVATE pleat_flags m)
    target_include_directories(pleat_sim INTERFACE "$<BUILD_INTERFACE:${include_dir}>")
    target_link_options(pleat_sim PRIVATE ${pleat_ship_link} -Wl,-Bsymbolic
        "-Wl,--version-script=${sim_map}")
endif()

# Not every linker knows it (zig's does not); jemalloc's own names are hidden anyway.
include(CheckLinkerFlag)
check_linker_flag(C -Wl,--exclude-libs,ALL PLEAT_HAS_EXCLUDE_LIBS)
set(exclude_libs $<$<BOOL:${PLEAT_HAS_EXCLUDE_LIBS}>:-Wl,--exclude-libs,ALL>)

if(api_objects)
    set(api_map "${PROJECT_SOURCE_DIR}/api/pleat.map")
    add_library(pleat_shared SHARED ${pleat_objects})
    add_library(pleat::pleat ALIAS pleat_shared)
    set_target_properties(pleat_shared PROPERTIES OUTPUT_NAME pleat EXPORT_NAME pleat
        LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS "${api_map}")
    target_link_libraries(pleat_shared PRIVATE pleat_flags pleat_jemalloc)
    target_include_directories(pleat_shared INTERFACE "$<BUILD_INTERFACE:${include_dir}>")
    target_link_options(pleat_shared PRIVATE ${pleat_ship_link}
        -Wl,-z,nodelete ${exclude_libs} "-Wl,--version-script=${api_map}")
    if(NOT PLEAT_SANITIZE)
        target_link_options(pleat_shared PRIVATE -Wl,-z,defs)
    endif()
    if(TARGET pleat_sim)
        add_dependencies(pleat_shared pleat_sim)
    endif()
endif()

# libpleat.a holds one object: everything linked together with the private jemalloc, and all names
# but pleat_* made local, so that it can stand beside anybody's je_* in a program.
if(api_objects AND NOT PLEAT_SANITIZE)
    set(combined "${PROJECT_BINARY_DIR}/layers/pleat_combined.o")
    set(combine_link ${pleat_ship_link})
    if(combine_link MATCHES "-flto=")
        list(APPEND combine_link -flinker-output=nolto-rel -fPIC -fvisibility=hidden)
    endif()
    # It waits for the layers, not for their objects: make knows no rule for the objects of another
    # target, and looks for them before they are there.
    add_custom_command(OUTPUT "${combined}"
        COMMAND ${CMAKE_C_COMPILER} ${combine_link} -r -nostdlib -o "${combined}"
            ${pleat_objects} ${PLEAT_JEMALLOC_ARCHIVE}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard "--localize-symbol=pleat_je_*"
            "${combined}"
        COMMAND ${CMAKE_OBJCOPY} --wildcard "--keep-global-symbol=pleat_*" "${combined}"
        DEPENDS pl_vmm pl_segments pl_api ${PLEAT_JEMALLOC_ARCHIVE}
        COMMAND_EXPAND_LISTS VERBATIM
        COMMENT "Combining libpleat.a")
    add_library(pleat_static STATIC "${combined}")
    add_library(pleat::pleat_static ALIAS pleat_static)
    set_source_files_properties("${combined}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    set_target_properties(pleat_static PROPERTIES OUTPUT_NAME pleat LINKER_LANGUAGE C)
    target_link_libraries(pleat_static INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
    target_include_directories(pleat_static INTERFACE "$<BUILD_INTERFACE:${include_dir}>")
endif()

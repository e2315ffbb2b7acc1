# libpleat_runtime.so: a CUDA runtime over the simulated driver, to be preloaded under a program
# that has none. It calls itself libcuda.so.1, so that whoever opens the driver by that name gets
# the simulated one. Not in sanitizers' builds: a preloaded object cannot bring them along.

if(NOT PLEAT_SANITIZE)
    pleat_add_layer(pl_runtime vmm/runtime/*.c)
    pleat_layer_objects(runtime_objects pl_runtime)
endif()

if(runtime_objects AND TARGET pleat_sim)
    add_library(pleat_runtime SHARED ${runtime_objects})
    set_target_properties(pleat_runtime PROPERTIES LINKER_LANGUAGE C NO_SONAME ON
        BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON)
    target_link_libraries(pleat_runtime PRIVATE pleat_flags pleat_sim)
    target_link_options(pleat_runtime PRIVATE -Wl,-soname,libcuda.so.1 -Wl,-z,defs)
    configure_file(vmm/runtime/pleat-runtime.sh "${PROJECT_BINARY_DIR}/pleat-runtime" @ONLY)
endif()

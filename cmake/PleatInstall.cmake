# cmake --install: libraries, headers, the CMake package, pleat.pc, the simulator, its cost files,
# the command, its traces and what draws its reports. Nothing is installed from a sanitizer's build.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pleat")

if(TARGET pleat_shared AND TARGET pleat_static AND TARGET pleat_sim)
    set(installed_targets pleat_shared pleat_static pleat_sim)
    if(TARGET pleat_torch)
        list(APPEND installed_targets pleat_torch)
    endif()
    install(TARGETS ${installed_targets} EXPORT pleat_targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(EXPORT pleat_targets NAMESPACE pleat:: FILE pleat-targets.cmake
        DESTINATION "${package_dir}")
    install(FILES api/pleat.h api/pleat_pool.h api/pleat_tag.h api/pleat_share.h
        api/pleat_checkpoint.h api/pleat_buffer.h api/pleat_host.h
        api/pleat_snapshot.h api/pleat_watch.h
        api/adapters/pleat_torch.h api/adapters/pleat_torch.hpp api/adapters/pleat_frameworks.h
        api/adapters/pleat_cuda_mr.hpp vmm/base/pleat_types.h vmm/sim/pleat_sim.h
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

    configure_package_config_file(cmake/pleat-config.cmake.in
        "${PROJECT_BINARY_DIR}/package/pleat-config.cmake"
        INSTALL_DESTINATION "${package_dir}"
        PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
    write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/pleat-config-version.cmake"
        COMPATIBILITY SameMinorVersion)
    install(FILES "${PROJECT_BINARY_DIR}/package/pleat-config.cmake"
        "${PROJECT_BINARY_DIR}/package/pleat-config-version.cmake"
        DESTINATION "${package_dir}")

    # From the folder of pleat.pc to the prefix, so that an installed tree can be moved.
    file(RELATIVE_PATH PLEAT_PC_PREFIX
        "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
    configure_file(cmake/pleat.pc.in "${PROJECT_BINARY_DIR}/package/pleat.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/package/pleat.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()

if(TARGET pleat_command AND NOT PLEAT_SANITIZE)
    file(RELATIVE_PATH bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
    set_target_properties(pleat_command PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS pleat_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    install(DIRECTORY bench/traces DESTINATION "${CMAKE_INSTALL_DATADIR}/pleat")
    install(DIRECTORY bench/report DESTINATION "${CMAKE_INSTALL_DATADIR}/pleat"
        PATTERN __pycache__ EXCLUDE)
endif()

install(FILES ${cost_files} DESTINATION "${CMAKE_INSTALL_DATADIR}/pleat/costs")

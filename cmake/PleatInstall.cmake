# cmake --install: libraries, headers, the CMake package, pleat.pc, the simulator, its cost files,
# the command, its traces and what draws its reports, manuals, licences. Nothing is installed from a
# sanitizer's build. What `cmake --install` puts down, `cmake --build BUILD --target uninstall` takes
# away.
#
# Components, which are the packages that cpack makes (PleatPackages.cmake):
#   library        libpleat.so.0
#   development    headers, links, libpleat.a, CMake's package and pkg-config's
#   command        the commands, and the libraries that have no version: simulator, runtime, PyTorch's
#   notices        licences; a Debian package has them in a form of its own

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pleat")

# A release is installed without symbol tables and debug information; the build folder keeps both.
# Somebody else's install script may go on after ours, so the setting is put back at the end.
set(strips_release [[
    if(CMAKE_INSTALL_CONFIG_NAME MATCHES "^(Release|MinSizeRel)$")
        set(CMAKE_INSTALL_DO_STRIP 1)
    endif()]])
install(CODE "set(pleat_stripped_before \"\${CMAKE_INSTALL_DO_STRIP}\")\n${strips_release}"
    ALL_COMPONENTS)

if(TARGET pleat_shared AND TARGET pleat_static AND TARGET pleat_sim)
    install(TARGETS pleat_shared EXPORT pleat_targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library
            NAMELINK_COMPONENT development
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(TARGETS pleat_static EXPORT pleat_targets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(CODE "
    if(CMAKE_INSTALL_DO_STRIP) # CMake itself leaves archives alone
        execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug
            \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libpleat.a\"
            COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT development)
    set(unversioned_targets pleat_sim)
    if(TARGET pleat_torch)
        list(APPEND unversioned_targets pleat_torch)
    endif()
    install(TARGETS ${unversioned_targets} EXPORT pleat_targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT command
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(EXPORT pleat_targets NAMESPACE pleat:: FILE pleat-targets.cmake
        DESTINATION "${package_dir}" COMPONENT development)
    install(FILES ${pleat_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)

    configure_package_config_file(cmake/pleat-config.cmake.in
        "${PROJECT_BINARY_DIR}/package/pleat-config.cmake"
        INSTALL_DESTINATION "${package_dir}"
        PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
    write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/pleat-config-version.cmake"
        COMPATIBILITY SameMinorVersion)
    install(FILES "${PROJECT_BINARY_DIR}/package/pleat-config.cmake"
        "${PROJECT_BINARY_DIR}/package/pleat-config-version.cmake"
        DESTINATION "${package_dir}" COMPONENT development)

    # From the folder of pleat.pc to the prefix, so that an installed tree can be moved.
    file(RELATIVE_PATH PLEAT_PC_PREFIX
        "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
    configure_file(cmake/pleat.pc.in "${PROJECT_BINARY_DIR}/package/pleat.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/package/pleat.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
endif()

if(TARGET pleat_command AND NOT PLEAT_SANITIZE)
    file(RELATIVE_PATH bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
    set_target_properties(pleat_command PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS pleat_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
    install(DIRECTORY bench/traces bench/report DESTINATION "${CMAKE_INSTALL_DATADIR}/pleat"
        COMPONENT command PATTERN __pycache__ EXCLUDE)
    include(PleatManuals)
endif()

if(TARGET pleat_policy_python AND NOT SKBUILD)
    install(TARGETS pleat_policy_python LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        COMPONENT command)
endif()
if(TARGET pleat_runtime AND NOT SKBUILD)
    install(TARGETS pleat_runtime LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT command)
    install(PROGRAMS "${PROJECT_BINARY_DIR}/pleat-runtime"
        DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
endif()

install(FILES ${cost_files} DESTINATION "${CMAKE_INSTALL_DATADIR}/pleat/costs" COMPONENT command)

if(NOT SKBUILD)
    install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT notices)
    if(EXISTS "${PLEAT_JEMALLOC_DIR}/COPYING")
        install(FILES "${PLEAT_JEMALLOC_DIR}/COPYING" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
            COMPONENT notices RENAME LICENSE.jemalloc)
    endif()
endif()

install(CODE "set(CMAKE_INSTALL_DO_STRIP \"\${pleat_stripped_before}\")" ALL_COMPONENTS)

if(PROJECT_IS_TOP_LEVEL AND NOT SKBUILD)
    add_custom_target(uninstall COMMENT "Removing what was installed from this build folder"
        COMMAND "${CMAKE_COMMAND}" "-DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt"
            -P "${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake" VERBATIM)
endif()

# Debian packages: `cpack -G DEB` in the build folder makes libpleat0, libpleat-dev and pleat, one for
# each component of PleatInstall.cmake. What only a package has (copyright, changelog) belongs to
# the components but not to a full installation.

set(PLEAT_PACKAGE_CONTACT "The pleat authors <pleat@packages.invalid>" CACHE STRING
    "Maintainer that the Debian packages name")

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL library development command)
set(CPACK_PACKAGE_NAME pleat)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_CONTACT "${PLEAT_PACKAGE_CONTACT}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# Folders are 0755 whatever the mask of whoever calls.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 0pleat1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(same_version "(= ${PROJECT_VERSION}-0pleat1)")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libpleat0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "GPU memory, mapped where a request needs it (library)
Gives a program blocks of GPU memory on streams, as PyTorch's cache does.
Free memory in the wrong places is mapped at the right place, by default
unless it lies in chunks that are partly in use.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
    "${PROJECT_BINARY_DIR}/package/triggers" "${PROJECT_BINARY_DIR}/package/shlibs")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpleat-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# CMake's package also names the libraries without versions, such as the simulator.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libpleat0 ${same_version}, pleat ${same_version}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "GPU memory, mapped where a request needs it (headers)
Headers, the static library, and what CMake and pkg-config need to link with
pleat.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME pleat)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_COMMAND_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/package/triggers")
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "libpleat0 ${same_version}, python3")
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "python3-matplotlib, python3-jinja2")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "GPU memory, mapped where a request needs it (commands)
Replays recorded runs of PyTorch and others through several allocators and
compares them, on a GPU or on a simulated one, and runs PyTorch programs on a
simulated GPU.")

# The loader's cache is renewed when the library comes and goes; who links with it depends on it.
file(WRITE "${PROJECT_BINARY_DIR}/package/triggers" "activate-noawait ldconfig\n")
file(WRITE "${PROJECT_BINARY_DIR}/package/shlibs"
    "libpleat 0 libpleat0 (>= ${PROJECT_VERSION})\n")

find_program(PLEAT_GZIP gzip)
file(READ "${PROJECT_SOURCE_DIR}/LICENSE" licence)
file(WRITE "${PROJECT_BINARY_DIR}/package/copyright" "${licence}")
if(EXISTS "${PLEAT_JEMALLOC_DIR}/COPYING")
    file(READ "${PLEAT_JEMALLOC_DIR}/COPYING" licence)
    file(APPEND "${PROJECT_BINARY_DIR}/package/copyright" "\nContains jemalloc:\n\n${licence}")
endif()
file(WRITE "${PROJECT_BINARY_DIR}/package/changelog.Debian"
"pleat (${PROJECT_VERSION}-0pleat1) unstable; urgency=medium

  * Packages made by cpack; CHANGELOG.md in the sources tells what it has.

 -- ${PLEAT_PACKAGE_CONTACT}  Wed, 01 Jan 2025 00:00:00 +0000
")
execute_process(COMMAND "${PLEAT_GZIP}" -9nf "${PROJECT_BINARY_DIR}/package/changelog.Debian")
# Tags that lintian gives for what is meant to be so.
set(cpack_tags
"# The packaging tool writes these beside the trigger.
NAME: maintscript-calls-ldconfig *
")
string(REPLACE NAME libpleat0 library_tags "${cpack_tags}")
set(development_tags
"# Made for one architecture at a time; configure with -DCMAKE_INSTALL_PREFIX=/usr for a folder of its
# own for each.
libpleat-dev: pkg-config-unavailable-for-cross-compilation *
")
string(REPLACE NAME pleat command_tags "${cpack_tags}")
string(APPEND command_tags
"# Stand-ins for libcuda.so.1 and hooks: opened by name, no interface that other packages link with.
pleat: lacks-versioned-link-to-shared-library *
pleat: package-name-doesnt-match-sonames *
pleat: shared-library-lacks-version *
pleat: no-shlibs *
# Recordings, kept to the byte.
pleat: package-contains-timestamped-gzip *
")
foreach(component IN ITEMS library development command)
    string(TOUPPER ${component} upper)
    set(doc "${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}")
    install(FILES "${PROJECT_BINARY_DIR}/package/copyright"
        "${PROJECT_BINARY_DIR}/package/changelog.Debian.gz"
        DESTINATION "${doc}" COMPONENT ${component} EXCLUDE_FROM_ALL)
    set(name "${CPACK_DEBIAN_${upper}_PACKAGE_NAME}")
    file(WRITE "${PROJECT_BINARY_DIR}/package/${name}.overrides" "${${component}_tags}")
    install(FILES "${PROJECT_BINARY_DIR}/package/${name}.overrides" RENAME ${name}
        DESTINATION "${CMAKE_INSTALL_DATADIR}/lintian/overrides" COMPONENT ${component}
        EXCLUDE_FROM_ALL)
endforeach()

include(CPack)

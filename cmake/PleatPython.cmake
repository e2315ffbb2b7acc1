# The Python package's share: the libraries that lie in it, in pleat/_lib. pip calls for it through
# pyproject.toml (scikit-build-core), which sets SKBUILD; nothing else builds or installs it.

if(SKBUILD)
    set(python_targets pleat_shared pleat_sim)
    if(TARGET pleat_torch)
        list(APPEND python_targets pleat_torch)
    endif()
    add_custom_target(pleat_python DEPENDS ${python_targets})

    # A wheel cannot hold links: each library has one name, which is also its SONAME.
    set_property(TARGET ${python_targets} PROPERTY VERSION)
    set_property(TARGET ${python_targets} PROPERTY SOVERSION)
    set_target_properties(${python_targets} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${python_targets} LIBRARY DESTINATION pleat/_lib COMPONENT python)
    install(FILES LICENSE DESTINATION pleat COMPONENT python)
    if(EXISTS "${PLEAT_JEMALLOC_DIR}/COPYING")
        install(FILES "${PLEAT_JEMALLOC_DIR}/COPYING" DESTINATION pleat COMPONENT python
            RENAME LICENSE.jemalloc)
    endif()
endif()

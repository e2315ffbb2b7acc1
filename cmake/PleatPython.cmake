# The Python package's share: the libraries and commands that lie in it, in pleat/_lib. pip calls for
# it through pyproject.toml (scikit-build-core), which sets SKBUILD; nothing else builds or installs
# it. Console scripts run the commands: python/pleat/_commands.py.

if(SKBUILD)
    set(python_targets pleat_shared pleat_sim)
    if(TARGET pleat_torch)
        list(APPEND python_targets pleat_torch)
    endif()
    if(TARGET pleat_runtime)
        list(APPEND python_targets pleat_runtime)
        install(PROGRAMS "${PROJECT_BINARY_DIR}/pleat-runtime" DESTINATION pleat/_lib
            COMPONENT python)
    endif()
    add_custom_target(pleat_python DEPENDS ${python_targets})
    if(TARGET pleat_command)
        add_dependencies(pleat_python pleat_command)
        install(TARGETS pleat_command RUNTIME DESTINATION pleat/_lib COMPONENT python)
        install(TARGETS pleat_policy_python LIBRARY DESTINATION pleat/_lib COMPONENT python)
        install(DIRECTORY bench/traces bench/report DESTINATION pleat/share/pleat COMPONENT python
            PATTERN __pycache__ EXCLUDE)
    endif()

    # A wheel cannot hold links: each library has one name, which is also its SONAME.
    set_property(TARGET ${python_targets} PROPERTY VERSION)
    set_property(TARGET ${python_targets} PROPERTY SOVERSION)
    set_target_properties(${python_targets} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${python_targets} LIBRARY DESTINATION pleat/_lib COMPONENT python)
    # What the class that PyTorch gets is compiled against (python/pleat/torch/_class.py).
    file(GLOB class_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/api/pleat*.h")
    install(FILES ${class_headers} api/adapters/pleat_torch.h vmm/base/pleat_types.h
        vmm/base/pleat_policy.h DESTINATION pleat/_include COMPONENT python) # policies in C, too
    install(FILES LICENSE DESTINATION pleat COMPONENT python)
    install(FILES python/pleat_gpu.pth DESTINATION . COMPONENT python)
    if(EXISTS "${PLEAT_JEMALLOC_DIR}/COPYING")
        install(FILES "${PLEAT_JEMALLOC_DIR}/COPYING" DESTINATION pleat COMPONENT python
            RENAME LICENSE.jemalloc)
    endif()
endif()

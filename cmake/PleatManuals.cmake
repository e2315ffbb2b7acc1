# Manual pages, made of what the commands say of themselves (help2man, where it is found), and the
# completion of their words in bash.

find_program(PLEAT_HELP2MAN help2man)
if(PLEAT_HELP2MAN AND TARGET pleat_runtime)
    set(manuals "${PROJECT_BINARY_DIR}/man")
    add_custom_command(OUTPUT "${manuals}/stamp"
        COMMAND "${PROJECT_SOURCE_DIR}/cmake/manuals.sh" "${PLEAT_HELP2MAN}" "${PROJECT_VERSION}"
            "$<TARGET_FILE:pleat_command>" "${PROJECT_BINARY_DIR}/pleat-runtime" "${manuals}"
        COMMAND "${CMAKE_COMMAND}" -E touch "${manuals}/stamp"
        DEPENDS pleat_command pleat_sim "${PROJECT_BINARY_DIR}/pleat-runtime"
            "${PROJECT_SOURCE_DIR}/cmake/manuals.sh"
        COMMENT "Writing the manual pages" VERBATIM)
    add_custom_target(pleat_manuals ALL DEPENDS "${manuals}/stamp")
    install(DIRECTORY "${manuals}/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT command
        FILES_MATCHING PATTERN "*.1.gz")
elseif(NOT PLEAT_HELP2MAN)
    message(STATUS "help2man is missing: no manual pages")
endif()

foreach(name IN ITEMS pleat pleat-runtime) # bash looks for a file of the command's name
    install(FILES bench/command/completion.bash RENAME ${name} COMPONENT command
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
endforeach()

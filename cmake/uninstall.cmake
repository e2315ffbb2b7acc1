# Removes the files that the last `cmake --install` of a build folder put down, below DESTDIR where
# that is set, and then the folders named pleat that are empty. Folders that are shared with others,
# such as lib, stay. Usage: cmake -DMANIFEST=BUILD/install_manifest.txt -P uninstall.cmake
cmake_minimum_required(VERSION 3.22)

if(NOT EXISTS "${MANIFEST}")
    message(FATAL_ERROR "${MANIFEST} is not there: nothing was installed from this build folder, or "
        "it has been uninstalled")
endif()
file(STRINGS "${MANIFEST}" paths)
set(folders "")
foreach(path IN LISTS paths)
    string(PREPEND path "$ENV{DESTDIR}")
    if(EXISTS "${path}" OR IS_SYMLINK "${path}")
        file(REMOVE "${path}")
        if(EXISTS "${path}" OR IS_SYMLINK "${path}")
            message(FATAL_ERROR "${path} cannot be removed: may you write there?")
        endif()
    endif()
    get_filename_component(folder "${path}" DIRECTORY)
    while(folder MATCHES "/pleat(/|$)")
        list(APPEND folders "${folder}")
        get_filename_component(folder "${folder}" DIRECTORY)
    endwhile()
endforeach()

# The longest names first: a folder comes after those in it.
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING)
foreach(folder IN LISTS folders)
    file(GLOB inside LIST_DIRECTORIES true "${folder}/*" "${folder}/.*")
    if(IS_DIRECTORY "${folder}" AND NOT inside)
        file(REMOVE_RECURSE "${folder}")
    endif()
endforeach()
file(REMOVE "${MANIFEST}")

# cmake --install.

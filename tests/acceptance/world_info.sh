#!/usr/bin/env bash
# Fetches other programs from the npm registry into a folder outside of the repository, and compares activation of world info with
# theirs: `--with sillytavern`, `--with browser` (SillyTavern's page in Chromium) or `--with fast-tavern`; without it, with each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python}
release=${SILLYTAVERN_RELEASE:-1.19.0}
export CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
folder=${TMPDIR:-/tmp}/jacquard-acceptance
for program in node npm; do
  command -v "$program" >/dev/null || { echo "skipped: $program is not installed (node 20 or later is needed)"; exit 0; }
done

# fetch FOLDER PACKAGE@RELEASE [FILES…]: unpacks a package into FOLDER/package.
fetch() {
  local to=$1 name=$2 file
  shift 2
  mkdir -p "$to"
  (cd "$to" && file=$(npm pack --silent "$name") && tar -xzf "$file" "$@" && rm "$file")
}

compare() {
  PYTHONPATH="$here/../.." "$python" "$here/world_info/compare.py" --package "$1" "${@:2}"
}

with_sillytavern() {
  local package=${SILLYTAVERN:-$folder/sillytavern-$release/package}
  [ -f "$package/public/scripts/world-info.js" ] \
    || fetch "$(dirname "$package")" "sillytavern@$release" package/package.json package/public/scripts
  compare "$package" "$@"
}

with_browser() {
  local package=${SILLYTAVERN_SERVER:-$folder/sillytavern-server-$release/package}
  [ -n "$CHROMIUM" ] || { echo "skipped: Chromium is not installed (name it by CHROMIUM)"; return 0; }
  if [ ! -d "$package/node_modules/playwright-core" ]; then
    fetch "$(dirname "$package")" "sillytavern@$release"
    (cd "$package" && npm install --silent --omit=dev --ignore-scripts --no-audit --no-fund \
      && npm install --silent --no-save --ignore-scripts --no-audit --no-fund playwright-core@1)
  fi
  compare "$package" --with browser "$@"
}

with_fast_tavern() {
  local package=$folder/fast-tavern/package
  [ -f "$package/dist/index.js" ] || fetch "$(dirname "$package")" fast-tavern@0.1.8
  compare "$package" --with fast-tavern "$@"
}

case "${1:-}${2:+ $2}" in
  "--with sillytavern") with_sillytavern "${@:3}" ;;
  "--with browser") with_browser "${@:3}" ;;
  "--with fast-tavern") with_fast_tavern "${@:3}" ;;
  *)
    with_sillytavern "$@"
    with_browser "$@"
    with_fast_tavern "$@"
    ;;
esac

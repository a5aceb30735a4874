#!/usr/bin/env bash
# Fetches SillyTavern's npm package into a folder outside of the repository, and compares activation with its own code.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python}
release=${SILLYTAVERN_RELEASE:-1.19.0}
for program in node npm; do
  command -v "$program" >/dev/null || { echo "skipped: $program is not installed (node 20 or later is needed)"; exit 0; }
done
package=${SILLYTAVERN:-${TMPDIR:-/tmp}/jacquard-acceptance/sillytavern-$release/package}
if [ ! -f "$package/public/scripts/world-info.js" ]; then
  folder=$(dirname "$package")
  mkdir -p "$folder"
  (cd "$folder" && npm pack --silent "sillytavern@$release" >/dev/null \
    && tar -xzf "sillytavern-$release.tgz" package/package.json package/public/scripts && rm "sillytavern-$release.tgz")
fi
PYTHONPATH="$here/../.." exec "$python" "$here/world_info/compare.py" --package "$package" "$@"

#!/usr/bin/env bash
# Fetches the `openai` package, SillyTavern and a driver for Chromium into a folder outside of the repository, and runs them against
# the proxy. Options are those of `proxy/run.py`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python}
for program in node npm; do
  command -v "$program" >/dev/null || { echo "skipped: $program is not installed (node 20 or later is needed)"; exit 0; }
done
packages=${PACKAGES:-${TMPDIR:-/tmp}/jacquard-acceptance/proxy}
install() {  # FOLDER PACKAGE…: each in a folder of its own, because SillyTavern brings an older `openai`
  local folder="$packages/$1"
  shift
  [ -f "$folder/done" ] && return
  mkdir -p "$folder"
  npm install --silent --no-audit --no-fund --ignore-scripts --omit=dev --prefix "$folder" "$@" >/dev/null
  touch "$folder/done"
}
install client "openai@${OPENAI_RELEASE:-7.57.0}"
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [ -n "$chromium" ]; then
  install sillytavern "sillytavern@${SILLYTAVERN_RELEASE:-1.19.0}" "playwright-core@${PLAYWRIGHT_RELEASE:-1.65.1}"
else
  echo "skipped: SillyTavern's page (chromium is not installed)"
fi
PYTHONPATH="$here/../.." exec "$python" "$here/proxy/run.py" --packages "$packages" --chromium "$chromium" "$@"

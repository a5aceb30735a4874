#!/usr/bin/env bash
# Installs Open WebUI from its package (some GB) into an environment that git ignores, and plays chats in it as its page does. Options
# are those of `openwebui/run.py`; OPENWEBUI_VENV names another environment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python}
venv=${OPENWEBUI_VENV:-$root/.venv-openwebui}
if [ ! -x "$venv/bin/open-webui" ]; then
  "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' \
    || { echo "skipped: Open WebUI (its package needs Python 3.11 or 3.12)"; exit 0; }
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile)
  echo "installing Open WebUI"
  "${pip[@]}" "torch==2.13.0+cpu" 2>/dev/null || "${pip[@]}" torch
  "${pip[@]}" "open-webui==${OPENWEBUI_RELEASE:-0.12.4}"
fi
PYTHONPATH="$root" exec "$python" "$here/openwebui/run.py" --venv "$venv" "$@"

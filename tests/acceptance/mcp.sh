#!/usr/bin/env bash
# Fetches the MCP Inspector into a folder outside of the repository; its command line lists and calls our tools over stdio and over HTTP.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python}
release=${INSPECTOR_RELEASE:-2.12.0}
for program in node npm; do
  command -v "$program" >/dev/null || { echo "skipped: $program is not installed (node 20 or later is needed)"; exit 0; }
done
folder=${TMPDIR:-/tmp}/jacquard-acceptance/inspector-$release
inspector=$folder/node_modules/.bin/mcp-inspector
if [ ! -x "$inspector" ]; then
  mkdir -p "$folder"
  (cd "$folder" && npm install --silent --no-audit --no-fund --ignore-scripts "@modelcontextprotocol/inspector@$release")
fi
work=$(mktemp -d)
service=
finish() { if [ -n "$service" ]; then kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true; fi; rm -rf "$work"; }
trap finish EXIT
export PYTHONPATH=$root MCP_CATALOG_PATH=$work/catalog.json

check() { # a name, a pattern, and what to call
  local name=$1 wanted=$2
  shift 2
  if ! "$inspector" --cli --connect-timeout 120000 "${target[@]}" "$@" >"$work/answer" 2>"$work/log" || ! grep -q -- "$wanted" "$work/answer"; then
    echo "$way: $name: no $wanted in the answer"; cat "$work/answer" "$work/log"; exit 1
  fi
  echo "$way: $name"
}

inspect_all() {
  check "tools/list, every schema portable" '"name": "search_memory"' --method tools/list --strict
  call() { check "tools/call $1" "$2" --method tools/call --tool-name "$1" --tool-arg "${@:3}"; }
  call start_session '"isError": false' "session_id=$way"
  call remember_memory '"action": "remember"' "session_id=$way" "text=The boat key hangs behind the blue clock."
  call search_memory 'behind the blue clock' "session_id=$way" "text=boat key"
  call prepare_turn '"turn_id"' "session_id=$way" "message=Where is the boat key?"
  call commit_assistant_message '"isError": false' "session_id=$way" "message=I see."
  call memory_log '"author"' "session_id=$way"
  check resources/list 'jacquard://sessions/' --method resources/list
  check resources/templates/list '{turn_id}/receipt' --method resources/templates/list
  check resources/read 'Where is the boat key' --method resources/read --uri "jacquard://sessions/$way/messages"
  check prompts/list '"name": "recall"' --method prompts/list
  check prompts/get 'prepare_turn' --method prompts/get --prompt-name play --prompt-args "session_id=$way"
}

way=stdio
target=(-e "PYTHONPATH=$root" "$python" -m jacquard operate mcp --store "$work/store" --embedder none)
inspect_all

way=http
token=$("$python" -m jacquard operate tokens create --tenant north --scope author --store "$work/store")
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" -m jacquard operate serve --tenants --port "$port" --store "$work/store" --embedder none 2>"$work/service" &
service=$!
until "$python" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/readyz')" 2>/dev/null; do
  kill -0 "$service" || { cat "$work/service"; exit 1; }
  sleep 0.2
done
target=("http://127.0.0.1:$port/mcp" --transport http --header "Authorization: Bearer $token")
inspect_all

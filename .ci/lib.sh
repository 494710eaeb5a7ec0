# Functions of .ci/run and .ci/full. Source this file in bash at the root of the
# module.

# Without the directory of the module in its packages, a new clone finds them in the
# build cache.
export GOFLAGS="${GOFLAGS:-} -trimpath"

began=$SECONDS
layer=
layer_began=$SECONDS
counted=

# step ends a layer and begins the next one.
step() {
  end_step
  layer=$1 layer_began=$SECONDS
  printf '\n== %s\n' "$1"
}

# end_step prints the duration of the layer, and the count if the layer set it.
end_step() {
  if [ -n "$layer" ]; then
    summary+=("$(printf '%5d s  %s%s' $((SECONDS - layer_began)) "$layer" "${counted:+: $counted}")")
    printf -- '-- %s: %s%d s\n' "$layer" "${counted:+$counted, }" $((SECONDS - layer_began))
  fi
  layer= counted=
}

summary=()

# report ends the last layer and prints a line for each, and then the flaky tests.
report() {
  end_step
  printf '\n== all layers, %d s\n' $((SECONDS - began))
  printf '%s\n' "${summary[@]}"
  if [ -s "$rerun/flaky" ]; then
    printf '\n== flaky tests: add each to .ci/flaky, find its cause, and remove both\n'
    cat "$rerun/flaky"
  fi
}

# tested runs go test with arguments, and a failed test again by itself, as
# ./fuzz/rerun describes. It prints the failures, or the counts that the tests log,
# and sets counted to the number of tests. It exits with 1 if a test fails for good
# or if no test runs.
tested() {
  local out
  out=$(mktemp)
  "$rerun/rerun" -known .ci/flaky -report "$rerun/flaky" -never "$final" -- -timeout 30m "$@" | tee "$out"
  counted=$(tail -n 1 "$out")
  rm "$out"
}

# final matches the tests whose failure is final: they draw at random, or compare
# with a model, so a second run that passes means nothing.
final='/fuzz/|/daemon\.TestScopesNeverWiden$'

# check_skip exits with 1 if CRABMEM_SKIP contains a name that no layer uses.
check_skip() {
  local name names
  IFS=, read -ra names <<<"${CRABMEM_SKIP:-}"
  for name in ${names[@]+"${names[@]}"}; do
    case $name in
      datasets | npx) ;;
      *)
        echo "CRABMEM_SKIP: unknown name: $name; use datasets or npx"
        exit 1
        ;;
    esac
  done
}

# require exits with 1 if a program or directory that a layer needs is missing.
# It returns 1 if CRABMEM_SKIP contains the name: the layer must be skipped.
# Arguments: the name, a description, a test command.
require() {
  local name=$1 what=$2
  shift 2
  if [[ ,${CRABMEM_SKIP:-}, == *,$name,* ]]; then
    echo "SKIPPED: $what: CRABMEM_SKIP contains $name"
    return 1
  fi
  if ! "$@" >/dev/null 2>&1; then
    echo "missing: $what; set CRABMEM_SKIP=$name to run without it"
    exit 1
  fi
}

# install installs the programs that the tests use. mdbook is built in the
# background; built waits for it.
install() {
  tools=${CRABMEM_TOOLS:-$HOME/.cache/crabmem-tools}
  export CRABMEM_FUZZ_CACHE=${CRABMEM_FUZZ_CACHE:-$tools/fuzz}
  mkdir -p "$tools" "$CRABMEM_FUZZ_CACHE"
  mdbook=
  if ! [ -x "$tools/bin/mdbook" ]; then
    cargo install mdbook --locked --quiet --root "$tools" >"$tools/mdbook.log" 2>&1 &
    mdbook=$!
  fi
  local need=()
  command -v strace >/dev/null || need+=(strace)
  command -v fusermount3 >/dev/null || need+=(fuse3)
  command -v mkfs.ext4 >/dev/null || need+=(e2fsprogs)
  command -v dot >/dev/null || need+=(graphviz)
  command -v qemu-aarch64 >/dev/null || need+=(qemu-user)
  command -v chromium >/dev/null || need+=(chromium)
  command -v python3 >/dev/null || need+=(python3)
  if [ ${#need[@]} -gt 0 ]; then
    apt-get update -qq
    apt-get install -y -qq "${need[@]}" >/dev/null
  fi
  go version
  go mod download
  rerun=$(mktemp -d)
  go build -o "$rerun/rerun" ./fuzz/rerun
  export PATH="$tools/bin:$PATH"
}

built() {
  if [ -n "$mdbook" ]; then
    wait "$mdbook" || { tail -20 "$tools/mdbook.log"; exit 1; }
  fi
}

# needs sets CRABMEM_REQUIRE, which makes tests fail instead of skip. With the
# argument npx, the tests that fetch packages from npm run, too.
needs() {
  check_skip
  export CRABMEM_REQUIRE=mdbook,dot,strace,fuse,root,tmpfs,userns,git,python3
  local datasets=${CRABMEM_DATASETS:-../shared/datasets}
  unset CRABMEM_DATASETS
  if require datasets "the recall test sets in $datasets" test -d "$datasets"; then
    CRABMEM_DATASETS=$(realpath "$datasets")
    export CRABMEM_DATASETS
    CRABMEM_REQUIRE+=,datasets,recall
  fi
  if [ "${1:-}" = npx ] && require npx "npx, which runs the MCP inspector, the conformance suite, and the reference memory server" command -v npx; then
    CRABMEM_REQUIRE+=,inspector,conformance,reference-server
  fi
}

# base_of prints the commit to compare with, or nothing if all layers must run.
base_of() {
  local base
  base=$(git rev-parse -q --verify "${CRABMEM_BASE:-origin/main}^{commit}") || return 0
  [ "$base" = "$(git rev-parse HEAD)" ] || echo "$base"
}

# differ reports whether paths, or the libraries, differ from the base $1, or there is no base.
differ() {
  [ -z "$1" ] || ! git diff --quiet "$1" -- "${@:2}" go.mod
}

# affected prints those of the packages $2... that differ from the base $1 or whose tests
# use, also through other packages, a package that differs. A file belongs to the package
# whose folder, or nearest parent, contains it. Without a base it prints all.
affected() {
  if [ -z "$1" ] || ! git diff --quiet "$1" -- go.mod; then
    printf '%s\n' "${@:2}"
    return
  fi
  local changed
  changed=$(git diff --name-only "$1" | while read -r file; do
    while [[ $file == */* ]]; do
      file=${file%/*}
      if compgen -G "$file/*.go" >/dev/null; then
        echo "crabmem/$file"
        break
      fi
    done
  done | sort -u)
  go list -test -f '{{if not .ForTest}}{{.ImportPath}} {{join .Deps " "}}{{end}}' "${@:2}" |
    awk -v changed="$changed" '
      BEGIN { n = split(changed, list, "\n"); for (i = 1; i <= n; i++) c[list[i]] = 1 }
      { p = $1; sub(/\.test$/, "", p)
        for (i = 1; i <= NF; i++) if ($i in c) { print p; break } }' | sort -u
}

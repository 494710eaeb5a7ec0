# Functions of .ci/run and .ci/full. Source this file in bash at the root of the
# module.

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

# report ends the last layer and prints a line for each.
report() {
  end_step
  printf '\n== all layers, %d s\n' $((SECONDS - began))
  printf '%s\n' "${summary[@]}"
}

# failures prints the messages of the failed tests in the output of go test -v,
# and then one line for each. CI systems often show only the end of an output.
failures() {
  awk '
    /^=== (RUN|CONT|NAME|PAUSE) / { test = $3; next }
    /^ *--- FAIL: / { failed[$3]; result = result $0 "\n"; next }
    /^ *--- (PASS|SKIP): / { next }
    /^panic: / { failed[test]; result = result $0 " (" test ")\n" }
    /^FAIL/ { result = result $0 "\n" }
    /^(ok|PASS|FAIL|\?)/ { test = ""; next }
    { text[test] = text[test] $0 "\n" }
    END {
      printf "%s", text[""]
      for (test in failed) printf "--- output of %s\n%s", test, text[test]
      printf "%s", result
    }' "$1"
}

# tested runs go test with arguments. It prints the failures, or the counts that
# the tests log, and sets counted to the number of tests. It exits with 1 if a
# test fails or if no test runs.
tested() {
  local out passed skipped
  out=$(mktemp)
  if ! go test -v -timeout 30m "$@" >"$out" 2>&1; then
    failures "$out"
    exit 1
  fi
  passed=$(grep -cE '^ *--- PASS' "$out") || true
  skipped=$(grep -cE '^ *--- SKIP' "$out") || true
  grep -E '^ +[a-z_0-9]+_test\.go:[0-9]+: (.*(checked|0 lost|0 escapes|killed|found|acknowledged|to the bit|cases)|SKIPPED)' "$out" || true
  rm "$out"
  if [ "$passed" -eq 0 ]; then
    echo "no tests ran: go test $*"
    exit 1
  fi
  counted="$passed tests passed, $skipped skipped"
}

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
  if [ ${#need[@]} -gt 0 ]; then
    apt-get update -qq
    apt-get install -y -qq "${need[@]}" >/dev/null
  fi
  go version
  go mod download
  export PATH="$tools/bin:$PATH"
}

built() {
  if [ -n "$mdbook" ]; then
    wait "$mdbook" || { tail -20 "$tools/mdbook.log"; exit 1; }
  fi
}

# needs sets CRABMEM_REQUIRE, which makes tests fail instead of skip.
needs() {
  check_skip
  export CRABMEM_REQUIRE=mdbook,dot,strace,fuse,root,tmpfs,userns,git
  local datasets=${CRABMEM_DATASETS:-../shared/datasets}
  unset CRABMEM_DATASETS
  if require datasets "the recall test sets in $datasets" test -d "$datasets"; then
    CRABMEM_DATASETS=$(realpath "$datasets")
    export CRABMEM_DATASETS
    CRABMEM_REQUIRE+=,datasets,recall
  fi
  if require npx "npx, which runs the MCP inspector, the conformance suite, and the reference memory server" command -v npx; then
    CRABMEM_REQUIRE+=,inspector,conformance,reference-server
  fi
}

package approval

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMissing(t *testing.T) {
	allow := append([]string{"git status", "make test"}, Default...)
	for _, c := range []struct {
		command string
		missing string // separated by commas; "unknown" if no list permits it
	}{
		{"ls", ""},
		{"ls -la /tmp 2>/dev/null | grep -i x | wc -l", ""},
		{"cat a b 2>&1 && echo done || echo failed; pwd", ""},
		{`echo "$HOME" '$(x)' "${#PATH}" $1`, ""},
		{"(cd /tmp && ls) # a comment", ""},
		{"! grep -q x <file", ""},
		{"cat <<E\ntext $HOME\nE", ""},
		{"git status --short", ""},
		{"make test", ""},
		{"l''s", ""},
		{`"ls" -l`, ""},
		{"'ls' -l", ""},
		{"$'ls' -l", "unknown"},
		{`"$x" -l`, "unknown"},
		{`$"ls" -l`, "unknown"},
		{`"l\s" -l`, "unknown"},
		{"ls <&0 >&-", ""},
		{"ls <&x", "unknown"},
		{"ls >& ''", "unknown"},
		{"ls > ''", "unknown"},
		{"ls <<<$(rm x)", "rm"},
		{"ls >$(rm x)", "unknown"},
		{"ls " + strings.Repeat("x", maxCommand-3), ""},
		{strings.TrimSuffix(strings.Repeat("ls;", maxParts), ";"), ""},
		{"git 90-to-z a", "git 90-to-z"},
		{"git v1.2 a", "git"},
		{"git UP a", "git"},
		{"git '' a", "git"},
		{"git -", "git"},
		{"git", "git"},
		{"mygit push", "mygit"},
		{"git push origin main", "git push"},
		{"git -C x push", "git"},
		{"git push && npm install && git push", "git push,npm install"},
		{"rm -rf /", "rm"},
		{"./run.sh x", "./run.sh"},
		{"make install", "unknown"}, // make runs the text of a file
		{"ls; rm x", "rm"},
		{"echo $(rm x)", "rm"},
		{"echo `rm x`", "rm"},
		{"echo \"$(rm x)\"", "rm"},
		{"cat <<E\n$(rm x)\nE", "rm"},
		{"ls\nrm x", "rm"},
		{"ls | xargs rm", "unknown"},
		{"bash -c ls", "unknown"},
		{"sudo ls", "unknown"},
		{"find . -delete", "unknown"},
		{"ls > file", "unknown"},
		{"ls >> file", "unknown"},
		{"ls >| file", "unknown"},
		{"ls &> file", "unknown"},
		{"ls <> file", "unknown"},
		{"ls >&file", "unknown"},
		{"ls 2>$x", "unknown"},
		{"ls &", "unknown"},
		{"X=1 ls", "unknown"},
		{"X=1", "unknown"},
		{"ls() { rm x; }; ls", "unknown"},
		{"export PATH=.; ls", "unknown"},
		{"echo <(rm x)", "unknown"},
		{"echo ${x:=$(rm x)}", "unknown"},
		{"echo ${x@P}", "unknown"},
		{"echo ${!x}", "unknown"},
		{"echo ${x[$(rm x)]}", "unknown"},
		{"echo $((x[$(rm x)]))", "unknown"},
		{"[[ -v x ]]", "unknown"},
		{"for i in 1; do ls; done", "unknown"},
		{"l\\s", "unknown"},
		{"$x", "unknown"},
		{"l?", "unknown"},
		{"{ls,rm}", "unknown"},
		{"eval ls", "unknown"},
		{"test -v 'x[$(rm x)]'", "unknown"},
		{"echo 'open", "unknown"},
		{"", "unknown"},
		{"# only", "unknown"},
		{"ls \x00", "unknown"},
		{"ls " + strings.Repeat("x", maxCommand-2), "unknown"},
		{strings.Repeat("ls;", maxParts+1), "unknown"},
	} {
		missing, known := Missing(c.command, allow)
		got := strings.Join(missing, ",")
		if slices.Contains(missing, "") {
			t.Errorf("Missing(%q) has an empty prefix", c.command)
		}
		if !known {
			got = "unknown"
		}
		if got != c.missing {
			t.Errorf("Missing(%q) = %q, want %q", c.command, got, c.missing)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, p := range append([]string{"git status", "go test", "./run.sh", "make"}, Default...) {
		if err := Check(p); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []string{"", " ls", "ls ", "ls  -l", "ls; rm", "ls | cat", "$x", "ls >x", "l*", "'ls'"} {
		if Check(p) == nil {
			t.Errorf("Check(%q) = nil", p)
		}
	}
}

// TestBash runs random commands that a list permits. bash must start only the
// programs of the list, and write no file.
func TestBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIPPED: no bash")
	}
	pieces := strings.Split("echo echo echo echo canary ; && || | |& & ( ) { } $(canary) `canary` <(canary) >(canary) >f >>f 2>&1 >&f &>f <> f >/dev/null "+
		"2>/dev/null ' \" \\ \n $ ${x:=canary} ${x@P} ${!x} ${x[$(canary)]} $(( )) [[ ]] ! # <<E <<<x E if then fi x=1 x=$(canary) eval for case function echo() "+
		"$'ec\\150o' ca''nary \\canary $x * ? ~ -e -n a,b {a,b} \t", " ")
	r := rand.New(rand.NewPCG(3, 4))
	dir, programs := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "canary"), []byte("#!"+bash+"\n: >"+programs+"/ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	permitted, kinds := 0, make(map[string]bool)
	for i := range 200_000 {
		var b strings.Builder
		for k := range 2 + r.IntN(7) {
			if k > 0 && r.IntN(5) > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		command := b.String()
		missing, known := Missing(command, []string{"echo"})
		if !known || len(missing) > 0 || kinds[command] {
			continue
		}
		kinds[command] = true
		if permitted++; permitted > 1500 {
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, bash, "-c", command)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + programs, "x=$(canary)"}
		_ = cmd.Run() // its exit code may be any
		cancel()
		if _, err := os.Lstat(filepath.Join(programs, "ran")); err == nil {
			t.Fatalf("%d: %q ran another program", i, command)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
			t.Fatalf("%d: %q wrote %v, %v", i, command, list, err)
		}
	}
	t.Logf("commands: %d", permitted)
	if permitted < 500 {
		t.Errorf("%d commands, want 500 or more", permitted)
	}
}

func TestDefault(t *testing.T) {
	if !slices.IsSorted(Default) || !slices.IsSorted(runners) || !slices.IsSorted(families) {
		t.Error("a list is not sorted")
	}
	for _, p := range Default {
		if slices.Contains(runners, p) {
			t.Errorf("%s runs other programs", p)
		}
	}
}

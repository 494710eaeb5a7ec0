package older

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"

	"github.com/google/go-cmp/cmp"
)

// TestUpgrade opens homes of earlier revisions (see record), checks their
// content, writes, and backs the home up.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "newer")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/crabmem").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	homes, err := filepath.Glob("testdata/homes/*.tar.gz")
	if err != nil || len(homes) < 4 {
		t.Fatalf("%d recorded homes, want at least 4: %v", len(homes), err)
	}
	for _, file := range homes {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			extract(t, file, dir)
			upgrade(program{t, path, filepath.Join(dir, "home")}, dir)
		})
	}
}

func upgrade(p program, dir string) {
	p.t.Helper()
	recorded, err := os.ReadFile(filepath.Join(dir, "entries.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.run(0, "verify")
	p.wantEntries("the recorded entries", string(recorded))
	p.wantSessions(dir)

	p.run(0, "remember", "new", "written after the upgrade")
	p.run(0, "alias", "deploy", "--add", "rollout")
	p.run(0, "forget", "coffee order")
	if _, err := os.Stat(filepath.Join(p.home, "config.toml")); err == nil {
		p.run(0, "config", "check")
		p.converse()
		p.run(0, "sessions", "title", "crab_user_1", "after the upgrade")
	}
	p.run(0, "verify")
	p.run(0, "sessions", "verify")
	if out := p.run(0, "recall", "rollout"); !strings.Contains(out, "deploy") {
		p.t.Errorf("recall does not find the new alias:\n%s", out)
	}

	// Back up the home twice: as a Markdown tree, and as a copy of the directory.
	before := p.run(0, "export")
	if strings.Contains(before, "coffee order") || !strings.Contains(before, "written after the upgrade") {
		p.t.Errorf("the writes are missing:\n%.2000s", before)
	}
	tree := filepath.Join(dir, "tree")
	p.run(0, "dump", tree)
	loaded := program{p.t, p.path, filepath.Join(dir, "loaded")}
	loaded.run(0, "load", tree)
	if got := entries(p.t, loaded.run(0, "export"), "id"); !cmp.Equal(got, entries(p.t, before, "id")) {
		p.t.Errorf("a loaded dump differs:\n%s", cmp.Diff(entries(p.t, before, "id"), got))
	}
	copied := program{p.t, p.path, filepath.Join(dir, "copied")}
	if err := os.CopyFS(copied.home, os.DirFS(p.home)); err != nil {
		p.t.Fatal(err)
	}
	copied.wantEntries("a copy of the home", before)
	copied.run(0, "verify")
}

// converse resumes the recorded session with a daemon.
func (p program) converse() {
	p.t.Helper()
	session := filepath.Join(p.home, "sessions", "crab_user_1.jsonl")
	before, err := os.ReadFile(session)
	if err != nil {
		p.t.Fatal(err)
	}
	daemon := exec.Command(p.path, "daemon", "--home", p.home)
	var log bytes.Buffer
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		p.t.Fatal(err)
	}
	defer daemon.Process.Kill()
	for end := time.Now().Add(gate.Hang); exec.Command(p.path, "ping", "--home", p.home).Run() != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("the daemon does not respond:\n%s", &log)
		}
	}
	if out := p.run(0, "cron", "list"); !strings.Contains(out, "crab_user_1") {
		p.t.Errorf("the recorded cron is missing:\n%s", out)
	}
	p.run(0, "send", "--session", "crab_user_1", "when do we deploy the canary?")
	if after, err := os.ReadFile(session); err != nil || len(after) <= len(before) || !bytes.HasPrefix(after, before) {
		p.t.Errorf("the session file was not extended:\n%s\nafter (%v):\n%s", before, err, after)
	}
	p.run(0, "remember", "by the daemon", "written after the upgrade")
	p.run(0, "daemon", "stop")
	if err := daemon.Wait(); err != nil {
		p.t.Errorf("the daemon exited with %v:\n%s", err, &log)
	}
}

func (p program) wantEntries(what, want string) {
	p.t.Helper()
	if diff := cmp.Diff(entries(p.t, want), entries(p.t, p.run(0, "export"))); diff != "" {
		p.t.Errorf("%s:\n%s", what, diff)
	}
}

// wantSessions compares each session with the recorded session. It ignores keys
// that the earlier revision did not print.
func (p program) wantSessions(dir string) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "sessions", "*.json"))
	if err != nil || len(files) == 0 {
		p.t.Fatalf("no recorded session: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			p.t.Fatal(err)
		}
		id := strings.TrimSuffix(filepath.Base(file), ".json")
		want, got := object(p.t, b), object(p.t, []byte(p.run(0, "sessions", "show", id, "--json")))
		if diff := cmp.Diff(want, common(want, got)); diff != "" {
			p.t.Errorf("session %s:\n%s", id, diff)
		}
	}
}

// entries returns the lines of an export in order of their names, without the
// keys in omit.
func entries(t *testing.T, export string, omit ...string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(export) {
		e := object(t, []byte(line))
		for _, key := range omit {
			delete(e, key)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b map[string]any) int {
		return strings.Compare(a["name"].(string), b["name"].(string))
	})
	return all
}

func object(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatalf("%v:\n%.500s", err, b)
	}
	return o
}

// common returns got without the keys that the objects of want lack.
func common(want, got any) any {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return got
		}
		kept := map[string]any{}
		for key, value := range want {
			if g, ok := got[key]; ok {
				kept[key] = common(value, g)
			}
		}
		return kept
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return got
		}
		kept := make([]any, len(got))
		for i := range got {
			kept[i] = common(want[i], got[i])
		}
		return kept
	}
	return got
}

// extract unpacks the directories, files, and hard links of a recorded home.
func extract(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			name := filepath.Join(dir, filepath.FromSlash(h.Name))
			switch h.Typeflag {
			case tar.TypeDir:
				err = os.Mkdir(name, os.FileMode(h.Mode))
			case tar.TypeLink:
				err = os.Link(filepath.Join(dir, filepath.FromSlash(h.Linkname)), name)
			default:
				var b []byte
				if b, err = io.ReadAll(r); err == nil {
					err = os.WriteFile(name, b, os.FileMode(h.Mode))
				}
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

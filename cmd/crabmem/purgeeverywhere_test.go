package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPurgeEverywhere plants a text in each kind of place of a home, without and with a
// daemon that has the stores and a session open. After the purge, no file of the home
// contains the text, and other entries, sessions, and messages are the same.
func TestPurgeEverywhere(t *testing.T) {
	t.Parallel()
	const text = `the "vault" code is 4711`
	const meta = `{"agent":"crab","created_by":"user","created_at":"2026-04-14T12:00:00+00:00","title":"","uptime_secs":0}` + "\n"
	quoted := strings.ReplaceAll(text, `"`, `\"`)
	other := meta + `{"role":"user","content":"the \"vault\" is locked"}` + "\n"
	for _, withDaemon := range []bool{false, true} {
		p := newPlace(t, withDaemon)
		run := func(want int, args ...string) string {
			t.Helper()
			stdout, stderr, code := p.runs(args...)
			if code != want || stderr != "" {
				t.Fatalf("daemon %v: %q: exit code %d, want %d\n%s%s", withDaemon, args, code, want, stdout, stderr)
			}
			return stdout
		}
		run(0, "spaces", "create", "team")
		run(0, "remember", "plan", "first, "+text)
		run(0, "remember", "plan", text)
		run(0, "remember", "other", "the vault is locked")
		run(0, "remember", "chat-1", "user: "+text, "--kind", "archive")
		run(0, "remember", "copy", "also "+text, "--space", "team")
		run(0, "remember", "other", "the team's vault", "--space", "team")
		run(0, "checkpoint")
		run(0, "checkpoint", "--space", "team")
		run(0, "dump", filepath.Join(filepath.Dir(p.home), "book"))
		p.write("sessions/crab_user_1.jsonl", meta+`{"role":"user","content":"`+quoted+`"}`+"\n")
		p.write("sessions/crab_user_2.jsonl", meta+`{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"recall","arguments":"{}"}}]}`+"\n"+
			`{"role":"tool","content":"{\"hits\":[\"`+strings.ReplaceAll(quoted, `\`, `\\\`)+`\"]}","tool_call_id":"1"}`+"\n")
		p.write("sessions/crab_user_3.jsonl", other)
		p.write("sessions/.trash/crab_user_4.jsonl", meta+`{"compact":"`+quoted+`"}`+"\n")
		p.write("sessions/.damaged/crab_user_5-00.jsonl", "damaged: "+text+"\n")
		p.write("history", "hello\n"+text+"\n")
		p.write("webhook/0.json", `{"conversation":"c","waiting":[{"id":"1","content":"ask: `+quoted+`"}],"answers":[{"seq":1,"content":"`+quoted+`"},{"seq":2,"content":"kept"}],"last":2}`)
		if withDaemon { // it has the session loaded
			run(0, "send", "hello", "--session", "crab_user_1", "--agent", "crab")
		}
		before := run(0, "export", "--space", "team")
		shown := run(0, "show", "other")
		dry := run(0, "forget", "plan", "--purge", "--everywhere", "--dry-run")
		if n := strings.Count(dry, "would purge "); n != 9 {
			t.Errorf("daemon %v: %d places:\n%s", withDaemon, n, dry)
		}
		out := run(1, "forget", "plan", "--purge", "--everywhere") // because of the tree
		if n := strings.Count(out, "purged "); n != 9 || !strings.Contains(out, "Markdown tree ") {
			t.Errorf("daemon %v: %d places:\n%s", withDaemon, n, out)
		}
		for name, b := range p.homeFiles() {
			if bytes.Contains(b, []byte("code is 4711")) {
				t.Errorf("daemon %v: %s contains the text", withDaemon, name)
			}
			if strings.HasSuffix(name, "webhook/0.json") && !bytes.Contains(b, []byte(`"ask: [purged]"`)) || strings.HasSuffix(name, "webhook/0.json") && !bytes.Contains(b, []byte(`"kept"`)) {
				t.Errorf("daemon %v: %s is %s", withDaemon, name, b)
			}
			if rel, err := filepath.Rel(p.home, name); err != nil || !isHomePlace(strings.Split(rel, "/")[0]) && !slices.Contains(searchedPlaces, strings.Split(rel, "/")[0]) {
				t.Errorf("daemon %v: %s is not in homePlaces: purge its texts, or list it", withDaemon, rel)
			}
			if strings.HasSuffix(name, "crab_user_3.jsonl") && string(b) != other {
				t.Errorf("daemon %v: %s is %s", withDaemon, name, b)
			}
			if strings.HasSuffix(name, "crab_user_2.jsonl") && !bytes.Contains(b, []byte(`"content":"{\"hits\":[\"[purged]\"]}","tool_call_id":"1"`)) {
				t.Errorf("daemon %v: %s is %s", withDaemon, name, b)
			}
		}
		if after := run(0, "export", "--space", "team"); !strings.HasSuffix(before, after) || !strings.Contains(after, "the team's vault") {
			t.Errorf("daemon %v: other entries\n%s\nwant\n%s", withDaemon, after, before)
		}
		if after := run(0, "show", "other"); after != shown {
			t.Errorf("daemon %v: %s, want %s", withDaemon, after, shown)
		}
		run(0, "verify")
		if _, _, code := p.runs("show", "plan"); code != 3 {
			t.Errorf("daemon %v: show: exit code %d", withDaemon, code)
		}
	}
}

// searchedPlaces are names in a home that are not in homePlaces: a purge searches them for
// the bytes of a text, and names a file that has one.
var searchedPlaces = []string{"config.toml", "Crab.md", "agents", "skills", "crons.toml", "models", "run", "mcp-token"}

// TestPurgeNamesOtherFiles purges a text that a file has for which there is no purge. The
// file is named, and the entry is kept until it is corrected.
func TestPurgeNamesOtherFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t, false)
	const text = `a line with "quotes" and code 4711`
	p.runs("remember", "plan", text)
	p.write("later/state.json", `{"text":"a line with \"quotes\" and code 4711"}`)
	p.write("Crab.md", "# Crab\n"+text+"\n")
	out, _, code := p.runs("forget", "plan", "--purge", "--everywhere")
	if code != 1 || !strings.Contains(out, "later/state.json") || !strings.Contains(out, "Crab.md") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	p.write("later/state.json", "{}")
	p.write("Crab.md", "# Crab\n")
	if out, _, code = p.runs("forget", "plan", "--purge", "--everywhere"); code != 0 {
		t.Errorf("after the correction: exit code %d:\n%s", code, out)
	}
}

// homeFiles returns the files of the home.
func (p *place) homeFiles() map[string][]byte {
	p.t.Helper()
	files := make(map[string][]byte)
	err := filepath.WalkDir(p.home, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		files[name], err = os.ReadFile(name)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return files
}

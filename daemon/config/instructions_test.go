package config_test

import (
	"errors"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/config"
)

func TestInstructions(t *testing.T) {
	m := faultfs.NewMem()
	for _, dir := range []string{"/h/x/a", "/w/x/y", "/w/link", "/w/dir/Crab.md", "/w/empty/z"} {
		if err := vfs.MkdirAll(m, dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"/h/Crab.md": "home\n", "/Crab.md": "\nroot\n\n", "/w/Crab.md": "w", "/w/x/y/Crab.md": "y\xff", "/h/x/a/Crab.md": "a",
		"/w/empty/Crab.md": " \n", "/w/empty/z/Crab.md": "z", "/secret": "secret",
	} {
		m.WriteFile(name, []byte(text), 0o600)
	}
	m.Symlink("/secret", "/w/link/Crab.md")
	m.Symlink("/w/x", "/other")
	for _, c := range []struct{ dir, agent, want string }{
		{"/w/x/y", "dev", "home\n\nroot\n\nw\n\ny\ufffd"},
		{"/w/x/y", "crab", "root\n\nw\n\ny\ufffd"},
		{"/w/x", "dev", "home\n\nroot\n\nw"},
		{"/", "dev", "home\n\nroot"},
		{"/h/x/a", "dev", "home\n\nroot\n\na"},
		{"/h/x/a", "crab", "root\n\na"},
		{"/h", "dev", "home\n\nroot"},
		{"/w/link", "dev", "home\n\nroot\n\nw"},
		{"/w/dir", "dev", "home\n\nroot\n\nw"},
		{"/w/empty/z", "crab", "root\n\nw\n\nz"},
		{"/other/y", "dev", "home\n\nroot\n\nw\n\ny\ufffd"}, // where the directory is, not how it was reached
		{"/w/missing", "dev", "home\n\nroot\n\nw"},
	} {
		got, err := config.Instructions(m, "/h", c.dir, c.agent)
		if err != nil || got != c.want {
			t.Errorf("%s in %s: %q, %v, want %q", c.agent, c.dir, got, err, c.want)
		}
	}
	if got, err := config.Instructions(faultfs.NewMem(), "/none", "/", "dev"); err != nil || got != "" {
		t.Errorf("no files: %q, %v", got, err)
	}
	m.Chmod("/w/Crab.md", 0)
	if got, err := config.Instructions(m, "/h", "/w", "dev"); err != nil || got != "home\n\nroot" {
		t.Errorf("one that may not be read: %q, %v", got, err)
	}
	broken := errors.New("disk")
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "read" {
			return broken
		}
		return nil
	}
	if _, err := config.Instructions(m, "/h", "/w", "dev"); !errors.Is(err, broken) {
		t.Errorf("a broken disk: %v", err)
	}
}

// TestIdentityFiles checks that crab's prompt and the instructions of other agents
// contain the files of the home in one order, and not those of other directories.
func TestIdentityFiles(t *testing.T) {
	for _, c := range []struct {
		names, prompt, instructions string
	}{
		{"Crab.md SOUL.md IDENTITY.md USER.md", "Crab.md\n\nSOUL.md\n\nIDENTITY.md\n\nUSER.md", "Crab.md\n\nSOUL.md\n\nIDENTITY.md\n\nUSER.md"},
		{"Crab.md", "Crab.md\n", "Crab.md"},
		{"IDENTITY.md", "IDENTITY.md", "IDENTITY.md"},
		{"USER.md SOUL.md", "SOUL.md\n\nUSER.md", "SOUL.md\n\nUSER.md"},
		{"USER.md", config.DefaultPrompt + "\n\nUSER.md", "USER.md"},
		{"", config.DefaultPrompt, ""},
	} {
		files := make(map[string]string)
		for _, name := range strings.Fields(c.names) {
			files[name] = name + "\n"
		}
		m := newHome(t, files)
		if err := vfs.MkdirAll(m, "/work", 0o700); err != nil {
			t.Fatal(err)
		}
		m.WriteFile("/work/SOUL.md", []byte("of another"), 0o600)
		conf, err := config.Load(m, "/h", getenv)
		if err != nil {
			t.Fatal(err)
		}
		if got := conf.Agents[0].Prompt; got != c.prompt {
			t.Errorf("%s: prompt %q, want %q", c.names, got, c.prompt)
		}
		if n := len(strings.Fields(c.names)); len(conf.Identity) != n {
			t.Errorf("%s: %d files, want %d: %v", c.names, len(conf.Identity), n, conf.Identity)
		}
		for agent, want := range map[string]string{"dev": c.instructions, "crab": ""} {
			if got, err := config.Instructions(m, "/h", "/work", agent); err != nil || got != want {
				t.Errorf("%s: instructions of %s: %q, %v, want %q", c.names, agent, got, err, want)
			}
		}
	}
	m := newHome(t, map[string]string{"USER.md": strings.Repeat("é", 9<<10)})
	const note = "\n[/h/USER.md is longer: this is its first 16 KiB]"
	conf, err := config.Load(m, "/h", getenv)
	if err != nil || len(conf.Warnings) != 1 || conf.Warnings[0].String() != "/h/USER.md: 18432 bytes: agents receive the first 16384: shorten it" ||
		!strings.HasSuffix(conf.Agents[0].Prompt, "é"+note) || len(conf.Agents[0].Prompt) > len(config.DefaultPrompt)+2+16<<10 {
		t.Errorf("a long file: %v, %v", err, conf.Warnings)
	}
	if text, err := config.Instructions(m, "/h", "/", "dev"); err != nil || !strings.HasSuffix(text, "é"+note) || len(text) > 16<<10 {
		t.Errorf("a long file: %d bytes, %v", len(text), err)
	}
	m.Symlink("/h/USER.md", "/h/SOUL.md")
	if _, err := config.Load(m, "/h", getenv); err == nil || !strings.HasPrefix(err.Error(), "/h/SOUL.md: not a regular file") {
		t.Errorf("a link: %v", err)
	}
}

func TestInstructionsAreBounded(t *testing.T) {
	m := faultfs.NewMem()
	if err := vfs.MkdirAll(m, "/h", 0o700); err != nil {
		t.Fatal(err)
	}
	m.WriteFile("/h/Crab.md", []byte(strings.Repeat("é", 32<<10)+"!"), 0o600)
	got, err := config.Instructions(m, "/h", "/", "dev")
	note := "\n[/h/Crab.md is longer: this is its first 64 KiB]"
	if err != nil || len(got) > 64<<10 || len(got) < 64<<10-1 || !strings.HasSuffix(got, "é"+note) {
		t.Errorf("%d bytes, %v, ends in %q", len(got), err, got[max(0, len(got)-80):])
	}
	m.WriteFile("/h/Crab.md", []byte(strings.Repeat("h", 64<<10)), 0o600)
	dir := ""
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		dir += "/" + name
		if err := vfs.MkdirAll(m, dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m.WriteFile(dir+"/Crab.md", []byte(strings.Repeat(name, 60<<10)), 0o600)
	}
	got, err = config.Instructions(m, "/h", dir, "dev")
	if err != nil || len(got) != 64<<10+3*(60<<10)+6 || got[0] != 'h' || got[64<<10+2] != 'c' || got[len(got)-1] != 'e' {
		t.Errorf("%d bytes, %v: not the home and the three innermost", len(got), err)
	}
}

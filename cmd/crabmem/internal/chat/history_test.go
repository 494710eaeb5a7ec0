package chat

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
)

func TestChatHistory(t *testing.T) {
	home := t.TempDir()
	if texts, err := loadHistory(vfs.OS{}, home); err != nil || len(texts) != 0 {
		t.Fatalf("%q, %v", texts, err)
	}
	said := []string{"one", "two\nlines\\n", `\`, "日本", "all:\n\tgo build"}
	for _, text := range append(said, " a secret", "", strings.Repeat("x", maxHistoryText+1)) {
		if err := addHistory(vfs.OS{}, home, text); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := loadHistory(vfs.OS{}, home)
	if err != nil || !slices.Equal(texts, said) {
		t.Errorf("got %q, %v; want %q", texts, err, said)
	}
	fi, err := os.Stat(historyFile(home))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}

	// What has grown too long is cut, and nothing in it moves the cursor.
	f, err := os.OpenFile(historyFile(home), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxHistory {
		fmt.Fprintf(f, "text %d\x1b[2J\n", i)
	}
	f.Close()
	for range 2 {
		texts, err := loadHistory(vfs.OS{}, home)
		if err != nil || len(texts) != maxHistory || texts[maxHistory-1] != fmt.Sprintf("text %d[2J", 3*maxHistory-1) {
			t.Errorf("%d texts, %v", len(texts), err)
		}
		if b, err := os.ReadFile(filepath.Join(home, "history")); err != nil || strings.Count(string(b), "\n") != maxHistory {
			t.Errorf("%d lines, %v", strings.Count(string(b), "\n"), err)
		}
	}
}

// TestPurgeHistory removes messages from the history file, and keeps the others.
func TestPurgeHistory(t *testing.T) {
	home := t.TempDir()
	name := filepath.Join(home, "history")
	contains := func(text string) bool { return strings.Contains(text, "two\nlines") }
	if path, err := PurgeHistory(vfs.OS{}, home, false, contains); path != "" || err != nil {
		t.Errorf("no file: %q, %v", path, err)
	}
	if err := os.WriteFile(name, []byte("one\nmy two\\nlines\ntwo\\\\nlines"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if path, err := PurgeHistory(vfs.OS{}, home, dry, contains); path != name || err != nil {
			t.Errorf("dry %v: %q, %v", dry, path, err)
		}
	}
	if b, err := os.ReadFile(name); string(b) != "one\ntwo\\\\nlines" || err != nil {
		t.Errorf("history %q, %v", b, err)
	}
}

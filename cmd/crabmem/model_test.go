package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/catalog"
)

// TestModelAddByName downloads a model whose server first cuts and then alters a file.
func TestModelAddByName(t *testing.T) {
	dir, home := filepath.Join(top, "testdata", "static"), t.TempDir()
	m := catalog.Model{Name: "tiny", License: "MIT", About: "a test", Owner: "o", Revision: "r"}
	files := map[string][]byte{}
	for _, f := range catalog.Models[0].Files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		files["/o/tiny/resolve/r/"+f.Name] = b
		m.Files = append(m.Files, catalog.File{Name: f.Name, Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])})
	}
	before := catalog.Models
	catalog.Models = append(slices.Clone(before), m)
	defer func() { catalog.Models = before }()
	var change func([]byte) []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := change(files[r.URL.Path])
		if r.Header.Get("Range") != "" {
			t.Errorf("request with range %s", r.Header.Get("Range"))
		}
		w.Write(b)
	}))
	defer s.Close()
	add := func() (int, string) {
		var out, diag bytes.Buffer
		c := newApp(strings.NewReader(""), &out, &diag)
		c.Getenv = func(k string) string {
			return map[string]string{"CRABTALK_HOME": home, "HF_ENDPOINT": s.URL + "/"}[k]
		}
		code := c.report(c.execute(t.Context(), []string{"model", "add", "tiny"}))
		return code, out.String() + diag.String()
	}
	installed := filepath.Join(home, "models", "tiny")

	change = func(b []byte) []byte { b = bytes.Clone(b); b[0]++; return b }
	code, out := add()
	if code != 1 || !strings.Contains(out, "error: download tiny: GET "+s.URL+"/o/tiny/resolve/r/tokenizer.json: the SHA-256 digest is ") ||
		!strings.Contains(out, "try: run the command again to continue, or download tokenizer.json and model.safetensors from https://huggingface.co/o/tiny/tree/r into a folder tiny, ") {
		t.Errorf("altered: exit code %d\n%s", code, out)
	}
	if _, err := os.Lstat(installed); err == nil {
		t.Error("altered files are installed")
	}
	change = func(b []byte) []byte { return b }
	if code, out := add(); code != 0 || out != "installed tiny: to use it, run crabmem config set embedder.static tiny\n" {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if list, err := os.ReadDir(filepath.Dir(installed)); err != nil || len(list) != 1 || list[0].Name() != "tiny" {
		t.Errorf("the folder has %v, %v", list, err)
	}
	if code, out := add(); code != 4 {
		t.Errorf("a second add: exit code %d\n%s", code, out)
	}
}

package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
)

// worstEntries returns the largest entries that the limits permit, in characters that an
// encoding may lengthen. Without CRABMEM_WORST it returns the one that JSON lengthens most.
func worstEntries() (list []crmem.Entry) {
	characters := []string{"\x01", "\n", `"`, "<", "\u2028"}
	if os.Getenv("CRABMEM_WORST") == "" {
		characters = characters[:1]
	}
	for i, c := range characters {
		fill := func(begin string, size int) string {
			text := begin + strings.Repeat(c, (size-len(begin))/len(c))
			return text + strings.Repeat("x", size-len(text))
		}
		e := crmem.Entry{Name: fmt.Sprint("worst ", i), Content: fill(fmt.Sprint("canary", i, " "), crmem.MaxContent)}
		for n := range crmem.MaxAliases {
			e.Aliases = append(e.Aliases, fill(fmt.Sprintf("%d %04d ", i, n), crmem.MaxName))
		}
		list = append(list, e)
	}
	return list
}

// TestWorstEntries writes, reads, lists, searches, and merges the largest entries, over the
// socket and over HTTP.
func TestWorstEntries(t *testing.T) {
	race.Skip(t)
	r := newRig(t)
	r.check = false // it takes minutes
	c := &client.Client{Addr: r.addr}
	defer c.Close()
	ctx := t.Context()
	for i, want := range worstEntries() {
		same := func(where string, got *crmem.Entry, err error) {
			t.Helper()
			if err != nil || got.Name != want.Name || got.Content != want.Content || !slices.Equal(got.Aliases, want.Aliases) {
				t.Errorf("entry %d, %s: %v", i, where, err)
			}
		}
		shows := func(where string, p *response, status int) (e op.Entry) {
			t.Helper()
			if err := json.Unmarshal(p.body, &e); err != nil || p.StatusCode != status || e.Content == nil {
				t.Fatalf("entry %d, %s: %d %.300s, %v", i, where, p.StatusCode, p.body, err)
			}
			same(where, &crmem.Entry{Name: e.Name, Content: *e.Content, Aliases: e.Aliases}, nil)
			return e
		}
		hits := func(where string, n int, err error) {
			t.Helper()
			if err != nil || n != 1 {
				t.Errorf("entry %d, %s: %d hits, %v", i, where, n, err)
			}
		}
		query := fmt.Sprint("canary", i)

		// HTTP
		p := r.do("root", "POST", "/v1/memories", op.NewEntry{Name: want.Name, Content: want.Content, Aliases: want.Aliases})
		if p.StatusCode != http.StatusCreated {
			t.Fatalf("entry %d: create: %d %.300s", i, p.StatusCode, p.body)
		}
		e := shows("show", r.do("root", "GET", p.Header.Get("Location"), nil), http.StatusOK)
		p = r.do("root", "PUT", fmt.Sprint("/v1/memories/", e.ID), object{"content": want.Content, "aliases": want.Aliases}, "If-Match", e.ETag)
		if p.StatusCode != http.StatusOK {
			t.Errorf("entry %d: replace: %d %.300s", i, p.StatusCode, p.body)
		}
		var page op.EntryPage
		p = r.do("root", "GET", "/v1/memories?view=full", nil)
		if err := json.Unmarshal(p.body, &page); err != nil || len(page.Items) != 1 || *page.Items[0].Content != want.Content {
			t.Errorf("entry %d: list: %d %.300s, %v", i, p.StatusCode, p.body, err)
		}
		var found op.SearchResult
		p = r.do("root", "POST", "/v1/recall", object{"query": query, "full": true})
		err := json.Unmarshal(p.body, &found)
		if hits("recall", len(found.Hits), err); len(found.Hits) == 1 && *found.Hits[0].Entry.Content != want.Content {
			t.Errorf("entry %d: recall: another content", i)
		}
		if p := r.do("root", "GET", fmt.Sprintf("/v1/memories/%d/history", e.ID), nil); p.StatusCode != http.StatusOK || bytes.Contains(p.body, []byte("error")) {
			t.Errorf("entry %d: history: %d %.300s", i, p.StatusCode, p.body)
		}

		// the socket
		got, err := op.ReadEntry(ctx, c, op.EntryName{Name: want.Name})
		same("get", &got, err)
		_, err = op.Forget.Do(ctx, c, op.Removal{Name: want.Name})
		if err != nil {
			t.Fatal(err)
		}
		written, err := op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: want.Name, Content: want.Content, Aliases: want.Aliases}})
		stored := written.Entry()
		if same("remember", &stored, err); !written.Created {
			t.Errorf("entry %d: it existed", i)
		}
		var listed []crmem.Entry
		err = op.ListEntries.Each(ctx, c, op.EntryFilter{Content: true}, func(part []crmem.Entry) error { listed = append(listed, part...); return nil })
		if err != nil || len(listed) != 1 {
			t.Fatal(len(listed), err)
		}
		same("list", &listed[0], nil)
		a, err := op.Recall.Do(ctx, c, op.Question{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		if hits("recall over the socket", len(a.Hits), nil); *a.Hits[0].Content != want.Content {
			t.Errorf("entry %d: recall over the socket: another content", i)
		}
		dir := filepath.Join(r.home, query)
		if err := r.dump(dir); err != nil {
			t.Fatal(err)
		}
		changeTree(t, dir, "canary", "Canary")
		want.Content = strings.Replace(want.Content, "canary", "Canary", 1)
		var report *op.LoadAnswer
		err = op.LoadTree.Each(ctx, c, op.TreeLoad{Dir: dir, Merge: true}, func(p op.LoadPart) error { report = p.Report; return nil })
		if err != nil || len(report.Changed) != 1 {
			t.Errorf("entry %d: load: %+v, %v", i, report, err)
		}
		got, err = op.ReadEntry(ctx, c, op.EntryName{Name: want.Name})
		same("merged", &got, err)
		if _, err = op.Forget.Do(ctx, c, op.Removal{Name: want.Name}); err != nil {
			t.Fatal(err)
		}
	}
}

// dump writes the entries as a tree.
func (r *rig) dump(dir string) error {
	s, err := crmem.Open(filepath.Join(r.home, "memory.db"), &crmem.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	_, err = tree.Dump(s, dir, nil)
	return errors.Join(err, s.Close())
}

// changeTree replaces a text in the only file of a tree that contains it.
func changeTree(t *testing.T, dir, old, new string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(b, []byte(old)); at >= 0 {
			changed++
			if err := os.WriteFile(name, bytes.Replace(b, []byte(old), []byte(new), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if changed != 1 {
		t.Fatalf("%d of %q contain %s", changed, list, old)
	}
}

package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// TestCheckedTexts changes the store with each operation that writes a text, for the
// owner, an admin, and an identity with a space: a secret, or a text without a visible
// character, is refused, and nothing changes. Only the owner and the admin may skip the
// check for secrets.
func TestCheckedTexts(t *testing.T) {
	const secret = "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	s := serve(t, home(t), identities)
	ctx := t.Context()
	note := func(c *client.Client) crmem.Op {
		e, err := op.ReadEntry(ctx, c, op.EntryName{Name: "plain"})
		if err != nil {
			t.Fatal(err)
		}
		return crmem.Unchanged{Entry: e}
	}
	remember := func(o crmem.Remember) func(*client.Client) error {
		return func(c *client.Client) error { _, err := op.Remember.Do(ctx, c, op.Note{Remember: o}); return err }
	}
	apply := func(change crmem.Op) func(*client.Client) error {
		return func(c *client.Client) error { _, err := op.ApplyOps(ctx, c, note(c), change); return err }
	}
	owners := []string{"", "api:root"}
	writes := map[string]struct {
		kind  string
		only  bool // of owners
		write func(*client.Client) error
	}{
		"remember":        {"secret", false, remember(crmem.Remember{Name: "new", Content: "a " + secret})},
		"remember name":   {"secret", false, remember(crmem.Remember{Name: secret, Content: "a"})},
		"metadata":        {"secret", false, remember(crmem.Remember{Name: "new", Content: "a", Metadata: &metadata.Edit{Set: []metadata.Field{{Key: "source", Values: []string{secret}}}}})},
		"add":             {"secret", false, apply(crmem.Add{Name: "new", Content: secret})},
		"update":          {"secret", false, apply(crmem.Update{Name: "plain", Content: secret})},
		"alias in apply":  {"secret", false, apply(crmem.Alias{Name: "plain", Aliases: []string{secret}})},
		"rename":          {"secret", false, apply(crmem.Rename{Name: "plain", To: secret})},
		"restore":         {"secret", true, apply(crmem.Restore{Entry: crmem.Entry{ID: 99, Name: "new", Content: secret}})},
		"empty remember":  {"invalid", false, remember(crmem.Remember{Name: "plain"})},
		"blank new":       {"invalid", false, remember(crmem.Remember{Name: "new", Content: " \n"})},
		"empty with tags": {"invalid", false, remember(crmem.Remember{Name: "plain", Metadata: &metadata.Edit{Set: []metadata.Field{{Key: "type", Values: []string{"x"}}}}})},
		"empty add":       {"invalid", false, apply(crmem.Add{Name: "new"})},
		"empty update":    {"invalid", false, apply(crmem.Update{Name: "plain", Content: "\t"})},
	}
	for _, who := range append(slices.Clone(owners), "api:a") {
		c := s.as(who)
		if _, err := op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: "plain", Content: "text"}}); err != nil {
			t.Fatal(err)
		}
		isOwner := slices.Contains(owners, who)
		for what, w := range writes {
			if w.only && !isOwner {
				continue
			}
			for _, exact := range []bool{false, true} {
				c.AllowSecrets, c.AllowEmpty = exact, exact
				err := w.write(c)
				e, refused := errors.AsType[*client.Error](err)
				if !exact || w.kind == "secret" && !isOwner {
					if !refused || e.Kind != w.kind || e.Remedy == "" && errtable.Find(err).Fix == "" {
						t.Errorf("%q, %s, exact %v: %v", who, what, exact, err)
					}
				} else if err != nil {
					t.Errorf("%q, %s, exact: %v", who, what, err)
				}
				var names []string
				for e, err := range op.Entries(ctx, c, op.EntryFilter{Content: true}) {
					if err != nil {
						t.Fatal(err)
					}
					names = append(names, e.Name+" "+e.Content)
				}
				if isChanged := !slices.Equal(names, []string{"plain text"}); isChanged && (!exact || w.kind == "secret" && !isOwner) {
					t.Errorf("%q, %s: the store has %q", who, what, names)
				}
				for e, err := range op.Entries(ctx, c, op.EntryFilter{}) { // as before
					if err == nil {
						_, err = op.ApplyOps(ctx, c, crmem.Unchanged{Entry: fresh(t, c, e.Name)}, crmem.Remove{Name: e.Name})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if _, err := op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: "plain", Content: "text"}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func fresh(t *testing.T, c *client.Client, name string) crmem.Entry {
	t.Helper()
	e, err := op.ReadEntry(t.Context(), c, op.EntryName{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestCheckedTextsPolicy: the daemon reads the setting when it finds a secret, redacts the
// text, and warns the client, which receives the stored text.
func TestCheckedTextsPolicy(t *testing.T) {
	const secret = "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	s := serve(t, home(t), "")
	var warned []string
	c := s.client()
	c.Warn = func(text string) { warned = append(warned, text) }
	if err := os.WriteFile(filepath.Join(s.home, "config.toml"), []byte("[memory]\nsecrets = \"redact\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := op.ApplyOps(t.Context(), c, crmem.Add{Name: "a", Content: "x " + secret}, crmem.Add{Name: "b", Content: "plain"})
	if err != nil || list[0].Content != "x [redacted: github-token]" || list[1].Content != "plain" || len(warned) != 1 {
		t.Errorf("%v, %v, warnings %q", list, err, warned)
	}
	r, err := op.Remember.Do(t.Context(), c, op.Note{Remember: crmem.Remember{Name: "a", Content: secret}})
	if err != nil || r.Entry().Content != "[redacted: github-token]" || len(warned) != 2 {
		t.Errorf("%v, %v, warnings %q", r, err, warned)
	}
}

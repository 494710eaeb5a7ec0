package vault

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/crmem/metadata/metatest"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// The rules of Obsidian that a vault must follow, from Obsidian Help. Each rule reports
// an error in the value of a property.
var propertyRules = map[string]func(v any) bool{
	"tags":       listOf(regexp.MustCompile(`^[\p{L}\p{M}\p{N}\p{So}_/-]*[^\p{N}][\p{L}\p{M}\p{N}\p{So}_/-]*$`)),
	"aliases":    listOf(regexp.MustCompile(`(?s).*`)),
	"crabmem-id": func(v any) bool { _, ok := v.(int); return ok },
	"crabmem-created": func(v any) bool {
		s, _ := v.(string)
		_, err := time.Parse("2006-01-02T15:04:05", s)
		return err == nil
	},
}

// fileRules match names of files that Obsidian or a file system does not accept.
var fileRules = map[string]*regexp.Regexp{
	"characters of links":       regexp.MustCompile(`[\[\]#^|]`),
	"characters of Windows":     regexp.MustCompile(`[\x00-\x1f\\/:*?"<>]`),
	"hidden":                    regexp.MustCompile(`^\.`),
	"dot or space at the end":   regexp.MustCompile(`[. ]$`),
	"device of Windows":         regexp.MustCompile(`(?i)^(con|prn|aux|nul|com\d|lpt\d)(\.|$)`),
	"longer than a file system": regexp.MustCompile(`(?s)^.{251}`),
}

func listOf(valid *regexp.Regexp) func(any) bool {
	return func(v any) bool {
		list, ok := v.([]any)
		return v == nil || ok && !slices.ContainsFunc(list, func(item any) bool {
			if _, day := item.(time.Time); day { // text for Obsidian
				return false
			}
			s, ok := item.(string)
			return !ok || !valid.MatchString(s)
		})
	}
}

// wikilink matches a link as Obsidian reads it: the file, a heading or block, and the text.
var wikilink = regexp.MustCompile(`\[\[([^\[\]|#^\r\n]+?)(?:[#^][^\[\]|]*)?(?:\\?\|[^\r\n]*?)?\]\]`)

// TestRules exports entries with links by name and alias, and checks the vault with the
// rules of Obsidian: each link that crabmem resolves leads to the file of the same entry.
func TestRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	names := []string{"deploy", "Deploy", "a/b", "con", ".dot", "x|y", "what?", "[1]", "n.md", "e\u0301", "100%", "a#b", "a^b", "dot.", "v1.2", "日本", strings.Repeat("long ", 60)}
	var entries []crmem.Entry
	var targets []string
	for i := range 400 {
		name := fmt.Sprint("note ", i)
		if i < len(names) {
			name = names[i]
		}
		e := crmem.Entry{ID: uint64(i + 1), Name: name, CreatedAt: 1_700_000_000 + crmem.UnixTime(i), Kind: crmem.Kind(i % 5 / 4)}
		for j := range rng.IntN(3) {
			e.Aliases = append(e.Aliases, fmt.Sprint([]string{"alias/", "Alias ", "alias: ", "20"}[rng.IntN(4)], i, j))
		}
		entries = append(entries, e)
		for _, n := range append([]string{name}, e.Aliases...) {
			if _, err := metadata.LinkTo(n); err == nil {
				targets = append(targets, n)
			}
		}
	}
	for i := range entries {
		e := &entries[i]
		if e.Content = ""; i%3 == 0 {
			e.Content = metatest.Front(rng)
		}
		for range rng.IntN(5) {
			e.Content += fmt.Sprintf([]string{"[[%s]]\n", "see [[%s|text]]. ", "\n| [[%s]] |\n"}[rng.IntN(3)], targets[rng.IntN(len(targets))])
		}
	}
	mem := faultfs.NewMem()
	s := crmem.New(&crmem.Options{FS: mem})
	for _, e := range entries {
		if err := s.Apply(crmem.Restore{Entry: e}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tree.Dump(s, "/vault", &tree.DumpOptions{Format: Format()}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{} // by stem in lower case
	owner := map[string]string{} // name of the entry, by stem
	for _, dir := range []string{"/vault/notes", "/vault/archives"} {
		list, err := mem.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			stem := strings.TrimSuffix(f.Name(), ".md")
			b, err := vfs.ReadFile(mem, dir+"/"+f.Name(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for rule, invalid := range fileRules {
				if invalid.MatchString(stem) {
					t.Errorf("%q: %s", stem, rule)
				}
			}
			if _, twice := files[strings.ToLower(stem)]; twice {
				t.Errorf("%q: two files", stem)
			}
			p, err := Read(string(b), stem)
			if err != nil {
				t.Fatal(err)
			}
			files[strings.ToLower(stem)], owner[stem] = string(b), p.Name
		}
	}
	checked := checkRules(t, entries, files, owner)
	if checked < 500 {
		t.Errorf("only %d links", checked)
	}
	t.Logf("notes: %d, links that resolve in both: %d", len(files), checked)
}

// checkRules checks properties and links, and returns the number of links.
func checkRules(t *testing.T, entries []crmem.Entry, files, owner map[string]string) (links int) {
	byName := map[string]string{}
	for _, e := range entries {
		for _, a := range e.Aliases {
			byName[a] = e.Name
		}
	}
	for _, e := range entries {
		byName[e.Name] = e.Name
	}
	stemOf := map[string]string{}
	for stem, name := range owner {
		stemOf[name] = stem
	}
	for _, e := range entries {
		page := files[strings.ToLower(stemOf[e.Name])]
		_, front, _, text, ok := metadata.Split(page)
		props := map[string]any{}
		if err := yaml.Unmarshal([]byte(front), &props); err != nil || !ok {
			t.Fatalf("%q: %v", page, err)
		}
		for key, valid := range propertyRules {
			if v, has := props[key]; has && !valid(v) {
				t.Errorf("%q: %s is %v", page, key, v)
			}
		}
		m, body, _ := metadata.Parse(e.Content)
		if tags, _ := props["tags"].([]any); len(m.Tags()) > 0 && len(tags) == 0 {
			t.Errorf("%q has no tags, want %q", page, m.Tags())
		}
		var want, got []string
		metadata.ReplaceLinks(e.Content[body:], func(link, _ string) string {
			want = append(want, byName[metadata.Target(link)])
			return link
		})
		metadata.ReplaceLinks(text, func(link, _ string) string {
			name := ""
			if m := wikilink.FindStringSubmatch("[[" + link + "]]"); m != nil {
				if p, err := Read(files[strings.ToLower(m[1])], m[1]); err == nil && p.Exported {
					name = p.Name
				}
			}
			got = append(got, name)
			return link
		})
		for i := range want {
			if want[i] != "" && got[i] != want[i] {
				t.Errorf("link %d of\n%q leads to %q, want %q", i, page, got[i], want[i])
			}
			if want[i] != "" {
				links++
			}
		}
	}
	return links
}

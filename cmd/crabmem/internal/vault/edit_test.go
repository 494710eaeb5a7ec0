package vault

import (
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// linkEntries are the targets of links in tests.
var linkEntries = []crmem.Entry{
	{ID: 1, Name: "deploy", Aliases: []string{"ship", "boat", "both"}},
	{ID: 2, Name: "a/b", Aliases: []string{"both"}},
	{ID: 3, Name: "Deploy"},
}

var linkStems = []string{"deploy", "a=2Fb", "Deploy~1"}

// TestLinks compares the links of a note with those of the entry.
func TestLinks(t *testing.T) {
	for content, want := range map[string]string{
		"[[deploy]] [[nowhere]] [[both]]":         "",
		"[[ship]]":                                "[[deploy|ship]]",
		"[[ship|the ship]]":                       "[[deploy|the ship]]",
		"[[a/b]] [[Deploy]]":                      "[[a=2Fb|a/b]] [[Deploy~1|Deploy]]",
		"[[ ship ]][[ship]]":                      "[[deploy| ship ]][[deploy|ship]]",
		"[[ship|x]] [[boat|x]] [[boat]]":          "[[deploy|x]] [[boat|x]] [[deploy|boat]]",
		"[[ship]] [[deploy|ship]] [[a/b]]":        "[[ship]] [[deploy|ship]] [[a=2Fb|a/b]]",
		"| [[ship]] | [[a/b|x]] |\n| - | - |\n":   "| [[deploy\\|ship]] | [[a=2Fb\\|x]] |\n| - | - |\n",
		"`[[ship]]` [[ship]]\n```\n[[ship]]\n```": "`[[ship]]` [[deploy|ship]]\n```\n[[ship]]\n```",
	} {
		if want == "" {
			want = content
		}
		e := crmem.Entry{ID: 4, Name: "n", Content: content}
		page := exported(append(slices.Clip(linkEntries), e), append(slices.Clip(linkStems), "n"))[3]
		if _, _, _, text, _ := metadata.Split(page); text != want {
			t.Errorf("%q: %q, want %q", content, text, want)
		}
	}
}

// TestTags compares tags with the form that Obsidian accepts.
func TestTags(t *testing.T) {
	for tag, want := range map[string]string{"a": "a", "#a/b": "a/b", "two words": "two-words", "1984": "_1984", "1e5": "_1e5", "y1984": "y1984", "été": "été", "a.b!": "a-b", "!": "", "日本": "日本", "-1": "_-1", "inf": "inf"} {
		if got := shownTag(tag); got != want {
			t.Errorf("%q: %q, want %q", tag, got, want)
		}
	}
}

// TestEdits reads notes after edits as people and Obsidian make them.
func TestEdits(t *testing.T) {
	for name, c := range map[string]struct {
		content  string
		old, new string // in the page
		want     func(e *crmem.Entry)
		fail     string
	}{
		"text":             {"x\n", "x\n", "y\n[[deploy|ship]]", func(e *crmem.Entry) { e.Content = "y\n[[deploy|ship]]" }, ""},
		"link to a file":   {"[[ship]]", "[[deploy|ship]]", "[[deploy|ship]] [[deploy]]", func(e *crmem.Entry) { e.Content = "[[ship]] [[deploy]]" }, ""},
		"new property":     {"x", "crabmem-id", "status: done\ncrabmem-id", func(e *crmem.Entry) { e.Content = "---\nstatus: done\n---\nx" }, ""},
		"any YAML":         {"x", "crabmem-id", "map:\n  a: {b: c}\ncrabmem-id", func(e *crmem.Entry) { e.Content = "---\nmap:\n  a: {b: c}\n---\nx" }, ""},
		"comment":          {"x", "---\nx", "# c\n---\nx", func(e *crmem.Entry) { e.Content = "---\n# c\n---\nx" }, ""},
		"changed property": {"---\ntype: goal\n---\nx", "goal", "todo", func(e *crmem.Entry) { e.Content = "---\ntype: todo\n---\nx" }, ""},
		"removed property": {"---\ntype: goal\n---\nx", "type: goal\n", "", func(e *crmem.Entry) { e.Content = "x" }, ""},
		"block of aliases": {"x", "aliases: [\"n/4\", \"one\"]", "aliases:\n  - n/4\n  - one\n  - \"2\"", func(e *crmem.Entry) { e.Aliases = []string{"one", "2"} }, ""},
		"no aliases":       {"x", "aliases: [\"n/4\", \"one\"]\n", "", func(e *crmem.Entry) { e.Aliases = nil }, ""},
		"time":             {"x", "2023-11-14T22:13:20", "2023-11-14", func(e *crmem.Entry) { e.CreatedAt = 1_699_920_000 }, ""},
		"name":             {"x", "crabmem-name: \"n/4\"", "crabmem-name: other", func(e *crmem.Entry) { e.Name, e.Aliases = "other", []string{"n/4", "one"} }, ""},
		"kind":             {"x", "crabmem-name", "crabmem-kind: archive\ncrabmem-name", func(e *crmem.Entry) { e.Kind = crmem.Archive }, ""},
		"odd tags": {"---\ntags: [two words, x]\n# c\n---\nx", "tags: [two-words, x]", "tags:\n  - two-words\n  - new", func(e *crmem.Entry) {
			e.Content = "---\ntags: [two words, new]\n# c\n---\nx"
		}, ""},
		"one of two properties": {"---\ntags: two words\ntype: goal\n---\nx", "type: goal\n", "", func(e *crmem.Entry) {
			e.Content = "---\ntags: two words\n---\nx"
		}, ""},
		"relation": {"---\npart_of: \"[[ship]]\"\ntype: goal\n---\nx", "type: goal", "type: todo", func(e *crmem.Entry) {
			e.Content = "---\npart_of: \"[[ship]]\"\ntype: todo\n---\nx"
		}, ""},
		"odd tags and YAML": {"---\ntags: two words\n---\n[[ship]]", "aliases:", "map: {a: b}\naliases:", func(e *crmem.Entry) {
			e.Content = "---\ntags: [two-words]\nmap: {a: b}\n---\n[[ship]]"
		}, ""},
		"broken YAML":    {"x", "crabmem-id", "a: [\ncrabmem-id", nil, "front matter cannot be read"},
		"YAML on a line": {"x", "aliases", "{a: b}\naliases", nil, "front matter cannot be read"},
		"many lines":     {"x", "crabmem-id", strings.Repeat("\n", maxFrontLines) + "crabmem-id", nil, "more than 8192 lines"},
		"no properties":  {"x", "crabmem-id: 4\n", "", func(e *crmem.Entry) {}, ""},
	} {
		e := crmem.Entry{ID: 4, Name: "n/4", Content: c.content, Aliases: []string{"one"}, CreatedAt: 1_700_000_000}
		page := exported(append(slices.Clip(linkEntries), e), append(slices.Clip(linkStems), "n=2F4"))[3]
		edited := strings.Replace(page, c.old, c.new, 1)
		if edited == page {
			t.Errorf("%s: no %q in %q", name, c.old, page)
			continue
		}
		p, err := Read(edited, "n=2F4")
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: error %v, want %s", name, err, c.fail)
			}
			continue
		}
		if name == "no properties" { // the note is no longer one of crabmem
			e = crmem.Entry{Name: "n=2F4", Content: edited, Aliases: []string{"n/4", "one"}}
		} else {
			c.want(&e)
		}
		if err != nil || !p.Equal(e) {
			t.Errorf("%s:\n%q\nread %+v, %v\nwant %+v", name, edited, p, err, e)
		}
	}
}

// FuzzRead reads any note. The entry of the note survives an export.
func FuzzRead(f *testing.F) {
	for _, content := range hostile[:30] {
		f.Add(exported([]crmem.Entry{{ID: 1, Name: "n", Content: content}}, []string{"n"})[0])
		f.Add(content)
	}
	f.Add("---\ncrabmem-id: 1\ncrabmem-links: [\"a|b\", \"|\", \"\", x, {}]\ncrabmem-front: \"---\\ntags: a b\\n---\\n\"\ntags: [[a]]\n---\n[[a|b]] [[|]]")
	f.Fuzz(func(t *testing.T, page string) {
		p, err := Read(page, "n")
		if err != nil {
			return
		}
		stem := "n"
		if p.Name != "n" {
			stem = "other"
		}
		again := exported([]crmem.Entry{p.Entry}, []string{stem})[0]
		if q, err := Read(again, stem); err != nil || !q.Equal(p.Entry) {
			t.Fatalf("%q\nread %+v\nwritten %q\nread %+v, %v", page, p.Entry, again, q, err)
		}
	})
}

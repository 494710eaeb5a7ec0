package vault

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/crmem/metadata/metatest"
)

// exported returns the pages of entries. The stems are those of a tree without
// characters that file systems refuse.
func exported(entries []crmem.Entry, stems []string) []string {
	f := Format()
	f.Begin(entries, stems)
	var pages []string
	for i := range entries {
		pages = append(pages, string(f.Append(nil, &entries[i], stems[i])))
	}
	return pages
}

// hostile are contents that a careless format changes.
var hostile = []string{
	"", "\n", "---", "---\n", "---\n---", "---\n---\n", "---\r\n---\r\n", "---\n---\n---\na: b\n---\n", "\ufeff---\na: b\n---\nx", "a\r\nb\r\n", "a\r\nb\n", "no newline",
	"---\ntags: [a\n---\nbroken", "---\na: b\n", "--- \na: b\n---\n", "---\n- list\n---\n", "---\na: &x b\nc: *x\n---\n", "\x00", "a\x00\r\n",
	"---\ntype: decision\n---", "---\r\ntype: decision\r\n---\r\ntext", "---\r\ntype: decision\n---\ntext", "---\n# comment\n---\ntext", "---\n\n---\ntext",
	"---\naliases: [own]\n---\nx", "---\naliases:\n---\nx", "---\ncrabmem-id: 9\n---\nx", "---\ncrabmem: 1\ncrabmem-front: x\na: b\n---\nx",
	"---\ntags: release, infra\n---\n", "---\ntags: [two words, \"#ok\", 1984, 'a,b', ok]\n---\n", "---\ntags: []\n---\n",
	"---\nsupersedes: \"[[a/b]]\"\n---\n[[a/b]] [[ship]] [[ship|the ship]] [[boat|the ship]]",
	"[[ship]] and [[deploy|ship]]", "| [[ship]] |\n| - |\n", "`[[ship]]` [[ship]]\n```\n[[ship]]\n```\n", "[[[[ship]]]] [[ship ]] [[ ship|x]]",
	"---\nrelated: [\"[[ship]]\", '[[it''s]]']\n---\n[[it's]]", "[[shared]] [[SHIP]] [[nowhere]] [[ship\n]]", "[[deploy\\|ship]] [[ship]]",
	strings.Repeat("[[ship]] ", 1<<20) + "[[deploy|ship]]", manyLinks("[[ship|%d]]") + manyLinks("[[deploy|%d]]"), manyLinks("[[ship|%d]]"),
	strings.Repeat("x", 1<<20), "---\n" + strings.Repeat("k", metadata.MaxBytes) + "\n---\n",
}

// manyLinks returns many different links.
func manyLinks(format string) string {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	var entries []crmem.Entry
	var stems []string
	add := func(name, stem, content string, aliases ...string) {
		id := uint64(len(entries) + 1)
		entries = append(entries, crmem.Entry{ID: id, Name: name, Content: content, Aliases: aliases, Kind: crmem.Kind(id % 2), CreatedAt: crmem.UnixTime(id * id * 7919 * 7919 * 104729)})
		stems = append(stems, stem)
	}
	add("deploy", "deploy", "", "ship", "boat", "shared", "a]b")
	add("a/b", "a=2Fb", "", "it's", "shared", "")
	for i, content := range hostile {
		add(fmt.Sprint("n", i), fmt.Sprint("n", i), content)
		add(fmt.Sprint("n/", i), fmt.Sprint("n=2F", i), content, fmt.Sprint("n/", i), " \x00\u0085\u2028", "[[x]]", "true", "2026-01-01")
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 3000 {
		content := metatest.Front(rng)
		for range rng.IntN(4) {
			content += []string{"[[ship]]", "[[a/b]]", "\n", "`", "[[deploy|", "]]", "|", "[[boat|x]]", "\r\n"}[rng.IntN(9)]
		}
		if rng.IntN(3) == 0 {
			content = strings.ReplaceAll(content, "[[n]]", "[["+[]string{"ship", "a/b", "it's", "boat|x"}[rng.IntN(4)]+"]]")
		}
		add(fmt.Sprint("r", i), fmt.Sprint("r", i), content)
	}
	links := 0
	for i, page := range exported(entries, stems) {
		e := entries[i]
		p, err := Read(page, stems[i])
		if err != nil || !p.Exported || !p.Timed || !p.Equal(e) {
			t.Fatalf("entry %+v\npage %q\nread %+v, %v", e, page, p, err)
		}
		if !strings.HasPrefix(page, "---") {
			t.Fatalf("front matter is not first: %q", page)
		}
		if strings.Contains(page, "\n"+keyLinks) {
			links++
		}
		if strings.Contains(e.Content, "\r\n") {
			continue
		}
		for name, variant := range map[string]string{"byte order mark": "\ufeff" + page, "CRLF": strings.ReplaceAll(page, "\n", "\r\n")} {
			if p, err := Read(variant, stems[i]); err != nil || !p.Equal(e) {
				t.Fatalf("%s: entry %+v\npage %q\nread %+v, %v", name, e, variant, p, err)
			}
		}
	}
	if links < 300 {
		t.Errorf("%d notes with changed links", links)
	}
}

package sessionlog_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
)

// TestImportRandom imports random copies of conversations in random order. After each
// import the folder has all texts that it had before, and all texts of the copy, as
// often as the copy has them; a dry import has the same result; and a second import of
// all copies changes no session.
// CRABMEM_IMPORTS sets the number of folders, CRABMEM_SEED the first seed.
func TestImportRandom(t *testing.T) {
	race.Skip(t)
	folders, seed := envNumber(t, "CRABMEM_IMPORTS", 150), uint64(envNumber(t, "CRABMEM_SEED", 33))
	var all importCounts
	for i := range folders {
		all.add(importRandomly(t, rand.New(rand.NewPCG(seed, uint64(i)))))
		if t.Failed() {
			t.Fatalf("seed %d, folder %d", seed, i)
		}
	}
	t.Logf("seed %d, %d folders: %+v", seed, folders, all)
	if min(all.Created, all.Updated, all.Older, all.Unchanged, all.Differing) == 0 {
		t.Errorf("an outcome is missing")
	}
}

func envNumber(t *testing.T, name string, n int) int {
	if s := os.Getenv(name); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

type importCounts struct{ Created, Updated, Older, Unchanged, Differing int }

func (c *importCounts) add(d importCounts) {
	c.Created += d.Created
	c.Updated += d.Updated
	c.Older += d.Older
	c.Unchanged += d.Unchanged
	c.Differing += d.Differing
}

func (c *importCounts) count(r sessionlog.ImportResult) {
	switch {
	case r.Created:
		c.Created++
	case r.Updated:
		c.Updated++
	case r.Older:
		c.Older++
	default:
		c.Unchanged++
	}
	if r.DiffersFrom != "" {
		c.Differing++
	}
}

func importRandomly(t *testing.T, r *rand.Rand) (n importCounts) {
	m := faultfs.NewMem()
	d := dirOn(t, m, sessionlog.Options{})
	metas := []sessionlog.Meta{importedMeta("one"), importedMeta("two")}
	metas[1].Source = "codex:2"
	var copies [][2][]sessionlog.Item
	for range 2 + r.IntN(6) {
		copies = append(copies, [2][]sessionlog.Item{randomCopy(r, copies, 0), randomCopy(r, copies, 1)})
	}
	im, err := d.NewImporter(false)
	noErr(t, err)
	for range 3 * len(copies) {
		source := r.IntN(len(metas))
		items := copies[r.IntN(len(copies))][source]
		before := textsIn(t, d)
		got, err := im.Import(metas[source], items)
		noErr(t, err)
		n.count(got)
		after := textsIn(t, d)
		for text, count := range before {
			if after[text] == 0 {
				t.Fatalf("the import %+v of %v lost %q, which %d messages had", got, textsOf(items), text, count)
			}
		}
		s, err := d.Read(got.ID)
		noErr(t, err)
		if err := contained(textsOf(items), textsOf(itemsOf(t, s))); err != nil {
			t.Fatalf("%+v: %v", got, err)
		}
		noErr(t, s.Close())
	}
	dry, err := d.NewImporter(true)
	noErr(t, err)
	for _, again := range []bool{false, true} {
		for source, meta := range metas {
			for _, c := range copies {
				would, err := dry.Import(meta, c[source])
				noErr(t, err)
				got, err := im.Import(meta, c[source])
				noErr(t, err)
				n.count(got)
				if would.Created != got.Created || would.Updated != got.Updated || would.Older != got.Older {
					t.Fatalf("a dry import: %+v, the import: %+v", would, got)
				}
				if again && (got.Created || got.Updated && !hasTwin(copies, source, c[source])) {
					t.Fatalf("a repeated import of %v: %+v", textsOf(c[source]), got)
				}
			}
		}
	}
	noErr(t, dry.Close())
	noErr(t, im.Close())
	return n
}

// randomCopy returns a copy of a conversation: an earlier copy, cut, continued, with an
// edited message, without one, or with a grown answer.
func randomCopy(r *rand.Rand, copies [][2][]sessionlog.Item, source int) []sessionlog.Item {
	var items []sessionlog.Item
	if len(copies) > 0 {
		items = slices.Clone(copies[r.IntN(len(copies))][source])
	}
	for range 1 + r.IntN(3) {
		at := 0
		if len(items) > 0 {
			at = r.IntN(len(items))
		}
		switch op := r.IntN(6); {
		case op == 0 && len(items) > 0:
			items = items[:at+1]
		case op == 1 && len(items) > 0 && !items[at].Marker:
			items[at].Message.Content = randomWord(r)
		case op == 2 && len(items) > 1:
			items = slices.Delete(items, at, at+1)
		case op == 3 && len(items) > 0 && !items[at].Marker:
			items[at].Message.Content = strings.Trim(items[at].Message.Content+"\n\n"+randomWord(r), "\n")
		default:
			for range 1 + r.IntN(4) {
				items = append(items, randomItem(r))
			}
		}
	}
	return items
}

// hasTwin reports whether another copy has the same texts in other messages. Either is
// as good, so each replaces the other.
func hasTwin(copies [][2][]sessionlog.Item, source int, items []sessionlog.Item) bool {
	return slices.ContainsFunc(copies, func(c [2][]sessionlog.Item) bool {
		return slices.Equal(textsOf(c[source]), textsOf(items)) && !reflect.DeepEqual(c[source], items)
	})
}

// randomWord is one of few texts, so that messages repeat.
func randomWord(r *rand.Rand) string { return fmt.Sprintf("w%d", r.IntN(12)) }

func randomItem(r *rand.Rand) sessionlog.Item {
	m := sessionlog.Message{Role: "assistant", Content: randomWord(r)}
	switch r.IntN(6) {
	case 0:
		return sessionlog.Item{Marker: true, Summary: randomWord(r)}
	case 1:
		m.ReasoningContent = randomWord(r)
	case 2:
		m.ToolCalls = []sessionlog.ToolCall{{ID: randomWord(r), Function: sessionlog.Function{Name: randomWord(r), Arguments: "{}"}}}
	case 3:
		return sessionlog.Item{Message: sessionlog.Message{Role: "tool", Content: randomWord(r), ToolCallID: randomWord(r)}}
	default:
		m.Role = "user"
	}
	return sessionlog.Item{Message: m}
}

// textsOf returns all texts, in order, each with its kind.
func textsOf(items []sessionlog.Item) (list []string) {
	add := func(kind, text string) {
		for s := range strings.SplitSeq(text, "\n\n") {
			if s != "" {
				list = append(list, kind+":"+s)
			}
		}
	}
	for i := range items {
		m := &items[i].Message
		add("summary", items[i].Summary)
		add("reasoning", m.ReasoningContent)
		add(m.Role, m.Content)
		for _, c := range m.ToolCalls {
			add("call", c.Function.Name)
		}
	}
	return list
}

// contained returns an error unless a session has each text as often as a copy has.
func contained(texts, session []string) error {
	for _, text := range texts {
		count := func(list []string) (n int) {
			for _, s := range list {
				if s == text {
					n++
				}
			}
			return n
		}
		if a, b := count(texts), count(session); a > b {
			return fmt.Errorf("%q: %d in the copy, %d in the session: %q and %q", text, a, b, texts, session)
		}
	}
	return nil
}

func itemsOf(t *testing.T, s *sessionlog.Session) (items []sessionlog.Item) {
	t.Helper()
	for l, err := range s.Lines(0) {
		noErr(t, err)
		switch l.Kind.String() {
		case "message":
			items = append(items, sessionlog.Item{Message: l.Message})
		case "marker":
			items = append(items, sessionlog.Item{Marker: true, Summary: l.Summary})
		}
	}
	return items
}

// textsIn counts the texts of all sessions.
func textsIn(t *testing.T, d *sessionlog.Dir) map[string]int {
	t.Helper()
	texts := make(map[string]int)
	list, err := d.List()
	noErr(t, err)
	for i := range list {
		s, err := d.Read(list[i].ID)
		noErr(t, err)
		for _, text := range textsOf(itemsOf(t, s)) {
			texts[list[i].Meta.Source+" "+text]++
		}
		noErr(t, s.Close())
	}
	return texts
}

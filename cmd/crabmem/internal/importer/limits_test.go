package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
)

func TestTallyIsBounded(t *testing.T) {
	var tally Tally
	if tally.AddCount("none", "", 0); len(tally) != 0 {
		t.Errorf("no omissions are counted: %v", tally)
	}
	for i := range 63 {
		tally.add(fmt.Sprintf("r%02d", i), "")
	}
	for i := range 10 {
		tally.add("last", fmt.Sprintf("place %d", i))
		tally.add("last", fmt.Sprintf("place %d", i))
	}
	tally.AddCount("more", "x", 2)
	tally.AddCount("another", "y", 3)
	tally.AddCount("last", "", 1)
	tally.add("r00", strings.Repeat("é", 81))
	if n := len(tally); n != 65 {
		t.Errorf("%d reasons, want 64 and the others", n)
	}
	for i, want := range []string{"{last 21 [place 0 place 1 place 2 place 3 place 4 place 5 place 6 place 7]}", "{other reasons 5 [x y]}"} {
		if got := fmt.Sprint(tally[63+i]); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := fmt.Sprint(tally[:2]), "[{r00 2 ["+strings.Repeat("é", 79)+"…]} {r01 1 []}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	tally = nil
	for _, n := range []int{80, 81, 82} {
		tally.add(strings.Repeat("r", n), "")
	}
	if len(tally) != 2 || tally[0].Reason != strings.Repeat("r", 80) || tally[1].Reason != strings.Repeat("r", 79)+"…" {
		t.Errorf("reasons of 80 and more characters: %v", tally)
	}
}

func TestDetect(t *testing.T) {
	for text, want := range map[string]string{
		"": Crabmem, "{}": Crabmem, "[]": Crabmem, "null": Crabmem, "\x00": Crabmem, "[[[": Crabmem, `{"name":"x"`: Crabmem,
		`{"id":1,"name":"x","kind":"note"}`:                              Crabmem,
		"\ufeff" + `[{"title":"x","mapping":{`:                           ChatGPT,
		`{"title":"x","mapping":{}}`:                                     ChatGPT,
		`[{"uuid":"x","name":"y","account":{"a":[1]},"chat_messages":[`:  Claude,
		`{"uuid":"x","name":"y","docs":[]}`:                              Claude,
		`[{"uuid":"x","name":"y","prompt_template":""}]`:                 Claude,
		`{"uuid":"x","docs":[]}`:                                         Crabmem,
		`{"uuid":"x","name":"y"}`:                                        Crabmem,
		`{"id":"x","name":"y","data":1}`:                                 Crabmem,
		`{"type":"entity","name":"A","entityType":"p","observations":[]`: MemoryJSON,
		`{"type":"relation","from":"A","to":"B","relationType":"r"}`:     MemoryJSON,
		`{"entities":[],"relations":[]}`:                                 MemoryJSON,
		`{"results":[{"id":"1","memory":"x"}]}`:                          Mem0,
		`{"results":[],"relations":[]}`:                                  Mem0,
		`{"memories":[]}`:                                                Mem0,
		`[{"id":"1","text":"x"}]`:                                        Mem0,
	} {
		s := Source{Stream: strings.NewReader(text)}
		if err := s.Detect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(s.Stream); s.Kind != want || string(b) != text || err != nil {
			t.Errorf("%q is %s, want %s; read %q, %v", text, s.Kind, want, b, err)
		}
	}
}

// TestNamesAtTheirLimits checks names and aliases that are as long as they may be, and
// longer ones.
func TestNamesAtTheirLimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for in, want := range map[string]string{
		x(maxBase): x(maxBase) + " true", x(maxBase + 1): x(maxBase-3) + "… false", "a\nb": "a b false", "a b": "a b true",
	} {
		name, whole := baseName(in)
		if got := fmt.Sprint(name, " ", whole); got != want {
			t.Errorf("base name of %d bytes: %s", len(in), got)
		}
	}
	n, left := Note{ID: "i", Name: "name", Text: "text"}, Tally{}
	for _, s := range []string{" a ", "a", "", "name", x(maxLabel), x(maxLabel + 1), "b\nc"} {
		n.addAlias(s, &left)
	}
	if want := []string{"a", x(maxLabel)}; !slices.Equal(n.Aliases, want) || n.Text != "text\n\nalias: "+x(maxLabel+1)+"\n\nalias: b\nc" ||
		fmt.Sprint(left) != "[{too long for an alias, or contains a control character; kept in the text 2 [i]}]" {
		t.Errorf("aliases %q, text %q, left %v", n.Aliases, n.Text, left)
	}
	for i := range maxAliases {
		n.addAlias(fmt.Sprint(i), &left)
	}
	if len(n.Aliases) != maxAliases || n.Aliases[maxAliases-1] != fmt.Sprint(maxAliases-3) || left[1].Count != 2 {
		t.Errorf("%d aliases, left %v", len(n.Aliases), left)
	}
	for _, id := range []string{"", "a", x(maxID), x(maxID + 1), "a\nb"} {
		s := newNoteSet(Mem0)
		s.note(Note{ID: id, Text: "text \n"}, "")
		got := s.memory().Notes[0]
		if short := len(id) <= maxID && !strings.Contains(id, "\n"); (got.ID == id) != short || !short && !strings.HasPrefix(got.ID, "sha256:") || got.Text != "text" {
			t.Errorf("ID of %d bytes: %.20q, text %q", len(id), got.ID, got.Text)
		}
	}
}

// TestTimes reads each format of a time.
func TestTimes(t *testing.T) {
	for text, want := range map[string]string{
		"2026-03-01T09:30:00Z": "2026-03-01T09:30:00Z", " 2026-03-01T09:30:00.5+02:00\n": "2026-03-01T07:30:00Z", "2026-03-01T09:30:00": "2026-03-01T09:30:00Z",
		"2026-03-01 09:30:00.5Z": "2026-03-01T09:30:00Z", "2026-03-01 09:30:00": "2026-03-01T09:30:00Z", "2026-03-01 09:30": "2026-03-01T09:30:00Z",
		"2026-03-01": "2026-03-01T00:00:00Z", "1970-01-01": "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z": "0001-01-01T00:00:00Z", "soon": "0001-01-01T00:00:00Z", "": "0001-01-01T00:00:00Z",
	} {
		if got := timeOf(text).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for raw, want := range map[string]string{
		`0`: "1970-01-01T00:00:00Z", `1.5`: "1970-01-01T00:00:01Z", `253402300799`: "9999-12-31T23:59:59Z", `"2026-03-01"`: "2026-03-01T00:00:00Z",
		`-1`: "0001-01-01T00:00:00Z", `1e999`: "0001-01-01T00:00:00Z", `-1e999`: "0001-01-01T00:00:00Z", `253402300800`: "0001-01-01T00:00:00Z", `"NaN"`: "0001-01-01T00:00:00Z", `{}`: "0001-01-01T00:00:00Z",
	} {
		if got := (object{"t": json.RawMessage(raw)}).when("t").UTC().Format(time.RFC3339); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

// TestPlanRefusesInvalidNotes plans notes that a store refuses.
func TestPlanRefusesInvalidNotes(t *testing.T) {
	for _, n := range []Note{{ID: "a", Name: "\xff", Text: "x"}, {ID: "a", Name: "n", Text: "\xff"}, {ID: "a", Name: "n", Text: "x", Aliases: []string{"\xff"}}} {
		_, err := (&Memory{Kind: Mem0, Notes: []Note{{ID: "valid", Name: "v", Text: "x"}, n}}).Plan(crmem.New(nil), Refuse, now)
		if !errors.Is(err, crmem.ErrInvalid) || !strings.HasPrefix(err.Error(), `"a": `) {
			t.Errorf("%+v: %v", n, err)
		}
	}
}

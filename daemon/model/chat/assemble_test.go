package chat

import (
	"encoding/json"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"crabmem/fuzz/race"
)

// part is a fragment of a call, as an endpoint sends it.
type part struct {
	Index    any    `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
	} `json:"function"`
}

func piece(index any, id, name, arguments string) part {
	p := part{Index: index, ID: id}
	p.Function.Name, p.Function.Arguments = name, arguments
	return p
}

// assemble returns the calls of events, each a list of fragments.
func assemble(t *testing.T, events [][]part) []CallDelta {
	t.Helper()
	var d deltas
	for _, parts := range events {
		var e struct {
			Choices [1]struct {
				Delta struct {
					Calls []part `json:"tool_calls"`
				} `json:"delta"`
			} `json:"choices"`
		}
		e.Choices[0].Delta.Calls = parts
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.read(b); err != nil {
			t.Fatal(err)
		}
	}
	return d.end().Calls
}

// assembleDecoded is assemble without JSON around the fragments.
func assembleDecoded(t *testing.T, events [][]part) []CallDelta {
	t.Helper()
	var d deltas
	for _, parts := range events {
		calls := make([]toolCall, len(parts))
		for i, p := range parts {
			c := &calls[i]
			c.ID, c.Function.Name, c.Function.Arguments = p.ID, p.Function.Name, arguments(p.Function.Arguments)
			switch index := p.Index.(type) {
			case int:
				c.Index = position{index, true}
			case string:
				if err := c.Index.UnmarshalJSON([]byte(strconv.Quote(index))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := d.take(&wire{Choices: list[choice]{{Delta: message{ToolCalls: calls}}}}); err != nil {
			t.Fatal(err)
		}
	}
	return d.end().Calls
}

// assembly is assemble or assembleDecoded.
type assembly func(*testing.T, [][]part) []CallDelta

func format(calls []CallDelta) string {
	var b strings.Builder
	for i, c := range calls {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(c.Name)
		b.WriteString(c.Arguments)
	}
	return b.String()
}

// TestAssemble has the fragments of endpoints, one per event.
func TestAssemble(t *testing.T) {
	const a, b = `{"x":1}`, `{"x":2}`
	for _, c := range []struct {
		name  string
		parts []part
		want  string
	}{
		{"tails with an unknown index", []part{piece(0, "a", "f", ""), piece(0, "", "", a), piece(0, "b", "f", ""), piece(1, "", "", `{"x"`), piece(1, "", "", ":2}")}, "f" + a + " f" + b},
		{"tails with the other index", []part{piece(0, "a", "f", ""), piece(1, "b", "f", ""), piece(0, "b", "", b), piece(1, "a", "", a)}, "f" + a + " f" + b},
		{"tails without an index", []part{piece(0, "a", "f", ""), piece(1, "b", "f", ""), piece(nil, "b", "", b), piece(nil, "a", "", a)}, "f" + a + " f" + b},
		{"index as text", []part{piece("0", "a", "f", ""), piece("1", "b", "f", ""), piece("0", "", "", a), piece("1.0", "", "", b)}, "f" + a + " f" + b},
		{"another ID in each fragment", []part{piece(0, "a", "f", ""), piece(0, "b", "", `{"x"`), piece(0, "c", "", `:1}`)}, "f" + a},
		{"another ID and the name in each fragment", []part{piece(0, "a", "f", `{"x"`), piece(0, "b", "f", `:1}`)}, "f" + a},
		{"another index and the name in each fragment", []part{piece(0, "", "f", `{"x"`), piece(1, "", "f", `:1}`)}, "f" + a},
		{"late ID", []part{piece(0, "", "f", `{"x"`), piece(0, "a", "", ""), piece(nil, "a", "", ":1}")}, "f" + a},
		{"late name", []part{piece(0, "a", "", ""), piece(0, "", "f", ""), piece(0, "", "", a)}, "f" + a},
		{"repeated with the ID", []part{piece(0, "a", "f", `{"x"`), piece(0, "", "", `:1}`), piece(0, "a", "f", `{ "x": 1 }`)}, "f" + a},
		{"repeated without the ID", []part{piece(0, "a", "f", a), piece(0, "", "f", a)}, "f" + a},
		{"repeated without ID and index", []part{piece(0, "a", "f", a), piece(1, "b", "f", b), piece(nil, "", "f", a), piece(nil, "", "f", b)}, "f" + a + " f" + b},
		{"repeated in fragments", []part{piece(0, "", "f", a), piece(0, "", "f", `{"x"`), piece(0, "", "", `:1}`)}, "f" + a},
		{"repeated with other names between", []part{piece(0, "", "f", a), piece(0, "", "g", a), piece(0, "", "f", a), piece(0, "", "g", a)}, "f" + a + " g" + a},
		{"repeated with a late ID", []part{piece(0, "", "f", a), piece(0, "a", "f", a)}, "f" + a},
		{"repeated with another index", []part{piece(0, "a", "f", a), piece(1, "a", "f", a)}, "f" + a},
		{"an empty repeat", []part{piece(0, "", "f", a), piece(0, "", "f", ""), piece(0, "", "f", "{}"), piece(0, "", "f", a)}, "f" + a},
		{"the same with a new ID", []part{piece(0, "a", "f", a), piece(0, "b", "f", a)}, "f" + a + " f" + a},
		{"the same with a new index", []part{piece(0, "", "f", a), piece(1, "", "f", a)}, "f" + a + " f" + a},
		{"equal IDs", []part{piece(0, "a", "f", a), piece(1, "a", "f", b), piece(2, "a", "g", a)}, "f" + a + " f" + b + " g" + a},
		{"cumulative", []part{piece(0, "a", "f", `{`), piece(0, "", "", `{"x"`), piece(0, "", "", a), piece(0, "", "", a)}, "f" + a},
		{"cumulative names", []part{piece(0, "a", "fi", ``), piece(0, "a", "find", ""), piece(0, "a", "find", a)}, "find" + a},
		{"not cumulative", []part{piece(0, "a", "f", `{"x":`), piece(0, "", "", `{"x":1}}`)}, `f{"x":{"x":1}}`},
		{"empty object first", []part{piece(0, "a", "f", `{}`), piece(0, "a", "", `{"x"`), piece(0, "", "", `:1}`)}, "f" + a},
		{"empty object first, no IDs", []part{piece(0, "", "f", `{}`), piece(0, "", "f", a)}, "f" + a},
		{"empty text first", []part{piece(0, "a", "f", `""`), piece(0, "a", "", a)}, "f" + a},
		{"null first", []part{piece(0, "a", "f", `null`), piece(0, "", "", a), piece(0, "", "", `{}`)}, "f" + a},
		{"only empty objects", []part{piece(0, "a", "f", `{}`), piece(0, "a", "f", `{}`)}, "f{}"},
		{"different arguments of one call", []part{piece(0, "a", "f", a), piece(0, "a", "", b)}, "f" + a + b},
		{"nothing", []part{piece(0, "", "", "")}, ""},
	} {
		var events [][]part
		for _, p := range c.parts {
			events = append(events, []part{p})
		}
		if got := format(assemble(t, events)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	// In one event, an empty object is a call if the endpoint sends no IDs.
	for _, c := range []struct{ id, want string }{{"a", "f" + a}, {"", "f{} f" + a}} {
		parts := []part{piece(nil, c.id, "f", `{}`), piece(nil, "", "f", a)}
		if got := format(assemble(t, [][]part{parts})); got != c.want {
			t.Errorf("ID %q: %s, want %s", c.id, got, c.want)
		}
	}
}

// sent is a call of the model. writing cuts it into fragments as endpoints do.
type sent struct{ id, name, arguments string }

// style is how an endpoint sends calls.
type style struct {
	ids     string // all, first, none
	index   string // right, text, zero, absent, other (with an ID), counter
	text    string // whole, pieces, grown
	empty   string // precedes the arguments
	names   bool   // in each fragment
	mixed   bool   // fragments of several calls alternate
	repeats string // of complete calls: "", id, name, summary
	joined  bool   // as many fragments in one event as the limit permits
}

// newStyle returns a style that identifies each call.
func newStyle(r *rand.Rand) style {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	s := style{ids: pick("all", "first", "none"), text: pick("whole", "pieces", "grown"), names: r.IntN(3) == 0, empty: pick("", "", "{}", `""`, "null")}
	switch s.ids {
	case "all":
		s.index, s.mixed = pick("right", "text", "zero", "absent", "other", "counter"), r.IntN(2) == 0
		s.repeats = pick("", "id", "name", "summary")
		s.joined = s.repeats == "" && r.IntN(3) == 0
	case "first":
		s.index, s.repeats = pick("right", "text", "zero", "absent"), pick("", "id")
		if s.index == "right" || s.index == "text" {
			s.mixed, s.repeats = r.IntN(2) == 0, pick("", "id", "name", "summary")
		}
	case "none":
		s.index, s.repeats = pick("right", "text"), pick("", "name", "summary")
		s.mixed = r.IntN(2) == 0
		if s.names {
			s.empty = ""
		}
		if r.IntN(3) == 0 { // Gemini
			s = style{ids: "none", index: pick("zero", "absent"), text: "whole", names: true, joined: true}
		}
	}
	return s
}

// writing returns the fragments of calls.
func (s style) writing(r *rand.Rand, calls []sent) [][]part {
	lists := make([][]part, len(calls))
	counter := 0
	for i, c := range calls {
		var texts []string
		if s.empty != "" && c.arguments != "{}" {
			texts = append(texts, s.empty)
		}
		switch s.text {
		case "whole":
			texts = append(texts, c.arguments)
		default:
			for from := 0; from < len(c.arguments); {
				to := from + 1 + r.IntN(min(8, len(c.arguments)-from))
				for to < len(c.arguments) && !utf8.RuneStart(c.arguments[to]) {
					to++
				}
				if s.text == "grown" {
					texts = append(texts, c.arguments[:to])
				} else {
					texts = append(texts, c.arguments[from:to])
				}
				from = to
			}
		}
		for n, text := range texts {
			p := piece(i, "", "", text)
			if n == 0 || s.names {
				p.Function.Name = c.name
			}
			if s.ids == "all" || s.ids == "first" && n == 0 {
				p.ID = c.id
			}
			switch s.index {
			case "text":
				p.Index = strconv.Itoa(i)
			case "zero":
				p.Index = 0
			case "absent":
				p.Index = nil
			case "other":
				if n > 0 {
					p.Index = r.IntN(len(calls))
				}
			case "counter":
				p.Index = counter
				counter++
			}
			lists[i] = append(lists[i], p)
		}
		again := piece(lists[i][0].Index, c.id, c.name, c.arguments)
		switch s.repeats {
		case "id":
			lists[i] = append(lists[i], again)
		case "name":
			if s.index == "right" || s.index == "text" {
				again.ID = ""
				lists[i] = append(lists[i], again)
			}
		}
	}
	var all []part
	for left := true; left; {
		left = false
		for i := range lists {
			for len(lists[i]) > 0 {
				all, lists[i] = append(all, lists[i][0]), lists[i][1:]
				if s.mixed {
					break
				}
			}
			left = left || len(lists[i]) > 0
		}
	}
	var events [][]part
	for _, p := range all {
		if n := len(events); s.joined && n > 0 && len(events[n-1]) < maxCalls {
			events[n-1] = append(events[n-1], p)
		} else {
			events = append(events, []part{p})
		}
	}
	if s.repeats == "summary" && (s.index == "right" || s.index == "text") {
		var again []part
		for i, c := range calls {
			again = append(again, piece(i, "", c.name, c.arguments))
		}
		events = append(events, again)
	}
	return events
}

func randomCalls(r *rand.Rand) []sent {
	calls := make([]sent, 1+r.IntN(4))
	for i := range calls {
		calls[i] = sent{"id" + strconv.Itoa(i), []string{"bash", "read", "write"}[r.IntN(3)], randomObject(r, 0)}
		if i > 0 && r.IntN(5) == 0 {
			calls[i].name, calls[i].arguments = calls[i-1].name, calls[i-1].arguments
		}
	}
	return calls
}

func randomObject(r *rand.Rand, depth int) string {
	var members []string
	for i := range r.IntN(4) {
		value := []string{`1`, `"}{"`, `"\"{\\"`, `[{},{"k0":1}]`, `null`, `"é"`, `{}`, `""`}[r.IntN(8)]
		if depth < 2 && r.IntN(4) == 0 {
			value = randomObject(r, depth+1)
		}
		members = append(members, `"k`+strconv.Itoa(i)+`":`+value)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// runs returns the number of random cases; CRABMEM_CALLS sets it.
func runs() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("CRABMEM_CALLS"), 10, 64); err == nil {
		return n
	}
	return 3000
}

// TestAssembleStyles checks random calls in random styles.
func TestAssembleStyles(t *testing.T) {
	race.Skip(t)
	for seed := range runs() {
		if checkStyle(t, assemble, rand.New(rand.NewPCG(seed, 1))); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// checkStyle checks that the assembler returns exactly the calls that an endpoint sends.
func checkStyle(t *testing.T, run assembly, r *rand.Rand) {
	calls, s := randomCalls(r), newStyle(r)
	events := s.writing(r, calls)
	var want []CallDelta
	for _, c := range calls {
		want = append(want, CallDelta{Name: c.name, Arguments: c.arguments})
	}
	if got := format(run(t, events)); got != format(want) {
		t.Errorf("%+v\nevents %+v\n got %s\nwant %s", s, events, got, format(want))
	}
}

// TestAssembleUnclear checks random calls with an ambiguous fragment.
func TestAssembleUnclear(t *testing.T) {
	race.Skip(t)
	valid := 0
	for seed := range runs() {
		if valid += checkUnclear(t, assemble, rand.New(rand.NewPCG(seed, 2))); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if valid == 0 {
		t.Error("no call was valid")
	}
}

// checkUnclear drops a member of a fragment, or repeats it. Each call with valid arguments
// must then be a call that was sent, and no call occurs more often than it was sent. It
// returns the number of valid calls.
func checkUnclear(t *testing.T, run assembly, r *rand.Rand) (valid int) {
	calls := randomCalls(r)
	for i := range calls {
		if calls[i].arguments == "{}" { // looks like a placeholder of the next call
			calls[i].arguments = `{"k":0}`
		}
	}
	s := newStyle(r)
	s.mixed = false
	events := s.writing(r, calls)
	left := make(map[string]int)
	for _, c := range calls {
		left[c.name+c.arguments]++
	}
	at := r.IntN(len(events))
	p := &events[at][r.IntN(len(events[at]))]
	switch r.IntN(4) {
	case 0:
		if s.index != "other" && s.index != "counter" { // the ID alone identifies the call
			p.ID = ""
		}
	case 1:
		if s.index != "zero" || len(left) == len(calls) {
			p.Index = nil
		}
	case 2:
		if at > 0 && p.ID != "" && p.ID == events[at-1][0].ID {
			p.Function.Name = ""
		}
	case 3:
		if s.text == "whole" && p.ID != "" {
			events = append(events, events[at])
		}
	}
	for _, c := range run(t, events) {
		if c.Name == "" || !json.Valid([]byte(c.Arguments)) {
			continue
		}
		valid++
		if left[c.Name+c.Arguments]--; left[c.Name+c.Arguments] < 0 {
			t.Errorf("%+v\nevents %+v\ncall %s%s\nsent %+v", s, events, c.Name, c.Arguments, calls)
			break
		}
	}
	return valid
}

// choices is a source of the random numbers that an input chooses.
type choices struct {
	input []byte
	rest  rand.PCG // after the input
}

func (c *choices) Uint64() uint64 {
	if len(c.input) == 0 {
		return c.rest.Uint64()
	}
	b := c.input[0]
	c.input = c.input[1:]
	return uint64(b) * 0x0101010101010101
}

// FuzzAssemble compares the assembler with a model: the calls that an endpoint sends, in a
// style and with an ambiguous fragment that the input chooses. No call occurs twice. One
// input in 32 is sent as JSON, which takes most of the time.
func FuzzAssemble(f *testing.F) {
	for seed := range uint64(16) {
		input := make([]byte, 8<<(seed%5))
		rand.NewChaCha8([32]byte{byte(seed)}).Read(input)
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		r := rand.New(&choices{input: input})
		run := assembleDecoded
		if crc32.ChecksumIEEE(input)%32 == 0 {
			run = assemble
		}
		if r.IntN(2) == 0 {
			checkStyle(t, run, r)
		} else {
			checkUnclear(t, run, r)
		}
	})
}

package line

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"crabmem/fuzz/seed"
	"crabmem/sessionlog/record"
)

// judge compares the decoder with the oracle on one line. It returns the kind
// of the line.
func judge(line []byte, first bool) (record.Kind, error) {
	var r Record
	r.Decode(line, first)
	want := oracle(line, first)
	if r.Kind != want.kind {
		why := ""
		if r.Kind == record.KindBad {
			why = r.Reason()
		}
		return r.Kind, fmt.Errorf("%v (%s), the oracle says %v %s", r.Kind, why, want.kind, want.notes)
	}
	if r.Kind != record.KindBad {
		if r.Truncated {
			return r.Kind, fmt.Errorf("a good %v is truncated", r.Kind)
		}
		return r.Kind, r.compare(want)
	}
	if class := r.fault.class(); !wrong(line, first, class, r.fault.at) {
		return r.Kind, fmt.Errorf("%s: that is %s, the oracle says %s", r.Reason(), class, want.notes)
	}
	if why := r.Reason(); why == "" || !utf8.ValidString(why) || len(why) > 200 {
		return r.Kind, fmt.Errorf("reason %q", why)
	}
	found := Pieces(nil, line, first)
	glimpses, sure := oraclePieces(line, first)
	for i, p := range found {
		if i == len(glimpses) || int(p.Lo) != glimpses[i].lo || int(p.Hi) != glimpses[i].hi {
			return r.Kind, fmt.Errorf("piece %d of %v, the oracle says %+v", i, found, glimpses)
		}
		want := glimpses[i].sight
		r.Decode(line[p.Lo:p.Hi], first && p.Lo == 0)
		if r.Kind != want.kind {
			return record.KindBad, fmt.Errorf("piece %d is %v, the oracle says %v", i, r.Kind, want.kind)
		}
		if err := r.compare(want); err != nil {
			return record.KindBad, fmt.Errorf("piece %d: %w", i, err)
		}
	}
	if sure && len(found) < len(glimpses) {
		return record.KindBad, fmt.Errorf("pieces %v, the oracle says %+v", found, glimpses)
	}
	return record.KindBad, nil
}

// wrong says whether a line has a fault of a class, which was found at an
// offset. A line may have several.
func wrong(line []byte, first bool, class string, at int) bool {
	if first {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	switch class {
	case "object":
		return !bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("{"))
	case "utf8":
		return !utf8.Valid(line)
	case "depth":
		return depthOf(line) > 128
	case "surrogate":
		return loneSurrogate(line)
	case "json":
		return !json.Valid(line)
	}
	return oracle(line, first).notes == class
}

// class returns the class of a fault, as the oracle distinguishes them.
func (f fault) class() string {
	switch f.code {
	case faultUTF8:
		return "utf8"
	case faultSurrogate:
		return "surrogate"
	case faultDepth:
		return "depth"
	case faultNoObject:
		return "object"
	case faultTwice, faultType, faultMissing:
		return "record"
	}
	return "json"
}

// compare compares the decoded values of a line with the oracle's.
func (r *Record) compare(want sight) error {
	switch r.Kind {
	case record.KindMessage:
		m := r.Message()
		if m.Role == record.RoleUser { // record has the tests of the keys
			want.m.Work = record.WorkKeys(r.Line)
		}
		if !reflect.DeepEqual(want.m, m) {
			return fmt.Errorf("message: %s", cmp.Diff(want.m, m))
		}
		// Our own line of it says the same, and is the same line again.
		line := AppendMessage(nil, &m)
		var again Record
		again.Decode(line[:len(line)-1], false)
		back := again.Message()
		for i, c := range m.ToolCalls {
			if c.Type == "" {
				m.ToolCalls[i].Type = "function"
			}
		}
		if again.Kind != record.KindMessage || !reflect.DeepEqual(m, back) {
			return fmt.Errorf("written as %s, that is a %v: %s", line, again.Kind, cmp.Diff(m, back))
		}
		if second := AppendMessage(nil, &back); !bytes.Equal(line, second) {
			return fmt.Errorf("written as %s, then as %s", line, second)
		}
	case record.KindMarker:
		if r.Summary() != want.text {
			return fmt.Errorf("summary %q, the oracle says %q", r.Summary(), want.text)
		}
	case record.KindMeta:
		if r.Meta() != want.meta {
			return fmt.Errorf("meta %+v, the oracle says %+v", r.Meta(), want.meta)
		}
	case record.KindMetaRecord:
		if got := (Meta{Title: r.Text(r.Title), UptimeSecs: r.uptime}); got != want.meta {
			return fmt.Errorf("meta record %+v, the oracle says %+v", got, want.meta)
		}
	}
	return nil
}

// randomText returns text that is difficult to encode: characters to escape, of
// every length, at every distance from each other.
func randomText(g *rand.Rand) string {
	hard := []rune{'"', '\\', '/', '<', '>', '&', 0, 1, 7, '\b', '\t', '\n', '\v', '\f', '\r', 0x1b, 0x1f, ' ', 0x7f, 0x80, 0x85,
		0xa0, 'é', 0x7ff, 0x800, 0x2028, 0x2029, 0xd7ff, 0xe000, 0xfeff, 0xfffd, 0xffff, 0x10000, 0x1f600, 0x10ffff}
	var b strings.Builder
	for range g.IntN(1 << g.IntN(8)) {
		if g.IntN(8) == 0 {
			b.WriteRune(hard[g.IntN(len(hard))])
		} else {
			b.WriteByte('a' + byte(g.IntN(26)))
		}
	}
	return b.String()
}

func randomMessage(g *rand.Rand) Message {
	roles := []string{record.RoleUser, record.RoleAssistant, record.RoleTool, record.RoleSystem, "developer", randomText(g)}
	m := Message{Role: roles[g.IntN(len(roles))], Content: randomText(g)}
	if g.IntN(3) == 0 {
		m.ReasoningContent = randomText(g)
	}
	if g.IntN(3) == 0 {
		m.ToolCallID = randomText(g)
	}
	if g.IntN(3) == 0 {
		for range g.IntN(4) {
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: randomText(g), Type: "function" + randomText(g),
				Function: Function{Name: randomText(g), Arguments: randomText(g)}})
		}
	}
	return m
}

func randomMeta(g *rand.Rand) Meta {
	return Meta{Agent: randomText(g), CreatedBy: randomText(g), CreatedAt: randomText(g), Title: randomText(g),
		UptimeSecs: g.Uint64() >> g.IntN(64), Source: randomText(g), Project: randomText(g)}
}

// randomLine returns a line of any good kind.
func randomLine(g *rand.Rand) []byte {
	var line []byte
	switch g.IntN(8) {
	default:
		m := randomMessage(g)
		line = AppendMessage(nil, &m)
	case 5:
		line = AppendMarker(nil, randomText(g))
	case 6:
		line = AppendMetaRecord(nil, randomText(g), g.Uint64()>>g.IntN(64))
	case 7:
		m := randomMeta(g)
		line = AppendMeta(nil, &m)
	}
	return line[:len(line)-1]
}

// serde is a message as encoding/json writes it, in serde_json's manner.
type serde struct {
	Role             string      `json:"role"`
	Content          string      `json:"content,omitempty"`
	ReasoningContent string      `json:"reasoning_content,omitempty"`
	ToolCallID       string      `json:"tool_call_id,omitempty"`
	ToolCalls        []serdeCall `json:"tool_calls,omitempty"`
}

type serdeCall struct {
	ID       string `json:"id,omitempty"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// codecRounds is the random tests' length.
const codecRounds = 5_000

// TestEncode: our lines are those of encoding/json without its HTML escapes,
// but for the two characters and the two escapes it has its own way with.
func TestEncode(t *testing.T) {
	g := seed.Random(t)
	replace := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029", `\\`, `\\`)
	for range codecRounds {
		m := randomMessage(g)
		s := serde{Role: m.Role, Content: m.Content, ReasoningContent: m.ReasoningContent, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			e := serdeCall{ID: c.ID, Type: c.Type}
			e.Function.Name, e.Function.Arguments = c.Function.Name, c.Function.Arguments
			s.ToolCalls = append(s.ToolCalls, e)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		got := AppendMessage([]byte("x"), &m)
		if want := replace.Replace(want.String()); want != string(got[1:]) {
			t.Fatalf("message %+v: %s", m, cmp.Diff(want, string(got[1:])))
		}
		var back Message
		if err := json.Unmarshal(got[1:], &back); err != nil || !reflect.DeepEqual(m, back) {
			t.Fatalf("message %+v came back as %+v (%v)", m, back, err)
		}
	}
}

func TestEncodeExamples(t *testing.T) {
	var control []byte
	for c := range byte(0x20) {
		control = append(control, c)
	}
	for _, c := range []struct{ got, want string }{
		{string(AppendMarker(nil, string(control))), `{"compact":"` +
			`\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f` +
			`\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f"}` + "\n"},
		{string(AppendMarker(nil, "\"\\/<>&'\x7f\u2028\u2029é\U0001f600")), `{"compact":"\"\\/<>&'` + "\x7f\u2028\u2029é\U0001f600" + `"}` + "\n"},
		{string(AppendMetaRecord(nil, "t", 1<<64-1)), `{"meta":{"title":"t","uptime_secs":18446744073709551615}}` + "\n"},
		{string(AppendMeta(nil, &Meta{})), `{"agent":"","created_by":"","created_at":"","title":"","uptime_secs":0}` + "\n"},
		{string(AppendMeta(nil, &Meta{Agent: "a", CreatedBy: "b", CreatedAt: "c", Title: "d", UptimeSecs: 5, Source: "e"})),
			`{"agent":"a","created_by":"b","created_at":"c","title":"d","uptime_secs":5,"source":"e"}` + "\n"},
		{string(AppendMessage(nil, &Message{Sender: "s", Injected: true})), `{"role":""}` + "\n"},
		{string(AppendMessage(nil, &Message{Role: "r", ToolCalls: []ToolCall{{}, {ID: "i", Type: "t", Function: Function{"n", "a"}}}})),
			`{"role":"r","tool_calls":[{"type":"function","function":{"arguments":""}},` +
				`{"id":"i","type":"t","function":{"name":"n","arguments":"a"}}]}` + "\n"},
	} {
		if c.got != c.want {
			t.Errorf("got  %swant %s", c.got, c.want)
		}
	}
}

// TestDecodeMutated holds the decoder against the oracle on good lines, and on
// the same with a few bytes changed.
func TestDecodeMutated(t *testing.T) {
	g := seed.Random(t)
	spare := []string{`"`, `\`, `{`, `}`, `[`, `]`, `,`, `:`, ` `, "\t", "\x00", "\x1f", "\x7f", "\x80", "\xc3", "\xed\xa0\x80", "\ufeff", "\u2028",
		`\u`, `\ud83d`, `\ude00`, `\u0041`, `null`, `true`, `-0`, `1e9`, `01`, `"x":`, `"role":"a"`, `,"role":5`, `,"compact":"x"`, `{"role":`,
		`{"role":"user"}`, `{"compact":"x"}`, `{"meta":{}}`, `{"meta":{"title":"a"}}`, `"content":`, `,"content":"x"`, `"tool_calls":[`, `"\u0072ole":"x"`}
	tally := map[string]int{}
	for i := range 2 * codecRounds {
		line := randomLine(g)
		for range g.IntN(4) {
			at := g.IntN(len(line) + 1)
			switch g.IntN(5) {
			case 0:
				line = line[:at]
			case 1:
				line = slices.Delete(line, at, min(len(line), at+1+g.IntN(8)))
			case 2:
				other := randomLine(g)
				if g.IntN(2) == 0 {
					at = len(line)
				}
				line = append(line[:at:at], other...)
			default:
				line = slices.Insert(line, at, []byte(spare[g.IntN(len(spare))])...)
			}
		}
		line = bytes.ReplaceAll(line, []byte("\n"), nil)
		for _, first := range []bool{false, true} {
			k, err := judge(line, first)
			if err != nil {
				t.Fatalf("line %d (%v): %q: %v", i, first, line, err)
			}
			name := k.String()
			if k == record.KindBad {
				name = oracle(line, first).notes
				if ps, _ := oraclePieces(line, first); len(ps) > 0 {
					name = "glued"
					tally["pieces"] += len(ps)
				}
			}
			tally[name]++
		}
	}
	for _, k := range []string{"meta", "message", "marker", "meta record", "unknown", "glued", "json", "utf8", "surrogate", "record"} {
		if tally[k] < codecRounds/200 {
			t.Errorf("only %d lines are %s: they are drawn badly", tally[k], k)
		}
	}
	t.Logf("lines judged: %v", tally)
}

// TestMetaKinds has values of other types under the key of a meta record.
func TestMetaKinds(t *testing.T) {
	for line, want := range map[string]record.Kind{
		`{"meta":{}}`: record.KindMetaRecord, `{"meta":{"title":"a"}}`: record.KindMetaRecord, `{"meta":[]}`: record.KindUnknown, `{"meta":[{}]}`: record.KindUnknown,
		`{"meta":"a"}`: record.KindUnknown, `{"meta":1}`: record.KindUnknown, `{"meta":null}`: record.KindUnknown, `{"meta":true}`: record.KindUnknown,
	} {
		var r Record
		if r.Decode([]byte(line), false); r.Kind != want {
			t.Errorf("%s is of kind %v, want %v", line, r.Kind, want)
		}
	}
}

// TestDecodeJSON compares the decoder with encoding/json, on values of every
// form under unknown keys.
func TestDecodeJSON(t *testing.T) {
	g := seed.Random(t)
	const mutants = `"\{}[]:,.0123456789-+eEtrufalsn/bx ` + "\t\r\x00\x1f\x80\xff"
	good, deep := 0, 0
	for i := range 2 * codecRounds {
		line := append([]byte(`{"x":`), randomValue(g, g.IntN(8))...)
		if g.IntN(8) == 0 {
			n := 120 + g.IntN(12)
			line = slices.Concat([]byte(`{"x":`), bytes.Repeat([]byte(`[`), n), line, []byte(`}`), bytes.Repeat([]byte(`]`), n))
		}
		line = append(line, '}')
		for range g.IntN(3) {
			line[g.IntN(len(line))] = mutants[g.IntN(len(mutants))]
		}
		k, err := judge(line, false)
		if err != nil {
			t.Fatalf("line %d: %q: %v", i, line, err)
		}
		if k == record.KindUnknown {
			good++
		}
		if oracle(line, false).notes == "depth" {
			deep++
		}
	}
	if good < codecRounds/3 || good > 2*codecRounds*4/5 || deep < codecRounds/70 {
		t.Errorf("%d lines are good, %d too deep: they are drawn badly", good, deep)
	}
}

func randomValue(g *rand.Rand, depth int) []byte {
	space := func() string { return []string{"", "", "", "", " ", "\t", "\r", " \t\r "}[g.IntN(8)] }
	var b []byte
	n := 10
	if depth == 0 {
		n = 8
	}
	b = append(b, space()...)
	switch g.IntN(n) {
	case 0:
		b = append(b, "null"...)
	case 1:
		b = fmt.Appendf(b, "%v", g.IntN(2) == 0)
	case 2:
		b = fmt.Appendf(b, "%d", g.Int64()>>g.IntN(64))
	case 3:
		b = fmt.Appendf(b, "%e", g.NormFloat64())
	case 4:
		b = fmt.Appendf(b, "-%d.%dE%+d", g.IntN(3), g.IntN(100), g.IntN(100)-50)
	case 5:
		b = appendString(b, randomText(g))
	case 6, 7:
		b = append(b, '"')
		for range g.IntN(20) {
			b = append(b, []string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u00e9`, `\uD83D\uDE00`, `\ud7ff`, `\uE000`, `a`, `é`}[g.IntN(14)]...)
			if g.IntN(200) == 0 {
				b = append(b, []string{`\ud83d`, `\udE00`}[g.IntN(2)]...)
			}
		}
		b = append(b, '"')
	case 8:
		b = append(b, '[')
		for i := range g.IntN(4) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, randomValue(g, depth-1)...)
		}
		b = append(append(b, space()...), ']')
	case 9:
		b = append(b, '{')
		for i := range g.IntN(4) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, space()...)
			b = appendString(b, randomText(g))
			b = append(append(b, space()...), ':')
			b = append(b, randomValue(g, depth-1)...)
		}
		b = append(append(b, space()...), '}')
	}
	return append(b, space()...)
}

// TestTruncated checks that every strict prefix of a valid line is bad and that
// its spans cover the prefix.
func TestTruncated(t *testing.T) {
	g := seed.Random(t)
	prefixes := 0
	for range 300 {
		m := randomMessage(g)
		m.Role = record.RoleUser
		line := AppendMessage(nil, &m)
		line = line[:len(line)-1]
		contents := map[string]bool{}
		for n := 1; n < len(line); n++ {
			var r Record
			r.Decode(line[:n], false)
			content := r.Text(r.Values[KeyContent])
			if r.Kind != record.KindBad || !r.Truncated || !strings.HasPrefix(m.Content, content) || !utf8.ValidString(content) {
				t.Fatalf("%q: %v (%s), truncated %v, content %q", line[:n], r.Kind, r.Reason(), r.Truncated, content)
			}
			contents[content] = true
			prefixes++
		}
		if want := utf8.RuneCountInString(m.Content) + 1; len(contents) != want {
			t.Fatalf("%s: %d different contents on the way, want %d", line, len(contents), want)
		}
	}
	t.Logf("prefixes: %d", prefixes)
}

// TestFormatExample reads the example of FORMAT.md, writes it again, and
// resumes it as FORMAT.md says.
func TestFormatExample(t *testing.T) {
	doc, err := os.ReadFile("../../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```jsonl\n")
	example, after, found := strings.Cut(rest, "```\n")
	if !found || strings.Count(example, "\n") < 8 {
		t.Fatalf("FORMAT.md has no example of 8 lines: %q", example)
	}
	var again []byte
	kinds := map[record.Kind]int{}
	for l, err := range lines(strings.NewReader(example), 0, int64(len(example)), 0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[l.Kind]++
		switch l.Kind {
		case record.KindMeta:
			again = AppendMeta(again, &l.Meta)
		case record.KindMessage:
			again = AppendMessage(again, &l.Message)
		case record.KindMarker:
			again = AppendMarker(again, l.Summary)
		case record.KindMetaRecord:
			again = AppendMetaRecord(again, l.Meta.Title, l.Meta.UptimeSecs)
		default:
			t.Errorf("line %d of the example is %v: %v", l.Number, l.Kind, l.Err)
		}
	}
	if d := cmp.Diff(example, string(again)); d != "" {
		t.Errorf("the example is written differently: %s", d)
	}
	if len(kinds) < 4 {
		t.Errorf("the example has only %v", kinds)
	}
	c, err := ReadContext(strings.NewReader(example), int64(len(example)), nil)
	if err != nil {
		t.Fatal(err)
	}
	said, _, _ := strings.Cut(after, "\n\n## ")
	said = strings.Join(strings.Fields(said), " ")
	if len(c.Messages) != 2 || c.Messages[0].Role != record.RoleUser || c.Messages[1].Role != record.RoleUser {
		t.Fatalf("resumes as %+v", c.Messages)
	}
	want := fmt.Sprintf("It resumes as two user messages, `%s` and `%s`, with the title `%s`.",
		c.Messages[0].Content, c.Messages[1].Content, c.Meta.Title)
	if said != want {
		t.Errorf("FORMAT.md has\n%s\nwant\n%s", said, want)
	}
}

// TestRFC0064 reads the example of RFC 0064, in which created_at is no time.
func TestRFC0064(t *testing.T) {
	const file = `{"agent":"crab","created_by":"user","created_at":"...","title":"","uptime_secs":0}
{"role":"user","content":"hello"}
{"role":"assistant","content":"hi there"}
{"compact":"Summary of conversation so far..."}
{"role":"user","content":"what were we talking about?"}
`
	c, err := ReadContext(strings.NewReader(file), int64(len(file)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Message{
		{Role: record.RoleUser, Content: "Summary of conversation so far..."},
		{Role: record.RoleUser, Content: "what were we talking about?"},
	}, c.Messages); d != "" {
		t.Error(d)
	}
	if want := (Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "..."}); c.Meta != want {
		t.Errorf("meta %+v, want %+v", c.Meta, want)
	}
	if c.Start != int64(strings.Index(file, `{"compact"`)) || !c.Compacted || c.Damaged != 0 || c.Torn != 0 {
		t.Errorf("context %+v", c)
	}
}

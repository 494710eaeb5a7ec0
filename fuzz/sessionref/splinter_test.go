package sessionref_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// bases are lines that the reference reads. A test inserts splinters into them or
// replaces parts with splinters.
var (
	bases = []string{
		`{"role":"user","content":"x"}`,
		`{"role":"assistant","content":"a","reasoning_content":"b","tool_calls":[{"id":"c","index":0,"type":"function","function":{"name":"n","arguments":"{}"}},{"function":{"arguments":""}}]}`,
		`{"role":"tool","content":"\ud83e\udd80","tool_call_id":"c","name":"n"}`,
		`{"compact":"s"}`,
		`{"title":"t","archived_at":"2026","compact":"s","note":{"role":"user","n":[1,-2.5e3,true,null]}}`,
		`{"x":0,"role":"user"}`,
	}
	splinters = []string{
		"null", "0", "-0", "01", "1.5", "1e400", "4294967296", "true", `""`, `"y"`, "{}", "[]", "[[]]", `{"a":1}`, "NaN", "'",
		",", ":", "{", "}", "[", "]", `"`, `\`, " ", "\t", "\r", "\f", "\u00a0", "\ufeff", "\u2028", "\x00", "\x01", "é", "🦀",
		`\n`, `\u0041`, `\ud83e`, `\udd80`, `\ud83e\udd80`, `\x`, `\u12`,
		`"role":"user",`, `"Role":"user",`, `"r\u006fle":"user",`, `"content":"z",`, `"content":null,`, `"tool_calls":null,`, `"tool_calls":[],`,
		`"compact":"s",`, `"compact":5,`, `"meta":{},`, `"meta":5,`, `"agent":"a",`, `"title":1,`, `"uptime_secs":"u",`, `"source":[],`, `"unknown":0,`, `"unknown":"\ud800",`,
		`"index":-1,`, `"index":1,`, `"id":"d",`, `"name":7,`, `"arguments":"",`, `"type":"t",`, `"function":{},`, `"sender":"s",`,
		strings.Repeat("[", 100), strings.Repeat("]", 100), strings.Repeat(`{"d":`, 40),
	}
)

// splinter returns a base with up to three splinters.
func splinter(rng *rand.Rand) string {
	b := bases[rng.IntN(len(bases))]
	for range rng.IntN(4) {
		from := rng.IntN(len(b) + 1)
		if rng.IntN(2) == 0 { // at the position of a key
			if i := strings.IndexAny(b[from:], `{,`); i >= 0 {
				from += i + 1
			}
		}
		to := from
		if rng.IntN(3) == 0 {
			to = min(len(b), from+rng.IntN(8))
		}
		b = b[:from] + splinters[rng.IntN(len(splinters))] + b[to:]
	}
	if !utf8.ValidString(b) {
		return bases[0]
	}
	return b
}

// TestSplinters checks that sessionlog reads each line as the reference does, with
// two kinds of exceptions. sessionlog is stricter with lone surrogates and repeated
// keys where the reference ignores them. It is laxer with null and missing values:
// it accepts some messages that the reference refuses.
func TestSplinters(t *testing.T) {
	const perFile = 20
	const first = `{"agent":"a","created_by":"b","created_at":"c"}` + "\n"
	stricter := []string{"lone surrogate", `duplicate key "compact"`, `duplicate key "meta"`}
	laxer := []string{`missing field "arguments"`, `missing field "function"`, "not a string", "not an array", `"index"`, "index:"}
	contains := func(err error, parts []string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(err.Error(), part) })
	}
	tally := map[string]int{}
	n := run(t, func(t *testing.T, rng *rand.Rand, i int) {
		data := []byte(first)
		for range perFile {
			data = append(data, splinter(rng)...)
			data = append(data, '\n')
		}
		s, err := sessionref.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		read, skipped := map[int64]sessionref.Record{}, map[int64]error{}
		for _, r := range s.Records {
			read[int64(r.Line)] = r
		}
		for _, l := range s.Skipped {
			skipped[int64(l.Line)] = l.Err
		}
		_, dir := folder(t, map[string][]byte{"a_b_1.jsonl": data})
		session, err := dir.Read("a_b_1")
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		for l, err := range session.Lines(0) {
			if err != nil {
				t.Fatal(err)
			}
			r, ok := read[l.Number]
			switch {
			case l.Glued: // in a line that the reference skips
				tally["records in bad lines"]++
			case !ok && l.Kind == record.KindMessage:
				if !contains(skipped[l.Number], laxer) {
					t.Errorf("%s\nthe reference does not read this message: %v", l.Raw, skipped[l.Number])
				}
				tally["read by sessionlog only"]++
			case !ok && l.Kind == record.KindMarker:
				t.Errorf("%s\nthe reference does not read this marker: %v", l.Raw, skipped[l.Number])
			case !ok:
				tally["skipped"]++
			case l.Kind == record.KindBad:
				if !contains(l.Err, stricter) && !(r.Marker && contains(l.Err, []string{"duplicate key"})) {
					t.Errorf("%s\nthe reference reads this line, but here it is bad: %v", l.Raw, l.Err)
				}
				tally["read by the reference only"]++
			case r.Marker:
				if l.Kind != record.KindMarker || l.Summary != r.Summary {
					t.Errorf("%s\nthe reference reads a marker %q, sessionlog a %v %q", l.Raw, r.Summary, l.Kind, l.Summary)
				}
				tally["markers"]++
			default:
				if l.Kind != record.KindMessage {
					t.Errorf("%s\nthe reference reads a message, sessionlog a %v", l.Raw, l.Kind)
				} else if diff := difference(r.Message, toReference([]sessionlog.Message{l.Message})[0]); diff != "" {
					t.Errorf("%s\n(-reference +sessionlog):\n%s", l.Raw, diff)
				}
				tally["messages"]++
			}
		}
	})
	t.Logf("splintered lines: %v", tally)
	for _, what := range []string{"messages", "markers", "skipped"} {
		if tally[what] < n {
			t.Errorf("%d %s: the generator is unbalanced", tally[what], what)
		}
	}
}

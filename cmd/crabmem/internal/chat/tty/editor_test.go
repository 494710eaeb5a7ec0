package tty

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// press gives an editor what a terminal sends, and returns the texts that were
// ended by Enter.
func press(e *Editor, k *Keys, pieces ...string) (texts []string) {
	for _, p := range pieces {
		for _, key := range k.Feed([]byte(p)) {
			if e.Key(key) {
				texts = append(texts, e.Text())
				e.Remember(e.Text())
				e.Reset()
			}
		}
	}
	return texts
}

func TestEditor(t *testing.T) {
	for _, tc := range []struct {
		name, typed, want string
	}{
		{"letters", "hällo 日本", "hällo 日本"},
		{"backspace", "abc\x7f\x7fd", "ad"},
		{"left and right", "ac\x1b[Db\x1b[Cd", "abcd"},
		{"home and end", "b\x1b[Ha\x1b[Fc", "abc"},
		{"ctrl a, e", "b\x01a\x05c", "abc"},
		{"kill", "one two\x01\x06\x06\x06\x0b", "one"},
		{"kill line", "one\x15two", "two"},
		{"word back", "one two\x17three", "one three"},
		{"words", "one two\x1b[1;5D\x1b[1;3Dx\x1b[1;5Cy", "xoney two"},
		{"alt words", "one two\x1bb\x1bbx\x1bfy\x1bd", "xoney"},
		{"delete", "abc\x1b[D\x1b[D\x1b[3~", "ac"},
		{"alt enter", "a\x1b\rb", "a\nb"},
		{"shift enter, kitty", "a\x1b[13;2ub", "a\nb"},
		{"shift enter, xterm", "a\x1b[27;2;13~b", "a\nb"},
		{"ctrl j", "a\nb", "a\nb"},
		{"backslash", "\x1b[Ca\\\rb", "a\nb"},
		{"paste", "a\x1b[200~x\r\ny\x1b[A\tz\r\x1b[201~b", "ax\ny[A\tz\nb"},
		{"paste without marks", "a\rb\r\n\tc\\\r\rд", "a\nb\n\tc\\\n\nд"},
		{"paste without marks, ends with a line", "a\rb\r", "a\nb\n"},
		{"up and down in lines", "abc\nde\nfgh\x1b[A\x1b[Ax\x1b[By", "abcx\ndey\nfgh"},
		{"kitty letters", "\x1b[97u\x1b[98;5u\x1b[99u", "ca"},
		{"unknown sequences", "a\x1b[?1;2c\x1b[99~\x1bOPb\x00\x1b[", "ab"},
		{"control characters of eight bits", "a\u009bb\u202ec", "abc"},
		{"not UTF-8", "a\xffb\xc3(", "ab("},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var e Editor
			var k Keys
			if got := press(&e, &k, tc.typed); len(got) > 0 {
				t.Errorf("it ended with %q", got)
			}
			if e.Text() != tc.want {
				t.Errorf("got %q, want %q", e.Text(), tc.want)
			}
			if strings.Contains(tc.typed, "\x1b") || strings.HasPrefix(tc.name, "paste") {
				return // an escape at the end of a piece is the key; a person types no paste
			}
			e, k = Editor{}, Keys{}
			press(&e, &k, strings.Split(tc.typed, "")...)
			if e.Text() != tc.want {
				t.Errorf("byte by byte %q, want %q", e.Text(), tc.want)
			}
		})
	}
}

func TestPasteInPieces(t *testing.T) {
	for n := 1; n < 12; n++ {
		var e Editor
		var k Keys
		text := "a\x1b[200~one\ntwo\x1b[201~b"
		press(&e, &k, text[:7])
		for s := range slices.Chunk([]byte(text[7:]), n) {
			press(&e, &k, string(s))
		}
		if e.Text() != "aone\ntwob" {
			t.Errorf("in pieces of %d: %q", n, e.Text())
		}
	}
	var k Keys
	k.Feed([]byte("\x1b[200~"))
	k.Feed([]byte(strings.Repeat("x", 3*maxPaste)))
	if keys := k.Feed([]byte("\x1b[201~")); len(keys) != 1 || len(keys[0].Text) != maxPaste {
		t.Errorf("%d keys", len(keys))
	}
}

// TestBursts wants pieces that arrive within the gap of a paste as one, and others as they
// are.
func TestBursts(t *testing.T) {
	const ms = time.Millisecond
	type piece struct {
		after time.Duration
		text  string
	}
	for _, tc := range []struct {
		name   string
		pieces []piece
		want   []string // texts of messages
		left   string   // in the editor
	}{
		{"a paste in one piece", []piece{{0, "one\rtwo\r\rfour"}}, nil, "one\ntwo\n\nfour"},
		{"and Enter", []piece{{0, "one\rtwo"}, {30 * ms, "\r"}}, []string{"one\ntwo"}, ""},
		{"pieces end with lines", []piece{{0, "one\r"}, {10 * ms, "two\r"}, {19 * ms, "\r"}, {ms, "four"}}, nil, "one\ntwo\n\nfour"},
		{"a character in two pieces", []piece{{0, "one\rtwo\xc3"}, {ms, "\xa9"}}, nil, "one\ntwoé"},
		{"at the end", []piece{{0, "one\rtwo\xc3"}, {30 * ms, "\xa9"}}, nil, "one\ntwoé"},
		{"typed", []piece{{0, "o"}, {ms, "n"}, {90 * ms, "e"}, {70 * ms, "\r"}, {60 * ms, "t"}}, []string{"one"}, "t"},
		{"a line and Enter", []piece{{0, "one\r"}, {30 * ms, "two\r"}}, []string{"one", "two"}, ""},
		{"Enter twice", []piece{{0, "one\r"}, {ms, "\r"}}, []string{"one", ""}, ""},
		{"keys among lines", []piece{{0, "onf\x7fe\rtwo\r"}}, []string{"one", "two"}, ""},
		{"marked", []piece{{0, "\x1b[200~one\r"}, {30 * ms, "two\r"}, {30 * ms, "\x1b[201~"}}, nil, "one\ntwo\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pieces := make(chan []byte)
				go func() {
					defer close(pieces)
					for _, p := range tc.pieces {
						time.Sleep(p.after)
						pieces <- []byte(p.text)
					}
				}()
				var e Editor
				var k Keys
				var got []string
				Bursts(pieces, func(b []byte) bool {
					got = append(got, press(&e, &k, string(b))...)
					return true
				})
				if !slices.Equal(got, tc.want) || e.Text() != tc.left {
					t.Errorf("got %q and %q in the editor, want %q and %q", got, e.Text(), tc.want, tc.left)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // emit ends it, and a long paste comes in parts
		pieces := make(chan []byte, 2)
		pieces <- []byte(strings.Repeat("x\r", maxPaste/2))
		pieces <- []byte("y")
		var sizes []int
		Bursts(pieces, func(b []byte) bool { sizes = append(sizes, len(b)); return len(sizes) < 2 })
		if !slices.Equal(sizes, []int{maxPaste, 1}) {
			t.Errorf("emitted %d", sizes)
		}
	})
}

func TestHistory(t *testing.T) {
	e := Editor{History: []string{"one", "two\nlines"}}
	var k Keys
	press(&e, &k, "new\x1b[A")
	if e.Text() != "two\nlines" {
		t.Errorf("up: %q", e.Text())
	}
	press(&e, &k, "\x1b[A\x1b[A")
	if e.Text() != "one" {
		t.Errorf("up to the oldest: %q", e.Text())
	}
	press(&e, &k, "\x1b[A\x1b[B\x1b[B")
	if e.Text() != "new" {
		t.Errorf("down to the new: %q", e.Text())
	}
	if got := press(&e, &k, "\r", "new\r", "\x1b[A\r"); !slices.Equal(got, []string{"new", "new", "new"}) {
		t.Errorf("sent %q", got)
	}
	if want := []string{"one", "two\nlines", "new"}; !slices.Equal(e.History, want) {
		t.Errorf("the history is %q, want %q", e.History, want)
	}
}

func TestComplete(t *testing.T) {
	words := []string{"/clear", "/compact", "/model"}
	e := Editor{Complete: func(before string) (int, []string) {
		return 0, slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, before) })
	}}
	var k Keys
	press(&e, &k, "/m\t")
	if e.Text() != "/model " || len(e.Offers) > 0 {
		t.Errorf("%q, %q", e.Text(), e.Offers)
	}
	press(&e, &k, "\x15/c\t")
	if e.Text() != "/c" || !slices.Equal(e.Offers, words[:2]) {
		t.Errorf("%q, %q", e.Text(), e.Offers)
	}
	press(&e, &k, "o\t")
	if e.Text() != "/compact " {
		t.Errorf("%q", e.Text())
	}
	press(&e, &k, "\x15x\t")
	if e.Text() != "x" {
		t.Errorf("%q", e.Text())
	}
}

func TestView(t *testing.T) {
	e := Editor{}
	e.Set("hello wörld\n日本語日本語\nx")
	type view struct {
		Rows     []string
		Row, Col int
	}
	see := func(width, height int) view {
		rows, row, col := e.View("> ", width, height)
		return view{rows, row, col}
	}
	if d := cmp.Diff(view{[]string{"> hello w", "  örld", "  日本語", "  日本語", "  x"}, 4, 3}, see(10, 0)); d != "" {
		t.Error(d)
	}
	tabs := Editor{}
	tabs.Set("a\n\tb\tc")
	rows, row, col := tabs.View("> ", 12, 0)
	if d := cmp.Diff(view{[]string{"> a", "      b    ", "  c"}, 2, 3}, view{rows, row, col}); d != "" {
		t.Error(d)
	}
	e.at = 0
	if d := cmp.Diff(view{[]string{"> hello w", "  örld"}, 0, 2}, see(10, 2)); d != "" {
		t.Error(d)
	}
	e.at = 7 // before the ö, which is on the next row
	if d := cmp.Diff(view{[]string{"> hello w", "  örld"}, 1, 2}, see(10, 2)); d != "" {
		t.Error(d)
	}
}

func TestHistorySearch(t *testing.T) {
	history := []string{"deploy to prod", "show the log", "deploy to staging", "show the log", "two\nlöng deploys"}
	const ctrlR, ctrlS, ctrlG = "\x12", "\x13", "\x07"
	for _, tc := range []struct {
		name, typed, want string
		sent              []string
	}{
		{"newest first", ctrlR + "deploy", "two\nlöng deploys", nil},
		{"again steps back", ctrlR + "deploy" + ctrlR, "deploy to staging", nil},
		{"to the oldest and no further", ctrlR + "deploy" + ctrlR + ctrlR + ctrlR, "deploy to prod", nil},
		{"and forward", ctrlR + "deploy" + ctrlR + ctrlR + ctrlS, "deploy to staging", nil},
		{"a longer query searches from the shown text on", ctrlR + "deploy" + ctrlR + " to p", "deploy to prod", nil},
		{"a shorter query searches all", ctrlR + "deploy to\x7f\x7f\x7f", "two\nlöng deploys", nil},
		{"an empty query shows the text from before", "new" + ctrlR + "log\x7f\x7f\x7f\x7f", "new", nil},
		{"equal texts count once", ctrlR + "log" + ctrlR, "show the log", nil},
		{"no match keeps the last one", ctrlR + "logx", "show the log", nil},
		{"ctrl g restores", "new" + ctrlR + "log" + ctrlG, "new", nil},
		{"escape restores", "new" + ctrlR + "log\x1b", "new", nil},
		{"escape of kitty restores", "new" + ctrlR + "log\x1b[27u", "new", nil},
		{"enter sends", ctrlR + "staging\r", "", []string{"deploy to staging"}},
		{"other keys edit the found text at the match", ctrlR + "to st\x1b[Cx", "deploy txo staging", nil},
		{"end, and further text", ctrlR + "to st\x05 now", "deploy to staging now", nil},
		{"up continues from the found text", ctrlR + "to st\x1b[A", "show the log", nil},
		{"down returns to the new text", "new" + ctrlR + "log\x10\x0e\x0e\x0e", "new", nil},
		{"twice repeats the last query", ctrlR + "staging\x05\x15" + ctrlR + ctrlR, "deploy to staging", nil},
		{"a paste is part of the query", ctrlR + "\x1b[200~staging\x1b[201~", "deploy to staging", nil},
		{"characters, not bytes", ctrlR + "ng d\x1b[Cx", "two\nlönxg deploys", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := Editor{History: slices.Clone(history)}
			var k Keys
			sent := press(&e, &k, tc.typed)
			if e.Text() != tc.want || !slices.Equal(sent, tc.sent) {
				t.Errorf("got %q and sent %q, want %q and %q", e.Text(), sent, tc.want, tc.sent)
			}
		})
	}
}

func TestHistorySearchState(t *testing.T) {
	e := Editor{History: []string{"one", "two"}}
	var k Keys
	want := func(query string, found, ok bool) {
		t.Helper()
		if q, f, o := e.Searching(); q != query || f != found || o != ok {
			t.Errorf("searching for %q: found %v, active %v; want %q, %v, %v", q, f, o, query, found, ok)
		}
	}
	want("", false, false)
	press(&e, &k, "new\x12")
	want("", true, true)
	press(&e, &k, "on")
	want("on", true, true)
	press(&e, &k, "x")
	want("onx", false, true)
	press(&e, &k, "\x7f")
	want("on", true, true)
	e.CancelSearch()
	want("", false, false)
	if e.Text() != "new" {
		t.Errorf("the text is %q after the search", e.Text())
	}
	press(&e, &k, "\x12on")
	e.Reset()
	want("", false, false)
}

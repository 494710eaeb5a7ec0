package record

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func start(id string) Work {
	kind, _ := SplitWorkID(id)
	return Work{ID: id, Op: WorkStart, Kind: kind, Agent: "helper", Session: "helper_work-user_1"}
}

// TestWorkLimits writes records at each limit, and above it.
func TestWorkLimits(t *testing.T) {
	big := func(n int) string { return strings.Repeat("x", n) }
	end := func(change func(*Work)) Work {
		w := Work{Op: WorkEnd, N: 1, State: Done, Reason: "outcome", Text: big(MaxResult)}
		change(&w)
		return w
	}
	begin := func(change func(*Work)) Work {
		w := start("w1073741824")
		w.Task, w.Scope = big(MaxTask), json.RawMessage(`"`+big(MaxScope-2)+`"`)
		change(&w)
		return w
	}
	open := func(items ...Work) Work { return Work{Op: WorkOpen, Next: &WorkNext{1, 1}, Items: items} }
	flush := func(notes int, change func(*Note)) Work {
		w := Work{Op: WorkFlush, N: 1, Upto: 2}
		for range notes {
			n := Note{Name: big(maxWorkName), Content: big(MaxNote), Aliases: []string{"x"}, Was: big(maxReason)}
			change(&n)
			w.Notes = append(w.Notes, n)
		}
		return w
	}
	for i, c := range []struct {
		w     Work
		valid bool
	}{
		{begin(func(*Work) {}), true}, {begin(func(w *Work) { w.From = &WorkFrom{Line: 1} }), true},
		{begin(func(w *Work) { w.Task += "x" }), false}, {begin(func(w *Work) { w.Task = "\xff" }), false},
		{begin(func(w *Work) { w.Scope = json.RawMessage(`"` + big(MaxScope-1) + `"`) }), false},
		{begin(func(w *Work) { w.ID = "w1073741825" }), false}, {begin(func(w *Work) { w.ID = "w01" }), false}, {begin(func(w *Work) { w.ID = "w0" }), false},
		{begin(func(w *Work) { w.ID = "w+1" }), false}, {begin(func(w *Work) { w.ID = "b1" }), false}, {begin(func(w *Work) { w.Kind = Branch }), false},
		{begin(func(w *Work) { w.Agent = "" }), false}, {begin(func(w *Work) { w.Agent = big(maxWorkName + 1) }), false},
		{begin(func(w *Work) { w.Session = "" }), false}, {begin(func(w *Work) { w.Session = big(maxWorkName + 1) }), false},
		{begin(func(w *Work) { w.At = big(maxReason + 1) }), false}, {begin(func(w *Work) { w.From = &WorkFrom{} }), false}, {begin(func(w *Work) { w.N = -1 }), false},
		{end(func(*Work) {}), true}, {end(func(w *Work) { w.State = Waiting }), true}, {end(func(w *Work) { w.State = Failed }), true},
		{end(func(w *Work) { w.Text += "x" }), false}, {end(func(w *Work) { w.N = 0 }), false}, {end(func(w *Work) { w.State = Running }), false},
		{end(func(w *Work) { w.State = "" }), false}, {end(func(w *Work) { w.Reason = "" }), false}, {end(func(w *Work) { w.Reason = big(maxReason + 1) }), false},
		{end(func(w *Work) { w.At = big(maxReason + 1) }), false},
		{Work{Op: WorkRoute, N: 1, Text: big(MaxRoute)}, true}, {Work{Op: WorkRoute, N: 1, Text: big(MaxRoute + 1)}, false},
		{Work{Op: WorkRoute, N: 1}, false}, {Work{Op: WorkRoute, Text: "x"}, false},
		{Work{Op: WorkState, State: Running, Attempt: 2}, true}, {Work{Op: WorkState, State: Running}, false}, {Work{Op: WorkState, State: "odd", Attempt: 1}, false},
		{Work{Op: WorkAsk, N: 1, Text: big(MaxQuestion), To: big(maxWorkName), Call: big(maxReason), Options: []string{big(maxReason)}}, true},
		{Work{Op: WorkAsk, N: 1, Text: big(MaxQuestion + 1)}, false}, {Work{Op: WorkAsk, N: 1}, false}, {Work{Op: WorkAsk, Text: "x"}, false},
		{Work{Op: WorkAsk, N: 1, Text: "x", To: big(maxWorkName + 1)}, false}, {Work{Op: WorkAsk, N: 1, Text: "x", Call: big(maxReason + 1)}, false},
		{Work{Op: WorkAsk, N: 1, Text: "x", Options: []string{""}}, false}, {Work{Op: WorkAsk, N: 1, Text: "x", Options: make([]string, maxKeys+1)}, false},
		{Work{Op: WorkAnswer, N: 1, Text: big(MaxRoute)}, true}, {Work{Op: WorkAnswer, N: 1, Text: big(MaxRoute + 1)}, false}, {Work{Op: WorkAnswer, N: 1}, false},
		{Work{Op: WorkUse, N: 1, Call: big(maxReason)}, true}, {Work{Op: WorkUse}, false}, {Work{Op: WorkUse, N: 1, Call: big(maxReason + 1)}, false},
		{Work{Op: WorkOpen, Next: &WorkNext{1, 1}, N: 2, Ask: &Work{N: 2, Text: "x", Answer: big(MaxRoute)}}, true},
		{Work{Op: WorkOpen, Next: &WorkNext{1, 1}, Ask: &Work{N: 2, Text: "x", Answer: big(MaxRoute + 1)}}, false},
		{Work{Op: WorkOpen, Next: &WorkNext{1, 1}, Ask: &Work{}}, false}, {Work{Op: WorkOpen, Next: &WorkNext{1, 1}, N: -1}, false},
		{open(), true}, {open(start("b1")), true}, {open(start("b0")), false}, {Work{Op: WorkOpen}, false}, {Work{Op: WorkOpen, Next: &WorkNext{B: 1}}, false},
		{open(make([]Work, maxOpen+1)...), false}, {Work{Op: "flash"}, false}, {Work{}, false},
		{flush(8, func(*Note) {}), true}, {flush(0, nil), true}, {flush(9, func(*Note) {}), false}, {Work{Op: WorkFlush, Upto: 1}, false}, {Work{Op: WorkFlush, N: 1}, false},
		{flush(1, func(n *Note) { n.Content += "x" }), false}, {flush(1, func(n *Note) { n.Name = "" }), false}, {flush(1, func(n *Note) { n.Was += "x" }), false},
		{flush(1, func(n *Note) { n.Aliases = []string{""} }), false}, {flush(1, func(n *Note) { n.Aliases = make([]string, maxKeys+1) }), false},
	} {
		b, err := c.w.AppendLine([]byte("before\n"))
		if (err == nil) != c.valid {
			t.Errorf("record %d: %v, valid %v", i, err, c.valid)
		}
		raw, _ := json.Marshal(map[string]any{"work": &c.w})
		got, ok := ParseWork(raw)
		if utf8.ValidString(c.w.Task) && (ok != c.valid || ok && !reflect.DeepEqual(got, c.w)) {
			t.Errorf("record %d: read %v as work %s", i, ok, got.ID)
		}
		if got, ok = ParseWork([]byte(strings.TrimPrefix(string(b), "before\n"))); c.valid && (!ok || !reflect.DeepEqual(got, c.w)) {
			t.Errorf("record %d: wrote %.80q", i, b)
		}
	}
	for _, line := range []string{"", `{"work":[]}`, `{"work":{"op":"route","n":1,"text":"x"}`, ` {"work":{"op":"route","n":1,"text":"x"}}`, `{"work":{"op":"route","n":"1","text":"x"}}`} {
		if w, ok := ParseWork([]byte(line)); ok {
			t.Errorf("%s is read as %+v", line, w)
		}
	}
}

func TestWorkKeys(t *testing.T) {
	for line, want := range map[string][]string{
		`{"role":"user","work":["w7.1","r3"]}`:                               {"w7.1", "r3"},
		`{"role":"user","content":"\"work\":[\"w7.1\"]"}`:                    nil,
		`{"role":"user","work":["` + strings.Repeat("w", maxKey+1) + `"]}`:   nil,
		`{"role":"user","work":["W7.1"]}`:                                    nil,
		`{"role":"user","work":[""]}`:                                        nil,
		`{"role":"user","work":[7]}`:                                         nil,
		`{"role":"user","x":{"work":["w7.1"]}}`:                              nil,
		`{"role":"user","work":["w1` + strings.Repeat(`","w1`, 1000) + `"]}`: nil,
	} {
		if got := WorkKeys([]byte(line)); !slices.Equal(got, want) {
			t.Errorf("%.80s: %q, want %q", line, got, want)
		}
	}
}

// TestOpenWork applies lines to the open work (S37, S39).
func TestOpenWork(t *testing.T) {
	asks := start("w2")
	asks.Interactive = true
	var o OpenWork
	for i, c := range []struct {
		w    Work
		keys []string
		want string
	}{
		{w: start("w1"), want: "1,2 w1.0"},
		{w: start("b1"), want: "2,2 w1.0 b1.0"},
		{w: start("w1"), want: "2,2 w1.0 b1.0"}, // used before
		{w: asks, want: "2,3 w1.0 b1.0 w2.0"},
		{keys: []string{"r1", "c4.5", "w9.1", "w1", "b1.x"}, want: "2,3 w1.0 b1.0 w2.0"},
		{keys: []string{"b1.1", "w2.1"}, want: "2,3 w1.0 w2.1"},
		{keys: []string{"w2.1"}, want: "2,3 w1.0 w2.1"},
		{w: start("b7"), want: "8,3 w1.0 w2.1 b7.0"},
		{w: Work{Op: WorkOpen, Next: &WorkNext{2, 9}, Items: []Work{asks}}, want: "8,9 w2.0"},
		{w: start("w8"), want: "8,9 w2.0"},
		{keys: []string{"w2.3"}, want: "8,9 w2.3"},
		{w: Work{Op: WorkOpen, Next: &WorkNext{1, 1}}, want: "8,9"},
	} {
		o.Add(c.w)
		o.Deliver(c.keys)
		r := o.Record()
		got := fmt.Sprint(r.Next.B, ",", r.Next.W)
		got = strings.ReplaceAll(got, " ", "")
		for _, item := range r.Items {
			got += fmt.Sprintf(" %s.%d", item.ID, item.N)
		}
		if got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
	ask := func(n int, text string) Work { return Work{Op: WorkAsk, N: n, Text: text} }
	for i, c := range []struct {
		w    Work
		key  string
		want string // number of questions, and the open one with its answer
	}{
		{ask(1, "tea?"), "", "1 tea?:"},
		{ask(1, "again?"), "", "1 tea?:"},
		{Work{Op: WorkAnswer, N: 2, Text: "x"}, "", "1 tea?:"},
		{Work{Op: WorkAnswer, N: 1, Text: "green"}, "", "1 tea?:green"},
		{Work{Op: WorkAnswer, N: 1, Text: "black"}, "", "1 tea?:green"},
		{Work{}, "q2.1", "1 tea?:green"},
		{Work{}, "q1.1", "1"},
		{Work{Op: WorkAnswer, N: 1, Text: "late"}, "", "1"},
		{ask(3, "milk?"), "", "3 milk?:"},
		{ask(4, "sugar?"), "", "4 sugar?:"},
		{Work{Op: WorkUse, N: 4}, "", "4"},
		{ask(5, "cake?"), "", "5 cake?:"},
		{Work{Op: WorkEnd, N: 1}, "", "5"},
		{Work{Op: WorkOpen, Next: &WorkNext{1, 1}, N: 7, Ask: &Work{N: 7, Text: "x", Answer: "y"}}, "", "7 x:y"},
		{Work{Op: WorkOpen, Next: &WorkNext{1, 1}}, "", "7"},
	} {
		o.Add(c.w)
		o.Deliver([]string{c.key})
		r := o.Record()
		got := fmt.Sprint(r.N)
		if r.Ask != nil {
			got += " " + r.Ask.Text + ":" + r.Ask.Answer
		}
		if got != c.want {
			t.Errorf("question %d: %s, want %s", i, got, c.want)
		}
	}
	var none OpenWork
	if r := none.Record(); r.Next.B != 1 || r.Next.W != 1 {
		t.Errorf("without work: %+v", r.Next)
	}
}

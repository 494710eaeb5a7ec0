package linear

import (
	"testing"

	"crabmem/crmem"
)

func entry(id uint64, name int, content string) crmem.Entry {
	return crmem.Entry{ID: id, Name: Name(name), CreatedAt: Now, Content: content}
}

func add(begin, end int, err string, id uint64, content string) Call {
	c := Call{Ops: []Op{{Do: "add", Content: content}}, Begin: begin, End: end, Err: err}
	if err == "" && end != 0 {
		c.Got = []crmem.Entry{entry(id, 0, content)}
	}
	return c
}

func remove(begin, end int, err string) Call {
	return Call{Ops: []Op{{Do: "remove"}}, Begin: begin, End: end, Err: err}
}

func get(begin, end int, err string, id uint64, content string) Call {
	return Call{Ops: []Op{{Do: "get"}}, Begin: begin, End: end, Err: err, Got: []crmem.Entry{entry(id, 0, content)}}
}

func with(next uint64, id uint64, content string) State {
	e := entry(id, 0, content)
	return State{next: next, at: [Names]value{valueOf(&e)}}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		what  string
		ok    bool
		end   State
		calls []Call
	}{
		{"no call", true, Empty(), nil},
		{"an entry that no call wrote", false, with(2, 1, "a"), nil},
		{"one write", true, with(2, 1, "a"), []Call{add(1, 2, "", 1, "a")}},
		{"a lost write", false, Empty(), []Call{add(1, 2, "", 1, "a")}},
		{"another content", false, with(2, 1, "b"), []Call{add(1, 2, "", 1, "a")}},
		{"another id", false, with(3, 2, "a"), []Call{add(1, 2, "", 2, "a")}},
		{"overlapping adds", true, with(2, 1, "b"), []Call{add(1, 3, "exists", 0, "a"), add(2, 4, "", 1, "b")}},
		{"an error before the write that causes it", false, with(2, 1, "b"), []Call{add(1, 2, "exists", 0, "a"), add(3, 4, "", 1, "b")}},
		{"two adds succeed", false, with(3, 2, "b"), []Call{add(1, 3, "", 1, "a"), add(2, 4, "", 2, "b")}},
		{"two adds around a remove", true, with(3, 2, "b"), []Call{add(1, 4, "", 1, "a"), add(2, 5, "", 2, "b"), remove(3, 6, "")}},
		{"a concurrent remove before the write", true, with(2, 1, "a"), []Call{add(1, 3, "", 1, "a"), remove(2, 4, "not found")}},
		{"a remove that ignores an earlier write", false, with(2, 1, "a"), []Call{add(1, 2, "", 1, "a"), remove(3, 4, "not found")}},
		{"no response, kept", true, with(2, 1, "a"), []Call{add(1, 0, "", 1, "a")}},
		{"no response, not kept", true, Empty(), []Call{add(1, 0, "", 1, "a")}},
		{"no response, seen by others, kept", true, with(2, 1, "a"), []Call{add(1, 0, "", 1, "a"), add(2, 3, "exists", 0, "b")}},
		{"no response, seen by others, not kept", true, Empty(), []Call{add(1, 0, "", 1, "a"), add(2, 3, "exists", 0, "b")}},
		{"no response, seen by others, removed", true, State{next: 2}, []Call{add(1, 0, "", 1, "a"), add(2, 3, "exists", 0, "b"), remove(4, 0, "")}},
		{"no response, required by a successful remove, not kept", false, Empty(), []Call{add(1, 0, "", 1, "a"), remove(2, 3, "")}},
		{"a second id without a first", false, with(3, 2, "b"), []Call{add(1, 2, "", 2, "b")}},
		{"a read of the old state", true, with(2, 1, "a"), []Call{add(1, 3, "", 1, "a"), get(2, 4, "not found", 0, "")}},
		{"a read that ignores an earlier write", false, with(2, 1, "a"), []Call{add(1, 2, "", 1, "a"), get(3, 4, "not found", 0, "")}},
		{"a read of an older state after a read of a newer one", false, with(2, 1, "a"), []Call{add(1, 6, "", 1, "a"), get(2, 3, "", 1, "a"), get(4, 5, "not found", 0, "")}},
		{"a read ignores the pending write that causes an error", true, with(2, 1, "a"), []Call{add(1, 6, "", 1, "a"), add(2, 3, "exists", 0, "b"), get(4, 5, "not found", 0, "")}},
	} {
		if err := Check(c.calls, Empty(), c.end, true); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestCheckOfPendingWrites checks an error that depends on a pending write. The
// store then stages this write again, after another write.
func TestCheckOfPendingWrites(t *testing.T) {
	other := Call{Ops: []Op{{Do: "add", Name: 1, Content: "o"}}, Begin: 4, End: 5, Got: []crmem.Entry{entry(1, 1, "o")}}
	end := with(3, 2, "a")
	end.at[1] = valueOf(&other.Got[0])
	calls := []Call{add(1, 6, "", 2, "a"), add(2, 3, "exists", 0, "b"), other}
	if err := Check(calls, Empty(), end, true); err == nil {
		t.Error("the strict check accepts the history")
	}
	if err := Check(calls, Empty(), end, false); err != nil {
		t.Error(err)
	}
	calls[0].Begin, calls[0].End, calls[2].Begin, calls[2].End = 7, 8, 5, 6
	if err := Check(calls, Empty(), end, false); err == nil {
		t.Error("the check accepts an error before the write that causes it")
	}
	first, last := add(1, 2, "", 1, "a"), remove(3, 4, "")
	for what, c := range map[string]struct {
		call Call
		ok   bool
	}{
		"a value that was overwritten": {add(5, 6, "exists", 0, "b"), false},
		"the last value":               {remove(5, 6, "not found"), true},
		"a value during the call":      {add(3, 6, "exists", 0, "b"), true},
	} {
		if err := Check([]Call{first, last, c.call}, Empty(), State{next: 2}, false); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCheckSeesChangedHistories executes calls one after the other. Check must
// reject the history if one response is changed.
func TestCheckSeesChangedHistories(t *testing.T) {
	s := crmem.New(&crmem.Options{Now: Clock})
	var h History
	var writers []*Writer
	for i := range 4 {
		writers = append(writers, NewWriter(1, i, "x"))
	}
	for i := range 400 {
		c := writers[i%4].Next()
		h.Begin(c)
		if err := c.Run(s); err != nil {
			t.Fatal(err)
		}
		h.End(c)
		writers[i%4].Saw(&c)
	}
	end, err := StateOf(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(h.Calls(), Empty(), end, true); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for i, c := range h.Calls() {
		kinds[c.Ops[0].Do+" "+c.Err]++
		changed := h.Calls()
		switch {
		case c.Err != "":
			changed[i].Err = map[string]string{"not found": "exists", "exists": "not found", "stale": "exists", "kind": "not found"}[c.Err]
		case len(c.Got) > 0:
			changed[i].Got = append([]crmem.Entry(nil), c.Got...)
			changed[i].Got[len(c.Got)-1].Content += "x"
		default:
			changed[i].Err = "stale"
		}
		if err := Check(changed, Empty(), end, true); err == nil {
			t.Errorf("call %d, %+v: Check accepts a changed response", i, c)
		}
	}
	t.Logf("calls: %v", kinds)
}

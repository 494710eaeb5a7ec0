package daemon

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/race"

	"google.golang.org/protobuf/proto"
)

func (s *served) client() *client.Client {
	c := &client.Client{Addr: wire.Addr{Network: "unix", Address: Socket(s.home)}}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// wantError checks the code and the kind of an error of the daemon.
func wantError(t *testing.T, err error, code uint32, kind, text string) {
	t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code != code || e.Kind != kind || !strings.Contains(e.Message, text) {
		t.Errorf("%v (%+v), want %d %s: %s", err, e, code, kind, text)
	}
}

func note(name, content string) op.Note {
	return op.Note{Remember: crmem.Remember{Name: name, Content: content}}
}

func TestStoreOperations(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	w, err := op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: "deploy", Content: "build, tag", Aliases: []string{"ship"}}})
	if e := w.Entry(); err != nil || e.ID != 1 || e.Content != "build, tag" || e.Aliases[0] != "ship" || !w.Created {
		t.Fatalf("%v, %v", w, err)
	}
	if w, err = op.Remember.Do(ctx, c, note("deploy", "build, tag, push")); err != nil || w.ID != 1 || len(w.Aliases) != 1 || *w.Replaced != 10 {
		t.Fatalf("%v, %v", w, err)
	}
	if _, err := op.ApplyOps(ctx, c, crmem.Add{Name: "chat", Content: "said", Kind: crmem.Archive}); err != nil {
		t.Fatal(err)
	}
	_, err = op.ApplyOps(ctx, c, crmem.Add{Name: "chat", Content: "x", Kind: crmem.Archive})
	wantError(t, err, 409, "exists", "chat")
	_, err = op.Remember.Do(ctx, c, note("chat", "x"))
	wantError(t, err, 409, "kind", "archive")
	_, err = op.ApplyOps(ctx, c, crmem.Add{Name: "x", Kind: 7})
	wantError(t, err, 400, "invalid", "kind 7")
	if _, err = op.Remember.Do(ctx, c, note(strings.Repeat("x", 2000), "x")); !errors.Is(err, crmem.ErrInvalid) || !strings.Contains(err.Error(), "at most 1024") {
		t.Error(err)
	}
	if e, err := op.ReadEntry(ctx, c, op.EntryName{Name: "ship"}); err != nil || e.Name != "deploy" {
		t.Errorf("%v, %v", e, err)
	}
	if e, err := op.ReadEntry(ctx, c, op.EntryName{ID: 2}); err != nil || e.Name != "chat" {
		t.Errorf("%v, %v", e, err)
	}
	_, err = op.ReadEntry(ctx, c, op.EntryName{Name: "missing"})
	wantError(t, err, 404, "not_found", `no entry "missing"`)
	_, err = op.ReadEntry(ctx, c, op.EntryName{ID: 9})
	wantError(t, err, 404, "not_found", "9")

	_, err = op.Forget.Do(ctx, c, op.Removal{Name: "ship"})
	wantError(t, err, 404, "not_found", `it is an alias of "deploy"`)
	_, err = op.Forget.Do(ctx, c, op.Removal{Name: "chat"})
	wantError(t, err, 409, "kind", "is an archive")
	if e, err := op.Forget.Do(ctx, c, op.Removal{Name: "chat", Archive: true, DryRun: true}); err != nil || e.Entry.Content != "said" || s.store.Len() != 2 {
		t.Errorf("%v, %v", e, err)
	}
	if e, err := op.Forget.Do(ctx, c, op.Removal{Name: "chat", Archive: true}); err != nil || e.Entry.Content != "said" || s.store.Len() != 1 {
		t.Errorf("%v, %v", e, err)
	}
	r, err := op.Checkpoint.Do(ctx, c, op.None{})
	if err != nil || r.Folded == 0 || r.Entries != 1 || r.Snapshot == 0 {
		t.Errorf("%v, %v", r, err)
	}
	stats, err := op.ReadStats.Do(ctx, c, op.StatsFilter{Index: true})
	if err != nil || stats.Entries != 1 || stats.Index.Terms == 0 || stats.Path != s.store.Path() {
		t.Errorf("%+v, %v", stats, err)
	}
}

func TestApply(t *testing.T) {
	race.Skip(t)
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	list, err := op.ApplyOps(ctx, c, crmem.Add{Name: "a", Content: "one"}, crmem.Add{Name: "b", Content: "two"})
	if err != nil || len(list) != 2 || list[1].Content != "two" || list[1].ID != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	a := list[0]
	_, err = op.Apply.Do(ctx, c, op.Batch{Steps: []op.Step{{Do: "add", Entry: crmem.Entry{Name: "c", Content: "x"}}, {}}})
	wantError(t, err, 400, "invalid", "step 2")
	_, err = op.ApplyOps(ctx, c, crmem.Add{Name: "c", Content: "x"}, crmem.Add{Name: "a", Content: "x"})
	wantError(t, err, 409, "exists", "a")
	stale := a
	stale.Content = "other"
	for _, u := range []crmem.Entry{stale, {Name: "a"}, {ID: 9, Name: "z"}} {
		_, err = op.ApplyOps(ctx, c, crmem.Unchanged{Entry: u}, crmem.Remove{Name: "a"})
		wantError(t, err, 409, "changed", u.Name)
	}
	if s.store.Len() != 2 {
		t.Errorf("%d entries", s.store.Len())
	}
	list, err = op.ApplyOps(ctx, c, crmem.Unchanged{Entry: a}, crmem.Unchanged{Entry: crmem.Entry{Name: "z"}},
		crmem.Update{Name: "a", Content: "new", Aliases: []string{"x"}}, crmem.Alias{Name: "b", Aliases: []string{"y"}}, crmem.Rename{Name: "b", To: "c"}, crmem.Remove{Name: "c"},
		crmem.Restore{Entry: crmem.Entry{ID: 70, Name: "old", Kind: crmem.Archive, CreatedAt: 5, Content: "text"}})
	if err != nil || len(list) != 4 || list[3].ID != 70 || list[3].Content != "text" || list[3].CreatedAt != 5 || list[0].ID != 1 || list[2].Name != "c" {
		t.Errorf("%v, %v", list, err)
	}

	// A request and a response of more than a frame.
	var ops []crmem.Op
	for i := range 3 {
		ops = append(ops, crmem.Add{Name: fmt.Sprint("big", i), Content: strings.Repeat("x", 8<<20)})
	}
	if list, err = op.ApplyOps(ctx, c, ops...); err != nil || len(list) != 3 || len(list[2].Content) != 8<<20 {
		t.Errorf("%d, %v", len(list), err)
	}
	sizes := ""
	for e, err := range op.Entries(ctx, c, op.EntryFilter{Content: true, After: 70, Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		sizes += fmt.Sprint(e.ID, " ", len(e.Content), ", ")
	}
	if sizes != "71 8388608, 72 8388608, " {
		t.Error(sizes)
	}
}

func TestLoadTree(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	for _, n := range []string{"a", "b"} {
		if _, err := s.store.Remember(n, "text", nil); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "book")
	if e := failure(t, s.one(callMessage(t, "tree.load", op.TreeLoad{Dir: "book"}))); e.Code != 400 || !strings.Contains(e.Message, "absolute") {
		t.Error(e)
	}
	if _, err := tree.Dump(s.store, dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Remember("c", "since", nil); err != nil {
		t.Fatal(err)
	}
	load := func(in op.TreeLoad) (report *op.LoadAnswer, removes string, err error) {
		err = op.LoadTree.Each(ctx, c, in, func(p op.LoadPart) error {
			removes += strings.Join(p.Removes, " ")
			report = p.Report
			return nil
		})
		return report, removes, err
	}
	_, _, err := load(op.TreeLoad{Dir: dir, Guard: true})
	if e, ok := errors.AsType[*tree.ChangedError](err); !ok || len(e.Names) != 1 || e.Names[0] != "c" || e.Dir != dir {
		t.Errorf("%+v", err)
	}
	_, _, err = load(op.TreeLoad{Dir: dir + "-not"})
	if e, ok := errors.AsType[*tree.Error](err); !ok || !strings.Contains(e.Msg, "no such directory") {
		t.Errorf("%+v", err)
	}
	loaded, gone, err := load(op.TreeLoad{Dir: dir})
	if err != nil || loaded.Removed[0] != "c" || gone != "c" || s.store.Len() != 2 {
		t.Errorf("%+v, %v, %q", loaded, err, gone)
	}
}

// TestLoadOfASlowClient lets another client write while a slow client reads the
// entries that a load will remove. The load must not remove the new entry
// without a confirmation.
func TestLoadOfASlowClient(t *testing.T) {
	s := serve(t, home(t), "")
	if _, err := s.store.Remember("kept", "text", nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "book")
	if _, err := tree.Dump(s.store, dir, nil); err != nil {
		t.Fatal(err)
	}
	var ops []crmem.Op
	for i := range 8000 { // their names are more than is on its way between two processes
		ops = append(ops, crmem.Add{Name: fmt.Sprintf("%06d %s", i, strings.Repeat("x", 1000))})
	}
	if err := s.store.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	slow, err := net.Dial("unix", Socket(s.home))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	check(t, slow.SetDeadline(time.Now().Add(gate.Hang)))
	request, err := proto.Marshal(callMessage(t, "tree.load", op.TreeLoad{Dir: dir}))
	check(t, err)
	_, err = slow.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...))
	check(t, err)
	var removes []string
	var report *op.LoadAnswer
	for written := false; report == nil; {
		head := make([]byte, 4)
		_, err := io.ReadFull(slow, head)
		check(t, err)
		body := make([]byte, binary.BigEndian.Uint32(head))
		if len(body) > op.PartSize && !written { // the daemon is sending the names
			_, err := op.Remember.Do(t.Context(), s.client(), note("late", "of another client"))
			check(t, err)
			written = true
		}
		_, err = io.ReadFull(slow, body)
		check(t, err)
		var r pb.ServerMessage
		check(t, proto.Unmarshal(body, &r))
		var p op.LoadPart
		if err := op.Decode(r.GetResult().GetBody(), &p); err != nil {
			t.Fatal(&r, err)
		}
		removes, report = append(removes, p.Removes...), p.Report
	}
	if len(report.Removed) != len(ops)+1 || len(removes) != len(report.Removed) || removes[len(removes)-1] != "late" || s.store.Len() != 1 {
		t.Errorf("removed %d, %d listed, the last %q, %d left", len(report.Removed), len(removes), removes[len(removes)-1], s.store.Len())
	}
}

// TestRecallParts checks that an answer over the wire is the answer of the
// store, even when it is larger than a part.
func TestRecallParts(t *testing.T) {
	race.Skip(t)
	s := serve(t, home(t), "")
	c, ctx := s.client(), t.Context()
	for i := range 40 {
		if _, err := s.store.Remember(fmt.Sprint("canary ", i), strings.Repeat("watch the canary sing\n", 30000), []string{"bird"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []op.Question{
		{Query: "canary", Limit: 39, Explain: true, Weights: true, WhyNot: "canary 39"}, {Query: "canary", Limit: 4, Budget: 300}, {Query: "canray"},
		{Query: "zeppelin"}, {Query: "canary", FilterArgs: op.FilterArgs{Kind: "archive"}}, {Query: "bird", Limit: 2, Analyzer: "plain", Explain: true},
	} {
		got, err := op.Recall.Do(ctx, c, q)
		if err != nil {
			t.Fatal(err)
		}
		want, err := op.Recall.Do(ctx, op.Store{Store: s.store}, q)
		if err != nil {
			t.Fatal(err)
		}
		a, err1 := json.Marshal(got)
		b, err2 := json.Marshal(want)
		if err1 != nil || err2 != nil || string(a) != string(b) {
			t.Errorf("%+v: %.500s\nwant %.500s", q, a, b)
		}
		for i := range want.Hits {
			if g, w := &got.Hits[i], &want.Hits[i]; g.Bytes != w.Bytes || fmt.Sprint(g.Weights) != fmt.Sprint(w.Weights) || (len(w.Weights) > 0) != q.Weights {
				t.Errorf("%+v: hit %d has %d bytes and weights %v, want %d and %v", q, i, g.Bytes, g.Weights, w.Bytes, w.Weights)
			}
		}
	}
	_, err := op.Recall.Do(ctx, c, op.Question{Query: "x", Analyzer: "no"})
	wantError(t, err, 400, "invalid", "analyzer")
}

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/crmem/tree"
	"crabmem/daemon/client"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/encoding/protodelim"
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

func TestStoreOperations(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.wireClient(), t.Context()
	e, err := c.Remember(ctx, &pb.RememberMsg{Name: "deploy", Content: "build, tag", Aliases: []string{"ship"}})
	if err != nil || e.Id != 1 || e.Content != "build, tag" || e.Aliases[0] != "ship" {
		t.Fatalf("%v, %v", e, err)
	}
	if e, err = c.Remember(ctx, &pb.RememberMsg{Name: "deploy", Content: "build, tag, push"}); err != nil || e.Id != 1 || len(e.Aliases) != 1 {
		t.Fatalf("%v, %v", e, err)
	}
	if _, err = c.Remember(ctx, &pb.RememberMsg{Name: "chat", Content: "said", Kind: pb.EntryKind_ARCHIVE}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Remember(ctx, &pb.RememberMsg{Name: "chat", Content: "x", Kind: pb.EntryKind_ARCHIVE})
	wantError(t, err, 409, "exists", "chat")
	_, err = c.Remember(ctx, &pb.RememberMsg{Name: "chat", Content: "x"})
	wantError(t, err, 409, "kind", "archive")
	_, err = c.Remember(ctx, &pb.RememberMsg{Name: "x", Kind: 7})
	wantError(t, err, 400, "invalid", "kind 7")
	_, err = c.Remember(ctx, &pb.RememberMsg{Name: "x", Content: "x", Kind: pb.EntryKind_ARCHIVE, Metadata: &pb.MetadataEdit{}})
	wantError(t, err, 400, "invalid", "archive")
	_, err = c.Remember(ctx, &pb.RememberMsg{Name: strings.Repeat("x", 2000)})
	wantError(t, err, 400, "invalid", "at most 1024")
	if e, err = c.Get(ctx, "ship"); err != nil || e.Name != "deploy" {
		t.Errorf("%v, %v", e, err)
	}
	_, err = c.Get(ctx, "nobody")
	wantError(t, err, 404, "not_found", `no entry "nobody"`)

	if e, err = c.Alias(ctx, &pb.AliasMsg{Name: "ship", Aliases: []string{"go"}, Mode: pb.AliasMsg_ADD}); err != nil || strings.Join(e.Aliases, " ") != "ship go" {
		t.Errorf("%v, %v", e, err)
	}
	_, err = c.Alias(ctx, &pb.AliasMsg{Name: "deploy", Aliases: []string{"no"}, Mode: pb.AliasMsg_REMOVE})
	wantError(t, err, 404, "not_found", `"deploy" has no alias "no"`)
	if e, err = c.Alias(ctx, &pb.AliasMsg{Name: "deploy", Aliases: []string{"ship"}, Mode: pb.AliasMsg_REMOVE}); err != nil || strings.Join(e.Aliases, " ") != "go" {
		t.Errorf("%v, %v", e, err)
	}

	_, err = c.Forget(ctx, &pb.ForgetMsg{Name: "go"})
	wantError(t, err, 404, "not_found", `it is an alias of "deploy"`)
	_, err = c.Forget(ctx, &pb.ForgetMsg{Name: "chat"})
	wantError(t, err, 409, "kind", "is an archive")
	if e, err = c.Forget(ctx, &pb.ForgetMsg{Name: "chat", Archive: true, DryRun: true}); err != nil || e.Content != "said" || s.store.Len() != 2 {
		t.Errorf("%v, %v", e, err)
	}
	if e, err = c.Forget(ctx, &pb.ForgetMsg{Name: "chat", Archive: true}); err != nil || e.Content != "said" || s.store.Len() != 1 {
		t.Errorf("%v, %v", e, err)
	}
	r, err := c.Checkpoint(ctx)
	if err != nil || r.Folded == 0 || r.Entries != 1 || r.SnapshotBytes == 0 {
		t.Errorf("%v, %v", r, err)
	}
	report, err := c.StoreStats(ctx, true)
	var stats memtool.StatsAnswer
	if err != nil || json.Unmarshal(report.Json, &stats) != nil || stats.Entries != 1 || stats.Index.Terms == 0 || stats.Path != s.store.Path() {
		t.Errorf("%s, %v", report.GetJson(), err)
	}
}

func note(name, content string) *pb.Entry { return &pb.Entry{Name: name, Content: content} }

func TestApply(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.wireClient(), t.Context()
	add := func(e *pb.Entry) *pb.Change { return &pb.Change{Change: &pb.Change_Add{Add: e}} }
	list, err := c.Apply(ctx, &pb.ApplyMsg{Changes: []*pb.Change{add(note("a", "one")), add(note("b", "two"))}, Content: true})
	if err != nil || len(list) != 2 || list[1].Content != "two" || list[1].Id != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	a := list[0]
	_, err = c.Apply(ctx, &pb.ApplyMsg{Changes: []*pb.Change{add(note("c", "x")), {}}})
	wantError(t, err, 400, "invalid", "change 2")
	_, err = c.Apply(ctx, &pb.ApplyMsg{Changes: []*pb.Change{add(note("c", "x")), add(note("a", "x"))}})
	wantError(t, err, 409, "exists", "a")
	stale := proto.Clone(a).(*pb.Entry)
	stale.Content = "other"
	for _, u := range []*pb.Entry{stale, {Name: "a"}, {Id: 9, Name: "z"}} {
		_, err = c.Apply(ctx, &pb.ApplyMsg{Changes: []*pb.Change{{Change: &pb.Change_Remove{Remove: "a"}}}, Unchanged: []*pb.Entry{u}})
		wantError(t, err, 409, "changed", u.Name)
	}
	if s.store.Len() != 2 {
		t.Errorf("%d entries", s.store.Len())
	}
	list, err = c.Apply(ctx, &pb.ApplyMsg{Unchanged: []*pb.Entry{a, {Name: "z"}}, Changes: []*pb.Change{
		{Change: &pb.Change_Update{Update: &pb.Entry{Name: "a", Content: "new", Aliases: []string{"x"}}}},
		{Change: &pb.Change_Alias{Alias: &pb.Entry{Name: "b", Aliases: []string{"y"}}}},
		{Change: &pb.Change_Remove{Remove: "b"}},
		{Change: &pb.Change_Restore{Restore: &pb.Entry{Id: 70, Name: "old", Kind: pb.EntryKind_ARCHIVE, CreatedAt: 5, Content: "text"}}},
	}})
	if err != nil || len(list) != 3 || list[2].Id != 70 || list[2].Bytes != 4 || list[2].Content != "" || list[2].CreatedAt != 5 || list[0].Id != 1 {
		t.Errorf("%v, %v", list, err)
	}

	// More than a frame comes in a file.
	var b bytes.Buffer
	for i := range 3 {
		if _, err := protodelim.MarshalTo(&b, &pb.ApplyMsg{Changes: []*pb.Change{add(note(fmt.Sprint("big", i), strings.Repeat("x", 8<<20)))}}); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(s.home, "changes")
	write := func(b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(b.Bytes()[:b.Len()-1])
	_, err = c.Apply(ctx, &pb.ApplyMsg{File: name})
	wantError(t, err, 400, "invalid", "message 3")
	write(b.Bytes())
	if list, err = c.Apply(ctx, &pb.ApplyMsg{File: name}); err != nil || len(list) != 3 || list[2].Bytes != 8<<20 {
		t.Errorf("%d, %v", len(list), err)
	}
	_, err = c.Apply(ctx, &pb.ApplyMsg{File: "changes"})
	wantError(t, err, 400, "invalid", "absolute")

	// A list of more than a frame comes in parts.
	list, err = c.List(ctx, &pb.ListEntriesMsg{Content: true, After: 70, Limit: 2})
	if err != nil || len(list) != 2 || len(list[0].Content) != 8<<20 || len(list[1].Content) != 8<<20 {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

// TestChangedTogether has clients add aliases to one entry concurrently: no
// alias is lost.
func TestChangedTogether(t *testing.T) {
	s := serve(t, home(t), "")
	if _, err := s.store.Remember("one", "text", nil); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		c := s.wireClient()
		wg.Go(func() {
			for k := range 25 {
				if _, err := c.Alias(context.Background(), &pb.AliasMsg{Name: "one", Aliases: []string{fmt.Sprint(i, " ", k)}, Mode: pb.AliasMsg_ADD}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if e, err := s.store.Get("one"); err != nil || len(e.Aliases) != 100 {
		t.Errorf("%d aliases, %v", len(e.Aliases), err)
	}
}

func TestTreeOperations(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.wireClient(), t.Context()
	for _, n := range []string{"a", "b"} {
		if _, err := s.store.Remember(n, "text", nil); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "book")
	_, err := c.Dump(ctx, &pb.DumpMsg{Dir: "book"}, nil)
	wantError(t, err, 400, "invalid", "absolute")
	report, err := c.Dump(ctx, &pb.DumpMsg{Dir: dir, Progress: true}, func(*pb.Progress) {})
	var dumped memtool.DumpAnswer
	if err != nil || json.Unmarshal(report.Json, &dumped) != nil || dumped.Entries != 2 || len(dumped.Written) != 2 {
		t.Fatalf("%s, %v", report.GetJson(), err)
	}
	if _, err := s.store.Remember("c", "since", nil); err != nil {
		t.Fatal(err)
	}
	_, err = c.Load(ctx, &pb.LoadMsg{Dir: dir}, nil)
	wantError(t, err, 409, "changed", "changed since")
	var details memtool.TreeDetails
	if e, _ := errors.AsType[*client.Error](err); e == nil || json.Unmarshal(e.Details, &details) != nil || details.Names[0] != "c" {
		t.Errorf("%+v", details)
	}
	_, err = c.Load(ctx, &pb.LoadMsg{Dir: dir + "-not"}, nil)
	wantError(t, err, 400, "tree", "no such directory")
	gone := ""
	report, err = c.Load(ctx, &pb.LoadMsg{Dir: dir, Mode: pb.LoadMsg_REPLACE, Progress: true}, func(p *pb.Progress) {
		if p.Label == "removes" {
			gone = strings.Join(p.Lines, " ")
		}
	})
	var loaded memtool.LoadAnswer
	if err != nil || json.Unmarshal(report.Json, &loaded) != nil || loaded.Removed[0] != "c" || gone != "c" || s.store.Len() != 2 {
		t.Errorf("%s, %v, %q", report.GetJson(), err, gone)
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
	slow, err := wire.Dial(t.Context(), wire.Addr{Network: "unix", Address: Socket(s.home)})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if err := slow.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_Load{Load: &pb.LoadMsg{Dir: dir, Mode: pb.LoadMsg_REPLACE, Progress: true}}}); err != nil {
		t.Fatal(err)
	}
	listed := 0
	next := func() *pb.ServerMessage {
		t.Helper()
		r := &pb.ServerMessage{}
		if err := slow.Read(r); err != nil {
			t.Fatal(err)
		}
		listed += len(r.GetProgress().GetLines())
		return r
	}
	for listed == 0 {
		next()
	}
	ctx, cancel := context.WithTimeout(t.Context(), gate.Hang)
	defer cancel()
	if _, err := s.client().Remember(ctx, "late", "of another client", nil); err != nil {
		t.Fatalf("the other client: %v", err)
	}
	last, r := "", next()
	for ; r.GetProgress() != nil; r = next() {
		if lines := r.GetProgress().GetLines(); len(lines) > 0 {
			last = lines[len(lines)-1]
		}
	}
	var loaded memtool.LoadAnswer
	if err := json.Unmarshal(r.GetReport().GetJson(), &loaded); err != nil {
		t.Fatalf("%v, %v", r, err)
	}
	if len(loaded.Removed) != len(ops)+1 || listed != len(loaded.Removed) || last != "late" || s.store.Len() != 1 {
		t.Errorf("removed %d, %d listed, the last %q, %d left", len(loaded.Removed), listed, last, s.store.Len())
	}
}

// TestRecallParts checks that an answer over the wire is the answer of the
// store, also when it is larger than a part.
func TestRecallParts(t *testing.T) {
	s := serve(t, home(t), "")
	c, ctx := s.wireClient(), t.Context()
	for i := range 5 {
		if _, err := s.store.Remember(fmt.Sprint("canary ", i), strings.Repeat("watch the canary sing\n", 30000), []string{"bird"}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := c.Recall(ctx, &pb.RecallMsg{Query: "canary", Limit: 4, Explain: true, WhyNot: "canary 4"})
	if err != nil || len(r.Hits) != 4 || r.Total != 5 || r.Searched != 5 || len(r.Hits[3].Entry.Content) != 660000 || r.Path != s.store.Path() {
		t.Fatalf("%d hits of %d, %v", len(r.GetHits()), r.GetTotal(), err)
	}
	var x recall.Explanation
	if err := json.Unmarshal(r.Hits[0].Explain, &x); err != nil || x.Score != r.Hits[0].Score || len(x.Terms) != 1 {
		t.Errorf("%+v, %v", x, err)
	}
	if !strings.Contains(string(r.WhyNot), `"reason":"limit"`) {
		t.Errorf("%s", r.WhyNot)
	}
	r, err = c.Recall(ctx, &pb.RecallMsg{Query: "canary", Limit: 4, Budget: 300})
	if err != nil || len(r.Hits) != 4 || r.Hits[0].Snippet == nil || r.Hits[0].Entry.Content != "" || r.Budget.GetTokens() == 0 || r.Budget.GetTokens() > 300 {
		t.Errorf("%v, %v", r.GetBudget(), err)
	}
	r, err = c.Recall(ctx, &pb.RecallMsg{Query: "canray"})
	if err != nil || len(r.Hits) != 5 || len(r.Corrections) != 1 || r.Corrections[0].Words[0] != "canary" {
		t.Errorf("%v, %v", r.GetCorrections(), err)
	}
	if r, err = c.Recall(ctx, &pb.RecallMsg{Query: "zeppelin"}); err != nil || len(r.Hits) != 0 || r.Searched != 5 {
		t.Errorf("%v, %v", r, err)
	}
	_, err = c.Recall(ctx, &pb.RecallMsg{Query: "x", Analyzer: "no"})
	wantError(t, err, 400, "invalid", "analyzer")
}

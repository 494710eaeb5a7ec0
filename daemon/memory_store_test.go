package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
)

// sentinels are the errors that both kinds of stores must report alike.
var sentinels = []error{
	crmem.ErrNotFound, crmem.ErrExists, crmem.ErrKind, crmem.ErrAmbiguous, crmem.ErrInvalid, crmem.ErrStale, crmem.ErrNoStore,
	crmem.ErrFormat, crmem.ErrForeign, crmem.ErrFull, crmem.ErrNotApplied, crmem.ErrUnknown, crmem.ErrStopped,
	tree.ErrTree, tree.ErrEdited, tree.ErrChanged, fs.ErrPermission, vfs.ErrLocked, context.Canceled,
}

var errPlan = errors.New("no plan")

// storeOperation is a row of the table: op runs on both stores, and want is the
// class of its error.
type storeOperation struct {
	name string
	want error
	op   func(ctx context.Context, s op.Memory, dir string) (any, error)
}

func remembers(name, content string, aliases ...string) func(context.Context, op.Memory, string) (any, error) {
	return func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return op.Remember.Do(ctx, s, op.Note{Remember: crmem.Remember{Name: name, Content: content, Aliases: aliases}})
	}
}

// saves writes a note with the arguments of the tool, and returns the note.
func saves(in op.NoteArgs) func(context.Context, op.Memory, string) (any, error) {
	return func(ctx context.Context, s op.Memory, _ string) (any, error) {
		if _, err := op.SaveNote.Do(ctx, s, in); err != nil {
			return nil, err
		}
		return op.ReadEntry(ctx, s, op.EntryName{Name: in.Name})
	}
}

func withMetadata(e metadata.Edit, content string, aliases ...string) func(context.Context, op.Memory, string) (any, error) {
	return func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return op.Remember.Do(ctx, s, op.Note{Remember: crmem.Remember{Name: "deploy", Content: content, Aliases: aliases, Metadata: &e}})
	}
}

func updates(ops ...crmem.Op) func(context.Context, op.Memory, string) (any, error) {
	return func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return s.Update(ctx, func(*crmem.Store) ([]crmem.Op, error) { return ops, nil })
	}
}

func big(number, letter string) crmem.Op {
	return crmem.Add{Name: "big " + number, Content: strings.Repeat(letter, 7<<20)}
}

// lastChange returns the sequence number of the last change that fits.
func lastChange(s op.Memory, fits func(crmem.Change) bool) (seq uint64, err error) {
	err = s.Read(func(v *crmem.Store) error {
		for c, err := range v.Changes() {
			if err != nil {
				return err
			}
			if fits(c) {
				seq = c.Seq
			}
		}
		return nil
	})
	return seq, err
}

// undoes undoes the last change that left an entry with a name.
func undoes(name string) func(context.Context, op.Memory, string) (any, error) {
	return func(ctx context.Context, s op.Memory, _ string) (any, error) {
		seq, err := lastChange(s, func(c crmem.Change) bool { return c.After.Name == name })
		if err != nil {
			return nil, err
		}
		return op.Undo.Do(ctx, s, op.ChangeNumber{Seq: seq})
	}
}

func purges(name string, archives bool) func(context.Context, op.Memory, string) (any, error) {
	return func(ctx context.Context, s op.Memory, _ string) (any, error) {
		p, err := op.Purge.Do(ctx, s, op.Removal{Name: name, Archive: archives})
		return []any{p.Entry.ID, p.Entry.Name, p.Entry.Kind, p.Deleted}, err
	}
}

func recalls(q op.Question) func(context.Context, op.Memory, string) (any, error) {
	return func(ctx context.Context, s op.Memory, _ string) (any, error) { return op.Recall.Do(ctx, s, q) }
}

func loads(in op.TreeLoad, dir ...string) func(context.Context, op.Memory, string) (any, error) {
	return func(ctx context.Context, s op.Memory, home string) (any, error) {
		in := in
		in.Dir = filepath.Join(append([]string{home}, dir...)...)
		var removed []string
		var report *op.LoadAnswer
		err := op.LoadTree.Each(ctx, s, in, func(p op.LoadPart) error {
			removed, report = append(removed, p.Removes...), p.Report
			return nil
		})
		if err != nil {
			return nil, err
		}
		return []any{report, removed}, nil
	}
}

var storeOperations = []storeOperation{
	{"remember", nil, remembers("deploy", "build, tag", "ship")},
	{"replace", nil, remembers("deploy", "build, tag, push")},
	{"remember without aliases", nil, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return op.Remember.Do(ctx, s, op.Note{Remember: crmem.Remember{Name: "deploy", Content: "build, tag, push, watch", Aliases: []string{}}})
	}},
	{"set metadata", nil, withMetadata(metadata.Edit{Set: []metadata.Field{
		{Key: "type", Values: []string{"decision"}}, {Key: "tags", Values: []string{"a, b", "c"}, List: true}}}, "build", "ship")},
	{"keep metadata", nil, withMetadata(metadata.Edit{}, "build, tag")},
	{"remove a key", nil, withMetadata(metadata.Edit{Set: []metadata.Field{{Key: "tags"}}}, "build, tag, push")},
	{"write literally", nil, remembers("deploy", "---\nx: y\n---\nbuild")},
	{"remove metadata", nil, withMetadata(metadata.Edit{Drop: true}, "build, tag, push, watch", "x")},
	{"remove the alias", nil, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return op.Remember.Do(ctx, s, op.Note{Remember: crmem.Remember{Name: "deploy", Content: "build", Aliases: []string{}, Metadata: &metadata.Edit{}}})
	}},
	{"set an invalid key", crmem.ErrInvalid, withMetadata(metadata.Edit{Set: []metadata.Field{{Key: "a:b", Values: []string{"c"}}}}, "x")},
	{"save with lists", nil, saves(op.NoteArgs{Name: "milk", Content: "oat", Aliases: []string{"oats"}, MetadataArgs: op.MetadataArgs{Tags: []string{"a"}, Related: []string{"tea"}}})},
	{"keep lists", nil, saves(op.NoteArgs{Name: "milk", Content: "soy"})},
	{"empty lists", nil, saves(op.NoteArgs{Name: "milk", Content: "rice", Aliases: []string{}, MetadataArgs: op.MetadataArgs{Tags: []string{}, Related: []string{}}})},
	{"remember with aliases", nil, remembers("tea", "green", "go", "ship")},
	{"remember without a name", crmem.ErrInvalid, remembers("", "x")},
	{"remember invalid text", crmem.ErrInvalid, remembers("x", "\xff")},
	{"add", nil, updates(crmem.Add{Name: "chat", Content: "one was said", Kind: crmem.Archive}, crmem.Add{Name: "plan", Content: "soon"})},
	{"remember an archive", crmem.ErrKind, remembers("chat", "x")},
	{"add an existing name", crmem.ErrExists, updates(crmem.Add{Name: "new", Content: "x"}, crmem.Add{Name: "deploy"})},
	{"add an invalid name", crmem.ErrInvalid, updates(crmem.Add{Name: "a\x00b", Content: "\xff"})},
	{"update", nil, updates(crmem.Update{Name: "plan", Content: "later", Aliases: []string{"when"}})},
	{"a condition", nil, updates(crmem.Unchanged{Entry: crmem.Entry{Name: "missing"}},
		crmem.Update{Name: "plan", Content: "later", Aliases: []string{"when", "then"}})},
	{"update a missing entry", crmem.ErrNotFound, updates(crmem.Update{Name: "nobody", Content: "x"})},
	{"alias", nil, updates(crmem.Alias{Name: "plan", Aliases: []string{"when", "ship"}})},
	{"alias of a missing entry", crmem.ErrNotFound, updates(crmem.Alias{Name: "nobody", Aliases: []string{"x"}})},
	{"several operations on an entry", nil, updates(
		crmem.Add{Name: "short", Content: "a"}, crmem.Update{Name: "short", Content: "b"}, crmem.Alias{Name: "short", Aliases: []string{"s"}},
		crmem.Alias{Name: "tea", Aliases: nil}, crmem.Remove{Name: "short"})},
	{"remove", nil, updates(crmem.Remove{Name: "plan"})},
	{"remove a missing entry", crmem.ErrNotFound, updates(crmem.Remove{Name: "plan"})},
	{"restore", nil, updates(crmem.Restore{Entry: crmem.Entry{ID: 40, Name: "forty", CreatedAt: 5, Content: "x"}})},
	{"no operation", nil, updates()},
	{"a plan that fails", errPlan, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return s.Update(ctx, func(*crmem.Store) ([]crmem.Op, error) { return nil, errPlan })
	}},
	{"a plan for the current entries", nil, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return s.Update(ctx, func(v *crmem.Store) ([]crmem.Op, error) {
			e, err := v.Get("forty")
			return []crmem.Op{crmem.Update{Name: e.Name, Content: e.Content + "y", Aliases: e.Aliases}}, err
		})
	}},
	{"a cancelled update", context.Canceled, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return updates(crmem.Add{Name: "late", Content: "x"})(ctx, s, "")
	}},
	{"recall", nil, recalls(op.Question{Query: "how do we build"})},
	{"recall with everything", nil, recalls(op.Question{Query: "biuld green", Limit: 5, Explain: true, WhyNot: "chat"})},
	{"recall in a budget", nil, recalls(op.Question{Query: "build tag said", Limit: 5, Weights: true, Budget: 20})},
	{"recall archives", nil, recalls(op.Question{Query: "said", FilterArgs: op.FilterArgs{Kind: "archive"}, Syntax: true})},
	{"add linked notes", nil, updates(
		crmem.Add{Name: "dune 1", Content: "---\ntype: fact\ntags: [sand]\nowner: ops\n---\ndune dune dune"},
		crmem.Add{Name: "dune 2", Content: "---\ntype: fact\ntags: [sand, sea]\nowner: ops\nsupersedes: \"[[dune 1]]\"\ncrabmem: 1\n---\nthe dune, see [[sea]]"},
		crmem.Add{Name: "sea", Content: "---\nexpires: 2001-01-01\ncontradicts: \"[[dune 1]]\"\ncrabmem: 1\n---\nwater"})},
	{"recall with filters", nil, recalls(op.Question{Query: "dune", Limit: 5, RankArgs: op.RankArgs{Expand: 1, MinShare: 0.1, Sort: "important"}, Explain: true,
		FilterArgs: op.FilterArgs{Type: "fact", Tags: []string{"sand"}, After: "1970-01-01T00:00:01Z", Before: "2999"}, Fields: []metadata.Field{{Key: "owner", Values: []string{"ops"}}}})},
	{"recall by tag", nil, recalls(op.Question{Query: "dune", FilterArgs: op.FilterArgs{Tags: []string{"sea"}}})},
	{"remove linked notes", nil, updates(crmem.Remove{Name: "dune 1"}, crmem.Remove{Name: "dune 2"}, crmem.Remove{Name: "sea"})},
	{"recall nothing", nil, recalls(op.Question{Query: "zeppelin"})},
	{"checkpoint", nil, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		c, err := op.Checkpoint.Do(ctx, s, op.None{})
		return c.Entries, err // a background checkpoint may come first
	}},
	{"dump", nil, func(_ context.Context, s op.Memory, dir string) (any, error) {
		return nil, s.Read(func(v *crmem.Store) error {
			_, err := tree.Dump(v, filepath.Join(dir, "book"), nil)
			return err
		})
	}},
	{"load a missing tree", tree.ErrTree, loads(op.TreeLoad{Guard: true}, "nowhere")},
	{"load", nil, loads(op.TreeLoad{Guard: true}, "book")},
	{"change after the dump", nil, remembers("since", "the dump")},
	{"load a tree that is not current", tree.ErrChanged, loads(op.TreeLoad{Guard: true}, "book")},
	{"try to load", nil, loads(op.TreeLoad{DryRun: true}, "book")},
	{"merge", nil, loads(op.TreeLoad{Merge: true}, "book")},
	{"replace all", nil, loads(op.TreeLoad{}, "book")},
	{"rename", nil, updates(crmem.Add{Name: "old name", Content: "kept", Aliases: []string{"also"}}, crmem.Rename{Name: "old name", To: "new name"})},
	{"rename of a stored entry", nil, updates(crmem.Rename{Name: "new name", To: "newer name"}, crmem.Alias{Name: "newer name"})},
	{"rename to a taken name", crmem.ErrExists, updates(crmem.Add{Name: "taken", Content: "x"}, crmem.Rename{Name: "newer name", To: "taken"})},
	{"rename a missing entry", crmem.ErrNotFound, updates(crmem.Rename{Name: "new name", To: "x"})},
	{"rename again", nil, updates(crmem.Rename{Name: "newer name", To: "newest name"})},
	{"undo a rename", nil, undoes("newest name")},
	{"redo it", nil, undoes("newer name")},
	{"add to undo", nil, updates(crmem.Add{Name: "undone", Content: "x"})},
	{"undo an add", nil, undoes("undone")},
	{"undo a change of an entry that changed", crmem.ErrStale, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return op.Undo.Do(ctx, s, op.ChangeNumber{Seq: 1})
	}},
	{"undo a missing change", crmem.ErrNotFound, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		return op.Undo.Do(ctx, s, op.ChangeNumber{Seq: 1 << 40})
	}},
	{"entries to purge", nil, updates(crmem.Add{Name: "secret", Content: "a text to purge", Aliases: []string{"hidden"}},
		crmem.Add{Name: "talk", Content: "a text to purge, too", Kind: crmem.Archive}, crmem.Add{Name: "removed", Content: "a removed text"})},
	{"purge an alias", crmem.ErrNotFound, purges("hidden", false)},
	{"purge a missing entry", crmem.ErrNotFound, purges("missing", false)},
	{"purge an archive", crmem.ErrKind, purges("talk", false)},
	{"purge", nil, purges("secret", false)},
	{"purge an archive as such", nil, purges("talk", true)},
	{"remove an entry to purge", nil, updates(crmem.Remove{Name: "removed"})},
	{"purge a removed entry", nil, purges("removed", false)},
	{"prune", nil, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		freed, err := op.PruneHistory.Do(ctx, s, op.Age{Before: time.Unix(1, 0)})
		return freed.Bytes >= 0, err // the daemon may have checkpointed at another time
	}},
	{"read", nil, func(_ context.Context, s op.Memory, _ string) (any, error) {
		var list []crmem.Entry
		err := s.Read(func(v *crmem.Store) error {
			for e := range v.All() {
				list = append(list, e)
			}
			return nil
		})
		return list, err
	}},
	{"read with an error", errPlan, func(_ context.Context, s op.Memory, _ string) (any, error) {
		return nil, s.Read(func(*crmem.Store) error { return errPlan })
	}},
	// Last, as later operations would read these texts in the history.
	{"more than a frame", nil, func(ctx context.Context, s op.Memory, _ string) (any, error) {
		list, err := updates(big("1", "x"), big("2", "y"), big("3", "z"))(ctx, s, "")
		if err != nil {
			return nil, err
		}
		after := list.([]crmem.Entry)
		return []int{len(after), len(after[0].Content), len(after[2].Content)}, nil
	}},
	{"remove it", nil, updates(crmem.Remove{Name: "big 1"}, crmem.Remove{Name: "big 2"}, crmem.Remove{Name: "big 3"})},
}

// TestSameStore runs every operation of op.Memory on the files and on a
// daemon that has them open: results, messages, and the sentinels for which
// errors.Is holds are the same.
func TestSameStore(t *testing.T) {
	race.Skip(t)
	t.Setenv("TMPDIR", t.TempDir())
	clock := func() time.Time { return time.Date(2026, 4, 14, 10, 23, 45, 0, time.UTC) }
	homes := [2]string{home(t), home(t)}
	s := serve(t, homes[1], "", func(o *Options) { o.Now = clock })
	homes[1] = s.home
	var stores [2]op.Memory
	for i, h := range homes {
		h, err := filepath.EvalSymlinks(h)
		if err != nil {
			t.Fatal(err)
		}
		homes[i] = h
		stores[i], err = client.OpenStore(t.Context(), client.StoreOptions{
			Path: filepath.Join(h, "memory.db"), Options: crmem.Options{Now: clock, Command: "test"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if stores[i].Path() != filepath.Join(h, "memory.db") {
			t.Errorf("Path() = %s", stores[i].Path())
		}
	}
	for _, o := range storeOperations {
		var results, texts [2]string
		for i, s := range stores {
			r, err := o.op(t.Context(), s, homes[i])
			js, jerr := json.Marshal(r)
			if jerr != nil {
				t.Fatal(jerr)
			}
			results[i] = strings.ReplaceAll(string(js), homes[i], "HOME")
			texts[i] = strings.ReplaceAll(fmt.Sprint(err), homes[i], "HOME")
			if !errors.Is(err, o.want) {
				t.Errorf("%s, store %d: %v, want %v", o.name, i, err, o.want)
			}
			for _, other := range sentinels {
				if other != o.want && errors.Is(err, other) {
					t.Errorf("%s, store %d: %v is %v, too", o.name, i, err, other)
				}
			}
		}
		if results[0] != results[1] || texts[0] != texts[1] {
			t.Errorf("%s: with the files\n%s\n%s\nwith a daemon\n%s\n%s", o.name, results[0], texts[0], results[1], texts[1])
		}
	}
	for i, s := range stores {
		if err := s.Close(); err != nil {
			t.Errorf("store %d: %v", i, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "crabmem-changes-*")); len(left) > 0 {
		t.Errorf("files remain: %v", left)
	}
}

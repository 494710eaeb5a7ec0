package sessionref_test

import (
	"errors"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
)

// TestWritten checks that the reference reads all messages and markers that
// sessionlog writes, and skips only meta records.
func TestWritten(t *testing.T) {
	var fs *faultfs.Mem
	var dir *sessionlog.Dir
	tally := map[string]int{}
	latest := map[[2]string]string{} // name of the newest file of each identity
	n := run(t, func(t *testing.T, rng *rand.Rand, i int) {
		if i%50 == 0 || dir == nil {
			if dir != nil {
				checkLatest(t, fs, latest)
				if err := dir.Close(); err != nil {
					t.Fatal(err)
				}
			}
			fs, dir = folder(t, nil)
			clear(latest)
		}
		written(t, rng, fs, dir, latest, tally)
	})
	checkLatest(t, fs, latest)
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("written and read by the reference: %v", tally)
	for _, what := range []string{"messages", "markers", "records", "injected", "filled", "reopened"} {
		if tally[what] < n/10 {
			t.Errorf("%d %s: the generator is unbalanced", tally[what], what)
		}
	}
}

// written writes a random session and has the reference read it.
func written(t *testing.T, rng *rand.Rand, fs *faultfs.Mem, dir *sessionlog.Dir, latest map[[2]string]string, tally map[string]int) {
	agents := []string{"crab", "my-agent", "My Agent", "my_agent", "蟹", "-", "a<b>&\"c\\", "../x"}
	senders := []string{"user", "tg:1", "tg-1", ":", "Ünal@東京", "a/b", "x\ny\u2028"}
	meta := sessionlog.Meta{
		Agent:     agents[rng.IntN(len(agents))],
		CreatedBy: senders[rng.IntN(len(senders))],
		CreatedAt: []string{"", "2026-04-14T10:23:45+00:00", "..."}[rng.IntN(3)],
	}
	if rng.IntN(4) == 0 {
		meta.Title, meta.UptimeSecs = "Born with\ta title", rng.Uint64()
	}
	log, err := dir.Create(meta)
	if err != nil {
		t.Fatal(err)
	}
	if meta.CreatedAt == "" {
		meta.CreatedAt = log.Meta().CreatedAt
	}
	id := log.ID()
	var want []sessionref.Record
	var open []string
	records, ids := 0, 0
	for range rng.IntN(9) {
		switch rng.IntN(12) {
		case 0:
			summary := drawText(rng, 6)
			if err := log.Compact(summary); err != nil {
				t.Fatal(err)
			}
			want = append(want, sessionref.Record{Marker: true, Summary: summary})
			records++ // S17
			open = nil
		case 1:
			err := log.SetTitle(drawText(rng, 4))
			if err == nil {
				records++
			} else if !errors.Is(err, sessionlog.ErrInvalid) {
				t.Fatal(err)
			} else {
				tally["titles refused"]++
			}
		case 2:
			if err := log.AddUptime(1 + rng.Uint64N(1000)); err != nil {
				t.Fatal(err)
			}
			records++
		case 3:
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			if log, err = dir.Open(id); err != nil {
				t.Fatal(err)
			}
			tally["reopened"]++
		default:
			var step []sessionlog.Message
			for range 1 + rng.IntN(4) {
				m := drawMessage(rng, &open, &ids)
				o := toSessionlog(m)
				o.Sender = drawText(rng, 1)
				if rng.IntN(10) == 0 {
					step = append(step, sessionlog.Message{Role: "user", Content: "recalled", Injected: true})
					tally["injected"]++
				}
				step = append(step, o)
				want = append(want, sessionref.Record{Message: m})
			}
			if err := log.Append(step...); err != nil {
				t.Fatal(err)
			}
		}
	}
	context, err := log.Context()
	if err != nil {
		t.Fatal(err)
	}
	name := log.Path()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	latest[[2]string{meta.Agent, sessionref.Slug(meta.CreatedBy)}] = path.Base(name)

	data := readFile(t, fs, name)
	s, err := sessionref.Read(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if got := metaOf(meta); s.Meta != got {
		t.Errorf("meta %+v, want %+v", s.Meta, got)
	}
	for i := range s.Records {
		s.Records[i].Line = 0
	}
	if diff := difference(want, s.Records); diff != "" {
		t.Errorf("records (-written +read):\n%s", diff)
	}
	for _, l := range s.Skipped {
		if !strings.HasPrefix(l.Text, `{"meta":{"title":"`) {
			t.Errorf("line %d skipped: %s: %v", l.Line, l.Text, l.Err)
		}
	}
	if len(s.Skipped) != records {
		t.Errorf("%d records skipped, %d written", len(s.Skipped), records)
	}
	filled := answered(s.Context)
	if diff := difference(filled, toReference(context.Messages)); diff != "" {
		t.Errorf("context (-reference with answered calls +sessionlog):\n%s", diff)
	}
	if len(filled) != len(s.Context) {
		tally["filled"]++
	}
	tally["messages"] += len(s.Messages())
	tally["markers"] += len(s.Records) - len(s.Messages())
	tally["records"] += len(s.Skipped)
	tally["context"] += len(context.Messages)
}

// checkLatest checks that the reference finds the newest file of each identity. It
// skips agents whose names differ from their slugs, because the reference does not
// apply Slug to agents.
func checkLatest(t *testing.T, fs *faultfs.Mem, latest map[[2]string]string) {
	t.Helper()
	entries, err := fs.ReadDir("/s")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	for who, name := range latest {
		if sessionref.Slug(who[0]) != who[0] {
			continue
		}
		if who[0] == "my-agent" {
			continue // the files of "My Agent" and "my_agent" have the same prefix
		}
		got, ok := sessionref.Latest(names, who[0], who[1])
		if !ok || got != name {
			t.Errorf("the reference finds %q of %q, want %q", got, who, name)
		}
	}
}

package sessionref_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// session is a file that the reference wrote with crashes, and the records that are
// complete in the file.
type session struct {
	*sessionref.File
	agent, sender string
	seq           uint32
	title         string
	uptime        uint64
	now           string
	complete      []span
}

// span is the position of a record without its newline. It is relative to the end
// of line 1, because the reference rewrites that line.
type span struct {
	from, to int
	record   sessionref.Record
}

// head returns the size of line 1.
func (s *session) head() int { return bytes.IndexByte(s.Data, '\n') + 1 }

// appended adds a record to the complete ones. before is the size of the file
// before the append.
func (s *session) appended(before int, r sessionref.Record) {
	s.complete = append(s.complete, span{before - s.head(), len(s.Data) - 1 - s.head(), r})
}

// tear truncates n bytes, but not line 1.
func (s *session) tear(n int) {
	rest := len(s.Data) - s.head()
	n = min(n, rest)
	s.Tear(n)
	s.complete = slices.DeleteFunc(s.complete, func(w span) bool { return w.to > rest-n })
}

// draw makes random writes of the reference to the file, with crashes.
func (s *session) draw(rng *rand.Rand, tally map[string]int) {
	var open []string
	ids, clock := 0, 0
	now := func() string {
		clock++
		s.now = fmt.Sprintf("2026-04-14T10:%02d:%02d.5+00:00", clock/60%60, clock%60)
		return s.now
	}
	for range rng.IntN(10) {
		before := len(s.Data)
		switch rng.IntN(16) {
		case 0:
			summary := drawText(rng, 5)
			s.Compact(summary)
			s.appended(before, sessionref.Record{Marker: true, Summary: summary})
			open = nil
			tally["markers"]++
		case 1:
			s.title = strings.TrimSpace(drawText(rng, 3))
			s.SetTitle(s.title, now())
			tally["titles"]++
		case 2, 3:
			secs := rng.Uint64N(5000)
			s.uptime += secs
			s.AddUptime(secs, now())
		case 4: // lose only the newline
			if before > s.head() {
				s.tear(1)
				tally["newlines lost"]++
			}
		case 5, 6: // tear the last append
			if n := len(s.complete); n > 0 {
				s.tear(1 + rng.IntN(before-s.head()-s.complete[n-1].from))
				tally["torn"]++
			}
		case 7: // tear a rewrite of the file
			if rng.IntN(4) == 0 {
				s.tear(rng.IntN(before))
				tally["rewrites cut"]++
			}
		default:
			for range 1 + rng.IntN(3) {
				before := len(s.Data)
				m := drawMessage(rng, &open, &ids)
				s.Append(m)
				s.appended(before, sessionref.Record{Message: m})
				tally["messages"]++
			}
		}
	}
}

// context returns the context of the complete records.
func (s *session) context() []sessionref.Message {
	var ms []sessionref.Message
	for _, w := range s.complete {
		if w.record.Marker {
			ms = nil
			w.record.Message = sessionref.Message{Role: "user", Content: w.record.Summary}
		}
		ms = append(ms, w.record.Message)
	}
	return answered(ms)
}

// TestFolders checks that sessionlog reads folders of the reference without losing a
// message, and that the reference reads the appends of sessionlog.
func TestFolders(t *testing.T) {
	const perFolder = 20
	tally := map[string]int{}
	var sessions []*session
	n := run(t, func(t *testing.T, rng *rand.Rand, i int) {
		if i%perFolder == 0 {
			sessions = nil
		}
		agents := []string{"crab", "my", "my_agent", "My Agent", "蟹"}
		senders := []string{"user", "tg:1", "tg-1", "agent", ":", "", "Ünal@東京"}
		var names []string
		for _, s := range sessions {
			names = append(names, s.Name)
		}
		agent, sender := agents[rng.IntN(len(agents))], senders[rng.IntN(len(senders))]
		s := &session{agent: agent, sender: sender, seq: sessionref.NextSeq(names, agent, sender), now: "2026-04-14T10:00:00+00:00"}
		s.File = sessionref.Create(agent, sender, s.seq, s.now)
		if slices.Contains(names, s.Name) {
			t.Fatalf("%s: two files have the name", s.Name)
		}
		s.draw(rng, tally)
		if slices.ContainsFunc(sessions, func(o *session) bool { return o.Name == s.Name }) {
			return // after a title the name is not unique; the reference overwrites the other file
		}
		sessions = append(sessions, s)
		if i%perFolder == perFolder-1 {
			checkFolder(t, rng, sessions, tally)
		}
	})
	t.Logf("reference's folders: %v", tally)
	for _, what := range []string{"newlines lost", "torn", "rewrites cut", "messages", "markers", "titles", "bad lines", "lost by the reference", "tails", "newlines added", "resumed"} {
		if tally[what] < n/100 {
			t.Errorf("%d %s: the generator is unbalanced", tally[what], what)
		}
	}
}

// checkFolder checks a folder of sessions: List, Latest, reads, and appends.
func checkFolder(t *testing.T, rng *rand.Rand, sessions []*session, tally map[string]int) {
	t.Helper()
	files := make(map[string][]byte)
	for _, s := range sessions {
		files[s.Name] = s.Data
	}
	fs, dir := folder(t, files)
	infos, err := dir.List()
	if err != nil || len(infos) != len(sessions) {
		t.Fatalf("%d sessions in the list, want %d: %v", len(infos), len(sessions), err)
	}
	newest := map[[2]string]*session{}
	for _, s := range sessions {
		if n := newest[[2]string{s.agent, s.sender}]; n == nil || s.seq > n.seq {
			newest[[2]string{s.agent, s.sender}] = s
		}
	}
	for who, s := range newest {
		id, err := dir.Latest(who[0], who[1], "")
		if i := slices.IndexFunc(infos, func(i sessionlog.Info) bool { return i.ID == id }); err != nil || i < 0 || infos[i].File != s.Name {
			t.Errorf("latest of %q: %q, %v, want %s", who, id, err, s.Name)
		}
		tally["identities"]++
	}
	for _, s := range sessions {
		i := slices.IndexFunc(infos, func(i sessionlog.Info) bool { return i.File == s.Name })
		if i < 0 {
			t.Fatalf("%s: not in the list", s.Name)
		}
		checkRead(t, s, dir, &infos[i], tally)
		checkAppend(t, rng, s, fs, dir, infos[i].ID, tally)
		if t.Failed() {
			t.Fatalf("%s:\n%s", s.Name, s.Data)
		}
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
}

// checkRead compares the records, the list entry, and the context of a session with
// the complete records.
func checkRead(t *testing.T, s *session, dir *sessionlog.Dir, info *sessionlog.Info, tally map[string]int) {
	t.Helper()
	var messages []sessionref.Message
	var markers []string
	for _, w := range s.complete {
		if w.record.Marker {
			markers = append(markers, w.record.Summary)
		} else {
			messages = append(messages, w.record.Message)
		}
	}
	c := readAll(t, dir, info.ID, s.Data)
	if diff := difference(messages, c.messages) + difference(markers, c.markers); diff != "" {
		t.Errorf("%s: (-complete in the file +read):\n%s", s.Name, diff)
	}
	if info.Messages != len(messages) {
		t.Errorf("%s: listed with %d messages, want %d", s.Name, info.Messages, len(messages))
	}
	if m := metaOf(info.Meta); m.Title != s.title || m.UptimeSecs != s.uptime || m.CreatedAt != s.now {
		t.Errorf("%s: meta %+v, want title %q, uptime %d, created %s", s.Name, m, s.title, s.uptime, s.now)
	}
	context, err := contextOf(t, s.Data, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(s.context(), toReference(context.Messages)); diff != "" {
		t.Errorf("%s: context (-want +got):\n%s", s.Name, diff)
	}
	tally["read"] += len(c.messages)
	tally["bad lines"] += len(c.bad)
	if r, err := sessionref.Read(s.Data); err != nil {
		tally["not loaded by the reference"]++
		tally["lost by the reference"] += len(messages)
	} else {
		tally["lost by the reference"] += len(messages) - len(r.Messages())
	}
}

// checkAppend opens the session for writing and appends records. The reference must
// read the old and the new records.
func checkAppend(t *testing.T, rng *rand.Rand, s *session, fs *faultfs.Mem, dir *sessionlog.Dir, id string, tally map[string]int) {
	t.Helper()
	log, err := dir.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Context(); err == nil {
		tally["resumed"]++
	} else if _, ok := errors.AsType[*record.FormatError](err); !ok {
		t.Fatal(err)
	}
	var more []sessionref.Record
	var open []string
	ids := 1000
	for range 1 + rng.IntN(4) {
		if rng.IntN(5) == 0 {
			r := sessionref.Record{Marker: true, Summary: drawText(rng, 3)}
			more = append(more, r)
			err = log.Compact(r.Summary)
		} else {
			r := sessionref.Record{Message: drawMessage(rng, &open, &ids)}
			more = append(more, r)
			err = log.Append(toSessionlog(r.Message))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if rng.IntN(3) == 0 {
		if err := log.SetTitle("our title"); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.AddUptime(3); err != nil {
		t.Fatal(err)
	}
	name := log.Path()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	data := readFile(t, fs, name)

	// After the last newline, the bytes up to the end of the last complete record
	// must remain. The other bytes must be in a quarantine file.
	kept := s.Data
	if from := bytes.LastIndexByte(s.Data, '\n') + 1; from < len(s.Data) {
		end := from
		if n := len(s.complete); n > 0 {
			end = max(end, s.head()+s.complete[n-1].to)
		}
		if kept = bytes.Clone(s.Data[:end]); end > from {
			kept = append(kept, '\n')
			tally["newlines added"]++
		}
		if tail := s.Data[end:]; len(tail) > 0 {
			quarantine := fmt.Sprintf("/s/.torn/%s-%d.jsonl", id, end)
			if got := readFile(t, fs, quarantine); !bytes.Equal(got, tail) {
				t.Errorf("%s: the quarantine file contains %q, want %q", s.Name, got, tail)
			}
			tally["tails"]++
		}
	}
	if !bytes.HasPrefix(data, kept) {
		t.Fatalf("%s: existing bytes were changed:\n%s", s.Name, data)
	}

	before, err := sessionref.Read(kept)
	after, afterErr := sessionref.Read(data)
	if err != nil { // a line is not UTF-8
		if afterErr == nil || afterErr.Error() != err.Error() {
			t.Errorf("%s: the reference returned %v before the append and %v after it", s.Name, err, afterErr)
		}
		tally["never loaded"]++
		return
	}
	if afterErr != nil {
		t.Fatalf("%s: %v", s.Name, afterErr)
	}
	for _, records := range [][]sessionref.Record{before.Records, after.Records} {
		for i := range records {
			records[i].Line = 0
		}
	}
	if diff := difference(slices.Concat(before.Records, more), after.Records); diff != "" {
		t.Errorf("%s: records (-want +read by the reference):\n%s", s.Name, diff)
	}
	skipped := after.Skipped[:0]
	for _, l := range after.Skipped {
		if !strings.HasPrefix(l.Text, `{"meta":{"title":`) {
			skipped = append(skipped, l)
		}
	}
	if len(skipped) != len(before.Skipped) {
		t.Errorf("%s: skipped: %v", s.Name, skipped)
	}
	if after.Meta != before.Meta {
		t.Errorf("%s: meta %+v, was %+v", s.Name, after.Meta, before.Meta)
	}
	tally["appended"] += len(more)
}

package sessionref_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// contents contains the lines of a session by kind, each kind in file order.
type contents struct {
	messages []sessionref.Message
	markers  []string // summaries
	records  int      // number of meta records
	unknown  []int    // line numbers
	bad      []badText
}

// readAll reads a session line by line. The lines together must equal data, the
// content of the file.
func readAll(t *testing.T, dir *sessionlog.Dir, id string, data []byte) *contents {
	t.Helper()
	s, err := dir.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := &contents{}
	var raw []byte
	var last int64
	for l, err := range s.Lines(0) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Glued: // another record of the previous line
			if n := len(c.bad); n == 0 || c.bad[n-1].Line != int(l.Number) {
				t.Errorf("%s: a second record in line %d, which is not bad", id, l.Number)
			} else {
				c.bad[n-1].Glued = true
			}
		case l.Number == last && l.Torn: // the rest of the tail
			raw = append(raw, l.Raw...)
			continue
		default:
			if l.Number != last+1 || l.Offset != int64(len(raw)) || l.Size != int64(len(l.Raw)) {
				t.Fatalf("%s: line %d at %d of %d bytes, after line %d and %d bytes", id, l.Number, l.Offset, l.Size, last, len(raw))
			}
			raw = append(raw, l.Raw...)
			if !l.Tail {
				raw = append(raw, '\n')
			}
			last = l.Number
			if l.Kind == record.KindBad && !l.Torn { // a torn tail is not a bad line (S14)
				if l.Err == nil || l.Err.Line != l.Number || l.Err.Offset != l.Offset {
					t.Errorf("%s: bad line %d at %d: %+v", id, l.Number, l.Offset, l.Err)
				} else {
					c.bad = append(c.bad, badText{int(l.Number), l.Err.Msg, l.Glued})
				}
			}
		}
		switch l.Kind {
		case record.KindMessage:
			c.messages = append(c.messages, toReference([]sessionlog.Message{l.Message})...)
		case record.KindMarker:
			c.markers = append(c.markers, l.Summary)
		case record.KindMetaRecord:
			c.records++
		case record.KindUnknown:
			c.unknown = append(c.unknown, int(l.Number))
		}
	}
	if !bytes.Equal(raw, data) {
		t.Fatalf("%s: the lines do not equal the file", id)
	}
	return c
}

// TestGolden checks that sessionlog reads files of the reference without losing a
// message.
func TestGolden(t *testing.T) {
	all := loadGolden(t)
	files := make(map[string][]byte)
	for _, g := range all {
		files[g.file] = g.data
	}
	_, dir := folder(t, files)
	infos, err := dir.List()
	if err != nil || len(infos) != len(all) {
		t.Fatalf("%d sessions in the list, want %d: %v", len(infos), len(all), err)
	}
	messages, markers, bad, added := 0, 0, 0, 0
	for _, g := range all {
		i := slices.IndexFunc(infos, func(i sessionlog.Info) bool { return i.File == g.file })
		if i < 0 {
			t.Errorf("%s: not in the list", g.file)
			continue
		}
		info := infos[i]
		if info.ID != g.ID || info.Messages != g.Messages || info.Damaged != len(g.Bad) {
			t.Errorf("%s: listed as %q with %d messages and %d damaged, want %q, %d and %d", g.file, info.ID, info.Messages, info.Damaged, g.ID, g.Messages, len(g.Bad))
		}
		if got := metaOf(info.Meta); got != sessionref.Meta(g.Meta) {
			t.Errorf("%s: meta %+v, want %+v", g.file, got, g.Meta)
		}

		c := readAll(t, dir, g.ID, g.data)
		if len(c.messages) != g.Messages || len(c.markers) != g.Markers || c.records != 0 || !slices.Equal(c.unknown, g.Unknown) {
			t.Errorf("%s: %d messages, %d markers, %d records, unknown %v; want %d, %d, 0, %v", g.file, len(c.messages), len(c.markers), c.records, c.unknown, g.Messages, g.Markers, g.Unknown)
		}
		if !slices.EqualFunc(g.Bad, c.bad, func(want, got badText) bool {
			return want.Line == got.Line && want.Glued == got.Glued && strings.Contains(got.Reason, want.Reason)
		}) {
			t.Errorf("%s: bad lines %+v, want %+v", g.file, c.bad, g.Bad)
		}
		messages += len(c.messages)
		markers += len(c.markers)
		bad += len(c.bad)

		added += checkContext(t, dir, g)
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("golden sessions: %d, with %d messages, %d markers and %d bad lines; %d messages of the contexts are missing in the reference",
		len(all), messages, markers, bad, added)
}

// checkContext reads the context of a session leniently, strictly, and from an open
// log. It returns the number of messages that the reference does not have.
func checkContext(t *testing.T, dir *sessionlog.Dir, g *golden) (added int) {
	t.Helper()
	lenient, err := contextOf(t, g.data, true)
	if err != nil {
		t.Errorf("%s: %v", g.file, err)
		return 0
	}
	if diff := difference(g.context("crabmem"), toReference(lenient.Messages)); diff != "" {
		t.Errorf("%s: context (-want +got):\n%s", g.file, diff)
	}
	for _, m := range g.Context {
		if m.Only == "crabmem" {
			added++
		}
	}
	if metaOf(lenient.Meta) != sessionref.Meta(g.Meta) || lenient.Torn != g.Torn || lenient.Compacted != (g.Markers > 0) {
		t.Errorf("%s: meta %+v, %d bytes torn, compacted %t", g.file, lenient.Meta, lenient.Torn, lenient.Compacted)
	}
	var damage []int
	for _, d := range lenient.Damage {
		damage = append(damage, int(d.Line))
	}
	want := slices.Clone(g.Dropped)
	if !g.Resumes {
		for _, b := range g.Bad {
			want = append(want, b.Line)
		}
	}
	slices.Sort(want)
	if !slices.Equal(damage, want) || lenient.Damaged != len(want) {
		t.Errorf("%s: damage in lines %v, want %v", g.file, damage, want)
	}

	strict, err := contextOf(t, g.data, false)
	log, openErr := dir.Open(g.ID)
	if openErr != nil {
		t.Errorf("%s: %v", g.file, openErr)
		return added
	}
	resumed, logErr := log.Context()
	if len(g.Bad) == 0 || g.Resumes {
		if err != nil || logErr != nil {
			t.Errorf("%s: resumed: %v, %v", g.file, err, logErr)
		} else if diff := difference(lenient.Messages, strict.Messages) + difference(lenient.Messages, resumed.Messages); diff != "" || strict.Meta != lenient.Meta || resumed.Meta != lenient.Meta {
			t.Errorf("%s: resumed (-lenient +strict):\n%s", g.file, diff)
		}
	} else {
		for path, err := range map[string]error{"/a.jsonl": err, "/s/" + g.file: logErr} {
			f, ok := errors.AsType[*record.FormatError](err)
			if !ok || f.Path != path || !slices.ContainsFunc(g.Bad, func(b badText) bool { return int64(b.Line) == f.Line }) {
				t.Errorf("%s: resumed: %v", g.file, err)
			}
		}
	}
	if err := log.Close(); err != nil {
		t.Errorf("%s: %v", g.file, err)
	}
	return added
}

// TestGoldenNames creates sessions in a folder of the reference. They must be the
// latest ones, and must not use the name of an existing file.
func TestGoldenNames(t *testing.T) {
	all := loadGolden(t)
	files := make(map[string][]byte)
	newest := map[[2]string]string{}
	for _, g := range all {
		files[g.file] = g.data
		newest[[2]string{g.Meta.Agent, g.Meta.CreatedBy}] = g.ID
	}
	newest[[2]string{"crab", "user"}] = "crab_user_19" // the highest number, not the last name
	fs, dir := folder(t, files)
	for who, id := range newest {
		if got, err := dir.Latest(who[0], who[1], ""); err != nil || got != id {
			t.Errorf("latest of %q: %q, %v, want %q", who, got, err, id)
		}
		log, err := dir.Create(sessionlog.Meta{Agent: who[0], CreatedBy: who[1]})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := dir.Latest(who[0], who[1], ""); err != nil || got != log.ID() {
			t.Errorf("latest of %q: %q, %v, want the new %q", who, got, err, log.ID())
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range files {
		if !bytes.Equal(readFile(t, fs, "/s/"+name), data) {
			t.Errorf("%s was changed", name)
		}
	}
	infos, err := dir.List()
	if err != nil || len(infos) != len(all)+len(newest) {
		t.Errorf("%d sessions in the list, want %d old and %d new ones: %v", len(infos), len(all), len(newest), err)
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("identities: %d", len(newest))
}

// TestLongNames checks on a real file system that sessionlog opens files with the
// longest names of the reference.
func TestLongNames(t *testing.T) {
	base := t.TempDir()
	dir, err := sessionlog.OpenDir(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{
		strings.Repeat("a", 255-len("_user_1.jsonl")),
		strings.Repeat("蟹", (255-len("_user_1.jsonl"))/3),
	} {
		f := sessionref.Create(agent, "user", 1, "...")
		f.Append(sessionref.Message{Role: "user", Content: "so long"}, sessionref.Message{Role: "user", Content: "torn"})
		f.Tear(3)
		if err := os.WriteFile(filepath.Join(base, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := dir.Latest(agent, "user", "")
		if err != nil {
			t.Fatalf("name of %d bytes: %v", len(f.Name), err)
		}
		log, err := dir.Open(id)
		if err != nil {
			t.Fatalf("name of %d bytes: %v", len(f.Name), err)
		}
		if err := errors.Join(log.Append(sessionlog.Message{Role: "user", Content: "more"}), log.SetTitle("a title"), log.Close()); err != nil {
			t.Fatalf("name of %d bytes: %v", len(f.Name), err)
		}
		data, err := os.ReadFile(log.Path())
		if err != nil {
			t.Fatal(err)
		}
		s, err := sessionref.Read(data)
		if err != nil || len(s.Context) != 2 {
			t.Errorf("name of %d bytes: %v, %v", len(f.Name), s, err)
		}
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
}

// contextOf returns the context of a session file with the given content.
func contextOf(t *testing.T, data []byte, lenient bool) (*sessionlog.Context, error) {
	t.Helper()
	m := faultfs.NewMem()
	m.WriteFile("/a.jsonl", data, 0o600)
	d, err := sessionlog.OpenDir("/", &sessionlog.Options{FS: m})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Read("a.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if lenient {
		return s.LenientContext()
	}
	return s.Context()
}

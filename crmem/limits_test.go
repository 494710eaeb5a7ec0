package crmem

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

// errorText returns the text of err, or "".
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestLimitsOfEntries validates fields at each limit and above it.
func TestLimitsOfEntries(t *testing.T) {
	n := func(n int) string { return strings.Repeat("n", n) }
	long, most := n(MaxContent), slices.Repeat([]string{"a"}, MaxAliases)
	cut := n(79) + "é"
	for _, c := range []struct {
		name, content string
		aliases       []string
		want          string
	}{
		{"a", "", nil, ""},
		{n(MaxName), long, most, ""},
		{"a", "", []string{n(MaxName)}, ""},
		{"", "", nil, `invalid: "": empty name`},
		{n(MaxName + 1), "", nil, fmt.Sprintf("invalid: %q: name of 1025 bytes, at most 1024", n(80))},
		{"a", "", []string{"b", ""}, `invalid: "a": empty alias`},
		{"a", "", []string{n(MaxName + 1)}, `invalid: "a": alias of 1025 bytes, at most 1024`},
		{"a", long + "x", nil, `invalid: "a": content of 8388609 bytes, at most 8388608`},
		{"a", "xyz\xff", nil, `invalid: "a": content: invalid UTF-8 at byte 3`},
		{"a", "x\x00", nil, ""},
		{"a", "", append(most, "b"), `invalid: "a": 1025 aliases, at most 1024`},
		{"ab\xffc", "", nil, "invalid: \"ab\uFFFDc\": name: invalid UTF-8 at byte 2"},
		{"a", "", []string{"b\xff"}, `invalid: "a": alias: invalid UTF-8 at byte 1`},
		{"ab\x00", "", nil, `invalid: "ab\x00": name: NUL at byte 2`},
		{"\x00", "", nil, `invalid: "\x00": name: NUL at byte 0`},
		{"a", "", []string{"\x00b"}, `invalid: "a": alias: NUL at byte 0`},
		{n(80), "\xff", nil, fmt.Sprintf("invalid: %q: content: invalid UTF-8 at byte 0", n(80))},
		{cut + "\x00", "", nil, fmt.Sprintf("invalid: %q: name: NUL at byte 81", n(79))},
	} {
		ops := []Op{Add{Name: c.name, Content: c.content, Aliases: c.aliases}, Update{c.name, c.content, c.aliases}, Remember{c.name, c.content, c.aliases, nil}}
		if c.content == "" {
			ops = append(ops, Alias{c.name, c.aliases})
		}
		for _, op := range ops {
			if err := op.Validate(); errorText(err) != c.want || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%T of %.90q: %v, want %s", op, c.name, err, c.want)
			}
		}
		// A file may contain what exceeds the limits, but only valid UTF-8.
		restore, want := Restore{Entry{ID: 1, Name: c.name, Content: c.content, Aliases: c.aliases}}, ""
		if strings.Contains(c.want, "invalid UTF-8") {
			want = c.want
		}
		if got := errorText(restore.Validate()); got != want {
			t.Errorf("Restore of %.90q: %s, want %s", c.name, got, want)
		}
		for _, op := range []Op{Remove{c.name}, forget{c.name}, Unchanged{Entry{Name: c.name, Content: c.content}}} {
			noErr(t, op.Validate())
		}
	}
	for kind, want := range map[Kind]string{Note: "", Archive: "", 2: `invalid: "a": unknown kind 2`, math.MaxUint32: `invalid: "a": unknown kind 4294967295`} {
		for _, op := range []Op{Add{Name: "a", Kind: kind}, Restore{Entry{Name: "a", Kind: kind}}} {
			if got := errorText(op.Validate()); got != want {
				t.Errorf("%T: %s, want %s", op, got, want)
			}
		}
	}
	noErr(t, Restore{Entry{ID: math.MaxUint64 - 1, Name: "a"}}.Validate())
	if got := errorText((Restore{Entry{ID: math.MaxUint64, Name: "a"}}).Validate()); got != `invalid: "a": its ID is the largest possible ID` {
		t.Errorf("largest ID: %s", got)
	}
}

// TestLimitsOfStages stages operations at the last ID and at the largest number
// of entries.
func TestLimitsOfStages(t *testing.T) {
	for _, c := range []struct {
		op     Op
		nextID uint64
		live   int64
		want   string
		after  uint64 // next ID
	}{
		{Add{Name: "a"}, math.MaxUint64 - 1, 0, "", math.MaxUint64},
		{Add{Name: "a"}, math.MaxUint64, 0, "invalid: no ID left: next_id is 2^64-1", math.MaxUint64},
		{Restore{Entry{Name: "a"}}, math.MaxUint64, 0, "invalid: no ID left: next_id is 2^64-1", math.MaxUint64},
		{Restore{Entry{ID: 7, Name: "a"}}, 9, 0, "", 10},
		{Restore{Entry{ID: 9, Name: "a"}}, 9, 0, "", 10},
		{Restore{Entry{ID: 11, Name: "a"}}, 9, 0, "", 12},
		{Add{Name: "a"}, 1, math.MaxUint32 - 1, "", 2},
		{Add{Name: "a"}, 1, math.MaxUint32, `invalid: "a": the store has the maximum number of entries`, 2},
	} {
		live := int(c.live)
		if int64(live) != c.live {
			continue // 32 bits
		}
		var tab table
		tab.init(0)
		g := &stage{t: &tab, nextID: c.nextID, live: live}
		if err := c.op.stage(g); errorText(err) != c.want || g.nextID != c.after {
			t.Errorf("%+v: %v, next ID %d; want %s, %d", c.op, err, g.nextID, c.want, c.after)
		}
		if want := live + len(g.effects); g.live != want || (c.want == "") != (len(g.effects) == 1) {
			t.Errorf("%+v: %d entries, %d effects", c.op, g.live, len(g.effects))
		}
	}
}

// TestLimitOfBytes writes exactly Options.MaxBytes, and one byte more. A store
// above the limit accepts only writes that do not grow it.
func TestLimitOfBytes(t *testing.T) {
	e := Entry{ID: 1, Name: "a", Content: "12345"}
	size := int64(format.HeaderSize + len(recordOf(&e)))
	s := New(&Options{MaxBytes: size})
	noErr(t, s.Apply(Add{Name: "a", Content: "12345"}))
	want := fmt.Sprintf("the store is full: %d bytes with this write, limit is %d: remove entries, then retry", size+1, size)
	if err := s.Apply(Update{Name: "a", Content: "123456"}); errorText(err) != want || !errors.Is(err, ErrFull) {
		t.Errorf("%v, want %s", err, want)
	}
	s.opts.MaxBytes = size - 3
	noErr(t, s.Apply(Update{Name: "a", Content: "54321"}))
	noErr(t, s.Apply(Update{Name: "a", Content: "1234"}))
	if err := s.Apply(Update{Name: "a", Content: "12345"}); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	for n, want := range map[int]string{2: "", 3: fmt.Sprintf("the store is full: %d bytes, at most %d", size-2, size-3)} {
		err := s.Update(func(*Snapshot) (*Snapshot, error) {
			return NewSnapshot(2, []Entry{{ID: 1, Name: "a", Content: strings.Repeat("x", n)}})
		})
		if errorText(err) != want {
			t.Errorf("update with %d bytes: %v", n, err)
		}
	}
	noErr(t, s.Close())
}

// TestLimitOfLogBytes writes to a log that has exactly Options.MaxBytes, and one
// byte more.
func TestLimitOfLogBytes(t *testing.T) {
	s := opened(t, "/m.db", &Options{FS: faultfs.NewMem()}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	for n, full := range []bool{false, true} {
		s.opts.MaxBytes = s.w.End - int64(n)
		before := s.w.End
		err := s.Apply(Update{Name: "a"})
		if errors.Is(err, ErrFull) != full || full && errorText(err) != fmt.Sprintf("the store is full: the log has %d bytes, %d with this write: run crabmem checkpoint, or split the write", before, before+157) {
			t.Errorf("%d bytes below the log: %v", n, err)
		}
	}
	noErr(t, s.Close())
}

// TestLimitOfLog computes the length that starts a checkpoint.
func TestLimitOfLog(t *testing.T) {
	m := faultfs.NewMem()
	size := func(n int64) fileStat {
		m.WriteFile("/file", make([]byte, n), 0o600)
		fi, err := m.Lstat("/file")
		noErr(t, err)
		return fileStat{fi}
	}
	for _, c := range []struct{ option, snapshot, at, want int64 }{
		{0, 0, 0, 4 << 20},
		{0, 16 << 20, 0, 4 << 20},
		{0, 16<<20 + 8, 0, 4<<20 + 2},
		{300, 16<<20 + 8, 0, 300},
		{300, 0, 301, 301},
		{300, 0, 299, 300},
	} {
		s := &Store{opts: Options{LogLimit: c.option}, dbStat: size(c.snapshot), checkpointAt: c.at}
		if got := s.logLimit(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestFailedBackgroundCheckpoint fails a background checkpoint: the next one
// begins only after the log grew by minLogLimit.
func TestFailedBackgroundCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := faultfs.NewMem()
		var warnings []string
		s := opened(t, "/m.db", &Options{FS: m, LogLimit: 200, CheckpointOnClose: CheckpointNever, Warn: func(line string) { warnings = append(warnings, line) }}, 0)
		fail, creates := false, 0
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "create" && strings.HasPrefix(c.Name, "/.m.db") && !strings.HasPrefix(c.Name, "/.m.db-") {
				if creates++; fail {
					return syscall.ENOSPC
				}
			}
			return nil
		}
		write := func(want int) {
			t.Helper()
			creates = 0
			noErr(t, s.Apply(Add{Name: fmt.Sprint("name ", s.NextID()), Content: strings.Repeat("x", 100)}))
			synctest.Wait()
			if creates != want || s.busy {
				t.Errorf("%d checkpoints, want %d; busy %t", creates, want, s.busy)
			}
		}
		write(2) // one of them creates the store
		noErr(t, s.Checkpoint())
		write(1)
		if s.checkpointAt != 0 || s.ops != 0 || len(warnings) > 0 {
			t.Errorf("after a checkpoint: at %d, %d operations, %q", s.checkpointAt, s.ops, warnings)
		}
		fail = true
		write(1)
		if want := s.w.End + minLogLimit; s.checkpointAt != want || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "checkpoint: not applied: checkpoint: create") {
			t.Errorf("after a failure: at %d, want %d; %q", s.checkpointAt, want, warnings)
		}
		fail = false
		write(0)
		s.checkpointAt = s.w.End
		write(1)
		if s.checkpointAt != 0 {
			t.Errorf("after the next checkpoint: at %d", s.checkpointAt)
		}
		noErr(t, s.Close())
	})
}

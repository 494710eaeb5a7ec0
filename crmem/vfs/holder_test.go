package vfs_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// withSum appends the checksum line of a lock file.
func withSum(text string) string {
	return fmt.Sprintf("%ssum %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

func TestHolderText(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	for _, c := range []struct {
		h    vfs.LockHolder
		text string
		want *vfs.LockHolder // expected result of ParseLockHolder; nil = h
	}{
		{h: vfs.LockHolder{PID: 7, Boot: "b", Command: "c d", Socket: "/s", Clean: -1}, text: "pid 7\nboot b\ncommand c d\nsocket /s\nstate dirty\n"},
		{h: vfs.LockHolder{PID: 7, Boot: "b", Clean: 0}, text: "pid 7\nboot b\ncommand \nsocket \nstate clean 0\n"},
		{h: vfs.LockHolder{Boot: "b", Clean: 1 << 40}, text: "pid 0\nboot b\ncommand \nsocket \nstate clean 1099511627776\n"},
		{h: vfs.LockHolder{Boot: "b", Clean: -1, Torn: true}, text: "pid 0\nboot b\ncommand \nsocket \nstate torn\n"},
		{h: vfs.LockHolder{Boot: "b", Clean: 5, Torn: true}, text: "pid 0\nboot b\ncommand \nsocket \nstate torn\n",
			want: &vfs.LockHolder{Boot: "b", Clean: -1, Torn: true}},
		{h: vfs.LockHolder{Command: "a\nstate clean 9\r\nb", Socket: "/s\npid 1\r", Clean: -1},
			text: "pid 0\nboot \ncommand a state clean 9  b\nsocket /s pid 1 \nstate dirty\n",
			want: &vfs.LockHolder{Command: "a state clean 9  b", Socket: "/s pid 1 ", Clean: -1}},
		{h: vfs.LockHolder{Command: long, Clean: -1}, text: "pid 0\nboot \ncommand " + long + "\nsocket \nstate dirty\n"},
		{h: vfs.LockHolder{Command: long + "y", Clean: -1}, text: "pid 0\nboot \ncommand " + long + "\nsocket \nstate dirty\n",
			want: &vfs.LockHolder{Command: long, Clean: -1}},
		{h: vfs.LockHolder{Clean: 9, Logs: []uint64{1, 0xfedcba9876543210}},
			text: "pid 0\nboot \ncommand \nsocket \nstate clean 9\nlog 0000000000000001\nlog fedcba9876543210\n"},
		{h: vfs.LockHolder{Clean: 9, Logs: []uint64{1}, Inodes: []uint64{2, 1<<64 - 1}},
			text: "pid 0\nboot \ncommand \nsocket \nstate clean 9\nlog 0000000000000001\ninode 2\ninode 18446744073709551615\n"},
	} {
		if c.want == nil {
			c.want = &c.h
		}
		text := c.h.Text()
		if text != withSum(c.text) {
			t.Errorf("%+v: text %q, want %q", c.h, text, withSum(c.text))
		}
		if got := vfs.ParseLockHolder(text); !reflect.DeepEqual(got, *c.want) {
			t.Errorf("%q: parsed %+v, want %+v", text, got, *c.want)
		}
	}
}

func TestParseHolderStates(t *testing.T) {
	for text, want := range map[string]vfs.LockHolder{
		"":                                    {Clean: -1},
		withSum(""):                           {Clean: -1},
		withSum("state clean -1\nboot b\n"):   {Boot: "b", Clean: -1},
		withSum("state clean -9\nboot b\n"):   {Boot: "b", Clean: -1},
		withSum("state clean x\nboot b\n"):    {Boot: "b", Clean: -1},
		withSum("state clean 12\nboot b\n"):   {Boot: "b", Clean: 12},
		withSum("state torn 12\nboot b\n"):    {Boot: "b", Clean: -1},
		withSum("pid x\nlater 1\nboot b c\n"): {Boot: "b c", Clean: -1},
		"sum":                                 {Clean: -1, Torn: true},
		"pid 7\n":                             {PID: 7, Clean: -1, Torn: true},
	} {
		if got := vfs.ParseLockHolder(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: parsed %+v, want %+v", text, got, want)
		}
	}
}

// TestParseHolderCorrupt changes each byte of a text and truncates it at each
// length. ParseLockHolder must return only the fields for messages.
func TestParseHolderCorrupt(t *testing.T) {
	valid := vfs.LockHolder{PID: 4711, Boot: "boot-1", Command: "crabmem daemon", Socket: "/run/s", Clean: 80}.Text()
	check := func(text string) {
		t.Helper()
		h := vfs.ParseLockHolder(text)
		if h.Boot != "" || h.Clean != -1 || !h.Torn {
			t.Errorf("%q: parsed %+v", text, h)
		}
	}
	for i := range valid {
		b := []byte(valid)
		b[i] ^= 1
		check(string(b))
		if i > 0 {
			check(valid[:i])
		}
	}
	check(valid + "x")
	check(valid + valid[:20])
	h := vfs.ParseLockHolder(strings.Replace(valid, "boot-1", "boot-2", 1))
	if h.PID != 4711 || h.Command != "crabmem daemon" || h.Socket != "/run/s" {
		t.Errorf("corrupt text: parsed %+v", h)
	}
}

func TestLockedError(t *testing.T) {
	err := error(&vfs.LockedError{Path: "/l", Holder: vfs.LockHolder{PID: 7, Command: "c"}})
	if got := err.Error(); got != "/l: held by process 7 (c)" {
		t.Error(got)
	}
	if got := (&vfs.LockedError{Path: "/l", Holder: vfs.LockHolder{Command: "c"}}).Error(); got != "/l: held by another process" {
		t.Error(got)
	}
	if !errors.Is(err, vfs.ErrLocked) || errors.Is(err, fs.ErrExist) {
		t.Error("a LockedError must be ErrLocked and no other error")
	}
}

// TestAcquireWaits uses a fake clock. Acquire must retry until the lock is free
// or the wait ends. The intervals are at most 12 ms.
func TestAcquireWaits(t *testing.T) {
	holder := vfs.LockHolder{PID: 7, Boot: "b", Command: "c", Clean: -1}
	for _, c := range []struct {
		wait, held time.Duration
		ok         bool // Acquire succeeds
	}{
		{0, time.Hour, false},
		{1, time.Hour, false},
		{time.Millisecond, time.Hour, false},
		{time.Second, time.Hour, false},
		{time.Second, 300 * time.Millisecond, true},
		{time.Second, 990 * time.Millisecond, true},
		{0, 0, true},
		{time.Second, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := faultfs.NewMem()
			tries := 0
			if c.held > 0 {
				l, err := m.Lock("/l")
				if err != nil {
					t.Fatal(err)
				}
				if err := l.SetText(holder.Text()); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(c.held, func() { l.Unlock() })
			}
			m.Hook = func(k faultfs.Call) error {
				if k.Op == "lock" {
					if tries++; tries > 1000 {
						return errors.New("too many tries")
					}
				}
				return nil
			}
			start := time.Now()
			l, err := vfs.Acquire(m, "/l", c.wait)
			took := time.Since(start)
			locked, _ := errors.AsType[*vfs.LockedError](err)
			switch {
			case c.ok && (err != nil || l == nil || took < c.held || took > c.held+12*time.Millisecond):
				t.Errorf("wait %v, held for %v: %v after %v", c.wait, c.held, err, took)
			case !c.ok && (locked == nil || locked.Path != "/l" || !reflect.DeepEqual(locked.Holder, holder) || took != c.wait):
				t.Errorf("wait %v, held for %v: %v after %v", c.wait, c.held, err, took)
			}
			// The mean interval is 8 ms.
			if most := 20 + int(took/(4*time.Millisecond)); tries > most {
				t.Errorf("wait %v, held for %v: %d tries in %v", c.wait, c.held, tries, took)
			}
		})
	}
}

// TestAcquireReturnsOtherErrors makes Lock fail with another error than
// ErrLocked. Acquire must return the error without a retry.
func TestAcquireReturnsOtherErrors(t *testing.T) {
	m := faultfs.NewMem()
	broken := errors.New("broken")
	tries := 0
	m.Hook = func(c faultfs.Call) error {
		if tries++; tries > 1 {
			return nil
		}
		return broken
	}
	if _, err := vfs.Acquire(m, "/l", time.Hour); !errors.Is(err, broken) || errors.Is(err, vfs.ErrLocked) || tries != 1 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

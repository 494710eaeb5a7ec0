package once

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem/vfs"
)

// clock is a table with a clock that the test sets.
type clock struct {
	*Table
	t    *testing.T
	path string
	now  time.Time
}

func newClock(t *testing.T) *clock {
	c := &clock{t: t, path: filepath.Join(t.TempDir(), "once.jsonl"), now: time.Unix(1e9, 0)}
	c.open()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *clock) open() {
	c.t.Helper()
	var err error
	if c.Table, err = Open(vfs.OS{}, c.path, func() time.Time { return c.now }); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clock) restart() {
	c.t.Helper()
	if err := c.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.open()
}

// do runs a request, and reports whether it ran.
func (c *clock) do(owner, key, sum string, effect *Effect, unknown bool) (ran bool, err error) {
	c.t.Helper()
	_, err = c.Do(c.t.Context(), owner, KeyOf(owner, key), sum, "main", func(Record) (*Effect, bool) {
		ran = true
		return effect, unknown
	})
	return ran, err
}

func (c *clock) want(what, owner, key, sum string, ran bool, want error) {
	c.t.Helper()
	got, err := c.do(owner, key, sum, &Effect{Entry: 1}, false)
	if got != ran || !errors.Is(err, want) {
		c.t.Errorf("%s: ran %v, %v; want %v, %v", what, got, err, ran, want)
	}
	_, err = c.Find(c.t.Context(), KeyOf(owner, key), sum)
	if !errors.Is(err, want) {
		c.t.Errorf("%s: find: %v, want %v", what, err, want)
	}
}

// TestDo runs a request once for its key, owner, and digest, for 24 hours, also after
// restarts.
func TestDo(t *testing.T) {
	c := newClock(t)
	c.want("first", "ann", "k", "s", true, nil)
	for range 2 {
		c.want("again", "ann", "k", "s", false, nil)
		c.want("another body", "ann", "k", "other", false, ErrReused)
		c.restart()
	}
	c.want("another owner", "bob", "k", "s", true, nil)
	if KeyOf("a", "bc") == KeyOf("ab", "c") {
		t.Error("two keys have one digest")
	}
	if ran, err := c.do("ann", "failed", "s", nil, false); !ran || err != nil {
		t.Errorf("a request without an effect: %v, %v", ran, err)
	}
	c.want("after a request without an effect", "ann", "failed", "other", true, nil)
	if ran, err := c.do("ann", "unknown", "s", nil, true); !ran || err != nil {
		t.Errorf("a request with an unknown outcome: %v, %v", ran, err)
	}
	c.restart()
	if r, err := c.Find(t.Context(), KeyOf("ann", "unknown"), "s"); err != nil || r.State != Begun || r.Space != "main" {
		t.Errorf("a request with an unknown outcome: %+v, %v", r, err)
	}
	c.want("an unknown outcome, another body", "ann", "unknown", "other", false, ErrReused)
	c.want("an unknown outcome, again", "ann", "unknown", "s", true, nil)
	c.now = c.now.Add(Keep)
	c.want("after 24 hours", "ann", "k", "s", false, nil)
	c.now = c.now.Add(time.Second)
	for range 2 {
		c.want("after more than 24 hours", "ann", "k", "s", false, ErrSpent)
		c.want("another body after more than 24 hours", "ann", "k", "other", false, ErrSpent)
		c.restart()
	}
	if text, err := os.ReadFile(c.path); err != nil || strings.Contains(string(text), "sum") {
		t.Errorf("digests after more than 24 hours: %v %s", err, text)
	}
}

// TestLimits keeps the newest records of each owner.
func TestLimits(t *testing.T) {
	c := newClock(t)
	c.want("bob", "bob", "k", "s", true, nil)
	for i := range maxKept + 10 {
		if ran, err := c.do("ann", fmt.Sprint(i), "s", &Effect{Entry: 1}, false); !ran || err != nil {
			t.Fatal(i, ran, err)
		}
	}
	for range 2 {
		c.want("too old", "ann", "9", "s", false, ErrSpent)
		c.want("the oldest", "ann", "10", "s", false, nil)
		c.want("bob", "bob", "k", "s", false, nil)
		c.restart()
	}
	c.want("bob", "bob", "k", "s", false, nil) // forgets what the file has beyond the limits
	for i := range maxSpent + 1 {
		c.Table.spend(fmt.Sprint(i))
	}
	if n := len(c.byKey); n > maxSpent+maxKept+1 {
		t.Errorf("%d keys", n)
	}
}

// TestPurge removes the digests of records from the file, and refuses their keys.
func TestPurge(t *testing.T) {
	c := newClock(t)
	for i, e := range []Effect{{Space: "main", Entry: 1, ETag: "tag-one"}, {Space: "main", Entry: 2, ETag: "tag-two"}, {Space: "team", Entry: 1, ETag: "tag-three"}, {Space: "team"}} {
		if ran, err := c.do("ann", fmt.Sprint(i), fmt.Sprint("sum-", i), &e, false); !ran || err != nil {
			t.Fatal(ran, err)
		}
	}
	if list := c.Records("main"); len(list) != 2 {
		t.Errorf("records: %+v", list)
	}
	if err := errors.Join(c.Purge(KeyOf("ann", "0")), c.PurgeSpace("team")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.path)
	if err != nil || strings.Contains(string(text), "tag-one") || strings.Contains(string(text), "sum-0") || strings.Contains(string(text), "tag-three") || !strings.Contains(string(text), "tag-two") {
		t.Errorf("after a purge: %v %s", err, text)
	}
	for range 2 {
		c.want("purged", "ann", "0", "sum-0", false, ErrSpent)
		c.want("kept", "ann", "1", "sum-1", false, nil)
		c.want("of a removed space", "ann", "2", "sum-2", false, ErrSpent)
		c.want("of the space", "ann", "3", "sum-3", false, nil)
		c.restart()
	}
}

// TestConcurrent runs one of many concurrent requests with a key. A request whose client
// is gone does not wait.
func TestConcurrent(t *testing.T) {
	c := newClock(t)
	key := KeyOf("ann", "k")
	var each sync.WaitGroup
	var mu sync.Mutex
	ran := 0
	for range 16 {
		each.Go(func() {
			_, err := c.Do(t.Context(), "ann", key, "s", "main", func(Record) (*Effect, bool) {
				mu.Lock()
				defer mu.Unlock()
				ran++
				return &Effect{Entry: 1}, false
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	each.Wait()
	if ran != 1 {
		t.Errorf("ran %d times", ran)
	}
	_, err := c.Do(t.Context(), "ann", KeyOf("ann", "l"), "s", "main", func(Record) (*Effect, bool) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Find(ctx, KeyOf("ann", "l"), "s"); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that is gone: %v", err)
		}
		return nil, false
	})
	if err != nil {
		t.Error(err)
	}
}

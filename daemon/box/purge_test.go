package box

import (
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// waits reports calls of Lock that fail because the gateway has the lock.
type waits struct {
	vfs.FS
	began chan struct{}
	once  sync.Once
}

func (w *waits) Lock(name string) (vfs.Locked, error) {
	l, err := w.FS.Lock(name)
	if errors.Is(err, vfs.ErrLocked) {
		w.once.Do(func() { close(w.began) })
	}
	return l, err
}

// TestPurgeConcurrent begins a purge before each call of a gateway that adds a message,
// answers one, or drops an answer. The purge waits until the gateway has replaced the
// file, so that no file contains the text afterwards.
func TestPurgeConcurrent(t *testing.T) {
	const text = "a purged text"
	for name, change := range map[string]func(r *rig) error{
		"add": func(r *rig) error {
			_, err := r.Add("k/", "k/a", "", Message{Content: "other"})
			return err
		},
		"finish": func(r *rig) error {
			m, _, err := r.Next("k/a")
			if err != nil {
				return err
			}
			return r.Finish("k/a", m.ID, "other")
		},
		"read": func(r *rig) error {
			_, _, err := r.Read("k/a", math.MaxUint64, false)
			return err
		},
	} {
		for at, more := int64(1), true; more; at++ {
			r := newRig(t)
			r.add("k/a", "", "first")
			_, id := r.next("k/a")
			if err := r.Finish("k/a", id, "an answer"); err != nil {
				t.Fatal(err)
			}
			r.add("k/a", "", "second")
			r.add("k/a", "", text)
			var calls atomic.Int64
			ended, w := make(chan error, 1), &waits{FS: r.m, began: make(chan struct{})}
			end := make(chan struct{})
			r.m.Hook = func(faultfs.Call) error {
				if calls.Add(1) != at {
					return nil
				}
				go func() {
					_, err := Purge(w, home, false, text)
					ended <- err
					close(end)
				}()
				select {
				case <-w.began:
				case <-end:
				}
				return nil
			}
			if err := change(r); err != nil {
				t.Fatal(name, err)
			}
			if more = calls.Load() >= at; more {
				if err := <-ended; err != nil {
					t.Fatal(name, err)
				}
			}
			if b, err := vfs.ReadFile(r.m, r.file("k/a"), maxFile); more && (err != nil || strings.Contains(string(b), text)) {
				t.Errorf("%s, purge before call %d: %s, %v", name, at, b, err)
			}
		}
	}
}

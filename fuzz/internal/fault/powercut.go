package fault

import (
	"errors"
	"sync"

	"crabmem/crmem/vfs"
)

var errPower = errors.New("the power is gone")

// PowerCut simulates a power cut after After calls. Hook then captures the crash
// state and fails all calls.
type PowerCut struct {
	After int             // calls before it
	Take  func() *vfs.Mem // under the lock of the machine

	mu    sync.Mutex
	image *vfs.Mem
}

// Hook is a [vfs.Mem]'s.
func (a *PowerCut) Hook(vfs.Call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.image != nil {
		return errPower
	}
	if a.After--; a.After < 0 {
		a.image = a.Take()
		return errPower
	}
	return nil
}

// Triggered reports whether the power is cut.
func (a *PowerCut) Triggered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.image != nil
}

// Trigger cuts the power, unless it is cut, and returns the crash state.
func (a *PowerCut) Trigger() *vfs.Mem {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.image == nil {
		a.image = a.Take()
	}
	return a.image
}

// Disarm prevents a later power cut. It returns the crash state, nil if the power
// was not cut.
func (a *PowerCut) Disarm() *vfs.Mem {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.After = 1 << 30
	return a.image
}

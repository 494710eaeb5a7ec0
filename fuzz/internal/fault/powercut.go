package fault

import (
	"errors"
	"sync"

	"crabmem/crmem/vfs"
)

var errPower = errors.New("the power is gone")

// Accident is armed for the next few calls: Hook takes the image that survives,
// and from then on the machine answers nothing.
type Accident struct {
	After int             // calls before it
	Take  func() *vfs.Mem // under the lock of the machine

	mu    sync.Mutex
	image *vfs.Mem
}

// Hook is a [vfs.Mem]'s.
func (a *Accident) Hook(vfs.Call) error {
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

// Happened tells whether it came.
func (a *Accident) Happened() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.image != nil
}

// Now has it come now, if it did not yet, and returns the image.
func (a *Accident) Now() *vfs.Mem {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.image == nil {
		a.image = a.Take()
	}
	return a.image
}

// End has it come no more, and returns the image, nil if it did not come.
func (a *Accident) End() *vfs.Mem {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.After = 1 << 30
	return a.image
}

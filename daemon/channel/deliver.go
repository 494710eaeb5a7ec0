package channel

import (
	"slices"
	"time"

	"crabmem/daemon/box"
)

// lookTime is the time between two looks for texts that the daemon added.
const lookTime = time.Second

// look wakes the workers of conversations that another process changed, until ctx ends.
func (l *loop) look() {
	for Pause(l.ctx, lookTime) {
		for _, conversation := range l.box.Changed() {
			l.wake(conversation, false)
		}
	}
}

// splitNew replaces the texts of the daemon with parts that the platform accepts.
func (l *loop) splitNew(f *box.File) (changed bool) {
	for {
		i := slices.IndexFunc(f.Answers, func(a box.Answer) bool { return a.State == box.Pending && a.Of == 0 && !a.Live })
		if i < 0 {
			return changed
		}
		a := f.Answers[i]
		f.Answers, changed = slices.Delete(f.Answers, i, i+1), true
		l.add(f, a.Turn, a.Kind, a.Content)
	}
}

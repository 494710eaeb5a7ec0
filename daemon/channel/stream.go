package channel

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// The times between two drafts of an answer.
const (
	draftTime = 1500 * time.Millisecond
	renewTime = 20 * time.Second // of the same text: a service removes a draft after 30 s
)

// draft shows the answer of a run while the agent writes it, until ctx ends. The answer itself
// is a message, so a draft that is lost or repeated has no effect.
func (r *run) draft(ctx context.Context) {
	id, _ := strconv.ParseInt(r.turn.IDs[0][:min(12, len(r.turn.IDs[0]))], 16, 64)
	shown, at := "", r.Now()
	for Pause(ctx, draftTime) {
		parts := Split(r.written(), r.p.Limit)
		if len(parts) == 0 {
			continue
		}
		text := parts[len(parts)-1]
		if text == shown && r.Now().Sub(at) < renewTime {
			continue
		}
		shown, at = text, r.Now()
		err := r.p.Draft(ctx, r.conversation, id|1, text)
		failed, _ := errors.AsType[*SendError](err)
		switch {
		case failed != nil && failed.Retry:
			Pause(ctx, failed.After)
		case failed != nil:
			r.Log.Debug("drafts are not shown", "conversation", r.conversation, "error", err)
			return
		}
	}
}

// written returns the text of the answer so far.
func (r *run) written() string {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.text.String()
}

// write adds a text to the answer. The first text after calls of tools replaces the answer so far.
func (r *run) write(text string) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.ended {
		r.text.Reset()
		r.ended = false
	}
	r.text.WriteString(text)
}

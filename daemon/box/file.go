package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"crabmem/crmem/vfs"
)

// Message is a message to an agent.
type Message struct {
	ID      string    `json:"id"`
	Agent   string    `json:"agent"`
	Content string    `json:"content"`
	At      time.Time `json:"at"` // stored
	Received
	Ask    uint64 `json:"ask,omitempty"`    // of the [Question] that it answers; 0: none
	Button bool   `json:"button,omitempty"` // the person pressed a button
}

// Answer is an answer of an agent, or a part of one.
type Answer struct {
	Seq     uint64    `json:"seq"` // ascending in a conversation
	Content string    `json:"content"`
	At      time.Time `json:"at"`
	Part              // zero: clients of the webhook read the answer
}

// File is the content of a conversation's file.
type File struct {
	Conversation string    `json:"conversation"` // its identity
	Waiting      []Message `json:"waiting"`      // without an answer
	Answers      []Answer  `json:"answers"`      // not read
	Done         []done    `json:"done"`         // answered messages that may be repeated
	Last         uint64    `json:"last"`         // largest Seq

	Deliveries []Delivery `json:"deliveries,omitempty"` // the newest change is the last one
	Channel

	bytes int // of the file
	now   func() time.Time
}

// done is an answered message, with the message's digest.
type done struct {
	ID  string    `json:"id"`
	Sum string    `json:"sum"`
	At  time.Time `json:"at"`
}

// read returns a file's content without answers and IDs that are older than Keep. A
// missing file is empty.
func (b *Box) read(path string) (f File, err error) {
	f.now = b.Now
	text, err := vfs.ReadFile(b.FS, path, maxRead)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		if err = json.Unmarshal(text, &f); err != nil {
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		f.bytes = len(text)
	}
	if err != nil {
		return f, fmt.Errorf("read %s: %w: move the file away", path, err)
	}
	old := b.Now().Add(-b.Keep)
	f.Answers = slices.DeleteFunc(f.Answers, func(a Answer) bool { return a.At.Before(old) && !a.IsOpen() })
	f.Done = slices.DeleteFunc(f.Done, func(d done) bool { return d.At.Before(old) })
	older := b.Now().Add(-keepDelivered)
	f.Deliveries = slices.DeleteFunc(f.Deliveries, func(d Delivery) bool { return d.At.Before(older) && d.State != Owed })
	return f, nil
}

// write replaces a conversation's file. A later process finds the content before or
// after it.
func (b *Box) write(f *File) error {
	f.settle()
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := vfs.MkdirAll(b.FS, b.path, 0o700); err != nil {
		return err
	}
	err = vfs.WriteFile(b.FS, b.file(f.Conversation), 0o600, text)
	if err == nil {
		f.bytes = len(text)
		b.count(f)
	}
	return err
}

// count stores a conversation's size, and how many messages, parts, and questions are open in it.
func (b *Box) count(f *File) {
	b.sizes[f.Conversation] = f.bytes
	for i := range f.Deliveries {
		b.of[f.Deliveries[i].Source] = f.Conversation // settle adds each session
	}
	if f.Session != "" {
		b.of[f.Session] = f.Conversation
	}
	n := len(f.Waiting)
	for i := range f.Answers {
		if f.Answers[i].IsOpen() {
			n++
		}
	}
	n += len(f.Questions)
	if b.waiting[f.Conversation] = n; n == 0 {
		delete(b.waiting, f.Conversation)
	}
}

// end removes messages i to j, and keeps their IDs.
func (f *File) end(i, j int) {
	for k := i; k < j; k++ {
		f.Done = append(f.Done, done{f.Waiting[k].ID, sumOf(&f.Waiting[k]), f.now().UTC()})
	}
	f.Done = f.Done[max(0, len(f.Done)-maxDone):]
	f.Waiting = slices.Delete(f.Waiting, i, j)
}

// End removes the oldest messages, and keeps their IDs.
func (f *File) End(messages int) { f.end(0, messages) }

// EndOne removes a message, and keeps its ID.
func (f *File) EndOne(i int) { f.end(i, i+1) }

// Answer adds an answer, and sets its time and its number. If the answers exceed the size of
// a conversation, the oldest ones are removed.
func (f *File) Answer(a Answer) {
	a.At = f.now().UTC()
	f.Last = max(f.Last+1, uint64(a.At.UnixMilli())) // also after the file was removed
	a.Seq = f.Last
	f.Answers = append(f.Answers, a)
	total := 0
	for i := range f.Answers {
		total += sizeOf(f.Answers[i].Content) + answerSize
	}
	for total > maxFile && len(f.Answers) > 1 {
		total -= sizeOf(f.Answers[0].Content) + answerSize
		f.Answers = f.Answers[1:]
	}
}

// sizeOf returns a text's size in a file, in bytes.
func sizeOf(text string) int {
	b, _ := json.Marshal(text) // a string: never fails
	return len(b) - len(`""`)
}

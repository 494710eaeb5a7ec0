package box

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
)

// Limits of deliveries.
const (
	maxDeliveries = 200 // of a conversation, that are closed
	keepDelivered = 30 * 24 * time.Hour
	keepUnread    = 48 * time.Hour // of answers that another process than their reader writes
)

// A Delivery's states, in addition to its parts' states.
const (
	Owed  State = "owed"  // its text is not in the file yet
	Empty State = "empty" // it has no text
)

// Delivery is a source's newest text, which is not an answer to a message. A source
// without a Key has had no text.
type Delivery struct {
	Source  string    `json:"source"`            // a session, or a cron entry
	Key     string    `json:"key,omitempty"`     // names the text in its session
	Session string    `json:"session,omitempty"` // contains the text
	Tell    bool      `json:"tell,omitempty"`    // the conversation's session is to contain the text, too
	State   State     `json:"state,omitempty"`
	Reason  string    `json:"reason,omitempty"` // of Failed
	At      time.Time `json:"at"`
}

// turn returns the Turn of the delivery's parts.
func (d *Delivery) turn() string { return d.Source + " " + d.Key }

// DirOf returns the directory of a conversation's file, or "".
func DirOf(conversation string) string {
	switch prefix, _, _ := strings.Cut(conversation, ":"); prefix {
	case "hook":
		return Webhook
	case "tg", "tg-open":
		return Telegram
	}
	return ""
}

// Identity returns a conversation's identity: that of a webhook is its name, others may
// have a topic.
func Identity(conversation string) string {
	if DirOf(conversation) == Webhook {
		return conversation
	}
	id, _, _ := strings.Cut(conversation, "/")
	return id
}

// store returns a Box for single changes in a directory.
func store(fsys vfs.FS, home, dir string, now func() time.Time) *Box {
	return newBox(Options{FS: fsys, Home: home, Dir: dir, Keep: keepUnread, Now: now})
}

// Change calls change with a conversation's content, and stores the content if change returns
// true. Any process may call it. It creates the file of a new conversation.
func Change(fsys vfs.FS, home, conversation string, now func() time.Time, change func(*File) bool) error {
	b := store(fsys, home, DirOf(conversation), now)
	return b.locked(func() error {
		f, err := b.read(b.file(conversation))
		if f.Conversation = conversation; err != nil || !change(&f) {
			return err
		}
		return b.write(&f) // the commit point is the rename in it
	})
}

// Load returns a conversation's content. A conversation without a file is empty.
func Load(fsys vfs.FS, home, conversation string, now func() time.Time) (File, error) {
	b := store(fsys, home, DirOf(conversation), now)
	return b.read(b.file(conversation))
}

// Each calls f with the content of a home's conversations. It skips files that cannot be
// read: their readers report them.
func Each(fsys vfs.FS, home string, now func() time.Time, f func(*File)) {
	for _, dir := range Dirs {
		b := store(fsys, home, dir, now)
		list, _ := fsys.ReadDir(b.path) // missing: no conversations
		for _, e := range list {
			if strings.HasPrefix(e.Name(), ".") { // a crash left it
				continue
			}
			if c, err := b.read(filepath.Join(b.path, e.Name())); err == nil && c.Conversation != "" {
				f(&c)
			}
		}
	}
}

// Delivery returns a source's delivery, or nil. It is valid until the next change.
func (f *File) Delivery(source string) *Delivery {
	i := slices.IndexFunc(f.Deliveries, func(d Delivery) bool { return d.Source == source })
	if i < 0 {
		return nil
	}
	return &f.Deliveries[i]
}

// set replaces a source's delivery.
func (f *File) set(d Delivery) {
	f.Deliveries = slices.DeleteFunc(f.Deliveries, func(o Delivery) bool { return o.Source == d.Source })
	d.At = f.now().UTC()
	f.Deliveries = append(f.Deliveries, d)
}

// Owe stores that a source will have a text. A crash does not lose it: the delivery remains
// owed until Deliver or EndDelivery.
func (f *File) Owe(d Delivery) {
	d.State, d.Reason = Owed, ""
	f.set(d)
}

// Deliver adds an owed delivery's text. It returns false for any other delivery: a
// repeated call adds the text once.
func (f *File) Deliver(d *Delivery, kind Kind, text string) bool {
	old := f.owed(d)
	if old == nil {
		return false
	}
	old.State = Pending
	a := Answer{Content: text, Part: Part{Turn: old.turn(), Kind: kind}}
	if DirOf(f.Conversation) != Webhook {
		a.State = Pending // the channel splits it
	}
	f.Answer(a)
	return true
}

// Send adds a text that no run owes. It returns false if the file contains the delivery already.
func (f *File) Send(d Delivery, kind Kind, text string) bool {
	if old := f.Delivery(d.Source); old != nil && old.Key == d.Key {
		return false
	}
	f.Owe(d)
	return f.Deliver(&d, kind, text)
}

// EndDelivery sets the outcome of an owed delivery without a text.
func (f *File) EndDelivery(d *Delivery, state State, reason string) bool {
	old := f.owed(d)
	if old == nil {
		return false
	}
	old.State, old.Reason = state, reason
	return true
}

// owed returns the owed delivery with the same source and key, or nil.
func (f *File) owed(d *Delivery) *Delivery {
	if old := f.Delivery(d.Source); old != nil && old.Key == d.Key && old.State == Owed {
		return old
	}
	return nil
}

// settle updates the deliveries by the states of their parts, and removes old ones.
func (f *File) settle() {
	if f.Session != "" && f.Delivery(f.Session) == nil {
		f.set(Delivery{Source: f.Session}) // its later texts are for this conversation
	}
	closed := 0
	for i := range slices.Backward(f.Deliveries) {
		d := &f.Deliveries[i]
		if d.State == Pending {
			d.State, d.Reason = f.outcome(d.turn())
		}
		if d.State == Owed || d.State == Pending || d.Source == f.Session {
			continue
		}
		if closed++; closed > maxDeliveries {
			f.Deliveries = slices.Delete(f.Deliveries, i, i+1)
		}
	}
}

// outcome returns the state of a turn's parts.
func (f *File) outcome(turn string) (state State, reason string) {
	for i := range f.Answers {
		switch a := &f.Answers[i]; {
		case a.Turn != turn || a.Kind == Notice:
		case a.State == "" || a.IsOpen():
			return Pending, ""
		case a.State == Failed:
			state, reason = Failed, "the platform refused it, or the conversation accepts no texts"
		case a.State == Unknown && state != Failed:
			state, reason = Unknown, "the platform did not confirm it"
		default:
			state = cmp.Or(state, a.State)
		}
	}
	if state == "" {
		return Failed, "no client read it in time"
	}
	return state, reason
}

// wasRead sets the outcome of deliveries whose answers a client has read.
func (f *File) wasRead(answers []Answer) {
	for i := range answers {
		for j := range f.Deliveries {
			if f.Deliveries[j].turn() == answers[i].Turn {
				f.Deliveries[j].State = Sent
			}
		}
	}
}

// Changed returns the conversations with messages or open parts whose files changed since the
// last call, also by another process.
func (b *Box) Changed() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries, _ := b.FS.ReadDir(b.path) // tried again by the next call
	seen := make(map[string]vfs.FileState, len(entries))
	for _, e := range entries {
		path := filepath.Join(b.path, e.Name())
		info, err := b.FS.Lstat(path)
		if err != nil || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		s := vfs.StateOf(info)
		if seen[path] = s; b.seen[path] == s {
			continue
		}
		f, err := b.read(path)
		if err != nil {
			continue // the conversation's worker reports it
		}
		if b.count(&f); b.waiting[f.Conversation] > 0 {
			list = append(list, f.Conversation)
		}
	}
	b.seen = seen
	return list
}

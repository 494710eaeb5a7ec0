// Package box stores the conversations of the webhook in files: messages to agents that
// have no answer yet, and answers that no client has read.
package box

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"crabmem/crmem/vfs"
)

// Dir contains the files in the home, one for each conversation.
const Dir = "webhook"

// The limits of a Box.
const (
	maxConversations = 1_000
	maxFile          = 8 << 20 // bytes of a conversation
	maxWaiting       = 256     // messages of one owner without an answer
	maxOwned         = maxConversations / 4
	maxOwnedBytes    = 64 << 20 // of the conversations of one owner
	keep             = 24 * time.Hour
	sweepTime        = time.Hour
)

// lockWait is the maximum wait for another process that changes a conversation.
const lockWait = 10 * time.Second

// withLock calls change with the lock on the conversations of a home. A Box reads and
// replaces a file under it, and so does Purge: a Box cannot write a purged text back.
func withLock(fsys vfs.FS, home string, change func() error) (err error) {
	lerr := vfs.WithLock(fsys, filepath.Join(home, "run", Dir+".lock"), lockWait, func() error {
		err = change()
		return err
	})
	return cmp.Or(err, lerr)
}

// Errors of Add.
var (
	ErrFull  = errors.New("too many messages wait")
	ErrReuse = errors.New("another message has this key")
)

// Message is a message to an agent.
type Message struct {
	ID      string    `json:"id"`
	Agent   string    `json:"agent"`
	Content string    `json:"content"`
	At      time.Time `json:"at"`
}

// Answer is an answer of an agent.
type Answer struct {
	Seq     uint64    `json:"seq"` // ascending in a conversation
	Content string    `json:"content"`
	At      time.Time `json:"at"`
}

// file is the content of the file of a conversation.
type file struct {
	Conversation string    `json:"conversation"` // its identity
	Waiting      []Message `json:"waiting"`      // without an answer
	Answers      []Answer  `json:"answers"`      // not read
	Done         []done    `json:"done"`         // answered messages that may be repeated
	Last         uint64    `json:"last"`         // largest Seq

	bytes int // of the file
}

// done is an answered message. Sum is that of the message.
type done struct {
	ID  string    `json:"id"`
	Sum string    `json:"sum"`
	At  time.Time `json:"at"`
}

// Box is the conversations of a home. It is safe for concurrent use, of one process.
type Box struct {
	fs   vfs.FS
	home string
	dir  string
	now  func() time.Time

	mu      sync.Mutex     // held during each change
	waiting map[string]int // messages without an answer, by conversation
	changed chan struct{}  // closed and replaced by each answer
	sizes   map[string]int // bytes of the files, by conversation
	unread  int            // files that cannot be read
	swept   time.Time
}

// Open reads the conversations of a home. It removes those without messages of the last
// 24 hours. With an error about files that it cannot read, the others are usable.
func Open(fsys vfs.FS, home string, now func() time.Time) (*Box, error) {
	b := &Box{fs: fsys, home: home, dir: filepath.Join(home, Dir), now: now, waiting: make(map[string]int), sizes: make(map[string]int), changed: make(chan struct{})}
	if _, err := fsys.Lstat(b.dir); errors.Is(err, fs.ErrNotExist) {
		b.swept = now()
		return b, nil
	}
	return b, withLock(fsys, home, b.sweep)
}

// sweep counts the conversations, and removes old ones and temporary files. The caller has
// exclusive use of b, and holds the lock.
func (b *Box) sweep() error {
	b.swept, b.unread = b.now(), 0
	clear(b.sizes)
	list, err := b.fs.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		path := filepath.Join(b.dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			err = errors.Join(err, b.fs.Remove(path))
			continue
		}
		f, rerr := b.read(path)
		switch {
		case rerr != nil:
			err = errors.Join(err, rerr)
			b.unread++
		case len(f.Waiting)+len(f.Answers)+len(f.Done) == 0:
			err = errors.Join(err, b.fs.Remove(path))
		default:
			b.sizes[f.Conversation] = f.bytes
			if n := len(f.Waiting); n > 0 {
				b.waiting[f.Conversation] = n
			}
		}
	}
	return err
}

// Waiting returns the conversations with messages that have no answer.
func (b *Box) Waiting() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conversation := range b.waiting {
		list = append(list, conversation)
	}
	slices.Sort(list)
	return list
}

func (b *Box) path(conversation string) string {
	sum := sha256.Sum256([]byte(conversation))
	return filepath.Join(b.dir, hex.EncodeToString(sum[:16])+".json")
}

// read returns the content of a file without what is older than 24 hours. A missing file
// is empty.
func (b *Box) read(path string) (f file, err error) {
	text, err := vfs.ReadFile(b.fs, path, 2*maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &f)
		f.bytes = len(text)
	}
	if err != nil {
		return f, fmt.Errorf("read %s: %w: move the file away", path, err)
	}
	old := b.now().Add(-keep)
	f.Answers = slices.DeleteFunc(f.Answers, func(a Answer) bool { return a.At.Before(old) })
	f.Done = slices.DeleteFunc(f.Done, func(d done) bool { return d.At.Before(old) })
	return f, nil
}

// write replaces the file of a conversation. A later process finds the content before or
// after it.
func (b *Box) write(f *file) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := vfs.MkdirAll(b.fs, b.dir, 0o700); err != nil {
		return err
	}
	err = vfs.WriteFile(b.fs, b.path(f.Conversation), 0o600, text)
	if err == nil {
		b.sizes[f.Conversation] = len(text)
	}
	return err
}

// Add stores a message, and returns its ID. once is a key with which the call may be
// repeated, or empty. owner begins the names of the conversations that share a limit.
func (b *Box) Add(owner, conversation, once string, m Message) (id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = withLock(b.fs, b.home, func() error {
		id, err = b.add(owner, conversation, once, m)
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// add is Add with the lock.
func (b *Box) add(owner, conversation, once string, m Message) (id string, err error) {
	if b.now().Sub(b.swept) > sweepTime {
		_ = b.sweep() // a file that cannot be read concerns its conversation only
	}
	path := b.path(conversation)
	f, err := b.read(path)
	if err != nil {
		return "", err
	}
	m.ID, m.At = messageID(conversation, once), b.now().UTC()
	if i := slices.IndexFunc(f.Done, func(d done) bool { return d.ID == m.ID }); i >= 0 {
		return m.ID, sameSum(f.Done[i].Sum, &m)
	}
	if i := slices.IndexFunc(f.Waiting, func(w Message) bool { return w.ID == m.ID }); i >= 0 {
		return m.ID, sameSum(sumOf(&f.Waiting[i]), &m)
	}
	total, others := len(m.Content)+size(f.Answers), 0
	for _, w := range f.Waiting {
		total += len(w.Content)
	}
	for name, n := range b.waiting {
		if strings.HasPrefix(name, owner) {
			others += n
		}
	}
	owned, bytes := 0, len(m.Content)
	for name, n := range b.sizes {
		if strings.HasPrefix(name, owner) {
			owned++
			bytes += n
		}
	}
	isNew := f.Conversation == ""
	if total > maxFile || others >= maxWaiting || bytes > maxOwnedBytes || isNew && (owned >= maxOwned || len(b.sizes)+b.unread >= maxConversations) {
		return "", ErrFull
	}
	f.Conversation = conversation
	f.Waiting = append(f.Waiting, m)
	if err := b.write(&f); err != nil { // the commit point is the rename in it
		return "", err
	}
	b.waiting[conversation] = len(f.Waiting)
	return m.ID, nil
}

// messageID returns the ID of a message: random, or that of a key of its conversation.
func messageID(conversation, once string) string {
	sum := sha256.Sum256([]byte(conversation + "\x00" + once))
	if once == "" {
		rand.Read(sum[:]) // crypto/rand: never fails
	}
	return hex.EncodeToString(sum[:16])
}

// sumOf returns a digest of what a message asks for.
func sumOf(m *Message) string {
	sum := sha256.Sum256([]byte(m.Agent + "\x00" + m.Content))
	return hex.EncodeToString(sum[:])
}

func sameSum(sum string, m *Message) error {
	if sum != sumOf(m) {
		return ErrReuse
	}
	return nil
}

// Next returns the oldest message without an answer, or false.
func (b *Box) Next(conversation string) (Message, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := b.read(b.path(conversation))
	if err != nil || len(f.Waiting) == 0 {
		return Message{}, false, err
	}
	return f.Waiting[0], true, nil
}

// Finish stores the answer to a message in place of the message. If the answers of a
// conversation exceed its size, the oldest ones are removed.
func (b *Box) Finish(conversation, id, content string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return withLock(b.fs, b.home, func() error { return b.finish(conversation, id, content) })
}

// finish is Finish with the lock.
func (b *Box) finish(conversation, id, content string) error {
	f, err := b.read(b.path(conversation))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(f.Waiting, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return fmt.Errorf("no message %s waits for an answer", id)
	}
	now := b.now().UTC()
	f.Last = max(f.Last+1, uint64(now.UnixMilli())) // also after the file was removed
	f.Done = append(f.Done, done{id, sumOf(&f.Waiting[i]), now})
	f.Waiting = slices.Delete(f.Waiting, i, i+1)
	f.Answers = append(f.Answers, Answer{f.Last, content, now})
	for size(f.Answers) > maxFile && len(f.Answers) > 1 {
		f.Answers = f.Answers[1:]
	}
	if err := b.write(&f); err != nil {
		return err
	}
	if n := len(f.Waiting); n > 0 {
		b.waiting[conversation] = n
	} else {
		delete(b.waiting, conversation)
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return nil
}

func size(answers []Answer) (n int) {
	for _, a := range answers {
		n += len(a.Content)
	}
	return n
}

// Read returns the answers after a sequence number, and a channel that is closed when a
// conversation has a new answer. It removes those up to the number. If drain is set, it removes all
// that it returns.
func (b *Box) Read(conversation string, seq uint64, drain bool) ([]Answer, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := b.read(b.path(conversation))
	if err != nil {
		return nil, nil, err
	}
	found := after(f.Answers, seq)
	if kept := len(found); kept < len(f.Answers) || drain && kept > 0 {
		if err := withLock(b.fs, b.home, func() error { return b.drop(conversation, seq, drain, &found) }); err != nil {
			return nil, nil, err
		}
	}
	return found, b.changed, nil
}

// drop removes the answers of a conversation up to a sequence number, or all of them. It
// sets found to those after the number. The caller holds the lock.
func (b *Box) drop(conversation string, seq uint64, all bool, found *[]Answer) error {
	f, err := b.read(b.path(conversation))
	if err != nil {
		return err
	}
	if *found = after(f.Answers, seq); !all {
		f.Answers = *found
	} else {
		f.Answers = nil
	}
	return b.write(&f)
}

// after returns the answers after a sequence number.
func after(answers []Answer, seq uint64) []Answer {
	return slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool { return a.Seq <= seq })
}

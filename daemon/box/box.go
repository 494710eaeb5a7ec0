// Package box stores webhook and channel conversations in files: messages to
// agents that have no answer yet, and answers that no client has read or no platform has.
package box

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
)

// The directories in the home with the files, one for each conversation.
const (
	Webhook  = "webhook"
	Telegram = "telegram"
)

// Dirs lists the directories.
var Dirs = []string{Webhook, Telegram}

// The limits of a Box.
const (
	maxConversations = 1_000
	maxFile          = 8 << 20 // bytes of a conversation's texts
	maxRead          = 4 * maxFile
	maxDone          = 10_000  // IDs of answered messages, in a conversation
	answerSize       = 1 << 10 // bytes that an answer counts in addition to its text
	maxWaiting       = 256     // messages of one owner without an answer
	maxOwned         = maxConversations / 4
	maxOwnedBytes    = 64 << 20 // of the conversations of one owner
	sweepTime        = time.Hour
)

// lockWait is the maximum wait for another process that changes a conversation.
const lockWait = 10 * time.Second

// withLock calls change with the lock on a home directory's conversations. A Box
// reads and replaces a file under it, and so does Purge: a Box cannot write a purged text
// back.
func withLock(fsys vfs.FS, home, dir string, change func() error) (err error) {
	lerr := vfs.WithLock(fsys, filepath.Join(home, "run", dir+".lock"), lockWait, func() error {
		err = change()
		return err
	})
	return cmp.Or(err, lerr)
}

// ErrCorrupt is returned for a file that no later read can decode.
var ErrCorrupt = errors.New("the file is corrupt")

// Errors of Add.
var (
	ErrFull  = errors.New("too many messages wait")
	ErrMany  = fmt.Errorf("too many conversations: %w", ErrFull) // a repeated call fails, too
	ErrBusy  = errors.New("too many messages of the conversation wait")
	ErrReuse = errors.New("another message has this key")
)

// A chanMutex is a mutex in the form of a channel. Its holder may sleep until the lock file is free,
// and package synctest's clock stops while another goroutine waits for a sync.Mutex.
type chanMutex chan struct{}

func (m chanMutex) Lock()   { m <- struct{}{} }
func (m chanMutex) Unlock() { <-m }

// Box is the conversations of a home. It is safe for concurrent use, of one process.
type Box struct {
	Options
	path string // of the directory

	mu      chanMutex         // held during each change
	waiting map[string]int    // messages without an answer, parts to send, and questions, by conversation
	changed chan struct{}     // closed and replaced by each answer
	sizes   map[string]int    // bytes of the files, by conversation
	of      map[string]string // conversations, by session
	unread  int               // files that cannot be read
	swept   time.Time
	seen    map[string]vfs.FileState // by Changed
}

// Options are the options of [Open].
type Options struct {
	FS   vfs.FS
	Home string
	Dir  string        // one of Dirs
	Keep time.Duration // of answers, and of the IDs of answered messages
	Now  func() time.Time
	// PerConversation limits a conversation's messages without an answer. 0: no limit.
	PerConversation int
}

func newBox(o Options) *Box {
	return &Box{Options: o, mu: make(chanMutex, 1), path: filepath.Join(o.Home, o.Dir), waiting: make(map[string]int), sizes: make(map[string]int), of: make(map[string]string), changed: make(chan struct{})}
}

// Open reads a home directory's conversations. It removes those without messages
// of the time Keep. With an error about files that it cannot read, the others are usable.
func Open(o Options) (*Box, error) {
	b := newBox(o)
	if _, err := b.FS.Lstat(b.path); errors.Is(err, fs.ErrNotExist) {
		b.swept = b.Now()
		return b, nil
	}
	return b, b.locked(b.sweep)
}

// locked calls change with the lock on the conversations.
func (b *Box) locked(change func() error) error { return withLock(b.FS, b.Home, b.Dir, change) }

// sweep counts the conversations, and removes old ones and temporary files. The caller has
// exclusive use of b, and holds the lock.
func (b *Box) sweep() error {
	b.swept, b.unread = b.Now(), 0
	clear(b.sizes)
	clear(b.of)
	list, err := b.FS.ReadDir(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		path := filepath.Join(b.path, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			err = errors.Join(err, b.FS.Remove(path))
			continue
		}
		f, rerr := b.read(path)
		switch {
		case rerr != nil:
			err = errors.Join(err, rerr)
			b.unread++
		case len(f.Waiting)+len(f.Answers)+len(f.Done)+len(f.Deliveries) == 0 && f.Session == "":
			err = errors.Join(err, b.FS.Remove(path))
		default:
			b.count(&f)
		}
	}
	return err
}

// Waiting returns the conversations with messages that have no answer, parts to send, or
// questions.
func (b *Box) Waiting() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conversation := range b.waiting {
		list = append(list, conversation)
	}
	slices.Sort(list)
	return list
}

// Conversation returns the conversation with a session whose last turn is at most 30 days old,
// or "".
func (b *Box) Conversation(session string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[session]
}

func (b *Box) file(conversation string) string {
	sum := sha256.Sum256([]byte(conversation))
	return filepath.Join(b.path, hex.EncodeToString(sum[:16])+".json")
}

// Add stores a message, and returns its ID. once is a key with which the call may be
// repeated, or empty. owner begins the names of the conversations that share a limit.
func (b *Box) Add(owner, conversation, once string, m Message) (id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.locked(func() error {
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
	if b.Now().Sub(b.swept) > sweepTime {
		_ = b.sweep() // a file that cannot be read concerns its conversation only
	}
	path := b.file(conversation)
	f, err := b.read(path)
	if err != nil {
		return "", err
	}
	m.ID, m.At = messageID(conversation, once), b.Now().UTC()
	if i := slices.IndexFunc(f.Done, func(d done) bool { return d.ID == m.ID }); i >= 0 {
		return m.ID, sameSum(f.Done[i].Sum, &m)
	}
	if i := slices.IndexFunc(f.Waiting, func(w Message) bool { return w.ID == m.ID }); i >= 0 {
		return m.ID, sameSum(sumOf(&f.Waiting[i]), &m)
	}
	total, others := sizeOf(m.Content)+sizeOf(m.Quote), 0
	for i := range f.Waiting {
		total += sizeOf(f.Waiting[i].Content) + sizeOf(f.Waiting[i].Quote)
	}
	for i := range f.Answers {
		total += sizeOf(f.Answers[i].Content)
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
	if b.PerConversation > 0 && len(f.Waiting) >= b.PerConversation {
		return "", ErrBusy
	}
	if isNew && (owned >= maxOwned || len(b.sizes)+b.unread >= maxConversations) {
		return "", ErrMany
	}
	if total > maxFile || others >= maxWaiting || bytes > maxOwnedBytes {
		return "", ErrFull
	}
	f.Conversation = conversation
	f.Waiting = append(f.Waiting, m)
	return m.ID, b.write(&f) // the commit point is the rename in it
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
	f, err := b.read(b.file(conversation))
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
	return b.locked(func() error { return b.finish(conversation, id, content) })
}

// finish is Finish with the lock.
func (b *Box) finish(conversation, id, content string) error {
	f, err := b.read(b.file(conversation))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(f.Waiting, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return fmt.Errorf("no message %s waits for an answer", id)
	}
	f.end(i, i+1)
	f.Answer(Answer{Content: content})
	if err := b.write(&f); err != nil {
		return err
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return nil
}

// Read returns the answers after a sequence number, and a channel that is closed when a
// conversation has a new answer. It removes those up to the number. If drain is set, it
// removes all that it returns.
func (b *Box) Read(conversation string, seq uint64, drain bool) ([]Answer, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := b.read(b.file(conversation))
	if err != nil {
		return nil, nil, err
	}
	found := after(f.Answers, seq)
	if kept := len(found); kept < len(f.Answers) || drain && kept > 0 {
		if err := b.locked(func() error { return b.drop(conversation, seq, drain, &found) }); err != nil {
			return nil, nil, err
		}
	}
	return found, b.changed, nil
}

// drop removes the answers of a conversation up to a sequence number, or all of them. It
// sets found to those after the number. The caller holds the lock.
func (b *Box) drop(conversation string, seq uint64, all bool, found *[]Answer) error {
	f, err := b.read(b.file(conversation))
	if err != nil {
		return err
	}
	*found = after(f.Answers, seq)
	f.wasRead(f.Answers[:len(f.Answers)-len(*found)])
	if !all {
		f.Answers = *found
	} else {
		f.wasRead(*found)
		f.Answers = nil
	}
	return b.write(&f)
}

// after returns the answers after a sequence number.
func after(answers []Answer, seq uint64) []Answer {
	return slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool { return a.Seq <= seq })
}

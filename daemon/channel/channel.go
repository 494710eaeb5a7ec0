// Package channel answers a chat platform's messages: it stores them, asks the daemon,
// and sends the answers. FORMAT.md describes its files and their states after a crash.
package channel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/box"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/trust"
)

// A channel's limits.
const (
	keep       = 48 * time.Hour // of IDs of messages
	maxWaiting = 64             // messages of a conversation without an answer
	maxRuns    = 4              // concurrent
	runTime    = 30 * time.Minute
	firstWait  = time.Second
	maxWait    = time.Minute
	strangers  = time.Hour // between two lines of the log about unknown senders
)

// Platform is a chat service. Its functions are safe for concurrent use.
type Platform struct {
	Dir    string // one of [box.Dirs]
	Prefix string // of identities, as tg:
	Limit  int    // UTF-16 units of a message
	// Receive calls accept with the messages as they arrive, and confirms them to the
	// service after accept returned without an error. It returns when ctx ends, or if the
	// owner must act.
	Receive func(ctx context.Context, accept func([]Message) error) error
	// Send sends a text to a conversation, and returns the text's ID in the service. If the error
	// is not a *SendError, the outcome is unknown.
	Send func(ctx context.Context, conversation string, t Text) (id string, err error)
	// Wait returns how long a text for a conversation waits before Send. If it returns 0, it counts
	// a text as sent now.
	Wait func(conversation string) time.Duration
	// Edit replaces a text that Send sent. A repeated call has no other effect. It returns errors as
	// Send does.
	Edit func(ctx context.Context, conversation, id string, t Text) error
	// EditTime is the time between two edits of an answer while the agent writes it, if Draft is nil
	// or refuses the text. 0: the channel edits only answers that are complete.
	EditTime time.Duration
	// Unbutton removes a text's buttons, if it has any. It returns errors as Send does.
	Unbutton func(ctx context.Context, conversation, id string) error
	// Fetch returns a file's text, at most MaxFile bytes. If a later call cannot succeed,
	// the error is a *SendError without Retry.
	Fetch func(ctx context.Context, file string) (text string, err error)
	// Draft shows a part of an answer until the next message. Calls with the same id replace it.
	// It returns errors as Send does. nil: the channel shows no drafts.
	Draft func(ctx context.Context, conversation string, id int64, text string) error
	// Typing shows that the agent works. The service shows it for TypingTime or a little longer.
	Typing     func(ctx context.Context, conversation string)
	TypingTime time.Duration
}

// Text is a text for a conversation.
type Text struct {
	Content  string
	Markdown bool     // an agent wrote it; otherwise no character is markup
	Buttons  []Button // the person may press one of them
	ReplyTo  string   // the original message's ID on the platform; empty: the text is no reply
}

// SendError is the error for a text that the platform did not send.
type SendError struct {
	Err   error
	Retry bool          // it may be sent later
	After time.Duration // the platform asked for this wait; 0: it did not
	Gone  bool          // the conversation does not accept texts
	NoID  bool          // the message to edit does not exist
}

func (e *SendError) Error() string { return e.Err.Error() }
func (e *SendError) Unwrap() error { return e.Err }

// Message is a person's message.
type Message struct {
	ID           string // the platform's, in the conversation
	Conversation string // the sender's identity; in a topic, a slash and its name follow
	Sender       string // the platform's ID
	Text         string // empty: the message has no text
	Button       string // the pressed [Button]'s Data, or empty
	Of           string // ID of the pressed button's message, or of the message that a reply answers
	Reply        string // set by accept: why the button has no effect, or empty
	Agent        string // empty: the default agent
	Group        *Group // nil: a private chat
	Attachment
	box.Received
}

// identity returns a conversation's sender.
func identity(conversation string) string {
	id, _, _ := strings.Cut(conversation, "/")
	return id
}

// Options are the options of [Run].
type Options struct {
	FS   vfs.FS
	Home string
	Log  *slog.Logger
	Now  func() time.Time
	// Session returns when a conversation with an agent begins a session.
	Session func(agent string, group bool) Boundary
	// Allowed returns the users: the channel ignores the messages of other senders. A change
	// takes effect with the next message.
	Allowed func() []string
	// Pair makes a stranger a user if a text contains the code of the open pairing.
	Pair func(sender, text string) bool
	// About describes an identity's permissions to the person.
	About func(identity string) string
	// Level returns the trust in an identity.
	Level func(identity string) trust.Level
	// Daemon returns a daemon caller for an identity, and a function that releases
	// it. The empty identity is the owner.
	Daemon func(identity string) (op.Caller, func())
}

// loop answers a platform's messages.
type loop struct {
	Options
	p      *Platform
	box    *box.Box
	runs   chan struct{} // has an item for each active run
	worked chan struct{} // has an item after an event of work

	ctx        context.Context // ends when the loop does
	background sync.WaitGroup  // workers

	mu      sync.Mutex
	workers map[string]*worker // by conversation
	begun   time.Time          // the first call of accept; zero: before it

	ignored, crowded counter              // strangers' messages; messages in groups that have too many
	earlier          map[string][]earlier // messages before the next one for the agent, by group; only accept uses them
}

// lockFile returns the file that the process of a channel locks.
func lockFile(home, dir string) string {
	return filepath.Join(home, "run", "channel-"+dir+".lock")
}

// Runs reports whether a process answers the messages of a home's channel.
func Runs(fsys vfs.FS, home, dir string) bool {
	if _, err := fsys.Lstat(lockFile(home, dir)); err != nil {
		return false
	}
	lock, err := vfs.Acquire(fsys, lockFile(home, dir), 0)
	if err == nil {
		_ = lock.Unlock() // the system unlocks it
	}
	return errors.Is(err, vfs.ErrLocked)
}

// Run answers messages until ctx ends, or the owner must act.
func Run(ctx context.Context, o Options, p *Platform) error {
	if err := vfs.MkdirAll(o.FS, filepath.Join(o.Home, "run"), 0o700); err != nil {
		return err
	}
	lock, err := vfs.Acquire(o.FS, lockFile(o.Home, p.Dir), 0)
	if err != nil {
		return err
	}
	defer lock.Unlock() //nolint:errcheck // the system unlocks it
	b, err := box.Open(box.Options{FS: o.FS, Home: o.Home, Dir: p.Dir, Keep: keep, Now: o.Now, PerConversation: maxWaiting})
	if err != nil {
		o.Log.Error("conversations that cannot be read stop", "error", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{Options: o, p: p, box: b, runs: make(chan struct{}, maxRuns), worked: make(chan struct{}, 1), ctx: ctx, workers: make(map[string]*worker), earlier: make(map[string][]earlier)}
	defer l.background.Wait()
	defer cancel()
	l.background.Go(l.followWork) // until ctx ends
	l.background.Go(l.askForWork) // until ctx ends
	for _, conversation := range b.Waiting() {
		l.wake(conversation, false)
	}
	l.background.Go(l.look) // until ctx ends
	return p.Receive(ctx, l.accept)
}

// accept stores messages. After an error the platform delivers them again.
func (l *loop) accept(list []Message) error {
	l.begin()
	if len(list) == 0 {
		return nil
	}
	allowed := l.Allowed()
	for i := range list {
		err := l.store(&list[i], &allowed)
		if errors.Is(err, box.ErrCorrupt) {
			l.Log.Error("a message is lost", "conversation", list[i].Conversation, "error", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// store stores a message for the agent, or ignores it.
func (l *loop) store(m *Message, allowed *[]string) error {
	if ok, err := l.admit(m, allowed); !ok || err != nil {
		return err
	}
	stored := box.Message{Agent: cmp.Or(m.Agent, config.Crab), Content: m.content(), Received: m.Received}
	if m.TextFile != "" && l.Level(identity(m.Conversation)) != trust.Untrusted && l.Level(l.p.Prefix+m.Sender) != trust.Untrusted {
		stored.File = m.TextFile
	}
	stored.Quote = l.quote(m.Conversation)
	if err := l.setAsk(m, &stored); err != nil || m.Reply != "" {
		return err
	}
	_, err := l.box.Add(owner(m.Conversation), m.Conversation, m.ID, stored)
	switch {
	case errors.Is(err, box.ErrReuse):
		l.Log.Warn("a message has the ID of another one: it is ignored", "conversation", m.Conversation)
	case m.Group != nil && (errors.Is(err, box.ErrBusy) || errors.Is(err, box.ErrFull)):
		l.count(&l.crowded, "ignored messages in groups in which too many wait", m)
	case errors.Is(err, box.ErrMany):
		l.Log.Warn("a message is not accepted: the channel has too many conversations", "conversation", m.Conversation)
		return nil
	case errors.Is(err, box.ErrBusy):
		l.Log.Warn("a message is not accepted: too many wait", "conversation", m.Conversation)
		if err := l.box.Update(m.Conversation, func(f *box.File) bool {
			l.notice(f, "", "Too many messages wait for an answer. This one was not accepted: send it again later.")
			return true
		}); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	delete(l.earlier, m.Conversation)
	l.wake(m.Conversation, stops(stored.Content))
	return nil
}

// notice adds a notice to the texts that the channel sends.
func (l *loop) notice(f *box.File, turn, text string) { l.add(f, turn, box.Notice, text) }

// add adds a text in parts that the platform accepts. If messages show an answer already, its parts
// edit these messages. The first part of an agent's text in a turn replies to the message that
// addressed the agent.
func (l *loop) add(f *box.File, turn string, kind box.Kind, text string) {
	to := ""
	if f.Turn != nil && f.Turn.IDs[0] == turn && kind != box.Notice {
		to = f.Turn.ReplyTo
	}
	parts, shown := Split(text, l.p.Limit), 0
	if kind == box.Reply {
		shown = l.endLive(f, turn, parts)
	}
	for i := shown; i < len(parts); i++ {
		p := box.Part{Turn: turn, Kind: kind, Number: i + 1, Of: len(parts), State: box.Pending}
		if i == 0 {
			p.ReplyTo = to
		}
		f.Answer(box.Answer{Content: parts[i], Part: p})
	}
}

// Pause waits, and returns false if ctx ended.
func Pause(ctx context.Context, d time.Duration) bool { return pause(ctx, d, nil) }

// pause is Pause, which a signal to c also ends.
func pause(ctx context.Context, d time.Duration, c <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// signal ends the active pause that c ends, or the next one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

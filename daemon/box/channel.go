package box

import (
	"slices"
	"time"
)

// Channel is what only channels use in a File.
type Channel struct {
	Turn    *Turn     `json:"turn,omitempty"`    // its messages wait; it has no answer yet
	Session string    `json:"session,omitempty"` // of the newest turn; empty: the latest one of agent and sender
	Agent   string    `json:"agent,omitempty"`   // of Session
	Fresh   bool      `json:"fresh,omitempty"`   // the next turn begins a session
	Active  time.Time `json:"active,omitzero"`   // the newest turn was stored
	Replies []string  `json:"replies,omitempty"` // digests of texts that Turn's run sent before its end
	Albums  []string  `json:"albums,omitempty"`  // of the newest messages that were answered, or are in Turn

	Questions []Question `json:"questions,omitempty"` // to the person, oldest first
}

// Received describes how a channel joins a message with others.
type Received struct {
	Sent   time.Time `json:"sent,omitzero"`     // by the platform's clock
	Album  string    `json:"album,omitempty"`   // the album's ID on the platform
	Full   bool      `json:"full,omitempty"`    // the text has the largest length: more may follow
	NoText bool      `json:"no_text,omitempty"` // the person wrote no text: it may follow
	File   string    `json:"file,omitempty"`    // a text file's ID on the platform, until the channel fetched it
	// FileText follows Content: File's text, between two lines of the channel.
	FileText string `json:"file_text,omitempty"`

	// In a group only.
	Sender  string `json:"sender,omitempty"` // the platform's ID
	Name    string `json:"name,omitempty"`
	Quote   string `json:"quote,omitempty"`    // messages that were not for the agent
	ReplyTo string `json:"reply_to,omitempty"` // the message's ID on the platform, if it addresses the agent
}

// Question is an agent's question to the person.
type Question struct {
	Seq    uint64        `json:"seq"`              // of its last part
	Turn   string        `json:"turn,omitempty"`   // the asking turn's first ID; empty: work asks
	Sum    string        `json:"sum"`              // of its text
	Labels []string      `json:"labels,omitempty"` // to choose from
	Remote string        `json:"remote,omitempty"` // the ID of the message with buttons, on the platform
	State  QuestionState `json:"state"`

	// Other is set if another conversation's session asks: only a button or a reply answers.
	Other bool `json:"other,omitempty"`

	// In a group, By and Name identify the person who may answer. Without By, an admin may answer.
	By   string `json:"by,omitempty"` // the platform's ID
	Name string `json:"name,omitempty"`

	// The daemon stores the question of work and, after its run, that of a session.
	Session string `json:"session,omitempty"` // ID
	Work    string `json:"work,omitempty"`    // ID of the work, as w7, or of the question, as q2; empty: a run asks
}

// QuestionState is a Question's state.
type QuestionState string

// The states. A closed question stays until its message has no buttons.
const (
	Asking    QuestionState = "asking"    // a part has no outcome
	Asked     QuestionState = "asked"     // the person may have it
	Answering QuestionState = "answering" // stored before each request with the answer
	Closed    QuestionState = "closed"
)

// Question returns the question with a number, or nil.
func (f *File) Question(seq uint64) *Question {
	i := slices.IndexFunc(f.Questions, func(q Question) bool { return q.Seq == seq })
	if i < 0 {
		return nil
	}
	return &f.Questions[i]
}

// Close closes a question. A text that answers it is a message from now on. Close removes
// a pressed button, and an answer whose delivery is not certain, and then returns true.
func (f *File) Close(q *Question) (removed bool) {
	uncertain := q.State == Answering
	q.State = Closed
	for i := 0; i < len(f.Waiting); i++ {
		m := &f.Waiting[i]
		if m.Ask != q.Seq {
			continue
		}
		if m.Ask = 0; m.Button || uncertain {
			f.EndOne(i)
			i--
			removed, uncertain = true, false
		}
	}
	return removed
}

// Turn is messages that an agent answers together. A channel stores it before its run, and it
// does not change after that: a run that a crash repeats is the same request.
type Turn struct {
	IDs     []string `json:"ids"` // of the oldest messages; the first is the ID of the request
	Agent   string   `json:"agent"`
	Content string   `json:"content"`
	Session string   `json:"session,omitempty"`  // empty: a new one, or the latest one of agent and sender
	New     bool     `json:"new,omitempty"`      // begin a session
	ReplyTo string   `json:"reply_to,omitempty"` // of the first message that has one
}

// Part describes what a channel sends: one part of a turn's answer.
type Part struct {
	Turn    string `json:"turn,omitempty"` // the first ID of the turn
	Kind    Kind   `json:"kind,omitempty"`
	Number  int    `json:"part,omitempty"` // from 1
	Of      int    `json:"of,omitempty"`
	State   State  `json:"state,omitempty"`
	Remote  string `json:"remote,omitempty"`   // the sent message's ID on the platform; with Pending, an edit of it follows
	Live    bool   `json:"live,omitempty"`     // the message shows an active run's text
	ReplyTo string `json:"reply_to,omitempty"` // the original message's ID on the platform: the part is a reply
}

// Kind is what a channel sends.
type Kind string

// The kinds.
const (
	Reply  Kind = "reply"  // of an agent
	Notice Kind = "notice" // of the channel
	Asks   Kind = "ask"    // a question of an agent
	Wake   Kind = "wake"   // of an agent without a message: results of its work arrived
	Cron   Kind = "cron"   // of a cron entry
	Send   Kind = "send"   // of an agent in another conversation
)

// State is a Part's delivery state.
type State string

// The states. Delivered texts are not kept.
const (
	Pending State = "pending" // no request for it was sent, or the platform refused it for now
	Sending State = "sending" // stored before each request
	Sent    State = "sent"
	Failed  State = "failed"  // the platform refused it
	Unknown State = "unknown" // it may have been sent: the channel never sends it again
)

// IsOpen reports whether the delivery has no outcome yet.
func (p *Part) IsOpen() bool { return p.State == Pending || p.State == Sending || p.Live }

// Live returns the indexes of answers that show an active turn's text.
func (f *File) Live(turn string) (list []int) {
	for i := range f.Answers {
		if f.Answers[i].Live && f.Answers[i].Turn == turn {
			list = append(list, i)
		}
	}
	return list
}

// Update calls change with a conversation's content, and stores the content if change
// returns true. A conversation without a file is not created.
func (b *Box) Update(conversation string, change func(*File) bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.locked(func() error {
		f, err := b.read(b.file(conversation))
		if err != nil || f.Conversation == "" || !change(&f) {
			return err
		}
		return b.write(&f)
	})
}

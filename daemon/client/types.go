package client

import (
	"time"

	"crabmem/daemon/op"
	"crabmem/sessionlog"
)

// Daemon describes a daemon.
type Daemon = op.DaemonInfo

// Message is a message to an agent.
//
// Its session is the loaded one with the number Session, else the one with the ID
// StoredID, else a new one if NewChat is set, else the latest of Agent and Sender.
type Message struct {
	Content  string
	Agent    string // empty: the session's, or crab
	Sender   string // empty: the session's creator
	Session  uint64
	StoredID string
	NewChat  bool
	Dir      string // absolute, for the agent's commands; empty: the session's
	Model    string // for this run only; empty: the agent's
	Tag      string // Event.Tag in the events of the run
	// Request identifies the message, of at most 255 bytes. A client that got no response
	// repeats the message with the ID, and the session contains it once: the daemon
	// returns the stored answer, or continues the turn.
	Request string
	// If After is not empty, the newest turn of the session must be that of the request
	// with this ID, and have an answer. Otherwise the error has the kind continued.
	After string
	// If Fresh is set, no earlier message had Request. The daemon then does not look for a
	// session that one created.
	Fresh bool
	// If Commands is set, the daemon refuses a content /NAME if no skill has this
	// name, and sends //NAME to the model as the text /NAME. Otherwise the model
	// receives both unchanged.
	Commands bool
}

// Response is the final message of a run.
type Response struct {
	Agent    string
	Content  string
	Session  uint64
	StoredID string
	Usage    Usage
	Repeated bool // an earlier run gave the response
}

// Usage counts tokens of one response of a model, or of a run.
type Usage struct {
	Prompt, Completion, Total uint64
	ContextLimit              uint64 // of the model; 0: unknown
	Estimated                 bool   // the provider did not report the numbers
}

// Event is an event of a session. Kind decides which other fields are set:
//
//	start            Model; the first event of a stream
//	user             Text, the user's message
//	appended         Line, Repeated; the user's message is durable
//	text_delta       Text
//	thinking_delta   Text
//	tool_start       Calls; in a stream also before the arguments and the ID are known
//	tool_result      CallID; in a stream also Text, Took and Failed
//	tools_complete   -
//	ask_user         Questions; answer them with Client.ReplyToAsk
//	usage            Usage, after each response of the model
//	compact          Summary, Archive
//	notice           Text
//	scope_violation  Text, Err
//	lag              Lost
//	done             Err, nil after a success
//
// Client.Stream yields no user, scope_violation, lag, or done, and Client.Events
// yields no start, appended, ask_user, or notice. A newer daemon may send other kinds.
type Event struct {
	Kind     string
	Agent    string
	Session  uint64 // the number in the daemon; 0: none
	StoredID string
	Time     string // RFC 3339; empty in a stream

	Model     string
	Text      string
	Line      int64 // of the user's message in the file; 0 without Message.Request
	Repeated  bool  // an earlier run answered Message.Request
	Calls     []sessionlog.ToolCall
	CallID    string
	Took      time.Duration
	Failed    bool
	Questions []Question
	Usage     *Usage
	Summary   string
	Archive   string // the entry that contains Summary; empty: none
	Err       *Error
	Lost      uint64 // events that this subscriber missed
	Tag       string // Message.Tag of the run
}

// EventFilter selects events. An empty field passes all.
type EventFilter struct{ StoredID, Agent string }

// Question is a question of an agent to the user.
type Question struct {
	Question    string
	Header      string
	Options     []Option
	MultiSelect bool
}

// Option is one answer to a [Question].
type Option struct{ Label, Description string }

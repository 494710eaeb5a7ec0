package agent

import (
	"context"

	"crabmem/daemon/tool"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events, and the fields of [Event] that each has. A daemon of a newer
// version may send others.
const (
	Start         Kind = "start"           // Model; the first event of a run's stream
	User          Kind = "user"            // Content is the user's message, which is durable; Line, Repeated
	Injected      Kind = "injected"        // Content is text from memory for this run only; before User
	TextDelta     Kind = "text_delta"      // Content
	ThinkingDelta Kind = "thinking_delta"  // Content
	ToolStart     Kind = "tool_start"      // Calls; in a stream first without arguments and IDs
	AskUser       Kind = "ask_user"        // Questions
	ToolResult    Kind = "tool_result"     // ID; in a stream also Result
	ToolsComplete Kind = "tools_complete"  // without data
	Usage         Kind = "usage"           // Usage, after each response of a model; Model is the one that responded
	Compacted     Kind = "compact"         // Summary, Archive
	Refused       Kind = "scope_violation" // Content, Error
	Notice        Kind = "notice"          // Note is something the user should know
	Progress      Kind = "progress"        // Note is what the run waits for
	Done          Kind = "done"            // Error; the last event. In a run, Content is the answer
	Lag           Kind = "lag"             // Lost
	Reply         Kind = "reply"           // Content is text to the user before the end of the run
	WorkStarted   Kind = "work_started"    // ID is that of the work, Content its task; Note
	WorkStatus    Kind = "work_status"     // ID; Content is what the work does; Note
	WorkWaiting   Kind = "work_waiting"    // ID; Content is the outcome; Note
	WorkEnded     Kind = "work_ended"      // ID; Content is the outcome; Note
	Delivered     Kind = "delivered"       // Content is the message with the outcomes, which is durable
	Wake          Kind = "wake"            // a run begins without a user
	Flushed       Kind = "flushed"         // Content is the names of the notes that were stored before a summary
)

// Kinds are the kinds of events.
var Kinds = []Kind{Start, User, Injected, TextDelta, ThinkingDelta, ToolStart, AskUser, ToolResult, ToolsComplete, Usage, Compacted, Refused, Notice, Progress, Done, Lag,
	Reply, WorkStarted, WorkStatus, WorkWaiting, WorkEnded, Delivered, Wake, Flushed}

// Event is something that happened in a run. Kind decides which fields are set. Only
// [Start] and the events for subscribers name the session.
//
// Clients receive an event as it is, with the JSON names of its fields.
type Event struct {
	Kind    Kind   `json:"kind,omitempty"`
	Session string `json:"session,omitempty" jsonschema:"ID of the session"`
	Number  uint64 `json:"-" cbor:"number,omitempty"` // of the session in the daemon
	Agent   string `json:"agent,omitempty"`
	Time    string `json:"time,omitempty" jsonschema:"RFC 3339"`
	Tag     string `json:"-" cbor:"tag,omitempty"` // of the request that started the run

	Model     string     `json:"model,omitempty"`
	Content   string     `json:"content,omitempty" jsonschema:"the text of the event"`
	Note      string     `json:"text,omitempty" jsonschema:"of notice, progress, and work"`
	Line      int64      `json:"line,omitempty" jsonschema:"of the user's message in the session; absent without an ID of the request"`
	Repeated  bool       `json:"repeated,omitempty" jsonschema:"an earlier run answered the request"`
	Calls     []Call     `json:"calls,omitempty" jsonschema:"of tool_start"`
	ID        string     `json:"id,omitempty" jsonschema:"of the call, of tool_result; of the work"`
	Questions []Question `json:"questions,omitempty"`
	*Result
	Usage   *TokenUsage `json:"usage,omitempty"`
	Summary string      `json:"summary,omitempty" jsonschema:"of compact"`
	Archive string      `json:"archive,omitempty" jsonschema:"of compact: the entry that contains the summary"`
	Error   *Failure    `json:"error,omitempty"`
	Lost    uint64      `json:"lost,omitempty" jsonschema:"events that this client did not receive"`

	// The rest does not leave the process.
	Tool    string          `json:"-"` // of ToolResult
	Early   bool            `json:"-"` // of ToolStart: only names are known
	Refused *tool.Violation `json:"-"`
	Stop    Stop            `json:"-"` // of Done: why the run ended
	Err     error           `json:"-"` // of Done
}

// Size returns about how many bytes the event has as a message.
func (e *Event) Size() int {
	n := 128 + len(e.Content) + len(e.Note) + len(e.Summary)
	for _, c := range e.Calls {
		n += len(c.ID) + len(c.Name) + len(c.Arguments)
	}
	for _, q := range e.Questions {
		n += len(q.Question) + len(q.Header)
		for _, o := range q.Options {
			n += len(o.Label) + len(o.Description)
		}
	}
	if e.Result != nil {
		n += len(e.Output)
	}
	if e.Error != nil {
		n += len(e.Error.Message)
	}
	return n
}

// Call is a call of a tool.
type Call struct {
	ID        string `json:"id" jsonschema:"empty while the arguments are not known"`
	Name      string `json:"name"`
	Arguments string `json:"arguments" jsonschema:"JSON"`
}

// Result is the result of a tool call.
type Result struct {
	Output string `json:"output"`
	Failed bool   `json:"failed,omitempty"`
	Millis int64  `json:"ms"`
}

// TokenUsage is how full the context is after a model's answer, in tokens.
type TokenUsage struct {
	Prompt     int  `json:"prompt"`
	Completion int  `json:"completion"`
	Limit      int  `json:"context_limit" jsonschema:"of the model; 0: unknown"`
	Estimated  bool `json:"estimated" jsonschema:"the provider did not report the numbers"` // bytes / 4
}

// Add adds the usage of another response of the run.
func (u *TokenUsage) Add(more *TokenUsage) {
	u.Prompt += more.Prompt
	u.Completion += more.Completion
	u.Limit = more.Limit
	u.Estimated = u.Estimated || more.Estimated
}

// Failure is an error in an event.
type Failure struct {
	Code    uint32 `json:"code"` // as of HTTP
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// RunCommand is the header of a question that asks whether a command may run. Only an option,
// y, or n answers it.
const RunCommand = "Run a command"

// Question is one question to the user.
type Question struct {
	Question    string   `json:"question" jsonschema:"what to ask"`
	Header      string   `json:"header" jsonschema:"a few words that name the question"`
	Options     []Option `json:"options" jsonschema:"answers to choose from"`
	MultiSelect bool     `json:"multi_select,omitempty" jsonschema:"more than one may be chosen"`
}

// Option is one answer to choose.
type Option struct {
	Label       string `json:"label" jsonschema:"the answer"`
	Description string `json:"description" jsonschema:"what choosing it means"`
}

// Stop is the reason why a run ended.
type Stop uint8

// Why a run ends. Every one but Answered comes with an error.
const (
	Answered  Stop = iota + 1 // the model gave an answer
	Exhausted                 // the model requested more steps than the limit
	Cancelled                 // the caller disconnected or cancelled
	Failed                    // the model, the log or a rule
)

type emitKey struct{}

// Emit sends an event of a running tool, or of a hook, to the run's caller.
func Emit(ctx context.Context, e Event) {
	if emit, ok := ctx.Value(emitKey{}).(func(Event)); ok {
		emit(e)
	}
}

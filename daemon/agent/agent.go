// Package agent runs agents: a model, tools, and a stored conversation.
//
// A [Runner] with models and tools runs an [Agent] in a [Session]; the run is
// an iterator of events. It does not need a daemon: a program adds its own code
// with [Hooks].
package agent

import (
	_ "embed"
	"os"
	"runtime"
	"strings"

	"crabmem/daemon/model"
	"crabmem/daemon/secret/scan"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Default values of an agent.
const (
	DefaultIterations = 16
	DefaultThreshold  = 100_000 // tokens
)

//go:embed prompts/memory.md
var memoryPrompt string

// DefaultCompactPrompt asks for a summary. An agent without a prompt uses it, unless
// [Hooks] have another.
//
//go:embed prompts/compact.md
var DefaultCompactPrompt string

// DefaultFlushPrompt is a text for Hooks.FlushPrompt.
//
//go:embed prompts/flush.md
var DefaultFlushPrompt string

// Agent is a prompt, a model, and a permission set.
type Agent struct {
	Name     string
	Prompt   string // the system prompt
	Model    string // "" is the active one
	Thinking bool
	// ToolChoice is that of [model.Request]. required and the name of a tool apply to
	// the first step of a turn.
	ToolChoice string

	// MaxIterations bounds the steps of a run, each an answer of the model and
	// the calls in it. 0 is DefaultIterations.
	MaxIterations int

	// Scope is the permission set. The zero value permits no tool.
	Scope tool.Scope
	// Offers are the tools of the agent's role, without a change of the scope. nil: the
	// agent has no role.
	Offers tool.Offers
	// Repeats limits equal calls.
	Repeats Repeats
	// Concludes is set if the last step of a run has no tools, so that it ends in text.
	Concludes bool
	// Memory adds the instructions for the memory tools to the prompt.
	Memory bool
	// Resources is the <resources> block of the prompt: skills and servers.
	Resources string

	// CompactThreshold is the limit of the context, in tokens, before a
	// compaction; 80 % of the model's window is another limit. 0 never
	// compacts.
	CompactThreshold int
	// CompactPrompt replaces the prompt of the hooks and the default one unless it is "".
	CompactPrompt string
	// CompactTokens is about how long a summary may be. 0 is up to the model.
	CompactTokens int
	// CompactModel is the model of summaries. "" is the agent's.
	CompactModel string
	// FlushPrompt replaces the one of the hooks unless it is "".
	FlushPrompt string

	system string
}

// System returns the system prompt: the agent's text, the environment, the
// memory instructions, the resources, and the scope. It never contains
// memories: agents use a tool to search them.
func (a *Agent) System() string { return a.system }

// systemFor returns the system prompt for a run with a scope. It omits the parts
// about memory and about skills and servers if the scope lacks their tools.
func (a *Agent) systemFor(s tool.Scope) string {
	memory := s.Tools.Allows(tool.Recall) || s.Tools.Allows(tool.Remember)
	resources := s.Tools.Allows(tool.Skill) || s.Tools.Allows(tool.MCP)
	if a.system == "" || (memory || !a.Memory) && (resources || a.Resources == "") {
		return a.system
	}
	b := *a
	b.Memory = b.Memory && memory
	if !resources {
		b.Resources, b.Scope = "", tool.Scope{}
	}
	return b.compose()
}

func (a *Agent) compose() string {
	parts := []string{strings.TrimSpace(a.Prompt), environment()}
	if a.Memory {
		parts = append(parts, strings.TrimSpace(memoryPrompt))
	}
	parts = append(parts, strings.TrimSpace(a.Resources), a.Scope.Prompt())
	var b strings.Builder
	for _, p := range parts {
		if p == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(p)
	}
	return b.String()
}

func environment() string {
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "/bin/sh"
	}
	return "<environment>\nos: " + runtime.GOOS + "\nshell: " + shell + "\nplatform: " + runtime.GOOS + "/" + runtime.GOARCH + "\n</environment>"
}

// Session is a conversation. One run at a time may use it.
type Session struct {
	ID        uint64 // 0 outside a daemon
	Log       *sessionlog.Log
	CreatedBy string
	Dir       string // working directory of tools; "" = none
	Workspace string // real path; "" = none
	Results   string // directory for long results of tools; "" = none

	// Scope bounds every run in the session, whichever agent's it is. The zero
	// value allows no tool; tool.Unbounded is for a session that is its user's own.
	Scope tool.Scope

	// Messages are the messages for the model, from the last summary on. Log,
	// if set, has all messages.
	Messages []sessionlog.Message
	// Streamed is the text of a failed or interrupted response after Messages.
	// Failed reports whether the log contains the failure of the newest turn.
	Streamed string
	Failed   bool
	// Stop is why the newest run ended; 0 before the first one.
	Stop Stop
	// Compactions counts the summaries so far.
	Compactions int
	// Unarchived are summaries that are in the log and not yet in the store.
	Unarchived []Summary
}

// Summary is a compaction: it replaces the messages before it.
type Summary struct {
	Number int // from 1
	Text   string
	Late   bool // another marker came first: it is in no marker
}

// Runner runs agents. Its fields are set before the first run and stay.
type Runner struct {
	Models *model.Registry
	Tools  *tool.Set
	Hooks  Hooks

	// Background makes the summaries of agents with a role, at these tiers. nil: they
	// compact as others do.
	Background *Background
	Tiers      Tiers

	// BeforeSummary is called before a summary is written to a session's log.
	// An error prevents the compaction. It may be nil.
	BeforeSummary func(s *Session) error
	// Archive stores a summary permanently and returns the name of the entry.
	// It may be nil. It must be idempotent: it may be called twice for one
	// summary.
	Archive func(a *Agent, s *Session, sum Summary) (name string, err error)
	// BeginFlush returns how many of the messages in the first size bytes of the log no flush
	// covers, without results of tools, and the number of the last line of these bytes.
	// EndFlush stores notes of the messages up to this line, within the scope of the session,
	// exactly once, and returns the names of the stored ones. Without them, no flush begins.
	BeginFlush func(s *Session, size int64) (messages int, upto int64, err error)
	EndFlush   func(s *Session, upto int64, notes []record.Note) (names []string, err error)
	// Record returns the text to keep for the result of a tool or a summary. It
	// may be nil.
	Record func(text string) string
	// KeepResult writes a tool's long result to a new file. It may be nil.
	KeepResult func(name, text string) error
	// Redact returns a redaction of the text of a response, which shows and keeps what
	// it returns. It may be nil, and so may its result.
	Redact func() *scan.Stream
}

// redaction returns a new redaction of a text.
func (r *Runner) redaction() *scan.Stream {
	if r.Redact == nil {
		return nil
	}
	return r.Redact()
}

// redact returns a complete text as the redaction returns it.
func (r *Runner) redact(text string) string {
	s := r.redaction()
	return s.Add(text) + s.End()
}

// record returns the text to keep for a text that a tool or a model wrote.
func (r *Runner) record(text string) string {
	if r.Record == nil {
		return text
	}
	return r.Record(text)
}

// NewRunner returns a runner with the tools that the hooks register.
func NewRunner(models *model.Registry, h Hooks) *Runner {
	r := &Runner{Models: models, Tools: &tool.Set{}, Hooks: h}
	if h.RegisterTools != nil {
		h.RegisterTools(r.Tools)
	}
	return r
}

// Build makes an agent ready to run: hooks change it, and its system prompt is
// composed.
func (r *Runner) Build(a Agent) *Agent {
	if a.MaxIterations <= 0 {
		a.MaxIterations = DefaultIterations
	}
	if r.Hooks.BuildAgent != nil {
		r.Hooks.BuildAgent(&a)
	}
	a.system = a.compose()
	return &a
}

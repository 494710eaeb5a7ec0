// Package agent runs agents: a model, tools, and a conversation that is kept.
//
// A [Runner] with the models and the tools runs an [Agent] in a [Session]; the
// run is an iterator of events. Nothing of the daemon is needed for it:
// [Hooks] are where a program adds its own.
package agent

import (
	_ "embed"
	"os"
	"runtime"
	"strings"

	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// The values of an agent whose configuration says nothing.
const (
	DefaultIterations = 16
	DefaultThreshold  = 100_000 // tokens
)

//go:embed prompts/memory.md
var memoryPrompt string

//go:embed prompts/compact.md
var compactPrompt string

// Agent is who answers: a prompt, a model, and what it may do.
type Agent struct {
	Name, Description string
	Prompt            string // the system prompt
	Model             string // "" is the active one
	Thinking          bool

	// MaxIterations bounds the steps of a run, each an answer of the model and
	// the calls in it. 0 is DefaultIterations.
	MaxIterations int

	// Scope is what it may do. The zero value allows no tool.
	Scope tool.Scope
	// Memory tells it how to use the memory tools.
	Memory bool
	// Resources is the <resources> block of the prompt: skills and servers.
	Resources string

	// CompactThreshold is how full the context may be, in tokens, before it is
	// compacted; so is 80 % of what the model takes. 0 never compacts.
	CompactThreshold int
	// CompactPrompt takes the place of the built-in one. "" does not.
	CompactPrompt string
	// CompactTokens is about how long a summary may be. 0 is up to the model.
	CompactTokens int

	system string
}

// System returns the system prompt: the agent's text, the environment, how to
// use the memory, the resources, the scope. It never contains memories: agents
// ask for them with a tool.
func (a *Agent) System() string { return a.system }

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
	Dir       string // working directory of tools; "" has none

	// Scope bounds every run in the session, whichever agent's it is. The zero
	// value allows no tool; tool.Unbounded is for a session that is its user's own.
	Scope tool.Scope

	// Messages are what the model is sent: from the last summary on. Log, when
	// there is one, has all.
	Messages []sessionlog.Message
	// Compactions counts the summaries so far.
	Compactions int
	// Unarchived are summaries that are in the log and not yet in the store.
	Unarchived []Summary
}

// Summary is a compaction: it replaces the messages before it.
type Summary struct {
	Number int // from 1
	Text   string
}

// Runner runs agents. Its fields are set before the first run and stay.
type Runner struct {
	Models *model.Registry
	Tools  *tool.Set
	Hooks  Hooks

	// BeforeSummary is called before a summary is put in a session's log. Its
	// error leaves the session as it is. nil does nothing.
	BeforeSummary func(s *Session) error
	// Archive keeps a summary for good and returns the name it has there. nil
	// keeps none. It must be safe to be called twice for one summary.
	Archive func(a *Agent, s *Session, sum Summary) (name string, err error)
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

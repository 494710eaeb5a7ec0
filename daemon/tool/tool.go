// Package tool defines the tools of agents, sets of them, and the scopes that
// restrict calls.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/model"

	"github.com/google/jsonschema-go/jsonschema"
)

// Tool is a tool that an agent may call: its schema for models and its
// function. An error of Run is returned to the model as text; it does not end
// the run.
type Tool struct {
	model.Tool
	Run func(ctx context.Context, c Call) (string, error)
	// Reads is true for a tool that changes nothing. Its calls in one response
	// may run concurrently; other calls run alone, in the order of the response.
	Reads bool
	// Role is true for a role's tool. An agent has it only if Call.Offers permits it,
	// whatever its scope is: the tool itself checks what it does.
	Role bool
}

// Reader returns t with Reads set.
func (t Tool) Reader() Tool {
	t.Reads = true
	return t
}

// Call is one call of a tool, by an agent.
type Call struct {
	ID, Name  string
	Arguments json.RawMessage // an object; empty is {}

	Agent     string
	Session   uint64 // 0 outside a daemon
	Requester string // creator of the session
	Dir       string // working directory; "" = none
	Workspace string // real path of the session's workspace; "" = none
	Results   string // directory of the session's long results; "" = none
	Scope     Scope  // permissions of the caller
	Depth     int    // number of delegations that led here
	// Offers reports whether the caller's role has a tool. It does not extend the scope.
	// nil: all tools without a role.
	Offers Offers

	// Narrow bounds every later call of the same run. nil outside a run.
	Narrow func(Scope)
}

// Offers reports whether a role has a tool, by its name.
type Offers func(name string) bool

// has reports whether the role has a tool.
func (o Offers) has(t *Tool) bool {
	if o == nil {
		return !t.Role
	}
	return o(t.Name)
}

// Result is the result of a call.
type Result struct {
	Output  string // valid UTF-8, at most MaxOutput bytes and a note
	Failed  bool   // Output is an error
	Took    time.Duration
	Refused *Violation // the call was outside the scope
}

// MaxOutput limits the result of a call, in bytes. A tool should truncate
// longer output at a suitable point itself.
const MaxOutput = 64 << 10

// maxArguments bounds the arguments of a call, in bytes.
const maxArguments = 1 << 20

// schemas contains each argument type's schema, a json.RawMessage, because its
// derivation takes most of the time that New takes.
var schemas sync.Map

// New returns a tool whose arguments are decoded into a T. The fields of T and
// their jsonschema tags define the schema for models.
func New[T any](name, description string, run func(ctx context.Context, c Call, args T) (string, error)) Tool {
	schema, known := schemas.Load(reflect.TypeFor[T]())
	if !known {
		s, err := jsonschema.For[T](nil)
		var text json.RawMessage
		if err == nil {
			text, err = json.Marshal(s)
		}
		if err != nil {
			panic(fmt.Sprintf("tool %s: %v", name, err)) // T is a literal of the program
		}
		schema, _ = schemas.LoadOrStore(reflect.TypeFor[T](), text)
	}
	return Tool{
		Tool: model.Tool{Name: name, Description: description, Parameters: schema.(json.RawMessage)},
		Run: func(ctx context.Context, c Call) (string, error) {
			var args T
			if err := c.Decode(&args); err != nil {
				return "", err
			}
			return run(ctx, c, args)
		},
	}
}

// Decode decodes the arguments into v. It accepts unknown fields and empty
// arguments, which models send at times. It returns an error for a text that v
// would not store exactly, as CheckArguments does.
func (c *Call) Decode(v any) error {
	if len(c.Arguments) > maxArguments {
		return fmt.Errorf("invalid arguments: %d bytes, at most %d", len(c.Arguments), maxArguments)
	}
	if len(strings.TrimSpace(string(c.Arguments))) == 0 {
		return nil
	}
	if err := CheckArguments(c.Arguments); err != nil {
		return fmt.Errorf("invalid arguments: %w", err)
	}
	if err := json.Unmarshal(c.Arguments, v); err != nil {
		return fmt.Errorf("invalid arguments: %w", err)
	}
	return nil
}

// Set is a set of tools with unique names. The zero value is empty. Reading is
// safe for concurrent use, but not during Add or Remove.
type Set struct {
	tools []Tool // by name

	// Remote returns the tools of MCP servers that a scope lists, by name. Ready waits
	// until it is complete, at most a few seconds. Both may be nil.
	Remote func(Scope) []Tool
	Ready  func(context.Context, Scope)
}

func (s *Set) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.tools, name, func(t Tool, name string) int { return strings.Compare(t.Name, name) })
}

// Add adds a tool, in place of one of the same name.
func (s *Set) Add(ts ...Tool) {
	for _, t := range ts {
		i, ok := s.find(t.Name)
		if ok {
			s.tools[i] = t
		} else {
			s.tools = slices.Insert(s.tools, i, t)
		}
	}
}

// Remove removes the tool of a name, if it exists.
func (s *Set) Remove(name string) {
	if i, ok := s.find(name); ok {
		s.tools = slices.Delete(s.tools, i, i+1)
	}
}

// Get returns the tool of a name.
func (s *Set) Get(name string) (Tool, bool) {
	i, ok := s.find(name)
	if !ok {
		return Tool{}, false
	}
	return s.tools[i], true
}

// Reads reports whether the tool of a name exists and changes nothing.
func (s *Set) Reads(name string) bool {
	t, _ := s.Get(name)
	return t.Reads
}

// Names returns the names of all tools without a role, in order.
func (s *Set) Names() (names []string) {
	for i := range s.tools {
		if !s.tools[i].Role {
			names = append(names, s.tools[i].Name)
		}
	}
	return names
}

// Schemas returns the schemas of the tools that a scope and a role allow, in order of
// their names, those of MCP servers last.
func (s *Set) Schemas(scope Scope, offers Offers) []model.Tool {
	var list []model.Tool
	for i := range s.tools {
		if t := &s.tools[i]; offers.has(t) && (t.Role || scope.Tools.Allows(t.Name)) {
			list = append(list, t.Tool)
		}
	}
	if s.Remote != nil {
		for _, t := range s.Remote(scope) {
			if offers.has(&t) {
				list = append(list, t.Tool)
			}
		}
	}
	return list
}

// remote returns the tool of an MCP server that a scope lists by a name.
func (s *Set) remote(scope Scope, name string) (Tool, bool) {
	if s.Remote == nil || !strings.Contains(name, "/") {
		return Tool{}, false
	}
	list := s.Remote(scope)
	i := slices.IndexFunc(list, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return list[i], true
}

// Call makes a call. It refuses a tool that the scope does not allow, and bounds
// the output. It is the first of six enforcement points (daemon/DESIGN.md,
// Scopes); the tools for skills, MCP, delegation, files, and memory are the others.
func (s *Set) Call(ctx context.Context, c Call) Result {
	began := time.Now()
	out, err := s.call(ctx, c)
	r := Result{Output: out, Took: time.Since(began)}
	if err != nil {
		r.Failed = true
		if r.Output = err.Error(); out != "" {
			r.Output = out + "\n" + r.Output
		}
		if v, ok := errors.AsType[*Violation](err); ok {
			v.Agent, v.Session = c.Agent, c.Session
			r.Refused = v
		}
	}
	r.Output = bounded(r.Output, MaxOutput)
	return r
}

func (s *Set) call(ctx context.Context, c Call) (out string, err error) {
	t, ok := s.remote(c.Scope, c.Name)
	if !ok {
		t, ok = s.Get(c.Name)
		if !t.Role {
			if err := c.Scope.Tool(c.Name); err != nil {
				return "", err
			}
		}
	}
	if !ok || !c.Offers.has(&t) {
		return "", fmt.Errorf("tool not available: %s", clipName(c.Name))
	}
	defer func() {
		// A tool of an embedding program must not crash the daemon.
		if p := recover(); p != nil {
			out, err = "", fmt.Errorf("tool %s failed: %v\n%s", c.Name, p, firstLines(debug.Stack(), 12))
		}
	}()
	return t.Run(ctx, c)
}

func firstLines(b []byte, n int) string {
	lines := strings.SplitAfterN(string(b), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "")
}

// clipName is a name that came from a model, as it goes into messages.
func clipName(name string) string { return bounded(name, 256) }

// bounded returns text as valid UTF-8, truncated to n bytes, with a note of the
// number of omitted bytes.
func bounded(text string, n int) string {
	if len(text) <= n {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	cut := clip.Bytes(text, n)
	return strings.ToValidUTF8(cut, "\uFFFD") + fmt.Sprintf("\n... [%d bytes left out]", len(text)-len(cut))
}

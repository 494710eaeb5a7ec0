// Package history contains the values of a store's history: who changed the
// store, what changed, and which changes a listing contains.
package history

import (
	"strconv"
	"time"
)

// Mode selects whether a store keeps its history.
type Mode uint8

const (
	On  Mode = iota // checkpoints move the log's operations to the history
	Off             // checkpoints discard them
)

// The clients of FORMAT.md, "Context".
const (
	CLI    = "cli"
	MCP    = "mcp"
	Wire   = "wire"
	HTTP   = "http"
	Load   = "load"
	Import = "import"
)

// Actor describes who made a change. Every field may be empty. A field has at most
// 1,024 bytes of UTF-8.
type Actor struct {
	Agent   string `json:"agent,omitempty"`   // name of the agent
	Session string `json:"session,omitempty"` // id of the session
	Call    string `json:"call,omitempty"`    // id of the tool call
	Client  string `json:"client,omitempty"`  // CLI, MCP, ...
	Origin  string `json:"origin,omitempty"`  // identity of the sender
	Op      string `json:"op,omitempty"`      // id that the client gave the operation
}

// MaxField is the largest length of a field of an [Actor] in bytes.
const MaxField = 1024

// Fields returns the fields in the order of their tags in FORMAT.md, "Context".
func (a *Actor) Fields() [6]*string {
	return [...]*string{&a.Agent, &a.Session, &a.Call, &a.Client, &a.Origin, &a.Op}
}

// Type is what a change did to an entry.
type Type string

// The types of changes.
const (
	Add    Type = "add"
	Update Type = "update" // of the content, and perhaps of other fields except the name
	Alias  Type = "alias"  // of the aliases only
	Rename Type = "rename" // of the name, and perhaps of other fields
	Remove Type = "remove"
)

// Point is a moment in the history of a store: after the operation Seq or, if Seq
// is 0, after the last operation that is not later than Time.
type Point struct {
	Seq  uint64
	Time time.Time
}

func (p Point) String() string {
	if p.Seq > 0 {
		return "change " + strconv.FormatUint(p.Seq, 10)
	}
	return p.Time.Format(time.RFC3339)
}

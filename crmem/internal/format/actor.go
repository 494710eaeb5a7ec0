package format

// Actor describes who made a change. Every field may be empty. A field has at most
// [MaxActorField] bytes of UTF-8.
type Actor struct {
	Agent   string `json:"agent,omitempty"`   // agent name
	Session string `json:"session,omitempty"` // session ID
	Call    string `json:"call,omitempty"`    // tool call ID
	Client  string `json:"client,omitempty"`  // cli, mcp, ...
	Origin  string `json:"origin,omitempty"`  // sender identity
	Op      string `json:"op,omitempty"`      // ID that the client gave the operation
}

// MaxActorField limits each [Actor] field, in bytes.
const MaxActorField = 1024

// Fields returns the fields in the order of their tags in FORMAT.md, "Context".
func (a *Actor) Fields() [6]*string {
	return [...]*string{&a.Agent, &a.Session, &a.Call, &a.Client, &a.Origin, &a.Op}
}

package format

// Actor describes who made a change. Every field may be empty. A field has at most
// [MaxActorField] bytes of UTF-8.
type Actor struct {
	Agent   string `json:"agent,omitempty"`   // name of the agent
	Session string `json:"session,omitempty"` // id of the session
	Call    string `json:"call,omitempty"`    // id of the tool call
	Client  string `json:"client,omitempty"`  // cli, mcp, ...
	Origin  string `json:"origin,omitempty"`  // identity of the sender
	Op      string `json:"op,omitempty"`      // id that the client gave the operation
}

// MaxActorField is the largest length of a field of an [Actor] in bytes.
const MaxActorField = 1024

// Fields returns the fields in the order of their tags in FORMAT.md, "Context".
func (a *Actor) Fields() [6]*string {
	return [...]*string{&a.Agent, &a.Session, &a.Call, &a.Client, &a.Origin, &a.Op}
}

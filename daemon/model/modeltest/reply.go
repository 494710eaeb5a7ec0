package modeltest

import (
	"slices"
	"time"
)

// Reply is a response as a list of steps. Each method returns a reply with one
// more step. The zero value responds with an empty text.
type Reply struct {
	steps []step
	by    func(Request) Reply
}

type step struct {
	op   string
	text string // or a tool's name
	args string // of a call
	n, m int
	wait time.Duration
}

func (r Reply) with(s ...step) Reply {
	return Reply{steps: append(slices.Clip(r.steps), s...)}
}

// Say returns a reply with a text in the given chunks.
func Say(chunks ...string) Reply { return Reply{}.Text(chunks...) }

// Call is a reply of one tool call.
func Call(name, arguments string) Reply { return Reply{}.Call(name, arguments) }

// Status is a reply of an HTTP status and an error's message.
func Status(code int, message string) Reply {
	return Reply{}.with(step{op: "status", n: code, text: message})
}

// Stall is a reply that does not come until the client goes or the server is
// released.
func Stall() Reply { return Reply{}.Stall(0) }

// Text sends chunks of the answer.
func (r Reply) Text(chunks ...string) Reply {
	steps := make([]step, len(chunks))
	for i, c := range chunks {
		steps[i] = step{op: "text", text: c}
	}
	return r.with(steps...)
}

// Think sends chunks of reasoning.
func (r Reply) Think(chunks ...string) Reply {
	for _, c := range chunks {
		r = r.with(step{op: "think", text: c})
	}
	return r
}

// Call sends a tool call, its arguments in three pieces.
func (r Reply) Call(name, arguments string) Reply {
	return r.with(step{op: "call", text: name, args: arguments})
}

// Usage sends token counts if the request asks for them.
func (r Reply) Usage(prompt, completion int) Reply {
	return r.with(step{op: "usage", n: prompt, m: completion})
}

// Finish sends a reason other than stop or tool_calls; an empty reason sends
// none.
func (r Reply) Finish(reason string) Reply { return r.with(step{op: "finish", text: reason}) }

// Header sets a header of the response, at any position in the reply.
func (r Reply) Header(name, value string) Reply {
	return r.with(step{op: "header", text: name, args: value})
}

// Stall sends no data for d; with 0 until the server is released.
func (r Reply) Stall(d time.Duration) Reply { return r.with(step{op: "stall", wait: d}) }

// Drip sends the rest one byte at a time, each after d.
func (r Reply) Drip(d time.Duration) Reply { return r.with(step{op: "drip", wait: d}) }

// Cut cuts the connection.
func (r Reply) Cut() Reply { return r.with(step{op: "cut"}) }

// Garbage sends an event that is no JSON.
func (r Reply) Garbage() Reply { return r.with(step{op: "raw", text: "data: {\"choices\":[{]\n\n"}) }

// Raw sends bytes unchanged. A response that begins with them has no other
// chunk and no end.
func (r Reply) Raw(bytes string) Reply { return r.with(step{op: "raw", text: bytes}) }

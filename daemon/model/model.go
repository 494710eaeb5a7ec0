// Package model calls language models by their names. A [Registry] knows which
// [Provider] has which model, retries what may succeed, and falls back to
// other models where the provider says so. Any other [Backend] can be added.
//
//	r, err := model.NewRegistry([]model.Provider{{Name: "openai", APIKey: key, Models: []string{"gpt-4o"}}}, "")
//	res, err := r.Send(ctx, model.Request{Messages: messages})
//	for chunk, err := range r.Stream(ctx, model.Request{Model: "gpt-4o", Messages: messages}) { … }
//
// Every provider is called through chat completions as OpenAI has them;
// Anthropic, Google, Bedrock, Azure, Ollama and llama.cpp offer them too.
// Nothing of a provider comes from the environment but the proxies of
// HTTP_PROXY, HTTPS_PROXY and NO_PROXY, as Go programs take them: never for
// addresses of this machine.
//
// # What is sent
//
// Messages marked as injected are sent as any other. The content of an
// assistant's message that is only calls is null; one that says nothing is left
// out. Arguments that are no JSON object are sent inside one, for endpoints
// refuse histories that have them; so they do names of tools with other
// characters than letters, digits, _ and -, which become _, and ids of calls
// that another endpoint gave, which OpenAI, Anthropic and Mistral each get as
// they take them.
// Reasoning is not sent back, but to DeepSeek and Moonshot with messages that
// have tool calls, which those two refuse without it. Gemini from 3 on signs
// its calls and refuses those that come back unsigned; sessions do not keep
// signatures, so the first call of a message says that it has none.
//
// # Bounds
//
// A stream has at most 64 MiB, an event of it 4 MiB, an answer that is not
// streamed 8 MiB, text with reasoning and arguments 8 MiB, one call's
// arguments 1 MiB, an answer 128 calls. Redirects are not followed.
package model

import (
	"context"
	"iter"

	"crabmem/daemon/model/chat"
)

type (
	// Request is what a model is asked.
	Request = chat.Request
	// Tool is a tool that the model may call.
	Tool = chat.Tool
	// Chunk is a piece of a streamed answer.
	Chunk = chat.Chunk
	// CallDelta is a piece of a tool call.
	CallDelta = chat.CallDelta
	// Usage is how many tokens an answer took.
	Usage = chat.Usage
	// Response is a whole answer.
	Response = chat.Response
	// Error is a call that failed.
	Error = chat.Error
)

// ErrOverflow is returned when the request does not fit the context window of
// the model. Ask with errors.Is.
var ErrOverflow = chat.ErrOverflow

// Backend answers requests. Its errors are those of the context when that
// ended. A stream ends with the answer, or yields one error and ends; breaking
// off ends the call. Several goroutines may use it.
type Backend interface {
	Send(context.Context, Request) (*Response, error)
	Stream(context.Context, Request) iter.Seq2[Chunk, error]
}

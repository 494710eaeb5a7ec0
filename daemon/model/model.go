// Package model calls language models by name. A [Registry] maps models to
// [Provider]s, retries transient errors, and falls back to other models if the
// provider lists them. Any other [Backend] can be added.
//
//	r, err := model.NewRegistry(model.Network{}, []model.Provider{{Name: "openai", APIKey: key, Models: []string{"gpt-4o"}}}, "")
//	res, err := r.Send(ctx, model.Request{Messages: messages})
//	for chunk, err := range r.Stream(ctx, model.Request{Model: "gpt-4o", Messages: messages}) { … }
//
// All providers are called through the chat completions API of OpenAI;
// Anthropic, Google, Bedrock, Azure, Ollama, and llama.cpp offer it too. The
// only variables that affect a provider are the proxies of HTTP_PROXY,
// HTTPS_PROXY, and NO_PROXY, as in other Go programs, and never for addresses
// of this machine.
//
// # What is sent
//
// For the kinds openai-compatible, ollama, and llama.cpp, successive messages of the
// user, or of the assistant, are joined: chat templates of some models refuse them.
// Injected messages, failed runs, and summaries cause such messages. A request
// without tools contains calls and results as text, because Anthropic refuses any
// other form. If a request exceeds the context of an Ollama model, the call fails
// with ErrOverflow, because the server would cut the request without an error.
//
// The content of an assistant message that has only calls is null. An empty
// message is omitted. Arguments that are not a JSON object are sent inside one,
// because endpoints refuse histories with such arguments. In names of tools,
// characters other than letters, digits, _ and - become _; the tool SERVER/TOOL of an
// MCP server becomes SERVER__TOOL, and calls of it are converted back. IDs of calls from
// another endpoint are changed to a form that OpenAI, Anthropic, or Mistral accepts.
//
// Reasoning is sent only to DeepSeek and Moonshot, with messages that have tool
// calls: these two refuse such messages without it. Gemini from 3 on signs
// calls and refuses unsigned ones. Sessions do not store signatures, so the
// first call of a message states that it has no signature.
//
// # Bounds
//
// A stream has at most 64 MiB, an event 4 MiB, an unstreamed response 8 MiB,
// text with reasoning and arguments 8 MiB, the arguments of a call 1 MiB, and a
// response 128 calls. Redirects are not followed.
package model

import (
	"cmp"
	"context"
	"iter"
	"strings"

	"crabmem/daemon/model/chat"
)

type (
	// Request is a request to a model.
	Request = chat.Request
	// Tool is a tool that the model may call.
	Tool = chat.Tool
	// Chunk is a piece of a streamed answer.
	Chunk = chat.Chunk
	// CallDelta is a piece of a tool call.
	CallDelta = chat.CallDelta
	// Usage is the token count of a response.
	Usage = chat.Usage
	// Response is a complete response.
	Response = chat.Response
	// Error is a call that failed.
	Error = chat.Error
	// End is how a model ended a response.
	End = chat.End
)

// The ends of an incomplete response.
const (
	EndLength   = chat.EndLength
	EndFiltered = chat.EndFiltered
	EndFailed   = chat.EndFailed
)

// EndOf returns the meaning of a finish reason.
func EndOf(reason string) End { return chat.EndOf(reason) }

// Causes of an [Error]; test for them with errors.Is. Package chat defines further
// causes.
var (
	// ErrOverflow is returned if the request exceeds the context window of the
	// model.
	ErrOverflow = chat.ErrOverflow
	// ErrKey is returned if a provider responds but refuses the key.
	ErrKey       = chat.ErrKey
	ErrRateLimit = chat.ErrRateLimit
	ErrServer    = chat.ErrServer
	ErrQuota     = chat.ErrQuota
)

// Backend answers requests. If the context ended, its errors are those of the
// context. A stream ends after the response or after one error; stopping the
// iteration cancels the call. It is safe for concurrent use.
type Backend interface {
	Send(context.Context, Request) (*Response, error)
	Stream(context.Context, Request) iter.Seq2[Chunk, error]
}

// limits are the context windows by how names begin; the first that fits
// counts.
var limits = []struct {
	prefix string
	tokens int
}{
	{"claude-", 200_000},
	{"gpt-4o", 128_000},
	{"gpt-4-turbo", 128_000},
	{"gpt-4.1", 1_000_000},
	{"gpt-4", 8_192},
	{"gpt-3.5", 16_385},
	{"gpt-5", 272_000},
	{"o1", 200_000},
	{"o3", 200_000},
	{"o4", 200_000},
	{"gemini-", 1_000_000},
	{"deepseek-", 128_000},
	{"grok-", 131_072},
	{"qwen-", 32_768},
	{"qwq-", 32_768},
	{"kimi-", 128_000},
	{"moonshot-", 128_000},
}

// defaultLimit is the limit of an unknown model.
const defaultLimit = 32_768

// contextLimit is a guess by a model's name.
func contextLimit(model string) int { return cmp.Or(familyLimit(model), defaultLimit) }

// familyLimit returns the context window of a known family of models, or 0. Of names
// like "vendor/model" and "region.vendor.model" each end counts.
func familyLimit(model string) int {
	for name := model; ; {
		for _, l := range limits {
			if strings.HasPrefix(name, l.prefix) {
				return l.tokens
			}
		}
		i := strings.IndexAny(name, "/.")
		if i < 0 {
			return 0
		}
		name = name[i+1:]
	}
}

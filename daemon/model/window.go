package model

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync/atomic"

	"crabmem/daemon/model/chat"
)

// windowFits is the size of a request that fits the context of every model, in tokens.
const windowFits = 4096

// learning is a model whose provider may report its context. It requests the list of
// models once, before the first request of more than windowFits tokens. If neither the
// list nor the name gives the context, the request has a notice.
type learning struct {
	Backend
	provider  string
	model     string
	list      string // address of the list of models
	lists     bool   // the provider has this list
	header    http.Header
	transport http.RoundTripper

	asked  atomic.Bool
	tokens atomic.Int64 // context, as reported; 0: unknown
}

func newLearning(model string, b Backend, e chat.Endpoint, lists bool) *learning {
	return &learning{Backend: b, provider: e.Provider, model: model, list: e.URL + "models", lists: lists, header: e.Header, transport: e.Transport}
}

func (l *learning) Send(ctx context.Context, r Request) (*Response, error) {
	l.learn(ctx, &r)
	return l.Backend.Send(ctx, r)
}

func (l *learning) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		l.learn(ctx, &r)
		l.Backend.Stream(ctx, r)(yield)
	}
}

func (l *learning) learn(ctx context.Context, r *Request) {
	if requestSize(r)/bytesPerToken <= windowFits || l.asked.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	if l.lists {
		if status, body, err := get(ctx, l.transport, l.list, l.header); err == nil && status == http.StatusOK {
			l.tokens.Store(int64(reportedContext(body, l.model)))
		}
	}
	if l.tokens.Load() == 0 && familyLimit(l.model) == 0 {
		r.Notice(fmt.Sprintf("the context of model '%s' is unknown: %d tokens are assumed; set context_limits of provider '%s' in config.toml", l.model, defaultLimit, l.provider))
	}
}

// reportedContext returns the context of a model in a provider's list, in tokens, or 0.
func reportedContext(list []byte, model string) int {
	type entry struct {
		ID            string
		Loaded        float64 `json:"loaded_context_length"` // LM Studio
		ContextLength float64 `json:"context_length"`        // OpenRouter, Together, Moonshot
		MaxModelLen   float64 `json:"max_model_len"`         // vLLM, SGLang
		ContextWindow float64 `json:"context_window"`        // Groq
		MaxContext    float64 `json:"max_context_length"`
		MaxInput      float64 `json:"max_input_tokens"` // Anthropic
		Meta          struct {
			Context float64 `json:"n_ctx"` // llama.cpp
		}
	}
	var l struct{ Data []json.RawMessage }
	if json.Unmarshal(list, &l) != nil {
		return 0
	}
	for _, raw := range l.Data {
		var e entry
		if json.Unmarshal(raw, &e) != nil || e.ID != model {
			continue
		}
		n := cmp.Or(e.Loaded, e.ContextLength, e.MaxModelLen, e.ContextWindow, e.MaxContext, e.MaxInput, e.Meta.Context)
		if n >= 1024 && n <= 1<<30 {
			return int(n)
		}
	}
	return 0
}

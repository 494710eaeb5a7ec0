package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"crabmem/daemon/model/chat"
)

const (
	// ollamaContext is the default of Ollama with little video memory, in tokens.
	ollamaContext = 4096
	// ollamaFits is the size of a request that fits every context of Ollama, in
	// tokens.
	ollamaFits = 1024
	// listWait limits a request for a list of models.
	listWait = 2 * time.Second
	// bytesPerToken estimates the tokens of a request.
	bytesPerToken = 4
)

// ollama is a model of an Ollama server. The server cuts a request that exceeds the
// model's context, without an error, and its OpenAI-compatible API has no parameter
// for the context. So ollama asks the server for the context before each request of
// more than ollamaFits tokens, and refuses a request that exceeds it.
type ollama struct {
	Backend
	provider   string
	model      string
	root       string // ends in /
	header     http.Header
	transport  http.RoundTripper
	load       time.Duration // limit for loading the model
	configured int           // context, in tokens; 0: not configured

	learned atomic.Int64 // context of the loaded model; 0: unknown
	remote  atomic.Bool  // the server does not load the model: it is in Ollama's cloud
}

// newOllama returns a model of a checked provider of kind ollama.
func newOllama(p *Provider, name string, b Backend, transport http.RoundTripper) *ollama {
	e := p.endpoint(name, transport)
	return &ollama{
		Backend: b, provider: p.Name, model: name, root: strings.TrimSuffix(e.URL, "v1/"), header: e.Header, transport: transport,
		load: e.Timeout, configured: p.ContextLimits[name],
	}
}

// context returns the context of the model in tokens: the smaller of the learned
// and the configured one, or a default if both are unknown.
func (o *ollama) context() int {
	learned := int(o.learned.Load())
	switch {
	case o.remote.Load():
		return cmp.Or(o.configured, contextLimit(o.model))
	case learned == 0:
		return cmp.Or(o.configured, ollamaContext)
	case o.configured == 0:
		return learned
	}
	return min(learned, o.configured)
}

func (o *ollama) Send(ctx context.Context, r Request) (*Response, error) {
	if err := o.check(ctx, &r); err != nil {
		return nil, err
	}
	return o.Backend.Send(ctx, r)
}

func (o *ollama) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := o.check(ctx, &r); err != nil {
			yield(Chunk{}, err)
			return
		}
		o.Backend.Stream(ctx, r)(yield)
	}
}

// check returns ErrOverflow if the server would cut the request. If the model is not
// loaded, check loads it. check returns nil if the context is unknown.
func (o *ollama) check(ctx context.Context, r *Request) error {
	tokens := requestSize(r) / bytesPerToken
	if tokens <= ollamaFits || o.remote.Load() {
		return nil
	}
	limit, loaded := o.ask(ctx)
	if !loaded && o.loadModel(ctx, max(o.load, r.Timeout)) {
		limit, loaded = o.ask(ctx)
		o.remote.Store(!loaded)
	}
	if limit == 0 {
		return nil
	}
	o.learned.Store(int64(limit))
	if tokens <= limit {
		return nil
	}
	return chat.NewOverflow(o.provider, o.model, fmt.Errorf("about %d tokens, but the context has %d, and Ollama would cut the request: "+
		"set OLLAMA_CONTEXT_LENGTH of the Ollama server, or num_ctx of the model", tokens, limit))
}

// ask returns the context of the model if the server has loaded it; 0 is unknown.
// loaded is also true if the server does not answer the request.
func (o *ollama) ask(ctx context.Context) (limit int, loaded bool) {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	status, body, err := get(ctx, o.transport, o.root+"api/ps", o.header)
	var list struct {
		Models []struct {
			Name    string
			Context int `json:"context_length"`
		}
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &list) != nil || list.Models == nil {
		return 0, true
	}
	for _, m := range list.Models {
		if m.Name == o.model || m.Name == o.model+":latest" {
			return max(m.Context, 0), true
		}
	}
	return 0, false
}

// loadModel makes the server load the model, as a chat request would. It reports
// whether the server loaded it within wait.
func (o *ollama) loadModel(ctx context.Context, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": o.model, "stream": false})
	if err != nil {
		return false
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, o.root+"api/generate", bytes.NewReader(body))
	if err != nil {
		return false
	}
	q.Header = o.header.Clone()
	q.Header.Set("Content-Type", "application/json")
	status, _, err := fetch(o.transport, q)
	return err == nil && status == http.StatusOK
}

// requestSize returns the number of bytes of text and schemas in a request.
func requestSize(r *Request) int {
	n := 0
	for i := range r.Messages {
		m := &r.Messages[i]
		n += len(m.Content)
		for _, c := range m.ToolCalls {
			n += len(c.Function.Name) + len(c.Function.Arguments)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return n
}

package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"sort"
	"sync"
	"time"

	"crabmem/daemon/model/chat"
)

// ErrUnknownModel is returned for a name that the registry has no model of.
var ErrUnknownModel = errors.New("not found in registry")

// unknown is the reference's text.
type unknown string

func (u unknown) Error() string        { return fmt.Sprintf("model '%s' %v", string(u), ErrUnknownModel) }
func (u unknown) Is(target error) bool { return target == ErrUnknownModel }

// Registry maps names to models. One model is active: it answers requests
// without a model name. A Registry is safe for concurrent use. It holds no lock
// during calls, and removing a model does not end active calls.
type Registry struct {
	// Spent is called after each call of a model, also a failed or canceled one, with its
	// tokens, which are estimated if the model does not report them. It may be nil.
	Spent func(ctx context.Context, model string, prompt, completion int)
	// Cooldown is how long a model is tried after its fallbacks once it reached a rate
	// limit, unless the provider requests another time. With 0 there is no cooldown.
	Cooldown time.Duration

	network Network
	cooling *cooling

	mu     sync.RWMutex
	models map[string]*entry
	active string
}

type entry struct {
	Backend
	provider, kind string
	limit          int
	fallback       []string
}

// window returns the context window in tokens.
func (e *entry) window() int {
	switch b := e.Backend.(type) {
	case *ollama:
		return b.context()
	case *learning:
		return cmp.Or(int(b.tokens.Load()), e.limit)
	}
	return e.limit
}

// Renew returns a registry in the place of r, as NewRegistry does. Both have the
// same connections, and the same models cool.
func (r *Registry) Renew(providers []Provider, active string) (*Registry, error) {
	return newRegistry(r.network, r.cooling, providers, active)
}

// NewRegistry returns a registry of the providers' models, which are called over n. The
// active model is the named one, or the first if active is empty. All problems are
// reported.
func NewRegistry(n Network, providers []Provider, active string) (*Registry, error) {
	return newRegistry(n, &cooling{until: make(map[string]time.Time)}, providers, active)
}

func newRegistry(n Network, c *cooling, providers []Provider, active string) (*Registry, error) {
	r := &Registry{network: n.orDefault(), cooling: c, models: make(map[string]*entry)}
	var problems []error
	for _, p := range providers {
		problems = append(problems, r.Add(p))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if active != "" {
		problems = append(problems, r.Switch(active))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return r, nil
}

// newTransport has a connection for each call under way and keeps few idle.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// Close closes idle connections. It does not end active calls.
func (r *Registry) Close() {
	if t, ok := r.network.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Add adds all models of a provider, or none on an error. The first model of
// all becomes active. Fallbacks that the registry does not contain are not tried.
func (r *Registry) Add(p Provider) error {
	if err := p.Check(); err != nil {
		return err
	}
	k, _ := p.kind()
	retries := DefaultMaxRetries
	if p.MaxRetries != nil {
		retries = *p.MaxRetries
	}
	entries := make([]*entry, len(p.Models))
	for i, name := range p.Models {
		b := &retrying{client: chat.NewClient(p.endpoint(name, r.network.Transport)), network: &r.network, retries: retries}
		entries[i] = &entry{
			Backend: b, provider: p.Name, kind: k.name, limit: cmp.Or(p.ContextLimits[name], contextLimit(name)), fallback: p.fallbacks(name),
		}
		switch {
		case p.Broken != nil:
			entries[i].Backend = broken{p.Broken}
		case k.name == "ollama":
			entries[i].Backend = newOllama(&p, name, b, r.network.Transport)
		case p.ContextLimits[name] == 0:
			e := p.endpoint(name, r.network.Transport)
			e.Header = p.listHeader(e.Header)
			entries[i].Backend = newLearning(name, b, e, k.name != "azure" && k.name != "bedrock")
		}
	}
	return r.put(p.Models, entries)
}

// broken is a model that cannot be used.
type broken struct{ err error }

func (b broken) Send(context.Context, Request) (*Response, error) { return nil, b.err }
func (b broken) Stream(context.Context, Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) { yield(Chunk{}, b.err) }
}

// AddBackend puts in a model that is no provider's.
func (r *Registry) AddBackend(name string, contextLimit int, b Backend) error {
	if name == "" {
		return errors.New("a model has no name")
	}
	return r.put([]string{name}, []*entry{{Backend: b, limit: cmp.Or(contextLimit, defaultLimit)}})
}

func (r *Registry) put(names []string, entries []*entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var problems []error
	for _, name := range names {
		if r.models[name] != nil {
			problems = append(problems, fmt.Errorf("duplicate model name '%s' across providers", name))
		}
	}
	if problems != nil {
		return errors.Join(problems...)
	}
	for i, name := range names {
		r.models[name] = entries[i]
	}
	if r.active == "" {
		r.active = names[0]
	}
	return nil
}

// Remove removes a model. It refuses to remove the active one.
func (r *Registry) Remove(model string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.models[model] == nil:
		return unknown(model)
	case r.active == model:
		return fmt.Errorf("cannot remove the active model '%s': switch to another first", model)
	}
	delete(r.models, model)
	return nil
}

// Switch makes a model the active one.
func (r *Registry) Switch(model string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.models[model] == nil {
		return unknown(model)
	}
	r.active = model
	return nil
}

// Active returns the name of the active model, or "" without models.
func (r *Registry) Active() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.active
}

// Info describes a model.
type Info struct {
	Name, Provider, Kind string // the last two are empty for a Backend that was added
	ContextLimit         int    // tokens
	Active               bool
	Fallback             []string // models to try in this order if it fails, at most 3
}

// Models returns all models by their names.
func (r *Registry) Models() []Info {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Info, 0, len(r.models))
	for name, e := range r.models {
		list = append(list, Info{name, e.provider, e.kind, e.window(), name == r.active, e.fallback})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// ContextLimit returns the context window of a model in tokens. For a model
// that is missing it is estimated by name. "" is the active model.
func (r *Registry) ContextLimit(model string) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if model == "" {
		model = r.active
	}
	if e := r.models[model]; e != nil {
		return e.window()
	}
	return contextLimit(model)
}

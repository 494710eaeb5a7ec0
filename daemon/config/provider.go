package config

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/model"
)

// kinds maps names of kinds of providers, including those of the reference and
// of other programs, to kinds of package model. openai with a base_url becomes
// openai-compatible.
var kinds = map[string]string{
	"openai": "openai", "openai_compat": "openai", "openai-compatible": "openai",
	"anthropic": "anthropic", "google": "google", "azure": "azure", "bedrock": "bedrock", "ollama": "ollama",
	"llama_cpp": "llama.cpp", "llama.cpp": "llama.cpp",
}

var kindNames = []string{"openai", "openai-compatible", "openai_compat", "anthropic", "google", "azure", "bedrock", "ollama", "llama.cpp", "llama_cpp"}

// maxTimeout bounds every time-out.
const maxTimeout = 24 * time.Hour

const maxTokens = 1 << 30

// fallback is a model that a provider lists as a fallback, and where.
type fallback struct {
	model string
	place
}

// providers reads [provider.*] and returns where each model is defined.
func (l *loader) providers(c *Config, top *section) map[string]place {
	models := make(map[string]place)
	var fallbacks []fallback
	top.tables("provider", func(name string, s *section) {
		before := len(*s.f.found)
		p := Provider{Name: name, Kind: "openai", Weight: 1, MaxRetries: model.DefaultMaxRetries, Timeout: 30 * time.Second, IdleTimeout: time.Minute}
		l.endpoint(s, &p)
		l.access(s, &p)
		readModels(s, &p, models)
		readContextLimits(s.table("context_limits"), &p)
		s.each("fallback", func(model string, line int) {
			p.Fallback = append(p.Fallback, model)
			fallbacks = append(fallbacks, fallback{model, place{s.f, line}})
		})
		requires(s, &p)
		if len(*s.f.found) == before {
			s.refused(p.Model().Check())
		}
		c.Providers = append(c.Providers, p)
	})
	names := modelNames(c)
	for _, f := range fallbacks {
		if f.model != Offline && models[f.model].f == nil {
			f.unknown(f.model, names, "fallback: no provider has the model '%s'", short(f.model))
		}
	}
	return models
}

// endpoint reads the kind and the address of a provider.
func (l *loader) endpoint(s *section, p *Provider) {
	key := "kind"
	if s.has("standard") {
		if s.has("kind") {
			s.at("standard").add("provider '%s' has both kind and standard, the old name of kind: remove standard", p.Name)
		} else {
			key = "standard"
		}
	}
	s.asked["kind"], s.asked["standard"] = true, true
	s.enum(key, &p.Kind, kindNames...)
	p.Kind = kinds[p.Kind]
	l.expanded(s, "base_url", &p.BaseURL)
	if p.Kind == "openai" && p.BaseURL != "" {
		p.Kind = "openai-compatible"
		if strings.Contains(strings.ToLower(p.BaseURL), "anthropic") {
			p.Kind = "anthropic"
		}
	}
}

// access reads the keys and limits of a provider's requests.
func (l *loader) access(s *section, p *Provider) {
	p.KeySource = keySource(s)
	l.secret(s, "api_key", &p.APIKey)
	if s.has("api_key") && s.has("api_key_file") {
		s.at("api_key_file").add("provider '%s' has both api_key and api_key_file: remove one", p.Name)
	}
	l.secretFile(s, "api_key_file", &p.APIKey)
	s.integer("weight", &p.Weight, 0, 1<<31-1)
	s.integer("max_retries", &p.MaxRetries, 0, 100)
	s.duration("timeout", &p.Timeout, time.Millisecond, maxTimeout)
	s.duration("idle_timeout", &p.IdleTimeout, time.Millisecond, maxTimeout)
	s.str("api_version", &p.APIVersion)
	l.expanded(s, "region", &p.Region)
	l.secret(s, "access_key", &p.AccessKey)
	l.secret(s, "secret_key", &p.SecretKey)
	for _, key := range []string{"model_path", "n_gpu_layers", "n_ctx", "n_threads"} {
		s.get(key) // accepted for the reference's built-in llama.cpp, and ignored
	}
}

// keySource returns the origin of a provider's API key, for messages: the variable
// in its value, the name of the key in config.toml, or "" if there is no API key.
func keySource(s *section) string {
	for _, key := range []string{"api_key", "access_key"} {
		if !s.has(key) {
			continue
		}
		text, _ := s.t.keys[key].v.(string)
		return cmp.Or(firstReference(text), key)
	}
	if s.has("api_key_file") {
		return "api_key_file"
	}
	return ""
}

// readModels reads the models of a provider and adds them to models, which
// contains those of the previous providers.
func readModels(s *section, p *Provider, models map[string]place) {
	s.each("models", func(model string, line int) {
		switch why, at := badName(model), (place{s.f, line}); {
		case why != "":
			at.add("provider '%s': the name of a model %s", p.Name, why)
		case model == Offline:
			at.add("model name '%s' is reserved: it is the built-in model without a provider", model)
		case slices.Contains(p.Models, model):
			at.add("provider '%s' names the model '%s' twice", p.Name, model)
		case models[model].f != nil:
			at.add("duplicate model name '%s' across providers", model)
		default:
			models[model] = at
		}
		p.Models = append(p.Models, model)
	})
	if len(p.Models) == 0 {
		s.at("models").add("provider '%s' has no models", p.Name)
	}
}

// readContextLimits reads the context limits of a provider's models.
func readContextLimits(limits *section, p *Provider) {
	for _, model := range limits.t.names() {
		n := 0
		limits.integer(model, &n, 1, maxTokens)
		if !slices.Contains(p.Models, model) {
			limits.at(model).unknown(model, p.Models, "%s: provider '%s' has no model '%s'", limits.name, p.Name, short(model))
		}
		if p.ContextLimits == nil {
			p.ContextLimits = make(map[string]int)
		}
		p.ContextLimits[model] = n
	}
}

// Model returns the provider as package model calls it.
func (p *Provider) Model() model.Provider {
	retries := p.MaxRetries
	return model.Provider{
		Name: p.Name, Kind: p.Kind, BaseURL: p.BaseURL, APIKey: string(p.APIKey), APIVersion: p.APIVersion, Region: p.Region,
		AccessKey: string(p.AccessKey), SecretKey: string(p.SecretKey), KeySource: p.KeySource, Models: p.Models, MaxRetries: &retries,
		Timeout: p.Timeout, IdleTimeout: p.IdleTimeout, ContextLimits: p.ContextLimits, Fallback: p.Fallback,
	}
}

// Models returns the providers in the types of package model.
func (c *Config) Models() []model.Provider {
	list := make([]model.Provider, len(c.Providers))
	for i := range c.Providers {
		list[i] = c.Providers[i].Model()
	}
	return list
}

// refused adds the problems of [model.Provider.Check], each at its key.
func (s *section) refused(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			s.refused(e)
		}
		return
	}
	if err == nil {
		return
	}
	key := ""
	if e, ok := errors.AsType[*model.KeyError](err); ok {
		key = e.Key
	}
	if key == "api_key" && !s.has(key) {
		key = "api_key_file"
	}
	s.at(key).add("%v", err)
}

// requires checks the required keys of a kind of provider.
func requires(s *section, p *Provider) {
	key := p.APIKey != "" || s.has("api_key") || s.has("api_key_file") // problems of the key are reported elsewhere
	switch p.Kind {
	case "bedrock":
		for _, k := range []string{"region", "access_key", "secret_key"} {
			if s.empty(k) {
				s.at(k).add("provider '%s' (bedrock) requires %s", p.Name, k)
			}
		}
	case "azure":
		if s.empty("base_url") {
			s.at("base_url").add("provider '%s' (azure) requires base_url", p.Name)
		}
	case "ollama", "llama.cpp":
	default:
		if !key && s.empty("base_url") {
			s.at("").add("provider '%s' requires api_key or base_url", p.Name)
		} else if s.empty("base_url") && s.has("api_key") && s.empty("api_key") && !s.has("api_key_file") {
			s.at("api_key").add("provider '%s' requires api_key or base_url", p.Name)
		}
	}
}

// empty reports that a key is missing or an empty text.
func (s *section) empty(key string) bool {
	v, ok := s.t.keys[key]
	return !ok || v.v == ""
}

// checkURL checks the address of a server. Its messages do not contain the
// address, which may contain a password.
func checkURL(s *section, key, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		s.at(key).add("%s: it must be an address that begins with http:// or https://", s.full(key))
	}
}

func modelNames(c *Config) []string {
	var names []string
	for _, p := range c.Providers {
		names = append(names, p.Models...)
	}
	return names
}

func (l *loader) mcps(c *Config, top *section) {
	top.tables("mcps", func(name string, s *section) {
		m := MCP{Name: name, AutoRestart: true}
		l.expanded(s, "name", &m.Name)
		if m.Name != name {
			s.at("name").add("%s: it differs from the name of the table: remove it", s.full("name"))
		}
		s.str("command", &m.Command)
		s.each("args", func(arg string, line int) {
			m.Args = append(m.Args, Secret(l.expand(place{s.f, line}, s.full("args"), arg, true)))
		})
		m.Env = l.env(s.table("env"))
		l.expanded(s, "url", &m.URL)
		checkURL(s, "url", m.URL)
		s.boolean("auth", &m.Auth)
		l.token(s, &m)
		s.duration("timeout", &m.Timeout, time.Second, maxTimeout)
		s.boolean("auto_restart", &m.AutoRestart)
		switch {
		case s.empty("command") && s.empty("url"):
			s.at("").add("MCP server '%s' has neither command nor url", name)
		case !s.empty("command") && !s.empty("url"):
			s.at("url").add("MCP server '%s' has both command and url: remove one", name)
		}
		c.MCPs = append(c.MCPs, m)
	})
	slices.SortFunc(c.MCPs, func(a, b MCP) int { return strings.Compare(a.Name, b.Name) })
}

// token reads the token of a server.
func (l *loader) token(s *section, m *MCP) {
	l.secret(s, "token", &m.Token)
	if s.has("token") && s.has("token_file") {
		s.at("token_file").add("MCP server '%s' has both token and token_file: remove one", m.Name)
	}
	l.secretFile(s, "token_file", &m.Token)
	for _, key := range []string{"token", "token_file"} {
		if m.Token != "" && s.empty("url") && s.has(key) {
			s.at(key).add("%s: a token requires url: set url, or remove %s", s.full(key), key)
		}
	}
}

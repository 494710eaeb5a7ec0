package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"time"

	"crabmem/daemon/errtable"
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

// fallback is a model that a provider lists as a fallback, and where.
type fallback struct {
	model string
	place
}

// providers reads [provider.*] and returns where each model is defined.
func providers(c *Config, top *section) map[string]place {
	models := make(map[string]place)
	var fallbacks []fallback
	for name, s := range top.tables("provider") {
		before, broken := len(*s.f.found), len(s.l.broken)
		p := Provider{Name: name}
		setDefaults(p.rows())
		s.read(p.rows())
		s.checkKind(&p)
		p.KeySource = keySource(s)
		if s.has("api_key") && s.has("api_key_file") {
			s.at("api_key_file").add("provider '%s' has both api_key and api_key_file: remove one", p.Name)
		}
		s.checkModels(&p, models)
		for model, at := range s.items("fallback") {
			fallbacks = append(fallbacks, fallback{model, at})
		}
		requires(s, &p)
		if len(s.l.broken) > broken {
			first := s.l.broken[broken]
			p.Broken = &first
		} else if len(*s.f.found) == before {
			s.refused(p.Model().Check())
		}
		c.Providers = append(c.Providers, p)
	}
	names := modelNames(c)
	for _, f := range fallbacks {
		if f.model != Offline && models[f.model].f == nil {
			f.unknown(f.model, names, "fallback: no provider has the model '%s'", short(f.model))
		}
	}
	return models
}

// checkKind sets the kind of a provider to one of package model.
func (s *section) checkKind(p *Provider) {
	if s.has("standard") && s.has("kind") {
		s.at("standard").add("provider '%s' has both kind and standard, the old name of kind: remove standard", p.Name)
	}
	p.Kind = kinds[p.Kind]
	if p.Kind == "openai" && p.BaseURL != "" {
		p.Kind = "openai-compatible"
		if strings.Contains(strings.ToLower(p.BaseURL), "anthropic") {
			p.Kind = "anthropic"
		}
	}
}

// keySource returns the origin of a provider's API key, for messages: the variable
// in its value, the name of the key in config.toml, or "" if there is no API key.
func keySource(s *section) string {
	for _, key := range []string{"api_key", "access_key"} {
		if !s.has(key) {
			continue
		}
		text, _ := s.t[key].(string)
		return cmp.Or(firstReference(text), key)
	}
	if s.has("api_key_file") {
		return "api_key_file"
	}
	return ""
}

// checkModels checks the models of a provider and their limits. It adds the models to
// models, which contains those of the previous providers.
func (s *section) checkModels(p *Provider, models map[string]place) {
	seen := make(map[string]bool)
	for model, at := range s.items("models") {
		switch why := badName(model); {
		case why != "":
			at.add("provider '%s': the name of a model %s", p.Name, why)
		case model == Offline:
			at.add("model name '%s' is reserved: it is the built-in model without a provider", model)
		case seen[model]:
			at.add("provider '%s' names the model '%s' twice", p.Name, model)
		case models[model].f != nil:
			at.add("duplicate model name '%s' across providers", model)
		default:
			models[model] = at
		}
		seen[model] = true
	}
	if len(p.Models) == 0 {
		s.at("models").addFix(p.example(), "provider '%s' has no models", p.Name)
	}
	limits := s.child("context_limits")
	for _, model := range s.src.sorted(limits.path, limits.t) {
		if !seen[model] {
			limits.at(model).unknown(model, p.Models, "%s: provider '%s' has no model '%s'", limits.name, p.Name, short(model))
		}
	}
}

// Model returns the provider as package model calls it.
func (p *Provider) Model() model.Provider {
	retries := p.MaxRetries
	var broken error
	if p.Broken != nil {
		broken = &errtable.Error{Kind: "model_key", Path: p.Broken.Path, Message: fmt.Sprintf("provider '%s' cannot be used: %v", p.Name, p.Broken), Fix: p.Broken.Repair()}
	}
	return model.Provider{
		Name: p.Name, Broken: broken, Kind: p.Kind, BaseURL: p.BaseURL, APIKey: string(p.APIKey), APIVersion: p.APIVersion, Region: p.Region,
		AccessKey: string(p.AccessKey), SecretKey: string(p.SecretKey), KeySource: p.KeySource, Models: p.Models, MaxRetries: &retries,
		Timeout: p.firstByte(), IdleTimeout: p.IdleTimeout, ContextLimits: p.ContextLimits, Fallback: p.Fallback,
	}
}

// Models returns the providers in the types of package model.
func (c *Config) Models() []model.Provider {
	list := make([]model.Provider, len(c.Providers))
	for i := range c.Providers {
		list[i] = c.Providers[i].Model()
		list[i].Fallbacks = c.Fallbacks
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
			s.at("base_url").addFix(p.example(), "provider '%s' (azure) requires base_url", p.Name)
		}
	case "ollama", "llama.cpp":
	default:
		if !key && s.empty("base_url") {
			s.at("").addFix(p.example(), "provider '%s' requires api_key or base_url", p.Name)
		} else if s.empty("base_url") && s.has("api_key") && s.empty("api_key") && !s.has("api_key_file") {
			s.at("api_key").addFix(p.example(), "provider '%s' requires api_key or base_url", p.Name)
		}
	}
}

// example returns a command that sets all keys of a provider.
func (p *Provider) example() string {
	return "set the keys of a provider in one command, such as crabmem config set " + errtable.ShellWord("provider."+p.Name) +
		` '{"kind": "openai-compatible", "base_url": "http://127.0.0.1:8000/v1", "models": ["MODEL"]}'`
}

// checkURL checks the address of a server. Its messages do not contain the
// address, which may contain a password.
func checkURL(s *section, key, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		s.add(key, "it must be an address that begins with http:// or https://")
	}
}

func modelNames(c *Config) []string {
	var names []string
	for _, p := range c.Providers {
		names = append(names, p.Models...)
	}
	return names
}

func mcps(c *Config, top *section) {
	for name, s := range top.tables("mcps") {
		c.server(name, s)
	}
	sort.Slice(c.MCPs, func(i, j int) bool { return c.MCPs[i].Name < c.MCPs[j].Name })
}

// server adds the server of a table, unless it is broken.
func (c *Config) server(name string, s *section) {
	m, broken := MCP{Name: name}, len(s.l.broken)
	setDefaults(m.rows())
	s.read(m.rows())
	if m.Name != name {
		s.add("name", "it differs from the name of the table: remove it")
	}
	checkURL(s, "url", m.URL)
	if s.has("token") && s.has("token_file") {
		s.at("token_file").add("MCP server '%s' has both token and token_file: remove one", m.Name)
	}
	for _, key := range []string{"token", "token_file"} {
		if m.Token != "" && s.empty("url") && s.has(key) {
			s.add(key, "a token requires url: set url, or remove %s", key)
		}
	}
	switch {
	case s.empty("command") && s.empty("url"):
		s.at("").add("MCP server '%s' has neither command nor url", name)
	case !s.empty("command") && !s.empty("url"):
		s.at("url").add("MCP server '%s' has both command and url: remove one", name)
	}
	if len(s.l.broken) == broken {
		c.MCPs = append(c.MCPs, m)
	}
}

// firstByte returns the configured timeout, or 0 for the default of the kind.
func (p *Provider) firstByte() time.Duration {
	if p.Timeout == model.DefaultTimeout {
		return 0
	}
	return p.Timeout
}

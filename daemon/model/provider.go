package model

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"crabmem/daemon/lazyregexp"
	"crabmem/daemon/model/chat"
)

// Provider is a server of models.
type Provider struct {
	Name       string
	Kind       string // one of Kinds or an alias; empty is openai-compatible
	BaseURL    string // empty is the default of the kind; see Kinds
	APIKey     string `json:"-" cbor:"APIKey"`
	KeySource  string // where the key comes from, for messages; may be empty
	APIVersion string // of Azure
	Region     string // of Bedrock
	// Of Bedrock. With an AccessKey requests are signed, else APIKey is sent.
	AccessKey string `json:"-" cbor:"AccessKey"`
	SecretKey string `json:"-" cbor:"SecretKey"`
	Broken    error  `json:"-" cbor:"-"` // the error of each call; nil: the provider can be used

	Models     []string
	MaxRetries *int // of rate limits and server errors, 5 when nil; of others at most 2
	// Timeout is to the first byte. When 0, it is LocalTimeout for the kinds ollama and
	// llama.cpp and addresses of this machine, and DefaultTimeout for others.
	Timeout time.Duration
	// IdleTimeout is between the bytes of a response; 60 s when 0. A response that has
	// only bytes without data, such as comments, ends after the default of Timeout.
	IdleTimeout   time.Duration
	ContextLimits map[string]int // of models, in tokens, where the table is wrong
	Fallback      []string       // names of models to try in this order if one of these fails
	// Fallbacks are those of one model, in place of Fallback.
	Fallbacks map[string][]string `json:"-" cbor:"-"`
}

// Defaults of a provider.
const (
	DefaultMaxRetries  = 5
	DefaultTimeout     = 10 * time.Minute
	LocalTimeout       = 30 * time.Minute // a long prompt may take it
	DefaultIdleTimeout = 60 * time.Second
)

// kind is the configuration of a kind of providers.
type kind struct {
	name    string
	url     string // by default; {region} is replaced
	path    string // default path of a base URL
	keyless bool   // needs neither key nor URL
	tokens  bool   // max_completion_tokens
	custom  bool   // serves models with templates of their own
}

var kinds = []kind{
	{name: "openai", url: "https://api.openai.com/v1", path: "/v1", tokens: true},
	{name: "openai-compatible", url: "https://api.openai.com/v1", custom: true},
	{name: "anthropic", url: "https://api.anthropic.com/v1", path: "/v1"},
	{name: "google", url: "https://generativelanguage.googleapis.com/v1beta/openai", path: "/v1beta/openai"},
	{name: "azure", tokens: true},
	{name: "bedrock", url: "https://bedrock-runtime.{region}.amazonaws.com/openai/v1", path: "/openai/v1", tokens: true},
	{name: "ollama", url: "http://localhost:11434/v1", path: "/v1", keyless: true, custom: true},
	{name: "llama.cpp", url: "http://localhost:8080/v1", path: "/v1", keyless: true, custom: true},
}

// aliases are the reference's names of kinds.
var aliases = map[string]string{
	"": "openai-compatible", "openai_compat": "openai-compatible", "openai_compatible": "openai-compatible",
	"standard": "openai-compatible", "llama_cpp": "llama.cpp", "llamacpp": "llama.cpp",
}

// fallbacks returns the models to try if a model fails.
func (p *Provider) fallbacks(model string) []string {
	list, ok := p.Fallbacks[model]
	if !ok {
		list = p.Fallback
	}
	return slices.Clone(list)
}

// String leaves out the keys, so that no log shows them.
func (p Provider) String() string {
	return fmt.Sprintf("provider '%s' (%s) with %s", p.Name, p.Kind, strings.Join(p.Models, ", "))
}

// GoString is String.
func (p Provider) GoString() string { return p.String() }

// Kinds returns the kinds of providers.
//
//	openai             https://api.openai.com/v1
//	openai-compatible  any other; base_url, or https://api.openai.com/v1 without one
//	anthropic          https://api.anthropic.com/v1, its OpenAI-compatible endpoint
//	google             https://generativelanguage.googleapis.com/v1beta/openai, likewise
//	azure              {base_url}/openai/deployments/{model}, or a base_url that ends in /openai/v1
//	bedrock            https://bedrock-runtime.{region}.amazonaws.com/openai/v1
//	ollama             http://localhost:11434/v1
//	llama.cpp          http://localhost:8080/v1
//
// A suffix /chat/completions, /messages, or /embeddings of a base_url is
// removed; a base_url without a path gets the default path.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func (p *Provider) kind() (kind, bool) {
	name := p.Kind
	if a, ok := aliases[name]; ok {
		name = a
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// KeyError is a problem with one key of a provider. Its text contains no secret.
type KeyError struct {
	Key     string // as in config.toml; "" if the problem concerns the whole provider
	message string
}

func (e *KeyError) Error() string { return e.message }

// Check returns all problems of a provider, joined. Each one is a *KeyError. A broken
// provider has none.
func (p Provider) Check() error {
	if p.Broken != nil {
		return nil
	}
	var problems []error
	complain := func(key, format string, args ...any) {
		problems = append(problems, &KeyError{key, fmt.Sprintf(format, args...)})
	}
	k, known := p.kind()
	if !known {
		complain("kind", "provider '%s' has unknown kind '%s': want one of %s", p.Name, p.Kind, strings.Join(Kinds(), ", "))
	}
	if p.Name == "" {
		complain("", "a provider has no name")
	}
	if len(p.Models) == 0 {
		complain("models", "provider '%s' has no models", p.Name)
	}
	for i, m := range p.Models {
		if m == "" {
			complain("models", "provider '%s' has a model without a name", p.Name)
		} else if slices.Contains(p.Models[:i], m) {
			complain("models", "provider '%s' has the model '%s' twice", p.Name, m)
		}
	}
	_, _, err := p.base(k)
	switch {
	case err != nil:
		problems = append(problems, err)
	case known && k.name == "azure" && p.BaseURL == "":
		complain("base_url", "provider '%s' (azure) requires base_url", p.Name)
	case k.name == "bedrock" && p.Region == "":
		complain("region", "provider '%s' (bedrock) requires region", p.Name)
	case k.name == "bedrock" && p.APIKey == "" && (p.AccessKey == "" || p.SecretKey == ""):
		complain("", "provider '%s' (bedrock) requires access_key and secret_key, or api_key", p.Name)
	case known && k.name != "bedrock" && !k.keyless && p.APIKey == "" && p.BaseURL == "":
		complain("", "provider '%s' requires api_key or base_url", p.Name)
	}
	for _, f := range []struct{ name, value string }{{"api_key", p.APIKey}, {"access_key", p.AccessKey}, {"secret_key", p.SecretKey}} {
		if strings.ContainsFunc(f.value, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			complain(f.name, "provider '%s': %s has a space or a line end in it", p.Name, f.name)
		}
	}
	if p.MaxRetries != nil && (*p.MaxRetries < 0 || *p.MaxRetries > 10) {
		complain("max_retries", "provider '%s': max_retries is %d, want 0 to 10", p.Name, *p.MaxRetries)
	}
	if p.Timeout < 0 || p.IdleTimeout < 0 {
		complain("timeout", "provider '%s': a timeout is negative", p.Name)
	}
	for m, n := range p.ContextLimits {
		if n <= 0 {
			complain("context_limits", "provider '%s': the context limit of '%s' is %d, want 1 or more", p.Name, m, n)
		} else if !slices.Contains(p.Models, m) {
			complain("context_limits", "provider '%s': context_limits names '%s', which is not one of its models", p.Name, m)
		}
	}
	return errors.Join(problems...)
}

// base returns the URL before "/chat/completions" and the api-version
// that a URL copied from Azure has. Its error is a *KeyError.
func (p *Provider) base(k kind) (base *url.URL, version string, err error) {
	refuse := func(why string) (*url.URL, string, error) {
		return nil, "", &KeyError{"base_url", fmt.Sprintf("provider '%s': %s", p.Name, why)}
	}
	text := p.BaseURL
	if text == "" {
		text = strings.ReplaceAll(k.url, "{region}", p.Region)
	}
	u, err := url.Parse(text)
	if err != nil || text != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return refuse("base_url is not an http or https URL")
	}
	if u.User != nil {
		return refuse("base_url has a password in it: put the key in api_key")
	}
	version = u.Query().Get("api-version")
	if u.Fragment != "" || u.RawQuery != "" && (k.name != "azure" || len(u.Query()) > 1 || version == "") {
		return refuse("base_url has a query or a fragment")
	}
	path := strings.TrimRight(u.Path, "/")
	for _, suffix := range []string{"/chat/completions", "/messages", "/embeddings"} {
		path = strings.TrimSuffix(path, suffix)
	}
	if path = strings.TrimRight(path, "/"); path == "" {
		path = k.path
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}, version, nil
}

// azureVersion is the first of the general ones that streams usage.
const azureVersion = "2024-10-21"

// endpoint returns where one model of a checked provider is.
func (p *Provider) endpoint(model string, transport http.RoundTripper) chat.Endpoint {
	k, _ := p.kind()
	base, version, _ := p.base(k)
	e := chat.Endpoint{
		Provider: p.Name, Header: make(http.Header), Secrets: []string{p.APIKey, p.SecretKey, p.AccessKey},
		CallIDs: callIDs(k.name, base.Hostname()), CompletionTokens: k.tokens, KeepReasoning: keepsReasoning(base.Hostname()),
		Unsigned:  k.name == "google" && !strings.Contains(model, "gemini-1") && !strings.Contains(model, "gemini-2"),
		Alternate: k.custom, Progress: k.name == "llama.cpp", Quiet: DefaultTimeout, Idle: cmp.Or(p.IdleTimeout, DefaultIdleTimeout), Transport: transport,
	}
	if k.keyless || isLoopback(base.Hostname()) {
		e.Quiet = LocalTimeout
	}
	e.Timeout = cmp.Or(p.Timeout, e.Quiet)
	switch {
	case k.name == "azure":
		if p.APIKey != "" {
			e.Header.Set("Api-Key", p.APIKey)
		}
		if p.APIVersion != "" {
			version = p.APIVersion
		}
		if !strings.HasSuffix(base.Path, "/openai/v1") {
			base = azureDeployment(base, model)
			if version == "" {
				version = azureVersion
			}
		}
		if version != "" {
			e.Query = url.Values{"api-version": {version}}
		}
	case k.name == "bedrock" && p.AccessKey != "":
		service, _, _ := strings.Cut(base.Hostname(), ".")
		if service != "bedrock-mantle" {
			service = "bedrock"
		}
		s := signer{region: p.Region, service: service, accessKey: p.AccessKey, secretKey: p.SecretKey, now: time.Now}
		e.Sign = s.sign
	case p.APIKey != "":
		e.Header.Set("Authorization", "Bearer "+p.APIKey)
	}
	e.URL = base.String() + "/"
	return e
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// azureDeployment returns the path of a deployment, under a base that may name
// one already.
func azureDeployment(base *url.URL, model string) *url.URL {
	path := base.Path
	if i := strings.Index(path, "/openai"); i >= 0 {
		path = path[:i]
	}
	u := *base
	u.Path = path
	return u.JoinPath("openai", "deployments", url.PathEscape(model))
}

// callIDs returns a pattern of the call IDs that an endpoint accepts. A session
// contains IDs of every endpoint that responded in it.
func callIDs(kind, host string) *regexp.Regexp {
	switch {
	case host == "api.mistral.ai":
		return nineIDs()
	case kind == "anthropic", kind == "bedrock":
		return plainIDs()
	case kind == "openai", kind == "azure", host == "api.openai.com":
		return shortIDs()
	}
	return nil
}

var (
	nineIDs  = lazyregexp.New(`^[a-zA-Z0-9]{9}$`)
	plainIDs = lazyregexp.New(`^[a-zA-Z0-9_-]{1,64}$`)
	shortIDs = lazyregexp.New(`^(?s:.{1,40})$`)
)

// keepsReasoning reports whether a host refuses a message with tool calls but
// without its reasoning.
func keepsReasoning(host string) bool {
	return slices.ContainsFunc([]string{"deepseek.com", "moonshot.ai", "moonshot.cn"}, func(h string) bool {
		return host == h || strings.HasSuffix(host, "."+h)
	})
}

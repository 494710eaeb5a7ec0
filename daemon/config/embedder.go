package config

import (
	"net/url"
	"strings"

	"crabmem/crmem/embed/static"
	"crabmem/crmem/fusion"
)

// Embedder is [embedder]: the model of the vectors of entries, and how recall uses it.
type Embedder struct {
	Static string // model that crabmem model add installed; "" = an endpoint

	BaseURL    string // of the endpoint
	Key        Secret
	Model      string
	Dimensions int  // components of a vector
	Send       bool // send Dimensions to the endpoint

	QueryPrefix, PassagePrefix string

	Weight float64
	Fusion fusion.Method
}

// maxDimensions is the limit of components of a vector.
const maxDimensions = 4096

// embedder reads [embedder].
func (l *loader) embedder(c *Config, top *section) {
	s := top.table("embedder")
	defer s.done()
	e := Embedder{Weight: fusion.DefaultWeight}
	s.str("static", &e.Static)
	s.str("model", &e.Model)
	l.expanded(s, "base_url", &e.BaseURL)
	l.secret(s, "api_key", &e.Key)
	if s.has("api_key") && s.has("api_key_file") {
		s.at("api_key_file").add("embedder has both api_key and api_key_file: remove one")
	}
	l.secretFile(s, "api_key_file", &e.Key)
	s.integer("dimensions", &e.Dimensions, 1, maxDimensions)
	s.boolean("send_dimensions", &e.Send)
	s.str("query_prefix", &e.QueryPrefix)
	s.str("passage_prefix", &e.PassagePrefix)
	s.fraction("weight", &e.Weight)
	method := "convex"
	s.enum("fusion", &method, "convex", "reciprocal_rank")
	e.Fusion, _ = fusion.ParseMethod(method)
	switch {
	case len(s.t.keys) == 0:
		return
	case e.Static != "":
		for _, key := range []string{"model", "base_url", "api_key", "api_key_file", "dimensions", "send_dimensions"} {
			if s.has(key) {
				s.at(key).add("%s: it is for an endpoint, and static selects a model in a file: remove one", s.full(key))
			}
		}
		if err := static.CheckName(e.Static); err != nil {
			s.at("static").add("%s: %v", s.full("static"), err)
		}
	case e.Model == "":
		s.at("model").add("embedder has neither static nor model: set static to a model of crabmem model list, or set model, base_url, and dimensions")
	default:
		u, err := url.Parse(e.BaseURL)
		if e.BaseURL != placeholder && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil) {
			s.at("base_url").add("embedder.base_url is not an address such as https://api.openai.com/v1")
		}
		e.BaseURL = strings.TrimSuffix(strings.TrimRight(e.BaseURL, "/"), "/embeddings")
		if e.Dimensions == 0 {
			s.at("dimensions").add("embedder.dimensions is missing: set it to the number of components of a vector of %s", short(e.Model))
		}
	}
	c.Embedder = &e
}

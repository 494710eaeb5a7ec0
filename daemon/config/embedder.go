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
func embedder(c *Config, top *section) {
	s := top.child("embedder")
	e, broken := Embedder{}, len(s.l.broken)
	setDefaults(e.rows())
	s.read(e.rows())
	if s.has("api_key") && s.has("api_key_file") {
		s.at("api_key_file").add("embedder has both api_key and api_key_file: remove one")
	}
	switch {
	case len(s.t) == 0, len(s.l.broken) > broken:
		return
	case e.Static != "":
		if !s.has("weight") {
			e.Weight = fusion.StaticWeight
		}
		for _, key := range []string{"model", "base_url", "api_key", "api_key_file", "dimensions", "send_dimensions"} {
			if s.has(key) {
				s.add(key, "it is for an endpoint, and static selects a model in a file: remove one")
			}
		}
		if err := static.CheckName(e.Static); err != nil {
			s.add("static", "%v", err)
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

// Package embedder opens the embedding model that a configuration selects.
package embedder

import (
	"fmt"
	"path/filepath"

	"crabmem/crmem/embed"
	"crabmem/crmem/embed/endpoint"
	"crabmem/crmem/embed/static"
	"crabmem/crmem/fusion"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
)

// Dir is the folder of installed static models in a home.
const Dir = "models"

// File returns the file of an installed static model.
func File(home, name string) string { return filepath.Join(home, Dir, name) }

// Open returns the model of a configuration, or nil if that is nil. It makes no request.
func Open(fsys vfs.FS, home string, c *config.Embedder) (*embed.Model, error) {
	if c == nil {
		return nil, nil
	}
	m := &embed.Model{QueryPrefix: c.QueryPrefix, PassagePrefix: c.PassagePrefix}
	if c.Static == "" {
		m.Name, m.Dim = c.BaseURL+" "+c.Model, c.Dimensions
		m.Embedder = endpoint.New(endpoint.Options{BaseURL: c.BaseURL, Key: string(c.Key), Model: c.Model, Dim: c.Dimensions, Dimensions: c.Send})
		return m, nil
	}
	t, err := static.Open(fsys, File(home, c.Static))
	if err != nil {
		return nil, fmt.Errorf("open the static model %s: %w", c.Static, err)
	}
	m.Name, m.Dim, m.Embedder = fmt.Sprintf("static:%s %s", c.Static, t.Sum()), t.Dim(), t
	m.Static = true
	return m, nil
}

// Semantic returns how a query uses the model of a configuration, or nil without one.
func Semantic(c *config.Embedder) *fusion.Request {
	if c == nil || c.Weight == 0 && c.Fusion == fusion.Convex {
		return nil
	}
	return &fusion.Request{Fusion: c.Fusion, Weight: c.Weight}
}

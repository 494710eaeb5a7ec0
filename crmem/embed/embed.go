// Package embed turns texts into vectors. The cosine of two vectors measures how
// similar the meanings of their texts are.
package embed

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// ErrRefused is the error of a model that refuses a text, and would refuse it again.
var ErrRefused = errors.New("the model refuses the text")

// An Embedder turns texts into vectors, one for each text, in the order of the texts. A
// text that the model cannot represent has a nil vector. If a text is at fault, the error
// is ErrRefused.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// A Model is an embedder with all that its vectors depend on.
type Model struct {
	Embedder
	Name string
	Dim  int // components of a vector
	// Static is set if a word has the same vector in each text.
	Static bool
	// QueryPrefix and PassagePrefix precede each text, as some models require.
	QueryPrefix, PassagePrefix string
}

// Identity describes the vectors of the model. Vectors with different identities must
// not be compared.
func (m *Model) Identity() string {
	return fmt.Sprintf("%s dim=%d query=%q passage=%q unit", m.Name, m.Dim, m.QueryPrefix, m.PassagePrefix)
}

// Query returns the vector of a query, whose length is 1, or nil.
func (m *Model) Query(ctx context.Context, text string) ([]float32, error) {
	list, err := m.embed(ctx, m.QueryPrefix, []string{text})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// Passages returns the vectors of texts to be found. Their length is 1, or they are nil.
func (m *Model) Passages(ctx context.Context, texts []string) ([][]float32, error) {
	return m.embed(ctx, m.PassagePrefix, texts)
}

func (m *Model) embed(ctx context.Context, prefix string, texts []string) ([][]float32, error) {
	prefixed := texts
	if prefix != "" {
		prefixed = make([]string, len(texts))
		for i, text := range texts {
			prefixed[i] = prefix + text
		}
	}
	list, err := m.Embed(ctx, prefixed)
	if err != nil {
		return nil, fmt.Errorf("embed %d texts with %s: %w", len(texts), m.Name, err)
	}
	if len(list) != len(texts) {
		return nil, fmt.Errorf("embed %d texts with %s: got %d vectors", len(texts), m.Name, len(list))
	}
	for i, v := range list {
		if v == nil {
			continue
		}
		if err := m.normalize(v); err != nil {
			return nil, fmt.Errorf("embed text %d of %d with %s: %w", i+1, len(texts), m.Name, err)
		}
	}
	return list, nil
}

// normalize scales a vector to length 1. It refuses a vector of another dimension, one
// that is not finite, and one of length 0.
func (m *Model) normalize(v []float32) error {
	if len(v) != m.Dim {
		return fmt.Errorf("the vector has %d components, want %d: check the model and its dimension", len(v), m.Dim)
	}
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return fmt.Errorf("the square of the vector's length is %v: want a finite number above 0", sum)
	}
	scale := 1 / math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) * scale)
	}
	return nil
}

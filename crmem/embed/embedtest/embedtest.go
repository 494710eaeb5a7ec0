// Package embedtest contains a model whose vectors tests can predict.
package embedtest

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"unicode"

	"crabmem/crmem/embed"
)

// A Model adds a random vector for each word of a text. Words with the same meaning have
// the same vector.
type Model struct {
	Dim     int
	Meaning map[string]string // by word; other words mean themselves

	mu    sync.Mutex
	fail  func(texts []string) error
	texts []string
}

// New returns the model, which has 64 components, in an [embed.Model]. Each list contains
// words with the same meaning.
func New(same ...string) (*embed.Model, *Model) {
	m := &Model{Dim: 64, Meaning: make(map[string]string)}
	for _, list := range same {
		words := strings.Fields(list)
		for _, w := range words {
			m.Meaning[w] = words[0]
		}
	}
	return &embed.Model{Embedder: m, Name: "words", Dim: m.Dim}, m
}

// Fail makes requests return the error of f, if that is not nil. A nil f ends that.
func (m *Model) Fail(f func(texts []string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// Texts returns the texts of all requests without an error.
func (m *Model) Texts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.texts...)
}

// Embed returns the vectors of texts. A text without a word has none.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	m.mu.Lock()
	fail := m.fail
	m.mu.Unlock()
	if fail != nil {
		if err := fail(texts); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.texts = append(m.texts, texts...)
	m.mu.Unlock()
	list := make([][]float32, len(texts))
	for i, text := range texts {
		list[i] = m.vector(text)
	}
	return list, nil
}

func (m *Model) vector(text string) []float32 {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(words) == 0 {
		return nil
	}
	v := make([]float32, m.Dim)
	for _, w := range words {
		if same, ok := m.Meaning[w]; ok {
			w = same
		}
		h := fnv.New64a()
		h.Write([]byte(w)) //nolint:errcheck // it never fails
		rng := rand.New(rand.NewPCG(h.Sum64(), 0))
		for i := range v {
			v[i] += float32(rng.NormFloat64() / math.Sqrt(float64(m.Dim)))
		}
	}
	return v
}

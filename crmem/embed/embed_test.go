package embed_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"crabmem/crmem/embed"
)

type fixed [][]float32

func (f fixed) Embed(context.Context, []string) ([][]float32, error) { return f, nil }

type echo struct{ texts []string }

func (e *echo) Embed(_ context.Context, texts []string) ([][]float32, error) {
	e.texts = append(e.texts, texts...)
	list := make([][]float32, len(texts))
	for i := range list {
		list[i] = []float32{3, 4}
	}
	return list, nil
}

func TestModel(t *testing.T) {
	e := &echo{}
	m := embed.Model{Embedder: e, Name: "m", Dim: 2, QueryPrefix: "query: ", PassagePrefix: "passage: "}
	v, err := m.Query(t.Context(), "a")
	if err != nil || v[0] != 0.6 || v[1] != 0.8 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := m.Passages(t.Context(), []string{"b", "c"}); err != nil || strings.Join(e.texts, "|") != "query: a|passage: b|passage: c" {
		t.Errorf("%q, %v", e.texts, err)
	}
	seen := map[string]bool{}
	for _, other := range []embed.Model{m, {Name: "n", Dim: 2}, {Name: "m", Dim: 3}, {Name: "m", Dim: 2, QueryPrefix: "query: "}, {Name: "m", Dim: 2, PassagePrefix: "query: "}} {
		if seen[other.Identity()] {
			t.Errorf("two models are %s", other.Identity())
		}
		seen[other.Identity()] = true
	}
}

// TestModelRefuses checks the vectors of an embedder that is wrong.
func TestModelRefuses(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		vectors [][]float32
		want    string
	}{
		{[][]float32{{1, 0}}, "got 1 vectors"},
		{[][]float32{{1, 0}, {1, 0}, {1, 0}}, "got 3 vectors"},
		{[][]float32{{1, 0}, {1, 0, 0}}, "embed text 2 of 2 with m: the vector has 3 components, want 2"},
		{[][]float32{{1, 0}, {}}, "0 components"},
		{[][]float32{{1, 0}, {0, 0}}, "want a finite number above 0"},
		{[][]float32{{1, 0}, {inf, 0}}, "want a finite number above 0"},
		{[][]float32{{nan, 0}, {1, 0}}, "want a finite number above 0"},
	} {
		m := embed.Model{Embedder: fixed(c.vectors), Name: "m", Dim: 2}
		if _, err := m.Passages(t.Context(), []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.vectors, err, c.want)
		}
	}
	m := embed.Model{Embedder: fixed{nil, {0, 2}}, Name: "m", Dim: 2}
	if v, err := m.Passages(t.Context(), []string{"…", "a"}); err != nil || v[0] != nil || v[1][1] != 1 {
		t.Errorf("%v, %v", v, err)
	}
}

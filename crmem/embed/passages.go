package embed

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A vector represents a chunk of a text.
const (
	maxChunk  = 1000 // longest chunk, in bytes
	maxChunks = 32   // of a text; what follows them has no vector
)

// MaxBatch is the number of passages of a request to a model, unless one text has more.
const MaxBatch = 32

// Chunks splits a text into chunks for vectors, at least one. The results change only
// with the identity of stored vectors.
func Chunks(text string) []string {
	var list []string
	for len(list) < maxChunks {
		chunk := text
		if len(text) > maxChunk {
			chunk = text[:chunkEnd(text)]
		}
		text = strings.TrimSpace(text[len(chunk):])
		if list = append(list, chunk); text == "" {
			break
		}
	}
	return list
}

// chunkEnd returns the end of the first chunk of a text that is longer than a chunk: the
// last end of a paragraph, line, sentence, or word in its second half, or maxChunk.
func chunkEnd(text string) int {
	for _, end := range []string{"\n\n", "\n", "。", ". ", " "} {
		if i := strings.LastIndex(text[maxChunk/2:maxChunk], end); i >= 0 {
			return maxChunk/2 + i + len(end)
		}
	}
	i := maxChunk
	for i > 1 && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

const requestTimeout = time.Minute

// Groups returns the vectors of groups of passages, without those of passages that the
// model cannot represent. If the model refuses a request for all groups, but embeds a
// plain text, each group gets a request of its own, so that one text does not stop the
// others: refused is called for a group that the model refuses, which gets no vectors.
// After another error, the result contains the first groups, up to the one that failed.
func (m *Model) Groups(ctx context.Context, groups [][]string, refused func(i int, err error)) ([][][]float32, error) {
	list, err := m.together(ctx, groups)
	if err == nil || !errors.Is(err, ErrRefused) {
		return list, err
	}
	if _, err := m.passages(ctx, []string{"test"}); err != nil {
		return nil, err
	}
	list = nil
	for i := range groups {
		vectors, err := m.together(ctx, groups[i:i+1])
		switch {
		case err == nil:
			list = append(list, vectors[0])
		case errors.Is(err, ErrRefused):
			refused(i, err)
			list = append(list, nil)
		default:
			return list, err
		}
	}
	return list, nil
}

// together embeds groups with one request.
func (m *Model) together(ctx context.Context, groups [][]string) ([][][]float32, error) {
	var all [][]float32
	if texts := slices.Concat(groups...); len(texts) > 0 {
		var err error
		if all, err = m.passages(ctx, texts); err != nil {
			return nil, err
		}
	}
	list := make([][][]float32, len(groups))
	for i, g := range groups {
		list[i] = slices.DeleteFunc(all[:len(g):len(g)], func(v []float32) bool { return v == nil })
		all = all[len(g):]
	}
	return list, nil
}

func (m *Model) passages(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return m.Passages(ctx, texts)
}

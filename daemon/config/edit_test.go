package config

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEditTOML changes random documents. Each comment remains, except those in
// removed and replaced pairs, and the result decodes to the new tree.
func TestEditTOML(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const count = 20_000
	done := 0
	for i := range count {
		text := randomDocument(r)
		d, err := parseTOML([]byte(text))
		if err != nil {
			continue // such as a table that is defined twice
		}
		next := randomChange(r, d.tree)
		got, err := editTOML([]byte(text), next)
		if err != nil {
			t.Fatalf("%d: set %v in\n%s\n%v", i, next, text, err)
		}
		done++
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") && !strings.Contains(string(got), strings.TrimSpace(line)) {
				t.Fatalf("%d: the comment %q is missing:\n%s\nbefore:\n%s", i, line, got, text)
			}
		}
	}
	t.Logf("documents changed: %d", done)
}

var someKeys = []string{"a", "b", "c", "with space", "ключ", "a.b", `"`}

// key returns a dotted key.
func key(path []string) string { return dotted("\x00" + strings.Join(path, "\x00")) }

func randomDocument(r *rand.Rand) string {
	var b strings.Builder
	comments := 0
	comment := func() {
		if r.IntN(2) == 0 {
			comments++
			fmt.Fprintf(&b, "# comment %d\n", comments)
		}
	}
	pairs := func() {
		for range r.IntN(4) {
			comment()
			path := []string{someKeys[r.IntN(len(someKeys))]}
			if r.IntN(4) == 0 {
				path = append(path, someKeys[r.IntN(3)])
			}
			fmt.Fprintf(&b, "%s = %s", key(path), inline(randomValue(r, 2)))
			if r.IntN(3) == 0 {
				b.WriteString(" # of the pair")
			}
			b.WriteString([]string{"\n", "\n\n", "\r\n"}[r.IntN(3)])
		}
	}
	pairs()
	for range r.IntN(5) {
		comment()
		path := make([]string, 1+r.IntN(3))
		for i := range path {
			path[i] = someKeys[r.IntN(len(someKeys))]
		}
		header := "[" + key(path) + "]\n"
		if r.IntN(8) == 0 {
			header = "[" + header[:len(header)-1] + "]\n"
		}
		b.WriteString(header)
		pairs()
	}
	text := b.String()
	if r.IntN(4) == 0 {
		text = strings.TrimRight(text, "\r\n")
	}
	return text
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(7); {
	case n == 0:
		return int64(r.IntN(9))
	case n == 1:
		return r.IntN(2) == 0
	case n == 2:
		return []string{"", "x # y", "a = b", "\n", "'\"", "[t]"}[r.IntN(6)]
	case n == 3:
		return 1.5
	case n == 4 && depth > 0:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, randomValue(r, depth-1))
		}
		return list
	case n == 5 && depth > 0:
		t := tree{}
		for range r.IntN(3) {
			t[someKeys[r.IntN(len(someKeys))]] = randomValue(r, depth-1)
		}
		return t
	}
	return "text"
}

// randomChange returns a copy of t with some keys removed, replaced, and added.
func randomChange(r *rand.Rand, t tree) tree {
	next := tree{}
	for k, v := range t {
		switch n := r.IntN(6); {
		case n == 0:
		case n == 1:
			next[k] = randomValue(r, 2)
		default:
			if sub, ok := v.(tree); ok {
				v = randomChange(r, sub)
			}
			next[k] = v
		}
	}
	if r.IntN(3) == 0 {
		next[someKeys[r.IntN(len(someKeys))]] = randomValue(r, 2)
	}
	return next
}

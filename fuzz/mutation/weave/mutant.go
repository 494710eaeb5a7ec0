package weave

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Mutant is one change of one source file.
type Mutant struct {
	Package string // import path
	File    string // relative to the module
	Line    int
	Func    string // function with receiver, or declaration outside of functions
	Kind    string
	Old     string // changed lines
	New     string
	Nth     int // position among equal changes of a function, from 2; 0 for the first

	file       *file
	start, end int // offsets of the replaced source
	form       form
}

// form is the woven text of a mutant: before + source + after. The id replaces
// idMark in it. If op is set, a comma replaces the source at opStart:opEnd.
type form struct {
	rank           int // of mutants with the same source, a lower rank encloses a higher one
	before, after  string
	op             bool
	opStart, opEnd int
}

const idMark = "\x00"

// Ranks. A statement encloses the expression, and the expression the operator.
const (
	rankStatement = iota
	rankCondition
	rankOperator
	rankConstant
)

// ID returns a short name of the mutant. It is the same in every run.
func (m *Mutant) ID() string {
	return fmt.Sprintf("%x", m.Rank(0)[:5])
}

// Rank returns a pseudorandom sort key of the mutant for a seed.
func (m *Mutant) Rank(seed uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%s\x00%s\x00%d", seed, m.File, m.Func, m.Old, m.New, m.Nth))
	return string(sum[:])
}

// maxText is the maximum length of Old and New, in bytes.
const maxText = 200

// describe sets Line, Old, and New of a mutant that replaces the source with text.
// An empty text means that the mutant removes the source.
func (p *Package) describe(m *Mutant, text string) {
	src := m.file.src
	from := strings.LastIndexByte(string(src[:m.start]), '\n') + 1
	to := len(src)
	if i := strings.IndexByte(string(src[m.end:]), '\n'); i >= 0 {
		to = m.end + i
	}
	m.Line = 1 + strings.Count(string(src[:m.start]), "\n")
	m.Old = shorten(oneLine(string(src[from:to])))
	m.New = shorten(oneLine(string(src[from:m.start]) + text + string(src[m.end:to])))
	if text == "" {
		m.New = "// " + m.Kind
	}
	if m.Old == m.New { // shorten removed the change
		m.New = m.Kind + ": " + shorten(oneLine(text))
	}
}

func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// number sets Nth of equal changes.
func number(mutants []*Mutant) {
	type change struct{ file, fn, old, new string }
	seen := map[change]int{}
	for _, m := range mutants {
		k := change{m.File, m.Func, m.Old, m.New}
		seen[k]++
		if seen[k] > 1 {
			m.Nth = seen[k]
		}
	}
}

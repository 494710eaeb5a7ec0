package weave

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SwitchFile is the name of the additional file of a woven package.
const SwitchFile = "mutant_switch.go"

// Environment variables of a woven program. EnvActive contains the id of the active
// mutant. EnvHits contains the path of a file with one byte per id. The program sets
// a byte to 1 when it reaches the mutant. Without EnvActive, the program reads both
// values from the next file FileName in its directory or in a parent directory. A
// space separates them.
const (
	EnvActive = "CRABMEM_MUTANT"
	EnvHits   = "CRABMEM_MUTANT_HITS"
	FileName  = "mutant"
)

// Source returns the changed files of the package by absolute path. ids contains
// mutants of this package with their ids.
func (p *Package) Source(ids map[*Mutant]int) map[string][]byte {
	out := map[string][]byte{}
	for _, f := range p.files {
		if text, spans := p.render(f, ids); len(spans) > 0 {
			out[f.path] = text
		}
	}
	out[filepath.Join(p.Dir, SwitchFile)] = p.switchSource()
	return out
}

func (p *Package) switchSource() []byte {
	return fmt.Appendf(nil, switchText, p.Name, EnvActive, EnvHits, FileName)
}

// span is the position of a mutant in a rendered file.
type span struct {
	m          *Mutant
	start, end int
}

// render returns a file with the mutants that have an id.
func (p *Package) render(f *file, ids map[*Mutant]int) ([]byte, []span) {
	var mutants []*Mutant
	for m := range ids {
		if m.file == f {
			mutants = append(mutants, m)
		}
	}
	slices.SortFunc(mutants, func(a, b *Mutant) int {
		return cmp.Or(a.start-b.start, b.end-a.end, a.form.rank-b.form.rank, ids[a]-ids[b])
	})
	r := renderer{src: f.src, ids: ids}
	r.region(0, len(f.src), mutants, nil)
	return r.out.Bytes(), r.spans
}

type renderer struct {
	src   []byte
	ids   map[*Mutant]int
	out   bytes.Buffer
	spans []span
}

// region writes the source from start to end with the mutants in it. If op is set, a
// comma replaces the operator.
func (r *renderer) region(start, end int, mutants []*Mutant, op *form) {
	for len(mutants) > 0 {
		m := mutants[0]
		n := 1
		for n < len(mutants) && mutants[n].start < m.end {
			n++
		}
		r.copy(start, m.start, op)
		r.mutant(m, mutants[1:n])
		start, mutants = m.end, mutants[n:]
	}
	r.copy(start, end, op)
}

func (r *renderer) mutant(m *Mutant, inside []*Mutant) {
	id := strconv.Itoa(r.ids[m])
	from := r.out.Len()
	r.out.WriteString(strings.ReplaceAll(m.form.before, idMark, id))
	var op *form
	if m.form.op {
		op = &m.form
	}
	r.region(m.start, m.end, inside, op)
	r.out.WriteString(strings.ReplaceAll(m.form.after, idMark, id))
	r.spans = append(r.spans, span{m, from, r.out.Len()})
}

func (r *renderer) copy(start, end int, op *form) {
	if op != nil && start <= op.opStart && op.opEnd <= end {
		r.out.Write(r.src[start:op.opStart])
		r.out.WriteByte(',')
		start = op.opEnd
	}
	r.out.Write(r.src[start:end])
}

// compiling removes mutants with type errors and returns the others.
func (p *Package) compiling(mutants []*Mutant) ([]*Mutant, error) {
	for range len(mutants) + 1 {
		bad := p.check(mutants)
		if len(bad) == 0 {
			return mutants, nil
		}
		left := slices.DeleteFunc(slices.Clone(mutants), func(m *Mutant) bool { return bad[m] })
		if len(left) == len(mutants) {
			return nil, fmt.Errorf("weave %s: type error outside of every mutant", p.Path)
		}
		mutants = left
	}
	return nil, errors.New("unreachable")
}

// check type-checks the package with the mutants and returns the mutants with errors.
func (p *Package) check(mutants []*Mutant) map[*Mutant]bool {
	ids := map[*Mutant]int{}
	for i, m := range mutants {
		ids[m] = i + 1
	}
	bad := map[*Mutant]bool{}
	fset := token.NewFileSet()
	spans := map[string][]span{}
	var files []*ast.File
	parse := func(path string, text []byte) {
		f, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			panic(fmt.Sprintf("%v\n%s", err, text)) // each form keeps the syntax valid
		}
		files = append(files, f)
	}
	for _, f := range p.files {
		text, s := p.render(f, ids)
		spans[f.path] = s
		parse(f.path, text)
	}
	parse(SwitchFile, p.switchSource())
	conf := types.Config{Importer: p.imp, Error: func(err error) {
		var e types.Error
		if !errors.As(err, &e) {
			return
		}
		at := fset.Position(e.Pos)
		if m := innermost(spans[at.Filename], at.Offset); m != nil {
			bad[m] = true
			return
		}
		for _, m := range around(files, fset, e.Pos, spans[at.Filename]) {
			bad[m] = true
		}
	}}
	conf.Check(p.Path, fset, files, nil)
	return bad
}

// innermost returns the shortest span that contains an offset.
func innermost(spans []span, offset int) *Mutant {
	var best span
	for _, s := range spans {
		if s.start <= offset && offset < s.end && (best.m == nil || s.end-s.start < best.end-best.start) {
			best = s
		}
	}
	return best.m
}

// around returns the mutants to remove for an error outside of all mutants. These
// are the branch mutants of the declaration, or, if there are none, all others.
func around(files []*ast.File, fset *token.FileSet, pos token.Pos, spans []span) []*Mutant {
	var branches, statements []*Mutant
	for _, f := range files {
		for _, d := range f.Decls {
			if pos < d.Pos() || d.End() < pos {
				continue
			}
			from, to := fset.Position(d.Pos()).Offset, fset.Position(d.End()).Offset
			for _, s := range spans {
				switch {
				case s.start < from || s.end > to:
				case s.m.Kind == "branch":
					branches = append(branches, s.m)
				default:
					statements = append(statements, s.m)
				}
			}
		}
	}
	if len(branches) > 0 {
		return branches
	}
	return statements
}

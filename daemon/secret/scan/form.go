package scan

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// form is the parsed form of a rule.
type form struct {
	before part // before the keyword
	parts  []part
	value  bool // the secret is a group of the pattern: the keyword is only its name
}

// part is a literal text, or a run of characters of a set. A run takes all that it
// can; no text needs backtracking.
type part struct {
	text     string // if set is nil
	set      *set
	min, max int // max is 0 if the run is unbounded
	begin    bool
	sampled  bool // its first min characters count for the entropy
	memo     int  // index in search.runs
}

// set is a set of bytes.
type set [256]bool

// maxSample is the number of characters that entropy is measured of.
const maxSample = 384

// parseForm parses the patterns of a rule. They are constants: a pattern that is not
// a sequence of literals and runs panics.
func parseForm(r rule) form {
	var f form
	if r.before != "" {
		f.before = parse(r, r.before)[0]
	}
	if r.form != "" {
		f.parts = parse(r, r.form)
	}
	for _, p := range f.parts {
		f.value = f.value || p.begin
	}
	for i := range f.parts {
		p := &f.parts[i]
		p.sampled = p.set != nil && p.min > 0 && (!f.value || slices.ContainsFunc(f.parts[:i+1], func(q part) bool { return q.begin }))
	}
	return f
}

func parse(r rule, pattern string) []part {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", r.kind, err))
	}
	return flatten(r, tree)
}

func flatten(r rule, tree *syntax.Regexp) []part {
	switch tree.Op {
	case syntax.OpConcat:
		var list []part
		for _, sub := range tree.Sub {
			list = append(list, flatten(r, sub)...)
		}
		return list
	case syntax.OpCapture:
		list := flatten(r, tree.Sub[0])
		list[0].begin = true
		return list
	case syntax.OpLiteral:
		if tree.Flags&syntax.FoldCase == 0 {
			return []part{{text: string(tree.Rune)}}
		}
	case syntax.OpCharClass:
		return []part{newRun(tree, 1, 1)}
	case syntax.OpQuest:
		return []part{newRun(tree.Sub[0], 0, 1)}
	case syntax.OpStar:
		return []part{newRun(tree.Sub[0], 0, 0)}
	case syntax.OpPlus:
		return []part{newRun(tree.Sub[0], 1, 0)}
	case syntax.OpRepeat:
		return []part{newRun(tree.Sub[0], tree.Min, max(tree.Max, 0))}
	}
	panic(fmt.Sprintf("%s: %v is no sequence of literals and runs", r.kind, tree))
}

func newRun(tree *syntax.Regexp, low, high int) part {
	ranges := tree.Rune
	if tree.Op == syntax.OpLiteral {
		ranges = []rune{tree.Rune[0], tree.Rune[0]}
	}
	var s set
	for i := 0; i+1 < len(ranges); i += 2 {
		for c := ranges[i]; c <= min(ranges[i+1], utf8.RuneSelf-1); c++ {
			s[c] = true
		}
	}
	return part{set: &s, min: low, max: high}
}

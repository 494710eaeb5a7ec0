package weave

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// opposite contains the negation of each comparison. bound contains the comparison
// with the other result for equal operands.
var (
	opposite = map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL,
		token.LSS: token.GEQ, token.GEQ: token.LSS,
		token.GTR: token.LEQ, token.LEQ: token.GTR,
	}
	bound = map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS,
		token.GTR: token.GEQ, token.GEQ: token.GTR,
	}
)

// expression adds the mutants of an expression.
func (w *walker) expression(e ast.Expr) {
	tv := w.p.info.Types[e]
	if b, ok := e.(*ast.BinaryExpr); ok && tv.Value == nil {
		w.binary(b)
		return
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		w.literal(e)
	case *ast.Ident:
		w.identifier(e)
	}
	if w.isCondition(e) && tv.Value == nil && isBool(tv.Type) {
		w.negate(e)
	}
}

// isCondition reports whether e is the condition of a branch, or an operand of && or
// ||.
func (w *walker) isCondition(e ast.Expr) bool {
	if _, ok := e.(*ast.ParenExpr); ok {
		return false
	}
	switch parent := w.parent().(type) {
	case *ast.IfStmt:
		return parent.Cond == e
	case *ast.ForStmt:
		return parent.Cond == e
	case *ast.BinaryExpr:
		return parent.Op == token.LAND || parent.Op == token.LOR
	}
	return false
}

func isBool(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

func (w *walker) negate(e ast.Expr) {
	text := "!(" + w.text(e) + ")"
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.NOT {
		text = w.text(u.X)
	}
	w.add(e, "condition negated", text, form{
		rank: rankCondition, before: "(mutantOn(" + idMark + ") != (", after: "))",
	})
}

// binary adds the mutants of an operator.
func (w *walker) binary(b *ast.BinaryExpr) {
	switch b.Op {
	case token.LAND:
		w.compare(b, "operator", token.LOR)
	case token.LOR:
		w.compare(b, "operator", token.LAND)
	case token.ADD:
		w.arithmetic(b, token.SUB)
	case token.SUB:
		w.arithmetic(b, token.ADD)
	}
	if w.isError(b) {
		w.add(b, "error ignored", "false", form{
			rank: rankCondition, before: "(mutantOff(" + idMark + ") && (", after: "))",
		})
		return
	}
	if op, ok := opposite[b.Op]; ok {
		w.compare(b, "condition negated", op)
	}
	if op, ok := bound[b.Op]; ok && !isDuration(w.p.info.TypeOf(b.X)) {
		w.compare(b, "bound moved", op)
	}
}

// isCost reports whether b compares or adds capacities, which does not change
// results.
func isCost(b *ast.BinaryExpr) bool {
	if b.Op == token.LAND || b.Op == token.LOR {
		return false
	}
	for _, e := range []ast.Expr{b.X, b.Y} {
		switch e := e.(type) {
		case *ast.CallExpr:
			if id, ok := e.Fun.(*ast.Ident); ok && id.Name == "cap" {
				return true
			}
		case *ast.BinaryExpr:
			if isCost(e) {
				return true
			}
		}
	}
	return false
}

// isDuration reports whether t is a time.Duration. Only a clock reveals whether a
// bound includes an equal duration.
func isDuration(t types.Type) bool { return t != nil && t.String() == "time.Duration" }

// isError reports whether b compares an error with nil by !=.
func (w *walker) isError(b *ast.BinaryExpr) bool {
	return b.Op == token.NEQ && w.text(b.Y) == "nil" && isError(w.p.info.TypeOf(b.X))
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// compare adds a mutant with another operator. The operator need not evaluate both
// operands.
func (w *walker) compare(b *ast.BinaryExpr, kind string, op token.Token) {
	text := w.text(b.X) + " " + op.String() + " " + w.text(b.Y)
	if op == token.LOR { // an operand of && needs parentheses
		text = "(" + text + ")"
	} else if op == token.LAND {
		text = parenthesize(w, b.X) + " && " + parenthesize(w, b.Y)
	}
	w.add(b, kind, text, form{
		rank:   rankCondition,
		before: "(mutantOn(" + idMark + ") && (" + text + ") || mutantOff(" + idMark + ") && (",
		after:  "))",
	})
}

// parenthesize returns the text of an operand of &&.
func parenthesize(w *walker, e ast.Expr) string {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.LOR {
		return "(" + w.text(e) + ")"
	}
	return w.text(e)
}

// arithmetic adds a mutant with another operator that evaluates both operands.
func (w *walker) arithmetic(b *ast.BinaryExpr, op token.Token) {
	basic, ok := w.p.info.TypeOf(b).Underlying().(*types.Basic)
	if !ok || basic.Info()&types.IsNumeric == 0 {
		return
	}
	helper := "mutantSubtract"
	if op == token.ADD {
		helper = "mutantAdd"
	}
	if name, ok := w.typeText(w.p.info.TypeOf(b)); ok {
		helper += "[" + name + "]" // an untyped shift would make it int
	}
	at := w.p.offset(b.OpPos)
	w.add(b, "operator", w.text(b.X)+" "+op.String()+" "+w.text(b.Y), form{
		rank: rankOperator, before: helper + "(" + idMark + ", ", after: ")",
		op: true, opStart: at, opEnd: at + 1,
	})
}

// literal adds the mutant of a number.
func (w *walker) literal(l *ast.BasicLit) {
	if l.Kind != token.INT && l.Kind != token.FLOAT {
		return
	}
	if text, ok := nextNumber(l.Value); ok {
		w.constant(l, text)
	}
}

// nextNumber returns 1 for 0, 0 for 1, and n+1 for another n, in n's base.
func nextNumber(s string) (string, bool) {
	if s == "1" {
		return "0", true
	}
	if n, err := strconv.ParseUint(s, 0, 63); err == nil {
		switch {
		case strings.HasPrefix(s, "0x"):
			return fmt.Sprintf("%#x", n+1), true
		case strings.HasPrefix(s, "0o"):
			return fmt.Sprintf("0o%o", n+1), true
		case strings.HasPrefix(s, "0b"):
			return fmt.Sprintf("%#b", n+1), true
		}
		return fmt.Sprint(n + 1), true
	}
	f, err := strconv.ParseFloat(s, 64)
	return strconv.FormatFloat(f+1, 'g', -1, 64), err == nil
}

// identifier adds the mutants of true, of false, and of integer constants of the
// package.
func (w *walker) identifier(id *ast.Ident) {
	c, ok := w.p.info.Uses[id].(*types.Const)
	if !ok {
		return
	}
	if sel, ok := w.parent().(*ast.SelectorExpr); ok && sel.Sel == id {
		return
	}
	switch {
	case c.Parent() == types.Universe && id.Name == "true":
		w.add(id, "constant", "false", form{rank: rankConstant, before: "(!mutantOn(" + idMark + ") && ", after: ")"})
	case c.Parent() == types.Universe && id.Name == "false":
		w.add(id, "constant", "true", form{rank: rankConstant, before: "(mutantOn(" + idMark + ") || ", after: ")"})
	case c.Pkg() != nil && c.Pkg().Path() == w.p.Path:
		if b, ok := c.Type().Underlying().(*types.Basic); ok && b.Info()&types.IsInteger != 0 {
			w.constant(id, id.Name+" + 1")
		}
	}
}

// constant adds a mutant that replaces a number with text. It replaces a duration
// with 0, because only a clock reveals one more nanosecond.
func (w *walker) constant(e ast.Expr, text string) {
	t := types.Default(w.p.info.TypeOf(e))
	if b, ok := t.Underlying().(*types.Basic); !ok || b.Info()&types.IsNumeric == 0 {
		return
	}
	if isDuration(t) && w.text(e) != "0" {
		text = "0"
	}
	if name, ok := w.typeText(t); ok {
		w.add(e, "constant", text, form{
			rank: rankConstant, before: "mutantPick[" + name + "](" + idMark + ", ", after: ", " + text + ")",
		})
	}
}

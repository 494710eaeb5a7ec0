package weave

import (
	_ "embed"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// statement adds the mutants of a statement in a list.
func (w *walker) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok && !w.isReport(call) && !isReserve(call) {
			w.remove(s, "call removed")
		}
	case *ast.DeferStmt:
		w.remove(s, "defer removed")
	case *ast.AssignStmt:
		w.assignment(s)
	case *ast.IncDecStmt:
		op := "--"
		if s.Tok == token.DEC {
			op = "++"
		}
		w.replace(s, "operator", w.text(s.X)+op)
	case *ast.ReturnStmt:
		w.returns(s)
	case *ast.BranchStmt:
		if s.Label == nil && w.switchEndsLoop(s) {
			return
		}
		switch s.Tok {
		case token.BREAK:
			w.replace(s, "branch", strings.Replace(w.text(s), "break", "continue", 1))
		case token.CONTINUE:
			w.replace(s, "branch", strings.Replace(w.text(s), "continue", "break", 1))
		}
	}
}

// switchEndsLoop reports whether a statement is in a switch or select that ends the
// body of a loop. There, break and continue have the same effect.
func (w *walker) switchEndsLoop(s ast.Node) bool {
	inSwitch := false
	for _, n := range slices.Backward(w.stack) {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return inSwitch
		case *ast.FuncLit:
			return false
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			inSwitch = true
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		if inSwitch && len(list) > 0 && list[len(list)-1] != s {
			return false
		}
		s = n
	}
	return false
}

// isReserve reports whether a call only reserves memory.
func isReserve(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Grow"
}

// assignment adds the mutants of an assignment that declares no variable.
func (w *walker) assignment(s *ast.AssignStmt) {
	switch s.Tok {
	case token.DEFINE:
		return
	case token.ADD_ASSIGN, token.SUB_ASSIGN:
		op := " -= "
		if s.Tok == token.SUB_ASSIGN {
			op = " += "
		}
		if b, ok := w.p.info.TypeOf(s.Lhs[0]).Underlying().(*types.Basic); ok && b.Info()&types.IsNumeric != 0 {
			w.replace(s, "operator", w.text(s.Lhs[0])+op+w.text(s.Rhs[0]))
		}
	}
	for _, e := range s.Lhs {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			w.remove(s, "assignment removed")
			return
		}
	}
}

func (w *walker) remove(s ast.Stmt, kind string) {
	w.add(s, kind, "", form{rank: rankStatement, before: "if mutantOff(" + idMark + ") { ", after: " }"})
}

func (w *walker) replace(s ast.Stmt, kind, text string) {
	w.add(s, kind, text, form{
		rank: rankStatement, before: "if mutantOn(" + idMark + ") { " + text + " } else { ", after: " }",
	})
}

// returns adds the mutants of a return statement: one without the error, and one
// with zero values.
func (w *walker) returns(s *ast.ReturnStmt) {
	_, sig := w.function()
	if len(s.Results) == 0 || sig == nil || sig.Results().Len() == 0 {
		return
	}
	results := sig.Results()
	last := s.Results[len(s.Results)-1]
	fails := isError(results.At(results.Len()-1).Type()) && len(s.Results) == results.Len() && w.text(last) != "nil"
	if fails {
		w.dropError(s, last)
	}
	zeros := w.zeros(results)
	if zeros == nil || w.isConstant(s.Results) || fails && (len(s.Results) > 1 || !w.isPlainCall(last)) {
		return
	}
	text := "return " + strings.Join(zeros, ", ")
	if text != w.text(s) {
		w.before(s, "zero returned", text, text)
	}
}

// dropError adds a mutant that returns a nil error. If a call returns the error, the
// mutant still makes the call.
func (w *walker) dropError(s *ast.ReturnStmt, last ast.Expr) {
	var values []string
	for _, e := range s.Results[:len(s.Results)-1] {
		values = append(values, w.text(e))
	}
	text := "return " + strings.Join(append(values, "nil"), ", ")
	code := text
	if w.isPlainCall(last) {
		code = "_ = " + w.text(last) + "; " + text
	}
	w.before(s, "error dropped", code, code)
}

// before adds a mutant that executes code before s. The code must return.
func (w *walker) before(s ast.Stmt, kind, text, code string) {
	w.add(s, kind, text, form{rank: rankStatement, before: "if mutantOn(" + idMark + ") { " + code + " }; "})
}

// isPlainCall reports whether e is a call that does more than create an error from a
// text.
func (w *walker) isPlainCall(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && !w.isReport(call) && w.errorText(call) == nil
}

// isConstant reports whether all results are constants, nil, or empty.
func (w *walker) isConstant(results []ast.Expr) bool {
	for _, e := range results {
		c, ok := e.(*ast.CompositeLit)
		if w.p.info.Types[e].Value == nil && w.text(e) != "nil" && !(ok && len(c.Elts) == 0) {
			return false
		}
	}
	return true
}

// zeros returns the text of the zero value of each result. It returns nil if this
// file cannot name a type.
func (w *walker) zeros(results *types.Tuple) []string {
	var zeros []string
	for v := range results.Variables() {
		zero := "nil"
		switch t := v.Type().Underlying().(type) {
		case *types.Basic:
			switch {
			case t.Info()&types.IsBoolean != 0:
				zero = "false"
			case t.Info()&types.IsString != 0:
				zero = `""`
			case t.Info()&types.IsNumeric != 0:
				zero = "0"
			}
		case *types.Struct, *types.Array:
			zero = ""
		}
		if _, ok := types.Unalias(v.Type()).(*types.TypeParam); ok || zero == "" {
			name, ok := w.typeText(v.Type())
			if !ok {
				return nil
			}
			zero = "*new(" + name + ")"
		}
		zeros = append(zeros, zero)
	}
	return zeros
}

// switchText is the file that chooses the mutant of a woven package. The format verbs
// are the package name, EnvActive, EnvHits, and FileName.
//
//go:embed switch.txt
var switchText string

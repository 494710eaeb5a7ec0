package weave

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Find returns the mutants of a package that compile, in source order.
func (p *Package) Find() ([]*Mutant, error) {
	var all []*Mutant
	for _, f := range p.files {
		if generated(f) {
			continue
		}
		w := &walker{p: p, f: f}
		ast.Inspect(f.ast, w.visit)
		all = append(all, w.found...)
	}
	slices.SortStableFunc(all, func(a, b *Mutant) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.start - b.start
	})
	number(all)
	return p.compiling(all)
}

// walker finds the mutants of a file.
type walker struct {
	p     *Package
	f     *file
	stack []ast.Node
	found []*Mutant
}

// visit finds the mutants of a node. ast.Inspect also calls visit with nil after the
// children of a node.
func (w *walker) visit(n ast.Node) bool {
	if n == nil {
		w.stack = w.stack[:len(w.stack)-1]
		return true
	}
	if w.isExcluded(n) {
		return false
	}
	if s, ok := n.(ast.Stmt); ok && w.inList(s) {
		w.statement(s)
	}
	if e, ok := n.(ast.Expr); ok && w.p.info.Types[e].IsValue() || isIdent(n) {
		w.expression(n.(ast.Expr))
	}
	w.stack = append(w.stack, n)
	return true
}

func isIdent(n ast.Node) bool {
	_, ok := n.(*ast.Ident)
	return ok
}

// parent returns the parent of the visited node.
func (w *walker) parent() ast.Node {
	if len(w.stack) == 0 {
		return nil
	}
	return w.stack[len(w.stack)-1]
}

// isExcluded reports whether a node and its children have no mutants. These are
// declarations of constants and types; texts of errors, panics, and logs;
// capacities and sizes of buffers; and sums of capacities, which estimate memory.
func (w *walker) isExcluded(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.VAR
	case *ast.Field:
		return true
	case *ast.CallExpr:
		if w.isReport(n) {
			return true
		}
	case *ast.BinaryExpr:
		if isCost(n) {
			return true
		}
	case *ast.AssignStmt:
		if call, ok := n.Rhs[0].(*ast.CallExpr); ok && isReserve(call) && w.text(n.Lhs[0]) == w.text(call.Args[0]) {
			return true
		}
	}
	switch parent := w.parent().(type) {
	case *ast.CallExpr:
		return isCapacity(w.p, parent, n) || slices.ContainsFunc(w.errorText(parent), func(e ast.Expr) bool { return e == n })
	case *ast.CompositeLit:
		field, ok := n.(*ast.KeyValueExpr)
		return ok && w.isErrorField(parent, field)
	}
	return false
}

// errorText returns the arguments of a call that are the text of the error that it
// returns. Other arguments, such as a status, are no text.
func (w *walker) errorText(call *ast.CallExpr) []ast.Expr {
	sig, ok := w.p.info.TypeOf(call.Fun).(*types.Signature)
	if !ok || !sig.Variadic() || sig.Results().Len() != 1 || !implementsError(sig.Results().At(0).Type()) {
		return nil
	}
	last := sig.Params().Len() - 1
	list, ok := sig.Params().At(last).Type().(*types.Slice)
	if !ok || !types.Identical(list.Elem().Underlying(), types.NewInterfaceType(nil, nil)) || len(call.Args) < last {
		return nil
	}
	return call.Args[max(last-1, 0):] // with the format
}

// isErrorField reports whether a field of a literal is a text of an error.
func (w *walker) isErrorField(literal *ast.CompositeLit, field *ast.KeyValueExpr) bool {
	t := w.p.info.TypeOf(literal)
	value, ok := w.p.info.TypeOf(field.Value).(*types.Basic)
	return ok && value.Info()&types.IsString != 0 && (implementsError(t) || implementsError(types.NewPointer(t)))
}

func implementsError(t types.Type) bool {
	return types.Implements(t, types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
}

// isReport reports whether a call panics, logs, or makes an error from a text.
func (w *walker) isReport(call *ast.CallExpr) bool {
	if id, ok := call.Fun.(*ast.Ident); ok {
		return id.Name == "panic"
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	fn, ok := w.p.info.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil {
		return false
	}
	switch fn.Pkg().Path() {
	case "log", "log/slog", "errors":
		return fn.Pkg().Path() != "errors" || fn.Name() == "New"
	case "fmt":
		return fn.Name() == "Errorf"
	}
	return false
}

// isCapacity reports whether n is an argument of call that sets only the amount of
// reserved memory.
func isCapacity(p *Package, call *ast.CallExpr, n ast.Node) bool {
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		switch sel.Sel.Name {
		case "Grow":
			return n != call.Fun
		case "NewReaderSize", "NewWriterSize": // of bufio
			return n == call.Args[1]
		}
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Name != "make" || len(call.Args) < 2 {
		return false
	}
	if len(call.Args) == 3 {
		return n == call.Args[2]
	}
	_, isMap := p.info.TypeOf(call.Args[0]).Underlying().(*types.Map)
	return isMap && n == call.Args[1]
}

// inList reports whether a statement is in a list of statements, where several
// statements can replace it.
func (w *walker) inList(s ast.Stmt) bool {
	switch parent := w.parent().(type) {
	case *ast.BlockStmt:
		return true
	case *ast.CaseClause:
		return slices.Contains(parent.Body, s)
	case *ast.CommClause:
		return slices.Contains(parent.Body, s)
	}
	return false
}

// function returns the name of the declaration around the visited node, and the
// signature of the innermost function around it.
func (w *walker) function() (string, *types.Signature) {
	name := ""
	var sig *types.Signature
	for _, n := range w.stack {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name = n.Name.Name
			sig = w.p.info.Defs[n.Name].Type().(*types.Signature)
			if n.Recv != nil && len(n.Recv.List) == 1 {
				name = receiver(n.Recv.List[0].Type) + "." + name
			}
		case *ast.FuncLit:
			sig, _ = w.p.info.TypeOf(n).(*types.Signature)
		case *ast.ValueSpec:
			if name == "" {
				name = n.Names[0].Name
			}
		}
	}
	return name, sig
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// add records a mutant that replaces n with text.
func (w *walker) add(n ast.Node, kind, text string, form form) {
	name, _ := w.function()
	m := &Mutant{
		Package: w.p.Path, File: w.f.name, Func: name, Kind: kind, file: w.f,
		start: w.p.offset(n.Pos()), end: w.p.offset(n.End()), form: form,
	}
	w.p.describe(m, text)
	w.found = append(w.found, m)
}

func (w *walker) text(n ast.Node) string { return w.p.text(w.f, n) }

// typeText returns the text of a type in this file, or false if the file does not
// import a package of the type.
func (w *walker) typeText(t types.Type) (string, bool) {
	ok := true
	text := types.TypeString(t, func(pkg *types.Package) string {
		if pkg.Path() == w.p.Path {
			return ""
		}
		for _, spec := range w.f.ast.Imports {
			if strings.Trim(spec.Path.Value, `"`) != pkg.Path() {
				continue
			}
			if spec.Name != nil {
				return spec.Name.Name
			}
			return pkg.Name()
		}
		ok = false
		return pkg.Name()
	})
	return text, ok
}

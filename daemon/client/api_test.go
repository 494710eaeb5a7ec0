package client

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/fuzz/race"
)

// wirePackage defines the messages of the protocol.
const wirePackage = "crabmem/daemon/wire/pb"

// TestNoMessagesInAPI walks the exported API: no signature and no exported field
// contains a message of the protocol.
func TestNoMessagesInAPI(t *testing.T) {
	race.Skip(t)
	pkg := checkPackage(t)
	w := &apiWalk{pkg: pkg, seen: make(map[types.Type]bool)}
	names := 0
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			names++
			w.walk(name, o.Type())
		}
	}
	for _, path := range w.found {
		t.Errorf("%s is a type of %s", path, wirePackage)
	}
	if names < 15 || !w.seen[pkg.Scope().Lookup("Client").Type()] {
		t.Errorf("%d exported names: the walk saw too little", names)
	}
}

// apiWalk visits every type that users of a package see.
type apiWalk struct {
	pkg   *types.Package
	seen  map[types.Type]bool
	found []string // where types of wirePackage are
}

func (w *apiWalk) walk(path string, t types.Type) {
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == wirePackage {
		w.found = append(w.found, path)
		return
	}
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		w.walk(path, types.Unalias(t))
	case *types.Named:
		w.named(path, t)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				w.walk(path+"."+f.Name(), f.Type())
			}
		}
	case *types.Signature:
		w.walk(path, t.Params())
		w.walk(path, t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			w.walk(path, v.Type())
		}
	case *types.Interface:
		for m := range t.Methods() {
			w.walk(path+"."+m.Name(), m.Type())
		}
	case *types.Map:
		w.walk(path, t.Key())
		w.walk(path, t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.walk(path, t.Elem())
	}
}

// named visits a type argument, a type of the package, and the exported fields
// of another package of the module.
func (w *apiWalk) named(path string, t *types.Named) {
	for a := range t.TypeArgs().Types() {
		w.walk(path, a)
	}
	p := t.Obj().Pkg()
	switch {
	case p == nil:
		return
	case p == w.pkg:
		path = t.Obj().Name()
		for m := range t.Methods() {
			if m.Exported() {
				w.walk(path+"."+m.Name(), m.Type())
			}
		}
	case !strings.HasPrefix(p.Path(), "crabmem/"):
		return
	}
	w.walk(path, t.Underlying())
}

// checkPackage returns the type-checked package of this directory.
func checkPackage(t *testing.T) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "_test.go") }) {
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	export := make(map[string]string)
	for line := range bytes.Lines(out) {
		path, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		export[path] = file
	}
	c := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })}
	pkg, err := c.Check("crabmem/daemon/client", fset, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

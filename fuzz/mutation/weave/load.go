// Package weave finds one-line mutations of a package. It writes a copy of the
// sources that contains many of them. An id in the environment activates one. So
// tests compile the copy once and run it once per mutant.
package weave

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Package is a type-checked package without its tests.
type Package struct {
	Path string // import path
	Dir  string
	Name string

	root  string // root directory of the module
	fset  *token.FileSet
	files []*file
	info  *types.Info
	imp   types.Importer
}

type file struct {
	path string // absolute
	name string // relative to the module, with slashes
	src  []byte
	ast  *ast.File
}

// Load type-checks the packages that match patterns of the go command. It uses the
// files that the go command builds on this system.
func Load(root string, patterns ...string) ([]*Package, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	listed, err := list(root, patterns)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range listed {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	imp := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("import %s: no export data", path)
		}
		return os.Open(exports[path])
	})
	var packages []*Package
	for _, l := range listed {
		if l.DepOnly {
			continue
		}
		p := &Package{Path: l.ImportPath, Dir: l.Dir, Name: l.Name, root: root, fset: fset, imp: imp}
		if err := p.parse(l.GoFiles); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

type listedPackage struct {
	ImportPath, Dir, Name, Export string
	GoFiles                       []string
	DepOnly                       bool
}

func list(root string, patterns []string) ([]listedPackage, error) {
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Name,Export,GoFiles,DepOnly"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	var listed []listedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := d.Decode(&p); err == io.EOF {
			return listed, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		listed = append(listed, p)
	}
}

func (p *Package) parse(names []string) error {
	var files []*ast.File
	for _, name := range names {
		path := filepath.Join(p.Dir, name)
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(p.fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(p.root, path)
		if err != nil {
			return err
		}
		p.files = append(p.files, &file{path: path, name: filepath.ToSlash(rel), src: src, ast: parsed})
		files = append(files, parsed)
	}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}
	conf := types.Config{Importer: p.imp}
	_, err := conf.Check(p.Path, p.fset, files, p.info)
	return err
}

// offset returns the byte offset of pos in its file.
func (p *Package) offset(pos token.Pos) int { return p.fset.Position(pos).Offset }

// text returns the source of a node.
func (p *Package) text(f *file, n ast.Node) string {
	return string(f.src[p.offset(n.Pos()):p.offset(n.End())])
}

// generated reports whether a file is generated code.
func generated(f *file) bool { return ast.IsGenerated(f.ast) }

// oneLine replaces each run of white space with one space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

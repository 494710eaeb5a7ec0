package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The policies of the project, checked on the sources. The test process parses
// them, because the test cache sees the files that a test opens, but not those
// that a child process opens.

// top is the directory of the module.
const top = "../.."

// mayImport lists the permitted imports of each package within the module. A
// package that is not listed, nor under a listed directory, is an error: add
// it. The list may contain future packages.
var mayImport = map[string][]string{
	"crmem/vfs":                  {},
	"crmem/vfs/faultfs":          {"crmem/vfs"},
	"crmem/vfs/vfstest":          {"crmem/vfs"},
	"bm25":                       {"bm25/analysis"},
	"bm25/analysis":              {},
	"bm25/clip":                  {},
	"daemon/wire/pb":             {},
	"testdata":                   {},
	"crmem":                      {"bm25/clip", "crmem/vfs", "bm25", "bm25/analysis", "crmem/internal/format", "crmem/metadata", "crmem/internal/blocks", "crmem/embed", "crmem/vector", "crmem/fusion"},
	"crmem/tree":                 {"bm25/clip", "crmem", "crmem/metadata", "crmem/vfs", "crmem/internal/format"},
	"crmem/inspect":              {"crmem", "crmem/internal/format"},
	"crmem/embed":                {},
	"crmem/embed/embedtest":      {"crmem/embed"},
	"crmem/embed/endpoint":       {"bm25/clip", "crmem/embed"},
	"crmem/embed/static":         {"crmem/vfs"},
	"crmem/vector":               {"crmem/internal/format"},
	"crmem/fusion":               {"crmem/embed", "crmem/vector"},
	"daemon/embedder":            {"crmem/embed", "crmem/embed/endpoint", "crmem/embed/static", "crmem/vfs", "daemon/config", "crmem/fusion"},
	"crmem/links":                {"bm25/clip", "crmem", "crmem/metadata"},
	"crmem/lint":                 {"crmem", "crmem/links", "crmem/metadata"},
	"crmem/metadata":             {"bm25/clip"},
	"crmem/metadata/metatest":    {},
	"crmem/recall":               {"crmem", "bm25", "bm25/analysis", "bm25/snippet", "crmem/budget", "crmem/metadata", "crmem/fusion"},
	"crmem/recalleval":           {"crmem", "bm25/analysis", "crmem/embed", "crmem/fusion", "crmem/metadata", "crmem/vfs"},
	"bm25/snippet":               {"bm25/clip", "bm25/analysis"},
	"crmem/budget":               {"bm25/clip", "bm25/analysis", "bm25/snippet"},
	"sessionlog":                 {"bm25/clip", "sessionlog/record", "sessionlog/internal/line", "sessionlog/internal/feed", "crmem/vfs"},
	"sessionlog/record":          {},
	"sessionlog/search":          {"bm25/clip", "sessionlog", "sessionlog/record", "sessionlog/internal/line", "sessionlog/internal/feed", "crmem/vfs", "bm25", "bm25/analysis", "bm25/snippet", "crmem/embed", "crmem/fusion", "crmem/vector"},
	"sessionlog/internal/line":   {"sessionlog/record"},
	"sessionlog/internal/feed":   {"sessionlog/internal/line", "crmem/vfs"},
	"crmem/internal/format":      {},
	"crmem/internal/blocks":      {"crmem/internal/format"},
	"sessionlog/foreign":         {"bm25/clip", "sessionlog", "sessionlog/record", "sessionlog/internal/line", "crmem/vfs"},
	"daemon/wire":                {"daemon/wire/pb", "crmem/vfs"},
	"daemon/display":             {"bm25/clip"},
	"daemon/timetext":            {},
	"daemon/errtable":            {"crmem", "crmem/tree", "crmem/vfs", "sessionlog", "sessionlog/record", "daemon/model/chat"},
	"daemon/board":               {"bm25/clip", "crmem/metadata"},
	"daemon/cortex":              {"crmem", "crmem/links", "crmem/lint", "crmem/metadata", "crmem/vfs", "daemon/journal"},
	"daemon/op":                  {"daemon/board", "daemon/cortex", "crmem/vfs", "daemon/role", "daemon/usage", "crmem", "daemon/config", "daemon/trust", "bm25", "daemon/cron", "daemon/display", "daemon/errtable", "daemon/model", "daemon/once", "daemon/session", "daemon/space", "daemon/tool", "bm25/analysis", "bm25/clip", "bm25/snippet", "crmem/budget", "crmem/fusion", "crmem/links", "crmem/lint", "crmem/metadata", "crmem/recall", "crmem/tree", "daemon/secret/scan", "daemon/timetext", "daemon/agent", "sessionlog", "sessionlog/record", "sessionlog/search"},
	"daemon/remote":              {"crmem", "crmem/vfs", "daemon/agent", "daemon/errtable", "daemon/guard", "daemon/op", "daemon/secret"},
	"daemon/client":              {"sessionlog", "daemon/op", "daemon/space", "crmem", "crmem/tree", "crmem/recall", "daemon/errtable", "daemon/wire", "daemon/wire/pb", "crmem/vfs", "crmem/fusion"},
	"daemon/workspace":           {"crmem/vfs", "daemon/config", "daemon/errtable"},
	"daemon/hub":                 {"crmem/vfs", "daemon/config", "daemon/display", "daemon/errtable", "daemon/lazyregexp", "daemon/skill", "daemon/tool"},
	"daemon/config":              {"daemon/cron", "daemon/lazyregexp", "daemon/timetext", "bm25/clip", "daemon/display", "crmem/vfs", "daemon/approval", "daemon/errtable", "daemon/model", "daemon/secret", "daemon/secret/scan", "daemon/space", "daemon/trust", "crmem", "crmem/embed/static", "crmem/fusion", "crmem/metadata"},
	"daemon/space":               {"daemon/display", "crmem", "crmem/vfs", "daemon/errtable"},
	"daemon/trust":               {"daemon/space", "daemon/tool"},
	"daemon/secret":              {"crmem/vfs", "daemon/errtable"},
	"daemon/cron":                {"daemon/lazyregexp", "bm25/clip", "crmem/vfs"},
	"daemon/service":             {"crmem/vfs"},
	"daemon/service/component":   {"daemon/service", "crmem/vfs"},
	"daemon/service/servicetest": {"daemon/service", "daemon/service/component", "crmem/vfs"},
	"daemon/model/chat":          {"daemon/lazyregexp", "bm25/clip", "crmem/embed/endpoint", "sessionlog", "sessionlog/record"},
	"daemon/model":               {"daemon/lazyregexp", "daemon/model/chat", "sessionlog"},
	"daemon/model/modeltest":     {},
	"daemon/guard":               {},
	"daemon/lazyregexp":          {},
	"daemon/daemontest":          {"daemon", "daemon/wire"},
	"daemon/gateway/page": {"daemon/agent", "daemon/role", "daemon/session", "bm25/clip", "bm25", "bm25/analysis", "crmem", "crmem/links", "crmem/metadata", "crmem/recall", "crmem/vfs", "sessionlog", "sessionlog/record", "sessionlog/search",
		"daemon/client", "daemon/display", "daemon/errtable", "daemon/mcp", "daemon/op", "daemon/space", "daemon/wire"},
	"daemon/box":                           {"crmem/vfs"},
	"daemon/journal":                       {"crmem/vfs"},
	"daemon/channel":                       {"bm25/clip", "crmem/vfs", "daemon/agent", "daemon/box", "daemon/client", "daemon/config", "daemon/display", "daemon/lazyregexp", "daemon/op", "daemon/role", "daemon/trust"},
	"daemon/channel/telegram":              {"bm25/clip", "crmem/vfs", "daemon/box", "daemon/channel", "daemon/config", "daemon/errtable", "daemon/trust"},
	"daemon/channel/telegram/telegramtest": {"daemon/lazyregexp"},
	"daemon/role":                          {"bm25", "bm25/analysis", "daemon/usage", "bm25/clip", "daemon/agent", "daemon/config", "daemon/display", "daemon/errtable", "daemon/session", "daemon/skill", "daemon/tool", "daemon/trust", "daemon/work", "daemon/work/external", "sessionlog", "sessionlog/record"},
	"daemon/work":                          {"bm25/clip", "crmem/vfs", "sessionlog", "sessionlog/record"},
	"daemon/work/external":                 {"bm25/clip", "daemon/config", "daemon/display", "daemon/process", "daemon/tool", "daemon/work", "sessionlog/record"},
	"daemon/once":                          {"crmem/vfs", "daemon/journal"},
	"daemon/usage":                         {"bm25/clip", "crmem/vfs", "daemon/errtable"},
	"daemon/gateway/memstores":             {"crmem", "daemon/client", "daemon/display", "daemon/errtable", "daemon/op", "daemon/space"},
	"daemon/gateway/chats":                 {"crmem/vfs", "daemon/journal"},
	"daemon/gateway": {"daemon/usage", "daemon/agent", "daemon/session", "daemon/gateway/chats", "daemon/gateway/page", "daemon/box", "daemon/gateway/memstores", "crmem", "crmem/vfs", "sessionlog",
		"daemon/client", "daemon/config", "daemon/display", "daemon/errtable", "daemon/guard", "daemon/mcp", "daemon/op", "daemon/space", "daemon/trust", "daemon/wire"},
	"daemon/mcpserver": {"bm25/clip", "daemon/guard", "daemon/display", "daemon/errtable", "daemon/op", "daemon/tool", "daemon/mcpserver/compat/memfiles", "daemon/mcpserver/compat/memgraph",
		"crmem", "crmem/vfs", "sessionlog", "sessionlog/search", "crmem/embed", "crmem/fusion"},
	"daemon/mcpserver/mcptest":         {},
	"daemon/mcpserver/compat/memfiles": {"bm25/clip", "daemon/display", "crmem"},
	"daemon/mcpserver/compat/memgraph": {"daemon/display", "daemon/errtable", "crmem"},
	"daemon/sandbox":                   {"crmem/vfs"},
	"daemon/tool":                      {"bm25/clip", "daemon/approval", "daemon/model", "daemon/sandbox", "crmem/vfs"},
	"daemon/skill":                     {"daemon/lazyregexp", "bm25/clip", "crmem/metadata", "daemon/tool", "crmem/vfs"},
	"daemon/process":                   {"daemon/tool"},
	"daemon/mcp":                       {"daemon/lazyregexp", "bm25/clip", "daemon/process", "daemon/tool", "crmem/vfs"},
	"daemon/agent":                     {"daemon/lazyregexp", "bm25/clip", "daemon/secret/scan", "daemon/model", "daemon/tool", "sessionlog", "sessionlog/record", "crmem/vfs"},
	"daemon/approval":                  {"crmem/vfs"},
	"daemon/secret/scan":               {},
	"daemon/session":                   {"daemon/usage", "bm25/clip", "daemon/approval", "daemon/display", "daemon/space", "daemon/trust", "daemon/errtable", "daemon/config", "daemon/agent", "daemon/tool", "crmem", "crmem/vfs", "sessionlog", "sessionlog/record"},
	"cmd/crabmem/internal/cli":         {"daemon/display", "daemon/errtable"},
	"cmd/crabmem/internal/mcpclient":   {"daemon/display"},
	"cmd/crabmem/internal/catalog":     {"crmem/vfs"},
	"cmd/crabmem/internal/agenthook":   {"crmem/vfs", "daemon/display", "sessionlog/foreign"},
	"cmd/crabmem/internal/doctor": {"cmd/crabmem/internal/agenthook", "cmd/crabmem/internal/cli", "cmd/crabmem/internal/mcpclient", "crmem", "crmem/vfs", "daemon", "daemon/box", "daemon/channel", "daemon/channel/telegram", "daemon/client", "daemon/config", "daemon/cron",
		"daemon/display", "daemon/errtable", "daemon/model", "daemon/gateway", "daemon/op", "daemon/sandbox", "daemon/service", "daemon/secret", "daemon/skill", "daemon/tool", "daemon/embedder"},
	"cmd/crabmem/internal/vault": {"crmem", "crmem/metadata", "crmem/tree"},
	"cmd/crabmem/internal/importer": {"daemon/lazyregexp", "bm25/clip", "cmd/crabmem/internal/cli", "cmd/crabmem/internal/vault", "crmem", "crmem/metadata", "crmem/tree", "crmem/vfs", "sessionlog", "sessionlog/foreign",
		"daemon/display", "daemon/mcpserver/compat/memgraph", "sessionlog/record"},
	"cmd/crabmem-sqlite":            {"cmd/internal/sqliterows"},
	"cmd/internal/sqliterows":       {"crmem/vfs"},
	"cmd/crabmem/internal/chat":     {"daemon/lazyregexp", "daemon/agent", "cmd/crabmem/internal/chat/tty", "cmd/crabmem/internal/cli", "crmem/vfs", "daemon/client", "daemon/config", "daemon/display", "daemon/errtable", "daemon/op", "sessionlog", "bm25/analysis", "crmem", "crmem/metadata"},
	"cmd/crabmem/internal/chat/tty": {"cmd/crabmem/internal/cli", "daemon/display"},
	"daemon":                        {"crmem/metadata", "daemon/usage", "bm25/clip", "daemon/once", "daemon/op", "daemon/secret", "daemon/approval", "daemon/secret/scan", "daemon/space", "daemon/trust", "daemon/display", "daemon/errtable", "daemon/wire", "daemon/wire/pb", "daemon/box", "daemon/config", "daemon/cron", "daemon/model", "daemon/tool", "daemon/skill", "daemon/mcp", "daemon/agent", "daemon/role", "daemon/session", "daemon/work", "daemon/workspace", "crmem", "crmem/tree", "crmem/recall", "crmem/vfs", "bm25", "sessionlog", "bm25/analysis", "sessionlog/record", "sessionlog/search", "daemon/embedder", "crmem/embed", "crmem/fusion"},
}

// rivals are measured in bench and used nowhere else.
var rivals = []string{"github.com/blevesearch/bleve"}

// costly are packages that the program must not import, with their cost. The web page needs
// html/template nevertheless: it escapes each text for its place in the HTML.
var costly = map[string]string{
	"text/template":                      "a binary 3 MB larger: the linker keeps every method",
	"html/template":                      "a binary 3 MB larger: the linker keeps every method",
	"github.com/yuin/goldmark/extension": "1.3 ms CPU of each start",
	"crabmem/cmd/internal/sqliterows":    "a binary 4 MB larger",
	"modernc.org/sqlite":                 "a binary 4 MB larger",
	"github.com/openai/openai-go/v3":     "a binary 11 MB larger and half of the time of a clean build",
}

// osAllowed is the part of package os that non-test code outside crmem/vfs may
// use: environment, arguments, exit, standard streams, processes, names, and
// flags.
var osAllowed = []string{
	"Args", "DevNull", "Environ", "ErrDeadlineExceeded", "ErrExist", "ErrNotExist", "ErrPermission", "Executable", "Exit", "Expand", "ExpandEnv",
	"File", "FileInfo", "FileMode", "FindProcess", "Getegid", "Getenv", "Geteuid", "Getgid", "Getpid", "Getppid", "Getuid",
	"Hostname", "Interrupt", "Kill", "LookupEnv", "O_APPEND", "O_CREATE", "O_EXCL", "O_RDONLY", "O_RDWR", "O_SYNC", "O_TRUNC",
	"O_WRONLY", "PathError", "PathSeparator", "Pipe", "ProcAttr", "Process", "ProcessState", "Root", "Setenv", "Signal", "StartProcess", "Stderr",
	"Stdin", "Stdout", "SyscallError", "TempDir", "Unsetenv", "UserHomeDir",
}

// fileCalls are the functions of other packages that go to the file system.
var fileCalls = map[string][]string{
	"path/filepath": {"EvalSymlinks", "Glob", "Walk", "WalkDir"},
	"io/ioutil":     {"ReadAll", "ReadDir", "ReadFile", "TempDir", "TempFile", "WriteFile"},
	"syscall":       {"Open", "Mkdir", "Rename", "Unlink", "Rmdir", "Creat", "Link", "Symlink", "Truncate"},
}

var topLevel = []string{
	"LICENSE", "README.md", "bench", "bm25", "cmd", "crmem", "daemon", "fuzz", "go.mod", "go.sum", "sessionlog", "testdata",
}

// source is a parsed file of the module.
type source struct {
	pkg  string // directory under the module
	name string // with its path under the module
	test bool
	fset *token.FileSet
	file *ast.File
}

// sources returns the files of parse. The tests share them and must not change them.
func sources(t *testing.T) []source {
	t.Helper()
	list, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 60 {
		t.Fatalf("only %d Go files under %s", len(list), top)
	}
	return list
}

var parsed = sync.OnceValues(parse)

// parse parses every Go file of the module, whatever system it is for.
func parse() (list []source, err error) {
	err = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(name, top+string(filepath.Separator)))
		if d.IsDir() {
			if base := d.Name(); base != ".." && (strings.HasPrefix(base, ".") || base == "testdata" && rel != "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		list = append(list, source{path.Dir(rel), rel, strings.HasSuffix(rel, "_test.go"), fset, f})
		return nil
	})
	return list, err
}

// free reports whether a package may import every other: the commands, the examples, and
// the programs that test and measure.
func free(pkg string) bool {
	return pkg == "daemon/examples" || pkg == "cmd/crabmem" || pkg == "cmd/crabmem-sqlite" || isTestProgram(pkg)
}

func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sources(t) {
		allowed, known := mayImport[s.pkg]
		if !known && !free(s.pkg) {
			t.Errorf("%s: package %s is not in the table of imports", s.name, s.pkg)
			continue
		}
		seen[s.pkg] = true
		if s.test {
			continue
		}
		for _, i := range s.file.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if in, ok := strings.CutPrefix(p, "crabmem/"); ok && known && !slices.Contains(allowed, in) {
				t.Errorf("%s imports %s; it may import %v", s.name, in, allowed)
			}
			if rival(p) && !strings.HasPrefix(s.pkg, "bench") {
				t.Errorf("%s imports %s, which only benchmarks do", s.name, p)
			}
			if cost := costly[p]; cost != "" && !strings.HasPrefix(s.pkg, "fuzz") && s.pkg != "cmd/crabmem-sqlite" && s.pkg != "cmd/internal/sqliterows" && s.pkg != "daemon/gateway/page" {
				t.Errorf("%s imports %s: %s", s.name, p, cost)
			}
		}
	}
	for _, p := range []string{"crmem", "crmem/vfs", "bm25", "cmd/crabmem", "testdata"} {
		if !seen[p] {
			t.Errorf("package %s was not found", p)
		}
	}
}

// testPrograms are the directories of the programs that test and measure.
var testPrograms = []string{"bench", "fuzz"}

func isTestProgram(pkg string) bool {
	dir, _, _ := strings.Cut(pkg, "/")
	return slices.Contains(testPrograms, dir)
}

// TestProductImportsNoTestProgram checks that code outside bench and fuzz, tests
// excepted, imports neither them nor the file systems of tests.
func TestProductImportsNoTestProgram(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || isTestProgram(s.pkg) {
			continue
		}
		for _, i := range s.file.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if in, ok := strings.CutPrefix(p, "crabmem/"); ok && (isTestProgram(in) || in == "crmem/vfs/faultfs" ||
				in == "crmem/vfs/vfstest") {
				t.Errorf("%s imports %s; only bench, fuzz, and tests may", s.name, in)
			}
		}
	}
}

func rival(p string) bool {
	return slices.ContainsFunc(rivals, func(r string) bool { return p == r || strings.HasPrefix(p, r+"/") })
}

// calls reports each use of a name of an imported package.
func (s *source) calls(report func(pkg, name string, pos token.Position)) {
	names := make(map[string]string) // local name → import path
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		local := path.Base(p)
		if i.Name != nil {
			local = i.Name.Name
		}
		names[local] = p
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] != "" {
			report(names[x.Name], sel.Sel.Name, s.fset.Position(sel.Pos()))
		}
		return true
	})
}

func TestFilesOnlyThroughVFS(t *testing.T) {
	checked := 0
	for _, s := range sources(t) {
		// fuzz and bench are programs that test: they make their own disks.
		if s.test || s.pkg == "crmem/vfs" || strings.HasPrefix(s.pkg, "fuzz") || strings.HasPrefix(s.pkg, "bench") {
			continue
		}
		checked++
		s.calls(func(pkg, name string, pos token.Position) {
			if pkg == "os" && !slices.Contains(osAllowed, name) || slices.Contains(fileCalls[pkg], name) {
				t.Errorf("%s: %s.%s: files are reached through crmem/vfs", pos, pkg, name)
			}
		})
	}
	if checked < 40 {
		t.Errorf("only %d files were checked", checked)
	}
}

// atFirstUse are functions whose results no package variable may hold: every
// command would pay for them when it starts. sync.OnceValue makes them lazy.
var atFirstUse = map[string][]string{
	"regexp":     {"Compile", "CompilePOSIX", "MustCompile", "MustCompilePOSIX"},
	"hash/crc32": {"MakeTable"},
}

func TestNothingCompiledAtStart(t *testing.T) {
	checked := 0
	list, err := parse() // the test changes the files
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.test || strings.HasPrefix(s.pkg, "fuzz") || strings.HasPrefix(s.pkg, "bench") {
			continue
		}
		var variables []ast.Decl
		for _, d := range s.file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				variables = append(variables, g)
			}
		}
		checked += len(variables)
		s.file.Decls = withoutFunctions(variables)
		s.calls(func(pkg, name string, pos token.Position) {
			if slices.Contains(atFirstUse[pkg], name) {
				t.Errorf("%s: %s.%s runs when the program starts", pos, pkg, name)
			}
		})
	}
	if checked < 100 {
		t.Errorf("only %d declarations were checked", checked)
	}
}

// withoutFunctions empties the function literals that declarations do not call.
func withoutFunctions(decls []ast.Decl) []ast.Decl {
	called := make(map[ast.Node]bool)
	for _, d := range decls {
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				called[n.Fun] = true
			case *ast.FuncLit:
				if !called[n] {
					n.Body = &ast.BlockStmt{}
				}
			}
			return true
		})
	}
	return decls
}

func TestPrintOnlyInCommands(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || free(s.pkg) {
			continue
		}
		s.calls(func(pkg, name string, pos token.Position) {
			if pkg == "fmt" && strings.HasPrefix(name, "Print") || pkg == "os" && (name == "Stdout" || name == "Exit") {
				t.Errorf("%s: %s.%s: only commands write to standard output", pos, pkg, name)
			}
		})
	}
}

func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(topLevel, e.Name()) {
			t.Errorf("%s does not belong at the top level", e.Name())
		}
	}
	if len(entries) < 6 {
		t.Errorf("only %d entries at the top level", len(entries))
	}
}

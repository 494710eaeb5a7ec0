package hub

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/skill"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of a resource.
const (
	maxFiles = 200
	maxFile  = 1 << 20 // bytes
	maxBytes = 8 << 20
	maxDepth = 10 // directories
)

// A File is a file of a resource.
type File struct {
	Path string // relative to the resource
	Exec bool
	Data []byte
}

// A Package is a resource with its files.
type Package struct {
	Resource
	FilesRepo string // repository of the files
	Ref       string // its commit
	Files     []File
}

// checkPath returns why a file of a repository is refused for its path.
func checkPath(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth+1 {
		return fmt.Errorf("it is more than %d directories deep", maxDepth)
	}
	for _, part := range parts {
		switch folded := fold(part); {
		case part == "", part == ".", part == "..":
			return errors.New("the path leads out of the directory")
		case len(part) > 200:
			return errors.New("a name has more than 200 bytes")
		case !utf8.ValidString(part), strings.ContainsFunc(part, isHidden):
			return errors.New("a name has a control character, or is not UTF-8")
		case folded == ".git", strings.HasPrefix(folded, "git~"):
			return errors.New("a name belongs to git")
		case part[0] == '-':
			return errors.New("a name begins with -")
		case strings.ContainsAny(part, `\:*?"<>|`), strings.HasSuffix(part, "."), part != strings.TrimSpace(part):
			return errors.New("not all systems permit the name")
		}
	}
	return nil
}

// fold returns a name as systems compare names: some ignore case, and some normalize.
func fold(name string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(name))) }

// checkEntries returns why the files of a resource are refused.
func checkEntries(list []entry) error {
	if len(list) == 0 {
		return errors.New("the path has no files")
	}
	if len(list) > maxFiles {
		return fmt.Errorf("more than %d files", maxFiles)
	}
	total := int64(0)
	folded := make(map[string]string)
	for i, e := range list {
		err := checkPath(e.path)
		total += e.size
		switch {
		case err != nil:
		case e.mode == "120000":
			err = errors.New("links are not installed")
		case e.mode == "160000":
			err = errors.New("submodules are not installed")
		case e.mode != "100644" && e.mode != "100755":
			err = errors.New("not a regular file")
		case e.size > maxFile:
			err = fmt.Errorf("%d bytes, more than the limit of %d", e.size, maxFile)
		case total > maxBytes:
			err = fmt.Errorf("all files have more than %d bytes", maxBytes)
		case slices.ContainsFunc(list[:i], func(o entry) bool { return o.path == e.path }):
			err = errors.New("two files have this name")
		}
		for at := e.path; err == nil && at != "."; at = path.Dir(at) {
			if other, ok := folded[fold(at)]; ok && other != at {
				err = fmt.Errorf("some systems cannot distinguish it from %q", other)
			}
			folded[fold(at)] = at
		}
		if err != nil {
			return fmt.Errorf("%q: %w", e.path, err)
		}
	}
	return nil
}

// file returns the text of a file, or nil.
func (p *Package) file(name string) []byte {
	if i := slices.IndexFunc(p.Files, func(f File) bool { return f.Path == name }); i >= 0 {
		return p.Files[i].Data
	}
	return nil
}

// Check checks the files of a package for its type, and returns what they permit and run, a
// line each.
func (p *Package) Check() (grants []string, err error) {
	switch p.Type {
	case Skill:
		var line string
		if line, err = grantOfSkill("SKILL.md", p.Name, p.file("SKILL.md")); err != nil {
			return nil, err
		}
		grants = []string{line}
	case Agent, MCP:
		if len(p.Files) != 1 || path.Ext(p.Files[0].Path) != ".toml" {
			return nil, fmt.Errorf("%s: want one file that ends with .toml", p.Name)
		}
		p.Files[0] = File{Path: p.Name + ".toml", Data: p.Files[0].Data}
		kind := map[string]string{Agent: "agents", MCP: "mcps"}[p.Type]
		return grantsOf([]config.WorkspaceFile{{Path: p.Files[0].Path, Kind: kind, Name: p.Name, Text: p.Files[0].Data}})
	case Workspace:
		return p.checkWorkspace()
	}
	return grants, nil
}

// checkWorkspace is Check for a workspace.
func (p *Package) checkWorkspace() (grants []string, err error) {
	var files []config.WorkspaceFile
	for _, f := range p.Files {
		first, rest, _ := strings.Cut(f.Path, "/")
		kind := map[string]string{"agents": "agents", "mcp": "mcps", "cron": "cron"}[first]
		switch name, isTOML := strings.CutSuffix(rest, ".toml"); {
		case slices.Contains([]string{LockFile, ".crabmem", "data"}, fold(first)):
			return nil, fmt.Errorf("%s: crabmem writes %s: remove it from the workspace", f.Path, first)
		case f.Path == "crabmem.toml", f.Path == "walrus.toml" && p.file("crabmem.toml") == nil:
			files = append([]config.WorkspaceFile{{Path: f.Path, Text: f.Data}}, files...)
		case kind != "" && isTOML && !strings.Contains(name, "/"):
			files = append(files, config.WorkspaceFile{Path: f.Path, Kind: kind, Name: name, Text: f.Data})
		case first == "skills" && path.Base(f.Path) == "SKILL.md":
			line, err := grantOfSkill(f.Path, path.Base(path.Dir(f.Path)), f.Data)
			if err != nil {
				return nil, err
			}
			grants = append(grants, line)
		}
	}
	if len(files) == 0 || files[0].Kind != "" {
		return nil, fmt.Errorf("%s: no crabmem.toml", p.Name)
	}
	more, err := grantsOf(files)
	return append(grants, more...), err
}

func grantOfSkill(file, name string, text []byte) (string, error) {
	if text == nil {
		return "", fmt.Errorf("%s: the file is missing", file)
	}
	s, err := skill.Parse(file, text)
	if err != nil {
		return "", err
	}
	if s.Name != name {
		return "", fmt.Errorf("%s: it has the name %q, want %q", file, s.Name, name)
	}
	return "skill " + name + ": " + toolsText(s.AllowedTools, "all tools of the agent"), nil
}

// toolsText describes a list of tools; nil is all.
func toolsText(list []string, all string) string {
	switch {
	case list == nil:
		return all
	case len(list) == 0:
		return "no tools"
	}
	return "tools " + strings.Join(list, ", ")
}

// grantsOf checks the files of a workspace.
func grantsOf(files []config.WorkspaceFile) (grants []string, err error) {
	w, err := config.ReadWorkspace(vfs.OS{}, "", files)
	if err != nil {
		return nil, err
	}
	for i := range w.Agents {
		grants = append(grants, "agent "+w.Agents[i].Name+": "+toolsText(w.Agents[i].Tools, "all tools"))
	}
	for i := range w.MCPs {
		grants = append(grants, "server "+w.MCPs[i].Name+": runs "+w.MCPs[i].Describe())
	}
	for i := range w.Crons {
		grants = append(grants, "cron "+w.Crons[i].Name+": "+w.Crons[i].Schedule+": "+w.Crons[i].Message())
	}
	return grants, nil
}

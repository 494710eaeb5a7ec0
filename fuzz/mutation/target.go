package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// programPackages returns the import paths of the module's packages that its programs
// contain.
func programPackages(root string) ([]string, error) {
	return goList(root, "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", "./cmd/...")
}

// listTesters returns, for each package, the packages whose tests can detect a change:
// itself and those that import it, if they have tests. They are packages of the module,
// or match patterns.
func listTesters(root string, patterns ...string) (map[string][]string, error) {
	lines, err := goList(root, append([]string{"-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}`, "./..."}, patterns...)...)
	testers := map[string][]string{}
	for _, line := range lines {
		paths := strings.Fields(line)
		for _, path := range paths {
			testers[path] = append(testers[path], paths[0])
		}
	}
	return testers, err
}

// goList returns the lines that go list prints.
func goList(root string, args ...string) ([]string, error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/cli"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandTree returns the root command and all others, also the hidden ones, a
// parent before its children. It is the only part of the JSON tests that reads
// the program's command table. outputs are the types of each command's output.
func commandTree() (tree []*cobra.Command, outputs map[*cobra.Command]types) {
	c := newApp(nil, nil, nil)
	root := rootCommand(c)
	root.InitDefaultHelpCmd()
	return withDescendants(root), c.types
}

func withDescendants(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, withDescendants(sub)...)
	}
	return all
}

// helpCommands print help and have no JSON output. The value is the reason.
var helpCommands = map[string]string{
	"crabmem":                      noWork,
	"crabmem help":                 "prints the help of another command",
	"crabmem bench":                noWork,
	"crabmem channels":             noWork,
	"crabmem workspace":            noWork,
	"crabmem config":               noWork,
	"crabmem cron":                 noWork,
	"crabmem gateway key":          noWork,
	"crabmem hooks":                noWork,
	"crabmem hub":                  noWork,
	"crabmem model":                noWork,
	"crabmem models":               noWork,
	"crabmem metadata":             noWork,
	"crabmem secret":               noWork,
	"crabmem service":              noWork,
	"crabmem sessions":             noWork,
	"crabmem sessions compactions": noWork,
	"crabmem skills":               noWork,
	"crabmem spaces":               noWork,
}

const noWork = "groups commands and does nothing itself"

// noSuccess are the commands whose recorded cases only fail.
var noSuccess = map[string]string{
	"crabmem daemon":   "runs until a signal; its standard output is empty",
	"crabmem gateway":  "runs until a signal; its standard output is empty",
	"crabmem open":     "runs until a signal, and prints a code",
	"crabmem telegram": "runs until a signal; its standard output is empty",
}

// TestJSONCases fails for a command without a recorded success and a recorded
// failure under --json, and for a list entry that names no command. A command that
// prints the response of an operation needs no case: its script compares the output
// with the schema.
func TestJSONCases(t *testing.T) {
	cases, _ := recordedCases(t)
	tree, outputs := commandTree()
	paths := make(map[string]bool)
	for _, cmd := range tree {
		path := cmd.CommandPath()
		paths[path] = true
		if helpCommands[path] != "" {
			continue
		}
		script := filepath.Join("cmd/crabmem", jsonDir, scriptName(path)+".txtar")
		c := cases[path]
		if c == nil && printsResponse(outputs[cmd]) {
			continue
		}
		if c == nil {
			t.Errorf("%s has no JSON case: add %s with lines \"json …\" for one success and one failure, then run go test ./cmd/crabmem -run TestJSON -update", path, script)
			continue
		}
		if !c.succeeds && noSuccess[path] == "" {
			t.Errorf("%s has no recorded JSON output: add a line \"json …\" that succeeds to %s", path, script)
		}
		if !c.fails {
			t.Errorf("%s has no recorded JSON error: add a line \"json …\" that fails to %s", path, script)
		}
	}
	for _, list := range []map[string]string{helpCommands, noSuccess} {
		for path := range list {
			if !paths[path] {
				t.Errorf("%s is listed, but it is not a command", path)
			}
		}
	}
	t.Logf("%d commands, %d of them with JSON cases", len(tree), len(cases))
}

// TestJSONHelpCommands states that commands that only print help ignore --json,
// and that an unknown subcommand is a JSON error with exit code 2.
func TestJSONHelpCommands(t *testing.T) {
	for path := range helpCommands {
		words := append([]string{"--json"}, strings.Fields(path)[1:]...)
		stdout, stderr, code := answer(words...)
		if code != 0 || stderr != "" || stdout != startPage && !strings.Contains(stdout, "Usage:") {
			t.Errorf("%s --json: exit code %d, stderr %q, stdout %.80q; want the help", path, code, stderr, stdout)
		}
		stdout, stderr, code = answer(append(words, "no-such-command")...)
		if code != cli.ExitUsage || stdout != "" || !strings.HasPrefix(stderr, `{"error":{"code":2,"kind":"usage",`) {
			t.Errorf("%s no-such-command --json: exit code %d, stdout %.80q, stderr %q; want a usage error", path, code, stdout, stderr)
		}
	}
}

// TestJSONCommands compares the commands, their flags, the exit codes of their
// cases and the error kinds of each exit code with commandsGolden. It omits commands
// that need no case and have none.
func TestJSONCommands(t *testing.T) {
	cases, kinds := recordedCases(t)
	var b strings.Builder
	tree, outputs := commandTree()
	for _, cmd := range tree {
		if cases[cmd.CommandPath()] == nil && printsResponse(outputs[cmd]) && helpCommands[cmd.CommandPath()] == "" {
			continue
		}
		b.WriteString(cmd.CommandPath())
		if cmd.Hidden {
			b.WriteString(" (hidden)")
		}
		if len(cmd.Aliases) > 0 {
			fmt.Fprintf(&b, ", aliases %s", strings.Join(cmd.Aliases, ", "))
		}
		b.WriteString("\n")
		cmd.InitDefaultHelpFlag()
		writeFlags(&b, "  ", cmd.LocalNonPersistentFlags())
		writeFlags(&b, "  persistent ", cmd.PersistentFlags())
		if c := cases[cmd.CommandPath()]; c != nil {
			fmt.Fprintf(&b, "  exit codes %s\n", strings.Join(slices.Sorted(maps.Keys(c.codes)), " "))
		}
	}
	b.WriteString("error kinds\n")
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "  %s\n", k)
	}
	if *update {
		if err := os.WriteFile(commandsGolden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(commandsGolden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); d != "" {
		t.Errorf("commands differ from %s (-want +got):\n%s", commandsGolden, d)
	}
}

func writeFlags(b *strings.Builder, label string, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		fmt.Fprintf(b, "%s--%s", label, f.Name)
		if f.Shorthand != "" {
			fmt.Fprintf(b, " -%s", f.Shorthand)
		}
		fmt.Fprintf(b, " %s %q", f.Value.Type(), f.DefValue)
		if f.NoOptDefVal != "" {
			fmt.Fprintf(b, " novalue %q", f.NoOptDefVal)
		}
		if f.Hidden {
			b.WriteString(" (hidden)")
		}
		if f.Deprecated != "" {
			b.WriteString(" (deprecated)")
		}
		b.WriteString("\n")
	})
}

func scriptName(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "crabmem "), " ", "_")
}

// jsonCase sums up the recorded steps of one command.
type jsonCase struct {
	succeeds, fails bool
	codes           map[string]bool
}

var (
	exitLine  = regexp.MustCompile(`(?m)^exit (-?[0-9]+)$`)
	errorLine = regexp.MustCompile(`(?m)^err \{"error":\{"code":([0-9]+),"kind":"([a-z_]+)"`)
)

// recordedCases reads the golden files of all scripts and returns the cases of
// each command path and "CODE KIND" of each JSON error. A step is a case of its
// command only in the script that has the name of the command.
func recordedCases(t *testing.T) (cases map[string]*jsonCase, kinds map[string]bool) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(jsonDir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	tree, _ := commandTree()
	root := tree[0]
	cases, kinds = make(map[string]*jsonCase), make(map[string]bool)
	for _, script := range scripts {
		name := strings.TrimSuffix(script, ".txtar")
		for _, s := range readJSONSteps(name + ".golden") {
			exit := exitLine.FindStringSubmatch(s.result)
			if exit == nil {
				t.Fatalf("%s: %s has no exit code; rewrite the golden files with -update", script, s.command)
			}
			if e := errorLine.FindStringSubmatch(s.result); e != nil {
				kinds[e[1]+" "+e[2]] = true
			}
			cmd, _, err := root.Find(strings.Fields(s.command)[2:])
			if err != nil || scriptName(cmd.CommandPath()) != filepath.Base(name) {
				continue
			}
			c := cases[cmd.CommandPath()]
			if c == nil {
				c = &jsonCase{codes: make(map[string]bool)}
				cases[cmd.CommandPath()] = c
			}
			c.codes[exit[1]] = true
			c.succeeds = c.succeeds || exit[1] == "0" && strings.HasPrefix(s.result, "out ")
			c.fails = c.fails || exit[1] != "0"
		}
	}
	return cases, kinds
}

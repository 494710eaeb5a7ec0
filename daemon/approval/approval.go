// Package approval decides which shell commands an allowlist of prefixes permits.
//
// A prefix is a program, or a program and its first words, such as "git status".
// The allowlist permits a command if it permits every program that a bash parser
// finds in the command: at the start, in pipelines, and in substitutions.
//
// It never permits a command with a redirection to a file, a variable before a
// program, a function, or a builtin that runs its arguments: these can change what
// a program does or where its output goes. Such a command needs a user's approval.
package approval

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Default is the allowlist of a daemon whose configuration has none. It contains
// programs that only read, whatever their arguments are. It does not contain test
// and printf, which evaluate a subscript after -v, and git, whose configuration
// names programs.
var Default = []string{
	"basename", "cat", "cd", "cut", "dirname", "echo", "false", "grep", "head", "ls", "pwd", "realpath", "stat", "tail", "tr", "true", "uname",
	"wc", "whoami",
}

// runners are programs that run their arguments, a script, or the text of a file.
// A prefix of one would permit every command.
var runners = []string{
	".", "[", "ash", "awk", "bash", "builtin", "bun", "chroot", "command", "dash", "deno", "doas", "docker", "env", "eval", "exec", "find", "fish",
	"gawk", "ionice", "ksh", "lua", "make", "mawk", "nice", "node", "nohup", "npx", "nsenter", "parallel", "perl", "php", "podman", "printf", "python",
	"python3", "ruby", "script", "sed", "setsid", "sh", "source", "ssh", "stdbuf", "strace", "su", "sudo", "tclsh", "test", "time", "timeout", "trap",
	"unshare", "uvx", "watch", "xargs", "zsh",
}

// families are programs whose first argument is a subcommand.
var families = []string{
	"apt", "apt-get", "brew", "cargo", "gh", "git", "go", "helm", "journalctl", "kubectl", "npm", "pip", "pnpm", "systemctl", "terraform", "uv", "yarn",
}

const (
	maxCommand = 16 << 10 // bytes to parse
	maxParts   = 16       // programs of one command
)

// Missing returns the prefixes that allow lacks to permit a command. They are nil
// if allow permits the command. known is false if no allowlist can permit it.
func Missing(command string, allow []string) (missing []string, known bool) {
	programs, ok := programs(command)
	if !ok {
		return nil, false
	}
	for _, words := range programs {
		if permits(allow, words) {
			continue
		}
		prefix := words[0]
		if slices.Contains(runners, prefix) {
			return nil, false
		}
		if len(words) > 1 && slices.Contains(families, prefix) && subcommand(words[1]) {
			prefix += " " + words[1]
		}
		if !slices.Contains(missing, prefix) {
			missing = append(missing, prefix)
		}
	}
	return missing, true
}

// Check returns an error for a prefix that no command can match.
func Check(prefix string) error {
	words, ok := programs(prefix)
	if !ok || strings.Join(words[0], " ") != prefix {
		return fmt.Errorf("%q: want a program and its first words, separated by single spaces", prefix)
	}
	return nil
}

func permits(allow []string, words []string) bool {
	return slices.ContainsFunc(allow, func(prefix string) bool {
		p := strings.Split(prefix, " ")
		return len(words) >= len(p) && slices.Equal(words[:len(p)], p)
	})
}

// subcommand reports whether a word has the form of a subcommand: it is not a flag
// or a path.
func subcommand(word string) bool {
	for _, r := range word {
		if r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return word != "" && word[0] != '-'
}

// programs returns the literal words that each program of a command begins with.
// ok is false if the command contains more than programs, such as a redirection to
// a file or a function, or cannot be parsed.
func programs(command string) (list [][]string, ok bool) {
	if len(command) > maxCommand || strings.ContainsRune(command, 0) {
		return nil, false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, false
	}
	ok = true
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			ok = ok && !n.Background && !n.Coprocess && !slices.ContainsFunc(n.Redirs, writes)
		case *syntax.CallExpr:
			words := literals(n.Args)
			ok = ok && len(words) > 0 && len(list) < maxParts
			list = append(list, words)
		case *syntax.File, *syntax.BinaryCmd, *syntax.Subshell, *syntax.Block, *syntax.Redirect, *syntax.Word, *syntax.Lit,
			*syntax.SglQuoted, *syntax.DblQuoted, *syntax.CmdSubst, *syntax.Comment:
		case *syntax.ParamExp:
			// Other forms can assign or evaluate.
			ok = ok && n.Exp == nil && n.Index == nil && n.Slice == nil && n.Repl == nil && !n.Excl
		case nil:
		default:
			ok = false
		}
		return ok
	})
	return list, ok && len(list) > 0
}

// literals returns the words before the first one that bash expands.
func literals(args []*syntax.Word) (words []string) {
	for _, w := range args {
		text, ok := literal(w.Parts)
		if !ok {
			break
		}
		words = append(words, text)
	}
	return words
}

// literal returns the text of the parts of a word if bash does not expand any part.
func literal(parts []syntax.WordPart) (string, bool) {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "\\*?[{~") && p.Value != "[" {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok || p.Dollar || strings.Contains(l.Value, "\\") {
					return "", false
				}
				b.WriteString(l.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// writes reports whether a redirection may write to a file or is of an unknown
// form. Copies of descriptors, reads, here-documents, and /dev/null do not count.
func writes(r *syntax.Redirect) bool {
	switch r.Op {
	case syntax.DplIn, syntax.DplOut:
		text, ok := literal(r.Word.Parts)
		return !ok || text == "" || strings.Trim(text, "0123456789-") != ""
	case syntax.RdrIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return false
	case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll:
		text, ok := literal(r.Word.Parts)
		return !ok || text != "/dev/null"
	}
	return true
}

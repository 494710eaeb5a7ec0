package approval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line is a text as pipelines, which run one after the other.
type Line []Pipeline

// Pipeline is commands that run concurrently, each reading the output of the one
// before. Its exit code is that of the last command.
type Pipeline struct {
	After    string // operator before it: "", ";", "&&", or "||"
	Commands []Command
}

// Command is an argument vector.
type Command struct {
	Words     []string // Words[0] as in the text
	Redirects []string // elements of Redirects, in order
	Path      string   // of the program; "" for cd, echo, false, pwd, and true
	ReadOnly  bool     // the program runs in the read-only profile
}

// Redirects are the redirections of the grammar.
var Redirects = []string{"2>&1", "2>/dev/null", "</dev/null", ">/dev/null"}

const (
	maxText     = 16 << 10 // bytes
	maxCommands = 16       // of one text
)

// parse reads a text with the grammar of this package. Its commands have no paths.
func parse(text string) (Line, error) {
	switch {
	case len(text) > maxText:
		return nil, fmt.Errorf("command has more than %d bytes", maxText)
	case !utf8.ValidString(text):
		return nil, errors.New("command is not UTF-8")
	}
	p := parser{rest: text, line: Line{{Commands: []Command{{}}}}}
	for p.blanks(); p.rest != ""; p.blanks() {
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	last := &p.line[len(p.line)-1]
	if last.After == ";" && len(last.Commands) == 1 && p.command().isEmpty() {
		p.line = p.line[:len(p.line)-1]
	}
	if p.command().isEmpty() {
		return nil, errors.New("a command is empty")
	}
	return p.line, nil
}

type parser struct {
	rest  string
	line  Line
	count int // ended commands
}

func (p *parser) blanks() { p.rest = strings.TrimLeft(p.rest, " ") }

// command returns the command that the next word belongs to.
func (p *parser) command() *Command {
	list := p.line[len(p.line)-1].Commands
	return &list[len(list)-1]
}

func (c *Command) isEmpty() bool { return len(c.Words) == 0 }

// next reads an operator, a redirection, or a word.
func (p *parser) next() error {
	for _, op := range []string{"||", "&&", "|", ";"} {
		if rest, ok := strings.CutPrefix(p.rest, op); ok {
			p.rest = rest
			return p.operator(op)
		}
	}
	if word, err := p.redirect(); word != "" || err != nil {
		cmd := p.command()
		cmd.Redirects = append(cmd.Redirects, word)
		if err == nil && cmd.isEmpty() {
			err = errors.New("a redirection precedes its command")
		}
		return err
	}
	word, err := p.word()
	if err != nil {
		return err
	}
	cmd := p.command()
	if cmd.isEmpty() && (word == "" || strings.Contains(word, "=")) {
		return errors.New("a command begins with an assignment or an empty word")
	}
	cmd.Words = append(cmd.Words, word)
	return nil
}

func (p *parser) operator(op string) error {
	if p.command().isEmpty() {
		return errors.New("a command is empty")
	}
	if p.count++; p.count == maxCommands {
		return fmt.Errorf("more than %d commands", maxCommands)
	}
	if op == "|" {
		last := &p.line[len(p.line)-1]
		last.Commands = append(last.Commands, Command{})
	} else {
		p.line = append(p.line, Pipeline{After: op, Commands: []Command{{}}})
	}
	return nil
}

// redirect reads a redirection. It returns "" if the rest begins with none.
func (p *parser) redirect() (word string, err error) {
	op := ""
	for _, o := range []string{"2>&1", "2>", ">", "<"} {
		if strings.HasPrefix(p.rest, o) {
			op = o
			break
		}
	}
	if op == "" {
		return "", nil
	}
	rest := p.rest[len(op):]
	if word = op; op != "2>&1" {
		rest = strings.TrimLeft(rest, " ")
		if after, ok := strings.CutPrefix(rest, "/dev/null"); ok {
			word, rest = op+"/dev/null", after
		}
	}
	if !slices.Contains(Redirects, word) || !ended(rest) {
		return "", fmt.Errorf("a redirection is not one of %s", strings.Join(Redirects, ", "))
	}
	p.rest = rest
	return word, nil
}

// ended reports whether a word or redirection ends before rest.
func ended(rest string) bool { return rest == "" || strings.ContainsRune(" ;|&", rune(rest[0])) }

// word reads a word of plain and quoted parts.
func (p *parser) word() (string, error) {
	var b strings.Builder
	for !ended(p.rest) {
		r, size := utf8.DecodeRuneInString(p.rest)
		if r != '\'' && r != '"' {
			if !isPlain(r) {
				return "", fmt.Errorf("%q has a meaning in bash: quote it", r)
			}
			b.WriteRune(r)
			p.rest = p.rest[size:]
			continue
		}
		text, rest, ok := strings.Cut(p.rest[1:], string(r))
		if !ok {
			return "", fmt.Errorf("a quotation mark %q has no end", r)
		}
		for _, q := range text {
			if !unicode.IsPrint(q) || r == '"' && strings.ContainsRune("$`\\", q) {
				return "", fmt.Errorf("%q has a meaning in bash, or is invisible", q)
			}
		}
		b.WriteString(text)
		p.rest = rest
	}
	if p.rest != "" && p.rest[0] == '&' && !strings.HasPrefix(p.rest, "&&") {
		return "", errors.New("a command runs in the background")
	}
	return b.String(), nil
}

// isPlain reports whether a rune has no meaning in a shell outside quotes.
func isPlain(r rune) bool {
	return strings.ContainsRune("%+,-./:=@_", r) || unicode.In(r, unicode.L, unicode.M, unicode.N)
}

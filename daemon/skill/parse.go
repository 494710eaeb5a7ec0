package skill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/crmem/metadata"
	"crabmem/daemon/lazyregexp"

	"go.yaml.in/yaml/v3"
)

// maxFront is where the front matter of a file ends at the latest, in bytes.
const maxFront = 32 << 10

// maxItems bounds each list and mapping of a front matter.
const maxItems = 256

// Parse parses the file of a skill. file is only for messages. An error is a
// *Problem.
func Parse(file string, contents []byte) (Skill, error) {
	if len(contents) > maxFile {
		return Skill{}, tooLarge(file, int64(len(contents)))
	}
	s, body, err := parseFront(file, contents)
	if err != nil {
		return Skill{}, err
	}
	text := string(contents[body:])
	line := 1 + bytes.Count(contents[:body], []byte("\n"))
	if i := strings.IndexByte(text, 0); i >= 0 {
		return Skill{}, &Problem{File: file, Line: line + strings.Count(text[:i], "\n"), Text: "a NUL byte", Remedy: "remove the byte: a skill is text"}
	}
	if !utf8.ValidString(text) {
		return Skill{}, notUTF8(file, line, text)
	}
	s.Body = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if s.Body == "" {
		s.problems = append(s.problems, &Problem{File: file, Text: "no text after the front matter", Remedy: "write the instructions after the front matter", Warning: true})
	}
	if len(s.Body) > maxText {
		s.problems = append(s.problems, &Problem{
			File: file, Text: fmt.Sprintf("%d bytes after the front matter; the model receives at most the first %d", len(s.Body), maxText),
			Remedy: "move rarely needed text to other files in its directory", Warning: true,
		})
	}
	return s, nil
}

func tooLarge(file string, size int64) *Problem {
	return &Problem{File: file, Text: fmt.Sprintf("%d bytes, more than the limit of %d", size, maxFile), Remedy: "move rarely needed text to other files in its directory"}
}

func notUTF8(file string, line int, text string) *Problem {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				line += strings.Count(text[:i], "\n")
				break
			}
		}
	}
	return &Problem{File: file, Line: line, Text: "not valid UTF-8", Remedy: "save it as UTF-8"}
}

// parseFront reads the front matter at the beginning of contents, of which the
// rest may be missing, and returns where it ends.
func parseFront(file string, contents []byte) (s Skill, body int, err error) {
	open, lines, end, rest, ok := metadata.Split(strings.TrimPrefix(string(contents), "\ufeff"))
	p := &Problem{File: file, Line: 1, Text: "the front matter does not end", Remedy: "end it with a line ---"}
	switch size := len(open) + len(lines) + len(end); {
	case open == "":
		p.Text, p.Remedy = "no front matter", "begin the file with a line ---, the keys name and description, and a line ---"
	case size > maxFront, !ok && len(contents) > maxFront:
		p.Text = fmt.Sprintf("the front matter does not end in the first %d bytes", maxFront)
	case ok:
		f := front{file: file, skill: &s}
		err = f.parse([]byte(lines))
		return s, len(contents) - len(rest), err
	}
	return s, 0, p
}

// front is the front matter of a file that is being read.
type front struct {
	file  string
	skill *Skill
	lines map[string]int // of the keys
}

func (f *front) problem(line int, remedy, format string, args ...any) *Problem {
	return &Problem{File: f.file, Line: line, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

func (f *front) note(warning bool, line int, remedy, format string, args ...any) {
	p := f.problem(line, remedy, format, args...)
	p.Warning = warning
	f.skill.problems = append(f.skill.problems, p)
}

func (f *front) parse(b []byte) error {
	if !utf8.Valid(b) {
		return notUTF8(f.file, 2, string(b))
	}
	root, err := f.mapping(quoteDescription(b))
	if err != nil {
		root, err = f.mapping(b)
	}
	if err != nil {
		return err
	}
	s := f.skill
	s.File, s.Metadata = f.file, make(map[string]string)
	f.lines = make(map[string]int)
	var triggers, inMetadata []string
	for i := 0; i < len(root.Content); i += 2 {
		key, v := root.Content[i], root.Content[i+1]
		line := key.Line + 1
		if f.lines[key.Value] != 0 {
			return f.problem(line, "keep one of them", "duplicate key %s: it is also in line %d", short(key.Value), f.lines[key.Value])
		}
		f.lines[key.Value] = line
		var err error
		switch key.Value {
		case "name":
			s.Name, err = f.text(key, v)
		case "description":
			s.Description, err = f.text(key, v)
			s.Description = strings.Join(strings.Fields(s.Description), " ")
		case "license":
			s.License, err = f.text(key, v)
		case "compatibility":
			s.Compatibility, err = f.text(key, v)
		case "allowed-tools":
			s.AllowedTools, err = f.list(key, v, splitTools)
			s.toolsAt = line
		case "triggers":
			triggers, err = f.list(key, v, splitWords)
		case "tags":
			s.Tags, err = f.list(key, v, splitWords)
		case "metadata":
			inMetadata, err = f.metadata(key, v)
		default:
			if nearlyAllowed(key.Value) {
				err = f.problem(line, "write allowed-tools", "%s does not limit the tools", short(key.Value))
			}
		}
		if err != nil {
			return err
		}
	}
	s.Triggers = append(triggers, inMetadata...)
	s.Tags = append(s.Tags, splitWords(s.Metadata["tags"])...)
	return f.check()
}

// nearlyAllowed reports whether a key is a variant of allowed-tools. It must
// not be ignored, because its author intends to restrict the skill.
func nearlyAllowed(key string) bool {
	return strings.EqualFold(strings.NewReplacer("-", "", "_", "", " ", "").Replace(key), "allowedtools")
}

// mapping parses the text as a mapping with string keys. It decodes no further,
// so that aliases cannot make a small text expensive.
func (f *front) mapping(b []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(b))
	err := dec.Decode(&doc)
	if err == nil {
		switch err := dec.Decode(&more); {
		case err == nil:
			return nil, f.problem(more.Line+1, "keep one of them", "a second document in the front matter")
		case !errors.Is(err, io.EOF):
			return nil, f.broken(err)
		}
	}
	if errors.Is(err, io.EOF) || err == nil && doc.Content[0].Tag == "!!null" {
		return &yaml.Node{}, nil
	}
	if err != nil {
		return nil, f.broken(err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, f.problem(root.Line+1, "write lines like name: deploy", "the front matter is not a list of keys and values")
	}
	if len(root.Content) > 2*maxItems {
		return nil, f.problem(2, "remove some", "%d keys, more than the limit of %d", len(root.Content)/2, maxItems)
	}
	for i := 0; i < len(root.Content); i += 2 {
		if k := root.Content[i]; k.Kind != yaml.ScalarNode {
			return nil, f.problem(k.Line+1, "write lines like name: deploy", "a key is not plain text")
		}
	}
	return root, nil
}

var yamlLine = lazyregexp.New(`^yaml: (?:line (\d+): )?`)

// broken converts an error of the YAML parser. The parser counts lines from the
// front matter on, and omits the number of the first line.
func (f *front) broken(err error) error {
	text := err.Error()
	line := 2
	if m := yamlLine().FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n + 1
		}
	}
	p := f.problem(line, "put the value in quotes, and indent with spaces", "the front matter is not YAML: %s", short(text))
	if strings.Contains(text, "mapping values are not allowed") {
		p.Remedy = "put the value in quotes: it contains a colon"
	}
	return p
}

// text returns a value that is text, a number or the like.
func (f *front) text(key, v *yaml.Node) (string, error) {
	switch {
	case v.Kind == yaml.AliasNode || v.Anchor != "":
		return "", f.problem(v.Line+1, "write the value out", "%s uses an anchor or an alias of YAML", short(key.Value))
	case v.Kind != yaml.ScalarNode:
		return "", f.problem(v.Line+1, "put the value in quotes", "%s is not text", short(key.Value))
	case v.Tag == "!!null":
		return "", nil
	}
	return strings.TrimSpace(v.Value), nil
}

// list returns a value that is a list, or a text that contains one. It returns
// nil if the value is missing.
func (f *front) list(key, v *yaml.Node, split func(string) []string) ([]string, error) {
	var list []string
	if v.Kind == yaml.SequenceNode && v.Anchor == "" {
		if len(v.Content) > maxItems {
			return nil, f.problem(v.Line+1, "remove some", "%s has %d items, more than the limit of %d", short(key.Value), len(v.Content), maxItems)
		}
		list = []string{}
		for _, item := range v.Content {
			text, err := f.text(key, item)
			if err != nil {
				return nil, err
			}
			if text != "" {
				list = append(list, text)
			}
		}
		return list, nil
	}
	text, err := f.text(key, v)
	if err != nil || v.Tag == "!!null" {
		return nil, err
	}
	if list = split(text); len(list) > maxItems {
		return nil, f.problem(v.Line+1, "remove some", "%s has %d items, more than the limit of %d", short(key.Value), len(list), maxItems)
	}
	return append([]string{}, list...), nil
}

// metadata reads the mapping of that name, and returns the triggers in it.
// It omits values that are not text; other programs may use them.
func (f *front) metadata(key, v *yaml.Node) (triggers []string, err error) {
	if v.Kind != yaml.MappingNode {
		if text, err := f.text(key, v); text == "" {
			return nil, err
		}
		return nil, f.problem(v.Line+1, "write keys and values below it, indented", "metadata is not a list of keys and values")
	}
	if len(v.Content) > 2*maxItems {
		return nil, f.problem(v.Line+1, "remove some", "metadata has %d keys, more than the limit of %d", len(v.Content)/2, maxItems)
	}
	for i := 0; i < len(v.Content); i += 2 {
		k, val := v.Content[i], v.Content[i+1]
		if k.Kind == yaml.ScalarNode && k.Value == "triggers" {
			if triggers, err = f.list(k, val, splitWords); err != nil {
				return nil, err
			}
			f.skill.Metadata[k.Value] = strings.Join(triggers, ", ")
			continue
		}
		name, err := f.text(key, k)
		if err == nil && val.Kind == yaml.SequenceNode {
			var items []string
			if items, err = f.list(k, val, splitWords); err == nil {
				f.skill.Metadata[name] = strings.Join(items, ", ")
				continue
			}
		}
		text, verr := f.text(k, val)
		if err = errors.Join(err, verr); err != nil {
			f.note(true, k.Line+1, "write the value as text, or ignore this warning", "omitted metadata %s: not text", short(k.Value))
			continue
		}
		f.skill.Metadata[name] = text
	}
	return triggers, nil
}

// check reports violations of the convention. It returns an error for an
// unusable value.
func (f *front) check() error {
	s := f.skill
	switch {
	case s.Name == "":
		return f.problem(max(f.lines["name"], 1), "add a line name: with the name of its directory", "no name")
	case !usable(s.Name):
		return f.problem(f.lines["name"], "use lowercase letters, digits, and hyphens, at most 64 characters", "the name %s is not usable", strconv.Quote(short(s.Name)))
	case s.Description == "":
		return f.problem(max(f.lines["description"], 1), "add a line description: with the task and when to use the skill", "no description")
	}
	if !conforms(s.Name) {
		f.note(false, f.lines["name"], "use lowercase letters, digits, and single hyphens", "the name %q breaks the convention", s.Name)
	}
	if n := utf8.RuneCountInString(s.Description); n > maxDescription {
		f.note(false, f.lines["description"], "shorten it", "the description has %d characters, more than the limit of %d", n, maxDescription)
	}
	if n := utf8.RuneCountInString(s.Compatibility); n > maxCompatibility {
		f.note(false, f.lines["compatibility"], "shorten it", "compatibility has %d characters, more than the limit of %d", n, maxCompatibility)
	}
	for _, t := range s.AllowedTools {
		if strings.Contains(t, "(") {
			f.note(true, f.lines["allowed-tools"], "remove the parentheses, or ignore this warning to allow all calls of the tool", "%s: the parentheses do not limit the tool", short(t))
		}
	}
	return nil
}

// misplaced reports that the convention requires the directory to have the
// skill's name.
func (s *Skill) misplaced() []*Problem {
	if dir := filepath.Base(s.Dir); dir != s.Name {
		return []*Problem{{File: s.File, Text: fmt.Sprintf("the skill %q is in a directory with another name: %q", s.Name, short(dir)), Remedy: "use the same name for both"}}
	}
	return nil
}

// splitTools splits at blanks and commas that are not in parentheses.
func splitTools(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		}
		return depth <= 0 && (r == ' ' || r == ',' || r == '\t' || r == '\n')
	})
}

// splitWords splits at commas.
func splitWords(text string) []string {
	var words []string
	for w := range strings.SplitSeq(text, ",") {
		if w = strings.Join(strings.Fields(w), " "); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// short shortens a text from a file for a message.
func short(text string) string { return clip.Marked(text, 100) }

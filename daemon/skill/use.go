package skill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"crabmem/daemon/tool"
)

// Limits of a list of skills. The list ends with a note that more exist.
const (
	maxListed    = 48 << 10 // bytes, in the result of the tool
	maxResources = 16 << 10 // bytes, in a prompt
)

const toolDescription = "Load a skill by name: its instructions, and the directory with its files. " +
	"A word lists the skills whose name or description contains it; an empty name lists all."

type toolArgs struct {
	Name string `json:"name,omitempty" jsonschema:"the name of a skill, a word to search for, or empty for a list"`
}

// Tool returns the tool that loads a skill. It calls loaded before it returns a
// skill, so that the caller can restrict the run with Bound. loaded may be nil.
func (s *Set) Tool(loaded func(c tool.Call, sk *Skill)) tool.Tool {
	return tool.New(tool.Skill, toolDescription, func(_ context.Context, c tool.Call, args toolArgs) (string, error) {
		if args.Name == "" {
			return s.find(c.Scope, ""), nil
		}
		sk, err := s.Get(c.Scope, args.Name)
		if errors.Is(err, ErrNotFound) {
			return s.find(c.Scope, args.Name), nil
		}
		if p, ok := errors.AsType[*Problem](err); ok {
			return "", fmt.Errorf("failed to parse skill: %w", p)
		}
		if err != nil {
			return "", err
		}
		if loaded != nil {
			loaded(c, sk)
		}
		if sk.Tier == Bundled { // it has no other files
			return sk.text(), nil
		}
		return sk.text() + "\n\nSkill directory: " + sk.Dir, nil
	})
}

// Find returns the skills that a scope allows with a text in the name or the
// description, whatever the case, without their bodies. All have the empty one.
func (s *Set) Find(scope tool.Scope, text string) []Skill {
	var list []Skill
	text = strings.ToLower(text)
	for _, sk := range s.Skills(scope) {
		if strings.Contains(strings.ToLower(sk.Name), text) || strings.Contains(strings.ToLower(sk.Description), text) {
			list = append(list, sk)
		}
	}
	return list
}

func (s *Set) find(scope tool.Scope, text string) string {
	list := s.Find(scope, text)
	if len(list) == 0 {
		return "no skills found"
	}
	var b strings.Builder
	for i := range list {
		line := list[i].line()
		if b.Len()+len(line) > maxListed {
			fmt.Fprintf(&b, "... and %d more: pass a part of the name or the description", len(list)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Resources returns the list of skills in the prompt of an agent with that scope,
// or "" if it has no skills but bundled ones.
func (s *Set) Resources(scope tool.Scope) string {
	if !scope.Tools.Allows(tool.Skill) {
		return ""
	}
	list := slices.DeleteFunc(s.Skills(scope), func(sk Skill) bool { return sk.Tier == Bundled })
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("A skill is a set of instructions for one kind of task. If a skill fits your task, first load it by name with the skill tool. " +
		"Skills in <skill> tags are already loaded.\n")
	for i := range list {
		line := "- " + strings.ReplaceAll(list[i].line(), "<", "&lt;")
		if b.Len()+len(line) > maxResources {
			fmt.Fprintf(&b, "... and %d more: the skill tool lists and finds them\n", len(list)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Preprocess replaces a message /name ARGS with ARGS and the skill of that
// name. It returns any other message unchanged, and also a message whose skill
// does not exist.
//
// It returns the skill, whose Bound restricts the run. The message must be sent
// even with an error: a *tool.Violation if the scope does not permit the skill,
// a *Problem if it cannot be used.
func (s *Set) Preprocess(scope tool.Scope, content string) (string, *Skill, error) {
	name, args, ok := slash(content)
	if !ok {
		return content, nil, nil
	}
	sk, err := s.Get(scope, name)
	if _, refused := errors.AsType[*tool.Violation](err); refused {
		// A word after a slash is a violation only if it names a skill.
		if _, ferr := s.scan().find(name); errors.Is(ferr, ErrNotFound) {
			err = ErrNotFound
		}
	}
	if errors.Is(err, ErrNotFound) {
		return content, nil, nil
	}
	if err != nil {
		return content, nil, err
	}
	if args == "" {
		return sk.Block(), sk, nil
	}
	return args + "\n\n" + sk.Block(), sk, nil
}

// slash splits a message that begins with /name.
func slash(content string) (name, args string, ok bool) {
	text, ok := strings.CutPrefix(strings.TrimLeftFunc(content, unicode.IsSpace), "/")
	if !ok {
		return "", "", false
	}
	end := strings.IndexFunc(text, func(r rune) bool { return !command(r) })
	if end < 0 {
		end = len(text)
	}
	name, args = text[:end], text[end:]
	if name == "" || len(name) > maxName || args != "" && strings.TrimLeftFunc(args, unicode.IsSpace) == args {
		return "", "", false
	}
	return name, strings.TrimSpace(args), true
}

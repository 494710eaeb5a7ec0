package skill

import (
	"errors"
	"strings"
	"unicode"

	"crabmem/daemon/tool"
)

// UnknownCommand is the error for a message /NAME if no skill has this name.
type UnknownCommand struct {
	Name    string
	Names   []string // of the skills in the scope
	Refused bool     // the skill exists outside the scope; the message does not say so
}

func (e *UnknownCommand) Error() string { return "no such command or skill: /" + e.Name }

// Command returns the text of a message for [Set.Preprocess]. For //NAME ARGS it
// returns /NAME ARGS and sets literal: Preprocess must not replace this text. For
// /NAME ARGS it returns an *UnknownCommand if the scope contains no skill NAME. It
// returns all other messages unchanged, also those whose NAME does not have the form
// of a skill's name, such as a path.
func (s *Set) Command(scope tool.Scope, content string) (text string, literal bool, err error) {
	trimmed := strings.TrimLeftFunc(content, unicode.IsSpace)
	if rest, ok := strings.CutPrefix(trimmed, "/"); ok {
		if name, _, ok := slash(rest); ok && strings.HasPrefix(rest, "/") && conforms(name) {
			return rest, true, nil
		}
	}
	name, _, ok := slash(content)
	if !ok || !conforms(name) {
		return content, false, nil
	}
	_, err = s.Get(scope, name)
	_, refused := errors.AsType[*tool.Violation](err)
	if !refused && !errors.Is(err, ErrNotFound) {
		return content, false, nil // Preprocess reports a skill that is not valid
	}
	if refused {
		_, ferr := s.scan().find(name)
		refused = !errors.Is(ferr, ErrNotFound)
	}
	var names []string
	for _, sk := range s.Skills(scope) {
		if conforms(sk.Name) {
			names = append(names, sk.Name)
		}
	}
	return content, false, &UnknownCommand{Name: name, Names: names, Refused: refused}
}

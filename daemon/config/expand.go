package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"

	"crabmem/crmem/vfs"
	"crabmem/daemon/secret"
)

// secretPrefix begins a value that is the name of a secret of the store in the home,
// and such a name between ${ and }.
const secretPrefix = "secret:"

// expand puts the environment's values in place of ${NAME}; $${ is a literal
// ${. An unset variable is a problem, and so is an empty one. If secrets is set, the
// text secret:NAME, and ${secret:NAME} in a text, are replaced by the secret NAME.
// The text is never part of a message: it may be a secret.
func (l *loader) expand(p place, key, text string, secrets bool) string {
	if name, ok := strings.CutPrefix(text, secretPrefix); ok && secrets {
		return l.fromStore(p, key, name)
	}
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			return b.String() + text
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		b.WriteString(text[:i])
		name, rest, ok := strings.Cut(text[i+2:], "}")
		switch {
		case !ok:
			p.add("%s: ${ without }", key)
			return ""
		case strings.HasPrefix(name, secretPrefix) && secrets:
			b.WriteString(l.fromStore(p, key, name[len(secretPrefix):]))
		case strings.HasPrefix(name, secretPrefix):
			p.add("%s: this key cannot use a secret of the store, because clients can see its value", key)
		case !isVariable(name):
			p.add("%s: the text between ${ and } is not a variable name", key)
		default:
			v := l.getenv(name)
			if v == "" {
				p.addVariable(key, name)
			}
			b.WriteString(v)
		}
		text = rest
	}
}

// fromStore returns a secret of the store in the home. A missing secret is a problem.
func (l *loader) fromStore(p place, key, name string) string {
	if err := secret.CheckName(name); err != nil {
		p.add("%s: the text after secret: is not the name of a secret", key)
		return ""
	}
	if l.placeholders {
		return placeholder
	}
	if l.secrets == nil && l.secretsErr == nil {
		s := &secret.Store{FS: l.fsys, Home: l.home, Keyring: secret.System(l.getenv)}
		l.secrets, l.secretsErr = s.Open()
	}
	err := l.secretsErr
	if err == nil {
		var value string
		if value, err = l.secrets.Get(name); err == nil {
			return value
		}
	}
	p.addSecret(key, name, err)
	return ""
}

// firstReference returns the first variable or secret in a text, for messages, or
// "".
func firstReference(text string) string {
	if name, ok := strings.CutPrefix(text, secretPrefix); ok && secret.CheckName(name) == nil {
		return "the secret " + name
	}
	if _, rest, ok := strings.Cut(text, "${"+secretPrefix); ok {
		if name, _, closed := strings.Cut(rest, "}"); closed && secret.CheckName(name) == nil {
			return "the secret " + name
		}
	}
	if name := firstVariable(text); name != "" {
		return "the variable " + name
	}
	return ""
}

// firstVariable returns the name of the first variable in a text, or "".
func firstVariable(text string) string {
	for {
		before, after, ok := strings.Cut(text, "${")
		if !ok {
			return ""
		}
		if name, _, closed := strings.Cut(after, "}"); closed && isVariable(name) && !strings.HasSuffix(before, "$") {
			return name
		}
		text = after
	}
}

func isVariable(name string) bool {
	for i, r := range name {
		if r != '_' && !(r < unicode.MaxASCII && unicode.IsLetter(r)) && !(i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != "" && len(name) <= 256
}

// expanded reads a text with variables in it.
func (l *loader) expanded(s *section, key string, to *string) {
	l.readText(s, key, false, to)
}

// readText reads a text with variables and, if secrets is set, secrets in it.
func (l *loader) readText(s *section, key string, secrets bool, to *string) {
	text := ""
	s.str(key, &text)
	if text != "" {
		*to = l.expand(s.at(key), s.full(key), text, secrets)
	}
}

func (l *loader) secret(s *section, key string, to *Secret) {
	text := string(*to)
	l.readText(s, key, true, &text)
	if strings.IndexFunc(text, unicode.IsControl) >= 0 {
		s.at(key).add("%s: it has a control character, such as a line end", s.full(key))
	}
	*to = Secret(text)
}

// secretFile reads a secret from the file that a key names, relative to the
// home. Only the owner may have read access to that file.
func (l *loader) secretFile(s *section, key string, to *Secret) {
	name := ""
	l.expanded(s, key, &name)
	if name == "" {
		return
	}
	p := s.at(key)
	var tree vfs.Tree = l.fsys
	switch rest, ok := strings.CutPrefix(name, "~/"); {
	case ok:
		name = filepath.Join(l.getenv("HOME"), rest)
	case !filepath.IsAbs(name) && l.tree == nil:
		p.add("%s: %s", s.full(key), reason(fs.ErrNotExist))
		return
	case !filepath.IsAbs(name):
		tree = l.tree
	}
	if filepath.IsAbs(name) {
		l.keys = append(l.keys, name)
	} else {
		l.keys = append(l.keys, filepath.Join(l.home, name))
	}
	fi, err := tree.Lstat(name)
	if err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		p.add("%s: other users may read %s (mode %04o): run chmod 600 %s", s.full(key), short(name), fi.Mode().Perm(), short(name))
		return
	}
	text := []byte(nil)
	if err == nil {
		text, err = vfs.ReadFile(tree, name, maxKey)
	}
	if err != nil {
		p.add("%s: %s: %s", s.full(key), short(name), reason(err))
		return
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" || strings.IndexFunc(secret, unicode.IsControl) >= 0 {
		p.add("%s: %s is not one line of text", s.full(key), short(name))
		return
	}
	*to = Secret(secret)
}

// env reads a table of variables.
func (l *loader) env(s *section) map[string]Secret {
	env := make(map[string]Secret, len(s.t.keys))
	for _, name := range s.t.names() {
		text := ""
		l.readText(s, name, true, &text)
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(text, "\x00") {
			s.at(name).add("%s: a name or value contains a NUL byte, or a name contains =", s.full(short(name)))
			continue
		}
		env[name] = Secret(text)
	}
	s.done()
	return env
}

// prompt reads the text file that a key names, in the home.
func (l *loader) prompt(s *section, key string, to *string) {
	name := ""
	s.str(key, &name)
	if name == "" {
		return
	}
	text, err := l.read(name, maxPrompt)
	if text == nil && err == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(pe.Err.Error(), "escapes") {
			s.at(key).add("%s: %s is not in the home directory", s.full(key), short(name))
			return
		}
		s.at(key).add("%s: %s: %s", s.full(key), short(name), reason(err))
		return
	}
	*to = strings.ToValidUTF8(string(text), "\ufffd")
}

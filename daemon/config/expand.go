package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode"

	"crabmem/crmem/vfs"
	"crabmem/daemon/secret"
)

// secretPrefix begins a value that is the name of a secret of the store in the home,
// and such a name between ${ and }.
const secretPrefix = "secret:"

// expand puts the environment's values in place of ${NAME}; $${ is a literal
// ${. An unset variable, or an empty one, breaks the part with the key. If secrets is set, the
// text secret:NAME, and ${secret:NAME} in a text, are replaced by the secret NAME.
// The text is never part of a message: it may be a secret.
func (l *loader) expand(p place, key, text string, secrets bool) string {
	if l.inWorkspace && (strings.HasPrefix(text, secretPrefix) || strings.Contains(strings.ReplaceAll(text, "$${", ""), "${")) {
		p.add("%s: a workspace cannot use secrets or variables of the home", key)
		return ""
	}
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
				l.addVariable(p, key, name, secrets)
			}
			b.WriteString(v)
		}
		text = rest
	}
}

// fromStore returns a secret of the store in the home. A missing secret breaks the part
// with the key.
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
	l.addSecret(p, key, name, err)
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

// secretFile reads a secret from the file that a key names, relative to the
// home. Only the owner may have read access to that file. An unreadable file breaks the
// part with the key.
func (l *loader) secretFile(s *section, key, name string, to *Secret) {
	if name == "" {
		return
	}
	in := *s
	in.f = l.part(s.f)
	s = &in
	var tree vfs.Tree = l.fsys
	switch rest, ok := strings.CutPrefix(name, "~/"); {
	case ok:
		name = filepath.Join(l.getenv("HOME"), rest)
	case !filepath.IsAbs(name) && l.tree == nil:
		s.add(key, "%s", reason(fs.ErrNotExist))
		return
	case !filepath.IsAbs(name):
		tree = l.tree
	}
	l.keys = append(l.keys, l.file(name).path)
	fi, err := tree.Lstat(name)
	if err == nil && fi.Mode().IsRegular() && !vfs.OnlyOwner(fi) {
		s.add(key, "other users may read %s (mode %04o): run chmod 600 %s", short(name), fi.Mode().Perm(), short(name))
		return
	}
	text := []byte(nil)
	if err == nil {
		text, err = vfs.ReadFile(tree, name, maxKey)
	}
	if err != nil {
		s.add(key, "%s: %s", short(name), reason(err))
		return
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" || strings.IndexFunc(secret, unicode.IsControl) >= 0 {
		s.add(key, "%s is not one line of text", short(name))
		return
	}
	*to = Secret(secret)
}

// textFile reads the text file that a key names, in the home.
func (l *loader) textFile(s *section, key, name string, to *string) {
	if name == "" {
		return
	}
	text, err := l.read(name, maxPrompt)
	if text == nil && err == nil {
		err = fs.ErrNotExist
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(pe.Err.Error(), "escapes") {
		s.add(key, "%s is not in the home directory", short(name))
	} else if err != nil {
		s.add(key, "%s: %s", short(name), reason(err))
	} else {
		*to = strings.ToValidUTF8(string(text), "\ufffd")
	}
}

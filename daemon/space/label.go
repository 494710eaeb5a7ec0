package space

import (
	"errors"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// otherPrefix begins the label of a space whose identity is not known. Part of the name
// follows.
const otherPrefix = "sender:"

// Owners are the names of the gateway's keys, and of those that were removed.
type Owners struct{ Keys, Removed []string }

// Describe returns the label of a space, which people read and Named understands, and
// whose space it is; empty: everybody's.
func (o *Owners) Describe(name string) (label, owner string) {
	rest, ok := strings.CutPrefix(name, senderPrefix)
	if !ok || !IsOfSender(name) {
		return name, ""
	}
	for i, keys := range [][]string{o.Keys, o.Removed} {
		for _, key := range keys {
			if OfSender(KeyOrigin+key) == name {
				return KeyOrigin + key, []string{"key " + key, "removed key " + key}[i]
			}
		}
	}
	return otherPrefix + rest[:8], "a removed key, or another sender"
}

// Named returns the name of the space that a label means: an identity such as api:phone, or
// a text of Describe. The name of a key means its space, unless a space has that name.
func Named(fsys vfs.FS, home, label string) string {
	part, isOther := strings.CutPrefix(label, otherPrefix)
	switch {
	case isOther:
		names, _ := Names(fsys, home) // an unreadable directory has no spaces
		if i := slices.IndexFunc(names, func(name string) bool { return IsOfSender(name) && strings.HasPrefix(name, senderPrefix+part) }); i >= 0 && len(part) == 8 {
			return names[i]
		}
	case strings.Contains(label, ":"):
		return OfSender(label)
	case Check(label) == nil && label != Main && exists(fsys, home, label) != nil:
		if name := OfSender(KeyOrigin + label); exists(fsys, home, name) == nil {
			return name
		}
	}
	return label
}

// Relabel returns an error about a space with the label that Named got in place of the name.
func Relabel(err error, name, label string) error {
	e, ok := errors.AsType[*errtable.Error](err)
	if !ok || name == label {
		return err
	}
	shown := *e
	shown.Message, shown.Fix = strings.ReplaceAll(e.Message, name, label), strings.ReplaceAll(e.Fix, name, label)
	return &shown
}

// Package space defines the spaces of a home: separate stores of memory. The
// space main is the file memory.db; every other space is spaces/NAME/memory.db.
package space

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"crabmem/crmem"
)

// Main is the default space of agents.
const Main = "main"

const letters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// maxName limits the name of a space, in bytes.
const maxName = 64

// Check returns an error for a name that no space can have.
func Check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name has %d bytes, more than the limit of %d", len(name), maxName)
	case strings.IndexFunc(name, func(r rune) bool { return !strings.ContainsRune(letters, r) }) >= 0 || strings.HasPrefix(name, "-"):
		return fmt.Errorf("the name %q must consist of a-z, 0-9, and '-', and begin with a letter or a digit", name)
	case isDevice(name):
		return fmt.Errorf("the name %q is a device on Windows", name)
	}
	return nil
}

// isDevice reports whether Windows reserves a name of lower-case letters and digits.
func isDevice(name string) bool {
	switch name {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(name) == 4 && (strings.HasPrefix(name, "com") || strings.HasPrefix(name, "lpt")) && name[3] >= '0' && name[3] <= '9'
}

// KeyOrigin begins the identity of a key of the gateway: api:NAME.
const KeyOrigin = "api:"

// senderPrefix begins the names of spaces that belong to one sender.
const senderPrefix = "sender-"

// OfSender returns the name of the space of an identity: a part of its SHA-256.
func OfSender(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return senderPrefix + hex.EncodeToString(sum[:16])
}

// IsOfSender reports whether OfSender returns the name for some identity.
func IsOfSender(name string) bool { return isDigest(name, senderPrefix) }

// isDigest reports whether a name is a prefix and a part of a SHA-256.
func isDigest(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	_, err := hex.DecodeString(rest)
	return ok && len(rest) == 32 && err == nil && rest == strings.ToLower(rest)
}

// workspacePrefix begins the names of spaces that are the stores of workspaces.
const workspacePrefix = "workspace-"

// OfWorkspace returns the name of the space that is the store of a workspace: a part of the
// SHA-256 of its path.
func OfWorkspace(root string) string {
	sum := sha256.Sum256([]byte(root))
	return workspacePrefix + hex.EncodeToString(sum[:16])
}

// IsOfWorkspace reports whether OfWorkspace returns the name for some path.
func IsOfWorkspace(name string) bool { return isDigest(name, workspacePrefix) }

// IsUnwritten reports whether err means that a sender or a workspace has no space yet, because
// it did not write.
func IsUnwritten(name string, err error) bool {
	return errors.Is(err, crmem.ErrNoStore) && (IsOfSender(name) || IsOfWorkspace(name))
}

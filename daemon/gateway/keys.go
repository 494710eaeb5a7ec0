package gateway

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
)

// KeyFile contains the keys of the gateway's clients, in the home. It contains no key,
// only the hash of each.
const KeyFile = "config/gateway-keys.json"

const (
	maxKeyFile = 4 << 20 // bytes
	maxKeys    = 1000
	keyPrefix  = "cmk_"
	shownBytes = 8  // of a key, which the file contains
	maxKeyName = 63 // bytes: it is part of the name of a space
	lockWait   = 5 * time.Second
)

// Key is a key of a client.
type Key struct {
	Name      string   `json:"name"`
	Begins    string   `json:"begins"` // with these characters, for people
	SHA256    string   `json:"sha256"`
	Agents    []string `json:"agents,omitempty"`  // that it may talk to; none: all
	CreatedAt string   `json:"created_at"`        // RFC 3339
	Expires   string   `json:"expires,omitempty"` // RFC 3339; empty: never
}

// Identity returns the identity for which the requests of the key are made.
func (k *Key) Identity() string { return space.KeyOrigin + k.Name }

// Allows reports whether the key may talk to an agent.
func (k *Key) Allows(agent string) bool {
	return len(k.Agents) == 0 || slices.Contains(k.Agents, agent)
}

// Expired reports whether the key is no longer valid.
func (k *Key) Expired(now time.Time) bool {
	if k.Expires == "" {
		return false
	}
	t, err := time.Parse(time.RFC3339, k.Expires)
	return err != nil || !now.Before(t)
}

// CheckKeyName returns an error for a name that no key can have.
func CheckKeyName(name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') })
	if bad || name == "" || len(name) > maxKeyName || name[0] == '-' {
		return fmt.Errorf("%q is not the name of a key: want up to %d letters a to z, digits, and hyphens", name, maxKeyName)
	}
	return nil
}

type keysFile struct {
	Keys    []Key    `json:"keys"`
	Removed []string `json:"removed,omitempty"` // names, for people: the spaces remain
}

// Keys reads the keys of a home, by name.
func Keys(fsys vfs.FS, home string) ([]Key, error) {
	file, err := readKeys(fsys, home)
	return file.Keys, err
}

// Owners returns the names of the keys of a home. An unreadable file has none.
func Owners(fsys vfs.FS, home string) *space.Owners {
	file, _ := readKeys(fsys, home)
	o := &space.Owners{Removed: file.Removed}
	for i := range file.Keys {
		o.Keys = append(o.Keys, file.Keys[i].Name)
	}
	return o
}

func readKeys(fsys vfs.FS, home string) (file keysFile, err error) {
	path := filepath.Join(home, KeyFile)
	b, err := config.ReadPrivate(fsys, path, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, err
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return keysFile{}, &errtable.Error{Kind: "format", Exit: errtable.ExitCorrupt, Path: path, Message: path + ": " + err.Error(),
			Fix: "remove the file, then add the keys again", Err: err}
	}
	return file, nil
}

// changeKeys replaces the keys of a home with the result of change, then calls after.
// Other processes that change them wait.
func changeKeys(fsys vfs.FS, home string, change func([]Key) ([]Key, error), after ...func() error) error {
	path := filepath.Join(home, KeyFile)
	return vfs.WithLock(fsys, path+".lock", lockWait, func() error {
		file, err := readKeys(fsys, home)
		if err != nil {
			return err
		}
		old := file.Keys
		if file.Keys, err = change(old); err != nil {
			return err
		}
		remains := func(name string) bool {
			return slices.ContainsFunc(file.Keys, func(k Key) bool { return k.Name == name })
		}
		for i := range old {
			file.Removed = append(file.Removed, old[i].Name)
		}
		file.Removed = slices.DeleteFunc(file.Removed, remains)
		file.Removed = file.Removed[max(0, len(file.Removed)-maxKeys):]
		sort.Slice(file.Keys, func(i, j int) bool { return file.Keys[i].Name < file.Keys[j].Name })
		b, err := json.MarshalIndent(file, "", "  ")
		if err != nil {
			return err
		}
		err = vfs.WriteFile(fsys, path, 0o600, append(b, '\n'))
		if err != nil {
			return err
		}
		return callAll(after)
	})
}

func callAll(calls []func() error) error {
	for _, f := range calls {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// AddKey adds a key to a home, and returns its text, which is stored nowhere. k has a
// name, agents, and a time when it expires. grant sets the trust in the key, before the
// key exists; no other process changes the keys during the call.
func AddKey(fsys vfs.FS, home string, k Key, now time.Time, grant ...func() error) (text string, added Key, err error) {
	if err := CheckKeyName(k.Name); err != nil {
		return "", k, errtable.Invalidf("%v", err)
	}
	var secret [32]byte
	rand.Read(secret[:]) // crypto/rand: never fails
	text = keyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	k.Begins, k.SHA256, k.CreatedAt = text[:shownBytes], op.SHA256(text), now.UTC().Format(time.RFC3339)
	err = changeKeys(fsys, home, func(keys []Key) ([]Key, error) {
		if slices.ContainsFunc(keys, func(other Key) bool { return other.Name == k.Name }) {
			return nil, &errtable.Error{Kind: "exists", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Message: fmt.Sprintf("key %q already exists", k.Name),
				Fix: "choose another name, or run crabmem gateway key remove " + k.Name}
		}
		if len(keys) >= maxKeys {
			return nil, errtable.Invalidf("%d keys exist: remove one", len(keys))
		}
		return append(keys, k), callAll(grant)
	})
	return text, k, err
}

// RemoveKey removes a key from a home. Requests with it are then refused. revoke removes
// the trust in the key after that; no other process changes the keys during the call.
func RemoveKey(fsys vfs.FS, home, name string, revoke ...func() error) error {
	return changeKeys(fsys, home, func(keys []Key) ([]Key, error) {
		left := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return k.Name == name })
		if len(left) == len(keys) {
			return nil, &errtable.Error{Kind: "not_found", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound, Message: fmt.Sprintf("no key %q", name),
				Fix: "run crabmem gateway key list to see the names"}
		}
		return left, nil
	}, revoke...)
}

// keyring finds keys by their texts. It reads the file again after it has changed.
type keyring struct {
	fs   vfs.FS
	home string

	mu     sync.Mutex
	read   vfs.FileState // before the file was read
	loaded bool
	byHash map[string]*Key
}

// find returns the key of a text, or nil.
func (r *keyring) find(text string) (*Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fi, err := r.fs.Lstat(filepath.Join(r.home, KeyFile))
	var now vfs.FileState
	if err == nil {
		now = vfs.StateOf(fi)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !r.loaded || now != r.read {
		keys, err := Keys(r.fs, r.home)
		if err != nil {
			return nil, err
		}
		r.byHash = make(map[string]*Key, len(keys))
		for i := range keys {
			r.byHash[keys[i].SHA256] = &keys[i]
		}
		r.read, r.loaded = now, true
	}
	if len(text) != len(keyPrefix)+43 {
		return nil, nil
	}
	return r.byHash[op.SHA256(text)], nil
}

package secret

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// Place is where the key of a store is.
type Place struct {
	Kind string `json:"kind" op:"words=|keyring|file"` // "" for a store without a key
	Path string `json:"path"`                          // of the file, or ""
	// Refused is why a new key is not in the keyring: an error of the keyring, or
	// "".
	Refused string `json:"-"`
}

func (p Place) String() string {
	switch {
	case p.Kind == inKeyring:
		return "the key is in the keyring"
	case p.Refused != "":
		return "the key is in the file " + p.Path + ", because the keyring failed: " + p.Refused
	case p.Kind == inFile:
		return "the key is in the file " + p.Path
	}
	return "there is no key yet"
}

func (s *Store) place(kind string) Place {
	if kind == inKeyring {
		return Place{Kind: kind}
	}
	return Place{Kind: kind, Path: filepath.Join(s.Home, KeyFile)}
}

// create returns an empty store with its key, which is durable before the store is
// written.
func (s *Store) create() (*document, *box, Place, error) {
	var id [idBytes]byte
	key := make([]byte, keyBytes)
	rand.Read(id[:])
	rand.Read(key)
	d := &document{Version: version, ID: hex.EncodeToString(id[:]), Key: inKeyring, Secrets: []record{}}
	place := s.place(inKeyring)
	if err := s.Keyring.create(d.ID, hex.EncodeToString(key)); err != nil {
		d.Key, place = inFile, s.place(inFile)
		if !errors.Is(err, errNoKeyring) {
			place.Refused = err.Error()
		}
		if key, err = s.createKeyFile(key); err != nil {
			return nil, nil, place, err
		}
	}
	b, err := newBox(key, d.ID)
	if err != nil {
		return nil, nil, place, err
	}
	d.Check = b.seal(checkLabel, "")
	return d, b, place, nil
}

// createKeyFile writes the key file. If the file exists, createKeyFile returns its
// key instead: another copy of the store may need it.
func (s *Store) createKeyFile(key []byte) ([]byte, error) {
	old, err := s.readKeyFile()
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return old, err
	}
	err = vfs.WriteFile(s.FS, filepath.Join(s.Home, KeyFile), 0o600, []byte(hex.EncodeToString(key)+"\n"))
	return key, err
}

func (s *Store) readKeyFile() ([]byte, error) {
	text, err := s.readPrivate(KeyFile, 2*keyBytes+1)
	if _, tooLarge := errors.AsType[*vfs.TooLargeError](err); err != nil && !tooLarge {
		return nil, err
	}
	key, ok := parseKey(strings.TrimSuffix(string(text), "\n"))
	if !ok {
		return nil, s.keyError(fmt.Sprintf("%s: not a key of %d bytes in hexadecimal", filepath.Join(s.Home, KeyFile), keyBytes), nil)
	}
	return key, nil
}

func parseKey(text string) ([]byte, bool) {
	key, err := hex.DecodeString(text)
	return key, err == nil && len(key) == keyBytes
}

// unlock reads the key of a store and checks that it is the right one.
func (s *Store) unlock(d *document) (*box, error) {
	key, err := s.readKey(d)
	if err != nil {
		return nil, err
	}
	b, err := newBox(key, d.ID)
	if err != nil {
		return nil, err
	}
	if _, err := b.open(checkLabel, d.Check); err != nil {
		return nil, s.keyError(fmt.Sprintf("%s: %s, but it does not open this file", s.path(), s.place(d.Key)), nil)
	}
	return b, nil
}

func (s *Store) readKey(d *document) ([]byte, error) {
	if d.Key == inFile {
		key, err := s.readKeyFile()
		if errors.Is(err, fs.ErrNotExist) {
			err = s.keyError(fmt.Sprintf("%s: the key file %s is missing", s.path(), filepath.Join(s.Home, KeyFile)), err)
		}
		return key, err
	}
	text, err := s.Keyring.get(d.ID)
	switch {
	case errors.Is(err, errNoKey):
		return nil, s.keyError(s.path()+": the keyring does not contain the key", err)
	case err != nil:
		return nil, &errtable.Error{Kind: "keyring", HTTP: http.StatusServiceUnavailable, Path: s.path(), Message: "read the key from the keyring: " + err.Error(), Err: err,
			Fix: "log in to the desktop of this user and unlock the keyring, then retry"}
	}
	key, ok := parseKey(text)
	if !ok {
		return nil, s.keyError(s.path()+": the keyring contains no valid key for it", nil)
	}
	return key, nil
}

// keyError returns the error of a key that is missing or wrong.
func (s *Store) keyError(message string, err error) error {
	return &errtable.Error{Kind: "encryption_key", Exit: errtable.ExitCorrupt, Path: s.path(), Message: message, Err: err,
		Fix: "restore the key; without it, run crabmem secret rm for each secret, then crabmem secret set"}
}

// readPrivate reads a file of the home. It returns fs.ErrPermission for a file that
// belongs to another user, or that other users can access.
func (s *Store) readPrivate(name string, limit int64) ([]byte, error) {
	name = filepath.Join(s.Home, name)
	text, fi, err := vfs.ReadFileInfo(s.FS, name, limit)
	if err != nil {
		return nil, err
	}
	refused := &errtable.Error{Kind: "permission", HTTP: http.StatusForbidden, Exit: errtable.ExitPermission, Path: name, Err: fs.ErrPermission}
	switch uid, known := vfs.Owner(fi); {
	case known && uid != os.Geteuid():
		refused.Message = fmt.Sprintf("%s belongs to user %d, but crabmem runs as user %d", name, uid, os.Geteuid())
		refused.Fix = "run chown on the file, or set another home with --home or CRABTALK_HOME"
	case !vfs.OnlyOwner(fi):
		refused.Message = fmt.Sprintf("other users can access %s: mode %04o", name, fi.Mode().Perm())
		refused.Fix = "run chmod 600 " + errtable.ShellWord(name) + ", and replace the secrets if another user may have read them"
	default:
		return text, nil
	}
	return nil, refused
}

// Package secret stores API keys and tokens in secrets.json in the home, one record
// for each name. AES-256-GCM encrypts each value. The encryption key is in the
// keyring of the operating system. On a system without a keyring, it is in
// secrets.key next to the file.
//
// The store protects copies of secrets.json without the key: backups,
// repositories, and searches. It does not protect against programs of the same
// user, which can read the key.
package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

const (
	// File is the name of the store in the home.
	File = "secrets.json"
	// KeyFile is the name of the file with the key in the home.
	KeyFile = "secrets.key"
	// MaxValue is the limit of a value in bytes.
	MaxValue = 64 << 10
	// MaxName is the limit of a name in bytes.
	MaxName = 64

	maxFile    = 8 << 20 // bytes
	maxRecords = 1000
)

// Store is the store of one home. Its methods are safe for concurrent use, also by
// several processes.
type Store struct {
	FS      vfs.FS
	Home    string
	Keyring Keyring
	// LockWait limits the wait for another process that writes.
	LockWait time.Duration
	Now      func() time.Time // nil is time.Now
}

// Info describes a record without its value.
type Info struct {
	Name string    `json:"name"`
	Set  time.Time `json:"set_at"` // in UTC, in seconds
}

// List is the content of a store without the values.
type List struct {
	Secrets []Info `json:"secrets"` // by name
	Key     Place  `json:"key"`
}

// CheckName returns an error of kind invalid unless name matches
// [a-z0-9][a-z0-9-]{0,63}.
func CheckName(name string) error {
	if isName(name) {
		return nil
	}
	e := errtable.Invalidf("invalid name of a secret: %.80q", name)
	e.Exit, e.Fix = errtable.ExitUsage, "use 1 to 64 of the characters a to z, 0 to 9, and '-'; begin with a letter or digit"
	return e
}

func isName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0) {
			return false
		}
	}
	return name != "" && len(name) <= MaxName
}

// checkValue returns an error of kind invalid for a value that a store does not
// accept.
func checkValue(value string) error {
	e := errtable.Invalidf("")
	e.Exit = errtable.ExitUsage
	switch {
	case value == "":
		e.Message, e.Fix = "the value is empty", "write the value to standard input"
	case len(value) > MaxValue:
		e.Message = fmt.Sprintf("the value has %d bytes, more than the limit of %d", len(value), MaxValue)
		e.Fix = "store a shorter value"
	case !utf8.ValidString(value):
		e.Message, e.Fix = "the value is not UTF-8", "encode the value as text"
	default:
		return nil
	}
	return e
}

func (s *Store) path() string { return filepath.Join(s.Home, File) }

// List returns the names without reading the key. A missing file is an empty
// store.
func (s *Store) List() (List, error) {
	d, err := s.read()
	if err != nil {
		return List{}, err
	}
	list := List{Secrets: []Info{}}
	if d == nil {
		return list, nil
	}
	list.Key = s.place(d.Key)
	for _, r := range d.Secrets {
		list.Secrets = append(list.Secrets, Info{r.Name, r.time()})
	}
	return list, nil
}

// Set encrypts a value and stores it under a name. When Set returns, the record is
// on disk. created reports that the name is new. The first Set of a store creates
// the key. If the key of a store with records is missing or wrong, Set changes
// nothing.
func (s *Store) Set(name, value string) (place Place, created bool, err error) {
	if err := CheckName(name); err != nil {
		return place, false, err
	}
	if err := checkValue(value); err != nil {
		return place, false, err
	}
	err = s.update(func(d *document) (*document, error) {
		var box *box
		if d == nil || len(d.Secrets) == 0 {
			d, box, place, err = s.create()
		} else {
			place = s.place(d.Key)
			box, err = s.unlock(d)
		}
		if err != nil {
			return nil, err
		}
		now := time.Now
		if s.Now != nil {
			now = s.Now
		}
		r := record{Name: name, Set: now().UTC().Truncate(time.Second).Format(time.RFC3339)}
		r.Value = box.seal(r.label(), value)
		i, found := d.find(name)
		created = !found
		if found {
			d.Secrets[i] = r
		} else {
			d.Secrets = slices.Insert(d.Secrets, i, r)
		}
		if len(d.Secrets) > maxRecords {
			return nil, errtable.Errorf(http.StatusInsufficientStorage, "full", "%s: more than %d secrets", s.path(), maxRecords)
		}
		return d, nil
	})
	return place, created, err
}

// Remove removes a record. It does not need the key. An unknown name is an error of
// kind not_found.
func (s *Store) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return s.update(func(d *document) (*document, error) {
		if d == nil {
			return nil, s.unknown(name)
		}
		i, found := d.find(name)
		if !found {
			return nil, s.unknown(name)
		}
		d.Secrets = slices.Delete(d.Secrets, i, i+1)
		return d, nil
	})
}

func (s *Store) unknown(name string) error {
	return &errtable.Error{Kind: "not_found", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound, Path: s.path(),
		Message: "secret not found: " + name, Fix: "run crabmem secret set " + name}
}

// Values are the decrypted records of a store at one time.
type Values struct {
	store *Store
	doc   *document
	box   *box
}

// Open reads the store and its key. If the store is empty, it does not read the
// key.
func (s *Store) Open() (*Values, error) {
	d, err := s.read()
	if err != nil || d == nil || len(d.Secrets) == 0 {
		return &Values{store: s, doc: &document{}}, err
	}
	b, err := s.unlock(d)
	if err != nil {
		return nil, err
	}
	return &Values{s, d, b}, nil
}

// Get returns the value of a name. An unknown name is an error of kind not_found.
func (v *Values) Get(name string) (string, error) {
	i, found := v.doc.find(name)
	if !found {
		return "", v.store.unknown(name)
	}
	r := &v.doc.Secrets[i]
	value, err := v.box.open(r.label(), r.Value)
	if err != nil {
		e := v.store.corrupt(fmt.Sprintf("the record %s is corrupt, or belongs to another name or store", name))
		e.Fix = "run crabmem secret set " + name + " to replace the record, or restore the file from a backup"
		return "", e
	}
	return value, nil
}

// Names returns the names in order.
func (v *Values) Names() []string {
	names := make([]string, len(v.doc.Secrets))
	for i := range v.doc.Secrets {
		names[i] = v.doc.Secrets[i].Name
	}
	return names
}

// update replaces the store atomically with the result of change, under a lock that
// excludes other writers. On an error the file is the old or, if only the sync of
// the directory failed, the new one.
func (s *Store) update(change func(*document) (*document, error)) error {
	return vfs.WithLock(s.FS, filepath.Join(s.Home, "run", "secrets.lock"), s.LockWait, func() error { return s.replace(change) })
}

func (s *Store) replace(change func(*document) (*document, error)) error {
	d, err := s.read()
	if err != nil {
		return err
	}
	if d, err = change(d); err != nil {
		return err
	}
	text := d.encode()
	if len(text) > maxFile {
		return errtable.Errorf(http.StatusInsufficientStorage, "full", "%s would have %d bytes, more than the limit of %d", s.path(), len(text), maxFile)
	}
	return vfs.WriteFile(s.FS, s.path(), 0o600, text)
}

// read reads the store. It returns nil for a missing file.
func (s *Store) read() (*document, error) {
	text, err := s.readPrivate(File, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := parse(text)
	if err != nil {
		return nil, s.corrupt(err.Error())
	}
	return d, nil
}

// corrupt returns the error of a file that is not a valid store. The file stays.
func (s *Store) corrupt(why string) *errtable.Error {
	return &errtable.Error{Kind: "format", Exit: errtable.ExitCorrupt, Path: s.path(), Message: s.path() + ": " + why,
		Fix: "restore the file from a backup; or move it away, and run crabmem secret set for each secret"}
}

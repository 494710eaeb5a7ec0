package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// version is the version of the file format.
const version = 1

// The values of document.Key.
const (
	inKeyring = "keyring"
	inFile    = "file"
)

// document is the content of secrets.json. A valid file is exactly the encoding of
// its document, with the records in ascending order of names.
type document struct {
	Version int      `json:"version"`
	ID      string   `json:"id"`    // random; the account of the key in the keyring
	Key     string   `json:"key"`   // inKeyring or inFile
	Check   sealed   `json:"check"` // an empty value, to recognize the key
	Secrets []record `json:"secrets"`
}

// record is one secret. Name and Set are authenticated with the value.
type record struct {
	Name  string `json:"name"`
	Set   string `json:"set_at"` // RFC 3339, in UTC, in seconds
	Value sealed `json:"value"`
}

// sealed is a nonce, a ciphertext, and a tag.
type sealed []byte

// overhead is the length of a nonce and a tag.
const overhead = 12 + 16

const (
	idBytes  = 16
	keyBytes = 32
)

func (d *document) encode() []byte {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // the types have no other values
	}
	return append(b, '\n')
}

// find returns the index of a name, or the index at which to insert it.
func (d *document) find(name string) (int, bool) {
	return slices.BinarySearchFunc(d.Secrets, name, func(r record, name string) int { return strings.Compare(r.Name, name) })
}

func (r *record) label() string { return "secret " + r.Name + " " + r.Set }

// time returns the time of a valid record.
func (r *record) time() time.Time {
	t, _ := time.Parse(time.RFC3339, r.Set)
	return t
}

// parse decodes a file. Its errors contain no text of the file except names.
func parse(text []byte) (*document, error) {
	d := &document{}
	err := json.Unmarshal(text, d)
	if d.Version > version {
		return nil, fmt.Errorf("version %d is newer than this program, which knows version %d: use a newer crabmem", d.Version, version)
	}
	if err != nil {
		return nil, errors.New("not a store of secrets, or truncated")
	}
	if id, err := hex.DecodeString(d.ID); err != nil || len(id) != idBytes || d.Version != version ||
		d.Key != inKeyring && d.Key != inFile || len(d.Check) != overhead || d.Secrets == nil || len(d.Secrets) > maxRecords {
		return nil, errors.New("the header is not valid")
	}
	for i := range d.Secrets {
		r := &d.Secrets[i]
		if !isName(r.Name) || i > 0 && d.Secrets[i-1].Name >= r.Name {
			return nil, fmt.Errorf("record %d has an invalid name or is out of order", i+1)
		}
		if t, err := time.Parse(time.RFC3339, r.Set); err != nil || t.UTC().Format(time.RFC3339) != r.Set ||
			len(r.Value) <= overhead || len(r.Value) > overhead+MaxValue {
			return nil, fmt.Errorf("the record %s is not valid", r.Name)
		}
	}
	if !bytes.Equal(d.encode(), text) {
		return nil, errors.New("the text is not what crabmem writes")
	}
	return d, nil
}

// MarshalText returns the bytes in base64.
func (s sealed) MarshalText() ([]byte, error) {
	return []byte(base64.StdEncoding.EncodeToString(s)), nil
}

// UnmarshalText is the reverse of MarshalText.
func (s *sealed) UnmarshalText(text []byte) (err error) {
	*s, err = base64.StdEncoding.Strict().DecodeString(string(text))
	return err
}

// box encrypts and decrypts the values of one store.
type box struct {
	aead cipher.AEAD
	id   string
}

func newBox(key []byte, id string) (*box, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &box{aead, id}, nil
}

// about returns the additional data of a value: a value with another label, of
// another store, or of another format version does not decrypt.
func (b *box) about(label string) []byte {
	return fmt.Appendf(nil, "crabmem secrets v%d %s %s", version, b.id, label)
}

func (b *box) seal(label, value string) sealed {
	return b.aead.Seal(nil, nil, []byte(value), b.about(label))
}

func (b *box) open(label string, s sealed) (string, error) {
	value, err := b.aead.Open(nil, nil, s, b.about(label))
	return string(value), err
}

// checkLabel is the label of document.Check.
const checkLabel = "check"

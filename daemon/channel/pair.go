package channel

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"crabmem/crmem/vfs"
)

// The limits of a pairing: with 3 tries, a guess of the code has a chance of 1 in 2^38.
const (
	PairTime   = 10 * time.Minute
	maxTries   = 3
	codeLength = 8
	codeDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // no letters that look like digits
	maxPairing = 64 << 10                           // bytes of the file
	pairWait   = 10 * time.Second                   // for the lock
)

// pairing is an open pairing of a channel: who sends its code becomes a user.
type pairing struct {
	Code    string          `json:"code"` // digest
	Expires time.Time       `json:"expires"`
	Tries   int             `json:"tries"` // left
	Rule    json.RawMessage `json:"rule"`  // table of the identity in config.toml
}

// pairFile returns the file of a channel's open pairing.
func pairFile(home, dir string) string {
	return filepath.Join(home, "run", "pair-"+dir+".json")
}

// Pair opens a pairing in place of the open one of a channel, and returns its code. rule is
// for [Redeem].
func Pair(fsys vfs.FS, home, dir string, rule json.RawMessage, now time.Time) (code string, err error) {
	random := make([]byte, codeLength)
	rand.Read(random) // never fails
	for _, b := range random {
		code += codeDigits[b%32 : b%32+1]
	}
	file := pairFile(home, dir)
	err = vfs.WithLock(fsys, file+".lock", pairWait, func() error {
		return writePairing(fsys, file, &pairing{digest(code), now.Add(PairTime).UTC(), maxTries, rule})
	})
	return code[:codeLength/2] + "-" + code[codeLength/2:], err
}

// Redeem calls use with the rule of the open pairing if text has its code, and then closes
// the pairing. Otherwise it returns false. Each wrong code takes one of the tries, before
// Redeem returns. If use fails, the pairing remains.
func Redeem(fsys vfs.FS, home, dir, text string, now time.Time, use func(rule json.RawMessage) error) (ok bool, err error) {
	code, file := codeOf(text), pairFile(home, dir)
	if code == "" {
		return false, nil
	}
	if _, err := fsys.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	err = vfs.WithLock(fsys, file+".lock", pairWait, func() error {
		ok, err = redeem(fsys, file, code, now, use)
		return err
	})
	return ok, err
}

// redeem is Redeem with the lock.
func redeem(fsys vfs.FS, file, code string, now time.Time, use func(json.RawMessage) error) (bool, error) {
	b, err := vfs.ReadFile(fsys, file, maxPairing)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var p pairing
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", file, err)
	}
	right := subtle.ConstantTimeCompare([]byte(p.Code), []byte(digest(code))) == 1
	switch p.Tries--; {
	case !now.Before(p.Expires):
		return false, closePairing(fsys, file)
	case right:
		if err := use(p.Rule); err != nil {
			return false, err
		}
		return true, closePairing(fsys, file)
	case p.Tries <= 0:
		return false, closePairing(fsys, file)
	}
	return false, writePairing(fsys, file, &p)
}

// closePairing removes a pairing durably: a power cut must not give tries back.
func closePairing(fsys vfs.FS, file string) error {
	return cmp.Or(fsys.Remove(file), fsys.SyncDir(filepath.Dir(file)))
}

func writePairing(fsys vfs.FS, file string, p *pairing) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return vfs.WriteFile(fsys, file, 0o600, b)
}

// codeOf returns the code that a text is, perhaps after /start, or "".
func codeOf(text string) string {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "/start "))
	code := strings.ToUpper(strings.ReplaceAll(text, "-", ""))
	if len(code) != codeLength || strings.Trim(code, codeDigits) != "" {
		return ""
	}
	return code
}

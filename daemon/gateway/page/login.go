package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
)

// CodeFile contains the hash of the newest login code, in the home.
const CodeFile = "config/gateway-login.json"

// CodeTime is how long a code is valid.
const CodeTime = time.Minute

const (
	loginTime   = 12 * time.Hour
	wrongWait   = 200 * time.Millisecond // before a wrong code is refused
	maxBrowsers = 100
	maxCodeFile = 4 << 10 // bytes
	maxLogin    = 4 << 10 // bytes of a form
	lockWait    = 5 * time.Second
	cookieName  = "crabmem"
)

// alphabet has 32 letters and digits, of which no two look alike.
const alphabet = "abcdefghjkmnpqrstvwxyz0123456789"

// codeFile is the content of CodeFile.
type codeFile struct {
	SHA256  string    `json:"sha256"`
	Expires time.Time `json:"expires"`
}

// NewCode returns a code for one login within a minute. It replaces earlier codes of the
// home.
func NewCode(fsys vfs.FS, home string, now time.Time) (string, error) {
	var random [10]byte
	rand.Read(random[:]) // crypto/rand: never fails
	var code strings.Builder
	for i, b := range random {
		if i == len(random)/2 {
			code.WriteByte('-')
		}
		code.WriteByte(alphabet[b%32])
	}
	b, err := json.Marshal(codeFile{op.SHA256(code.String()), now.Add(CodeTime).UTC()})
	if err != nil {
		return "", err
	}
	path := filepath.Join(home, CodeFile)
	err = locked(fsys, path, func() error {
		return vfs.WriteFile(fsys, path, 0o600, append(b, '\n'))
	})
	return code.String(), err
}

// locked calls f while no other process changes the file.
func locked(fsys vfs.FS, path string, f func() error) error {
	return vfs.WithLock(fsys, path+".lock", lockWait, f)
}

// useCode reports whether a code is valid, and removes a valid code.
func useCode(fsys vfs.FS, home, code string, now time.Time) (valid bool, err error) {
	path := filepath.Join(home, CodeFile)
	if _, err := fsys.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	err = locked(fsys, path, func() error {
		b, err := vfs.ReadFile(fsys, path, maxCodeFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		var f codeFile
		if json.Unmarshal(b, &f) != nil || !now.Before(f.Expires) || f.Expires.Sub(now) > CodeTime ||
			subtle.ConstantTimeCompare([]byte(f.SHA256), []byte(op.SHA256(code))) != 1 {
			return nil
		}
		if err := fsys.Remove(path); err != nil { // otherwise the code could be used twice
			return err
		}
		valid = true
		return nil
	})
	return valid, err
}

// browser is a browser that has logged in.
type browser struct {
	token   string // in each form
	expires time.Time
	space   string // of the pages that it loads; guarded by browsers.mu
}

// browsers has the logged-in browsers by the hash of their cookie. They log in again after
// the gateway has restarted.
type browsers struct {
	mu     sync.Mutex
	byHash map[string]*browser
}

// add adds a browser and returns its cookie. If there are too many, it removes the one
// that logged in first.
func (b *browsers) add(now time.Time) (cookie string, err error) {
	var random [64]byte
	rand.Read(random[:]) // crypto/rand: never fails
	cookie = base64.RawURLEncoding.EncodeToString(random[:32])
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.byHash) >= maxBrowsers {
		first := ""
		for hash, one := range b.byHash {
			if first == "" || one.expires.Before(b.byHash[first].expires) {
				first = hash
			}
		}
		delete(b.byHash, first)
	}
	b.byHash[op.SHA256(cookie)] = &browser{space: space.Main, token: base64.RawURLEncoding.EncodeToString(random[32:]), expires: now.Add(loginTime)}
	return cookie, nil
}

// find returns the browser of a request, or nil.
func (b *browsers) find(r *http.Request, now time.Time) *browser {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range r.CookiesNamed(cookieName) { // another server on this host may set one
		hash := op.SHA256(c.Value)
		if one := b.byHash[hash]; one != nil && now.Before(one.expires) {
			return one
		}
		delete(b.byHash, hash)
	}
	return nil
}

func (b *browsers) spaceOf(one *browser) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return one.space
}

func (b *browsers) setSpace(one *browser, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one.space = name
}

// remove logs the browser of a request out.
func (b *browsers) remove(r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range r.CookiesNamed(cookieName) {
		delete(b.byHash, op.SHA256(c.Value))
	}
}

type loginView struct{ Wrong bool }

func (v *visit) login() error {
	return v.show("login.html", http.StatusOK, view{Title: "Log in", Data: loginView{}})
}

// enter logs a browser in. Few codes are checked at the same time, so that no program can
// try many.
func (v *visit) enter() error {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxLogin)
	if err := v.parse(); err != nil {
		return err
	}
	select {
	case v.p.attempts <- struct{}{}:
		defer func() { <-v.p.attempts }()
	case <-v.r.Context().Done():
		return nil
	}
	code := strings.ToLower(strings.TrimSpace(v.r.PostForm.Get("code")))
	valid, err := useCode(v.p.o.FS, v.p.o.Home, code, v.p.o.Now())
	if err != nil {
		return err
	}
	if !valid {
		select {
		case <-time.After(wrongWait):
		case <-v.r.Context().Done():
		}
		v.p.o.Log.Warn("wrong login code", "from", v.r.RemoteAddr)
		return v.show("login.html", http.StatusUnauthorized, view{Title: "Log in", Data: loginView{Wrong: true}})
	}
	cookie, err := v.p.browsers.add(v.p.o.Now())
	if err != nil {
		return err
	}
	http.SetCookie(v.w, &http.Cookie{Name: cookieName, Value: cookie, Path: Prefix, HttpOnly: true, Secure: v.r.TLS != nil, SameSite: http.SameSiteStrictMode, MaxAge: int(loginTime / time.Second)})
	return v.see("/ui/memories")
}

func (v *visit) logout() error {
	v.p.browsers.remove(v.r)
	http.SetCookie(v.w, &http.Cookie{Name: cookieName, Path: Prefix, HttpOnly: true, Secure: v.r.TLS != nil, SameSite: http.SameSiteStrictMode, MaxAge: -1})
	return v.see("/ui/login")
}

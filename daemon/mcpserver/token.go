package mcpserver

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// The limits of a token, in bytes.
const (
	minToken = 32
	maxToken = 1 << 10
)

// bearer is the token that requests must carry.
type bearer [sha256.Size]byte

func newBearer(token string) bearer { return sha256.Sum256([]byte(token)) }

// allows compares tokens in constant time.
func (b bearer) allows(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(b[:], sum[:]) == 1
}

// token returns the token and its source. If the file is missing and create is set,
// token creates it.
func (o *HTTPOptions) token(fsys vfs.FS, create bool) (token, from string, err error) {
	file := o.TokenFile
	if file == "" {
		return o.Token, "CRABMEM_TOKEN", checkToken(o.Token, "CRABMEM_TOKEN")
	}
	token, err = readToken(fsys, file)
	if errors.Is(err, fs.ErrNotExist) && create {
		token, err = makeToken(fsys, file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = &errtable.Error{Exit: errtable.ExitPermission, Kind: "no_token", Message: "read token: " + file + " is missing", Path: file, Err: err,
			Fix: "set CRABMEM_TOKEN, or listen on 127.0.0.1 once to create the file"}
	}
	return token, file, err
}

// checkToken refuses a token that is short, long, or invalid in a header.
func checkToken(token, from string) error {
	good := len(token) >= minToken && len(token) <= maxToken
	for _, r := range token {
		good = good && r > ' ' && r < 0x7f
	}
	if !good {
		return &errtable.Error{Exit: errtable.ExitUsage, Kind: "token", Message: fmt.Sprintf("%s is not a token: want %d to %d letters, digits, and symbols, without spaces", from, minToken, maxToken),
			Fix: "run openssl rand -hex 32 to create a token"}
	}
	return nil
}

// readToken reads a token. It refuses a file that other users can read.
func readToken(fsys vfs.FS, file string) (string, error) {
	fi, err := fsys.Lstat(file)
	if err != nil {
		return "", err
	}
	if fi.Mode().IsRegular() && !vfs.OnlyOwner(fi) {
		return "", &errtable.Error{Exit: errtable.ExitPermission, Kind: "permission", Path: file, Message: fmt.Sprintf("%s has mode %04o: others may have read the token", file, fi.Mode().Perm()),
			Fix: "remove the file to get a new token, or run chmod 600 " + errtable.ShellWord(file)}
	}
	b, err := vfs.ReadFile(fsys, file, maxToken+2)
	if err != nil {
		return "", err
	}
	token := strings.TrimRight(string(b), "\r\n")
	return token, checkToken(token, file)
}

// makeToken creates a token of 256 bits. If two servers create it concurrently,
// both use the same.
func makeToken(fsys vfs.FS, file string) (string, error) {
	if err := vfs.MkdirAll(fsys, filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	f, err := fsys.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return awaitToken(fsys, file)
	}
	if err != nil {
		return "", err
	}
	var key [32]byte
	rand.Read(key[:]) // crypto/rand: never fails
	token := hex.EncodeToString(key[:])
	_, err = io.WriteString(f, token+"\n")
	return token, errors.Join(err, f.Sync(), f.Close(), fsys.SyncDir(filepath.Dir(file)))
}

// awaitToken reads a file that another server may still be writing.
func awaitToken(fsys vfs.FS, file string) (token string, err error) {
	for range 20 {
		if token, err = readToken(fsys, file); err == nil {
			return token, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", err
}

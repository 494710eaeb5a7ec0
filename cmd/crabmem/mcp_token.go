package main

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
	"runtime"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
)

// The length of a token, in bytes of text.
const (
	minToken = 32
	maxToken = 1 << 10
)

// bearer compares what requests bring with the token.
type bearer [sha256.Size]byte

func newBearer(token string) bearer { return sha256.Sum256([]byte(token)) }

// allows compares in a time that says nothing of either.
func (b bearer) allows(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(b[:], sum[:]) == 1
}

// mcpToken returns the token of CRABMEM_TOKEN or of the file, and where it is
// from. Where there is neither, and create is set, it makes the file.
func (c *app) mcpToken(file string, create bool) (token, from string, err error) {
	if token = c.Getenv("CRABMEM_TOKEN"); token != "" && file == "" {
		return token, "CRABMEM_TOKEN", checkToken(token, "CRABMEM_TOKEN")
	}
	if file == "" {
		home, err := c.homeDir()
		if err != nil {
			return "", "", err
		}
		file = filepath.Join(home, "mcp-token")
	}
	token, err = c.readToken(file)
	if missing(err) && create {
		token, err = c.makeToken(file)
	}
	if missing(err) {
		err = &cli.Failure{Code: cli.ExitPermission, Kind: "no_token", Message: "read token: " + file + " is missing", Path: file, Err: err,
			Remedy: "set CRABMEM_TOKEN, or listen on 127.0.0.1 once to create the file"}
	}
	return token, file, err
}

// checkToken wants what fits into a header and is not guessed.
func checkToken(token, from string) error {
	good := len(token) >= minToken && len(token) <= maxToken
	for _, r := range token {
		good = good && r > ' ' && r < 0x7f
	}
	if !good {
		return &cli.Failure{Code: cli.ExitUsage, Kind: "token", Message: fmt.Sprintf("%s is not a token: want %d to %d letters, digits, and symbols, without spaces", from, minToken, maxToken),
			Remedy: "run openssl rand -hex 32 to create a token"}
	}
	return nil
}

// readToken reads a token from a file that its owner alone can read.
func (c *app) readToken(file string) (string, error) {
	fi, err := c.fs.Lstat(file)
	if err != nil {
		return "", err
	}
	if fi.Mode().IsRegular() && fi.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return "", &cli.Failure{Code: cli.ExitPermission, Kind: "permission", Path: file, Message: fmt.Sprintf("%s has mode %04o: others may have read the token", file, fi.Mode().Perm()),
			Remedy: "remove the file to get a new token, or run chmod 600 " + cli.ShellWord(file)}
	}
	b, err := vfs.ReadFile(c.fs, file, maxToken+2)
	if err != nil {
		return "", err
	}
	token := strings.TrimRight(string(b), "\r\n")
	return token, checkToken(token, file)
}

// makeToken makes a token of 256 bits. Of two servers that do so at once, one
// takes the other's.
func (c *app) makeToken(file string) (string, error) {
	if err := vfs.MkdirAll(c.fs, filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	f, err := c.fs.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return c.awaitToken(file)
	}
	if err != nil {
		return "", err
	}
	var key [32]byte
	if _, err := rand.Read(key[:]); err != nil {
		return "", errors.Join(err, f.Close())
	}
	token := hex.EncodeToString(key[:])
	_, err = io.WriteString(f, token+"\n")
	return token, errors.Join(err, f.Sync(), f.Close(), c.fs.SyncDir(filepath.Dir(file)))
}

// awaitToken reads a file that another server is just writing.
func (c *app) awaitToken(file string) (token string, err error) {
	for range 20 {
		if token, err = c.readToken(file); err == nil {
			return token, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", err
}

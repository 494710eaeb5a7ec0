package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"

	"github.com/pelletier/go-toml/v2"
)

const maxPrivate = 1 << 20 // bytes

// ReadPrivateTOML decodes a file that other users must not be able to change into v, and
// refuses unknown keys. A missing file changes nothing.
func ReadPrivateTOML(fsys vfs.FS, path string, v any) error {
	b, err := ReadPrivate(fsys, path, maxPrivate)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return DecodeTOML(path, b, v)
}

// DecodeTOML decodes the text of the file path into v, and refuses unknown keys.
func DecodeTOML(path string, text []byte, v any) error {
	_, err := parseTOML(text) // which limits depth and keys
	if err == nil {
		d := toml.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(v)
	}
	if err != nil {
		return tomlError(path, err)
	}
	return nil
}

// EditPrivate replaces a file that [ReadPrivate] reads by the text that change returns, unless
// it is the same. The caller holds the lock of [Locked].
func EditPrivate(fsys vfs.FS, path string, change func(old []byte) ([]byte, error)) (changed bool, err error) {
	old, err := ReadPrivate(fsys, path, maxPrivate)
	if err != nil {
		return false, err
	}
	text, err := change(old)
	if err != nil || bytes.Equal(text, old) {
		return false, err
	}
	return true, vfs.WriteFile(fsys, path, 0o600, text)
}

// EditPrivateTOML is EditPrivate for a TOML file's values. Comments, and the lines of other keys,
// stay.
func EditPrivateTOML(fsys vfs.FS, path string, change func(map[string]any)) error {
	_, err := EditPrivate(fsys, path, func(old []byte) ([]byte, error) {
		d, err := parseTOML(old)
		if err != nil {
			return nil, tomlError(path, err)
		}
		change(d.tree)
		text, err := editTOML(old, d.tree)
		if err != nil {
			return nil, fmt.Errorf("change %s: %w", path, err)
		}
		return text, nil
	})
	return err
}

// Invalid returns err as the error of a value in a file, or nil if err is nil.
func Invalid(path string, err error) error {
	if err == nil {
		return nil
	}
	return &errtable.Error{Kind: "config", Exit: errtable.ExitUsage, Path: path, Message: path + ": " + err.Error(), Fix: "correct the value", Err: err}
}

// tomlError returns a decoder's error with path and line.
func tomlError(path string, err error) error {
	at, what := path, err.Error()
	var strict *toml.StrictMissingError
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &strict) && len(strict.Errors) > 0:
		line, _ := strict.Errors[0].Position()
		at, what = fmt.Sprintf("%s:%d", path, line), "unknown key "+strings.Join(strict.Errors[0].Key(), ".")
	case errors.As(err, &decode):
		line, _ := decode.Position()
		at = fmt.Sprintf("%s:%d", path, line)
	}
	return &errtable.Error{Kind: "config", Exit: errtable.ExitUsage, Path: path, Message: at + ": " + what, Fix: "correct the file", Err: err}
}

// ReadPrivate reads a file that other users must not be able to change.
func ReadPrivate(fsys vfs.FS, path string, limit int64) ([]byte, error) {
	fi, err := fsys.Lstat(path)
	if err != nil {
		return nil, err
	}
	if fi.Mode().IsRegular() && !vfs.IsPrivate(fi) {
		return nil, &errtable.Error{Kind: "permission", Exit: errtable.ExitPermission, Path: path,
			Message: fmt.Sprintf("%s has mode %04o, or another owner: others can change it", path, fi.Mode().Perm()), Fix: "run chmod 600 " + errtable.ShellWord(path)}
	}
	return vfs.ReadFile(fsys, path, limit)
}

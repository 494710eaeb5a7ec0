package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/vault"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/sessionlog/foreign"
)

// errUnknown is returned if no kind matches a source.
var errUnknown = errors.New("detect format: found no Markdown, export of ChatGPT or Claude, transcript, or list of memories")

// storeMagic begins every store.
const storeMagic = "CRMEM\x00"

// headSize is the number of bytes that detect the kind of a file.
const headSize = 256 << 10

// IsTree reports whether sources of a kind are directories.
func IsTree(kind string) bool {
	return kind == RFC0038 || kind == BasicMemory || kind == Markdown || kind == Obsidian
}

// IsSQLite reports whether sources of a kind are SQLite databases.
func IsSQLite(kind string) bool {
	return slices.Contains([]string{SQLite, Walrus, Spacebot, Engram, ClaudeMem}, kind)
}

// IsChats reports whether sources of a kind contain conversations.
func IsChats(kind string) bool { return kind == ChatGPT || kind == Claude }

// Detect returns the kind of a path, by its content.
func Detect(ctx context.Context, fsys vfs.FS, name string) (string, error) {
	name, fi, err := resolved(fsys, name)
	if err != nil {
		return "", err
	}
	if fi.IsDir() {
		return detectDir(ctx, fsys, name)
	}
	return detectFile(ctx, fsys, name)
}

// resolved returns the path of a file or directory without links, and describes it.
func resolved(fsys vfs.FS, name string) (string, fs.FileInfo, error) {
	name, err := fsys.Resolve(name)
	if err != nil {
		return "", nil, err
	}
	fi, err := fsys.Lstat(name)
	return name, fi, err
}

// detectFile returns the kind of a file or an archive.
func detectFile(ctx context.Context, fsys vfs.FS, name string) (string, error) {
	head, err := headOf(fsys, name)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(string(head), storeMagic) {
		return "", fmt.Errorf("%s: a store of crabmem: run crabmem --db %s export >entries.jsonl, and import that file", name, name)
	}
	if strings.HasPrefix(string(head), sqliteMagic) {
		return SQLite, nil
	}
	if isPage(name, head) {
		return Markdown, nil
	}
	if keys := firstKeys(head); detectJSON(head) == Crabmem && !slices.Contains(keys, "name") {
		if list, err := foreign.Find(ctx, fsys, name); err == nil && len(list.Found) > 0 {
			return Transcripts, nil
		}
	}
	if form := foreign.Compression(head); form != "" {
		return "", fmt.Errorf("%s: compressed with %s, and not a transcript: decompress it, then import the result", name, form)
	}
	f, err := Open(fsys, "", name)
	if err != nil {
		return "", err
	}
	return f.Kind, f.Close()
}

// headOf returns the beginning of a file.
func headOf(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(f, headSize))
	return head, errors.Join(err, f.Close())
}

func detectDir(ctx context.Context, fsys vfs.FS, name string) (string, error) {
	root, err := fsys.Root(name)
	if err != nil {
		return "", err
	}
	defer root.Close()
	switch f, err := openDir(fsys, name); {
	case errors.Is(err, errNoExport):
	case err != nil:
		return "", err
	default:
		kind, err := f.detect()
		if err = errors.Join(err, f.Close()); err != nil || IsChats(kind) {
			return kind, err
		}
	}
	if has(root, ".crabmem.json", false) {
		if form, err := tree.FormatOf(root); form == vault.Name {
			return Obsidian, err
		}
		return "", fmt.Errorf("%s: crabmem dump wrote this tree: use crabmem load", name)
	}
	if looksRFC0038(root) {
		return RFC0038, nil
	}
	kind, err := detectPages(root)
	if err == nil && kind != BasicMemory && !hasPage(root) {
		var list foreign.List
		if list, err = foreign.Find(ctx, fsys, name); len(list.Found) > 0 {
			return Transcripts, err
		}
	}
	if err == nil && kind == "" {
		err = fmt.Errorf("%s: %w", name, errUnknown)
	}
	return kind, err
}

// detectJSON detects the kind by the keys of the first object in head.
func detectJSON(head []byte) string {
	keys := firstKeys(head)
	has := func(key string) bool { return slices.Contains(keys, key) }
	switch {
	case has("mapping"):
		return ChatGPT
	case claudePart(head) != "":
		return Claude
	case has("observations"), has("entities") && !has("name"), has("relationType"):
		return MemoryJSON
	case has("name"):
		return Crabmem
	case has("memory"), has("results"), has("memories"), has("id") && (has("text") || has("data")):
		return Mem0
	}
	return Crabmem
}

// firstKeys are the keys of the first object of a text, or of the first in the
// array that it is.
func firstKeys(head []byte) []string {
	dec := json.NewDecoder(strings.NewReader(strings.TrimPrefix(string(head), "\ufeff")))
	var keys []string
	depth, want, array := 0, false, 0
	for len(keys) < 1000 {
		tok, err := dec.Token()
		if err != nil {
			return keys
		}
		delim, isDelim := tok.(json.Delim)
		switch {
		case isDelim && delim == '[' && depth == 0 && array == 0:
			array = 1
			continue
		case isDelim && (delim == '{' || delim == '['):
			depth++
			if depth == 1 {
				want = delim == '{'
				if !want {
					return keys
				}
				continue
			}
		case isDelim:
			if depth--; depth <= 0 {
				return keys
			}
			want = depth == 1
			continue
		case depth == 0:
			return keys
		}
		if depth > 1 {
			continue
		}
		if want {
			if s, ok := tok.(string); ok {
				keys = append(keys, s)
			}
		}
		want = !want
	}
	return keys
}

package refdec

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/fuzz/vectors"
)

// vectorgen writes the vectors. It uses neither this decoder nor the decoder of
// package crmem.

func load(t *testing.T, dir string, least int) []*vectors.Vector {
	t.Helper()
	all, err := vectors.Load(os.DirFS(filepath.Join("..", "..", "testdata", "vectors")), dir, least)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSnapshotVectors(t *testing.T) {
	for _, v := range load(t, "snapshot", 149) {
		s, err := Snapshot(v.DB())
		if v.Expect == "ok" {
			if err != nil {
				t.Errorf("%s: %v", v.Name, err)
			} else if !bytes.Equal(s.Bytes(), v.DB()) {
				t.Errorf("%s: the encoded bytes differ from the decoded bytes", v.Name)
			}
			continue
		}
		want := Fault{v.Expect, v.Field, v.Offset, v.Entry}
		f, ok := errors.AsType[*Fault](err)
		if !ok || *f != want {
			t.Errorf("%s: %v, want %v", v.Name, err, &want)
		}
	}
}

func TestLogVectors(t *testing.T) {
	for _, v := range load(t, "log", 142) {
		if v.More["db"] == "missing" {
			continue // Recover requires a snapshot
		}
		s, verdict, inLog, err := Recover(v.DB(), v.Files["wal"])
		switch v.Expect {
		case "format":
			f, ok := errors.AsType[*Fault](err)
			if !ok || !inLog || f.Field != v.Field || f.Offset != v.Offset {
				t.Errorf("%s: %v, want %s at %d", v.Name, err, v.Field, v.Offset)
			}
			continue
		case "ok":
			v.Expect = "clean"
		}
		if v.Name == "ok-foreign-empty" {
			v.Expect = "foreign-empty"
		}
		if err != nil || verdict != v.Expect {
			t.Errorf("%s: %q, %v, want %q", v.Name, verdict, err, v.Expect)
			continue
		}
		var names []string
		for _, e := range s.Entries {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != v.More["names"] {
			t.Errorf("%s: entries %q, want %q", v.Name, got, v.More["names"])
		}
		if l, err := ReadLog(v.Files["wal"]); v.Expect != "foreign" && v.Offset != 0 && (err != nil || l.Good != v.Offset) {
			t.Errorf("%s: complete batches end at %d, want %d", v.Name, l.Good, v.Offset)
		}
	}
}

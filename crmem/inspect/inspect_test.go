package inspect_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/inspect"
	"crabmem/fuzz/vectors"
)

func load(t *testing.T, dir string, least int) []*vectors.Vector {
	t.Helper()
	all, err := vectors.Load(os.DirFS("../../testdata/vectors"), dir, least)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fieldsOf returns the fields of a file. They begin at 0 and follow each other
// without a gap, or the test fails.
func fieldsOf(t *testing.T, name string, b []byte) ([]inspect.Field, error) {
	t.Helper()
	var fields []inspect.Field
	var end int64
	for f, err := range inspect.Fields(b) {
		if err != nil {
			return fields, err
		}
		if f.Offset != end || f.Length <= 0 || f.Offset+f.Length > int64(len(b)) {
			t.Errorf("%s: field %s has %d bytes at %d, after %d", name, f.Name, f.Length, f.Offset, end)
		}
		end = f.Offset + f.Length
		fields = append(fields, f)
	}
	if end != int64(len(b)) {
		t.Errorf("%s: the fields end at %d of %d without an error", name, end, len(b))
	}
	return fields, nil
}

// TestInspectSnapshots takes every vector and every golden file apart: it
// ends where Decode does, with the same error.
func TestInspectSnapshots(t *testing.T) {
	files := make(map[string][]byte)
	for _, v := range load(t, "snapshot", 149) {
		files[v.Name] = v.DB()
	}
	golden, err := filepath.Glob("../../testdata/golden/crmem/*.db")
	if err != nil || len(golden) < 5 {
		t.Fatalf("%d golden files, %v", len(golden), err)
	}
	for _, name := range golden {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	broken := 0
	for name, b := range files {
		fields, err := fieldsOf(t, name, b)
		_, want := crmem.Decode(b)
		if (err == nil) != (want == nil) || want != nil && err.Error() != want.Error() {
			t.Errorf("%s: error %v, Decode says %v", name, err, want)
			continue
		}
		f, ok := errors.AsType[*crmem.FormatError](err)
		if !ok {
			continue
		}
		broken++
		for i, x := range fields {
			if x.Offset > f.Offset || i < len(fields)-1 && x.Offset+x.Length > f.Offset && f.Field != "name" {
				t.Errorf("%s: field %s at %d, and the file breaks at %d", name, x.Name, x.Offset, f.Offset)
			}
		}
	}
	if broken < 100 {
		t.Errorf("only %d of %d files are broken", broken, len(files))
	}
}

// TestInspectLogs takes every vector of a log apart.
func TestInspectLogs(t *testing.T) {
	verdicts := make(map[string]int)
	for _, v := range load(t, "log", 142) {
		b := v.Files["wal"]
		if len(b) < 6 {
			continue // no magic: it could be any file
		}
		fields, err := fieldsOf(t, v.Name, b)
		verdict, _, _ := strings.Cut(v.Name, "-")
		verdicts[verdict]++
		switch verdict {
		case "ok":
			if err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		case "torn":
			if last := fields[len(fields)-1]; err != nil || last.Name != "torn" {
				t.Errorf("%s: the last field is %s, %v", v.Name, last.Name, err)
			}
		case "rotten":
			f, ok := errors.AsType[*crmem.FormatError](err)
			if !ok || f.Offset != v.Offset {
				t.Errorf("%s: error %v, want one at offset %d", v.Name, err, v.Offset)
			}
		case "header":
			if err == nil {
				t.Errorf("%s: no error", v.Name)
			}
		}
	}
	for _, verdict := range []string{"ok", "torn", "rotten", "header"} {
		if verdicts[verdict] < 5 {
			t.Errorf("%d logs are %s", verdicts[verdict], verdict)
		}
	}
}

// TestInspectStops checks that no field follows after the caller breaks the
// loop.
func TestInspectStops(t *testing.T) {
	for _, dir := range []string{"snapshot", "log"} {
		for _, v := range load(t, dir, 50) {
			b := v.DB()
			if dir == "log" {
				b = v.Files["wal"]
			}
			all := 0
			for range inspect.Fields(b) {
				all++
			}
			for most := 1; most <= all; most++ {
				n := 0
				for range inspect.Fields(b) {
					if n++; n == most {
						break
					}
				}
			}
		}
	}
}

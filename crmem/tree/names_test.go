package tree_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
)

// pathsOf dumps entries of these names, ids ascending from 1, and returns
// their pages.
func pathsOf(t *testing.T, names ...string) []string {
	t.Helper()
	entries := make([]Entry, len(names))
	for i, n := range names {
		entries[i] = Entry{ID: uint64(i + 1), Name: n}
	}
	mem := faultfs.NewMem()
	if _, err := DumpSnapshot(mem, "/b", snapshotOf(t, uint64(len(names)+1), entries...), DumpOptionsFor("/b")); err != nil {
		t.Fatal(err)
	}
	paths := dumped(t, mem, "/b")
	out := make([]string, len(names))
	for i := range names {
		out[i] = paths[uint64(i+1)]
	}
	return out
}

func TestPageNames(t *testing.T) {
	rows := []struct {
		names, want []string
	}{
		{[]string{"deploy", "prod rollout", "日本旅行", "naïve café", "v1.2", "R&D", "a+b", "f(x)", "it's", "a=b"},
			[]string{"deploy", "prod rollout", "日本旅行", "naïve café", "v1.2", "R&D", "a+b", "f(x)", "it's", "a=b"}},
		{[]string{"a/b", `a\b`, "a\x00b", "a\nb", "100%", "a:b", "what?", "#tag", "`x`", "&amp;"},
			[]string{"a=2Fb", "a=5Cb", "a=00b", "a=0Ab", "100=25", "a=3Ab", "what=3F", "=23tag", "=60x=60", "=26amp;"}},
		{[]string{"", ".", "..", "../x", ".hidden", "end.", " lead", "end "},
			[]string{"unnamed", "=2E", "=2E=2E", "=2E.=2Fx", "=2Ehidden", "end=2E", "=20lead", "end=20"}},
		{[]string{"CON", "con.txt", "Aux .x", "COM1", "COM²", "COM10", "CONSOLE", "lpt9", "README", "readme.txt"},
			[]string{"=43ON", "=63on.txt", "=41ux .x", "=43OM1", "=43OM²", "COM10", "CONSOLE", "=6Cpt9", "=52EADME", "readme.txt"}},
		{[]string{"\u202etxt", "a\u200bb", "\ufeffa", "a\u00a0b", "a\u2028b", "\U0010ffff"},
			[]string{"=E2=80=AEtxt", "a=E2=80=8Bb", "=EF=BB=BFa", "a=C2=A0b", "a=E2=80=A8b", "=F4=8F=BF=BF"}},
		{[]string{"Deploy", "deploy", "DEPLOY"}, []string{"Deploy", "deploy~", "DEPLOY~"}},
		{[]string{"é", "e\u0301", "É"}, []string{"é", "e\u0301~", "É~"}},
		{[]string{"straße", "STRASSE"}, []string{"straße", "STRASSE~"}},
		{[]string{"a/b", "a=2Fb"}, []string{"a=2Fb", "a=2Fb~"}},
		{[]string{strings.Repeat("x", 200), strings.Repeat("x", 201)}, []string{strings.Repeat("x", 200), strings.Repeat("x", 183) + "~"}},
		{[]string{strings.Repeat("語", 67)}, []string{strings.Repeat("語", 61) + "~"}},
	}
	for _, row := range rows {
		for i, p := range pathsOf(t, row.names...) {
			want := "notes/" + row.want[i]
			if open := strings.Contains(want, "~"); open && !strings.HasPrefix(p, want[:strings.IndexByte(want, '~')+1]) || !open && p != want+".md" {
				t.Errorf("%q is dumped to %q, want %q", row.names[i], p, want)
			}
		}
	}
}

// A page's name suits every file system, and stays when later entries come.
func TestRandomPageNames(t *testing.T) {
	race.Skip(t)
	r := seed.Random(t)
	checked := 0
	for range 200 {
		seen := map[string]bool{}
		var names []string
		for range 20 {
			n := randomText(r, 3)
			if r.IntN(3) == 0 && len(names) > 0 {
				n = twin(names[r.IntN(len(names))], r.IntN(4))
			}
			if !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
		paths := pathsOf(t, names...)
		if fewer := pathsOf(t, names[:len(names)/2]...); !slices.Equal(fewer, paths[:len(fewer)]) {
			t.Fatalf("new entries move pages: %q, then %q", fewer, paths[:len(fewer)])
		}
		folded := map[string]string{}
		for i, p := range paths {
			stem := strings.TrimSuffix(path.Base(p), ".md")
			if err := badStem(stem); err != nil {
				t.Fatalf("%q is dumped to %q: %v", names[i], p, err)
			}
			key := norm.NFC.String(strings.ToUpper(norm.NFC.String(stem)))
			if other, ok := folded[key]; ok {
				t.Fatalf("%q and %q are one file where case and normal form do not count", other, p)
			}
			folded[key] = p
			checked++
		}
	}
	t.Logf("page names checked: %d", checked)
}

func twin(name string, how int) string {
	switch how {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return strings.ToLower(name)
	case 2:
		return norm.NFD.String(name)
	}
	return norm.NFC.String(name)
}

func badStem(stem string) error {
	switch {
	case stem == "" || len(stem) > 200 || !utf8.ValidString(stem):
		return fmt.Errorf("%d bytes", len(stem))
	case strings.ContainsAny(stem, "/\\:*?\"<>|%#`"):
		return fmt.Errorf("a character that is not taken everywhere")
	case strings.HasPrefix(stem, ".") || strings.HasSuffix(stem, ".") || strings.TrimSpace(stem) != stem:
		return fmt.Errorf("a bad edge")
	}
	for _, c := range stem {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || unicode.Is(unicode.Z, c) && c != ' ' {
			return fmt.Errorf("%U", c)
		}
	}
	device, _, _ := strings.Cut(strings.ToLower(stem), ".")
	if device = strings.TrimSpace(device); slices.Contains([]string{"con", "nul", "aux", "prn", "com1", "lpt¹"}, device) || device == "readme" && strings.ToLower(stem) == "readme" {
		return fmt.Errorf("a name that is taken")
	}
	return nil
}

package cortex

import (
	"strings"
	"testing"

	"crabmem/crmem/vfs"
)

// TestTornFile cuts the file at each byte: the complete lines count, and the next proposals
// continue after them. Lines that are corrupt or unknown do not count.
func TestTornFile(t *testing.T) {
	r := newRig(t)
	r.note("a", long)
	r.note("b", long)
	r.note("c", strings.ToUpper(long)+"Then lunch and tea.")
	first := r.pass()
	r.answer(first[0], false)
	path := pathOf(r.Path())
	text, err := vfs.ReadFile(r.fs, path, 1<<20)
	r.check(err)
	for n := range len(text) + 1 {
		r.fs.WriteFile(path, text[:n], 0o600)
		lines := strings.Count(string(text[:n]), "}\n")
		b, err := Read(r.fs, r.Path())
		if err != nil || len(b.Proposals) != min(lines, len(first)) || len(b.answered) != max(lines-len(first), 0) {
			t.Fatalf("cut at %d: %d proposals, %d answers, %v", n, len(b.Proposals), len(b.answered), err)
		}
		more := r.pass()
		if b, err = Read(r.fs, r.Path()); err != nil || len(b.Proposals) != len(first) || len(more) != len(first)-min(lines, len(first)) {
			t.Fatalf("cut at %d: then %d proposals, %d of them new, %v", n, len(b.Proposals), len(more), err)
		}
	}
	bad := `{"proposal":{"n":1,"kind":"merge","ids":[1],"was":["x"]}}
{"proposal":{"n":0,"kind":"prune","ids":[1],"was":["x"]}}
{"proposal":{"n":2,"kind":"duplicate","ids":[1],"was":["x"]}}
{"other":1}
nonsense
`
	r.fs.WriteFile(path, []byte(bad), 0o600)
	if b, err := Read(r.fs, r.Path()); err != nil || len(b.Proposals) != 0 || len(r.open()) != 0 {
		t.Errorf("corrupt lines: %+v, %v", b.Proposals, err)
	}
}

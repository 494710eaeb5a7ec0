package inspect

import (
	"iter"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
)

// Entries returns the entries of a CRMEM v1 file in order. It checks all rules
// that [crmem.Decode] checks, except that names are unique. It allocates only
// alias lists. It ends at the first error.
func Entries(b []byte) iter.Seq2[crmem.Entry, error] {
	return func(yield func(crmem.Entry, error) bool) {
		d := format.NewDecoder(b)
		var next uint64
		n, err := d.Header(&next)
		for i := 0; i < n && err == nil; i++ {
			var r format.Record
			if r, err = d.Record(i, next); err == nil && !yield(entryOf(r), nil) {
				return
			}
		}
		if err == nil {
			err = d.End()
		}
		if err != nil {
			yield(crmem.Entry{}, d.Explain(err))
		}
	}
}

// entryOf decodes r. The strings of the entry share the memory of r.
func entryOf(r format.Record) crmem.Entry {
	content, _ := r.Content()
	return crmem.Entry{
		ID:        r.ID(),
		Name:      r.Name(),
		Kind:      crmem.Kind(r.Kind()),
		CreatedAt: r.CreatedAt(),
		Content:   content,
		Aliases:   r.Aliases(),
	}
}

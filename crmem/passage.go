package crmem

import (
	"crabmem/crmem/embed"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// vectorsOf returns the identity of the vectors of a model. It changes with the passages
// of a record.
func vectorsOf(m *embed.Model) string { return m.Identity() + " passages=1" }

// passages returns the passages of a record, at least one: its name and a chunk of its
// text, without the front matter.
func passages(r format.Record) []string {
	content, _ := r.Content()
	_, text, _ := metadata.Parts(content)
	list := embed.Chunks(text)
	for i := range list {
		list[i] = r.Name() + "\n" + list[i]
	}
	return list
}

// passageDigest returns the digest of all that the passages of a record depend on.
func passageDigest(r format.Record) (d format.Digest) {
	content, _ := r.Content()
	_, text, _ := metadata.Parts(content)
	for _, part := range []string{r.Name(), "\n", text} {
		for len(part) > 0 {
			n := min(len(part), 1<<17)
			d.Write([]byte(part[:n])) //nolint:errcheck // it never fails
			part = part[n:]
		}
	}
	return d
}

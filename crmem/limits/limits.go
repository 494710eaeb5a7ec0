// Package limits contains the limits of new entries. A store returns
// crmem.ErrInvalid for a write that exceeds one. Reading accepts larger entries.
package limits

const (
	Name    = 1 << 10 // bytes of a name or an alias
	Aliases = 1 << 10 // number of aliases of an entry
	Content = 8 << 20 // bytes of a text
)

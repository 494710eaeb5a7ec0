package op

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"crabmem/crmem"
)

// ETag returns a hash of all that a client may change of an entry, and of its ID, in the
// form of the header ETag. Each part is preceded by its length.
func ETag(e *crmem.Entry) string {
	h := sha256.New()
	for _, part := range append([]string{strconv.FormatUint(e.ID, 10), e.Kind.String(), e.Name, e.Content}, e.Aliases...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return `"` + hex.EncodeToString(h.Sum(nil)) + `"`
}

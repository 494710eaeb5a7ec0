package format

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
)

// IdentityText returns the contents of an identity file (FORMAT.md, "Identity").
func IdentityText(id ID) string {
	line := "identity " + id.String() + "\n"
	return line + fmt.Sprintf("sum %08x\n", crc32.ChecksumIEEE([]byte(line)))
}

// ParseIdentity reads the contents of an identity file. It returns false for
// any other text.
func ParseIdentity(text string) (id ID, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	b, err := hex.DecodeString(strings.TrimPrefix(line, "identity "))
	if err != nil || len(b) != len(id) {
		return id, false
	}
	copy(id[:], b)
	return id, id != ID{} && text == IdentityText(id)
}

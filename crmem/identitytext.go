package crmem

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
)

// identityText returns the contents of an identity file (FORMAT.md, "Identity").
func identityText(id randomID) string {
	line := "identity " + id.String() + "\n"
	return line + fmt.Sprintf("sum %08x\n", crc32.ChecksumIEEE([]byte(line)))
}

// parseIdentity reads the contents of an identity file. It returns false for
// any other text.
func parseIdentity(text string) (id randomID, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	b, err := hex.DecodeString(strings.TrimPrefix(line, "identity "))
	if err != nil || len(b) != len(id) {
		return id, false
	}
	copy(id[:], b)
	return id, id != randomID{} && text == identityText(id)
}

package vector

import (
	"crypto/sha256"
	"encoding/binary"

	"crabmem/crmem/internal/format"
)

// Digest is a digest of a text.
type Digest = format.Digest

// Key returns the ID and the digest of a text that has no ID of its own. Both are parts
// of its SHA-256.
func Key(text string) (id uint64, digest Digest) {
	sum := sha256.Sum256([]byte(text))
	id = max(binary.LittleEndian.Uint64(sum[:]), 1) // 0 is no ID
	return id, format.ReadDigest(sum[8:])
}

package doctor

import (
	"context"
	"time"

	"crabmem/daemon/config"
	"crabmem/daemon/embedder"
)

// embedWait is how long the embedding model may take for one text.
const embedWait = 10 * time.Second

// checkEmbedder embeds a text, if an embedding model is configured.
func (d *doctor) checkEmbedder(ctx context.Context, c *config.Embedder) {
	if c == nil {
		return
	}
	m, err := embedder.Open(d.FS, d.Home, c)
	if err != nil {
		d.fail("embedder", "install the model with crabmem model add, or change [embedder] static in config.toml", "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, embedWait)
	defer cancel()
	if _, err := m.Query(ctx, "test"); err != nil {
		d.fail("embedder", "check [embedder] in config.toml; until then recall is by words only", "%v", err)
		return
	}
	d.ok("embedder", "%s, %d components", m.Name, m.Dim)
}

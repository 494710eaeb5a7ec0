package daemon

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/cron"
)

const maxCronStarts = 1 << 20 // bytes of the file

// A cronStart is what the daemon stores about an entry between its runs.
type cronStart struct {
	Entry   string    `json:"entry"`            // digest of the entry: another one may get its ID
	Started time.Time `json:"started,omitzero"` // the last start
	Checked time.Time `json:"checked"`          // runs that were due until then are not missed
	Missed  time.Time `json:"missed,omitzero"`  // as in schedule
}

func (d *Daemon) cronStartsFile() string { return filepath.Join(d.home, "run", "cron-starts.json") }

// entryDigest identifies an entry without its text.
func entryDigest(c *cron.Cron) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{c.Schedule, c.Timezone, cmp.Or(c.Prompt, c.Skill), c.Args, c.SessionFile}))
	return hex.EncodeToString(sum[:8])
}

// readCronStarts reads the last start of each entry. The file is derived: without it, no
// run counts as missed.
func (d *Daemon) readCronStarts() map[uint64]cronStart {
	starts := make(map[uint64]cronStart)
	b, err := vfs.ReadFile(d.fs, d.cronStartsFile(), maxCronStarts)
	if err == nil {
		err = json.Unmarshal(b, &starts)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("read the last starts of cron entries: no missed run starts", "error", err)
		return make(map[uint64]cronStart)
	}
	return starts
}

func (d *Daemon) writeCronStarts(starts map[uint64]cronStart) {
	b, err := json.Marshal(starts)
	if err == nil {
		err = vfs.WriteFile(d.fs, d.cronStartsFile(), 0o600, b)
	}
	if err != nil {
		d.log.Warn("store the last starts of cron entries", "error", err)
	}
}

package workspace

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
)

// TrustFile is the file of the home with the workspaces that the user trusts.
const TrustFile = "config/workspaces.toml"

// Trust is what the user accepted of a workspace.
type Trust struct {
	Digest string `toml:"digest"`
	Crons  bool   `toml:"crons"`  // its cron entries may run
	Memory bool   `toml:"memory"` // its store may be used, also after its other files change
}

// Trusts are the trusted workspaces by path.
type Trusts map[string]Trust

// State is how a workspace relates to the trust of the user.
type State string

// The states of a workspace. The files of a changed or untrusted one have no effect.
const (
	Untrusted State = "untrusted"
	Changed   State = "changed" // a file that takes effect differs from what the user accepted
	Trusted   State = "trusted"
)

// ReadTrusts returns the trusted workspaces of a home. It refuses a file that others can
// change.
func ReadTrusts(fsys vfs.FS, home string) (Trusts, error) {
	var of struct {
		Workspaces Trusts `toml:"workspaces"`
	}
	err := config.ReadPrivateTOML(fsys, filepath.Join(home, TrustFile), &of)
	return of.Workspaces, err
}

// State returns the state of a workspace.
func (t Trusts) State(w *Workspace) State {
	switch of, ok := t[w.Root]; {
	case !ok:
		return Untrusted
	case of.Digest != w.Digest:
		return Changed
	}
	return Trusted
}

// UsesStore reports whether the commands in a workspace use its store: the user accepted
// that, and the workspace still says so.
func (t Trusts) UsesStore(w *Workspace) bool { return w.Memory && t[w.Root].Memory }

// Paths returns the paths of the workspaces, in order.
func (t Trusts) Paths() []string { return slices.Sorted(maps.Keys(t)) }

// SetTrust stores the trust in the workspace at root, or removes it if trust is nil. It waits up
// to wait for the lock of the configuration, and reports whether there was an entry.
func SetTrust(fsys vfs.FS, home, root string, trust *Trust, wait time.Duration) (was bool, err error) {
	path := filepath.Join(home, TrustFile)
	return was, config.Locked(fsys, home, wait, func() error {
		all, err := ReadTrusts(fsys, home)
		if err != nil {
			return err
		}
		if _, was = all[root]; trust == nil && !was {
			return nil
		}
		if err := vfs.MkdirAll(fsys, filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if _, err := fsys.Lstat(path); err != nil {
			if err := vfs.WriteFile(fsys, path, 0o600, nil); err != nil {
				return err
			}
		}
		// The rename in EditPrivateTOML is the commit point.
		return config.EditPrivateTOML(fsys, path, func(values map[string]any) {
			list, _ := values["workspaces"].(map[string]any)
			if list == nil {
				list = make(map[string]any)
				values["workspaces"] = list
			}
			delete(list, root)
			if trust != nil {
				list[root] = map[string]any{"digest": trust.Digest, "crons": trust.Crons, "memory": trust.Memory}
			}
		})
	})
}

package doctor

import (
	"cmp"
	"context"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"crabmem/cmd/crabmem/internal/agenthook"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// checkHome looks at the home, and at who may use it and what is in it.
func (d *doctor) checkHome(context.Context) {
	real, err := d.FS.Resolve(d.Home)
	var fi fs.FileInfo
	if err == nil {
		fi, err = d.FS.Lstat(real)
	}
	switch {
	case missing(err):
		d.warn("home", "run crabmem init to create it, or set another home with --home or CRABTALK_HOME", "%s does not exist", d.Home)
		return
	case err != nil:
		d.broken("home", err)
		return
	case !fi.IsDir():
		d.fail("home", "move the file, or set another home with --home or CRABTALK_HOME", "%s is not a directory", d.Home)
		return
	}
	if others, uid := ownedByOther(fi); others {
		d.fail("home", "run chown -R on the home directory, or set another home with --home or CRABTALK_HOME", "%s belongs to user %d, but crabmem runs as user %d", d.Home, uid, os.Geteuid())
		return
	}
	good := true
	if mode := fi.Mode().Perm(); mode&0o077 != 0 && fi.Mode()&fs.ModeSticky == 0 && isUnix {
		good = false
		d.warn("home", "chmod 700 "+errtable.ShellWord(real), "other users can read %s: mode %04o", d.Home, mode)
	}
	if kind := d.FS.Remote(real); kind != "" {
		good = false
		d.warn("home", "move the home directory to a local disk", "%s is on %s, where locks and syncs may fail", d.Home, kind)
	}
	list, err := d.FS.ReadDir(real)
	if err != nil {
		d.broken("home", err)
		return
	}
	left := maxFindings
	for _, e := range list {
		fi, err := e.Info()
		if err != nil {
			continue // it has gone
		}
		name := filepath.Join(d.Home, e.Name())
		if _, err := d.FS.Resolve(name); err != nil && fi.Mode()&fs.ModeSymlink != 0 && left > 0 {
			left--
			good = false
			d.fail("home", "restore the target of the link, or remove the link", "%s is a link without a target", name)
		}
		if others, uid := ownedByOther(fi); others && left > 0 {
			left--
			good = false
			d.fail("home", "sudo chown -R "+errtable.ShellWord(cmp.Or(d.Getenv("USER"), "USER"))+" "+errtable.ShellWord(real), "%s belongs to user %d", name, uid)
		}
	}
	if good {
		d.ok("home", "%s", d.Home)
	}
}

// isUnix reports whether files have modes, and sockets a type.
const isUnix = runtime.GOOS != "windows"

// ownedByOther reports whether a file belongs to another user than this process.
func ownedByOther(fi fs.FileInfo) (yes bool, uid int) {
	uid, known := vfs.Owner(fi)
	return known && uid != os.Geteuid(), uid
}

const (
	// diskWarn is the free space, in bytes, below which doctor warns.
	diskWarn = 512 << 20
	// diskFail is the free space, in bytes, that a checkpoint needs in addition to
	// the size of the store.
	diskFail = 16 << 20
)

// checkDisk reports the directory with the least free space: the home, or the
// store's.
func (d *doctor) checkDisk(context.Context) {
	need := int64(diskFail)
	for _, name := range []string{d.Store, d.Store + "-wal"} {
		if fi, err := d.FS.Lstat(name); err == nil {
			need += fi.Size()
		}
	}
	dir, free := "", int64(math.MaxInt64)
	for _, at := range []string{d.existing(d.Home), d.existing(filepath.Dir(d.Store))} {
		if n, err := d.Machine.Free(at); err == nil && n < free {
			dir, free = at, n
		}
	}
	switch {
	case dir == "":
		d.ok("disk", "free space unknown on this system")
	case free < need:
		d.fail("disk", "free some space", "%s has %s free, and a checkpoint needs %s", dir, display.Size(free), display.Size(need))
	case free < diskWarn:
		d.warn("disk", "free some space", "%s has only %s free", dir, display.Size(free))
	default:
		d.ok("disk", "%s free", display.Size(free))
	}
}

// existing is a directory, or the next above it that is there.
func (d *doctor) existing(dir string) string {
	for {
		if _, err := d.FS.Lstat(dir); !missing(err) || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// logWarn is how long a log may be: the daemon's are rotated long before.
const logWarn = 64 << 20

func (d *doctor) checkLogs(context.Context) {
	dir := filepath.Join(d.Home, "logs")
	list, err := d.FS.ReadDir(dir)
	if missing(err) {
		d.ok("logs", "none")
		return
	} else if err != nil {
		d.broken("logs", err)
		return
	}
	var all int64
	long := 0
	for _, e := range list {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		all += fi.Size()
		if fi.Size() > logWarn {
			if long++; long <= maxFindings {
				name := filepath.Join(dir, e.Name())
				d.warn("logs", "stop the program that writes the log, then run rm "+errtable.ShellWord(name), "%s has %s", name, display.Size(fi.Size()))
			}
		}
	}
	if long == 0 {
		d.ok("logs", "%s", display.Size(all))
	}
}

// hookAge is how long doctor warns of a hook's error.
const hookAge = 7 * 24 * time.Hour

// checkHooks shows the last error of crabmem hook.
func (d *doctor) checkHooks(context.Context) {
	h := agenthook.Home{FS: d.FS, Dir: d.Home}
	line, at, err := h.LastError()
	switch {
	case err != nil:
		d.broken("hooks", err)
	case line == "":
	case d.Now().Sub(at) > hookAge:
		d.ok("hooks", "last error: %s", line)
	default:
		d.warn("hooks", "correct the cause, then run rm "+errtable.ShellWord(h.LogFile()), "last error: %s", line)
	}
}

// clockSkew is how far in the future a file may be.
const clockSkew = 5 * time.Minute

// noEarlier is when no program of this kind was written yet.
var noEarlier = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// checkClock compares the clock with what it was when something was written.
func (d *doctor) checkClock(context.Context) {
	const remedy = "set the clock, as with: sudo timedatectl set-ntp true"
	now := d.Now()
	if now.Before(noEarlier) {
		d.fail("clock", remedy, "the clock shows %s", now.UTC().Format(time.RFC3339))
		return
	}
	for _, name := range []string{d.Store, d.Store + "-wal", filepath.Join(d.Home, config.File), filepath.Join(d.Home, "crons.toml")} {
		fi, err := d.FS.Lstat(name)
		if err == nil && fi.ModTime().Sub(now) > clockSkew {
			d.warn("clock", remedy, "%s was written at %s, but the clock shows %s", name, fi.ModTime().UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
			return
		}
	}
	d.ok("clock", "%s", now.UTC().Format(time.RFC3339))
}

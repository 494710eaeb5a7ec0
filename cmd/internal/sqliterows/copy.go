package sqliterows

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// databaseCopy is a private copy of a database and its log. Write reads the copy,
// because SQLite creates a file next to a database with a log.
type databaseCopy struct {
	fs        vfs.FS
	dir, file string
}

// copyOf copies a database. Even after an error, the caller must remove the copy if it
// is not nil.
func copyOf(fsys vfs.FS, name string) (*databaseCopy, error) {
	dir := filepath.Join(os.TempDir(), "crabmem-sqlite-"+rand.Text()[:10])
	if err := fsys.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	c := &databaseCopy{fsys, dir, filepath.Join(dir, "copy.db")}
	before, err := stateOf(fsys, name)
	for _, end := range []string{"", "-wal"} {
		if err == nil {
			err = c.copy(name+end, c.file+end)
		}
	}
	if err == nil {
		err = unchanged(fsys, name, before)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return c, err
}

func (c *databaseCopy) copy(from, to string) error {
	in, err := c.fs.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.fs.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, maxFile+1))
	if err == nil && n > maxFile {
		err = fmt.Errorf("%s: larger than %d GiB, the limit", from, maxFile>>30)
	}
	return errors.Join(err, out.Close())
}

// remove removes the copy and the files that SQLite created next to it.
func (c *databaseCopy) remove() error {
	var errs error
	for _, end := range []string{"-shm", "-wal", "-journal", ""} {
		if err := c.fs.Remove(c.file + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errors.Join(errs, c.fs.Remove(c.dir))
}

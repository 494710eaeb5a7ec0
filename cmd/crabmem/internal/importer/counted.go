package importer

import (
	"io"
	"strings"
)

// counted returns a reader of r, which reads the source's file, that calls Progress.
// For an archive it returns r, because the total size of the files is unknown.
func (s *Source) counted(r io.Reader) io.Reader {
	if s.Progress == nil || s.Stream != nil || strings.HasSuffix(s.Path, ".zip") {
		return r
	}
	fi, err := s.FS.Lstat(s.Path)
	if err != nil || !fi.Mode().IsRegular() {
		return r
	}
	return &counter{r: r, total: fi.Size(), progress: s.Progress}
}

// counter reports the bytes that were read.
type counter struct {
	r           io.Reader
	done, total int64
	progress    func(done, total int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done += int64(n)
	c.progress(c.done, c.total)
	return n, err
}

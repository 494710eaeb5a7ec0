package importer

import "io"

// counter reports the bytes that its readers read.
type counter struct {
	done, total int64
	progress    func(done, total int64)
}

// newCounter returns a counter for files that are read once.
func newCounter(progress func(done, total int64), files ...[]opener) *counter {
	c := &counter{progress: progress}
	for _, list := range files {
		for _, f := range list {
			c.total += f.size
		}
	}
	return c
}

// reader returns a reader of r that reports progress, or r if progress is nil.
func (c *counter) reader(r io.Reader) io.Reader {
	if c.progress == nil {
		return r
	}
	return &counting{r, c}
}

type counting struct {
	io.Reader
	*counter
}

func (r *counting) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.done += int64(n)
	r.progress(r.done, r.total)
	return n, err
}

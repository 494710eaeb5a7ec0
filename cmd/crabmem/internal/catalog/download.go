package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"crabmem/crmem/vfs"
)

const (
	// Idle is how long a download waits for the next bytes.
	Idle = time.Minute

	maxRedirects = 10
)

// Download completes the files of m in the directory dir, from a host such as [Host]. It
// continues files that an earlier call began, and checks size and digest of each. A file
// with a wrong digest is removed; after another error, the received bytes stay. report
// gets the number of bytes that dir has.
func (m *Model) Download(ctx context.Context, fsys vfs.FS, dir, host string, t http.RoundTripper, report func(done int64)) error {
	client := &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return fmt.Errorf("redirect from https to %s", r.URL.Scheme)
		}
		return nil
	}}
	var before int64
	for _, f := range m.Files {
		d := download{fs: fsys, client: client, url: m.url(host, f.Name), path: filepath.Join(dir, f.Name), want: f, report: func(n int64) { report(before + n) }}
		if err := d.run(ctx); err != nil {
			return err
		}
		before += f.Size
	}
	return nil
}

// download is the download of one file.
type download struct {
	fs        vfs.FS
	client    *http.Client
	url, path string
	want      File
	report    func(int64)

	f    vfs.File
	have int64 // bytes in the file
	sum  hash.Hash
}

func (d *download) run(ctx context.Context) (err error) {
	if err := d.open(0); err != nil {
		return err
	}
	err = d.complete(ctx)
	if err == nil && hex.EncodeToString(d.sum.Sum(nil)) != d.want.SHA256 {
		err = fmt.Errorf("GET %s: the SHA-256 digest is %x, want %s; the file is removed", d.url, d.sum.Sum(nil), d.want.SHA256)
		return errors.Join(err, d.f.Close(), d.fs.Remove(d.path))
	}
	return errors.Join(err, d.f.Close())
}

// complete reads the bytes that the file has, and then requests the other ones.
func (d *download) complete(ctx context.Context) (err error) {
	d.sum = sha256.New()
	if d.have, err = io.Copy(d.sum, io.LimitReader(d.f, d.want.Size+1)); err != nil {
		return err
	}
	if d.have > d.want.Size { // of another program
		if err := d.restart(); err != nil {
			return err
		}
	}
	d.report(d.have)
	if d.have == d.want.Size {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(Idle, func() { cancel(fmt.Errorf("no data for %s", Idle)) })
	defer idle.Stop()
	if err = d.request(ctx, idle); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("GET %s: %w", d.url, context.Cause(ctx))
	}
	return err
}

// restart empties the file.
func (d *download) restart() error {
	d.have = 0
	d.sum.Reset()
	return errors.Join(d.f.Close(), d.open(os.O_TRUNC))
}

func (d *download) open(flag int) (err error) {
	d.f, err = d.fs.OpenFile(d.path, os.O_RDWR|os.O_CREATE|flag, 0o600)
	return err
}

// request requests the missing bytes, and appends them. A server that does not know ranges
// sends all bytes.
func (d *download) request(ctx context.Context, idle *time.Timer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "crabmem")
	r.Header.Set("Accept-Encoding", "identity")
	if d.have > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
	}
	res, err := d.client.Do(r)
	if err != nil {
		return err // contains the method and the address
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusPartialContent && d.have > 0:
		if want := fmt.Sprintf("bytes %d-%d/%d", d.have, d.want.Size-1, d.want.Size); res.Header.Get("Content-Range") != want {
			return fmt.Errorf("GET %s: the response has Content-Range %.60q, want %q", d.url, res.Header.Get("Content-Range"), want)
		}
	case res.StatusCode == http.StatusOK:
		if err := d.restart(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("GET %s: %.60s", d.url, res.Status)
	}
	if n := res.ContentLength; n >= 0 && n != d.want.Size-d.have {
		return fmt.Errorf("GET %s: the response has %d bytes, want %d", d.url, n, d.want.Size-d.have)
	}
	b := make([]byte, 1<<16)
	for {
		n, err := res.Body.Read(b)
		idle.Reset(Idle)
		if d.have+int64(n) > d.want.Size {
			return errors.Join(fmt.Errorf("GET %s: the response has more than %d bytes", d.url, d.want.Size), d.restart())
		}
		if _, err := d.f.Write(b[:n]); err != nil {
			return err
		}
		d.sum.Write(b[:n])
		d.have += int64(n)
		d.report(d.have)
		switch {
		case errors.Is(err, io.EOF) && d.have == d.want.Size:
			return nil
		case err != nil:
			return fmt.Errorf("GET %s: the response ended after %d of %d bytes: %w", d.url, d.have, d.want.Size, err)
		}
	}
}

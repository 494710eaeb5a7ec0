package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/embed/static"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// testModel returns a model of two files with the given texts.
func testModel(texts ...[]byte) *Model {
	m := &Model{Name: "m", Owner: "o", Revision: "r"}
	for i, text := range texts {
		sum := sha256.Sum256(text)
		m.Files = append(m.Files, File{Name: fmt.Sprint("file", i), Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
	}
	return m
}

// serve serves texts as a testModel's files, and returns the Range headers that it received.
func serve(t *testing.T, change func(w http.ResponseWriter, r *http.Request) bool, texts ...[]byte) (host string, ranges *[]string) {
	ranges = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*ranges = append(*ranges, r.Header.Get("Range"))
		if change != nil && change(w, r) {
			return
		}
		for i, text := range texts {
			if r.URL.Path == fmt.Sprint("/o/m/resolve/r/file", i) {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, ranges
}

// TestDownloadResumes cuts a response. The next call requests only the missing bytes, and
// a call with complete files makes no request.
func TestDownloadResumes(t *testing.T) {
	a, b := []byte("a tokenizer"), bytes.Repeat([]byte("0123456789abcdef"), 1<<13)
	m, dir := testModel(a, b), t.TempDir()
	cut := true
	host, ranges := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !cut || !strings.HasSuffix(r.URL.Path, "file1") {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b[:len(b)/2])
		return true
	}, a, b)
	var reports []int64
	get := func() error {
		return m.Download(t.Context(), vfs.OS{}, dir, host, nil, func(n int64) { reports = append(reports, n) })
	}
	err := get()
	if want := fmt.Sprintf("file1: the response ended after %d of %d bytes: unexpected EOF", len(b)/2, len(b)); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Fatalf("got %v, want …%s", err, want)
	}
	cut = false
	if err := get(); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]byte{a, b} {
		if got, err := os.ReadFile(filepath.Join(dir, m.Files[i].Name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("file %d has %d bytes, %v", i, len(got), err)
		}
	}
	if n := len(reports); reports[n-1] != m.Bytes() {
		t.Errorf("the last report is %d, want %d", reports[n-1], m.Bytes())
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(*ranges, ","), fmt.Sprintf(",,bytes=%d-", len(b)/2); got != want {
		t.Errorf("requests with ranges %q, want %q", got, want)
	}
}

// TestDownloadRestarts continues at a server without ranges, and replaces a file that is too long.
func TestDownloadRestarts(t *testing.T) {
	a := []byte("twelve bytes")
	m := testModel(a)
	whole, _ := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		w.Write(a)
		return true
	})
	parts, _ := serve(t, nil, a)
	for begun, host := range map[string]string{"twelve": whole, "a file with more bytes": parts} {
		path := filepath.Join(t.TempDir(), "file0")
		if err := os.WriteFile(path, []byte(begun), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.Download(t.Context(), vfs.OS{}, filepath.Dir(path), host, nil, func(int64) {}); err != nil {
			t.Errorf("%q: %v", begun, err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, a) {
			t.Errorf("%q: the file has %q", begun, got)
		}
	}
}

// TestDownloadRefuses has servers that respond with something else. No file has other
// bytes than those of the model.
func TestDownloadRefuses(t *testing.T) {
	a := []byte("twelve bytes")
	m := testModel(a)
	for _, c := range []struct {
		name, begun, want string
		change            func(w http.ResponseWriter, r *http.Request)
		kept              bool
	}{
		{name: "digest", want: "the SHA-256 digest is ", change: func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("TWELVE BYTES")) }},
		{name: "digest of a continued file", begun: "wrong", want: "the SHA-256 digest is ", change: func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a))
		}},
		{name: "long", want: "the response has 13 bytes, want 12", change: func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("thirteen byte")) }},
		{name: "endless", want: "the response has more than 12 bytes", change: func(w http.ResponseWriter, r *http.Request) {
			for range 1 << 10 {
				w.Write(make([]byte, 1<<10))
				w.(http.Flusher).Flush()
			}
		}},
		{name: "404", want: "404 Not Found", change: http.NotFound},
		{name: "redirect loop", want: "more than 10 redirects", change: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }},
		{name: "other range", begun: "twelve", want: `Content-Range "bytes 0-5/12", want "bytes 6-11/12"`, kept: true, change: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-5/12")
			w.WriteHeader(http.StatusPartialContent)
		}},
		{name: "range not asked for", want: "206 Partial Content", change: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusPartialContent) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, ranges := serve(t, func(w http.ResponseWriter, r *http.Request) bool { c.change(w, r); return true })
			path := filepath.Join(t.TempDir(), "file0")
			if c.begun != "" {
				if err := os.WriteFile(path, []byte(c.begun), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := m.Download(t.Context(), vfs.OS{}, filepath.Dir(path), host, nil, func(int64) {})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "file0") {
				t.Errorf("got %v, want …%s", err, c.want)
			}
			if n := len(*ranges); n > maxRedirects {
				t.Errorf("%d requests", n)
			}
			if got, _ := os.ReadFile(path); len(got) > 0 && !c.kept {
				t.Errorf("the file has %q", got)
			}
		})
	}
}

// TestDownloadDowngrade has a server with TLS that redirects to one without.
func TestDownloadDowngrade(t *testing.T) {
	a := []byte("twelve bytes")
	plain, _ := serve(t, nil, a)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain+r.URL.Path, http.StatusFound)
	}))
	defer s.Close()
	err := testModel(a).Download(t.Context(), vfs.OS{}, t.TempDir(), s.URL, s.Client().Transport, func(int64) {})
	if err == nil || !strings.HasSuffix(err.Error(), "redirect from https to http") {
		t.Errorf("got %v", err)
	}
}

// TestDownloadFullDisk has a disk without room. After more room, the download continues.
func TestDownloadFullDisk(t *testing.T) {
	a := bytes.Repeat([]byte("x"), 1000)
	host, ranges := serve(t, nil, a)
	fsys := faultfs.NewMem()
	fsys.Limit = 400
	if err := testModel(a).Download(t.Context(), fsys, "/", host, nil, func(int64) {}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	fsys.Limit = 2000
	if err := testModel(a).Download(t.Context(), fsys, "/", host, nil, func(int64) {}); err != nil {
		t.Error(err)
	}
	if got := strings.Join(*ranges, ","); got != ",bytes=400-" {
		t.Errorf("requests with ranges %q", got)
	}
}

// slow is a transport whose response has a byte after each pause; without bytes, it ends
// with the request.
type slow struct {
	bytes int
	pause time.Duration
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	pr, pw := io.Pipe()
	go func() { // until the request ends
		for range s.bytes {
			time.Sleep(s.pause) // of the bubble's clock
			pw.Write([]byte("x"))
		}
		if s.bytes == 0 {
			<-r.Context().Done()
		}
		pw.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: pr, Request: r}, nil
}

// TestDownloadIdle ends a download without data, and not one that is slow.
func TestDownloadIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := testModel([]byte("x")).Download(t.Context(), faultfs.NewMem(), "/", "http://h", slow{}, func(int64) {})
		if err == nil || !strings.HasSuffix(err.Error(), "no data for 1m0s") || time.Since(start) != Idle {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		err = testModel([]byte("xxx")).Download(t.Context(), faultfs.NewMem(), "/", "http://h", slow{3, Idle - time.Second}, func(int64) {})
		if err != nil {
			t.Errorf("with a byte every %s: %v", Idle-time.Second, err)
		}
	})
}

// TestModels checks the table: sizes that package static reads, and well-formed digests.
func TestModels(t *testing.T) {
	for i, m := range Models {
		if static.CheckName(m.Name) != nil || len(m.Revision) != 40 || m.License == "" || m.About == "" || Find(m.Name) != &Models[i] {
			t.Errorf("%+v", m)
		}
		for j, name := range []string{tokenizer, weights} {
			f := m.Files[j]
			if sum, err := hex.DecodeString(f.SHA256); f.Name != name || err != nil || len(sum) != sha256.Size || f.Size < 1 || f.Size > 1<<30 {
				t.Errorf("%s: %+v", m.Name, f)
			}
		}
		if i > 0 && m.Bytes() < Models[i-1].Bytes() {
			t.Errorf("%s is smaller than %s", m.Name, Models[i-1].Name)
		}
	}
	if Find("potion") != nil {
		t.Error("found a part of a name")
	}
}

// Package kinds has a mutant of each kind, and source without mutants.
package kinds

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"
)

const limit = 8

const wait = 3 * time.Second

func conditions(a, b int, ok bool, list []string) bool {
	if ok && a < b || list == nil {
		return true
	}
	if !ok {
		return a == b
	}
	for a >= b {
		a += 2
	}
	return false
}

func errorsOf(name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, fmt.Errorf("open %s: %d: %w", name, 1+2, err)
	}
	defer f.Close()
	n, err := f.Seek(0, limit)
	if err := f.Sync(); err != nil {
		return n, err
	}
	return n, f.Truncate(n)
}

func loops(list []string) (n int) {
	for i, s := range list {
		if s == "" {
			continue
		}
		n = i - 1
		n++
		if n > limit {
			break
		}
	}
	return
}

func leftOut(b *strings.Builder, list []byte) {
	out := make([]byte, 0, 2*len(list))
	if cap(out) > 100 {
		panic("too " + "large")
	}
	b.Grow(5)
	log.Print(errors.New("a text"), 3)
	list = slices.Grow(list, 5)
	list = slices.Grow(list[:1], 5)
	bufio.NewWriterSize(b, 1<<5).Flush()
	time.Sleep(wait)
	started := time.Now()
	for time.Since(started) < wait {
	}
}

type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func problemf(status int, format string, args ...any) *problem {
	return &problem{status: status + 2, text: fmt.Sprintf(format, args...)}
}

func problems(list []string) error {
	if len(list) > limit {
		return problemf(400, "%d names, at most %d", len(list)-1, limit+1)
	}
	for _, s := range list {
		switch {
		case s == "":
			continue
		case s == "-":
			break
		}
	}
	for _, s := range list {
		switch {
		case s == "":
			continue
		case s == "-":
			break
		}
		print(s)
	}
	return nil
}

type pair struct{ a, b int }

func zeros(p *pair) (pair, bool, error) {
	if p.a != p.b {
		return *p, true, nil
	}
	return pair{}, false, nil
}

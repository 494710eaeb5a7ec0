package daemon

import (
	"strings"
	"testing"

	"crabmem/crmem"
)

func TestQuota(t *testing.T) {
	s := crmem.New(nil)
	for _, name := range []string{"a", "b"} {
		if _, err := s.Remember(name, "0123456789", []string{"xx"}); err != nil {
			t.Fatal(err)
		}
	} // 26 bytes
	for _, c := range []struct {
		q       quota
		name    string
		content string
		aliases []string
		ok      bool
	}{
		{quota{}, "c", strings.Repeat("x", 1<<20), nil, true},
		{quota{Entries: 2}, "c", "x", nil, false},
		{quota{Entries: 2}, "a", "x", nil, true},
		{quota{Entries: 3}, "c", "x", nil, true},
		{quota{Bytes: 30}, "c", "xxx", nil, true},
		{quota{Bytes: 30}, "c", "xxxx", nil, false},
		{quota{Bytes: 30}, "c", "xx", []string{"y"}, true},
		{quota{Bytes: 30}, "c", "xx", []string{"yy"}, false},
		{quota{Bytes: 30}, "a", "01234567890123", nil, true},
		{quota{Bytes: 30}, "a", "012345678901234", nil, false},
		{quota{Bytes: 30}, "a", "0123456789012345", []string{}, true},
		{quota{Bytes: 30}, "a", "01234567890123456", []string{}, false},
	} {
		if err := c.q.check(s, &crmem.Remember{Name: c.name, Content: c.content, Aliases: c.aliases}); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

package memtool

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
		q       Quota
		name    string
		content string
		aliases []string
		ok      bool
	}{
		{Quota{}, "c", strings.Repeat("x", 1<<20), nil, true},
		{Quota{Entries: 2}, "c", "x", nil, false},
		{Quota{Entries: 2}, "a", "x", nil, true},
		{Quota{Entries: 3}, "c", "x", nil, true},
		{Quota{Bytes: 30}, "c", "xxx", nil, true},
		{Quota{Bytes: 30}, "c", "xxxx", nil, false},
		{Quota{Bytes: 30}, "c", "xx", []string{"y"}, true},
		{Quota{Bytes: 30}, "c", "xx", []string{"yy"}, false},
		{Quota{Bytes: 30}, "a", "01234567890123", nil, true},
		{Quota{Bytes: 30}, "a", "012345678901234", nil, false},
		{Quota{Bytes: 30}, "a", "0123456789012345", []string{}, true},
		{Quota{Bytes: 30}, "a", "01234567890123456", []string{}, false},
	} {
		if err := c.q.Check(s, &crmem.Remember{Name: c.name, Content: c.content, Aliases: c.aliases}); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

package cli

import (
	"bytes"
	"testing"
)

func TestTable(t *testing.T) {
	var b bytes.Buffer
	NewStreams(nil, &b, nil).Table(&b, [][]string{{"N", "NAME", "X"}, {"7", "部署", "a"}, {"12", "x", "b"}}, "0")
	want := " N  NAME  X\n 7  部署  a\n12  x     b\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

package analysis_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

var record = flag.Bool("record", false, "write testdata/terms.txt")

// pieces are words and numbers for every rule of the analyzers.
var pieces = strings.Fields(`the of and a it The Kubernetes kubernetes kubelet cluster clusters clustering autovacuum auto vacuum running runs ran
	universities universe universal getUserName HTTPServer parseXMLFile utf8 sha256 max_wal_size snake_case on-call e-mail don't user's users’
	v2.6.1 1.2.3-rc.4 go1.26 1.26 10.20.30.40 10:30 10:30:59 ORA-00942 HTTP 404 4GiB 5 GHz 1.5 kg 1,000,000 10_000 C++ c# AT&T U.S.A. R&D
	2026-03-04 04.03.2026 March 4, 2026 4th 14 сентября 2026 20260304 3/14/2026 2026年3月4日 Sept
	серверы сервера сервере Ещё её Łódź Ørsted Straße GRÖSSE ΟΔΟΣ οδός naïve naive café café CAFÉS réseau œufs ﬁle
	記憶 ストレージ ﾃｽﾄ ＡＢＣ 東京都庁 京都の 数据库 数 데이터베이스 ฐานข้อมูล नमस्ते العربية كتاب الكتاب פגישה הפגישה
	👍🏽 👩‍💻 🇩🇪🇫🇷 ❤️ ©→ tests/fixtures/a.rs /usr/local/bin foo.bar() --flag=value user@example.org https://example.org/a?b=c x X 7 42 0x1F
	internationalization internationalize went gone mice mouse children child was were is written better best`)

var joiners = []string{" ", " ", " ", " ", ", ", ". ", "-", "/", "\n", "_", "", "’", "  ", "\n\n", " – "}

func piecesOf(r *rand.Rand, n int) string {
	var b strings.Builder
	for range 1 + r.IntN(n) {
		b.WriteString(pieces[r.IntN(len(pieces))])
		b.WriteString(joiners[r.IntN(len(joiners))])
	}
	return b.String()
}

// TestRecorded compares the terms of texts with those of an earlier version. A change of
// an analyzer must be intended; after review, go test ./bm25/analysis -run TestRecorded
// -record writes the file.
func TestRecorded(t *testing.T) {
	var out bytes.Buffer
	recordTerms(&out)
	const file = "testdata/terms.txt"
	if *record {
		if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	if len(got) != len(wanted) {
		t.Fatalf("%d lines, want %d", len(got), len(wanted))
	}
	for i := range got {
		if got[i] != wanted[i] {
			t.Errorf("line %d is\n%s\nwant\n%s", i+1, got[i], wanted[i])
		}
	}
}

func recordTerms(out *bytes.Buffer) {
	r := rand.New(rand.NewPCG(1, 9))
	for i := range 400 {
		text := piecesOf(r, 6)
		if i < len(pieces) {
			text = pieces[i]
		}
		a := analysis.Standard
		fmt.Fprintf(out, "%+q: %d", text, a.Length(text))
		for term := range a.Tokens(text) {
			fmt.Fprintf(out, " %s", term)
		}
		out.WriteString(" ?")
		for term, weight := range a.QueryTerms(text) {
			fmt.Fprintf(out, " %s*%.3g", term, weight)
		}
		out.WriteByte('\n')
	}
}

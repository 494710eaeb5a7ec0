package bm25_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

var record = flag.Bool("record", false, "write testdata/recorded.txt")

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

// TestRecorded compares terms, scores, corrections, and explanations with the
// output of an earlier version. A change of ranking or of an analyzer must be
// intended; after review, go test ./bm25 -run TestRecorded -record writes the
// file.
func TestRecorded(t *testing.T) {
	var out bytes.Buffer
	recordTerms(&out)
	for _, seed := range []uint64{1, 2, 3} {
		recordSearches(t, &out, seed)
	}
	const file = "testdata/recorded.txt"
	if *record {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("line %d is\n%s\nwant\n%s", i+1, strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""),
				strings.Join(wanted[min(i, len(wanted)):min(i+1, len(wanted))], ""))
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

// recordSearches writes the results of queries in a library that changes.
func recordSearches(t *testing.T, out *bytes.Buffer, seed uint64) {
	bm25.SetTailDocs(t, 24)
	r := rand.New(rand.NewPCG(seed, 10))
	doc := func() []string { return []string{piecesOf(r, 3), piecesOf(r, 20)} }
	var texts [][]string
	for range 60 {
		texts = append(texts, doc())
	}
	l := newLibrary(t, texts...)
	for round := range 50 {
		switch id := uint64(1 + r.IntN(len(l.texts))); {
		case round%3 == 0:
			l.texts[id-1] = doc()
			l.x.Add(bm25.Doc{ID: id, Class: uint8(id % 4), Fields: l.texts[id-1]})
		case round%3 == 1:
			l.x.Remove(id)
		}
		text := strings.Join(strings.Fields(piecesOf(r, 5)), " ")
		if round%4 == 0 {
			text = misspelled(r, text)
		}
		q := l.query(text, r.IntN(8), uint64(1+r.IntN(60)))
		if round%5 == 0 {
			q.Classes = uint8(1 + r.IntN(15))
		}
		recordQuery(out, l, q)
	}
}

// misspelled changes the longest word of a text.
func misspelled(r *rand.Rand, text string) string {
	fields := strings.Fields(text)
	longest := slices.MaxFunc(fields, func(a, b string) int { return len([]rune(a)) - len([]rune(b)) })
	runes := []rune(longest)
	if len(runes) < 2 {
		return text
	}
	i := r.IntN(len(runes) - 1)
	runes[i], runes[i+1] = runes[i+1], runes[i]
	if r.IntN(2) == 0 {
		runes = runes[:1+len(runes)/2]
	}
	return strings.Replace(text, longest, string(runes), 1)
}

func recordQuery(out *bytes.Buffer, l *library, q bm25.Query) {
	q.Count = true
	result := l.x.Search(q)
	fmt.Fprintf(out, "%+q limit %d classes %d named %v: %d", q.Text, q.Limit, q.Classes, q.Named, result.Total)
	for _, c := range result.Corrections {
		fmt.Fprintf(out, " %v", c)
	}
	for i, h := range result.Hits {
		fmt.Fprintf(out, " %d=%.9g", h.ID, h.Score)
		if i > 1 {
			continue
		}
		e, ok := l.x.Explain(q, h.ID)
		fmt.Fprintf(out, " {%t docs %d avg %.9g len %d read %t named %.9g", ok, e.Docs, e.AvgLen, e.Len, e.Read, e.Named)
		for _, line := range e.Terms {
			fmt.Fprintf(out, "; %s tf %d df %d %.9g %.9g %.3g place %d.%d %.9g %.9g", line.Term, line.TF, line.DF,
				line.Contribution, line.LengthNorm, line.Weight, line.Field, line.Place, line.Early, line.Exact)
		}
		for _, near := range e.Near {
			fmt.Fprintf(out, "; %v %d %.9g", near.Terms, near.Distance, near.Contribution)
		}
		out.WriteString("}")
	}
	q.Texts, q.Named = nil, nil
	ranking := l.x.Rank(q)
	ranking.BoostByNeighbors(func(list []bm25.Neighbor, id uint64) []bm25.Neighbor {
		return append(list, bm25.Neighbor{ID: id - 1, Weight: 0.5}, bm25.Neighbor{ID: id + 1, Weight: 0.25})
	})
	for _, h := range ranking.Hits[:min(3, len(ranking.Hits))] {
		fmt.Fprintf(out, " lent %d=%.9g", h.ID, h.Score)
	}
	out.WriteByte('\n')
}

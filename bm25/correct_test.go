package bm25_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

func TestCorrect(t *testing.T) {
	texts := [][]string{
		{"the Kubernetes cluster"}, {"a kubelet, and kubernetes again"}, {"autovacuum of the wal"}, {"серверы в Казани"},
		{"réseau café"}, {"errors E0308 and version 1.2.3"}, {"東京都庁"}, {"a removed observability"},
	}
	l := newLibrary(t, texts...)
	l.x.Remove(8)
	for query, want := range map[string]string{
		"kuberntes":       "[{kuberntes typo [kubernetes] 0.7}]",
		"kubernetse":      "[{kubernetse typo [kubernetes] 0.7}]",
		"KUBERNETE5":      "[]", // no word of letters
		"kuber":           "[{kuber prefix [kubernetes] 0.7}]",
		"kubel":           "[{kubel prefix [kubelet] 0.7}]",
		"auto vacuum":     "[{auto vacuum joined [autovacuum] 0.7}]",
		"kubernetes":      "[]",
		"сервреы":         "[{сервреы typo [серверы] 0.7}]",
		"reseu":           "[{reseu typo [reseau] 0.7}]",
		"observabilty":    "[]", // it was removed
		"E0309":           "[]",
		"1.2.4":           "[]",
		"東京塔":             "[]",
		"kub":             "[]",
		"the of":          "[]",
		"":                "[]",
		"zzzzzz qqqqqqqq": "[]",
	} {
		q := l.query(query, 0)
		if got := fmt.Sprint(l.x.Search(q).Corrections); got != want && !(got == "[]" && want == "[]") {
			t.Errorf("%q is corrected to %v, want %v", query, got, want)
		}
		if q.Correct = false; len(l.x.Search(q).Corrections) > 0 {
			t.Errorf("%q is corrected unasked", query)
		}
	}
	if got := l.ids(l.query("kuberntes cluster", 0)); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("found %v", got)
	}
	if got := l.ids(bm25.Query{Text: "kuberntes"}); len(got) > 0 {
		t.Errorf("found %v without corrections", got)
	}
}

// TestCorrectPastJoinedName corrects to a word next to a form of several terms,
// the first such form of the index.
func TestCorrectPastJoinedName(t *testing.T) {
	l := newLibrary(t, []string{"kubernetEs"}, []string{"kubernetes"})
	if got, want := fmt.Sprint(l.x.Search(l.query("kuberntes", 0)).Corrections), "[{kuberntes typo [kubernetes] 0.7}]"; got != want {
		t.Errorf("corrected to %v, want %v", got, want)
	}
}

// TestCorrectLongWords corrects words of up to 40 letters, also of letters that
// have four bytes each before they become ASCII.
func TestCorrectLongWords(t *testing.T) {
	for _, letters := range []string{"abcdefghklmnoprstuvw", "𝐚𝐛𝐜𝐝𝐞𝐟𝐠𝐡𝐤𝐥𝐦𝐧𝐨𝐩𝐫𝐬𝐭𝐮𝐯𝐰"} {
		for n := 38; n <= 42; n++ {
			word := []rune(strings.Repeat(letters, 3))[:n]
			wrong := slices.Clone(word)
			wrong[5], wrong[6] = wrong[6], wrong[5]
			l := newLibrary(t, []string{string(word)})
			got := len(l.x.Search(l.query(string(wrong), 0)).Corrections)
			if want := map[bool]int{true: 1}[n <= 40]; got != want {
				t.Errorf("%d letters of %s: %d corrections, want %d", n, letters, got, want)
			}
		}
	}
}

// TestCorrectAddedLetter removes a letter of one, two, three, or four bytes.
func TestCorrectAddedLetter(t *testing.T) {
	for wrong, right := range map[string]string{"vagonn": "vagon", "ваагон": "вагон", "არჩიილ": "არჩილ", "𞤀𞤁𞤂𞤃𞤄𞤄": "𞤀𞤁𞤂𞤃𞤄"} {
		l := newLibrary(t, []string{right})
		c := l.x.Search(l.query(wrong, 0)).Corrections
		if len(c) != 1 || !slices.Equal(c[0].Words, []string{strings.ToLower(right)}) {
			t.Errorf("%q is corrected to %v, want %q", wrong, c, right)
		}
	}
}

// TestCorrectBytes corrects a word of 40 letters in 160 bytes, but not one with
// more bytes, even if the additional mark is ignored.
func TestCorrectBytes(t *testing.T) {
	word := strings.Repeat("𝐚𝐛𝐜𝐝𝐞", 8)
	wrong := strings.Replace(word, "𝐛𝐜", "𝐜𝐛", 1)
	l := newLibrary(t, []string{word})
	for query, want := range map[string]int{wrong: 1, wrong + "\u0301": 0} {
		if got := len(l.x.Search(l.query(query, 0)).Corrections); got != want {
			t.Errorf("%d bytes: %d corrections, want %d", len(query), got, want)
		}
	}
}

// TestLettersBoundEdits edits random words: the letter sets of a word and of its
// misspelling differ by at most two bits per edit, and the set of a prefix is a
// subset.
func TestLettersBoundEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, alphabet := range []string{"abcdefghijklmnopqrstuvwxyz", "абвгджзклмнпрт", "bcdéöüñ", "aе"} {
		letters := []rune(alphabet)
		letter := func() rune { return letters[r.IntN(len(letters))] }
		for range 1000 {
			var word []rune
			for range 5 + r.IntN(12) {
				word = append(word, letter())
			}
			wrong := slices.Clone(word)
			edits := 1 + r.IntN(2)
			for range edits {
				i := r.IntN(len(wrong) - 1)
				switch r.IntN(4) {
				case 0:
					wrong[i] = letter()
				case 1:
					wrong = slices.Insert(wrong, i, letter())
				case 2:
					wrong = slices.Delete(wrong, i, i+1)
				default:
					wrong[i], wrong[i+1] = wrong[i+1], wrong[i]
				}
			}
			a, b := bm25.Letters([]byte(string(word))), bm25.Letters([]byte(string(wrong)))
			if n := bits.OnesCount32(a ^ b); n > 2*edits {
				t.Fatalf("%s and %s differ in %d places after %d edits", string(word), string(wrong), n, edits)
			}
			if c := bm25.Letters([]byte(string(word[:len(word)/2]))); c&^a != 0 {
				t.Fatalf("%s lacks letters of its prefix", string(word))
			}
		}
	}
}

// TestCorrectToLongestForm checks that a correction lists a word of the documents,
// not its stem, up to the longest word form, 64 bytes.
func TestCorrectToLongestForm(t *testing.T) {
	word := strings.Repeat("север", 5) + "сервера"
	x := bm25.New(analysis.Standard)
	x.Add(bm25.Doc{ID: 1, Fields: []string{word}})
	r := x.Search(bm25.Query{Text: word[:20], Limit: 1, Correct: true})
	if len(r.Corrections) != 1 || !slices.Equal(r.Corrections[0].Words, []string{word}) {
		t.Errorf("corrections of %q: %+v, want %q", word[:20], r.Corrections, word)
	}
}

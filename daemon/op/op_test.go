package op

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/space"

	"github.com/fxamacker/cbor/v2"
)

// TestRequests checks that a request with another shape is refused: with a field that is
// unknown, repeated, or in other letters, of another type, or with bytes after it.
func TestRequests(t *testing.T) {
	row := Find("models.switch")
	body := func(pairs ...any) []byte {
		b := []byte{0xa0 | byte(len(pairs)/2)}
		for _, v := range pairs {
			one, err := cbor.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, one...)
		}
		return b
	}
	in, err := row.Request(body("name", "m"))
	if err != nil || in.(*ModelName).Name != "m" {
		t.Fatalf("%+v, %v", in, err)
	}
	for what, b := range map[string][]byte{
		"unknown field":  body("name", "m", "more", 1),
		"other letters":  body("Name", "m"),
		"repeated field": body("name", "m", "name", "n"),
		"number":         body("name", 7),
		"invalid UTF-8":  append(body("name", "m")[:6], 0x61, 0xff),
		"bytes after it": append(body("name", "m"), 0),
		"cut":            body("name", "m")[:4],
		"no fixed size":  {0xbf, 0x64, 'n', 'a', 'm', 'e', 0x61, 'm', 0xff},
		"list":           {0x81, 0x61, 'm'},
		"nothing":        {},
		"deep":           bytes.Repeat([]byte{0x81}, 1000),
		"large list":     {0xa1, 0x64, 'n', 'a', 'm', 'e', 0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		if in, err := row.Request(b); err == nil || !strings.HasPrefix(err.Error(), "request models.switch: ") {
			t.Errorf("%s: %+v, %v", what, in, err)
		}
	}
}

// TestResponses checks that a response keeps its values, and may have a field that this
// program does not know.
func TestResponses(t *testing.T) {
	at := time.Date(2026, 11, 28, 20, 40, 1, 123456789, time.FixedZone("", 3600))
	sent := Space{"team", space.About{Title: "T", Metadata: map[string]string{"k": "v"}, CreatedAt: at, UpdatedAt: at}}
	body, err := Encode(struct {
		Space
		Newer int `json:"newer"`
	}{sent, 1})
	if err != nil {
		t.Fatal(err)
	}
	var got Space
	if err := Decode(body, &got); err != nil || got.Name != "team" || got.Title != "T" || got.Metadata["k"] != "v" || !got.UpdatedAt.Equal(at) || !got.ArchivedAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestWorstTexts encodes the largest content in bytes that JSON escapes. None of them
// grows: each content fits one message.
func TestWorstTexts(t *testing.T) {
	for _, c := range []string{"\x01", "\n", "\"", "<", "\u2028"} {
		text := strings.Repeat(c, crmem.MaxContent/len(c))
		body, err := Encode(ModelName{text})
		if err != nil || len(body) > len(text)+20 || len(body) > MaxBody {
			t.Fatalf("%q: %d bytes for %d, %v", c, len(body), len(text), err)
		}
		var got ModelName
		if err := Decode(body, &got); err != nil || got.Name != text {
			t.Errorf("%q: %v", c, err)
		}
	}
}

// TestRows checks the rows: names have a subject and a verb, and sentences end.
func TestRows(t *testing.T) {
	for _, r := range All() {
		subject, verb, ok := strings.Cut(r.Name, ".")
		if !ok || subject == "" || verb == "" || !strings.HasSuffix(r.Does, ".") {
			t.Errorf("row %q: %q", r.Name, r.Does)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("two rows have one name")
		}
	}()
	Add(0, Op[Daemon, None, None]{Name: ListModels.row.Name, Does: ListModels.row.Does,
		Run: func(context.Context, Daemon, *None) (None, error) { return None{}, nil }})
}

// TestSessionsHaveGuards checks that a row for sessions of the identity does not exist
// without the check of the owner.
func TestSessionsHaveGuards(t *testing.T) {
	for _, need := range []Need{NeedSession, NeedChanges} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("need %d without a guard", need)
				}
			}()
			Add(0, Op[Daemon, None, None]{Name: "toys.wind", Does: "Wind a toy.", Need: need})
		}()
	}
	if Find("toys.wind") != nil {
		t.Error("the row was added")
	}
}

// TestInvalidTexts encodes the texts of files that are not UTF-8: the response contains
// U+FFFD instead, in each kind of field.
func TestInvalidTexts(t *testing.T) {
	type part struct {
		Text  string    `json:"text"`
		Lines []string  `json:"lines"`
		Raw   []byte    `json:"raw"`
		Next  *part     `json:"next"`
		Parts []part    `json:"parts"`
		At    time.Time `json:"at"`
	}
	bad, at := "a\xc3b\xed\xa0\x80", time.Unix(1, 0).UTC()
	response := func(text string) part {
		p := part{Text: text, Lines: []string{"ok", text}, Raw: []byte(bad), At: at}
		return part{Next: &p, Parts: []part{p}, At: at}
	}
	run := func(context.Context, Daemon, *None) (part, error) { return response(bad), nil }
	o := Add(0, Op[Daemon, None, part]{Name: "boxes.open", Does: "Open a box.", Run: run, Files: true})
	s := AddSeq(0, Seq[Daemon, None, part]{Name: "boxes.list", Does: "List boxes.", Files: true, Run: func(_ context.Context, _ Daemon, _ *None, send func(part) error) error {
		return send(response(bad))
	}})
	defer delete(rows, "boxes.open")
	defer delete(rows, "boxes.list")
	want := response("a\uFFFDb\uFFFD")
	for _, row := range []*Row{o.row, s.row} {
		_, err := row.Run(t.Context(), Daemon{}, new(None), func(body []byte) error {
			var got part
			if err := Decode(body, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", row.Name, got, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

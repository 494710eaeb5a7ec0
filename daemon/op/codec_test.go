package op

import (
	"reflect"
	"testing"
)

// TestRowKeepsEmptyLists checks that an empty list of a note's arguments is not decoded as
// a missing one: it removes what the note has.
func TestRowKeepsEmptyLists(t *testing.T) {
	row := Find("entries.note")
	for _, in := range []*NoteArgs{{}, emptyLists()} {
		body, err := Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := row.Request(body); err != nil || !reflect.DeepEqual(got, in) {
			t.Errorf("%#v, %v, want %#v", got, err, in)
		}
	}
}

// emptyLists returns arguments of which each list is empty.
func emptyLists() *NoteArgs {
	in := new(NoteArgs)
	var set func(v reflect.Value)
	set = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				set(v.Field(i))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
	}
	set(reflect.ValueOf(in).Elem())
	return in
}

// TestNoteIsNotRepeated checks that a client does not repeat the conditional write of a
// note, of which the second one would fail.
func TestNoteIsNotRepeated(t *testing.T) {
	row := Find("entries.note")
	if row.Retry || !row.Idempotent() {
		t.Errorf("Retry %v, Idempotent %v, want false, true", row.Retry, row.Idempotent())
	}
}

// TestErrorEncode checks that clients can decode an error with any texts.
func TestErrorEncode(t *testing.T) {
	offset := int64(7)
	e := Error{Code: 500, Message: "read \xff", Kind: "format", Path: "/\xfe", Remedy: "r", Offset: &offset, Details: []byte{0xff}}
	var got Error
	if err := Decode(e.Encode(), &got); err != nil {
		t.Fatal(err)
	}
	want := Error{Code: 500, Message: "read \uFFFD", Kind: "format", Path: "/\uFFFD", Remedy: "r", Offset: &offset, Details: []byte{0xff}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

package op

import (
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// Requests and responses are CBOR maps (RFC 8949), with the JSON names of their fields: a
// text needs no escapes, so each entry that fits a frame as it is fits one encoded, too.

// MaxBody limits the part of a request or response in one message, in bytes.
const MaxBody = 15 << 20

// maxItems limits each list and map.
const maxItems = 1 << 24

var (
	encoding = must(cbor.EncOptions{Time: cbor.TimeRFC3339NanoUTC, OmitEmpty: cbor.OmitEmptyGoValue}.EncMode())
	// A request with a field that this daemon does not know would have another meaning.
	requests = must(strict.DecMode())
	// A newer daemon may add fields to a response.
	responses = must(lenient.DecMode())
)

var strict = cbor.DecOptions{
	DupMapKey: cbor.DupMapKeyEnforcedAPF, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
	IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden, MaxArrayElements: maxItems, MaxMapPairs: maxItems,
}

var lenient = cbor.DecOptions{FieldNameMatching: cbor.FieldNameMatchingCaseSensitive, MaxArrayElements: maxItems, MaxMapPairs: maxItems}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the callers pass values that have no error
	}
	return v
}

// Encode encodes a request or response.
func Encode(v any) ([]byte, error) { return encoding.Marshal(v) }

// Decode decodes a response.
func Decode(body []byte, out any) error { return responses.Unmarshal(body, out) }

// mend replaces invalid UTF-8 in the texts of a value: responses with it cannot be decoded.
func mend(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); !utf8.ValidString(s) {
			v.SetString(strings.ToValidUTF8(s, "\uFFFD"))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			mend(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			mend(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				mend(v.Field(i))
			}
		}
	}
}

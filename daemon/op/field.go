package op

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Place is where a field of a request or response is over HTTP.
type Place uint8

const (
	InBody   Place = iota
	InPath         // a part of the path
	InQuery        // a parameter
	InHeader       // in the header Part; of a response also in the body
	OfKey          // what the key of the client permits: the gateway sets it
	ForOwner       // only the command line and the owner's socket have the field
)

// A Field is a field of a request or response. The tag json has its name in bodies, the tag
// jsonschema describes it, and the tag op has options, separated by commas:
//
//	path=NAME    the part {NAME} of the path; without it, that of the same name
//	query        a parameter, though the request has a body
//	header=NAME  in a header
//	key          what the key of the client permits
//	owner        only the command line and the owner's socket have the field
//	default=N    the value if the parameter or argument is absent
//	min=N        a lower value of the parameter is N; a lower argument is refused
//	max=N        limit of the parameter or argument
//	size=N       limit of the parameter in bytes
//	chars=N      limit of the text in characters
//	items=N      limit of the list
//	filled       neither the text nor a text of the list is empty
//	words=A|B    the only values
//	null         the list may be null
//	time         the text is a time in RFC 3339
//	paths        a text with paths, in which a gateway hides the home
type Field struct {
	Name     string
	Doc      string
	Type     reflect.Type
	Index    []int // for [reflect.Value.FieldByIndex]
	Required bool
	Paths    bool // its text contains paths
	Place    Place
	Part     string // name in Place
	Words    []string
	Default  string
	Null     bool
	Time     bool
	Filled   bool

	Min, Max, Size, Chars, Items int
}

// known has the fields of types, by type.
var known sync.Map

// Fields returns the fields of a struct, including the fields of embedded structs. Another
// type has no fields. The caller must not change them.
func Fields(t reflect.Type) (list []Field) {
	if t == nil || t.Kind() != reflect.Struct || encodesItself(t) {
		return nil
	}
	if list, ok := known.Load(t); ok {
		return list.([]Field)
	}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" {
			continue
		}
		required := !strings.Contains(options, "omit") && !inPointer(t, f.Index)
		one := Field{Name: name, Part: name, Doc: f.Tag.Get("jsonschema"), Type: f.Type, Index: f.Index, Required: required}
		one.options(f.Tag.Get("op"))
		list = append(list, one)
	}
	known.Store(t, list)
	return list
}

// inPointer reports whether a field is absent if an embedded pointer is nil.
func inPointer(t reflect.Type, index []int) bool {
	return slices.ContainsFunc(index[:len(index)-1], func(i int) bool {
		t = t.Field(i).Type
		return t.Kind() == reflect.Pointer
	})
}

func (f *Field) options(tag string) {
	for option := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "":
			continue
		case "path":
			f.Place, f.Part = InPath, value
		case "query":
			f.Place = InQuery
		case "header":
			f.Place, f.Part = InHeader, value
		case "key":
			f.Place = OfKey
		case "paths":
			f.Paths = true
		case "owner":
			f.Place = ForOwner
		case "null":
			f.Null = true
		case "time":
			f.Time = true
		case "filled":
			f.Filled = true
		case "words":
			f.Words = strings.Split(value, "|")
		case "default":
			f.Default = value
		case "min":
			f.Min = f.number(option)
		case "max":
			f.Max = f.number(option)
		case "size":
			f.Size = f.number(option)
		case "chars":
			f.Chars = f.number(option)
		case "items":
			f.Items = f.number(option)
		default:
			panic(fmt.Sprintf("op: the field %s has the unknown option %q", f.Name, option))
		}
	}
}

// number returns N for an option NAME=N.
func (f *Field) number(option string) int {
	_, value, _ := strings.Cut(option, "=")
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("op: the field %s has the invalid option %q", f.Name, option))
	}
	return n
}

var (
	textType = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
)

// IsText reports whether a type is a string in JSON, as [time.Time] is.
func IsText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textType)
}

// encodesItself reports whether the JSON of a type is not its fields or items.
func encodesItself(t reflect.Type) bool {
	return IsText(t) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(jsonType)
}

// ForClients returns a type without the fields that clients of a gateway do not have, at
// any depth.
func ForClients(t reflect.Type) reflect.Type {
	if encodesItself(t) {
		return t
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		elem := ForClients(t.Elem())
		switch {
		case elem == t.Elem():
			return t
		case t.Kind() == reflect.Pointer:
			return reflect.PointerTo(elem)
		case t.Kind() == reflect.Slice:
			return reflect.SliceOf(elem)
		}
		return reflect.MapOf(t.Key(), elem)
	case reflect.Struct:
		return structOf(t, Fields(t), func(p Place) bool { return p != OfKey && p != ForOwner })
	}
	return t
}

// structOf returns a struct with some fields of t, as clients of a gateway have them.
func structOf(t reflect.Type, fields []Field, keep func(Place) bool) reflect.Type {
	same := true
	var list []reflect.StructField
	for _, f := range fields {
		if !keep(f.Place) {
			same = false
			continue
		}
		one := t.FieldByIndex(f.Index)
		one.Type, one.Index, one.Offset = ForClients(f.Type), nil, 0
		same = same && one.Type == f.Type
		list = append(list, one)
	}
	if same {
		return t
	}
	return reflect.StructOf(list)
}

// isParameter reports whether a text of a path, a query, or a header can be the field.
func (f *Field) isParameter() bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return true
	}
	return IsText(t)
}

// Positive returns the number in an ID. A number has one form.
func Positive(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 53)
	return n, err == nil && n > 0 && text[0] != '0' && text[0] != '+'
}

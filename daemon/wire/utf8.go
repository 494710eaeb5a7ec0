package wire

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// validUTF8 returns a copy of a message in which all text is UTF-8: what is
// not became U+FFFD.
func validUTF8(m proto.Message) proto.Message {
	m = proto.Clone(m)
	mend(m.ProtoReflect())
	return m
}

// mend mends a message's texts. The protocol has no maps.
func mend(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			for list, i := v.List(), 0; i < list.Len(); i++ {
				if e, changed := mendValue(f.Kind(), list.Get(i)); changed {
					list.Set(i, e)
				}
			}
		default:
			if e, changed := mendValue(f.Kind(), v); changed {
				m.Set(f, e)
			}
		}
		return true
	})
}

// mendValue mends a message in place; a text it returns mended.
func mendValue(kind protoreflect.Kind, v protoreflect.Value) (protoreflect.Value, bool) {
	switch kind {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		mend(v.Message())
	case protoreflect.StringKind:
		if s := v.String(); !utf8.ValidString(s) {
			return protoreflect.ValueOfString(strings.ToValidUTF8(s, "\uFFFD")), true
		}
	}
	return v, false
}

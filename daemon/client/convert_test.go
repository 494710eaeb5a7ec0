package client

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fillMessage sets every field of a message to another value than zero.
func fillMessage[T proto.Message](m T) T {
	r := m.ProtoReflect()
	for i := range r.Descriptor().Fields().Len() {
		f := r.Descriptor().Fields().Get(i)
		switch {
		case f.IsMap() || f.ContainingOneof() != nil && !f.HasOptionalKeyword():
		case f.IsList() && f.Message() != nil:
			fillMessage(r.Mutable(f).List().AppendMutable().Message().Interface())
		case f.IsList():
			r.Mutable(f).List().Append(fieldValue(f))
		case f.Message() != nil:
			fillMessage(r.Mutable(f).Message().Interface())
		default:
			r.Set(f, fieldValue(f))
		}
	}
	return m
}

func fieldValue(f protoreflect.FieldDescriptor) protoreflect.Value {
	n := int(f.Number())
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(f.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(f.Name()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(1).Number())
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	}
	return protoreflect.ValueOfUint64(uint64(n))
}

// unset returns the exported fields of a value that are zero.
func unset(path string, v reflect.Value) (list []string) {
	switch {
	case v.IsZero():
		return []string{path}
	case v.Kind() == reflect.Pointer:
		return unset(path, v.Elem())
	case v.Kind() == reflect.Slice && v.Len() > 0:
		return unset(path, v.Index(0))
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				list = append(list, unset(strings.TrimPrefix(path+"."+f.Name, "."), v.Field(i))...)
			}
		}
	}
	return list
}

// TestResponsesKeepFields converts messages whose fields are all set: the results
// have all fields set, too, except for those that no message contains.
func TestResponsesKeepFields(t *testing.T) {
	for _, tc := range []struct {
		got    any
		except string
	}{
		{responseOf(fillMessage(new(pb.SendResponse))), ""},
		{*agentEventOf(fillMessage(new(pb.AgentEventMsg))), "Model Line Repeated Calls.Type Took Failed Questions Err.Family"},
		{questionOf(fillMessage(new(pb.AskQuestion))), ""},
	} {
		var missing []string
		for _, name := range unset("", reflect.ValueOf(tc.got)) {
			if !strings.Contains(" "+tc.except+" ", " "+name+" ") {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			t.Errorf("%T without %q", tc.got, missing)
		}
	}
}

// TestStreamEvents checks the event of each message of a stream.
func TestStreamEvents(t *testing.T) {
	var answers []*pb.ServerMessage
	fields := new(pb.StreamEvent).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		m := new(pb.StreamEvent).ProtoReflect()
		f := fields.Get(i)
		switch f.Name() {
		case "error":
			m.Set(f, protoreflect.ValueOfMessage((&pb.ErrorMsg{Kind: "notice", Message: "careful"}).ProtoReflect()))
		case "end":
			continue
		default:
			fillMessage(m.Mutable(f).Message().Interface())
		}
		answers = append(answers, stream(m.Interface().(*pb.StreamEvent)))
	}
	serve(t, script(append(answers, end(""))...))
	var got []string
	for e, err := range newClient(t).Stream(t.Context(), Message{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Agent != "agent" || e.Session != 2 || e.StoredID != "stored_id" {
			t.Errorf("%s: session %q, %d, %q", e.Kind, e.Agent, e.Session, e.StoredID)
		}
		got = append(got, fmt.Sprint(e.Kind, e.Model, e.Text, e.Calls, e.CallID, e.Took, e.Failed, e.Questions, e.Usage != nil, e.Summary, e.Archive))
		if e.Line > 0 || e.Repeated {
			got[len(got)-1] += fmt.Sprint(" ", e.Line, e.Repeated)
		}
	}
	want := []string{
		"startmodel[]0s false [] false",
		"text_deltacontent[]0s false [] false",
		"thinking_deltacontent[]0s false [] false",
		"tool_start[{id  {name arguments}}]0s false [] false",
		"tool_resultoutput[]call_id3ms true [] false",
		"tools_complete[]0s false [] false",
		"ask_user[]0s false [{question header [{label description}] true}] false",
		"usage[]0s false [] true",
		"compact[]0s false [] falsesummaryarchive",
		"noticecareful[]0s false [] false",
		"appended[]0s false [] false 1 true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRequestsKeepFields sends requests whose options are all set: the messages
// have all fields set, except for those that no option sets.
func TestRequestsKeepFields(t *testing.T) {
	sent := make(map[string][]string) // by request, the fields that are unset
	serve(t, func(_ context.Context, _ wire.Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if isHello(m) {
			_ = send(hello())
			return
		}
		r := m.ProtoReflect()
		f := r.WhichOneof(r.Descriptor().Oneofs().ByName("msg"))
		body := r.Get(f).Message()
		sent[string(f.Name())] = nil
		for i := range body.Descriptor().Fields().Len() {
			if f2 := body.Descriptor().Fields().Get(i); !body.Has(f2) {
				sent[string(f.Name())] = append(sent[string(f.Name())], string(f2.Name()))
			}
		}
		_ = send(fail(404, "not found"))
	})
	c, ctx := newClient(t), t.Context()
	m := Message{Content: "c", Agent: "a", Sender: "s", Session: 1, StoredID: "i", NewChat: true, Dir: "/d", Model: "m", Tag: "t", Request: "r", After: "b", Fresh: true, Commands: true}
	_, _ = c.Send(ctx, m)
	for range c.Stream(ctx, m) {
	}
	if len(sent) != 2 {
		t.Errorf("%d requests: %v", len(sent), sent)
	}
	for name, missing := range sent {
		if len(missing) > 0 {
			t.Errorf("%s without %q", name, missing)
		}
	}
}

// TestHelloTimeout checks the limits of the time that a daemon has for Hello.
func TestHelloTimeout(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		-time.Second: minHelloWait, 0: minHelloWait, 3 * time.Second: 3 * time.Second, time.Hour: HelloWait,
	} {
		if got := helloTimeout(left); got != want {
			t.Errorf("helloTimeout(%v) = %v, want %v", left, got, want)
		}
	}
}

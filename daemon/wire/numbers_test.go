package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func fields(m proto.Message) []protoreflect.FieldDescriptor {
	var list []protoreflect.FieldDescriptor
	for fs, i := m.ProtoReflect().Descriptor().Fields(), 0; i < fs.Len(); i++ {
		list = append(list, fs.Get(i))
	}
	return list
}

// numbers is RFC 0018: of every message its fields with number and type.
var numbers = map[string]string{
	"ClientMessage": "send=1 SendMsg; stream=2 StreamMsg; ping=3 Ping; sessions=4 Sessions; kill=5 KillMsg; get_config=6 GetConfig; " +
		"set_config=7 SetConfigMsg; reload=8 ReloadMsg; subscribe_events=9 SubscribeEvents; reply_to_ask=10 ReplyToAsk; get_stats=11 GetStats; " +
		"create_cron=12 CreateCronMsg; delete_cron=13 DeleteCronMsg; list_crons=14 ListCronsMsg; compact=15 CompactMsg",
	"ServerMessage": "response=1 SendResponse; stream=2 StreamEvent; error=3 ErrorMsg; pong=4 Pong; sessions=5 SessionList; config=6 ConfigMsg; " +
		"agent_event=7 AgentEventMsg; stats=8 DaemonStats; cron_info=9 CronInfo; cron_list=10 CronList; compact=11 CompactResponse",
	"SendMsg":         "agent=1 string; content=2 string; session=3 optional uint64; sender=4 optional string; cwd=5 optional string; new_chat=6 bool; resume_file=7 optional string",
	"StreamMsg":       "agent=1 string; content=2 string; session=3 optional uint64; sender=4 optional string; cwd=5 optional string; new_chat=6 bool; resume_file=7 optional string",
	"Ping":            "",
	"Pong":            "",
	"Sessions":        "",
	"KillMsg":         "session=1 uint64",
	"GetConfig":       "",
	"SetConfigMsg":    "config=1 string",
	"ReloadMsg":       "",
	"SubscribeEvents": "",
	"ReplyToAsk":      "session=1 uint64; content=2 string",
	"GetStats":        "",
	"CreateCronMsg":   "schedule=1 string; skill=2 string; session=3 uint64; quiet_start=4 optional string; quiet_end=5 optional string; once=6 bool",
	"DeleteCronMsg":   "id=1 uint64",
	"ListCronsMsg":    "",
	"CompactMsg":      "session=1 uint64",
	"SendResponse":    "agent=1 string; content=2 string; session=3 uint64",
	"ErrorMsg":        "code=1 uint32; message=2 string",
	"ConfigMsg":       "config=1 string",
	"CompactResponse": "summary=1 string",
	"DaemonStats":     "uptime_secs=1 uint64; active_sessions=2 uint32; registered_agents=3 uint32",
	"SessionInfo":     "id=1 uint64; agent=2 string; created_by=3 string; message_count=4 uint64; alive_secs=5 uint64; active=6 bool; title=7 string",
	"SessionList":     "sessions=1 repeated SessionInfo",
	"CronInfo":        "id=1 uint64; schedule=2 string; skill=3 string; session=4 uint64; quiet_start=5 string; quiet_end=6 string; once=7 bool",
	"CronList":        "crons=1 repeated CronInfo",
	"StreamEvent": "start=1 StreamStart; chunk=2 StreamChunk; thinking=3 StreamThinking; tool_start=4 ToolStartEvent; tool_result=5 ToolResultEvent; " +
		"tools_complete=6 ToolsCompleteEvent; end=7 StreamEnd; ask_user=8 AskUserEvent",
	"StreamStart":        "agent=1 string; session=2 uint64",
	"StreamChunk":        "content=1 string",
	"StreamThinking":     "content=1 string",
	"ToolStartEvent":     "calls=1 repeated ToolCallInfo",
	"ToolCallInfo":       "name=1 string; arguments=2 string",
	"ToolResultEvent":    "call_id=1 string; output=2 string; duration_ms=3 uint64",
	"ToolsCompleteEvent": "",
	"StreamEnd":          "agent=1 string; error=2 string",
	"AskUserEvent":       "questions=1 repeated AskQuestion",
	"AskQuestion":        "question=1 string; header=2 string; options=3 repeated AskOption; multi_select=4 bool",
	"AskOption":          "label=1 string; description=2 string",
	"AgentEventMsg":      "agent=1 string; session=2 uint64; kind=3 AgentEventKind; content=4 string; timestamp=5 string",
}

// TestNumbers compares the schema with RFC 0018: its numbers are unchanged, and
// additions begin at 1000.
func TestNumbers(t *testing.T) {
	file := pb.File_crabtalk_proto
	if file.Package() != "crabtalk.protocol" {
		t.Errorf("package %s", file.Package())
	}
	for name, want := range numbers {
		m := file.Messages().ByName(protoreflect.Name(name))
		if m == nil {
			t.Errorf("no message %s", name)
			continue
		}
		var got []string
		for fs, i := m.Fields(), 0; i < fs.Len(); i++ {
			f := fs.Get(i)
			if f.Number() >= 1000 {
				continue
			}
			kind := f.Kind().String()
			if d := f.Message(); d != nil {
				kind = string(d.Name())
			} else if e := f.Enum(); e != nil {
				kind = string(e.Name())
			}
			if f.IsList() {
				kind = "repeated " + kind
			}
			if f.HasOptionalKeyword() {
				kind = "optional " + kind
			}
			got = append(got, fmt.Sprintf("%s=%d %s", f.Name(), f.Number(), kind))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s is\n%s, want\n%s", name, strings.Join(got, "; "), want)
		}
	}
	kinds := file.Enums().ByName("AgentEventKind").Values()
	for i, name := range []string{"TEXT_DELTA", "THINKING_DELTA", "TOOL_START", "TOOL_RESULT", "TOOLS_COMPLETE", "DONE"} {
		if v := kinds.ByName(protoreflect.Name(name)); v == nil || int(v.Number()) != i {
			t.Errorf("%s is not %d", name, i)
		}
	}
}

// TestAdditions compares our messages, and our fields in messages of the RFC, with a list.
// An operation needs neither: it is a row of package op.
func TestAdditions(t *testing.T) {
	var got []string
	for ms, i := pb.File_crabtalk_proto.Messages(), 0; i < ms.Len(); i++ {
		m := ms.Get(i)
		if _, ok := numbers[string(m.Name())]; !ok {
			got = append(got, string(m.Name()))
			continue
		}
		for fs, i := m.Fields(), 0; i < fs.Len(); i++ {
			if f := fs.Get(i); f.Number() >= 1000 {
				got = append(got, fmt.Sprintf("%s.%s", m.Name(), f.Name()))
			}
		}
	}
	slices.Sort(got)
	want := []string{"AuthMsg", "Call", "ClientMessage.auth", "ClientMessage.call", "ErrorMsg.kind", "Result", "ServerMessage.result"}
	if !slices.Equal(got, want) {
		t.Errorf("additions %q, want %q", got, want)
	}
}

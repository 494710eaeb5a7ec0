package wire

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// unhex reads bytes as they are written in the tables below. Words in
// parentheses are for the reader.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for _, w := range strings.Fields(s) {
		if !strings.HasPrefix(w, "(") {
			digits.WriteString(w)
		}
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pong() *pb.ServerMessage {
	return &pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}}
}

func event(e *pb.StreamEvent) *pb.ServerMessage {
	return &pb.ServerMessage{Msg: &pb.ServerMessage_Stream{Stream: e}}
}

// raw are the 15 operations of RFC 0018, byte by byte as its tables number
// them: a request and its answers.
var raw = []struct {
	name     string
	request  string
	means    *pb.ClientMessage
	answers  []*pb.ServerMessage
	expected []string
}{
	{
		"send",
		"0000001B 0A19 0A04 63726162 1202 6869 1807 2202 6D65 2A02 2F77 3001 3A01 66",
		&pb.ClientMessage{Msg: &pb.ClientMessage_Send{Send: &pb.SendMsg{Agent: "crab", Content: "hi", Session: proto.Uint64(7),
			Sender: proto.String("me"), Cwd: proto.String("/w"), NewChat: true, ResumeFile: proto.String("f")}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_Response{Response: &pb.SendResponse{Agent: "crab", Content: "yo", Session: 7}}}},
		[]string{"0000000E 0A0C 0A04 63726162 1202 796F 1807"},
	},
	{
		"send, session 0 is there and sender is empty",
		"0000000A 0A08 1202 6869 1800 2200",
		&pb.ClientMessage{Msg: &pb.ClientMessage_Send{Send: &pb.SendMsg{Content: "hi", Session: proto.Uint64(0), Sender: proto.String("")}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_Response{Response: &pb.SendResponse{}}}},
		[]string{"00000002 0A00"},
	},
	{
		"stream",
		"0000001B 1219 0A04 63726162 1202 6869 1807 2202 6D65 2A02 2F77 3001 3A01 66",
		&pb.ClientMessage{Msg: &pb.ClientMessage_Stream{Stream: &pb.StreamMsg{Agent: "crab", Content: "hi", Session: proto.Uint64(7),
			Sender: proto.String("me"), Cwd: proto.String("/w"), NewChat: true, ResumeFile: proto.String("f")}}},
		[]*pb.ServerMessage{
			event(&pb.StreamEvent{Event: &pb.StreamEvent_Start{Start: &pb.StreamStart{Agent: "crab", Session: 7}}}),
			event(&pb.StreamEvent{Event: &pb.StreamEvent_Chunk{Chunk: &pb.StreamChunk{Content: "a"}}}),
			event(&pb.StreamEvent{Event: &pb.StreamEvent_Thinking{Thinking: &pb.StreamThinking{Content: "b"}}}),
			event(&pb.StreamEvent{Event: &pb.StreamEvent_ToolStart{ToolStart: &pb.ToolStartEvent{Calls: []*pb.ToolCallInfo{{Name: "bash", Arguments: "{}"}}}}}),
			event(&pb.StreamEvent{Event: &pb.StreamEvent_ToolResult{ToolResult: &pb.ToolResultEvent{CallId: "c1", Output: "ok", DurationMs: 5}}}),
			event(&pb.StreamEvent{Event: &pb.StreamEvent_ToolsComplete{ToolsComplete: &pb.ToolsCompleteEvent{}}}),
			event(&pb.StreamEvent{Event: &pb.StreamEvent_AskUser{AskUser: &pb.AskUserEvent{Questions: []*pb.AskQuestion{
				{Question: "q", Header: "h", Options: []*pb.AskOption{{Label: "y", Description: "d"}}, MultiSelect: true}}}}}),
			event(&pb.StreamEvent{Event: &pb.StreamEvent_End{End: &pb.StreamEnd{Agent: "crab", Error: "e"}}}),
		},
		[]string{
			"0000000C 120A 0A08 0A04 63726162 1007",
			"00000007 1205 1203 0A01 61",
			"00000007 1205 1A03 0A01 62",
			"00000010 120E 220C 0A0A 0A04 62617368 1202 7B7D",
			"0000000E 120C 2A0A 0A02 6331 1202 6F6B 1805",
			"00000004 1202 3200",
			"00000016 1214 4212 0A10 0A01 71 1201 68 1A06 0A01 79 1201 64 2001",
			"0000000D 120B 3A09 0A04 63726162 1201 65",
		},
	},
	{
		"ping",
		"00000002 1A00",
		&pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}},
		[]*pb.ServerMessage{pong()},
		[]string{"00000002 2200"},
	},
	{
		"sessions",
		"00000002 2200",
		&pb.ClientMessage{Msg: &pb.ClientMessage_Sessions{Sessions: &pb.Sessions{}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_Sessions{Sessions: &pb.SessionList{Sessions: []*pb.SessionInfo{
			{Id: 1, Agent: "crab", CreatedBy: "me", MessageCount: 3, AliveSecs: 4, Active: true, Title: "t"}}}}}},
		[]string{"00000019 2A17 0A15 0801 1204 63726162 1A02 6D65 2003 2804 3001 3A01 74"},
	},
	{
		"kill",
		"00000005 2A03 08AC02",
		&pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: 300}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: 404, Message: "session 300 not found"}}}},
		[]string{"0000001C 1A1A 089403 1215 73657373696F6E (session) 20 333030 20 6E6F74 (not) 20 666F756E64 (found)"},
	},
	{
		"get_config",
		"00000002 3200",
		&pb.ClientMessage{Msg: &pb.ClientMessage_GetConfig{GetConfig: &pb.GetConfig{}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_Config{Config: &pb.ConfigMsg{Config: "{}"}}}},
		[]string{"00000006 3204 0A02 7B7D"},
	},
	{
		"set_config",
		"00000006 3A04 0A02 7B7D",
		&pb.ClientMessage{Msg: &pb.ClientMessage_SetConfig{SetConfig: &pb.SetConfigMsg{Config: "{}"}}},
		[]*pb.ServerMessage{pong()},
		[]string{"00000002 2200"},
	},
	{
		"reload",
		"00000002 4200",
		&pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}},
		[]*pb.ServerMessage{pong()},
		[]string{"00000002 2200"},
	},
	{
		"subscribe_events",
		"00000002 4A00",
		&pb.ClientMessage{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{}}},
		[]*pb.ServerMessage{
			{Msg: &pb.ServerMessage_AgentEvent{AgentEvent: &pb.AgentEventMsg{Agent: "crab", Session: 7,
				Kind: pb.AgentEventKind_TOOL_START, Content: "bash", Timestamp: "2026-01-02T03:04:05+00:00"}}},
			{Msg: &pb.ServerMessage_AgentEvent{AgentEvent: &pb.AgentEventMsg{Kind: pb.AgentEventKind_DONE}}},
		},
		[]string{
			"0000002D 3A2B 0A04 63726162 1007 1802 2204 62617368 2A19 323032362D30312D3032 (2026-01-02) 54 30333A30343A3035 (03:04:05) 2B30303A3030 (+00:00)",
			"00000004 3A02 1805",
		},
	},
	{
		"reply_to_ask",
		"00000007 5205 0807 1201 79",
		&pb.ClientMessage{Msg: &pb.ClientMessage_ReplyToAsk{ReplyToAsk: &pb.ReplyToAsk{Session: 7, Content: "y"}}},
		[]*pb.ServerMessage{pong()},
		[]string{"00000002 2200"},
	},
	{
		"get_stats",
		"00000002 5A00",
		&pb.ClientMessage{Msg: &pb.ClientMessage_GetStats{GetStats: &pb.GetStats{}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_Stats{Stats: &pb.DaemonStats{UptimeSecs: 9, ActiveSessions: 1, RegisteredAgents: 2}}}},
		[]string{"00000008 4206 0809 1001 1802"},
	},
	{
		"create_cron",
		"00000024 6222 0A0B 2A202A202A202A202A202A 1201 73 1807 2205 32323A3030 2A05 30363A3030 3001",
		&pb.ClientMessage{Msg: &pb.ClientMessage_CreateCron{CreateCron: &pb.CreateCronMsg{Schedule: "* * * * * *", Skill: "s", Session: 7,
			QuietStart: proto.String("22:00"), QuietEnd: proto.String("06:00"), Once: true}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_CronInfo{CronInfo: &pb.CronInfo{Id: 1, Schedule: "* * * * * *", Skill: "s", Session: 7,
			QuietStart: "22:00", QuietEnd: "06:00", Once: true}}}},
		[]string{"00000026 4A24 0801 120B 2A202A202A202A202A202A 1A01 73 2007 2A05 32323A3030 3205 30363A3030 3801"},
	},
	{
		"delete_cron",
		"00000004 6A02 0801",
		&pb.ClientMessage{Msg: &pb.ClientMessage_DeleteCron{DeleteCron: &pb.DeleteCronMsg{Id: 1}}},
		[]*pb.ServerMessage{pong()},
		[]string{"00000002 2200"},
	},
	{
		"list_crons",
		"00000002 7200",
		&pb.ClientMessage{Msg: &pb.ClientMessage_ListCrons{ListCrons: &pb.ListCronsMsg{}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_CronList{CronList: &pb.CronList{Crons: []*pb.CronInfo{{Id: 2}}}}}},
		[]string{"00000006 5204 0A02 0802"},
	},
	{
		"compact",
		"00000004 7A02 0807",
		&pb.ClientMessage{Msg: &pb.ClientMessage_Compact{Compact: &pb.CompactMsg{Session: 7}}},
		[]*pb.ServerMessage{{Msg: &pb.ServerMessage_Compact{Compact: &pb.CompactResponse{Summary: "s"}}}},
		[]string{"00000005 5A03 0A01 73"},
	},
}

// TestRawFrames sends every operation as a client of the RFC would, and reads
// the answers byte by byte.
func TestRawFrames(t *testing.T) {
	var got *pb.ClientMessage
	var say []*pb.ServerMessage
	a := serve(t, &Server{Handler: func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		got = m
		for _, s := range say {
			if err := send(s); err != nil {
				t.Error(err)
			}
		}
	}})
	nc := dialRaw(t, a)
	seen := make(map[string]bool)
	for _, r := range raw {
		t.Run(r.name, func(t *testing.T) {
			say = r.answers
			var want []byte
			for _, e := range r.expected {
				want = append(want, unhex(t, e)...)
			}
			if _, err := nc.Write(unhex(t, r.request)); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, len(want))
			if _, err := io.ReadFull(nc, b); err != nil {
				t.Fatalf("read %d bytes of the answer: %v", len(want), err)
			}
			if !proto.Equal(got, r.means) {
				t.Errorf("the server read\n%v, want\n%v", got, r.means)
			}
			if string(b) != string(want) {
				t.Errorf("answer\n% X, want\n% X", b, want)
			}
			op := got.ProtoReflect().WhichOneof(got.ProtoReflect().Descriptor().Oneofs().ByName("msg"))
			seen[string(op.Name())] = true
		})
	}
	for _, f := range fields(new(pb.ClientMessage)) {
		if f.Number() < 1000 && !seen[string(f.Name())] {
			t.Errorf("no raw frame for %s", f.Name())
		}
	}
}

func dialRaw(t testing.TB, a Addr) net.Conn {
	t.Helper()
	nc, err := net.Dial(a.Network, a.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(gate.Hang))
	return nc
}

package daemon

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/wire/pb"

	"github.com/google/go-cmp/cmp"
)

var updateOperations = flag.Bool("operations.update", false, "write testdata/operations.txt")

// asked are the identities of the table of permissions, with their names in it. The
// configuration identities sets their trust.
var asked = []struct{ name, id string }{
	{"owner", ""}, {"admin", "api:root"}, {"trusted", "api:a"}, {"reads", "api:reads"}, {"untrusted", "api:u"}, {"tg:7", "tg:7"},
}

// TestOperations compares the permissions, requests, and responses of each operation with
// testdata/operations.txt. A new operation adds its lines there, and changes no other
// recorded text.
func TestOperations(t *testing.T) {
	const file = "testdata/operations.txt"
	got := permissions(t) + "\n" + shapes()
	if *updateOperations {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s differs, %v; run with -operations.update to write it:\n%s", file, err, cmp.Diff(string(want), got))
	}
}

// permissions asks for each operation as each identity, over a socket.
func permissions(t *testing.T) string {
	s := serve(t, home(t), identities)
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %-8s %-8s", "operation", "effect", "needs")
	for _, a := range asked {
		fmt.Fprintf(&b, " %-9s", a.name)
	}
	b.WriteString(" over HTTP, as a tool\n")
	line := func(name, effect, needs string, asks func(id, space string) *pb.ClientMessage, end string) {
		text := fmt.Sprintf("%-22s %-8s %-8s", name, effect, needs)
		for _, a := range asked {
			text += fmt.Sprintf(" %-9s", s.permitted(a.id, asks))
		}
		b.WriteString(strings.TrimRight(text+" "+end, " ") + "\n")
	}
	for _, row := range op.All() {
		if row.Waits {
			continue // TestIdentityEvents asks for it
		}
		end := ""
		if at := row.HTTP(); at != nil {
			end = at.Method + " " + at.Pattern
		}
		if row.Tool != nil {
			end = strings.TrimPrefix(end+", "+row.Tool.Name, ", ")
		}
		effect := []string{"reads", "writes", "erases", "manages"}[row.Effect]
		needs := []string{"owner", "nothing", "own", "read", "write", "session", "changes", "messages"}[row.Need]
		line(row.Name, effect, needs, func(id, space string) *pb.ClientMessage {
			return callAs(t, row.Name, op.None{}, id, space)
		}, end)
		for _, f := range guarded(row) {
			line("  "+f.Name, "", "", func(id, space string) *pb.ClientMessage {
				return callAs(t, row.Name, map[string]any{f.Name: example(f.Type)}, id, space)
			}, "")
		}
	}
	return b.String()
}

// callAs returns a request of an identity in a space.
func callAs(t *testing.T, name string, in any, id, space string) *pb.ClientMessage {
	t.Helper()
	head, err := op.Encode(op.Header{As: id, Space: space})
	if err != nil {
		t.Fatal(err)
	}
	m := callMessage(t, name, in)
	m.GetCall().Head = head
	return m
}

// shapes returns the requests and responses of the operations, and the fields of each type
// in them.
func shapes() string {
	var b strings.Builder
	types := make(map[string]reflect.Type)
	for _, row := range op.All() {
		in, out := reflect.TypeOf(row.NewRequest()).Elem(), reflect.TypeOf(row.NewResponse()).Elem()
		parts := map[bool]string{true: ", in parts"}[row.Parts]
		fmt.Fprintf(&b, "%s: %s -> %s%s\n", row.Name, shapeName(in, types), shapeName(out, types), parts)
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		fmt.Fprintf(&b, "\n%s\n", name)
		for _, f := range op.Fields(types[name]) {
			tag := types[name].FieldByIndex(f.Index).Tag
			optional := map[bool]string{false: ", optional"}[f.Required]
			options := strings.TrimSuffix(", "+tag.Get("op"), ", ")
			fmt.Fprintf(&b, "  %s %s%s%s\n", f.Name, shapeName(f.Type, types), optional, options)
		}
	}
	return b.String()
}

// shapeName returns the name of a type in shapes. It adds the types with fields to types.
func shapeName(t reflect.Type, types map[string]reflect.Type) string {
	switch {
	case len(op.Fields(t)) > 0 && t.Name() == "":
		return "a struct"
	case len(op.Fields(t)) > 0:
		name := t.String()
		if types[name] == nil {
			types[name] = t
			for _, f := range op.Fields(t) {
				shapeName(f.Type, types)
			}
		}
		return name
	case t.Kind() == reflect.Pointer:
		return shapeName(t.Elem(), types) + " or null"
	case t.Kind() == reflect.Slice && t.Name() == "":
		return "list of " + shapeName(t.Elem(), types)
	}
	return t.String()
}

// permitted asks as an identity in the space main and without a space: yes, own (only
// without a space, so in its own), or a minus sign. Of an operation that needs a session, yes
// means: if the identity created the session.
func (s *served) permitted(id string, asks func(id, space string) *pb.ClientMessage) string {
	is := func(in string) bool {
		e := failure(s.t, s.one(asks(id, in)))
		if e.Kind != "scope" {
			return true
		}
		if e.Code != 403 || !strings.HasPrefix(e.Message, id+" may not ") {
			s.t.Errorf("%s: %+v", id, e)
		}
		return false
	}
	switch own := is(""); {
	case own && is(space.Main):
		return "yes"
	case own:
		return "own"
	}
	return "-"
}

// guarded returns the fields of a request that only sockets have: neither HTTP nor tools.
func guarded(row *op.Row) []op.Field {
	list := slices.Clone(op.Fields(reflect.TypeOf(row.NewRequest()).Elem()))
	return slices.DeleteFunc(list, func(f op.Field) bool { return f.Place != op.ForOwner })
}

// example returns a value of a type that is not its zero value.
func example(t reflect.Type) any {
	switch t.Kind() {
	case reflect.Pointer:
		return example(t.Elem())
	case reflect.Bool:
		return true
	case reflect.String:
		return "x"
	case reflect.Slice:
		return []any{example(t.Elem())}
	case reflect.Struct:
		return map[string]any{}
	}
	return 1
}

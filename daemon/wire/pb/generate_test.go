package pb

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	gengo "google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

var update = flag.Bool("update", false, "write crabtalk.pb.go")

// generate compiles crabtalk.proto and returns what protoc-gen-go makes of it.
func generate() (string, error) {
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), "crabtalk.proto")
	if err != nil {
		return "", err
	}
	gen, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{"crabtalk.proto"},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
	})
	if err != nil {
		return "", err
	}
	for _, f := range gen.Files {
		gengo.GenerateFile(gen, f)
	}
	r := gen.Response()
	if r.Error != nil {
		return "", errors.New(*r.Error)
	}
	return r.File[0].GetContent(), nil
}

// TestGenerated fails when crabtalk.pb.go is not what crabtalk.proto says.
func TestGenerated(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("crabtalk.pb.go", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile("crabtalk.pb.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("crabtalk.pb.go is not what crabtalk.proto says: go generate ./daemon/wire/pb")
	}
}

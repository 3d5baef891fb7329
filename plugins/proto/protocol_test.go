package proto_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/open-nomad/open-nomad/plugins/proto"
)

var update = flag.Bool("update", false, "rewrite testdata/protocol.txt")

// TestProtocol holds the names and the numbers of the protocol. A change breaks every plugin that was
// built before.
func TestProtocol(t *testing.T) {
	var lines []string
	for _, f := range []protoreflect.FileDescriptor{proto.File_plugins_proto_base_proto, proto.File_plugins_proto_driver_proto,
		proto.File_plugins_proto_device_proto, proto.File_plugins_proto_hclspec_proto, proto.File_plugins_proto_structs_proto} {
		lines = append(lines, services(f.Services())...)
		lines = append(lines, messages(f.Messages())...)
		lines = append(lines, enums(f.Enums())...)
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const name = "testdata/protocol.txt"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the protocol differs from %s; its lines are now:\n%s", name, got)
	}
}

// TestCopy checks that the code of the example driver, a module of its own, is generated from the same
// files.
func TestCopy(t *testing.T) {
	for example, service := range map[string]string{"exampledriver": "driver", "exampledevice": "device"} {
		for _, protocol := range []string{"base.pb.go", "base_grpc.pb.go", service + ".pb.go", service + "_grpc.pb.go",
			"hclspec.pb.go", "structs.pb.go"} {
			own, err := os.ReadFile(protocol)
			if err != nil {
				t.Fatal(err)
			}
			other, err := os.ReadFile(filepath.Join("../../e2e", example, "proto", protocol))
			if err != nil {
				t.Fatal(err)
			}
			if string(own) != string(other) {
				t.Errorf("%s differs from that of %s: run make proto", protocol, example)
			}
		}
	}
}

func services(list protoreflect.ServiceDescriptors) (out []string) {
	for i := range list.Len() {
		for j := range list.Get(i).Methods().Len() {
			m := list.Get(i).Methods().Get(j)
			out = append(out, fmt.Sprintf("rpc %s/%s %s%s %s%s", list.Get(i).FullName(), m.Name(),
				stream(m.IsStreamingClient()), m.Input().Name(), stream(m.IsStreamingServer()), m.Output().Name()))
		}
	}
	return out
}

func stream(is bool) string {
	if is {
		return "stream "
	}
	return ""
}

func messages(list protoreflect.MessageDescriptors) (out []string) {
	for i := range list.Len() {
		m := list.Get(i)
		if m.IsMapEntry() {
			continue
		}
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			out = append(out, fmt.Sprintf("message %s %d %s %s", m.FullName(), f.Number(), f.Name(), kind(f)))
		}
		out = append(out, messages(m.Messages())...)
		out = append(out, enums(m.Enums())...)
	}
	return out
}

func kind(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map " + kind(f.MapKey()) + " " + kind(f.MapValue())
	case f.IsList():
		return "repeated " + one(f)
	}
	return one(f)
}

func one(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return string(f.Message().FullName())
	case protoreflect.EnumKind:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}

func enums(list protoreflect.EnumDescriptors) (out []string) {
	for i := range list.Len() {
		for j := range list.Get(i).Values().Len() {
			v := list.Get(i).Values().Get(j)
			out = append(out, fmt.Sprintf("enum %s %d %s", list.Get(i).FullName(), v.Number(), v.Name()))
		}
	}
	return out
}

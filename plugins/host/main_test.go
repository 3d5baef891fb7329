package host_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/serve"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// The test binary is every program of these tests: the name of its file selects what it does.
func TestMain(m *testing.M) {
	companion.Main()
	if f := behaviours[filepath.Base(os.Args[0])]; f != nil && os.Getenv(wire.CookieKey) != "" {
		f()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// behaviours are the programs, by name.
var behaviours = map[string]func(){
	"good":  func() { serveMock("good") },
	"other": func() { serveMock("good") }, // a second program of the same driver
	"spy": func() {
		report(os.Args[1])
		serveMock("spy")
	},
	"crash":   func() { fmt.Fprintln(os.Stderr, "the disk is upside down"); os.Exit(3) },
	"silent":  func() { <-time.After(time.Hour) },
	"closed":  func() { os.Stdout.Close(); <-time.After(time.Hour) },
	"version": func() { fmt.Println("1|3|unix|/tmp/x|grpc|") },
	"core":    func() { fmt.Println("2|2|unix|/tmp/x|grpc|") },
	"tcp":     func() { fmt.Println("1|2|tcp|127.0.0.1:1|grpc|") },
	"netrpc":  func() { fmt.Println("1|2|unix|/tmp/x|netrpc|") },
	"cert":    func() { fmt.Println("1|2|unix|/tmp/x|grpc|" + strings.Repeat("A", 100)) },
	"gone":    func() { fmt.Println("1|2|unix|/nowhere/x|grpc|"); <-time.After(time.Hour) },
	"garbage": func() {
		for range 1000 {
			fmt.Print(strings.Repeat("\x1b[31mgarbage", 100))
		}
	},
	"noise": func() { // a healthy driver that writes much to its log
		go func() {
			for {
				fmt.Fprintln(os.Stderr, strings.Repeat("x", 300))
				syscall.Write(2, []byte(strings.Repeat("y", 300)+"\n"))
			}
		}()
		serveMock("noise")
	},
	"untyped":    func() { serveFake(&fake{info: &proto.PluginInfoResponse{Name: "x"}}) },
	"api":        func() { serveFake(&fake{info: info("api", "0.1.0", "v0.9.0")}) },
	"noversion":  func() { serveFake(&fake{info: info("noversion", "first", wire.APIVersion)}) },
	"badname":    func() { serveFake(&fake{info: info("../x", "0.1.0", wire.APIVersion)}) },
	"huge":       func() { serveFake(&fake{info: info(strings.Repeat("x", 100<<20), "0.1.0", wire.APIVersion)}) },
	"hanginfo":   func() { serveFake(&fake{hang: true}) },
	"badschema":  func() { serveFake(&fake{info: info("badschema", "0.1.0", wire.APIVersion), schema: attr("list(")}) },
	"hangprint":  func() { serveFake(&fake{info: info("hangprint", "0.1.0", wire.APIVersion), hangPrint: true}) },
	"hugeprint":  func() { serveFake(&fake{info: info("hugeprint", "0.1.0", wire.APIVersion), hugePrint: true}) },
	"crashprint": func() { serveFake(&fake{info: info("crashprint", "0.1.0", wire.APIVersion), crashPrint: true}) },
	"chroot":     func() { serveFake(&fake{info: info("chroot", "0.1.0", wire.APIVersion), chroot: true}) },
	"refuses":    func() { serveFake(&fake{info: info("refuses", "0.1.0", wire.APIVersion), refuse: true}) },
}

func info(name, version, api string) *proto.PluginInfoResponse {
	return &proto.PluginInfoResponse{Type: proto.PluginType_DRIVER, Name: name, PluginVersion: version, PluginApiVersions: []string{api}}
}

func attr(kind string) *proto.Spec {
	return &proto.Spec{Block: &proto.Spec_Object{Object: &proto.Object{Attributes: map[string]*proto.Spec{
		"x": {Block: &proto.Spec_Attr{Attr: &proto.Attr{Type: kind}}}}}}}
}

// serveMock serves the mock driver, by package serve.
func serveMock(name string) {
	version := "0.1.0"
	if filepath.Base(os.Args[0]) == "other" {
		version = "0.2.0"
	}
	serve.Serve(serve.Config{Driver: mock.New(name, slog.New(slog.NewTextHandler(os.Stderr, nil))), Version: version})
}

// report writes what the process has got to a file.
func report(file string) {
	var out strings.Builder
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, fd := range fds {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil {
			fmt.Fprintln(&out, "fd", fd.Name(), target)
		}
	}
	for _, line := range os.Environ() {
		fmt.Fprintln(&out, "env", line)
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
		panic(err)
	}
}

// fake is a driver with one fault.
type fake struct {
	proto.UnimplementedBasePluginServer
	proto.UnimplementedDriverServer
	info                                                   *proto.PluginInfoResponse
	schema                                                 *proto.Spec
	hang, hangPrint, hugePrint, crashPrint, chroot, refuse bool
}

func serveFake(f *fake) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey,
			MagicCookieValue: wire.CookieValue},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxSendMsgSize(1<<30))...)
		},
		Plugins: plugin.PluginSet{"driver": fakePlugin{fake: f}},
	})
}

type fakePlugin struct {
	plugin.NetRPCUnsupportedPlugin
	fake *fake
}

func (p fakePlugin) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	proto.RegisterBasePluginServer(g, p.fake)
	proto.RegisterDriverServer(g, p.fake)
	return nil
}

func (fakePlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (f *fake) PluginInfo(ctx context.Context, _ *proto.PluginInfoRequest) (*proto.PluginInfoResponse, error) {
	if f.hang {
		<-time.After(time.Hour) // it does not even notice that the client has gone
	}
	return f.info, nil
}

func (f *fake) ConfigSchema(context.Context, *proto.ConfigSchemaRequest) (*proto.ConfigSchemaResponse, error) {
	return &proto.ConfigSchemaResponse{Spec: f.schema}, nil
}

func (f *fake) SetConfig(context.Context, *proto.SetConfigRequest) (*proto.SetConfigResponse, error) {
	if f.refuse {
		return nil, fmt.Errorf("there is no moon tonight")
	}
	return &proto.SetConfigResponse{}, nil
}

func (f *fake) TaskConfigSchema(context.Context, *proto.TaskConfigSchemaRequest) (*proto.TaskConfigSchemaResponse, error) {
	spec, err := hclspec.Encode(mock.New("x", slog.New(slog.DiscardHandler)).TaskSpec())
	return &proto.TaskConfigSchemaResponse{Spec: spec}, err
}

func (f *fake) Capabilities(context.Context, *proto.CapabilitiesRequest) (*proto.CapabilitiesResponse, error) {
	c := &proto.DriverCapabilities{}
	if f.chroot {
		c.FsIsolation = proto.DriverCapabilities_CHROOT
	}
	return &proto.CapabilitiesResponse{Capabilities: c}, nil
}

func (f *fake) Fingerprint(_ *proto.FingerprintRequest, out grpc.ServerStreamingServer[proto.FingerprintResponse]) error {
	switch {
	case f.hangPrint:
		<-time.After(time.Hour)
	case f.hugePrint:
		return out.Send(&proto.FingerprintResponse{HealthDescription: strings.Repeat("x", 100<<20)})
	case f.crashPrint:
		syscall.Write(2, []byte("fatal: no more\n")) // as the runtime does
		os.Exit(4)
	}
	return nil
}

package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/host"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

func init() {
	for _, name := range []string{"gpu", "gpu-hang", "gpu-huge", "gpu-crash", "gpu-flood", "gpu-double", "gpu-refuse", "gpu-mute"} {
		behaviours[name] = func() {
			serveDevices(&fakeDevices{fake: fake{refuse: name == "gpu-refuse"}, fault: strings.TrimPrefix(name, "gpu-")})
		}
	}
}

// fakeDevices is a device plugin with one fault.
type fakeDevices struct {
	fake
	proto.UnimplementedDevicePluginServer
	fault string
}

func serveDevices(f *fakeDevices) {
	name := filepath.Base(os.Args[0])
	f.info = &proto.PluginInfoResponse{Type: proto.PluginType_DEVICE, Name: name, PluginVersion: "0.1.0",
		PluginApiVersions: []string{wire.APIVersion}}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey,
			MagicCookieValue: wire.CookieValue},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxSendMsgSize(1<<30))...)
		},
		Plugins: plugin.PluginSet{"device": fakeDevicePlugin{fake: f}},
	})
}

type fakeDevicePlugin struct {
	fakePlugin
	fake *fakeDevices
}

func (p fakeDevicePlugin) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	proto.RegisterBasePluginServer(g, p.fake)
	proto.RegisterDevicePluginServer(g, p.fake)
	return nil
}

func cards(ids ...string) *proto.DeviceFingerprintResponse {
	g := &proto.DeviceGroup{Vendor: "acme", DeviceType: "gpu", DeviceName: "T4",
		Attributes: map[string]*proto.Attribute{"memory": {Value: &proto.Attribute_IntVal{IntVal: 16}, Unit: "GiB"}}}
	for _, id := range ids {
		g.Devices = append(g.Devices, &proto.DetectedDevice{ID: id, Healthy: true, HwLocality: &proto.DeviceLocality{PciBusId: "0000:3b:00.0"}})
	}
	return &proto.DeviceFingerprintResponse{DeviceGroup: []*proto.DeviceGroup{g}}
}

func (f *fakeDevices) Fingerprint(_ *proto.DeviceFingerprintRequest, out grpc.ServerStreamingServer[proto.DeviceFingerprintResponse]) error {
	switch f.fault {
	case "hang":
		<-time.After(time.Hour)
	case "huge":
		return out.Send(cards(strings.Repeat("x", 100<<20)))
	case "double":
		return out.Send(cards("one", "one"))
	case "flood":
		for n := 0; ; n++ {
			if err := out.Send(cards(fmt.Sprint("card", n))); err != nil {
				return err
			}
		}
	}
	if err := out.Send(cards("one", "two")); err != nil {
		return err
	}
	if f.fault == "crash" {
		time.Sleep(100 * time.Millisecond)
		os.Exit(4)
	}
	<-out.Context().Done()
	return nil
}

func (f *fakeDevices) Reserve(_ context.Context, req *proto.ReserveRequest) (*proto.ReserveResponse, error) {
	switch ids := req.GetDeviceIds(); {
	case f.fault == "hang" || f.fault == "mute":
		<-time.After(time.Hour)
	case f.fault == "huge":
		return &proto.ReserveResponse{ContainerRes: &proto.ContainerReservation{Envs: map[string]string{"X": strings.Repeat("x", 100<<20)}}}, nil
	case len(ids) == 1 && ids[0] == "gone":
		return nil, errors.New("the card is gone")
	}
	return &proto.ReserveResponse{ContainerRes: &proto.ContainerReservation{
		Envs:    map[string]string{"ACME_VISIBLE": strings.Join(req.GetDeviceIds(), ",")},
		Mounts:  []*proto.ReservedMount{{TaskPath: "/usr/lib/acme", HostPath: "/opt/acme", ReadOnly: true}},
		Devices: []*proto.ReservedDevice{{TaskPath: "/dev/acme0", HostPath: "/dev/null", Permissions: "rw"}, {TaskPath: "/dev/ctl", HostPath: "/dev/full"}},
	}}, nil
}

func (f *fakeDevices) Stats(_ *proto.StatsRequest, out grpc.ServerStreamingServer[proto.StatsResponse]) error {
	return out.Send(&proto.StatsResponse{Groups: []*proto.DeviceGroupStats{{Vendor: "acme", Type: "gpu", Name: "T4",
		InstanceStats: map[string]*proto.DeviceStats{"one": {Summary: &proto.StatValue{IntNumeratorVal: wrapperspb.Int64(3), Unit: "%"}}}}}})
}

// lists keeps the last report of a device plugin.
type lists struct {
	mu     sync.Mutex
	groups []*proto.DeviceGroup
	err    error
	count  int
}

func watch(t *testing.T, d *host.DevicePlugin) *lists {
	ctx, cancel := context.WithCancel(context.Background())
	l, done := &lists{}, make(chan struct{})
	go func() {
		defer close(done)
		d.Watch(ctx, func(m *proto.DeviceFingerprintResponse, err error) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if g := m.GetDeviceGroup(); len(g) == 1 && len(g[0].GetDevices()) == 2 && g[0].GetDevices()[0].GetID() == g[0].GetDevices()[1].GetID() {
				return errors.New("duplicate ID")
			}
			l.groups, l.err, l.count = m.GetDeviceGroup(), err, l.count+1
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

func (l *lists) get() ([]*proto.DeviceGroup, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups, l.err
}

func onlyDevice(t *testing.T, h *host.Host) *host.DevicePlugin {
	t.Helper()
	if len(h.Devices()) != 1 || len(h.Drivers()) != 0 {
		t.Fatalf("%d device plugins and %d drivers, want one device plugin", len(h.Devices()), len(h.Drivers()))
	}
	return h.Devices()[0]
}

func TestDevicePlugin(t *testing.T) {
	h := newRig(t, "gpu").open()
	d := onlyDevice(t, h)
	l := watch(t, d)
	testpace.Until(t, "the devices", func() bool { groups, _ := l.get(); return len(groups) == 1 })
	groups, _ := l.get()
	if g := groups[0]; g.GetVendor() != "acme" || len(g.GetDevices()) != 2 {
		t.Errorf("group = %v", g)
	}
	r, err := d.Reserve(t.Context(), []string{"one", "two"})
	if err != nil || r.GetEnvs()["ACME_VISIBLE"] != "one,two" || len(r.GetMounts()) != 1 || len(r.GetDevices()) != 2 {
		t.Errorf("Reserve() = %v, %v", r, err)
	}
	if _, err := d.Reserve(t.Context(), []string{"gone"}); err == nil || !strings.Contains(err.Error(), "the card is gone") {
		t.Errorf("Reserve() = %v, want the error of the plugin", err)
	}
	var stats *proto.StatsResponse
	if ok, _ := d.Stats(t.Context(), time.Second, func(s *proto.StatsResponse) { stats = s }); !ok || len(stats.GetGroups()) != 1 {
		t.Errorf("Stats() = %t, %v", ok, stats)
	}
}

// TestDevicePlugin_Faults checks that a fault is reported, and that other plugins go on.
func TestDevicePlugin_Faults(t *testing.T) {
	for name, want := range map[string]string{
		"gpu-hang": "sent no devices within", "gpu-huge": "larger than max", "gpu-crash": "exit status 4", "gpu-double": "duplicate ID",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, name, "good")
			r.cfg.Backoff = time.Hour
			if name == "gpu-hang" {
				r.cfg.Patience = time.Second
			}
			h := r.open()
			healthy(t, find(t, h, "good"))
			l := watch(t, h.Devices()[0])
			testpace.Until(t, "an error that has "+want, func() bool {
				_, err := l.get()
				return err != nil && strings.Contains(err.Error(), want)
			})
			if _, err := h.Devices()[0].Reserve(t.Context(), []string{"one"}); !errors.Is(err, drivers.ErrNotRunning) {
				t.Errorf("Reserve() = %v, want %v", err, drivers.ErrNotRunning)
			}
		})
	}
}

// TestDevicePlugin_Restart checks that a program that crashes is started again.
func TestDevicePlugin_Restart(t *testing.T) {
	l := watch(t, onlyDevice(t, newRig(t, "gpu-crash").open()))
	testpace.Until(t, "three starts", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.count > 5 })
}

func TestDevicePlugin_Flood(t *testing.T) {
	l := watch(t, onlyDevice(t, newRig(t, "gpu-flood").open()))
	testpace.Until(t, "a list", func() bool { groups, _ := l.get(); return len(groups) == 1 })
	time.Sleep(200 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > 2 {
		t.Errorf("%d lists in 200 ms, want at most one a second", l.count)
	}
}

func TestDevicePlugin_Reserve_hangs(t *testing.T) {
	r := newRig(t, "gpu-mute")
	r.cfg.Patience = time.Second
	d := onlyDevice(t, r.open())
	l := watch(t, d)
	testpace.Until(t, "the devices", func() bool { groups, _ := l.get(); return len(groups) == 1 })
	if _, err := d.Reserve(t.Context(), []string{"one"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Reserve() = %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestDevicePlugin_RefusesConfiguration(t *testing.T) {
	r := newRig(t, "gpu-refuse")
	_, err := host.Open(t.Context(), r.cfg)
	if wrong, ok := errors.AsType[*host.BlockError](err); !ok || wrong.Label != "gpu-refuse" || !strings.Contains(err.Error(), "no moon tonight") {
		t.Errorf("Open() = %v, want a BlockError of gpu-refuse", err)
	}
}

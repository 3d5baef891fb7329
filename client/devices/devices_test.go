package devices_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/open-nomad/open-nomad/client/devices"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

// fake is a device plugin that reports what the test sends.
type fake struct {
	name    string
	reports chan any // a *proto.DeviceFingerprintResponse or an error
	refused chan error
	reserve func(ids []string) (*proto.ContainerReservation, error)
	stats   *proto.StatsResponse
}

func newFake(name string) *fake {
	return &fake{name: name, reports: make(chan any), refused: make(chan error, 9)}
}

func (f *fake) Name() string { return f.name }

func (f *fake) Watch(ctx context.Context, report func(*proto.DeviceFingerprintResponse, error) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-f.reports:
			if err, ok := r.(error); ok {
				report(nil, err)
			} else if err := report(r.(*proto.DeviceFingerprintResponse), nil); err != nil {
				f.refused <- err
			}
		}
	}
}

func (f *fake) Reserve(_ context.Context, ids []string) (*proto.ContainerReservation, error) {
	return f.reserve(ids)
}

func (f *fake) Stats(ctx context.Context, _ time.Duration, take func(*proto.StatsResponse)) (bool, error) {
	if f.stats == nil {
		return false, nil
	}
	take(f.stats)
	<-ctx.Done()
	return true, ctx.Err()
}

func group(name string, ids ...string) *proto.DeviceGroup {
	g := &proto.DeviceGroup{Vendor: "acme", DeviceType: "gpu", DeviceName: name}
	for _, id := range ids {
		g.Devices = append(g.Devices, &proto.DetectedDevice{ID: id, Healthy: true})
	}
	return g
}

func groups(list ...*proto.DeviceGroup) *proto.DeviceFingerprintResponse {
	return &proto.DeviceFingerprintResponse{DeviceGroup: list}
}

// run runs a set until the test ends.
func run(t *testing.T, plugins ...devices.Plugin) *devices.Set {
	t.Helper()
	s := devices.New(devices.Config{Plugins: plugins, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) }) //nolint:errcheck // the error of ctx
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

// shown describes the devices, such as "T4 a:true b:false".
func shown(s *devices.Set) string {
	var out []string
	for _, g := range s.Groups() {
		out = append(out, g.Name)
		for _, i := range g.Instances {
			out = append(out, fmt.Sprintf("%s:%t", i.ID, i.Healthy))
		}
	}
	return strings.Join(out, " ")
}

func TestGroups(t *testing.T) {
	a, b := newFake("a"), newFake("b")
	s := run(t, b, a)
	b.reports <- groups(group("T4", "of b"), group("A100", "x"))
	a.reports <- groups(group("T4", "one", "two"))
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown(s); got != "A100 x:true T4 one:true two:true" {
		t.Errorf("devices = %s, want those of both, and T4 of the first plugin", got)
	}
	<-s.Changed()
	a.reports <- errors.New("it has crashed")
	testpace.Until(t, "unhealthy devices", func() bool { return shown(s) == "A100 x:true T4 one:false two:false" })
	if got := s.Groups()[1].Instances[0].HealthDescription; got != "it has crashed" {
		t.Errorf("description = %q", got)
	}
	a.reports <- groups(group("T4", "two"))
	testpace.Until(t, "the remaining device", func() bool { return shown(s) == "A100 x:true T4 two:true" })
}

// TestGroups_Invalid checks that an invalid list is refused as a whole.
func TestGroups_Invalid(t *testing.T) {
	nan := &proto.Attribute{Value: &proto.Attribute_FloatVal{FloatVal: math.NaN()}}
	withNaN := group("x", "1")
	withNaN.Attributes = map[string]*proto.Attribute{"k": nan}
	many := make([]string, 1025)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	f := newFake("f")
	s := run(t, f)
	for want, m := range map[string]*proto.DeviceFingerprintResponse{
		"vendor of a device: is empty":  groups(&proto.DeviceGroup{DeviceType: "gpu", DeviceName: "x"}),
		`type of a device: "a/b"`:       groups(&proto.DeviceGroup{Vendor: "v", DeviceType: "a/b", DeviceName: "x"}),
		"duplicate group":               groups(group("x", "1"), group("x", "2")),
		`duplicate ID "1"`:              groups(group("x", "1", "1")),
		"has no instances":              groups(group("x")),
		"more than 1024 instances":      groups(group("x", many...)),
		"longer than 128 bytes":         groups(group("x", strings.Repeat("x", 129))),
		"control characters":            groups(group("x", "a\nb")),
		"ID: is empty":                  groups(group("x", "")),
		"is not a number":               groups(withNaN),
		"65 groups of devices: at most": {DeviceGroup: make([]*proto.DeviceGroup, 65)},
	} {
		f.reports <- m
		if err := <-f.refused; !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
	if len(s.Groups()) != 0 {
		t.Errorf("groups = %v, want none", s.Groups())
	}
}

func TestReserve(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(open, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake("f")
	s := run(t, f)
	f.reports <- groups(group("T4", "one", "two"))
	testpace.Until(t, "the devices of the plugin", func() bool { return len(s.Groups()) == 1 })
	device := func(task, host, permissions string) *proto.ContainerReservation {
		return &proto.ContainerReservation{Devices: []*proto.ReservedDevice{{TaskPath: task, HostPath: host, Permissions: permissions}}}
	}
	mount := func(host string) *proto.ContainerReservation {
		return &proto.ContainerReservation{Mounts: []*proto.ReservedMount{{TaskPath: "/x", HostPath: host}}}
	}
	for name, tt := range map[string]struct {
		give *proto.ContainerReservation
		want string // part of the error, "" for none
	}{
		"device":              {device("/dev/acme", filepath.Join(dir, "link"), ""), ""},
		"nothing":             {nil, ""},
		"file as device":      {device("/dev/acme", file, ""), "is not a device node"},
		"directory as device": {device("/dev/acme", dir, ""), "is not a device node"},
		"missing":             {device("/dev/acme", "/dev/no-such-device", ""), "no such file"},
		"relative":            {device("dev/acme", "/dev/null", ""), "absolute"},
		"not clean":           {device("/dev/acme", "/dev/../dev/null", ""), "absolute"},
		"root":                {device("/", "/dev/null", ""), "absolute"},
		"permissions":         {device("/dev/acme", "/dev/null", "rwx"), `permissions "rwx"`},
		"magic link":          {device("/dev/acme", "/proc/self/fd/0", ""), "too many levels"},
		"device as mount":     {mount("/dev/null"), "reserved as devices"},
		"file as mount":       {mount(file), ""},
		"directory as mount":  {mount(dir), ""},
		"proc as mount":       {mount("/proc"), "the file system proc of the kernel"},
		"sysctl as mount":     {mount("/proc/sys/kernel/core_pattern"), "the file system proc of the kernel"},
		"open directory":      {mount(filepath.Join(open, "f")), "others could replace"},
		"variable":            {&proto.ContainerReservation{Envs: map[string]string{"A=B": "x"}}, "variable"},
	} {
		t.Run(name, func(t *testing.T) {
			f.reserve = func([]string) (*proto.ContainerReservation, error) { return tt.give, nil }
			r, err := s.Reserve(t.Context(), &nomad.AllocatedDeviceResource{Vendor: "acme", Type: "gpu", Name: "T4", DeviceIDs: []string{"two"}})
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || tt.want == "" && err != nil {
				t.Fatalf("Reserve() = %+v, %v, want an error with %q", r, err, tt.want)
			}
			want := []drivers.Device{{TaskPath: "/dev/acme", HostPath: "/dev/null", Permissions: "rwm"}}
			if name == "device" && !reflect.DeepEqual(r.Devices, want) {
				t.Errorf("devices = %+v, want the target of the link", r.Devices)
			}
		})
	}
	unknown := &nomad.AllocatedDeviceResource{Vendor: "acme", Type: "gpu", Name: "T4", DeviceIDs: []string{"three"}}
	if _, err := s.Reserve(t.Context(), unknown); err == nil {
		t.Error("Reserve() of an unknown instance = nil, want an error")
	}
}

func TestStats(t *testing.T) {
	deep := &proto.StatObject{}
	for range 100 {
		deep = &proto.StatObject{Nested: map[string]*proto.StatObject{"n": deep}}
	}
	f := newFake("f")
	stats := map[string]*proto.DeviceStats{"two": {}, "one": {Stats: deep,
		Summary: &proto.StatValue{FloatNumeratorVal: wrapperspb.Double(math.Inf(1)), IntNumeratorVal: wrapperspb.Int64(3)}}}
	f.stats = &proto.StatsResponse{Groups: []*proto.DeviceGroupStats{
		{Vendor: "acme", Type: "gpu", Name: "T4", InstanceStats: stats}, {Name: "no vendor"}}}
	s := run(t, f)
	testpace.Until(t, "a sample", func() bool { return len(s.Stats()) == 1 })
	of := s.StatsOf([]*nomad.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "T4", DeviceIDs: []string{"one"}}})
	if len(of) != 1 || len(of[0].InstanceStats) != 1 {
		t.Fatalf("StatsOf() = %+v, want one instance", of)
	}
	one := of[0].InstanceStats["one"]
	if one.Summary.FloatNumeratorVal != nil || *one.Summary.IntNumeratorVal != 3 {
		t.Errorf("summary = %+v, want no infinite number", one.Summary)
	}
	depth := 0
	for o := one.Stats; o != nil; o = o.Nested["n"] {
		depth++
	}
	if depth > 6 {
		t.Errorf("depth %d, want a limit", depth)
	}
}

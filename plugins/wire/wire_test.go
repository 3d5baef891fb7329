package wire_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

var spec = hcldec.ObjectSpec{
	"command": &hcldec.AttrSpec{Name: "command", Type: cty.String},
	"count":   &hcldec.AttrSpec{Name: "count", Type: cty.Number},
	"labels":  &hcldec.AttrSpec{Name: "labels", Type: cty.Map(cty.String)},
}

// over sends a message as gRPC does.
func over[M protobuf.Message](t *testing.T, m M, into M) M {
	t.Helper()
	raw, err := protobuf.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := protobuf.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// TestTask sends a configuration from the client to the driver.
func TestTask(t *testing.T) {
	config, err := drivers.Decode(map[string]any{"command": "x", "count": 7, "labels": map[string]any{"a": "b"}}, spec)
	if err != nil {
		t.Fatal(err)
	}
	give := &drivers.TaskConfig{
		ID: "alloc/web/01234567", JobID: "j", JobName: "job", Namespace: "n", AllocID: "alloc", TaskGroup: "g", Name: "web", NodeID: "node",
		NodeName: "host",
		User:     "nomad-80000", Env: map[string]string{"A": "b"}, Config: config,
		Limits: drivers.LinuxResources{MemoryBytes: 64 << 20, MemoryMaxBytes: 128 << 20, CPUShares: 500, MHzPerCore: 2000, Cores: []uint16{1, 3}},
		Ports:  []drivers.Port{{Label: "http", Value: 20000, To: 80, HostIP: "192.0.2.1"}}, AllocDir: "/srv/alloc",
		Mounts:  []drivers.Mount{{TaskPath: "/data", HostPath: "/srv/data", ReadOnly: true}},
		Devices: []drivers.Device{{TaskPath: "/dev/x", HostPath: "/dev/y", Permissions: "rw"}},
		DNS:     &drivers.DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"example"}, Options: []string{"ndots:1"}},
		NetNS:   "/run/netns/x", NetLabels: map[string]string{"k": "v"}, Stdout: "/run/out", Stderr: "/run/err",
	}
	m, err := wire.EncodeTask(give)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeTask(over(t, m, &proto.TaskConfig{}), spec, wire.Node{})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Config.RawEquals(config) {
		t.Errorf("config = %#v, want %#v", got.Config, config)
	}
	want := *give
	want.Config, got.Config = cty.NilVal, cty.NilVal
	want.TaskDir, want.SharedDir, want.LocalDir = "/srv/alloc/web", "/srv/alloc/alloc", "/srv/alloc/web/local"
	want.SecretsDir, want.LogDir = "/srv/alloc/web/secrets", "/srv/alloc/alloc/logs"
	want.Log.Disabled, want.Writable = true, []string{"/srv/data"}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

func TestTaskLimits(t *testing.T) {
	for name, tc := range map[string]struct{ give, want drivers.LinuxResources }{
		"no maximum": {drivers.LinuxResources{MemoryBytes: 1 << 20, MemoryMaxBytes: -1},
			drivers.LinuxResources{MemoryBytes: 1 << 20, MemoryMaxBytes: -1, MHzPerCore: 9}},
		"hard": {drivers.LinuxResources{MemoryBytes: 1 << 20}, drivers.LinuxResources{MemoryBytes: 1 << 20, MHzPerCore: 9}},
	} {
		m, err := wire.EncodeTask(&drivers.TaskConfig{ID: "i", Name: "n", AllocDir: "/a", Config: cty.EmptyObjectVal, Limits: tc.give})
		if err != nil {
			t.Fatal(err)
		}
		m.MsgpackDriverConfig = nil
		got, err := wire.DecodeTask(m, spec, wire.Node{MHzPerCore: 9})
		if err != nil || !reflect.DeepEqual(got.Limits, tc.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got.Limits, err, tc.want)
		}
	}
}

// TestTaskOfNomad decodes values that only other clients send.
func TestTaskOfNomad(t *testing.T) {
	m := &proto.TaskConfig{Id: "i", Name: "n", AllocDir: "/a", DeviceEnv: map[string]string{"GPU": "0"}, Env: map[string]string{"A": "b"},
		Resources: &proto.Resources{LinuxResources: &proto.LinuxResources{CpusetCgroup: "/sys/fs/cgroup/nomad.slice/share.slice/a.n.scope"}}}
	got, err := wire.DecodeTask(m, spec, wire.Node{})
	if err != nil || got.CgroupParent != "nomad.slice" || got.Env["GPU"] != "0" || got.Env["A"] != "b" {
		t.Errorf("DecodeTask() = %+v, %v", got, err)
	}
	for name, bad := range map[string]*proto.TaskConfig{
		"no ID":        {Name: "n", AllocDir: "/a"},
		"a path":       {Id: "i", Name: "../x", AllocDir: "/a"},
		"no directory": {Id: "i", Name: "n"},
		"bad config":   {Id: "i", Name: "n", AllocDir: "/a", MsgpackDriverConfig: []byte{0xc1}},
		"bad cores": {Id: "i", Name: "n", AllocDir: "/a",
			Resources: &proto.Resources{LinuxResources: &proto.LinuxResources{CpusetCpus: "1,-"}}},
	} {
		if _, err := wire.DecodeTask(bad, spec, wire.Node{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCapabilities(t *testing.T) {
	for _, isolation := range []drivers.FSIsolation{drivers.FSIsolationNone, drivers.FSIsolationChroot, drivers.FSIsolationImage,
		drivers.FSIsolationUnveil} {
		want := drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: isolation, DynamicWorkloadUsers: true,
			Networks: []string{drivers.NetworkGroup, drivers.NetworkHost}, MustCreateNetwork: true, NoLogs: true, Mounts: true, Devices: true,
			DNS:          true,
			Propagations: []string{drivers.PropagateToTask, drivers.PropagateBoth}, SELinux: true}
		got, err := wire.DecodeCapabilities(over(t, wire.EncodeCapabilities(want), &proto.DriverCapabilities{}))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if c, err := wire.DecodeCapabilities(&proto.DriverCapabilities{}); err != nil || !c.Mounts {
		t.Errorf("capabilities of Nomad's SDK = %+v, %v, want mounts", c, err)
	}
	if _, err := wire.DecodeCapabilities(&proto.DriverCapabilities{FsIsolation: 99}); err == nil {
		t.Error("unknown isolation: no error")
	}
}

func TestFingerprint(t *testing.T) {
	for _, health := range []drivers.Health{drivers.HealthHealthy, drivers.HealthUnhealthy, drivers.HealthUndetected} {
		want := drivers.Fingerprint{Health: health, Description: "d", Attributes: map[string]string{"driver.x": "1"}}
		if got := wire.DecodeFingerprint(over(t, wire.EncodeFingerprint(want), &proto.FingerprintResponse{})); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	many := map[string]*proto.Attribute{}
	for i := range 1000 {
		many[fmt.Sprintf("driver.x.%04d", i)] = &proto.Attribute{Value: &proto.Attribute_StringVal{StringVal: strings.Repeat("é", 100_000)}}
	}
	many["a"] = &proto.Attribute{Value: &proto.Attribute_IntVal{IntVal: 3}, Unit: "MiB"}
	many["b"] = &proto.Attribute{Value: &proto.Attribute_FloatVal{FloatVal: 0.5}}
	many["c"] = &proto.Attribute{Value: &proto.Attribute_BoolVal{BoolVal: true}}
	got := wire.DecodeFingerprint(&proto.FingerprintResponse{Health: proto.FingerprintResponse_HEALTHY, Attributes: many,
		HealthDescription: "a\x1b[31m\nb\xff" + strings.Repeat("x", 9999)})
	if got.Attributes["a"] != "3MiB" || got.Attributes["b"] != "0.5" || got.Attributes["c"] != "true" {
		t.Errorf("attributes = %v, %v, %v", got.Attributes["a"], got.Attributes["b"], got.Attributes["c"])
	}
	if len(got.Attributes) != 256 || len(got.Attributes["driver.x.0001"]) > 5000 {
		t.Errorf("%d attributes of %d bytes, want limits", len(got.Attributes), len(got.Attributes["driver.x.0001"]))
	}
	if len(got.Description) > 1100 || !strings.HasPrefix(got.Description, "a?[31m b?xxx") {
		t.Errorf("description has %d bytes: %.20q", len(got.Description), got.Description)
	}
	if f := wire.DecodeFingerprint(&proto.FingerprintResponse{Health: proto.FingerprintResponse_HEALTHY,
		Err: "broken"}); f.Health != drivers.HealthUnhealthy || f.Description != "broken" {
		t.Errorf("fingerprint with an error = %+v", f)
	}
}

func TestErrors(t *testing.T) {
	plain := errors.New("no image")
	for name, tc := range map[string]struct {
		give error
		is   func(error) bool
	}{
		"nil":         {nil, func(err error) bool { return err == nil }},
		"not found":   {fmt.Errorf("stop: %w", drivers.ErrTaskNotFound), func(err error) bool { return errors.Is(err, drivers.ErrTaskNotFound) }},
		"plain":       {plain, func(err error) bool { return err.Error() == "no image" }},
		"recoverable": {&drivers.RecoverableError{Err: plain}, isRecoverable},
		"wrapped":     {fmt.Errorf("x: %w", &drivers.RecoverableError{Err: plain}), isRecoverable},
		"cancelled":   {context.Canceled, func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		if got := wire.DecodeError(wire.EncodeError(tc.give)); !tc.is(got) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if err := wire.DecodeError(status.Error(codes.Unavailable, "gone")); !errors.Is(err, drivers.ErrNotRunning) {
		t.Errorf("unavailable = %v", err)
	}
	if err := wire.DecodeError(status.Error(codes.FailedPrecondition, "no")); isRecoverable(err) {
		t.Errorf("precondition without a detail = %v, want it not recoverable", err)
	}
	if err := wire.DecodeError(status.Error(codes.Unknown, strings.Repeat("x", 1<<20))); len(err.Error()) > 2000 {
		t.Errorf("an error has %d bytes", len(err.Error()))
	}
}

func isRecoverable(err error) bool {
	_, ok := errors.AsType[*drivers.RecoverableError](err)
	return ok
}

func TestStatusAndStats(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	want := &drivers.TaskStatus{ID: "i", Name: "n", State: drivers.TaskExited, StartedAt: at, CompletedAt: at.Add(time.Second),
		Exit: &drivers.ExitResult{ExitCode: 137, Signal: 9, OOMKilled: true}, Attributes: map[string]string{"pid": "7"},
		Network: &drivers.TaskNetwork{IP: "192.0.2.1", PortMap: map[string]int{"http": 80}, AutoAdvertise: true}}
	task, driver := wire.EncodeStatus(want)
	got, err := wire.DecodeStatus(over(t,
		&proto.InspectTaskResponse{Task: task, Driver: driver, NetworkOverride: wire.EncodeNetwork(want.Network)}, &proto.InspectTaskResponse{}))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := wire.DecodeStatus(&proto.InspectTaskResponse{}); err == nil {
		t.Error("status without a state: no error")
	}
	usage := &drivers.ResourceUsage{Timestamp: at, MemoryUsage: 1, MemoryRSS: 2, MemoryCache: 3, MemorySwap: 4, MemoryMaxUsage: 5,
		MemoryMeasured: []string{"RSS", "Swap"},
		CPUUser:        1.5, CPUSystem: 2.5, CPUPercent: 4, CPUTicks: 80, CPUMeasured: []string{"Percent"}, ThrottledTime: 6, ThrottledCount: 7}
	if got := wire.DecodeStats(over(t, wire.EncodeStats("i", usage), &proto.TaskStats{})); !reflect.DeepEqual(got, usage) {
		t.Errorf("got %+v, want %+v", got, usage)
	}
	event := &drivers.TaskEvent{TaskID: "a/t/1", At: at, Message: "pulled", Details: map[string]string{"k": "v"}}
	m := over(t, wire.EncodeEvent(event), &proto.DriverTaskEvent{})
	if got := wire.DecodeEvent(m); !reflect.DeepEqual(got, event) || m.GetAllocId() != "a" || m.GetTaskName() != "t" {
		t.Errorf("got %+v of %v, want %+v", got, m, event)
	}
}

func TestTimes(t *testing.T) {
	if d := wire.DecodeDuration(&durationpb.Duration{Seconds: -5}); d != 0 {
		t.Errorf("negative duration = %v", d)
	}
	if d := wire.DecodeDuration(&durationpb.Duration{Seconds: math.MaxInt64}); d <= 0 {
		t.Errorf("endless duration = %v", d)
	}
	if at := wire.DecodeTime(nil); !at.IsZero() {
		t.Errorf("no time = %v", at)
	}
}

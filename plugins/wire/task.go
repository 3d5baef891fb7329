package wire

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

const mega = 1 << 20

// EncodeConfig returns a decoded config block in MessagePack.
func EncodeConfig(val cty.Value) ([]byte, error) {
	raw, err := msgpack.Marshal(val, val.Type())
	if err != nil {
		return nil, fmt.Errorf("encode config: %w", err)
	}
	return raw, nil
}

// DecodeConfig returns the config block of a schema from MessagePack. Without bytes it is empty.
func DecodeConfig(raw []byte, spec hcldec.Spec) (cty.Value, error) {
	if len(raw) == 0 {
		return drivers.Decode(nil, spec)
	}
	val, err := msgpack.Unmarshal(raw, hcldec.ImpliedType(spec))
	if err != nil {
		return cty.NilVal, fmt.Errorf("decode config: %w", err)
	}
	return val, nil
}

// privateMounts is the name of no propagation in the protocol.
const privateMounts = "private"

// EncodeTask returns the message of a task's configuration.
func EncodeTask(cfg *drivers.TaskConfig) (*proto.TaskConfig, error) {
	config, err := EncodeConfig(cfg.Config)
	if err != nil {
		return nil, err
	}
	out := &proto.TaskConfig{
		Id: cfg.ID, Name: cfg.Name, MsgpackDriverConfig: config, Env: cfg.Env, Resources: encodeResources(cfg), User: cfg.User,
		AllocDir: cfg.AllocDir, StdoutPath: cfg.Stdout, StderrPath: cfg.Stderr, TaskGroupName: cfg.TaskGroup, JobName: cfg.JobName,
		AllocId: cfg.AllocID, JobId: cfg.JobID, Namespace: cfg.Namespace, NodeName: cfg.NodeName, NodeId: cfg.NodeID,
		NetworkIsolationSpec: EncodeGroupNetwork(&drivers.GroupNetwork{Path: cfg.NetNS, Labels: cfg.NetLabels}),
	}
	for _, m := range cfg.Mounts {
		out.Mounts = append(out.Mounts, &proto.Mount{TaskPath: m.TaskPath, HostPath: m.HostPath, Readonly: m.ReadOnly,
			PropagationMode: cmp.Or(m.Propagation, privateMounts), SelinuxLabel: m.SELinuxLabel})
	}
	for _, d := range cfg.Devices {
		out.Devices = append(out.Devices, &proto.Device{TaskPath: d.TaskPath, HostPath: d.HostPath, CgroupPermissions: d.Permissions})
	}
	if cfg.DNS != nil {
		out.Dns = &proto.DNSConfig{Servers: cfg.DNS.Servers, Searches: cfg.DNS.Searches, Options: cfg.DNS.Options}
	}
	return out, nil
}

func encodeResources(cfg *drivers.TaskConfig) *proto.Resources {
	l := cfg.Limits
	limit := max(l.MemoryBytes, l.MemoryMaxBytes)
	memoryMax := l.MemoryMaxBytes / mega
	if l.MemoryMaxBytes < 0 {
		memoryMax = -1
	}
	linux := &proto.LinuxResources{CpuShares: l.CPUShares, MemoryLimitBytes: limit, CpusetCpus: coreList(l.Cores)}
	if total := float64(l.MHzPerCore) * float64(runtime.NumCPU()); total > 0 {
		linux.PercentTicks = float64(l.CPUShares) / total
	}
	out := &proto.Resources{LinuxResources: linux, AllocatedResources: &proto.AllocatedTaskResources{
		Cpu:    &proto.AllocatedCpuResources{CpuShares: l.CPUShares},
		Memory: &proto.AllocatedMemoryResources{MemoryMb: l.MemoryBytes / mega, MemoryMaxMb: memoryMax},
	}}
	for _, p := range cfg.Ports {
		out.Ports = append(out.Ports, &proto.PortMapping{Label: p.Label, Value: int32(p.Value), To: int32(p.To), HostIp: p.HostIP})
	}
	return out
}

func coreList(cores []uint16) string {
	out := make([]string, len(cores))
	for i, c := range cores {
		out[i] = strconv.Itoa(int(c))
	}
	return strings.Join(out, ",")
}

// Node holds the data about the node that a driver's program has.
type Node struct {
	MHzPerCore uint64 // 0 if it is not known
}

// DecodeTask returns the task's configuration of a message, for a driver with this schema. The
// directories of the task follow from that of its allocation.
func DecodeTask(m *proto.TaskConfig, spec hcldec.Spec, node Node) (*drivers.TaskConfig, error) {
	if m.GetId() == "" || !isName(m.GetName()) || !filepath.IsAbs(m.GetAllocDir()) {
		return nil, fmt.Errorf("task %q: has no ID, a name %q that is not a name of a directory, or no absolute directory", m.GetId(),
			m.GetName())
	}
	config, err := DecodeConfig(m.GetMsgpackDriverConfig(), spec)
	if err != nil {
		return nil, err
	}
	limits, err := decodeLimits(m.GetResources(), node)
	if err != nil {
		return nil, err
	}
	dir, shared := filepath.Join(m.GetAllocDir(), m.GetName()), filepath.Join(m.GetAllocDir(), "alloc")
	cfg := &drivers.TaskConfig{
		ID: m.GetId(), JobID: m.GetJobId(), JobName: m.GetJobName(), Namespace: m.GetNamespace(), AllocID: m.GetAllocId(),
		TaskGroup: m.GetTaskGroupName(), Name: m.GetName(), NodeID: m.GetNodeId(), NodeName: m.GetNodeName(), User: m.GetUser(),
		Env: Environment(m), Config: config, Limits: limits, AllocDir: m.GetAllocDir(), TaskDir: dir, SharedDir: shared,
		LocalDir: filepath.Join(dir, "local"), SecretsDir: filepath.Join(dir, "secrets"), LogDir: filepath.Join(shared, "logs"),
		Stdout: m.GetStdoutPath(), Stderr: m.GetStderrPath(), CgroupParent: cgroupParent(m.GetResources().GetLinuxResources().GetCpusetCgroup()),
	}
	// The client of this project collects the output if the job enables logs.
	cfg.Log.Disabled = true
	if n := DecodeGroupNetwork(m.GetNetworkIsolationSpec()); n != nil {
		cfg.NetNS, cfg.NetLabels = n.Path, n.Labels
	}
	for _, p := range m.GetResources().GetPorts() {
		cfg.Ports = append(cfg.Ports, drivers.Port{Label: p.GetLabel(), Value: int(p.GetValue()), To: int(p.GetTo()), HostIP: p.GetHostIp()})
	}
	for _, mount := range m.GetMounts() {
		m := drivers.Mount{TaskPath: mount.GetTaskPath(), HostPath: mount.GetHostPath(), ReadOnly: mount.GetReadonly(),
			SELinuxLabel: mount.GetSelinuxLabel()}
		if p := mount.GetPropagationMode(); p != privateMounts {
			m.Propagation = p
		}
		cfg.Mounts = append(cfg.Mounts, m)
		cfg.Writable = append(cfg.Writable, mount.GetHostPath())
	}
	for _, d := range m.GetDevices() {
		cfg.Devices = append(cfg.Devices,
			drivers.Device{TaskPath: d.GetTaskPath(), HostPath: d.GetHostPath(), Permissions: d.GetCgroupPermissions()})
	}
	if d := m.GetDns(); d != nil {
		cfg.DNS = &drivers.DNS{Servers: d.GetServers(), Searches: d.GetSearches(), Options: d.GetOptions()}
	}
	return cfg, nil
}

// Environment returns the variables of a task, with those of its devices.
func Environment(m *proto.TaskConfig) map[string]string {
	out := map[string]string{}
	for _, part := range []map[string]string{m.GetEnv(), m.GetDeviceEnv()} {
		for name, value := range part {
			out[name] = value
		}
	}
	return out
}

func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

func decodeLimits(m *proto.Resources, node Node) (drivers.LinuxResources, error) {
	memory, linux := m.GetAllocatedResources().GetMemory(), m.GetLinuxResources()
	out := drivers.LinuxResources{MemoryBytes: memory.GetMemoryMb() * mega, CPUShares: m.GetAllocatedResources().GetCpu().GetCpuShares(),
		MHzPerCore: node.MHzPerCore}
	switch high := memory.GetMemoryMaxMb(); {
	case high < 0:
		out.MemoryMaxBytes = -1
	case high > memory.GetMemoryMb():
		out.MemoryMaxBytes = high * mega
	}
	if out.MHzPerCore == 0 && linux.GetPercentTicks() > 0 {
		out.MHzPerCore = uint64(math.Round(float64(out.CPUShares) / linux.GetPercentTicks() / float64(runtime.NumCPU())))
	}
	for part := range strings.SplitSeq(linux.GetCpusetCpus(), ",") {
		if part == "" {
			continue
		}
		core, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return out, fmt.Errorf("cpuset_cpus: %q is not a core", part)
		}
		out.Cores = append(out.Cores, uint16(core))
	}
	return out, nil
}

// cgroupParent returns the parent of the groups of all tasks, from the path of a task's group:
// /sys/fs/cgroup/<parent>/{share,reserve}.slice/<name>.scope.
func cgroupParent(path string) string {
	rel, ok := strings.CutPrefix(filepath.Clean(path), "/sys/fs/cgroup/")
	if !ok {
		return ""
	}
	parent := filepath.Dir(filepath.Dir(rel))
	if parent == "." || strings.HasPrefix(parent, "..") {
		return ""
	}
	return parent
}

var states = map[drivers.TaskState]proto.TaskState{drivers.TaskRunning: proto.TaskState_RUNNING, drivers.TaskExited: proto.TaskState_EXITED}

// EncodeStatus returns the messages of a task's status.
func EncodeStatus(s *drivers.TaskStatus) (*proto.TaskStatus, *proto.TaskDriverStatus) {
	out := &proto.TaskStatus{Id: s.ID, Name: s.Name, State: states[s.State], StartedAt: EncodeTime(s.StartedAt),
		CompletedAt: EncodeTime(s.CompletedAt)}
	if s.Exit != nil {
		out.Result, _ = EncodeExit(s.Exit)
	}
	return out, &proto.TaskDriverStatus{Attributes: s.Attributes}
}

// DecodeStatus returns the status of an answer. A state that the protocol does not have is an error.
func DecodeStatus(m *proto.InspectTaskResponse) (*drivers.TaskStatus, error) {
	t := m.GetTask()
	out := &drivers.TaskStatus{ID: t.GetId(), Name: t.GetName(), StartedAt: DecodeTime(t.GetStartedAt()),
		CompletedAt: DecodeTime(t.GetCompletedAt()),
		Exit:        DecodeExit(t.GetResult()), Attributes: texts(m.GetDriver().GetAttributes()), Network: DecodeNetwork(m.GetNetworkOverride())}
	for state, number := range states {
		if number == t.GetState() {
			out.State = state
		}
	}
	if out.State == "" {
		return nil, fmt.Errorf("task %s has an unknown state %d", Clip(t.GetId()), t.GetState())
	}
	return out, nil
}

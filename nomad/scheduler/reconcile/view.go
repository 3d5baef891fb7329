package reconcile

import (
	"cmp"
	"maps"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// groupParts are the fields of a group, and of its job, that affect its running tasks. Another value replaces the
// allocations. All other fields are updated in place.
type groupParts struct {
	Affinities  []*nomad.Affinity
	Spreads     []*nomad.Spread
	Disk        *nomad.EphemeralDisk
	Networks    []networkParts
	Consul      consulParts
	Volumes     map[string]*nomad.VolumeRequest
	Connects    map[string]connectParts
	Rerender    bool
	JobAffinity []*nomad.Affinity
	JobSpreads  []*nomad.Spread
}

func groupView(j *nomad.Job, tg *nomad.TaskGroup) groupParts {
	return groupParts{
		Affinities: tg.Affinities, Spreads: tg.Spreads, JobAffinity: j.Affinities, JobSpreads: j.Spreads,
		Disk: tg.EphemeralDisk, Networks: networkViews(tg.Networks), Consul: consulView(tg.Consul), Volumes: tg.Volumes,
		Connects: connectViews(tg.Services), Rerender: rerenders(tg.RestartPolicy),
	}
}

// taskParts are the fields of a task that affect it while it runs.
type taskParts struct {
	Driver, User string
	Privileged   bool   // not in Nomad
	Isolation    string // not in Nomad
	Config       map[string]any
	Env, Meta    map[string]string
	Artifacts    []*nomad.TaskArtifact
	Vault        *nomad.Vault
	Secrets      []*nomad.Secret
	Consul       consulParts
	Templates    []*nomad.Template
	Plugin       *nomad.TaskCSIPluginConfig
	Mounts       []*nomad.VolumeMount
	Affinities   []*nomad.Affinity
	Resources    resourceParts
	Identity     *nomad.WorkloadIdentity
	Identities   []*nomad.WorkloadIdentity
	Silent       bool
	Sinks        []string
	Rerender     bool
	Spiffe       *nomad.TaskSpiffe // not in Nomad
}

func taskView(j *nomad.Job, tg *nomad.TaskGroup, t *nomad.Task) taskParts {
	return taskParts{
		Driver: t.Driver, User: t.User, Privileged: t.Privileged, Isolation: t.Isolation, Config: t.Config, Env: t.Env,
		Meta:      mergedMeta(j, tg, t),
		Artifacts: t.Artifacts, Vault: t.Vault, Secrets: t.Secrets, Consul: consulView(t.Consul), Templates: t.Templates,
		Plugin: t.CSIPluginConfig, Mounts: t.VolumeMounts, Affinities: t.Affinities, Resources: resourceView(t.Resources),
		Identity: t.Identity, Identities: t.Identities, Silent: t.LogConfig != nil && t.LogConfig.Disabled,
		Rerender: rerenders(t.RestartPolicy), Sinks: sinksOf(t.LogConfig), Spiffe: t.Spiffe,
	}
}

// consulParts are the parts of a consul block that affect running tasks. A block without them equals none: its namespace
// has no effect without Nomad Enterprise.
type consulParts struct{ Cluster, Partition string }

func consulView(c *nomad.Consul) consulParts {
	if c == nil {
		return consulParts{Cluster: "default"}
	}
	return consulParts{cmp.Or(c.Cluster, "default"), c.Partition}
}

func sinksOf(l *nomad.LogConfig) []string {
	if l == nil {
		return nil
	}
	return l.Sinks
}

// mergedMeta returns the metadata of a task: its own wins over that of its group, and that over that of the job.
func mergedMeta(j *nomad.Job, tg *nomad.TaskGroup, t *nomad.Task) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{j.Meta, tg.Meta, t.Meta} {
		maps.Copy(out, m)
	}
	return out
}

func rerenders(p *nomad.RestartPolicy) bool { return p != nil && p.RenderTemplates }

// networkParts are the requested fields of a network. The order of the ports matters.
type networkParts struct {
	Mode, Hostname    string
	MBits             int
	DNS               *nomad.DNSConfig
	CNI               *nomad.CNIConfig
	Isolate           bool
	Egress            *nomad.NetworkEgress
	Reserved, Dynamic []portParts
}

type portParts struct {
	Label, HostNetwork string
	Value, To          int
}

func networkViews(list nomad.Networks) []networkParts {
	out := make([]networkParts, len(list))
	for i, n := range list {
		out[i] = networkParts{Mode: n.Mode, Hostname: n.Hostname, MBits: n.MBits, DNS: n.DNS, CNI: n.CNI, Isolate: n.Isolate, Egress: n.Egress,
			Reserved: portViews(n.ReservedPorts), Dynamic: portViews(n.DynamicPorts)}
	}
	return out
}

func portViews(list []nomad.Port) []portParts {
	out := make([]portParts, len(list))
	for i, p := range list {
		out[i] = portParts{Label: p.Label, HostNetwork: p.HostNetwork, Value: p.Value, To: p.To}
	}
	return out
}

// connectParts are the fields of a Connect service that affect its sidecar.
type connectParts struct {
	Port, Cluster, SidecarPort string
	Native, Sidecar            bool
	Gateway                    *connect.Gateway
	Task                       *nomad.SidecarTask
}

// connectViews returns the Connect services by name.
func connectViews(list []*nomad.Service) map[string]connectParts {
	out := map[string]connectParts{}
	for _, s := range list {
		if s.Connect == nil {
			continue
		}
		v := connectParts{Port: s.PortLabel, Cluster: s.Cluster, Native: s.Connect.Native, Gateway: s.Connect.Gateway,
			Task: s.Connect.SidecarTask}
		if sidecar := s.Connect.SidecarService; sidecar != nil {
			v.Sidecar, v.SidecarPort = true, sidecar.Port
		}
		out[s.Name] = v
	}
	return out
}

// resourceParts are the requested resources of a task.
type resourceParts struct {
	CPU, Cores, MemoryMB, MemoryMaxMB, SecretsMB int
	Networks                                     []networkParts
	Devices                                      nomad.ResourceDevices
	NUMA                                         *nomad.NUMA
}

func resourceView(r *nomad.Resources) resourceParts {
	if r == nil {
		return resourceParts{}
	}
	return resourceParts{CPU: r.CPU, Cores: r.Cores, MemoryMB: r.MemoryMB, MemoryMaxMB: r.MemoryMaxMB, SecretsMB: r.SecretsMB,
		Networks: networkViews(r.Networks), Devices: r.Devices, NUMA: r.NUMA}
}

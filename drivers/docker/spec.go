package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/drivers/docker/files"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Labels of containers. The first is that of Nomad, the others are ours.
const (
	labelPrefix   = "com.hashicorp.nomad."
	allocLabel    = labelPrefix + "alloc_id"
	taskLabel     = "open-nomad.task"     // the ID of the task's start; pause containers have none
	instanceLabel = "open-nomad.instance" // of the driver
	agentLabel    = "open-nomad.agent"
	// namespaceLabel has the namespace of the job: names in networks of the daemon are shared within it.
	namespaceLabel = "open-nomad.namespace"
)

// containerName returns the name of a task's container.
func containerName(cfg *drivers.TaskConfig) string {
	return strings.ReplaceAll(cfg.Name, "/", "_") + "-" + cfg.AllocID
}

// labels returns the labels of a container. Those of the job cannot replace ours.
func (d *Driver) labels(cfg *drivers.TaskConfig, given map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range given {
		out[key] = value
	}
	for name, value := range map[string]string{"job_name": cfg.JobName, "job_id": cfg.JobID, "parent_job_id": parentJob(cfg.JobID),
		"task_group_name": cfg.TaskGroup,
		"task_name":       cfg.Name, "namespace": cfg.Namespace, "node_name": cfg.NodeName, "node_id": cfg.NodeID} {
		wanted := slices.ContainsFunc(d.set.ExtraLabels, func(glob string) bool {
			ok, _ := path.Match(glob, name) // SetConfig has checked the pattern
			return ok
		})
		if wanted && value != "" {
			out[labelPrefix+name] = value
		}
	}
	out[allocLabel], out[taskLabel], out[instanceLabel], out[agentLabel] = cfg.AllocID, cfg.ID, d.cfg.Name, d.cfg.Agent
	out[namespaceLabel] = cfg.Namespace
	return out
}

// parentJob returns the job of which a job is a periodic or dispatched child.
func parentJob(id string) string {
	for _, mark := range []string{"/periodic-", "/dispatch-"} {
		if parent, _, child := strings.Cut(id, mark); child {
			return parent
		}
	}
	return ""
}

// spec returns the container of a task, without its user and its mounts. It decides on everything that the
// configuration of the plugin allows.
func (d *Driver) spec(cfg *drivers.TaskConfig, o *config.Task, imageID string) (*client.ContainerCreateOptions, error) {
	if err := config.CheckUser(cfg.User); err != nil {
		return nil, err
	}
	host, err := d.hostConfig(cfg, o)
	if err != nil {
		return nil, err
	}
	c := &container.Config{
		Image: imageID, Hostname: o.Hostname, Env: environ(environment(o, cfg.Env)), WorkingDir: o.WorkDir, Labels: d.labels(cfg, o.Labels),
		OpenStdin: o.Interactive, Tty: o.TTY, Entrypoint: o.Entrypoint,
	}
	if o.Command != "" {
		c.Cmd = append([]string{o.Command}, o.Args...)
	} else if len(o.Args) > 0 {
		c.Cmd = o.Args
	}
	if o.NoHealthchecks {
		c.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	if err := publish(o, cfg, c, host); err != nil {
		return nil, err
	}
	return &client.ContainerCreateOptions{Name: containerName(cfg), Config: c, HostConfig: host}, nil
}

// environ returns an environment as a list, in the order of its names.
func environ(env map[string]string) []string {
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

func (d *Driver) hostConfig(cfg *drivers.TaskConfig, o *config.Task) (*container.HostConfig, error) {
	if o.Privileged && !d.set.Privileged {
		//lint:ignore ST1005 the text is that of Nomad
		return nil, errors.New("Docker privileged mode is disabled on this Nomad agent")
	}
	added, dropped, err := d.set.Capabilities(o.CapAdd, o.CapDrop)
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"ipc", "pid", "uts", "userns"} {
		if err := d.set.AllowMode(kind, o.Modes[kind]); err != nil {
			return nil, err
		}
	}
	if o.Runtime != "" && !slices.Contains(d.set.Runtimes, o.Runtime) {
		return nil, fmt.Errorf("requested runtime %q is not allowed", o.Runtime)
	}
	resources, err := resourcesOf(&d.set, cfg, o)
	if err != nil {
		return nil, err
	}
	if resources.Memory > 0 && o.ShmSize > resources.Memory {
		return nil, fmt.Errorf("shm_size is %d bytes, more than the memory limit of the task, %d bytes: raise memory or memory_max", o.ShmSize,
			resources.Memory)
	}
	security, err := securityOpts(cfg, o.Security)
	if err != nil {
		return nil, err
	}
	logs, err := d.set.Logger(o)
	if err != nil {
		return nil, err
	}
	host := &container.HostConfig{
		LogConfig:     container.LogConfig{Type: logs.Driver, Config: logs.Options},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		VolumeDriver:  o.VolumeDriver, CapAdd: added, CapDrop: dropped, CgroupnsMode: container.CgroupnsMode(o.Cgroupns),
		IpcMode: container.IpcMode(o.Modes["ipc"]), PidMode: container.PidMode(o.Modes["pid"]), UTSMode: container.UTSMode(o.Modes["uts"]),
		UsernsMode: container.UsernsMode(o.Modes["userns"]), Privileged: o.Privileged, ReadonlyRootfs: o.ReadonlyRootfs,
		SecurityOpt: security, StorageOpt: o.StorageOptions, ShmSize: o.ShmSize, Sysctls: o.Sysctl, Runtime: o.Runtime, Resources: resources,
		OomScoreAdj: d.set.OOMScoreAdj,
	}
	if o.OOMScoreAdj != nil {
		host.OomScoreAdj = *o.OOMScoreAdj
	}
	if o.Init {
		host.Init = &o.Init
	}
	return host, d.network(cfg, o, host)
}

// network sets the network of a container: what the task asks for, the group's, or the daemon's
// default.
func (d *Driver) network(cfg *drivers.TaskConfig, o *config.Task, host *container.HostConfig) error {
	group := ofGroup(cfg, o)
	if group {
		if err := checkGroupNetwork(cfg, o); err != nil {
			return err
		}
	}
	switch {
	case group && cfg.NetLabels[sandboxLabel] == "":
		return fmt.Errorf("the network of the group was not created by the driver %s", d.cfg.Name)
	case group:
		host.NetworkMode = container.NetworkMode(config.ContainerMode + cfg.NetLabels[sandboxLabel])
	case o.NetworkMode != "":
		host.NetworkMode = container.NetworkMode(o.NetworkMode)
	default:
		host.NetworkMode = "default"
	}
	if group {
		return nil
	}
	for _, server := range o.DNSServers {
		addr, err := netip.ParseAddr(server)
		if err != nil {
			return fmt.Errorf("dns_servers: %q is not an IP address", server)
		}
		host.DNS = append(host.DNS, addr)
	}
	host.DNSSearch, host.DNSOptions, host.ExtraHosts = o.DNSSearches, o.DNSOptions, o.ExtraHosts
	return nil
}

// maxShares is the largest number of CPU shares of the kernel.
const maxShares = 262144

// resourcesOf returns the limits of a container.
func resourcesOf(s *config.Plugin, cfg *drivers.TaskConfig, o *config.Task) (container.Resources, error) {
	var r container.Resources
	soft, limit, hard := cfg.Limits.MemoryBytes, cfg.Limits.MemoryMaxBytes, o.MemoryHardMB<<20
	switch top := max(limit, hard); {
	case limit < 0:
		r.MemoryReservation, r.MemorySwap = soft, -1
	case top == 0:
		r.Memory, r.MemorySwap = soft, soft
	case soft > top:
		return r, fmt.Errorf("task memory requirements exceed driver hard limit of %d MB", top>>20)
	default:
		r.Memory, r.MemorySwap, r.MemoryReservation = top, top, soft
	}
	r.CPUShares = min(max(cfg.Limits.CPUShares, 2), maxShares)
	if o.CPUHardLimit {
		if cfg.Limits.MHzPerCore == 0 {
			return r, errors.New("cpu_hard_limit: the speed of the node's processors is not known")
		}
		r.CPUPeriod = o.CPUPeriod
		r.CPUQuota = int64(float64(cfg.Limits.CPUShares) / float64(cfg.Limits.MHzPerCore) * float64(o.CPUPeriod))
	}
	var cores []string
	for _, c := range cfg.Limits.Cores {
		cores = append(cores, strconv.Itoa(int(c)))
	}
	r.CpusetCpus = strings.Join(cores, ",")
	pids, err := pids(s, o)
	if err != nil {
		return r, err
	}
	r.PidsLimit = &pids
	for _, u := range o.Ulimits {
		r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	for _, dev := range append(o.Devices, cfg.Devices...) {
		r.Devices = append(r.Devices, container.DeviceMapping{PathOnHost: dev.HostPath, PathInContainer: dev.TaskPath,
			CgroupPermissions: dev.Permissions})
	}
	return r, nil
}

// pids returns the limit of processes, -1 for none.
func pids(s *config.Plugin, o *config.Task) (int64, error) {
	switch {
	case s.PidsLimit > 0 && o.PidsLimit > s.PidsLimit:
		return 0, fmt.Errorf("pids_limit cannot be greater than nomad plugin config pids_limit: %d", s.PidsLimit)
	case o.PidsLimit > 0:
		return o.PidsLimit, nil
	case s.PidsLimit > 0:
		return s.PidsLimit, nil
	}
	return -1, nil
}

// maxProfile limits the size of a seccomp profile.
const maxProfile = 1 << 20

// readProfile reads a seccomp profile. Its errors contain nothing of the file.
func readProfile(cfg *drivers.TaskConfig, name string) (string, error) {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(cfg.TaskDir, file)
	}
	var at *os.File
	var err error
	if inside, rerr := filepath.Rel(cfg.AllocDir, file); rerr == nil && filepath.IsLocal(inside) {
		at, err = files.Existing(cfg.AllocDir, inside)
	} else {
		at, err = files.NoLinks(file)
	}
	if err != nil {
		return "", err
	}
	defer at.Close() //nolint:errcheck // opened with O_PATH
	f, err := files.Readable(at)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	if err != nil || len(text) > maxProfile {
		return "", errors.Join(fmt.Errorf("has more than %d bytes, or cannot be read", maxProfile), err)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return "", errors.New("is not JSON")
	}
	return compact.String(), nil
}

// securityOpts returns the options as the daemon gets them, with the contents of seccomp profiles, which the
// daemon does not read itself.
func securityOpts(cfg *drivers.TaskConfig, opts []config.SecurityOption) ([]string, error) {
	var out []string
	for _, o := range opts {
		if o.Key == config.OptSeccomp && o.Value != config.SeccompBuiltin && o.Value != config.SeccompUnconfined {
			profile, err := readProfile(cfg, o.Value)
			if err != nil {
				return nil, fmt.Errorf("security_opt: seccomp profile %q: %w", o.Value, err)
			}
			o.Value = profile
		}
		out = append(out, o.String())
	}
	return out, nil
}

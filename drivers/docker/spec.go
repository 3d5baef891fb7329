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

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Labels of containers. The first is that of Nomad, the others are ours.
const (
	labelPrefix   = "com.hashicorp.nomad."
	allocLabel    = labelPrefix + "alloc_id"
	taskLabel     = "open-nomad.task"     // the ID of the task's start; pause containers have none
	instanceLabel = "open-nomad.instance" // of the driver
	agentLabel    = "open-nomad.agent"
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
		wanted := slices.ContainsFunc(d.set.extraLabels, func(glob string) bool {
			ok, _ := path.Match(glob, name) // SetConfig has checked the pattern
			return ok
		})
		if wanted && value != "" {
			out[labelPrefix+name] = value
		}
	}
	out[allocLabel], out[taskLabel], out[instanceLabel], out[agentLabel] = cfg.AllocID, cfg.ID, d.cfg.Name, d.cfg.Agent
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
func (d *Driver) spec(cfg *drivers.TaskConfig, o *options, imageID string) (*client.ContainerCreateOptions, error) {
	if err := checkUser(cfg.User); err != nil {
		return nil, err
	}
	host, err := d.hostConfig(cfg, o)
	if err != nil {
		return nil, err
	}
	c := &container.Config{
		Image: imageID, Hostname: o.hostname, Env: environ(o.environment(cfg.Env)), WorkingDir: o.workDir, Labels: d.labels(cfg, o.labels),
		OpenStdin: o.interactive, Tty: o.tty, Entrypoint: o.entrypoint,
	}
	if o.command != "" {
		c.Cmd = append([]string{o.command}, o.args...)
	} else if len(o.args) > 0 {
		c.Cmd = o.args
	}
	if o.noHealthchecks {
		c.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	if err := o.publish(cfg, c, host); err != nil {
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

func (d *Driver) hostConfig(cfg *drivers.TaskConfig, o *options) (*container.HostConfig, error) {
	if o.privileged && !d.set.privileged {
		//lint:ignore ST1005 the text is that of Nomad
		return nil, errors.New("Docker privileged mode is disabled on this Nomad agent")
	}
	added, dropped, err := d.set.capsOf(o.capAdd, o.capDrop)
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"ipc", "pid", "uts", "userns"} {
		if err := d.set.allowMode(kind, o.modes[kind]); err != nil {
			return nil, err
		}
	}
	if o.runtime != "" && !slices.Contains(d.set.runtimes, o.runtime) {
		return nil, fmt.Errorf("requested runtime %q is not allowed", o.runtime)
	}
	resources, err := d.set.resources(cfg, o)
	if err != nil {
		return nil, err
	}
	if resources.Memory > 0 && o.shmSize > resources.Memory {
		return nil, fmt.Errorf("shm_size is %d bytes, more than the memory limit of the task, %d bytes: raise memory or memory_max", o.shmSize,
			resources.Memory)
	}
	security, err := securityOpts(cfg, o.security)
	if err != nil {
		return nil, err
	}
	logs, err := d.set.logger(o)
	if err != nil {
		return nil, err
	}
	host := &container.HostConfig{
		LogConfig:     container.LogConfig{Type: logs.driver, Config: logs.options},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		VolumeDriver:  o.volumeDriver, CapAdd: added, CapDrop: dropped, CgroupnsMode: container.CgroupnsMode(o.cgroupns),
		IpcMode: container.IpcMode(o.modes["ipc"]), PidMode: container.PidMode(o.modes["pid"]), UTSMode: container.UTSMode(o.modes["uts"]),
		UsernsMode: container.UsernsMode(o.modes["userns"]), Privileged: o.privileged, ReadonlyRootfs: o.readonlyRootfs,
		SecurityOpt: security, StorageOpt: o.storageOpt, ShmSize: o.shmSize, Sysctls: o.sysctl, Runtime: o.runtime, Resources: resources,
		OomScoreAdj: d.set.oomScoreAdj,
	}
	if o.oomScoreAdj != nil {
		host.OomScoreAdj = *o.oomScoreAdj
	}
	if o.init {
		host.Init = &o.init
	}
	return host, d.network(cfg, o, host)
}

// network sets the network of a container: what the task asks for, the group's, or the daemon's
// default.
func (d *Driver) network(cfg *drivers.TaskConfig, o *options, host *container.HostConfig) error {
	group := cfg.NetNS != "" && o.networkMode == ""
	if group && (o.hostname != "" || len(o.dnsServers)+len(o.dnsSearches)+len(o.dnsOptions)+len(o.extraHosts) > 0) {
		return errors.New("hostname, dns_servers, dns_search_domains, dns_options and extra_hosts need a network of the task's own: the group has a network, so use its dns block, or set network_mode")
	}
	switch {
	case group && cfg.NetLabels[sandboxLabel] == "":
		return fmt.Errorf("the network of the group was not created by the driver %s", d.cfg.Name)
	case group:
		host.NetworkMode = container.NetworkMode(containerMode + cfg.NetLabels[sandboxLabel])
	case o.networkMode != "":
		host.NetworkMode = container.NetworkMode(o.networkMode)
	default:
		host.NetworkMode = "default"
	}
	for _, server := range o.dnsServers {
		addr, err := netip.ParseAddr(server)
		if err != nil {
			return fmt.Errorf("dns_servers: %q is not an IP address", server)
		}
		host.DNS = append(host.DNS, addr)
	}
	host.DNSSearch, host.DNSOptions, host.ExtraHosts = o.dnsSearches, o.dnsOptions, o.extraHosts
	return nil
}

// maxShares is the largest number of CPU shares of the kernel.
const maxShares = 262144

// resources returns the limits of a container.
func (s *settings) resources(cfg *drivers.TaskConfig, o *options) (container.Resources, error) {
	var r container.Resources
	soft, limit, hard := cfg.Limits.MemoryBytes, cfg.Limits.MemoryMaxBytes, o.memoryHardMB<<20
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
	if o.cpuHardLimit {
		if cfg.Limits.MHzPerCore == 0 {
			return r, errors.New("cpu_hard_limit: the speed of the node's processors is not known")
		}
		r.CPUPeriod = o.cpuPeriod
		r.CPUQuota = int64(float64(cfg.Limits.CPUShares) / float64(cfg.Limits.MHzPerCore) * float64(o.cpuPeriod))
	}
	var cores []string
	for _, c := range cfg.Limits.Cores {
		cores = append(cores, strconv.Itoa(int(c)))
	}
	r.CpusetCpus = strings.Join(cores, ",")
	pids, err := s.pids(o)
	if err != nil {
		return r, err
	}
	r.PidsLimit = &pids
	for _, u := range o.ulimits {
		r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: u.name, Soft: u.soft, Hard: u.hard})
	}
	for _, dev := range append(o.devices, cfg.Devices...) {
		r.Devices = append(r.Devices, container.DeviceMapping{PathOnHost: dev.HostPath, PathInContainer: dev.TaskPath,
			CgroupPermissions: dev.Permissions})
	}
	return r, nil
}

// pids returns the limit of processes, -1 for none.
func (s *settings) pids(o *options) (int64, error) {
	switch {
	case s.pidsLimit > 0 && o.pidsLimit > s.pidsLimit:
		return 0, fmt.Errorf("pids_limit cannot be greater than nomad plugin config pids_limit: %d", s.pidsLimit)
	case o.pidsLimit > 0:
		return o.pidsLimit, nil
	case s.pidsLimit > 0:
		return s.pidsLimit, nil
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
		at, err = openExisting(cfg.AllocDir, inside)
	} else {
		at, err = openNoLinks(file)
	}
	if err != nil {
		return "", err
	}
	defer at.Close() //nolint:errcheck // opened with O_PATH
	f, err := readable(at)
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

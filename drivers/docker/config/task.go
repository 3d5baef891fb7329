package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// mountSpec is the schema of a mount block, which has two names.
func mountSpec(name string) hcldec.Spec {
	return &hcldec.BlockListSpec{TypeName: name, Nested: blocks{
		"bind_options":  block("bind_options", object(map[string]cty.Type{"propagation": cty.String})),
		"tmpfs_options": block("tmpfs_options", object(map[string]cty.Type{"size": cty.Number, "mode": cty.Number})),
		"volume_options": block("volume_options", blocks{"driver_config": block("driver_config", object(map[string]cty.Type{
			"name": cty.String, "options": stringMap}))}.with(object(map[string]cty.Type{"no_copy": cty.Bool, "labels": stringMap}))),
	}.with(object(map[string]cty.Type{"type": cty.String, "target": cty.String, "source": cty.String, "readonly": cty.Bool}))}
}

var TaskSpec = blocks{
	"image": &hcldec.AttrSpec{Name: "image", Type: cty.String, Required: true},
	"auth": block("auth", object(map[string]cty.Type{"username": cty.String, "password": cty.String, "email": cty.String,
		"server_address": cty.String})),
	"logging":      block("logging", object(map[string]cty.Type{"type": cty.String, "driver": cty.String, "config": stringMap})),
	"healthchecks": block("healthchecks", object(map[string]cty.Type{"disable": cty.Bool})),
	"devices": &hcldec.BlockListSpec{TypeName: "devices", Nested: object(map[string]cty.Type{
		"host_path": cty.String, "container_path": cty.String, "cgroup_permissions": cty.String})},
	"mount": mountSpec("mount"), "mounts": mountSpec("mounts"),
}.with(object(map[string]cty.Type{
	"image_pull_timeout": cty.String, "force_pull": cty.Bool, "load": cty.String, "auth_soft_fail": cty.Bool, "command": cty.String,
	"args": stringList, "entrypoint": stringList, "work_dir": cty.String, "interactive": cty.Bool, "tty": cty.Bool, "init": cty.Bool,
	"hostname": cty.String, "labels": stringMap, "network_mode": cty.String, "network_aliases": stringList, "ipv4_address": cty.String,
	"ipv6_address": cty.String, "mac_address": cty.String, "advertise_ipv6_address": cty.Bool, "ports": stringList,
	"port_map":    cty.DynamicPseudoType,
	"dns_servers": stringList, "dns_search_domains": stringList, "dns_options": stringList, "extra_hosts": stringList, "privileged": cty.Bool,
	"cap_add": stringList, "cap_drop": stringList, "pid_mode": cty.String, "ipc_mode": cty.String, "uts_mode": cty.String,
	"userns_mode": cty.String, "cgroupns": cty.String, "security_opt": stringList, "sysctl": stringMap, "ulimit": stringMap,
	"runtime": cty.String, "readonly_rootfs": cty.Bool, "group_add": stringList, "shm_size": cty.Number, "storage_opt": stringMap,
	"volumes": stringList, "volume_driver": cty.String, "memory_hard_limit": cty.Number, "cpu_hard_limit": cty.Bool,
	"cpu_cfs_period": cty.Number, "cpuset_cpus": cty.String, "pids_limit": cty.Number, "oom_score_adj": cty.Number,
	"container_exists_attempts": cty.Number, "isolation": cty.String,
}))

// Task is the decoded config block of a task.
type Task struct {
	Image        string // normalized: with a tag or a digest
	PullTimeout  time.Duration
	ForcePull    bool
	Load         string
	Auth         *Credentials
	AuthSoftFail bool

	Command, WorkDir, Hostname string
	Args, Entrypoint           []string
	Interactive, TTY, Init     bool
	Labels                     map[string]string
	logging                    Logging
	NoHealthchecks             bool

	NetworkMode                         string
	laterMode                           bool // the network mode has a reference that is not interpolated
	Endpoint                            Endpoint
	ports                               []string       // labels that the daemon publishes
	PortMap                             map[string]int // ports in the container, of the task's own network block
	DNSServers, DNSSearches, DNSOptions []string
	ExtraHosts                          []string
	Privileged                          bool
	CapAdd, CapDrop                     []string
	Modes                               map[string]string // by kind of namespace
	Cgroupns                            string
	Security                            []SecurityOption
	Sysctl, StorageOptions              map[string]string
	Ulimits                             []Ulimit
	Devices                             []drivers.Device
	Runtime                             string
	ReadonlyRootfs                      bool
	GroupAdd                            []string
	ShmSize                             int64
	Volumes                             []string
	VolumeDriver                        string
	Mounts                              []Mount
	MemoryHardMB                        int64
	CPUHardLimit                        bool
	CPUPeriod                           int64
	PidsLimit                           int64
	OOMScoreAdj                         *int
	Attempts                            int // 0 for that of the plugin
}

// unserved lists the options that this driver does not have, with the reasons.
var unserved = map[string]string{
	"isolation": "this driver runs on Linux only",
}

// CheckTask checks a task's config block as the job has it, with references not interpolated.
// Values with references are checked on the node.
func CheckTask(config map[string]any) error {
	if text := textOf(config["memory_hard_limit"]); strings.Contains(text, drivers.Reference) {
		return fmt.Errorf("config of %s task: memory_hard_limit is %q: it must be a number, because the servers count it", Name, text)
	}
	_, err := maskedOptions(config)
	return err
}

// maskedOptions decodes a config block without the values that have references.
func maskedOptions(config map[string]any) (Task, error) {
	masked := map[string]any{}
	later := strings.Contains(textOf(config["network_mode"]), drivers.Reference)
	for name, value := range config {
		if v, ok := drivers.Mask(value, true); ok {
			masked[name] = v
		} else if name == "image" {
			masked[name] = "known-later"
		}
	}
	v, err := drivers.Decode(masked, TaskSpec)
	if err != nil {
		return Task{}, err
	}
	return decodeTask(v, later)
}

// DecodeTask decodes a config block whose references are interpolated.
func DecodeTask(v cty.Value) (Task, error) { return decodeTask(v, false) }

func decodeTask(v cty.Value, laterMode bool) (Task, error) {
	o, err := readOptions(&drivers.Fields{Value: v})
	o.laterMode = laterMode
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return o, fmt.Errorf("config of %s task: %w", Name, err)
	}
	return o, nil
}

func readOptions(f *drivers.Fields) (Task, error) {
	for _, name := range slices.Sorted(maps.Keys(unserved)) {
		if f.Has(name) {
			return Task{}, fmt.Errorf("not served: %s: %s", name, unserved[name])
		}
	}
	auth, health := nested(f, "auth"), nested(f, "healthchecks")
	logs := nested(f, "logging")
	o := Task{
		Image: f.String("image"), PullTimeout: f.Duration("image_pull_timeout"), ForcePull: f.Bool("force_pull"), Load: f.String("load"),
		AuthSoftFail: f.Bool("auth_soft_fail"), Command: f.String("command"), WorkDir: f.String("work_dir"), Hostname: f.String("hostname"),
		Args: f.Strings("args"), Entrypoint: f.Strings("entrypoint"), Interactive: f.Bool("interactive"), TTY: f.Bool("tty"),
		Init:   f.Bool("init"),
		Labels: texts(f, "labels"), logging: decodeLogging(logs, "type", "driver"), NoHealthchecks: health.Bool("disable"),
		NetworkMode: f.String("network_mode"), Endpoint: readEndpoint(f), ports: f.Strings("ports"), PortMap: readPortMap(f),
		DNSServers: f.Strings("dns_servers"), DNSSearches: f.Strings("dns_search_domains"), DNSOptions: f.Strings("dns_options"),
		ExtraHosts: f.Strings("extra_hosts"), Privileged: f.Bool("privileged"),
		CapAdd: f.Strings("cap_add"), CapDrop: f.Strings("cap_drop"), Cgroupns: f.String("cgroupns"),
		Sysctl: texts(f, "sysctl"), StorageOptions: texts(f, "storage_opt"), Runtime: f.String("runtime"),
		ReadonlyRootfs: f.Bool("readonly_rootfs"), GroupAdd: f.Strings("group_add"), ShmSize: f.Int("shm_size"),
		Volumes: f.Strings("volumes"), VolumeDriver: f.String("volume_driver"),
		MemoryHardMB: f.Int("memory_hard_limit"), CPUHardLimit: f.Bool("cpu_hard_limit"), CPUPeriod: 100_000, PidsLimit: f.Int("pids_limit"),
		Attempts: int(f.Int("container_exists_attempts")), Modes: map[string]string{},
	}
	if f.Has("auth") {
		o.Auth = &Credentials{Username: auth.String("username"), Secret: auth.String("password"), Server: auth.String("server_address")}
	}
	if f.Has("cpu_cfs_period") {
		o.CPUPeriod = f.Int("cpu_cfs_period")
	}
	if f.Has("oom_score_adj") {
		adj := int(f.Int("oom_score_adj"))
		o.OOMScoreAdj = &adj
	}
	for _, kind := range modeKinds {
		o.Modes[kind] = f.String(kind + "_mode")
	}
	limits, security := texts(f, "ulimit"), f.Strings("security_opt")
	o.Devices = readDevices(f)
	o.Mounts = append(readMounts(f, "mount"), readMounts(f, "mounts")...)
	for name, r := range map[string]*drivers.Fields{"": f, "auth.": auth, "healthchecks.": health, "logging.": logs} {
		if err := r.Err(); err != nil {
			return o, fmt.Errorf("%s%w", name, err)
		}
	}
	for _, m := range o.Mounts {
		if m.err != nil {
			return o, fmt.Errorf("mount: %w", m.err)
		}
	}
	var err, invalid error
	o.Ulimits, err = parseUlimits(limits)
	o.Security, invalid = parseSecurity(security)
	return o, errors.Join(err, invalid)
}

// check checks the values that need no node.
func (o *Task) check() error {
	ref, err := ParseImage(o.Image)
	if err != nil {
		return err
	}
	o.Image = ref
	if o.Command != "" && strings.TrimSpace(o.Command) == "" {
		return fmt.Errorf("command empty: %q", o.Command)
	}
	if o.Command != strings.TrimSpace(o.Command) {
		return fmt.Errorf("command contains extra white space: %q", o.Command)
	}
	if o.CPUPeriod < 0 || o.CPUPeriod > 1_000_000 {
		return fmt.Errorf("invalid value for cpu_cfs_period: %d is not between 0 and 1000000", o.CPUPeriod)
	}
	if o.PidsLimit < 0 || o.ShmSize < 0 || o.MemoryHardMB < 0 {
		return fmt.Errorf("pids_limit, shm_size and memory_hard_limit must not be negative")
	}
	if o.MemoryHardMB > maxMemoryMB {
		return fmt.Errorf("memory_hard_limit %d is above %d", o.MemoryHardMB, maxMemoryMB)
	}
	if o.Attempts < 0 || o.Attempts > maxAttempts {
		return fmt.Errorf("container_exists_attempts %d is not between 0 and %d", o.Attempts, maxAttempts)
	}
	for _, kind := range modeKinds {
		if mode := o.Modes[kind]; mode != "" && !validMode(kind, mode) {
			return fmt.Errorf("%q is not a valid %s_mode", mode, kind)
		}
	}
	if o.Cgroupns != "" && o.Cgroupns != "private" && o.Cgroupns != "host" {
		return fmt.Errorf("cgroupns %q is neither private nor host", o.Cgroupns)
	}
	return firstOf(o.checkNetwork, o.checkPorts, o.checkDevices, o.checkGroups, o.checkLimits, o.checkLogging, o.checkMounts)
}

// maxMemoryMB limits memory_hard_limit, so that its bytes are a number.
const maxMemoryMB = 1 << 30

func (o *Task) checkDevices() error {
	for _, d := range o.Devices {
		if d.HostPath == "" {
			return fmt.Errorf("host path must be set in configuration for devices")
		}
		if strings.Trim(d.Permissions, "rwm") != "" {
			return fmt.Errorf("invalid cgroup permission string: %q", d.Permissions)
		}
	}
	return nil
}

// firstOf returns the first error of the checks.
func firstOf(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// readDevices reads the devices blocks.
func readDevices(f *drivers.Fields) (out []drivers.Device) {
	for _, e := range elements(f, "devices") {
		d := drivers.Device{HostPath: e.String("host_path"), TaskPath: e.String("container_path"), Permissions: e.String("cgroup_permissions")}
		if d.TaskPath == "" {
			d.TaskPath = d.HostPath
		}
		if d.Permissions == "" {
			d.Permissions = "rwm"
		}
		out = append(out, d)
	}
	return out
}

// elements returns the readers of repeated blocks. The schema has checked their types.
func elements(f *drivers.Fields, name string) (out []*drivers.Fields) {
	if !f.Has(name) {
		return nil
	}
	for it := f.Value.GetAttr(name).ElementIterator(); it.Next(); {
		_, e := it.Element()
		out = append(out, &drivers.Fields{Value: e})
	}
	return out
}

// texts reads a map of strings, which jobs write as an attribute or as blocks, merged in order.
// Numbers and booleans are converted, as HCL does.
func texts(f *drivers.Fields, name string) map[string]string {
	if !f.Has(name) {
		return nil
	}
	v := f.Value.GetAttr(name)
	list := []cty.Value{v}
	if t := v.Type(); t.IsTupleType() || t.IsListType() || t.IsSetType() {
		list = v.AsValueSlice()
	}
	out := map[string]string{}
	for _, e := range list {
		m, err := convert.Convert(e, cty.Map(cty.String))
		if err != nil || m.IsNull() {
			f.Fail(name, fmt.Errorf("is not a map of strings"))
			return nil
		}
		for key, value := range m.AsValueMap() {
			if value.IsNull() {
				f.Fail(name, fmt.Errorf("%s is null", key))
				return nil
			}
			out[key] = value.AsString()
		}
	}
	return out
}

// ParseImage returns the normalized reference of an image.
func ParseImage(image string) (string, error) {
	image = strings.TrimPrefix(image, "https://")
	if image == "" {
		return "", fmt.Errorf("image name required for docker driver")
	}
	ref, err := reference.ParseDockerRef(image)
	if err != nil {
		return "", fmt.Errorf("image %q does not match registry specification: %w", image, err)
	}
	return ref.String(), nil
}

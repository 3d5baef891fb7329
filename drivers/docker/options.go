package docker

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

var taskSpec = blocks{
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

// options is the decoded config block of a task.
type options struct {
	image        string // normalized: with a tag or a digest
	pullTimeout  time.Duration
	forcePull    bool
	load         string
	auth         *credentials
	authSoftFail bool

	command, workDir, hostname string
	args, entrypoint           []string
	interactive, tty, init     bool
	labels                     map[string]string
	logging                    logging
	noHealthchecks             bool

	networkMode                         string
	ports                               []string       // labels that the daemon publishes
	portMap                             map[string]int // ports in the container, of the task's own network block
	dnsServers, dnsSearches, dnsOptions []string
	extraHosts                          []string
	privileged                          bool
	capAdd, capDrop                     []string
	modes                               map[string]string // by kind of namespace
	cgroupns                            string
	security                            []securityOpt
	sysctl, storageOpt                  map[string]string
	ulimits                             []ulimit
	devices                             []drivers.Device
	runtime                             string
	readonlyRootfs                      bool
	groupAdd                            []string
	shmSize                             int64
	volumes                             []string
	volumeDriver                        string
	mounts                              []mountBlock
	memoryHardMB                        int64
	cpuHardLimit                        bool
	cpuPeriod                           int64
	pidsLimit                           int64
	oomScoreAdj                         *int
	attempts                            int // 0 for that of the plugin
}

// unserved lists the options that this driver does not have, with the reasons.
var unserved = map[string]string{
	"network_aliases":        "tasks cannot join networks of the daemon",
	"ipv4_address":           "tasks cannot join networks of the daemon",
	"ipv6_address":           "tasks cannot join networks of the daemon",
	"mac_address":            "tasks cannot join networks of the daemon",
	"advertise_ipv6_address": "tasks cannot join networks of the daemon",
	"cpuset_cpus":            "the scheduler assigns cores: use cores in resources",
	"isolation":              "this driver runs on Linux only",
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
func maskedOptions(config map[string]any) (options, error) {
	masked := map[string]any{}
	for name, value := range config {
		if v, ok := drivers.Mask(value, true); ok {
			masked[name] = v
		} else if name == "image" {
			masked[name] = "known-later"
		}
	}
	v, err := drivers.Decode(masked, taskSpec)
	if err != nil {
		return options{}, err
	}
	return decodeOptions(v)
}

func decodeOptions(v cty.Value) (options, error) {
	o, err := readOptions(&drivers.Fields{Value: v})
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return o, fmt.Errorf("config of %s task: %w", Name, err)
	}
	return o, nil
}

func readOptions(f *drivers.Fields) (options, error) {
	for _, name := range slices.Sorted(maps.Keys(unserved)) {
		if f.Has(name) {
			return options{}, fmt.Errorf("not served: %s: %s", name, unserved[name])
		}
	}
	auth, health := nested(f, "auth"), nested(f, "healthchecks")
	logs := nested(f, "logging")
	o := options{
		image: f.String("image"), pullTimeout: f.Duration("image_pull_timeout"), forcePull: f.Bool("force_pull"), load: f.String("load"),
		authSoftFail: f.Bool("auth_soft_fail"), command: f.String("command"), workDir: f.String("work_dir"), hostname: f.String("hostname"),
		args: f.Strings("args"), entrypoint: f.Strings("entrypoint"), interactive: f.Bool("interactive"), tty: f.Bool("tty"),
		init:   f.Bool("init"),
		labels: texts(f, "labels"), logging: decodeLogging(logs, "type", "driver"), noHealthchecks: health.Bool("disable"),
		networkMode: f.String("network_mode"), ports: f.Strings("ports"), portMap: readPortMap(f), dnsServers: f.Strings("dns_servers"),
		dnsSearches: f.Strings("dns_search_domains"),
		dnsOptions:  f.Strings("dns_options"), extraHosts: f.Strings("extra_hosts"), privileged: f.Bool("privileged"),
		capAdd: f.Strings("cap_add"), capDrop: f.Strings("cap_drop"), cgroupns: f.String("cgroupns"),
		sysctl: texts(f, "sysctl"), storageOpt: texts(f, "storage_opt"), runtime: f.String("runtime"), readonlyRootfs: f.Bool("readonly_rootfs"),
		groupAdd: f.Strings("group_add"), shmSize: f.Int("shm_size"), volumes: f.Strings("volumes"), volumeDriver: f.String("volume_driver"),
		memoryHardMB: f.Int("memory_hard_limit"), cpuHardLimit: f.Bool("cpu_hard_limit"), cpuPeriod: 100_000, pidsLimit: f.Int("pids_limit"),
		attempts: int(f.Int("container_exists_attempts")), modes: map[string]string{},
	}
	if f.Has("auth") {
		o.auth = &credentials{Username: auth.String("username"), Secret: auth.String("password"), server: auth.String("server_address")}
	}
	if f.Has("cpu_cfs_period") {
		o.cpuPeriod = f.Int("cpu_cfs_period")
	}
	if f.Has("oom_score_adj") {
		adj := int(f.Int("oom_score_adj"))
		o.oomScoreAdj = &adj
	}
	for _, kind := range modeKinds {
		o.modes[kind] = f.String(kind + "_mode")
	}
	limits, security := texts(f, "ulimit"), f.Strings("security_opt")
	o.devices = readDevices(f)
	o.mounts = append(readMounts(f, "mount"), readMounts(f, "mounts")...)
	for name, r := range map[string]*drivers.Fields{"": f, "auth.": auth, "healthchecks.": health, "logging.": logs} {
		if err := r.Err(); err != nil {
			return o, fmt.Errorf("%s%w", name, err)
		}
	}
	for _, m := range o.mounts {
		if m.err != nil {
			return o, fmt.Errorf("mount: %w", m.err)
		}
	}
	var err, invalid error
	o.ulimits, err = parseUlimits(limits)
	o.security, invalid = parseSecurity(security)
	return o, errors.Join(err, invalid)
}

// check checks the values that need no node.
func (o *options) check() error {
	ref, err := parseImage(o.image)
	if err != nil {
		return err
	}
	o.image = ref
	if o.command != "" && strings.TrimSpace(o.command) == "" {
		return fmt.Errorf("command empty: %q", o.command)
	}
	if o.command != strings.TrimSpace(o.command) {
		return fmt.Errorf("command contains extra white space: %q", o.command)
	}
	if o.cpuPeriod < 0 || o.cpuPeriod > 1_000_000 {
		return fmt.Errorf("invalid value for cpu_cfs_period: %d is not between 0 and 1000000", o.cpuPeriod)
	}
	if o.pidsLimit < 0 || o.shmSize < 0 || o.memoryHardMB < 0 {
		return fmt.Errorf("pids_limit, shm_size and memory_hard_limit must not be negative")
	}
	if o.memoryHardMB > maxMemoryMB {
		return fmt.Errorf("memory_hard_limit %d is above %d", o.memoryHardMB, maxMemoryMB)
	}
	if o.attempts < 0 || o.attempts > maxAttempts {
		return fmt.Errorf("container_exists_attempts %d is not between 0 and %d", o.attempts, maxAttempts)
	}
	for _, kind := range modeKinds {
		if mode := o.modes[kind]; mode != "" && !validMode(kind, mode) {
			return fmt.Errorf("%q is not a valid %s_mode", mode, kind)
		}
	}
	if o.cgroupns != "" && o.cgroupns != "private" && o.cgroupns != "host" {
		return fmt.Errorf("cgroupns %q is neither private nor host", o.cgroupns)
	}
	return firstOf(o.checkNetwork, o.checkPorts, o.checkDevices, o.checkGroups, o.checkLimits, o.checkLogging, o.checkMounts)
}

// maxMemoryMB limits memory_hard_limit, so that its bytes are a number.
const maxMemoryMB = 1 << 30

// checkNetwork refuses the networks that this driver does not serve.
func (o *options) checkNetwork() error {
	switch o.networkMode {
	case "", "host", "none", "default", "bridge":
		return nil
	}
	return fmt.Errorf("not served: network_mode %q: use host, none or bridge, or leave it out for the network of the group", o.networkMode)
}

func (o *options) checkDevices() error {
	for _, d := range o.devices {
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

// parseImage returns the normalized reference of an image.
func parseImage(image string) (string, error) {
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

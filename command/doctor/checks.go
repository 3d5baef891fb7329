package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/nftables"

	"github.com/open-nomad/open-nomad/client/cni"
	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// check is one row of the table.
type check struct {
	name    string
	applies func(*machine) bool
	run     func(context.Context, *machine) []Finding
}

// checks lists all checks in the order of the output.
var checks = []check{
	{"config", always, configuration},
	{"kernel", always, kernel},
	{"landlock", (*machine).client, landlockABI},
	{"cgroups", (*machine).client, controlGroups},
	{"user-namespaces", (*machine).client, userNamespaces},
	{"nftables", (*machine).client, packetFilter},
	{"cni", (*machine).client, cniPlugins},
	{"ports", always, ports},
	{"servers", (*machine).client, servers},
	{"clock", always, clock},
	{"disk", always, disk},
	{"tls", always, certificates},
	{"file-modes", always, fileModes},
	{"systemd", always, systemd},
}

func always(*machine) bool { return true }

// checkNames returns the names of the checks.
func checkNames() []string {
	var out []string
	for _, c := range checks {
		out = append(out, c.name)
	}
	return out
}

// defaultPluginDirs are the directories of CNI plugins without a configuration.
var defaultPluginDirs = cni.PluginDirs("/opt/cni/bin:/usr/libexec/cni", os.Getenv("CNI_PATH"))

// configuration checks that an agent would accept the configuration.
func configuration(_ context.Context, m *machine) []Finding {
	if len(m.paths) == 0 {
		return []Finding{warn("write one, and name it with -config", "no configuration: %s does not exist", defaultConfig)}
	}
	if m.fault != nil {
		var out []Finding
		for _, line := range lines(m.fault) {
			out = append(out, fail("correct the key; an agent does not start with this configuration", "%s", line))
		}
		return out
	}
	role := "server"
	switch {
	case m.settings.Client.Enabled && m.settings.Server.Enabled:
		role = "server and client"
	case m.settings.Client.Enabled:
		role = "client"
	}
	out := []Finding{ok("%s: valid, %s of region %q", strings.Join(m.paths, ", "), role, m.settings.Region)}
	for _, key := range m.settings.UnknownOptions() {
		out = append(out, warn("remove the option", "client.options: %q is not read", key))
	}
	for _, key := range m.settings.RPC.Ignored() {
		out = append(out, warn("remove the key", "rpc: %q is not read", key))
	}
	for _, label := range m.settings.AbsentPlugins() {
		out = append(out, warn("put its program in plugin_dir, or remove the block", "plugin %q: the node does not have the driver", label))
	}
	return out
}

// The kernels: safe lookups of files (openat2) need 5.6, the sandbox 5.13.
const (
	minKernel = 5*1000 + 6
	newKernel = 5*1000 + 13
)

func kernel(_ context.Context, m *machine) []Finding {
	text := m.attributes["kernel.version"]
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return []Finding{warn("", "unknown kernel version %q", text)}
	}
	switch v := major*1000 + minor; {
	case v < minKernel:
		return []Finding{fail("upgrade to Linux 5.13 or newer", "Linux %s: too old, openat2 is missing", text)}
	case v < newKernel && m.client():
		return []Finding{fail("upgrade to Linux 5.13 or newer, or use drivers other than exec2", "Linux %s: no Landlock", text)}
	}
	return []Finding{ok("Linux %s", text)}
}

// fullABI is the ABI of Landlock that restricts signals and abstract sockets too.
const fullABI = 6

func landlockABI(_ context.Context, m *machine) []Finding {
	text := m.attributes["kernel.landlock"]
	abi, err := strconv.Atoi(strings.TrimPrefix(text, "v"))
	switch {
	case text == "" || err != nil:
		return []Finding{fail("boot a kernel with CONFIG_SECURITY_LANDLOCK, and landlock in the lsm= parameter",
			"Landlock is not available: exec2 cannot isolate tasks")}
	case abi < fullABI:
		return []Finding{warn("upgrade to Linux 6.12 or newer to restrict signals and abstract sockets by Landlock", "ABI %d", abi)}
	}
	return []Finding{ok("ABI %d", abi)}
}

func controlGroups(_ context.Context, m *machine) []Finding {
	if os.Geteuid() != 0 {
		return []Finding{warn("run as root to check them", "version %s; limits need root", orNone(m.attributes["os.cgroups.version"]))}
	}
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if err != nil {
		return []Finding{fail("mount cgroup2 at /sys/fs/cgroup with the controllers cpu, memory and pids", "limits of tasks cannot be set: %v",
			err)}
	}
	return []Finding{ok("version %s, usable", h.Version())}
}

func orNone(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// text reads a small file of the machine, "" if it does not exist.
func (m *machine) text(name string) string {
	b, err := os.ReadFile(filepath.Join(m.root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// userNamespaces are used to isolate tasks of an agent without root.
func userNamespaces(_ context.Context, m *machine) []Finding {
	switch limit := m.text("/proc/sys/user/max_user_namespaces"); {
	case limit == "":
		return []Finding{warn("boot a kernel with CONFIG_USER_NS",
			"the kernel has no user namespaces: an agent without root cannot isolate tasks")}
	case limit == "0":
		return []Finding{warn("sysctl user.max_user_namespaces=10000, if an agent runs without root", "user.max_user_namespaces is 0")}
	default:
		if m.text("/proc/sys/kernel/unprivileged_userns_clone") == "0" ||
			m.text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
			return []Finding{ok("at most %s, for root only; only an agent without root needs more", limit)}
		}
		return []Finding{ok("at most %s", limit)}
	}
}

// packetFilter checks nftables, which networks of mode bridge need. With root it asks the kernel, which
// loads the module if it has to.
func packetFilter(_ context.Context, m *machine) []Finding {
	if os.Geteuid() == 0 && m.root == "/" {
		return []Finding{askKernel()}
	}
	if strings.Contains(m.text("/proc/modules")+"\n", "nf_tables ") || exists(m.root, "/sys/module/nf_tables") {
		return []Finding{ok("nf_tables is loaded")}
	}
	release := m.attributes["kernel.version"]
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		if strings.Contains(m.text(filepath.Join("/lib/modules", release, list)), "/nf_tables.ko") {
			return []Finding{ok("nf_tables can be loaded")}
		}
	}
	return []Finding{warn("install a kernel with CONFIG_NF_TABLES, if jobs use networks of mode bridge", "nf_tables was not found")}
}

// askKernel lists the tables of nftables.
func askKernel() Finding {
	c, err := nftables.New()
	if err == nil {
		_, err = c.ListTables()
	}
	if err != nil {
		return warn("install a kernel with CONFIG_NF_TABLES, if jobs use networks of mode bridge", "nftables cannot be used: %v", err)
	}
	return ok("usable")
}

func exists(root, name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

// neededPlugins are the CNI plugins of networks of mode bridge.
var neededPlugins = []string{"bridge", "firewall", "host-local", "loopback", "portmap"}

func cniPlugins(_ context.Context, m *machine) []Finding {
	var have, missing []string
	for _, name := range neededPlugins {
		if v := m.attributes["plugins.cni.version."+name]; v != "" {
			have = append(have, name+" "+v)
		} else {
			missing = append(missing, name)
		}
	}
	var out []Finding
	if text := m.attributes["network.cni.error"]; text != "" {
		out = append(out, warn("correct the file in cni_config_dir", "%s", text))
	}
	switch {
	case len(have) == 0:
		return append(out, warn("install the CNI plugins (Debian: containernetworking-plugins; set "+
			"client.cni_path), if jobs use networks of mode bridge", "no CNI plugins were found"))
	case len(missing) > 0:
		return append(out, warn("install the missing plugins, if jobs use networks of mode bridge", "missing: %s; found: %s",
			strings.Join(missing, ", "), strings.Join(have, ", ")))
	}
	return append(out, ok("%s", strings.Join(have, ", ")))
}

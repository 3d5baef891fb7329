package chroot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/capability"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Modes of a PID or IPC namespace.
const (
	modePrivate = "private"
	modeHost    = "host"
)

// defaultPIDs is the default limit of processes and threads of a task, maxPIDs the kernel's maximum.
const (
	defaultPIDs = 4096
	maxPIDs     = 1 << 22
)

// Plugin is the decoded plugin block.
type Plugin struct {
	PIDMode, IPCMode string   // defaults of tasks
	AllowCaps        []string // canonical names
	DeniedUIDs       hostuser.Ranges
	DeniedGIDs       hostuser.Ranges

	PIDsLimit     int64 // 0 for none
	Seccomp       bool
	NoPrivileges  bool // no_new_privs
	Landlock      bool
	Setuid        bool // set-user-ID programs in the root
	Devices       bool // device files in the root
	HostFileOwner bool // files of the host keep all owners
}

// PluginSpec returns the schema of a plugin block with the options of all drivers of the package and more.
func PluginSpec(more hcldec.ObjectSpec) hcldec.ObjectSpec {
	spec := hcldec.ObjectSpec{}
	for name, kind := range map[string]cty.Type{
		"default_pid_mode": cty.String, "default_ipc_mode": cty.String, "allow_caps": cty.List(cty.String),
		"pids_limit": cty.Number, "seccomp": cty.Bool, "no_new_privs": cty.Bool, "landlock": cty.Bool, "nosuid": cty.Bool,
		"nodev": cty.Bool, "map_owners": cty.Bool,
	} {
		spec[name] = &hcldec.AttrSpec{Name: name, Type: kind}
	}
	for name, s := range more {
		spec[name] = s
	}
	return spec
}

// DefaultPlugin returns the settings without a plugin block.
func DefaultPlugin() Plugin {
	return Plugin{PIDMode: modePrivate, IPCMode: modePrivate, AllowCaps: drivers.DefaultCapabilities(), PIDsLimit: defaultPIDs,
		Seccomp: true, NoPrivileges: true, Landlock: true}
}

// DecodePlugin converts a value of PluginSpec. Options that the schema of a driver lacks have their defaults.
func DecodePlugin(v cty.Value) (Plugin, error) {
	f := drivers.Fields{Value: v}
	p := DefaultPlugin()
	for _, m := range []struct {
		name string
		to   *string
	}{{"default_pid_mode", &p.PIDMode}, {"default_ipc_mode", &p.IPCMode}} {
		if mode := f.String(m.name); mode != "" {
			*m.to = mode
		}
		if err := checkMode(m.name, *m.to); err != nil {
			return p, err
		}
	}
	on := func(name string, otherwise bool) bool {
		return f.Has(name) && f.Bool(name) || !f.Has(name) && otherwise
	}
	p.Seccomp, p.NoPrivileges, p.Landlock = on("seccomp", true), on("no_new_privs", true), on("landlock", true)
	p.Setuid, p.Devices, p.HostFileOwner = !on("nosuid", true), !on("nodev", true), !on("map_owners", true)
	if f.Has("pids_limit") {
		p.PIDsLimit = f.Int("pids_limit")
	}
	if f.Has("allow_caps") {
		p.AllowCaps = capability.Canonical(f.Strings("allow_caps"))
	}
	var err error
	if p.DeniedUIDs, err = ranges(f.String("denied_host_uids"), "deniedHostUIDs"); err != nil {
		return p, err
	}
	if p.DeniedGIDs, err = ranges(f.String("denied_host_gids"), "deniedHostGIDs"); err != nil {
		return p, err
	}
	if err := f.Err(); err != nil {
		return p, err
	}
	return p, p.check()
}

func (p *Plugin) check() error {
	if unknown := unsupported(p.AllowCaps); len(unknown) > 0 {
		return fmt.Errorf("allow_caps configured with capabilities not supported by system: %s", strings.Join(unknown, ", "))
	}
	if p.PIDsLimit < 0 || p.PIDsLimit > maxPIDs {
		return fmt.Errorf("pids_limit: %d is not between 0 (no limit) and %d", p.PIDsLimit, maxPIDs)
	}
	if !p.NoPrivileges && (p.Seccomp || p.Landlock) {
		return fmt.Errorf("no_new_privs = false needs seccomp = false and landlock = false: both depend on it")
	}
	return nil
}

// ranges parses a list of IDs. The errors name the option and the part as Nomad does.
func ranges(text, name string) (hostuser.Ranges, error) {
	var out hostuser.Ranges
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		r, err := hostuser.ParseRanges(part)
		if err != nil {
			why := "range bound not valid"
			if lo, hi, ok := strings.Cut(strings.TrimSpace(part), "-"); ok && isNumber(lo) && isNumber(hi) {
				why = "lower bound cannot be greater than upper bound"
			}
			return nil, fmt.Errorf("invalid range %s %q: %s", name, part, why)
		}
		out = slices.Concat(out, r)
	}
	return out, nil
}

func isNumber(s string) bool {
	_, err := hostuser.ParseRanges(s)
	return s != "" && err == nil && !strings.Contains(s, "-")
}

func checkMode(name, mode string) error {
	if mode != modePrivate && mode != modeHost {
		return fmt.Errorf("%s must be %q or %q, got %q", name, modePrivate, modeHost, mode)
	}
	return nil
}

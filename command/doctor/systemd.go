package doctor

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// unitDirs are the directories of units, the first one that has a unit counts.
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system"}

// runsAgent matches the ExecStart of a unit of an agent.
var runsAgent = pattern.Lazy(`(^|/)nomad\s+agent(\s|$)`)

// maxUnits is the maximum number of units that are read.
const maxUnits = 2000

// systemd checks the units that run an agent.
func systemd(_ context.Context, m *machine) []Finding {
	if m.text("/proc/1/comm") != "systemd" && !exists(m.root, "/run/systemd/system") {
		return []Finding{ok("systemd does not run here")}
	}
	units := m.units()
	if len(units) == 0 {
		return []Finding{warn("install the package, or write a unit: see the guide of the agent", "no unit runs 'nomad agent'")}
	}
	var out []Finding
	for _, path := range units {
		out = append(out, m.unit(path)...)
	}
	return out
}

// units returns the paths of the units whose ExecStart runs an agent.
func (m *machine) units() []string {
	var out []string
	seen := map[string]bool{}
	for _, dir := range unitDirs {
		names, err := filepath.Glob(filepath.Join(m.root, dir, "*.service"))
		if err != nil {
			continue // the pattern is valid
		}
		for _, name := range names[:min(len(names), maxUnits)] {
			base := filepath.Base(name)
			if !seen[base] && slices.ContainsFunc(keys(name)["ExecStart"], runsAgent().MatchString) {
				out = append(out, name)
			}
			seen[base] = true
		}
	}
	return out
}

// unit checks one unit, with its drop-ins.
func (m *machine) unit(path string) []Finding {
	values := keys(path)
	base := filepath.Base(path)
	for _, dir := range slices.Backward(unitDirs) { // /etc is last, and wins
		drops, err := filepath.Glob(filepath.Join(m.root, dir, base+".d", "*.conf"))
		if err != nil {
			continue // the pattern is valid
		}
		for _, drop := range drops {
			for key, list := range keys(drop) {
				values[key] = append(values[key], list...)
			}
		}
	}
	last := func(key string) string {
		if list := values[key]; len(list) > 0 {
			return list[len(list)-1]
		}
		return ""
	}
	var out []Finding
	serverOnly := strings.Contains(base, "server") || m.settings != nil && !m.settings.Client.Enabled
	if kill := last("KillMode"); kill != "process" && !serverOnly {
		if kill == "" {
			kill = "control-group, the default"
		}
		out = append(out, fail("set KillMode=process in the unit, and run 'systemctl daemon-reload'",
			"%s: KillMode is %s: a restart of the agent kills the tasks", base, kill))
	}
	if last("Restart") == "" || last("Restart") == "no" {
		out = append(out, warn("set Restart=on-failure in the unit", "%s: a crashed agent is not started again", base))
	}
	if !serverOnly && strings.ToLower(last("PrivateTmp")) == "yes" {
		out = append(out, fail("remove PrivateTmp from the unit",
			"%s: PrivateTmp gives each agent a mount namespace of its own: it loses the mounts of running tasks", base))
	}
	if len(out) == 0 {
		out = append(out, ok("%s: %s", base, strings.TrimSpace("KillMode="+last("KillMode")+" Restart="+last("Restart"))))
	}
	return out
}

// keys reads the settings of a unit. An empty value resets a list, as in systemd.
func keys(path string) map[string][]string {
	out := map[string][]string{}
	f, err := os.Open(path)
	if err != nil {
		return out // a dangling link
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, found := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		if !found || strings.HasPrefix(key, "#") || strings.HasPrefix(key, ";") {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if value == "" {
			delete(out, key)
			continue
		}
		out[key] = append(out[key], value)
	}
	return out
}

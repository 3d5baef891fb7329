package fingerprint

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/landlock"
)

// arch returns the processor architecture.
func arch(*Host) (Facts, error) {
	var f Facts
	f.set("cpu.arch", runtime.GOARCH)
	return f, nil
}

// host returns the operating system, the kernel, the host name and the host ID.
func host(h *Host) (Facts, error) {
	var f Facts
	name, err := os.Hostname()
	if err != nil {
		return f, fmt.Errorf("hostname: %w", err)
	}
	f.set("unique.hostname", name)
	f.set("kernel.name", runtime.GOOS)
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return f, fmt.Errorf("uname: %w", err)
	}
	f.set("kernel.arch", unix.ByteSliceToString(u.Machine[:]))
	f.set("kernel.version", unix.ByteSliceToString(u.Release[:]))
	release := h.osRelease()
	f.set("os.name", release["ID"])
	f.set("os.version", release["VERSION_ID"])
	for _, file := range []string{"/sys/class/dmi/id/product_uuid", "/etc/machine-id"} {
		if id := h.text(file); id != "" {
			f.set("unique.host_id", strings.ToLower(id))
			break
		}
	}
	return f, nil
}

// osRelease parses the KEY=value lines of /etc/os-release.
func (h *Host) osRelease() map[string]string {
	vars := map[string]string{}
	file, err := os.Open(h.path("/etc/os-release"))
	if err != nil {
		return vars
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, val, ok := strings.Cut(lines.Text(), "="); ok {
			vars[key] = strings.Trim(val, `"'`)
		}
	}
	return vars
}

// landlockABI returns the kernel's Landlock ABI version, such as "v7".
func landlockABI(*Host) (Facts, error) {
	var f Facts
	if abi, err := landlock.ABI(); err == nil {
		f.set("kernel.landlock", "v"+strconv.Itoa(abi))
	}
	return f, nil
}

// cgroupVersion returns 2 if the v2 tree has the controllers, and 1 if the v1 trees have them.
func cgroupVersion(h *Host) (Facts, error) {
	var f Facts
	if h.text("/sys/fs/cgroup/cgroup.controllers") != "" {
		f.set("os.cgroups.version", "2")
	} else if _, err := os.Stat(h.path("/sys/fs/cgroup/memory")); err == nil {
		f.set("os.cgroups.version", "1")
	}
	return f, nil
}

// signals returns the signal names for kill_signal and alloc signal.
func signals(*Host) (Facts, error) {
	var names []string
	for n := unix.Signal(1); n < 32; n++ {
		if name := unix.SignalName(n); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var f Facts
	f.set("os.signals", strings.Join(names, ","))
	return f, nil
}

// program returns the version of this program.
func program(h *Host) (Facts, error) {
	var f Facts
	f.set("nomad.version", h.cfg.Version)
	f.set("nomad.revision", h.cfg.Revision)
	f.set("unique.advertise.address", h.cfg.AdvertiseAddr)
	if h.cfg.Services {
		f.set("nomad.service_discovery", "true")
	}
	if h.cfg.ConsulAPI != "" {
		f.set("nomad.consul_api.address", h.cfg.ConsulAPI)
	}
	return f, nil
}

package observe

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// usual are the mount points of every container.
var usual = []string{"/", "/proc", "/dev", "/sys", "/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/sbin/docker-init", "/run/secrets"}

// usualTrees are those whose mount points are all of the runtime.
var usualTrees = []string{"/proc", "/dev", "/sys"}

// mount is a line of mountinfo.
type mount struct{ point, options, kind string }

// unescape replaces the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// parseMounts parses mountinfo.
func parseMounts(text string) (out []mount) {
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); len(f) >= 6 {
			kind, _, _ := strings.Cut(after, " ")
			out = append(out, mount{unescape.Replace(f[4]), f[5], kind})
		}
	}
	return out
}

// below reports whether a path is one of the others, or below it.
func below(name string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return safefs.Within(name, dir) })
}

// mounts compares the mount points. A target may lead through symbolic links of the image.
func (p *Process) mounts(e *Expected) (out []string, err error) {
	if e.Mounts == nil {
		return nil, nil
	}
	text, err := p.read("mountinfo")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(p.path + "/root")
	if err != nil {
		return nil, gone(err)
	}
	defer root.Close() //nolint:errcheck // read only
	if _, err := p.read("status"); err != nil {
		return nil, err // the root may be that of another process
	}
	real := func(list []string) (out []string) {
		for _, name := range list {
			out = append(out, resolve(root, name))
		}
		return out
	}
	asked := &Expected{Mounts: append(real(e.Mounts), real(usual[1:])...), ReadOnly: real(e.ReadOnly), OwnTrees: e.OwnTrees}
	for _, name := range e.Masked {
		if _, err := root.Lstat(strings.TrimPrefix(name, "/")); err == nil {
			asked.Masked = append(asked.Masked, name)
		}
	}
	return compareMounts(parseMounts(text), asked), nil
}

// kernelTrees are the file systems of the kernel that a container has at these mount points.
var kernelTrees = map[string][]string{"/proc": {"proc"}, "/sys": {"sysfs"}, "/dev": {"tmpfs", "devtmpfs"}}

// kernel compares the mounts of the kernel's file systems. A runtime masks a file by a mount of /dev/null, so a container
// with another /dev decides what is mounted there.
func kernel(list []mount, e *Expected) (out []string) {
	at := map[string][]string{}
	for _, m := range list {
		at[m.point] = append(at[m.point], m.kind)
	}
	for _, tree := range usualTrees {
		if kinds := at[tree]; e.OwnTrees && (len(kinds) > 1 || len(kinds) == 1 && !slices.Contains(kernelTrees[tree], kinds[0])) {
			out = append(out, fmt.Sprintf("it has another file system at %q than that of its runtime", tree))
		}
	}
	for _, name := range e.Masked {
		if kinds := at[name]; len(kinds) == 0 || slices.Contains([]string{"proc", "sysfs"}, kinds[len(kinds)-1]) {
			out = append(out, fmt.Sprintf("%q of the kernel is not masked", name))
		}
	}
	return out
}

// maxLinks limits the symbolic links that lead to a target.
const maxLinks = 64

// resolve returns a path below a root without symbolic links.
func resolve(root *os.Root, name string) string {
	done, rest := "/", strings.Split(name, "/")
	for links := 0; len(rest) > 0 && links < maxLinks; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		if next == done || next == "/" {
			done = next
			continue
		}
		link, err := root.Readlink(next[1:])
		if err != nil { // no link, or it does not exist
			done = next
			continue
		}
		links++
		if path.IsAbs(link) {
			done = "/"
		}
		rest = append(strings.Split(link, "/"), rest...)
	}
	return path.Join(done, path.Join(rest...))
}

func compareMounts(list []mount, e *Expected) (out []string) {
	out = kernel(list, e)
	for _, m := range list {
		if m.point != "/" && !below(m.point, usualTrees) && !below(m.point, e.Mounts) {
			out = append(out, fmt.Sprintf("it has a mount at %q, which was not asked for", m.point))
		}
		if slices.Contains(e.ReadOnly, m.point) && !slices.Contains(strings.Split(m.options, ","), "ro") {
			out = append(out, fmt.Sprintf("the mount at %q is writable, read-only was asked for", m.point))
		}
	}
	return out
}

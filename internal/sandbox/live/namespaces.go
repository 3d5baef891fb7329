package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// namespaces compares each namespace with the agent's, which is this process's own.
func namespaces(p *process, s Subject) ([]Layer, error) {
	var out []Layer
	for _, ns := range []struct {
		name string
		own  bool
	}{{"pid", s.Policy.PrivatePID}, {"ipc", s.Policy.PrivateIPC}, {"uts", s.Policy.Hostname != ""}, {"mnt", s.Policy.Mounts != nil},
		{"user", s.Policy.OwnUsers}} {
		live, err := p.dir.Readlink("ns/" + ns.name)
		if err != nil {
			return nil, fmt.Errorf("inspect process: %w", err)
		}
		host, err := os.Readlink("/proc/self/ns/" + ns.name)
		if err != nil {
			return nil, fmt.Errorf("inspect the agent: %w", err)
		}
		l := Layer{Name: ns.name + " namespace", Declared: "the host's", Live: live, Match: live == host}
		if ns.own {
			l.Declared, l.Match = "of its own", live != host
		}
		out = append(out, l)
	}
	net, err := network(p, s.Policy.NetNS)
	return append(out, net), err
}

// network compares with the namespace of the policy.
func network(p *process, path string) (Layer, error) {
	live, err := p.dir.Readlink("ns/net")
	if err != nil {
		return Layer{}, fmt.Errorf("inspect process: %w", err)
	}
	l := Layer{Name: "net namespace", Declared: "the host's", Live: live}
	if path != "" {
		l.Declared = path
	} else {
		path = "/proc/self/ns/net"
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		l.Declared += " (gone)"
		return l, nil
	}
	l.Match = live == fmt.Sprintf("net:[%d]", st.Ino)
	return l, nil
}

// mount is a line of mountinfo.
type mount struct {
	point   string
	options []string // of the mount
	kind    string   // of the file system
	super   []string // options of the file system
}

func (m mount) has(option string) bool {
	for _, o := range m.options {
		if o == option {
			return true
		}
	}
	return false
}

// parseMounts parses mountinfo and skips malformed lines. The last mount at a point is the visible
// one.
func parseMounts(text string) []mount {
	var out []mount
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 6 || len(g) < 3 {
			continue
		}
		out = append(out, mount{point: unescape.Replace(f[4]), options: strings.Split(f[5], ","), kind: g[0], super: strings.Split(g[2], ",")})
	}
	return out
}

// at returns the visible mount at a point.
func (p *process) at(point string) (mount, bool) {
	for i := len(p.mounts) - 1; i >= 0; i-- {
		if p.mounts[i].point == point {
			return p.mounts[i], true
		}
	}
	return mount{}, false
}

func mountLayers(p *process, s Subject) ([]Layer, error) {
	m := s.Policy.Mounts
	if m == nil {
		return nil, nil
	}
	out := p.hiddenDirs(s.Policy)
	if m.View != (sandbox.View{}) {
		out = append(out, p.view(s.Policy))
	}
	for _, b := range m.Binds {
		out = append(out, p.bind(b))
	}
	if m.Tmp != (sandbox.Path{}) {
		_, ok := p.at("/tmp")
		out = append(out, Layer{Name: "/tmp", Declared: "of its own", Live: map[bool]string{true: "mounted", false: "the host's"}[ok], Match: ok})
	}
	if m.Proc {
		proc, _ := p.at("/proc")
		super := strings.Join(proc.super, ",")
		hidden := proc.kind == "proc" && (strings.Contains(super, "hidepid=invisible") || strings.Contains(super, "hidepid=2") ||
			strings.Contains(super, "hidepid=ptraceable") || strings.Contains(super, "hidepid=4"))
		out = append(out, Layer{Name: "/proc", Declared: "of its own, hidepid", Live: strings.TrimSpace(proc.kind + " " + super), Match: hidden})
	}
	return out, nil
}

// view reports whether the other entries of a directory are hidden by a read-only mount.
func (p *process) view(policy *sandbox.Policy) Layer {
	v := policy.Mounts.View
	l := Layer{Name: v.Dir, Declared: "its own " + v.Own + " only", Live: "all of it"}
	point := v.Dir
	if real, err := filepath.EvalSymlinks(point); err == nil {
		point = real // mountinfo has paths without links
	}
	if policy.Sees(v.Dir) || policy.Sees(point) {
		l.Declared, l.Match = "all of it, as granted", true
		return l
	}
	// In /tmp the mount may be further up, where all is hidden anyway.
	for ; point != "/" && point != "/tmp" && !l.Match; point = filepath.Dir(point) {
		if m, ok := p.at(point); ok {
			l.Live, l.Match = m.kind+" "+strings.Join(m.options, ","), m.kind == "tmpfs" && m.has("ro")
		}
		if policy.Mounts.Tmp == (sandbox.Path{}) || !strings.HasPrefix(point, "/tmp/") {
			break
		}
	}
	return l
}

// hiddenDirs compares the hidden directories. A read-only mount hides each, unless the program was
// granted it by any of its names.
func (p *process) hiddenDirs(policy *sandbox.Policy) []Layer {
	var out []Layer
	seen := map[string]bool{}
	real := func(dir string) string {
		at, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return dir
		}
		return at
	}
	for _, dir := range policy.Mounts.Hide {
		seen[real(dir)] = seen[real(dir)] || policy.Sees(dir) || policy.Sees(real(dir))
	}
	for _, dir := range policy.Mounts.Hide {
		l := Layer{Name: dir, Declared: "what is granted there", Live: "all of it"}
		m, ok := p.at(real(dir))
		switch _, err := os.Stat(dir); {
		case errors.Is(err, os.ErrNotExist):
			continue // the host has no such directory
		case seen[real(dir)]:
			l.Declared, l.Match = "all of it, as granted", true
		case ok:
			l.Live, l.Match = m.kind+" "+strings.Join(m.options, ","), m.kind == "tmpfs" && m.has("ro")
		}
		out = append(out, l)
	}
	return out
}

// bind compares the mount of a bind. Read-only must hold for each mount below, too.
func (p *process) bind(b sandbox.Bind) Layer {
	want := []string{"nosuid"}
	if !b.Device {
		want = append(want, "nodev")
	}
	if b.ReadOnly {
		want = append(want, "ro")
	}
	target := filepath.Join(b.Beneath, b.Target)
	l := Layer{Name: "bind " + target, Declared: strings.Join(want, ","), Live: "not mounted"}
	if real, err := filepath.EvalSymlinks(target); err == nil {
		target = real // mountinfo has paths without links
	}
	m, ok := p.at(target)
	if !ok {
		return l
	}
	l.Live, l.Match = strings.Join(m.options, ","), true
	for _, o := range want {
		l.Match = l.Match && m.has(o)
	}
	if !b.ReadOnly {
		return l
	}
	for _, below := range p.mounts {
		if strings.HasPrefix(below.point, target+"/") && !below.has("ro") {
			l.Match, l.Live = false, l.Live+"; writable at "+below.point
		}
	}
	return l
}

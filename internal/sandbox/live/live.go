// Package live compares a policy with the kernel's view of the process that it was applied to. It
// reads status, limits, ns and mountinfo in /proc/<pid>, and the files of the control group. The
// kernel reports nothing about another process's Landlock rules, so that layer is declared only.
//
// A program may make its own sandbox stricter: lower a limit, add a filter, give up rights. This is a
// match, and a limit is marked as stricter. Anything looser than declared is a mismatch.
//
// The package only reads. The process may end while it reads, and its PID may be reused. The caller
// must check afterwards that the process is still the same.
package live

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// Unreported is the Live value of a layer that the kernel does not report.
const Unreported = ""

// Layer is one property of a sandbox.
type Layer struct {
	Name     string
	Declared string
	Live     string // Unreported, or the kernel's value
	Match    bool
	Stricter bool // a limit is lower than declared; Match is then true
}

// Subject is a process and what it is compared with.
type Subject struct {
	PID    int
	Policy *sandbox.Policy
	Limits *cgroup.Limits // nil: no control group
	Group  string         // path below the root of its tree, as in /proc
}

// maxRead limits the size of files that a process can make long (mountinfo).
const maxRead = 1 << 20

// process holds the /proc files of one process. Its directory stays open, so that a reused PID
// cannot replace it.
type process struct {
	dir    *os.Root
	status map[string]string
	mounts []mount
}

// Compare returns the layers of a sandbox in the order of their application. It fails if the
// process does not exist.
func Compare(s Subject) ([]Layer, error) {
	p, err := inspect(s.PID)
	if err != nil {
		return nil, err
	}
	defer p.dir.Close()
	var out []Layer
	for _, layers := range []func(*process, Subject) ([]Layer, error){groups, score, namespaces, mountLayers, user, capabilities, limits,
		landlocked, filtered} {
		more, err := layers(p, s)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func inspect(pid int) (*process, error) {
	dir, err := os.OpenRoot("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return nil, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	p := &process{dir: dir, status: map[string]string{}}
	text, err := p.read("status")
	if err != nil {
		dir.Close()
		return nil, err
	}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			p.status[key] = strings.TrimSpace(value)
		}
	}
	if text, err = p.read("mountinfo"); err != nil {
		dir.Close()
		return nil, err
	}
	p.mounts = parseMounts(text)
	return p, nil
}

func (p *process) read(name string) (string, error) {
	f, err := p.dir.Open(name)
	if err != nil {
		return "", fmt.Errorf("inspect process: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return "", fmt.Errorf("inspect process: %w", err)
	}
	return string(text), nil
}

// same returns a layer whose live value must equal the declared one.
func same(name, declared, live string) Layer {
	return Layer{Name: name, Declared: declared, Live: live, Match: declared == live}
}

func groups(p *process, s Subject) ([]Layer, error) {
	if s.Limits == nil {
		return []Layer{{Name: "control group", Declared: "none of its own", Match: true}}, nil
	}
	h, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	g, err := h.Open(filepath.Dir(s.Group)[1:], filepath.Base(s.Group))
	if err != nil {
		return nil, err
	}
	text, err := p.read("cgroup")
	if err != nil {
		return nil, err
	}
	// Each tree has its own path. The supervisor joins those that exist.
	var in []string
	for line := range strings.Lines(text) {
		_, path, _ := strings.Cut(line, ":/")
		if path = "/" + strings.TrimSpace(path); path == g.Path() || strings.HasPrefix(path, g.Path()+"/") {
			in = append(in, path)
		}
	}
	out := []Layer{{Name: "control group", Declared: g.Path(), Live: "elsewhere", Match: len(in) > 0}}
	if len(in) > 0 {
		out[0].Live = in[0]
	}
	for _, set := range g.Compare(*s.Limits) {
		out = append(out, Layer{Name: set.File, Declared: set.Want, Live: set.Have, Match: set.Enforced, Stricter: set.Stricter})
	}
	return out, nil
}

func score(p *process, s Subject) ([]Layer, error) {
	text, err := p.read("oom_score_adj")
	if err != nil {
		return nil, err
	}
	now, err := strconv.Atoi(strings.TrimSpace(text))
	// Lowering needs a privilege; raising does not.
	return []Layer{{Name: "oom_score_adj", Declared: strconv.Itoa(s.Policy.OOMScoreAdj), Live: strings.TrimSpace(text),
		Match: err == nil && now >= s.Policy.OOMScoreAdj, Stricter: err == nil && now > s.Policy.OOMScoreAdj}}, nil
}

func user(p *process, s Subject) ([]Layer, error) {
	if s.Policy.User == nil {
		return []Layer{{Name: "uid", Declared: "the agent's", Live: p.status["Uid"], Match: true}}, nil
	}
	u := s.Policy.User
	four := func(id uint32) string { return strings.TrimSuffix(strings.Repeat(fmt.Sprint(id)+" ", 4), " ") }
	have := strings.Fields(p.status["Groups"])
	want := make([]string, len(u.Groups))
	for i, g := range u.Groups {
		want[i] = fmt.Sprint(g)
	}
	slices.Sort(have)
	slices.Sort(want)
	return []Layer{
		same("uid", four(u.UID), words(p.status["Uid"])),
		same("gid", four(u.GID), words(p.status["Gid"])),
		same("groups", list(want), list(have)),
	}, nil
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

func list(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, " ")
}

func capabilities(p *process, s Subject) ([]Layer, error) {
	var out []Layer
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		live := strings.TrimLeft(p.status[set], "0")
		if live == "" {
			live = "none"
		}
		l := Layer{Name: set, Declared: "none", Live: live, Match: live == "none"}
		if s.Policy.KeepCapabilities {
			l.Declared, l.Match = "kept", true
		} else if set == "CapBnd" && s.Policy.User == nil {
			// A process without capabilities cannot empty this set, which no_new_privs makes
			// ineffective.
			l.Declared, l.Match = "without effect", p.status["NoNewPrivs"] == "1"
		}
		out = append(out, l)
	}
	l := Layer{Name: "no_new_privs", Declared: "1", Live: p.status["NoNewPrivs"], Match: p.status["NoNewPrivs"] == "1"}
	if s.Policy.KeepPrivileges {
		l.Declared, l.Match = "0", true
	}
	return append(out, l), nil
}

func landlocked(_ *process, s Subject) ([]Layer, error) {
	f := s.Policy.Files
	if f == nil {
		return []Layer{{Name: "landlock", Declared: "none", Match: true}}, nil
	}
	text := fmt.Sprintf("ABI >= %d, %d paths", f.MinABI, len(f.Paths))
	if f.TCP != nil {
		text += fmt.Sprintf(", TCP bind %d, connect %d", f.TCP.Bind, f.TCP.Connect)
	}
	out := []Layer{{Name: "landlock", Declared: text, Live: Unreported, Match: true}}
	for _, path := range f.Paths {
		out = append(out, Layer{Name: "unveil", Declared: path.String(), Live: Unreported, Match: true})
	}
	return out, nil
}

func filtered(p *process, s Subject) ([]Layer, error) {
	const filterMode = "2"
	mode, n := p.status["Seccomp"], p.status["Seccomp_filters"]
	live := map[string]string{"0": "off", "1": "strict", filterMode: n + " filters"}[mode]
	l := Layer{Name: "seccomp", Declared: fmt.Sprintf("profile %s, a filter of %d instructions", s.Policy.Seccomp, len(s.Policy.Filter)/8),
		Live: live, Match: mode == filterMode}
	if s.Policy.Seccomp == sandbox.SeccompNone {
		l.Declared, l.Match = "none", true
	}
	return []Layer{l}, nil
}

// limitNames are the lines of /proc/<pid>/limits.
var limitNames = map[int]string{
	unix.RLIMIT_CPU: "cpu time", unix.RLIMIT_FSIZE: "file size", unix.RLIMIT_DATA: "data size", unix.RLIMIT_STACK: "stack size",
	unix.RLIMIT_CORE: "core file size", unix.RLIMIT_RSS: "resident set", unix.RLIMIT_NPROC: "processes", unix.RLIMIT_NOFILE: "open files",
	unix.RLIMIT_MEMLOCK: "locked memory", unix.RLIMIT_AS: "address space", unix.RLIMIT_LOCKS: "file locks",
	unix.RLIMIT_SIGPENDING: "pending signals", unix.RLIMIT_MSGQUEUE: "msgqueue size", unix.RLIMIT_NICE: "nice priority",
	unix.RLIMIT_RTPRIO: "realtime priority", unix.RLIMIT_RTTIME: "realtime timeout",
}

func limits(p *process, s Subject) ([]Layer, error) {
	text, err := p.read("limits")
	if err != nil {
		return nil, err
	}
	have := map[string][]string{}
	for line := range strings.Lines(text) {
		for _, name := range limitNames {
			if rest, ok := strings.CutPrefix(line, "Max "+name+" "); ok {
				have[name] = strings.Fields(rest)
			}
		}
	}
	var out []Layer
	for _, r := range s.Policy.Rlimits {
		name := limitNames[r.Resource]
		l := Layer{Name: "limit of " + name, Declared: bound(r.Soft) + ":" + bound(r.Hard)}
		if got := have[name]; len(got) >= 2 {
			l.Live = got[0] + ":" + got[1]
			l.Match = below(got[1], r.Hard) // the program may change the soft limit up to the hard one
			l.Stricter = l.Match && (got[1] != bound(r.Hard) || got[0] != bound(r.Soft) && below(got[0], r.Soft))
		}
		out = append(out, l)
	}
	return out, nil
}

func bound(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

func below(live string, declared uint64) bool {
	if declared == unix.RLIM_INFINITY {
		return true
	}
	n, err := strconv.ParseUint(live, 10, 64)
	return err == nil && n <= declared
}

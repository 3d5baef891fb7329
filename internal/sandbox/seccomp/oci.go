package seccomp

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxFile bounds a profile's file; those in use have some 30 KB.
const maxFile = 1 << 20

// file is a profile as the OCI runtime specification and Docker write it. What is not
// here does not exist for us: an error names it.
type file struct {
	DefaultAction   string        `json:"defaultAction"`
	DefaultErrnoRet *uint         `json:"defaultErrnoRet"`
	Architectures   []string      `json:"architectures"`
	ArchMap         []archMap     `json:"archMap"`
	Flags           []string      `json:"flags"`
	Syscalls        []fileSyscall `json:"syscalls"`
}

type archMap struct {
	Architecture     string   `json:"architecture"`
	SubArchitectures []string `json:"subArchitectures"`
}

type fileSyscall struct {
	Name     string     `json:"name"` // an old form
	Names    []string   `json:"names"`
	Action   string     `json:"action"`
	ErrnoRet *uint      `json:"errnoRet"`
	Args     []fileArg  `json:"args"`
	Comment  string     `json:"comment"`
	Includes fileFilter `json:"includes"`
	Excludes fileFilter `json:"excludes"`
}

type fileArg struct {
	Index    uint32 `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// fileFilter says where a rule holds: all of it must be so.
type fileFilter struct {
	Caps      []string `json:"caps"`
	Arches    []string `json:"arches"`
	MinKernel string   `json:"minKernel"`
}

// Load reads a profile from a file of the operator's.
func Load(name, path string) (*Profile, error) {
	raw, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("seccomp profile %s: %w", name, err)
	}
	p, err := Parse(name, raw)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return p, nil
}

func read(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("file %q: the path is not absolute", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not hold us
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return raw, err
}

// Parse makes a profile of JSON in the OCI's form. It must let a task start, and its
// filter must fit the kernel.
func Parse(name string, raw []byte) (*Profile, error) {
	p := &Profile{Name: name}
	if err := p.parse(raw); err != nil {
		return nil, fmt.Errorf("seccomp profile %s: %w", name, err)
	}
	if _, err := p.Filter(Gaps{IPC: true, Processes: true}); err != nil { // the longest
		return nil, err
	}
	if err := p.startable(); err != nil {
		return nil, fmt.Errorf("seccomp profile %s: %w", name, err)
	}
	return p, nil
}

func (p *Profile) parse(raw []byte) error {
	var f file
	if err := decode(raw, &f); err != nil {
		return err
	}
	var err error
	if p.otherwise, err = action(f.DefaultAction, f.DefaultErrnoRet); err != nil {
		return fmt.Errorf("defaultAction: %w", err)
	}
	if err := f.check(); err != nil {
		return err
	}
	if n := len(f.Syscalls); n > maxFilter {
		return fmt.Errorf("syscalls: %d entries are more than the %d instructions that the kernel takes", n, maxFilter)
	}
	for i := range f.Syscalls {
		r, ok, err := f.Syscalls[i].rule()
		if err != nil {
			return fmt.Errorf("syscalls[%d].%w", i, err)
		}
		if ok {
			r.where = fmt.Sprintf("syscalls[%d]", i)
			p.rules = append(p.rules, r)
		}
	}
	return unambiguous(p.rules)
}

// ociArch are the OCI's names of what we run on.
var ociArch = map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}

// check looks at what is not a rule. Other architectures than this machine's are
// always refused, so naming them changes nothing; not naming this one would.
func (f *file) check() error {
	info, err := native()
	if err != nil {
		return err
	}
	want := ociArch[goArch(info)]
	if len(f.Architectures) > 0 && !slices.Contains(f.Architectures, want) {
		return fmt.Errorf("architectures: %s is not among them", want)
	}
	if len(f.ArchMap) > 0 && !slices.ContainsFunc(f.ArchMap, func(m archMap) bool { return m.Architecture == want }) {
		return fmt.Errorf("archMap: %s is not among them", want)
	}
	for i, flag := range f.Flags {
		return fmt.Errorf("flags[%d]: %s is not supported: explain_denials makes the kernel log, and threads have one filter anyway", i, flag)
	}
	return nil
}

// unambiguous refuses rules of which the order would decide: one for all arguments of a
// call, and another of a different action for the same call.
func unambiguous(rules []rule) error {
	seen := map[string][]rule{} // of each call one rule of each kind
	for _, r := range rules {
		for _, n := range r.names {
			known := false
			for _, o := range seen[n] {
				same := r.action == o.action
				if !same && (len(r.when) == 0 || len(o.when) == 0) {
					return fmt.Errorf("%s: %s has another action in %s, and one of both is for all its arguments", r.where, n, o.where)
				}
				known = known || same && (len(r.when) == 0) == (len(o.when) == 0)
			}
			if !known {
				seen[n] = append(seen[n], r)
			}
		}
	}
	return nil
}

package seccomp

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxFile limits a profile's file; common ones have 30 KB.
const maxFile = 1 << 20

// file is a profile in the format of the OCI runtime specification and Docker. Unknown fields are
// an error.
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
	Name     string     `json:"name"` // old format
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

// fileFilter is the condition of a rule: all fields must hold.
type fileFilter struct {
	Caps      []string `json:"caps"`
	Arches    []string `json:"arches"`
	MinKernel string   `json:"minKernel"`
}

// Load reads a profile from an operator's file.
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
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // do not block on a FIFO
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

// Parse parses a profile in the OCI's JSON format. The profile must allow a task to start, and its
// filter must fit the kernel.
func Parse(name string, raw []byte) (*Profile, error) {
	p := &Profile{Name: name}
	if err := p.parse(raw); err != nil {
		return nil, fmt.Errorf("seccomp profile %s: %w", name, err)
	}
	if _, err := p.Filter(Gaps{IPC: true, Processes: true}); err != nil { // the longest filter
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
		return fmt.Errorf("syscalls: %d entries exceed the kernel's limit of %d instructions", n, maxFilter)
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

// ociArch are the OCI's names of the supported architectures.
var ociArch = map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}

// check checks all fields but the rules. Other architectures than this machine's are always
// refused, so listing them has no effect. This machine's must be listed.
func (f *file) check() error {
	info, err := native()
	if err != nil {
		return err
	}
	want := ociArch[goArch(info)]
	if len(f.Architectures) > 0 && !slices.Contains(f.Architectures, want) {
		return fmt.Errorf("architectures: %s is missing", want)
	}
	if len(f.ArchMap) > 0 && !slices.ContainsFunc(f.ArchMap, func(m archMap) bool { return m.Architecture == want }) {
		return fmt.Errorf("archMap: %s is missing", want)
	}
	for i, flag := range f.Flags {
		return fmt.Errorf("flags[%d]: %s is not supported: use explain_denials for logging; all threads have the same filter", i, flag)
	}
	return nil
}

// unambiguous refuses rules whose order would matter: one for all arguments of a call, and another
// with a different action for the same call.
func unambiguous(rules []rule) error {
	seen := map[string][]rule{} // per call, one rule of each kind
	for _, r := range rules {
		for _, n := range r.names {
			known := false
			for _, o := range seen[n] {
				same := r.action == o.action
				if !same && (len(r.when) == 0 || len(o.when) == 0) {
					return fmt.Errorf("%s: %s has another action in %s, and one of the two rules matches all arguments", r.where, n, o.where)
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

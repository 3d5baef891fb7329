package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Unveil grants Modes on a file, or on everything below a directory.
type Unveil struct {
	Modes string // any of r, w, x, c
	Path  string // absolute and clean
}

func (u Unveil) String() string { return u.Modes + ":" + u.Path }

// ParseUnveil parses "<modes>:<path>"; the path may contain colons.
func ParseUnveil(s string) (Unveil, error) {
	modes, path, ok := strings.Cut(s, ":")
	switch {
	case !ok:
		return Unveil{}, fmt.Errorf("%q is not of the form <modes>:<path>", s)
	case !landlock.ValidModes(modes):
		return Unveil{}, fmt.Errorf("%q: modes %q: want one or more of r (read), w (write), x (execute), c (create and remove)", s, modes)
	case path == "":
		return Unveil{}, fmt.Errorf("%q: the path is missing", s)
	case strings.ContainsRune(path, 0):
		return Unveil{}, fmt.Errorf("%q: the path contains a NUL byte", s)
	case !filepath.IsAbs(path):
		return Unveil{}, fmt.Errorf("%q: the path is relative: use an absolute one, such as ${NOMAD_TASK_DIR}/file", s)
	case strings.Contains(modes, "x") && !strings.Contains(modes, "r"):
		return Unveil{}, fmt.Errorf("%q: x without r has no effect, since running a program needs to read it: write \"r%s:%s\"", s, modes, path)
	}
	return Unveil{Modes: modes, Path: filepath.Clean(path)}, nil
}

// unveils parses a list of entries.
func unveils(f *drivers.Fields, errs *[]error, name string) []Unveil {
	var out []Unveil
	for _, s := range f.Strings(name) {
		u, err := ParseUnveil(s)
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		out = append(out, u)
	}
	return out
}

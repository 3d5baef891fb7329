package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// hidden is a directory to hide, by all its names in Mounts.Hide.
type hidden struct {
	real  string // path without links
	names []string
}

// hide mounts an empty directory on each of Mounts.Hide, and binds the granted paths into it. A
// directory that was granted itself is not hidden. With a Root, nothing stays visible: the sources of binds
// are open already.
func (p *Policy) hide(lookup *lookup) error {
	if len(p.Mounts.Hide) == 0 {
		return nil
	}
	dirs, err := p.hiddenDirs(lookup)
	if err != nil {
		return err
	}
	if p.Mounts.Root != nil { // grants are in the root
		for _, d := range dirs {
			if err := hideOne(lookup, d.real, nil); err != nil {
				return fmt.Errorf("hide %s: %w", d.real, err)
			}
		}
		return nil
	}
	linked := p.linked(lookup)
	for _, d := range dirs {
		stay := within(d.real, linked)
		for _, name := range append(d.names, d.real) {
			stay = append(stay, p.granted(name)...)
			if v := p.Mounts.View; v != (View{}) {
				stay = append(stay, within(name, []string{filepath.Join(v.Dir, v.Own)})...)
			}
		}
		if slices.ContainsFunc(stay, isWhole) {
			continue
		}
		if err := hideOne(lookup, d.real, stay); err != nil {
			return fmt.Errorf("hide %s: %w", d.real, err)
		}
	}
	return nil
}

func hideOne(lookup *lookup, dir string, stay []place) error {
	at, err := lookup.open(dir)
	if err != nil {
		return err
	}
	defer at.Close()
	s, err := mountOver(lookup, View{Dir: dir}, at, stay)
	s.tree.Close()
	return err
}

// hiddenDirs resolves Mounts.Hide. It skips directories that do not exist.
func (p *Policy) hiddenDirs(lookup *lookup) ([]hidden, error) {
	var out []hidden
	for _, dir := range p.Mounts.Hide {
		at, err := lookup.open(dir)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("hide %s: open: %w", dir, err)
		}
		real, err := at.path()
		is := isDir(int(at))
		at.Close()
		if err != nil || !is {
			return nil, fmt.Errorf("hide %s: not a directory, or its path cannot be read (%v)", dir, err)
		}
		i := slices.IndexFunc(out, func(h hidden) bool { return h.real == real })
		if i < 0 {
			i, out = len(out), append(out, hidden{real: real})
		}
		out[i].names = append(out[i].names, dir)
	}
	return out, nil
}

// linked lists the link-free paths of grants whose path contains a link, such as /etc/resolv.conf
// on a host whose resolver keeps it in /run.
func (p *Policy) linked(lookup *lookup) []string {
	if p.Files == nil {
		return nil
	}
	var out []string
	for _, q := range p.Files.Paths {
		fd, err := safefs.OpenNoLinks(q.full(), unix.O_PATH)
		if err == nil {
			unix.Close(fd)
		}
		if err != unix.ELOOP {
			continue
		}
		f, err := q.open(lookup)
		if err != nil {
			continue // openPaths reports it
		}
		if real, err := f.path(); err == nil {
			out = append(out, real)
		}
		f.Close()
	}
	return out
}

// within lists the paths strictly below dir.
func within(dir string, paths []string) []place {
	var out []place
	for _, path := range paths {
		if name, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(name) && name != "." {
			out = append(out, place{Path{Name: path}, name})
		}
	}
	return out
}

// path returns the path of an open file, without links.
func (o opened) path() (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(int(o)), buf)
	if err != nil {
		return "", fmt.Errorf("read the path of the descriptor: %w", err)
	}
	return string(buf[:n]), nil
}

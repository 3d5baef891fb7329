package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kept is a part of a directory that stays visible where the rest of it is hidden.
type kept struct {
	name string // below the directory
	tree tree
	dir  bool
}

// passMode lets everybody pass and nobody look around.
const passMode = 0o711

// attach mounts it at its name below base, which hides the rest.
func (k kept) attach(base tree) error {
	at, err := makeMountPoint(int(base), mountPoint{k.name, k.dir, passMode})
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := k.tree.restrict(false); err != nil {
		return err
	}
	return k.tree.attach(at)
}

// attachAll mounts what is kept of dir on base, which now is what is seen there.
func attachAll(all []kept, base tree, dir string) error {
	for _, k := range all {
		if err := k.attach(base); err != nil {
			return fmt.Errorf("keep %s: %w", filepath.Join(dir, k.name), err)
		}
	}
	return nil
}

func closeAll(all []kept) {
	for _, k := range all {
		k.tree.close()
	}
}

// copyKept copies places of a directory. What is not there is left out: whoever needs it
// says so.
func copyKept(look *lookup, places []place) ([]kept, error) {
	var out []kept
	for _, p := range places {
		f, err := p.open(look)
		if errors.Is(err, unix.ENOENT) || p.Optional && (isGone(err) || errors.Is(err, unix.EACCES)) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("open granted path %s: %w", p.Path, err)
		}
		t, err := copyTree(int(f.Fd()))
		k := kept{name: p.name, tree: t, dir: isDir(int(f.Fd()))}
		f.Close()
		if err != nil {
			return out, fmt.Errorf("copy granted path %s: %w", p.Path, err)
		}
		out = append(out, k)
	}
	return out, nil
}

// place is a path in a directory, and its name from there: "." is the directory.
type place struct {
	Path
	name string
}

// granted lists what the program was granted in dir, the working directory and the
// places of binds included.
func (p *Policy) granted(dir string) []place {
	all := []Path{{Name: filepath.Clean(p.Dir)}}
	if p.Files != nil {
		all = append(all, p.Files.Paths...)
	}
	for _, b := range p.Mounts.Binds {
		all = append(all, Path{Name: b.Target, Beneath: b.Beneath})
	}
	var out []place
	for _, q := range all {
		if name, err := filepath.Rel(dir, q.full()); err == nil && filepath.IsLocal(name) {
			out = append(out, place{q, name})
		}
	}
	return out
}

// uppermost leaves out what lies below another of the places.
func uppermost(all []place) []place {
	slices.SortStableFunc(all, func(a, b place) int { return strings.Compare(a.name+"/", b.name+"/") })
	var out []place
	for _, q := range all {
		if n := len(out); n == 0 || !strings.HasPrefix(q.name+"/", out[n-1].name+"/") {
			out = append(out, q)
		}
	}
	return out
}

// Sees says whether the program was granted dir itself, of which it then sees all that is
// there (View).
func (p *Policy) Sees(dir string) bool { return slices.ContainsFunc(p.granted(dir), isWhole) }

func isWhole(p place) bool { return p.name == "." }

// full is the whole path.
func (p Path) full() string { return filepath.Join(p.Beneath, p.Name) }

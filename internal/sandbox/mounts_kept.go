package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// kept is a part of a hidden directory that stays visible.
type kept struct {
	name string // below the directory
	tree safefs.Tree
	dir  bool
}

// passMode allows traversal but not listing.
const passMode = 0o711

// attach mounts k at its name below base, which hides the rest.
func (k kept) attach(base safefs.Tree) error {
	at, err := makeMountPoint(int(base), mountPoint{k.name, k.dir, passMode})
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := restrict(k.tree, false); err != nil {
		return err
	}
	return k.tree.Attach(at)
}

// attachAll mounts the kept parts of dir on base, which is now mounted there.
func attachAll(all []kept, base safefs.Tree, dir string) error {
	for _, k := range all {
		if err := k.attach(base); err != nil {
			return fmt.Errorf("keep %s: %w", filepath.Join(dir, k.name), err)
		}
	}
	return nil
}

func closeAll(all []kept) {
	for _, k := range all {
		k.tree.Close()
	}
}

// copyKept copies places of a directory. It omits those that do not exist; their users report that.
func copyKept(lookup *lookup, places []place) ([]kept, error) {
	var out []kept
	for _, p := range places {
		f, err := p.open(lookup)
		if errors.Is(err, unix.ENOENT) || p.Optional && (isGone(err) || errors.Is(err, unix.EACCES)) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("open granted path %s: %w", p.Path, err)
		}
		t, err := safefs.CopyTree(int(f.Fd()))
		k := kept{name: p.name, tree: t, dir: isDir(int(f.Fd()))}
		f.Close()
		if err != nil {
			return out, fmt.Errorf("copy granted path %s: %w", p.Path, err)
		}
		out = append(out, k)
	}
	return out, nil
}

// place is a path and its name relative to a directory: "." is the directory.
type place struct {
	Path
	name string
}

// granted lists the grants in dir, including the working directory and the places of binds.
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

// uppermost omits places below other places.
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

// Sees reports whether the program was granted dir itself. It then sees everything in it (View).
func (p *Policy) Sees(dir string) bool { return slices.ContainsFunc(p.granted(dir), isWhole) }

func isWhole(p place) bool { return p.name == "." }

// full returns the complete path.
func (p Path) full() string { return filepath.Join(p.Beneath, p.Name) }

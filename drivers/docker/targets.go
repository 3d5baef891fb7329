package docker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// target is where a mount of a created container leads.
type target struct {
	name string   // as given
	real string   // without symbolic links
	seen []string // every path that was looked up
}

// readTarget returns the destination of a symbolic link of a container, "" for other files and for none.
type readTarget func(name string) (string, error)

// checkTargets returns an error if a mount of a created container leads to a path of the kernel, or through a link into
// or inside another mount. A runtime follows the links when it mounts. The links of an image cannot change, but those of a
// mount can: then the mount would be at a path that nobody has checked. So the check is before the start, because a
// container that has ended is not compared with the kernel's view.
func checkTargets(mounts []container.MountPoint, link readTarget) error {
	if len(mounts) > maxMounts {
		return fmt.Errorf("the task and its image have %d mounts: at most %d are allowed", len(mounts), maxMounts)
	}
	var all []*target
	for _, m := range mounts {
		all = append(all, &target{name: path.Clean("/" + m.Destination)})
	}
	slices.SortStableFunc(all, func(a, b *target) int { // as the daemon sorts them
		return cmp.Or(cmp.Compare(strings.Count(a.name, "/"), strings.Count(b.name, "/")), cmp.Compare(a.name, b.name))
	})
	for i, t := range all {
		if err := t.resolve(all[:i], link); err != nil {
			return err
		}
	}
	for _, t := range all {
		for _, other := range all {
			if t == other || safefs.Within(t.name, other.name) {
				continue
			}
			if slices.ContainsFunc(t.seen, func(name string) bool { return safefs.Within(name, other.real) }) {
				return fmt.Errorf("a link of the image leads the mount at %q to %q, through the mount at %q: mount it at the path without the link",
					t.name, t.real, other.name)
			}
		}
	}
	return nil
}

// kernelPath reports whether nothing may be mounted at a path: it belongs to the kernel.
func kernelPath(name string) bool {
	return name == "/" || name == "/dev" || safefs.Within(name, "/proc") || safefs.Within(name, "/sys")
}

// resolve follows the links of a target, after those of the mounts before it.
func (t *target) resolve(before []*target, link readTarget) error {
	t.real = "/"
	rest := strings.Split(t.name, "/")
	for links := 0; len(rest) > 0 && !safefs.Within(t.real, "/proc") && !safefs.Within(t.real, "/sys"); {
		next := path.Join(t.real, rest[0])
		rest = rest[1:]
		to, err := link(next)
		if err != nil {
			return fmt.Errorf("find the mount at %q: %w", t.name, err)
		}
		t.seen = append(t.seen, next)
		if to == "" {
			t.real = next
			continue
		}
		for _, m := range before {
			if safefs.Within(next, m.real) {
				return fmt.Errorf("the mount at %q leads through the link %q inside the mount at %q: replace the link with a directory", t.name,
					next, m.name)
			}
		}
		if links++; links > maxLinks {
			return fmt.Errorf("the mount at %q leads through more than %d links", t.name, maxLinks)
		}
		if path.IsAbs(to) {
			t.real = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	if kernelPath(t.real) {
		return fmt.Errorf("the task or its image has a mount at %q, and %q belongs to the kernel: mount it at another path", t.name, t.real)
	}
	return nil
}

// Limits of one check. For each path, the daemon mounts everything that the container has, about 0.3 ms for one mount, and
// an image can have thousands of volumes.
const (
	maxMounts  = 160
	maxMounted = 32768 // by the daemon, for all paths
)

// readLinks returns the links of a created container. The daemon's stat reports the last destination only, so a link is
// read from the archive.
func (d *Driver) readLinks(ctx context.Context, id string, mounts int) readTarget {
	known, missing := map[string]string{"/": ""}, map[string]bool{}
	return func(name string) (string, error) {
		to, ok := known[name]
		if ok || missing[path.Dir(name)] {
			missing[name] = missing[name] || missing[path.Dir(name)]
			return to, nil
		}
		if len(known)*mounts > maxMounted {
			return "", fmt.Errorf("the task and its image have %d mounts, with more than %d directories in their paths: use fewer", mounts,
				len(known))
		}
		got, err := d.api.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: name})
		switch {
		case cerrdefs.IsNotFound(err):
			missing[name], err = true, nil
		case err == nil && got.Stat.Mode&os.ModeSymlink != 0:
			if _, to, err = d.copyOut(ctx, id, name); err == nil && to == "" {
				err = fmt.Errorf("the link %q has changed", name)
			}
		}
		if err != nil {
			return "", &drivers.RecoverableError{Err: err}
		}
		known[name] = to
		return to, nil
	}
}

package sandbox

import (
	"maps"
	"path/filepath"
	"slices"
)

// RealPath returns the path of an existing file, without links, and the paths of the links that it has followed. It
// follows only links that root alone can have created, as the lookups of a policy do: a task may have created another
// one. A container that runs as root can create such a link too, in a volume: the caller checks where the links are.
func RealPath(name string) (path string, links []string, err error) {
	name, err = filepath.Abs(name)
	if err != nil {
		return "", nil, err
	}
	lookup := &lookup{followed: map[string]string{}}
	f, err := lookup.open(name)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	path, err = f.path()
	return path, slices.Sorted(maps.Keys(lookup.followed)), err
}

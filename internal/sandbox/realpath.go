package sandbox

import "path/filepath"

// RealPath returns the path of an existing file, without links. It follows only links that root alone can
// have created, as the lookups of a policy do: a task may have created another one.
func RealPath(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	f, err := (&lookup{}).open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return f.path()
}

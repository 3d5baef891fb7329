package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Groups lists the matches of a pattern below the agents' cgroup_parent, in every hierarchy. The
// empty pattern matches cgroup_parent itself.
func Groups(parent, pattern string) ([]string, error) {
	var out []string
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, err := filepath.Glob(filepath.Join(root, parent, pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// RemoveGroups removes the agents' cgroup_parent and the groups below it, in every hierarchy. The
// supervisor may still be in one of them after its agent has ended. RemoveGroups therefore retries
// until patience has passed.
func RemoveGroups(parent string, patience time.Duration) error {
	dirs, err := Groups(parent, "")
	if err != nil {
		return err
	}
	late := time.Now().Add(patience)
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, removeGroup(dir, late))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string, late time.Time) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove control group: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, removeGroup(filepath.Join(dir, e.Name()), late))
		}
	}
	for ; ; time.Sleep(poll) {
		err := unix.Rmdir(dir)
		if err == unix.EBUSY && time.Now().Before(late) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
		}
		return errors.Join(errs...)
	}
}

package exec2

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// private is the mode of the task's own directories.
const private = 0o700

// prepareDirectories makes the task's temporary directory, and gives the task's own directories to
// its user only. The zero Account does not change owners. It uses descriptors, starting at the
// allocation's directory, which belongs to root, since an earlier start may have left links.
func prepareDirectories(cfg *drivers.TaskConfig, acc process.Account) error {
	root, err := unix.Open(cfg.AllocDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open allocation directory %s: %w", cfg.AllocDir, err)
	}
	defer unix.Close(root)
	if err := makeTmp(root, cfg); err != nil || acc.Name == "" {
		return err
	}
	for _, dir := range []string{cfg.LocalDir, cfg.SecretsDir, tmpDir(cfg)} {
		if err := own(root, cfg.AllocDir, dir, acc); err != nil {
			return fmt.Errorf("give %s to uid %d: %w", dir, acc.UID, err)
		}
	}
	return nil
}

func own(root int, base, dir string, acc process.Account) error {
	fd, err := openBeneath(root, base, dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, int(acc.UID), int(acc.GID)); err != nil {
		return err
	}
	return unix.Fchmod(fd, private)
}

// makeTmp makes the task's temporary directory if the client did not.
func makeTmp(root int, cfg *drivers.TaskConfig) error {
	task, err := openBeneath(root, cfg.AllocDir, cfg.TaskDir)
	if err != nil {
		return fmt.Errorf("open task directory %s: %w", cfg.TaskDir, err)
	}
	defer unix.Close(task)
	if err := unix.Mkdirat(task, filepath.Base(tmpDir(cfg)), private); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make temporary directory: %w", err)
	}
	return nil
}

func openBeneath(root int, base, dir string) (int, error) {
	rel, err := filepath.Rel(base, dir)
	if err != nil {
		return -1, err
	}
	return unix.Openat2(root, rel, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
}

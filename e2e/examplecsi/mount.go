package main

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mountFlags are the mount flags of volumes.
var mountFlags = map[string]uintptr{"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV,
	"noexec": unix.MS_NOEXEC, "noatime": unix.MS_NOATIME}

// parse returns the value of mount flags.
func parse(names []string) (flags uintptr, err error) {
	for _, name := range names {
		flag, ok := mountFlags[name]
		if !ok { // flags may contain passwords, so the error does not name it
			return 0, status.Error(codes.InvalidArgument, "unknown mount flag")
		}
		flags |= flag
	}
	return flags, nil
}

// mounted reports whether a path is a mount point.
func mounted(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, err
}

// bind mounts a file or directory at a path, unless something is mounted there.
func bind(from, to string, flags uintptr) error {
	if done, err := mounted(to); done || err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return &fs.PathError{Op: "bind mount", Path: to, Err: err}
	}
	if flags == 0 {
		return nil
	}
	if err := unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return errors.Join(&fs.PathError{Op: "remount", Path: to, Err: err}, unix.Unmount(to, 0))
	}
	return nil
}

// unbind unmounts a path. One that is not mounted is not an error.
func unbind(path string) error {
	for {
		if is, err := mounted(path); !is || err != nil {
			return err
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return &fs.PathError{Op: "unmount", Path: path, Err: err}
		}
	}
}

// touch makes a file to mount on, if it does not exist.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

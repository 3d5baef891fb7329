package safefs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// These functions open single files with openat2(2), for callers that hold descriptors of their
// own. The flags are those of open(2) without O_CREAT and O_TMPFILE; O_CLOEXEC is added. No symbolic
// link is followed, except by OpenBeneathFollow, nor a magic link of /proc. With O_PATH|O_NOFOLLOW a link in the last element is
// opened itself. The errors are plain values of unix.Errno, with the descriptor -1:
//
//	ELOOP   the path contains a link
//	EXDEV   the path leaves the directory or, in a NoXDev function, crosses a mount point
//
// A lookup that was interrupted, or raced with a rename, is repeated; it fails with EAGAIN if that
// does not help.

// OpenBeneath opens name below the directory of the descriptor dir. The name must be relative, and
// no ".." in it may lead out of the directory.
func OpenBeneath(dir int, name string, flags int) (int, error) {
	return openat2(dir, name, unix.OpenHow{Flags: uint64(flags), Resolve: beneath})
}

// OpenBeneathFollow is OpenBeneath that follows symbolic links which stay below the directory. A link
// that leaves it fails with EXDEV. Magic links of /proc are not followed.
func OpenBeneathFollow(dir int, name string, flags int) (int, error) {
	return openat2(dir, name, unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
}

// OpenBeneathNoXDev is OpenBeneath for files on the mount of dir only.
func OpenBeneathNoXDev(dir int, name string, flags int) (int, error) {
	return openat2(dir, name, unix.OpenHow{Flags: uint64(flags), Resolve: beneath | unix.RESOLVE_NO_XDEV})
}

// OpenNoLinks opens the absolute path name.
func OpenNoLinks(name string, flags int) (int, error) {
	return openat2(unix.AT_FDCWD, name, unix.OpenHow{Flags: uint64(flags), Resolve: noLinks})
}

// OpenFollow opens the absolute path name. It follows symbolic links, but not the magic links of /proc.
func OpenFollow(name string, flags int) (int, error) {
	return openat2(unix.AT_FDCWD, name, unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_MAGICLINKS})
}

// OpenNoLinksNoXDev is OpenNoLinks for files on the mount of / only.
func OpenNoLinksNoXDev(name string, flags int) (int, error) {
	return openat2(unix.AT_FDCWD, name, unix.OpenHow{Flags: uint64(flags), Resolve: noLinks | unix.RESOLVE_NO_XDEV})
}

// The RESOLVE_* masks of lookups.
const (
	noLinks = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	beneath = unix.RESOLVE_BENEATH | noLinks
)

func openat2(dir int, name string, how unix.OpenHow) (int, error) {
	how.Flags |= unix.O_CLOEXEC
	return retry(func() (int, error) { return unix.Openat2(dir, name, &how) })
}

// retry repeats a call that was interrupted by a signal, or whose lookup raced with a rename.
func retry(call func() (int, error)) (int, error) {
	for range 128 {
		n, err := call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
	}
	return -1, unix.EAGAIN
}

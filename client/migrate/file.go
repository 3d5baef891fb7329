package migrate

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// attributes is the mode, the owner, the time and the size of an entry.
type attributes struct {
	mode     fs.FileMode
	uid, gid int // -1 keeps the owner
	time     time.Time
	size     int64 // of a regular file
}

// attributesOf returns the attributes of an entry. It has no setuid or setgid bit.
func (x *extraction) attributesOf(name string, h *tar.Header) (attributes, error) {
	as := attributes{mode: fs.FileMode(h.Mode & 0o777), uid: -1, gid: -1, time: h.ModTime, size: h.Size}
	if h.Mode&0o1000 != 0 {
		as.mode |= fs.ModeSticky
	}
	if os.Geteuid() != 0 {
		return as, nil
	}
	for _, id := range []int{h.Uid, h.Gid} {
		if id < 0 || id >= math.MaxUint32 {
			return as, fmt.Errorf("%w: %d is not a valid owner", ErrRefused, id)
		}
	}
	as.uid, as.gid = h.Uid, h.Gid
	if x.target.Owner == nil {
		return as, nil
	}
	task, dynamic := strings.CutPrefix(h.Uname, ownerPrefix)
	if !dynamic {
		task = ""
	}
	gid := h.Gid
	if strings.HasPrefix(h.Gname, ownerPrefix) { // it is a number of the sender
		if gid = 0; dynamic {
			gid = h.Uid
		}
	}
	var err error
	as.uid, as.gid, err = x.target.Owner(name, task, h.Uid, gid)
	return as, err
}

// apply sets the owner and the mode of a directory.
func (l attributes) apply(dir *safefs.Dir) error {
	return errors.Join(dir.Chown(l.uid, l.gid), dir.Chmod(l.mode), l.touch(dir.FD()))
}

// touch sets the time of an open file.
func (l attributes) touch(fd int) error {
	at := unix.NsecToTimeval(l.time.UnixNano())
	if err := unix.Futimes(fd, []unix.Timeval{at, at}); err != nil {
		return fmt.Errorf("set the time: %w", err)
	}
	return nil
}

// link creates a symbolic link.
func link(dir *safefs.Dir, name, target string, as attributes) error {
	if err := dir.Symlink(target, name); err != nil {
		return refuseTwice(err)
	}
	return dir.SetOwner(name, as.uid, as.gid)
}

// refuseTwice explains the error for a name that exists.
func refuseTwice(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: the name occurs twice: %w", ErrRefused, err)
	}
	return err
}

// file creates a regular file. Runs of zero bytes become holes.
func (x *extraction) file(dir *safefs.Dir, name string, as attributes, r io.Reader) error {
	f, err := dir.Create(name, 0o600)
	if err != nil {
		return refuseTwice(err)
	}
	err = x.fill(f, as.size, r)
	if err == nil {
		err = f.Chown(as.uid, as.gid)
	}
	if err == nil {
		err = f.Chmod(as.mode)
	}
	if err == nil {
		err = as.touch(int(f.Fd()))
	}
	return errors.Join(err, f.Close())
}

// fill writes the content of a file. Each block is counted before it is written.
func (x *extraction) fill(f *os.File, size int64, r io.Reader) error {
	block := make([]byte, 64<<10)
	for at := int64(0); at < size; {
		n, err := io.ReadFull(r, block[:min(int64(len(block)), size-at)])
		if err != nil {
			return err
		}
		if err := x.put(f, block[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return f.Truncate(size)
}

// put writes the parts of a block that are not zero.
func (x *extraction) put(f *os.File, block []byte, at int64) error {
	for from := 0; from < len(block); {
		to := from
		for to < len(block) && !zero(block[to:min(to+entrySize, len(block))]) {
			to = min(to+entrySize, len(block))
		}
		if to == from {
			from = min(from+entrySize, len(block))
			continue
		}
		x.used += int64(to - from)
		if err := x.fits(); err != nil {
			return err
		}
		if _, err := f.WriteAt(block[from:to], at+int64(from)); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// zero reports whether all bytes are zero.
func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

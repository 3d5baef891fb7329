package migrate

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// ownerPrefix begins the user name of an entry whose owner is the dynamic user of a task, and the group name of an entry
// whose group is that of such a user.
const ownerPrefix = "nomad-task:"

// maxEntries is the maximum number of entries of a snapshot.
const maxEntries = 4 << 20

// Source is the directory of a finished allocation.
type Source struct {
	Dir     *safefs.Dir
	AllocID string
	Tasks   []string
	// TaskOf returns the task whose dynamic user has the uid, "" for other uids. It may be nil.
	TaskOf func(uid int) string
}

// errCut means that an entry of the tar is incomplete, so that no further entry can follow.
var errTruncated = errors.New("the entry is incomplete")

// Write writes the tar. The same data always gives the same bytes. After most errors, the tar is
// valid and ends with an entry that has the error. After an error that wraps errCut it is not.
// Sockets, FIFOs and devices are left out.
func (s Source) Write(ctx context.Context, w io.Writer) error {
	t := &snapshot{source: s, w: tar.NewWriter(w)}
	found, err := s.roots()
	for _, r := range found {
		if err == nil {
			err = t.data(ctx, r)
		}
	}
	if err == nil {
		err = s.unchanged(found)
	}
	if err != nil && !errors.Is(err, errTruncated) {
		err = errors.Join(err, t.fail(err))
	}
	if err != nil {
		return fmt.Errorf("snapshot of allocation %s: %w", s.AllocID, errors.Join(err, t.finish(err)))
	}
	if err := t.w.Close(); err != nil {
		return fmt.Errorf("snapshot of allocation %s: %w", s.AllocID, err)
	}
	return nil
}

// snapshot is one tar that is being written.
type snapshot struct {
	source  Source
	w       *tar.Writer
	entries int
}

// finish ends a tar whose last entry is an error.
func (t *snapshot) finish(err error) error {
	if errors.Is(err, errTruncated) {
		return nil
	}
	return t.w.Close()
}

// fail writes the entry for an error.
func (t *snapshot) fail(err error) error {
	text := "Error snapshotting: " + err.Error()
	head := &tar.Header{Typeflag: tar.TypeReg, Name: errorName(t.source.AllocID), Size: int64(len(text)), Mode: 0o666}
	if err := t.w.WriteHeader(head); err != nil {
		return fmt.Errorf("%w: %w", errTruncated, err)
	}
	if _, err := io.WriteString(t.w, text); err != nil {
		return fmt.Errorf("%w: %w", errTruncated, err)
	}
	return nil
}

func errorName(alloc string) string { return "NOMAD-" + alloc + "-ERROR.log" }

// root is a data directory of the allocation.
type root struct {
	parent, name string
	id           safefs.ID
}

func (r root) String() string { return r.parent + "/" + r.name }

// roots returns the data directories that exist. A task that never started has none.
func (s Source) roots() ([]root, error) {
	all := []root{{parent: allocdir.SharedName, name: allocdir.DataName}}
	for _, task := range slices.Sorted(slices.Values(s.Tasks)) {
		all = append(all, root{parent: task, name: allocdir.LocalName})
	}
	var found []root
	for _, r := range all {
		above, err := s.Dir.Sub(r.parent)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		info, err := above.Lstat(r.name)
		above.Close() // nothing was modified
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case !info.Mode.IsDir():
			return nil, fmt.Errorf("%s is not a directory", r)
		}
		r.id = info.ID
		found = append(found, r)
	}
	return found, nil
}

// unchanged returns an error if the directory of the allocation, or one of its data directories, was removed while it
// was read: what was missing then looks like a directory without data.
func (s Source) unchanged(before []root) error {
	var st unix.Stat_t
	if err := unix.Fstat(s.Dir.FD(), &st); err != nil {
		return fmt.Errorf("stat the directory of the allocation: %w", err)
	}
	now, err := s.roots()
	if err != nil {
		return err
	}
	if st.Nlink == 0 || !slices.Equal(before, now) {
		return errors.New("its data was removed or moved while it was read")
	}
	return nil
}

// data writes one data directory.
func (t *snapshot) data(ctx context.Context, r root) error {
	above, err := t.source.Dir.Sub(r.parent)
	if err != nil {
		return err
	}
	defer above.Close()
	return t.directory(ctx, place{above, r.name, r.String(), maxDepth})
}

// place is an entry of a directory.
type place struct {
	dir        *safefs.Dir
	name, path string // path is relative to the allocation's directory
	depth      int    // of the directories that may follow
}

// directory writes a directory and everything below it, in the order of the names.
func (t *snapshot) directory(ctx context.Context, p place) error {
	if p.depth == 0 {
		return fmt.Errorf("%s: more than %d levels of directories", p.path, maxDepth)
	}
	dir, err := p.dir.Sub(p.name)
	if err != nil {
		return err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(dir.FD(), &st); err != nil {
		return fmt.Errorf("stat %s: %w", p.path, err)
	}
	if err := t.header(&st, &tar.Header{Typeflag: tar.TypeDir, Name: p.path + "/"}); err != nil {
		return err
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", errTruncated, err)
		}
		if err := t.entry(ctx, place{dir, name, p.path + "/" + name, p.depth - 1}); err != nil {
			return err
		}
	}
	return nil
}

// entry writes one entry of a directory.
func (t *snapshot) entry(ctx context.Context, p place) error {
	info, err := p.dir.Lstat(p.name)
	switch {
	case err != nil:
		return err
	case info.Mode.IsDir():
		return t.directory(ctx, p)
	case info.Mode.IsRegular():
		return t.file(p.dir, p.name, p.path)
	case info.Mode.Type() == fs.ModeSymlink:
		target, err := p.dir.ReadLink(p.name)
		if err != nil {
			return err
		}
		st := unix.Stat_t{Mode: 0o777, Uid: uint32(info.UID), Gid: uint32(info.GID)}
		return t.header(&st, &tar.Header{Typeflag: tar.TypeSymlink, Name: p.path, Linkname: target})
	}
	return nil // a socket, a FIFO or a device
}

// file writes a regular file with the size that it has when it is opened.
func (t *snapshot) file(dir *safefs.Dir, name, path string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if err := t.header(&st, &tar.Header{Typeflag: tar.TypeReg, Name: path, Size: st.Size}); err != nil {
		return err
	}
	n, err := io.Copy(t.w, io.LimitReader(f, st.Size))
	if err == nil && n < st.Size {
		err = fmt.Errorf("%d bytes of %d", n, st.Size)
	}
	if err != nil {
		return fmt.Errorf("%w: read %s: %w", errTruncated, path, err)
	}
	return nil
}

// header writes the header of an entry with the mode, the owner and the time of st.
func (t *snapshot) header(st *unix.Stat_t, h *tar.Header) error {
	if t.entries++; t.entries > maxEntries {
		return fmt.Errorf("more than %d files", maxEntries)
	}
	h.Mode = int64(st.Mode & 0o1777)
	h.Uid, h.Gid = int(st.Uid), int(st.Gid)
	h.ModTime = time.Unix(st.Mtim.Sec, 0)
	if t.source.TaskOf != nil {
		if task := t.source.TaskOf(h.Uid); task != "" {
			h.Uname = ownerPrefix + task
		}
		if task := t.source.TaskOf(h.Gid); task != "" {
			h.Gname = ownerPrefix + task
		}
	}
	if err := t.w.WriteHeader(h); err != nil {
		return fmt.Errorf("%w: write the header of %s: %w", errTruncated, h.Name, err)
	}
	return nil
}

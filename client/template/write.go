package template

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// dirMode is the mode of missing directories of a destination.
const dirMode = 0o755

// attributes returns the mode and owner of a file.
func (r *run) attributes(e *entry) safefs.File {
	f := safefs.File{Mode: e.mode, UID: r.s.UID, GID: r.s.GID}
	if e.t.Uid != nil && *e.t.Uid >= 0 {
		f.UID = *e.t.Uid
	}
	if e.t.Gid != nil && *e.t.Gid >= 0 {
		f.GID = *e.t.Gid
	}
	return f
}

// base calls f with the directory of a place.
func (r *run) base(at place, f func(*safefs.Dir) error) error {
	if !at.shared {
		return f(r.s.Dir.Root())
	}
	dir, err := r.t.deps.Shared()
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(dir)
}

// write replaces the file of a template with size bytes of body. It reports whether the file has
// changed. Every lookup starts at an open directory and follows no link.
func (r *run) write(e *entry, body io.Reader, size int) (changed bool, err error) {
	err = r.base(e.to, func(base *safefs.Dir) error {
		into, err := base.MakeAll(path.Dir(e.to.name), dirMode, r.s.UID, r.s.GID)
		if err != nil {
			return err
		}
		defer into.Close()
		changed, err = r.replace(into, e, body, size)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("write the file: %w", err)
	}
	return changed, nil
}

// errShort is about the stream from the program, not about the file.
var errShort = errors.New("the program sent less than the rendered text")

func (r *run) replace(into *safefs.Dir, e *entry, body io.Reader, size int) (changed bool, err error) {
	w, err := into.Draft()
	if err != nil {
		return false, err
	}
	defer w.Discard()
	n, err := io.Copy(w, body)
	if err == nil && n < int64(size) {
		err = errShort
	}
	if err != nil {
		return false, err
	}
	name, want := path.Base(e.to.name), r.attributes(e)
	if same, err := w.Same(name, want); err != nil || same {
		return false, err
	}
	return true, w.Commit(name, want)
}

// open calls read with the file of a template.
func (r *run) open(e *entry, read func(io.Reader) error) error {
	return r.base(e.to, func(base *safefs.Dir) error {
		f, err := base.Open(e.to.name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return errors.New("not a regular file")
		}
		return read(f)
	})
}

// exists reports whether the file of a template can be opened.
func (r *run) exists(e *entry) bool { return r.open(e, func(io.Reader) error { return nil }) == nil }

package safefs

import (
	"bytes"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Draft is a new file under a random name, which becomes the file of a name with Commit. The caller
// must call Discard; after Commit it does nothing.
type Draft struct {
	dir  *Dir
	name string // "" after Commit
	f    *os.File
}

// Draft creates a Draft in the directory. Only its owner and root can open it.
func (d *Dir) Draft() (*Draft, error) {
	name, err := unique(".new-")
	if err != nil {
		return nil, err
	}
	fd, err := d.openat(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Draft{dir: d, name: name, f: os.NewFile(uintptr(fd), path.Join(d.Name(), name))}, nil
}

// Write implements io.Writer.
func (w *Draft) Write(p []byte) (int, error) { return w.f.Write(p) }

// Same reports whether the file name, one level down, is a regular file with the same content,
// mode and owner as the Draft would have. A link, or a name that does not exist, is different.
func (w *Draft) Same(name string, attributes File) (bool, error) {
	if err := single(name); err != nil {
		return false, err
	}
	other, err := w.dir.Open(name)
	if err != nil {
		return false, nil // Commit replaces it, or reports the error
	}
	defer other.Close()
	if same, err := hasAttributes(other, attributes); err != nil || !same {
		return false, err
	}
	return w.sameContent(other)
}

// hasAttributes reports whether a file is regular, and has the mode and owner.
func hasAttributes(f *os.File, attributes File) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, err
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o7777 == unixMode(attributes.Mode) &&
		(attributes.UID == -1 || attributes.UID == int(st.Uid)) && (attributes.GID == -1 || attributes.GID == int(st.Gid)), nil
}

// sameContent compares the content, of which it holds a small part at a time.
func (w *Draft) sameContent(other *os.File) (bool, error) {
	own, err := w.f.Stat()
	if err != nil {
		return false, err
	}
	section := io.NewSectionReader(w.f, 0, own.Size())
	a, b := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, err := io.ReadFull(section, a)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, err
		}
		// One byte more than there is in the Draft shows a longer file.
		m, otherErr := io.ReadFull(other, b[:min(n+1, len(b))])
		if otherErr != nil && otherErr != io.EOF && otherErr != io.ErrUnexpectedEOF {
			return false, otherErr
		}
		if n != m || !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if err != nil {
			return true, nil
		}
	}
}

// Commit sets the owner and the mode, and renames the Draft to name, one level down. A link at that
// name is replaced.
func (w *Draft) Commit(name string, attributes File) error {
	if err := single(name); err != nil {
		return err
	}
	var err error
	if attributes.UID != -1 || attributes.GID != -1 {
		err = w.f.Chown(attributes.UID, attributes.GID)
	}
	if err == nil {
		err = w.f.Chmod(attributes.Mode)
	}
	if err == nil {
		err = w.f.Close()
	}
	if err == nil {
		err = unix.Renameat(w.dir.FD(), w.name, w.dir.FD(), name)
	}
	if err != nil {
		return w.dir.fail("replace", name, err)
	}
	w.name = ""
	return nil
}

// Discard removes the Draft unless it was committed.
func (w *Draft) Discard() {
	if w.name == "" {
		return
	}
	w.f.Close() // its content is not used, or it is closed already
	// Best effort: the directory may have been removed.
	_ = unix.Unlinkat(w.dir.FD(), w.name, 0)
	w.name = ""
}

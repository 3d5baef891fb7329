// Package logs reads the files of an allocation for the fs and logs endpoints. It lists
// directories, stats files, and streams single files and the rotated logs of tasks.
//
// The tasks own the files below an allocation's directory, so no name is trusted. The kernel
// resolves paths beneath a descriptor of the directory, never through a symbolic link or onto
// another file system. A file is opened only after a check that it is regular, so that no FIFO
// or device is opened. Directories with secrets (<task>/secrets, <task>/private) are neither
// listed nor read, in any spelling.
//
// A stream is a sequence of frames of at most 64 KiB:
//
//	open ──▶ read ──data──▶ read
//	          │ end of file: next rotated log, or
//	          ├─ not following ──▶ end
//	          └─ following ──▶ wait (inotify, and once a second) ──▶ read
//
// A stream runs in its caller's goroutine. A followed stream has one more goroutine, which
// reads inotify events.
package logs

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// sharedDir is the directory below the allocation that all tasks share. Each other directory is
// a task's.
const sharedDir = "alloc"

// Tree is the directory of one allocation, with the access allowed to API clients.
type Tree struct{ dir *os.File }

// OpenTree opens the directory of an allocation. Tasks must not be able to change the path
// itself.
func OpenTree(dir string) (*Tree, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, apierror.Errorf(http.StatusNotFound, "allocation directory is gone")
	}
	if err != nil {
		return nil, fmt.Errorf("open allocation directory: %w", err)
	}
	return &Tree{dir: os.NewFile(uintptr(fd), dir)}, nil
}

// Close closes the directory. Running streams continue.
func (t *Tree) Close() error { return t.dir.Close() }

// List returns the entries of a directory, sorted by name.
func (t *Tree) List(name string) ([]*message.AllocFileInfo, error) {
	rel, err := clean(name)
	if err != nil {
		return nil, err
	}
	dir, err := t.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, explain(name, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", name, err)
	}
	files := make([]*message.AllocFileInfo, 0, len(names))
	for _, entry := range names {
		if at := path.Join(rel, entry); !forbidden(at) && !isIndex(at) {
			if d, err := t.describeAt(at); err == nil { // otherwise removed since, or inaccessible
				files = append(files, d)
			}
		}
	}
	slices.SortFunc(files, func(a, b *message.AllocFileInfo) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// Stat describes a file, a directory or a symbolic link. It does not follow links.
func (t *Tree) Stat(name string) (*message.AllocFileInfo, error) {
	rel, err := clean(name)
	if err != nil {
		return nil, err
	}
	handle, err := t.open(rel, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, explain(name, err)
	}
	defer handle.Close()
	info, err := handle.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat %q: %w", name, err)
	}
	d := describe(info)
	d.Name = path.Base("/" + rel)
	if info.Mode().IsRegular() {
		d.ContentType = contentType(handle, rel)
	}
	return d, nil
}

// describeAt describes an entry of a directory.
func (t *Tree) describeAt(rel string) (*message.AllocFileInfo, error) {
	handle, err := t.open(rel, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	d := describe(info)
	d.Name = path.Base(rel)
	return d, nil
}

// Open opens a regular file for reading. It does not open any other kind of file.
func (t *Tree) Open(name string) (*os.File, error) {
	rel, err := clean(name)
	if err != nil {
		return nil, err
	}
	file, err := t.openRegular(rel)
	if err != nil {
		return nil, explain(name, err)
	}
	return file, nil
}

// errNotRegular is returned for an existing path that is not a regular file.
var errNotRegular = errors.New("not a regular file")

// openRegular checks the file type before it opens the file, because opening a FIFO or a device
// has side effects.
func (t *Tree) openRegular(rel string) (*os.File, error) {
	handle, err := t.open(rel, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	return reopen(handle)
}

// open resolves rel beneath the tree.
func (t *Tree) open(rel string, flags int) (*os.File, error) {
	if rel == "" {
		rel = "."
	}
	fd, err := safefs.OpenBeneathNoXDev(int(t.dir.Fd()), rel, flags)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// reopen opens a checked O_PATH handle for reading.
func reopen(handle *os.File) (*os.File, error) {
	fd, err := unix.Open(procPath(handle), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), handle.Name()), nil
}

// procPath returns the /proc path of an open descriptor.
func procPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// clean returns the path relative to the tree, "" for its root. It rejects paths that leave the
// allocation or lead to secrets.
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", apierror.Errorf(http.StatusBadRequest, "path contains a NUL byte")
	}
	rel := path.Clean(strings.TrimLeft(name, "/"))
	if rel == "." {
		return "", nil
	}
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", apierror.Errorf(http.StatusForbidden, "path escapes the alloc directory")
	}
	if forbidden(rel) {
		return "", apierror.Errorf(http.StatusForbidden, "reading secret file prohibited: %s", rel)
	}
	return rel, nil
}

// forbidden reports whether a clean path is <task>/secrets or <task>/private, or below one of
// them.
func forbidden(rel string) bool {
	parts := strings.SplitN(rel, "/", 3)
	if len(parts) < 2 || parts[0] == sharedDir {
		return false
	}
	switch fold(parts[1]) {
	case "secrets", "private":
		return true
	}
	return false
}

// isIndex reports whether a clean path may be an index of log files or a position of a log sink, which are
// not listed.
func isIndex(rel string) bool {
	internal := strings.HasPrefix(rel, proc.LogIndexName("")) || strings.HasPrefix(rel, sinkPrefix)
	return internal && !strings.Contains(rel, "/")
}

// fold maps names to the same string if a file system may treat them as equal.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.IsSpace(r) {
			return -1
		}
		// Use the smallest rune of the fold orbit: 's', 'S' and 'ſ' are equal.
		low := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			low = min(low, next)
		}
		return unicode.ToLower(low)
	}, norm.NFKC.String(name))
}

// explain converts errors of the kernel to errors with a status and without host paths.
func explain(name string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return apierror.Errorf(http.StatusNotFound, "file %q not found", name)
	case errors.Is(err, unix.ELOOP):
		return apierror.Errorf(http.StatusForbidden, "path %q goes through a symbolic link", name)
	case errors.Is(err, unix.EXDEV):
		return apierror.Errorf(http.StatusForbidden, "path %q leaves the alloc directory", name)
	case errors.Is(err, errNotRegular), errors.Is(err, unix.EISDIR):
		return apierror.Errorf(http.StatusBadRequest, "%q is not a regular file", name)
	}
	return fmt.Errorf("open %q: %w", name, err)
}

func describe(info os.FileInfo) *message.AllocFileInfo {
	return &message.AllocFileInfo{
		Name:     info.Name(),
		IsDir:    info.IsDir(),
		Size:     info.Size(),
		FileMode: info.Mode().String(),
		ModTime:  info.ModTime(),
	}
}

// contentType detects the type from the file name, else from the first bytes.
func contentType(handle *os.File, rel string) string {
	if byName := mime.TypeByExtension(filepath.Ext(rel)); byName != "" {
		return byName
	}
	file, err := reopen(handle)
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	return http.DetectContentType(head[:n])
}

package migrate

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// maxErrorText bounds the text of the sender's error.
const maxErrorText = 1024

// maxShown bounds a name in an error.
const maxShown = 256

// maxPadding bounds the bytes after the end of the tar.
const maxPadding = 1 << 20

// Receive extracts a snapshot into a staging directory and moves it into the allocation's
// directory when the stream has ended and was verified. On error the data directories are empty.
func (t Target) Receive(r io.Reader, l Limits) (err error) {
	if err := t.Clear(); err != nil {
		return err
	}
	staging, err := t.Dir.Make(stagingName, 0o700)
	if err != nil {
		return fmt.Errorf("receive data: %w", err)
	}
	defer func() {
		err = errors.Join(err, staging.Close(), t.Dir.RemoveAll(stagingName))
	}()
	x := &extraction{target: t, root: staging, limits: l}
	defer x.close()
	if err := x.run(&bounded{r: r, left: expansion * l.Bytes}); err != nil {
		return fmt.Errorf("receive data: %w", err)
	}
	if err := t.moveAll(staging); err != nil {
		return errors.Join(fmt.Errorf("receive data: %w", err), t.Clear())
	}
	return nil
}

// bounded fails after a number of bytes.
type bounded struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: the stream is longer than %d times the disk of the group", ErrRefused, expansion)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// extraction is one stream that is being extracted below root.
type extraction struct {
	target  Target
	root    *safefs.Dir
	limits  Limits
	used    int64 // disk space
	logical int64 // length of the files, with holes
	dirs    []directory

	// The directory of the last entry stays open, since most entries share it.
	parent     *safefs.Dir
	parentPath string
}

// directory gets its owner and mode after its entries.
type directory struct {
	path       string
	attributes attributes
}

func (x *extraction) close() {
	if x.parent != nil {
		x.parent.Close() // opened for reading
	}
}

func (x *extraction) run(r io.Reader) error {
	entries := tar.NewReader(r)
	for {
		h, err := entries.Next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is an error of the stream
			break
		}
		if err != nil {
			return err
		}
		if err := x.entry(h, entries); err != nil {
			return fmt.Errorf("entry %q: %w", untrusted.Shorten(h.Name, maxShown), err)
		}
	}
	// The end of the stream is after that of the tar. The digest is checked there.
	switch n, err := io.CopyN(io.Discard, r, maxPadding); {
	case err == nil:
		return fmt.Errorf("%w: more than %d bytes after the end of the tar", ErrRefused, n)
	case err != io.EOF: //nolint:errorlint // as above
		return err
	}
	for _, d := range slices.Backward(x.dirs) {
		dir, err := x.root.Sub(d.path)
		if err != nil {
			return err
		}
		err = errors.Join(d.attributes.apply(dir), dir.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// entry extracts one entry, or leaves it out if the new group has no place for it.
func (x *extraction) entry(h *tar.Header, r io.Reader) error {
	name, err := cleaned(h.Name)
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "NOMAD-") && strings.HasSuffix(name, "-ERROR.log") {
		text, _ := io.ReadAll(io.LimitReader(r, maxErrorText)) // a truncated text is still useful
		return fmt.Errorf("the sender failed: %q", text)
	}
	if err := x.count(h); err != nil {
		return err
	}
	wanted, err := x.wants(name, h.Typeflag)
	if err != nil || !wanted {
		return err
	}
	as, err := x.attributesOf(name, h)
	if err != nil {
		return err
	}
	dir, err := x.open(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	switch h.Typeflag {
	case tar.TypeDir:
		made, err := dir.Make(base, 0o700)
		if err != nil {
			return err
		}
		x.dirs = append(x.dirs, directory{name, as})
		return made.Close()
	case tar.TypeReg:
		return x.file(dir, base, as, r)
	case tar.TypeSymlink:
		if err := inside(name, h.Linkname); err != nil {
			return err
		}
		return link(dir, base, h.Linkname, as)
	}
	return fmt.Errorf("%w: type %q: only directories, files and symbolic links are accepted", ErrRefused, h.Typeflag)
}

// cleaned returns the name of an entry without the slash of directories.
func cleaned(name string) (string, error) {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if name == "" || !filepath.IsLocal(name) || path.Clean(name) != name || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%w: the name must be a relative path without .. and empty parts", ErrRefused)
	}
	if strings.Count(name, "/") > maxDepth {
		return "", fmt.Errorf("%w: more than %d levels of directories", ErrRefused, maxDepth)
	}
	return name, nil
}

// count adds an entry to the used space. Extra headers and holes count too.
func (x *extraction) count(h *tar.Header) error {
	x.used += entrySize
	if h.Size < 0 || h.Size > expansion*x.limits.Bytes-x.logical {
		return fmt.Errorf("%w: the files are longer than %d times the disk of the group, %d bytes", ErrRefused, expansion, x.limits.Bytes)
	}
	x.logical += h.Size
	return x.fits()
}

// fits returns an error if the data is larger than the disk of the group.
func (x *extraction) fits() error {
	if x.used > x.limits.Bytes {
		return fmt.Errorf("%w: the data is larger than the disk of the group, %d bytes: raise size in ephemeral_disk", ErrRefused, x.limits.Bytes)
	}
	return nil
}

// wants reports whether the new allocation has a place for an entry. Data of tasks that the new
// group does not have is left out.
func (x *extraction) wants(name string, kind byte) (bool, error) {
	first, rest, _ := strings.Cut(name, "/")
	second, _, deeper := strings.Cut(rest, "/")
	switch {
	case rest == "" && kind == tar.TypeDir:
		return false, nil // created when needed
	case first == allocdir.SharedName && second == allocdir.DataName, second == allocdir.LocalName && first != allocdir.SharedName:
	default:
		return false, fmt.Errorf("%w: only %s/%s and the directory %s of tasks are accepted", ErrRefused, allocdir.SharedName, allocdir.DataName,
			allocdir.LocalName)
	}
	if !deeper && kind != tar.TypeDir {
		return false, fmt.Errorf("%w: it must be a directory", ErrRefused)
	}
	return first == allocdir.SharedName || slices.Contains(x.target.Tasks, first), nil
}

// inside checks that a link leads to a place within the allocation's directory.
func inside(name, target string) error {
	at := path.Join(path.Dir(name), target)
	if target == "" || path.IsAbs(target) || !filepath.IsLocal(at) || strings.ContainsRune(target, 0) {
		return fmt.Errorf("%w: the link leads out of the allocation's directory, to %q", ErrRefused, untrusted.Shorten(target, maxShown))
	}
	return nil
}

// open returns a directory below the root, and creates missing ones.
func (x *extraction) open(name string) (*safefs.Dir, error) {
	if x.parent != nil && x.parentPath == name {
		return x.parent, nil
	}
	dir, err := x.root.MakeAll(name, 0o700, -1, -1)
	if errors.Is(err, safefs.ErrEscape) || errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return nil, err
	}
	x.close()
	x.parent, x.parentPath = dir, name
	return dir, nil
}

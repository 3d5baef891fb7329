package imagearchive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/open-nomad/open-nomad/internal/ctxreader"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// Limits of an archive.
const (
	maxEntries  = 100_000
	maxName     = 256
	maxText     = 4 << 20  // bytes of a JSON file
	maxUnpacked = 64 << 30 // bytes of all files, and of all uncompressed layers
	maxLayers   = 512      // of an image; a file can be more than one of them
)

// File is where the copy of an archive is written. It must be empty, and no other user may access it.
type File interface {
	io.Writer
	io.ReaderAt
}

// Image is the image of an archive.
type Image struct {
	ID     string   // digest of its configuration
	Layers []string // digests of its uncompressed layers
}

// part is a regular file of the copy.
type part struct{ at, size int64 }

// archive is an archive that is being copied.
type archive struct {
	to    File
	out   *tar.Writer
	wrote int64
	parts map[string]part
	links map[string]string // targets of the links that are called layer.tar
	dirs  map[string]bool

	unpacked int64 // bytes of the layers so far
}

// Write implements io.Writer for the copy.
func (a *archive) Write(b []byte) (int, error) {
	n, err := a.to.Write(b)
	a.wrote += int64(n)
	return n, err
}

// Copy copies an archive that must contain a single image with no other name than ref, a normalized reference.
func Copy(ctx context.Context, from io.Reader, to File, ref string) (*Image, error) {
	in, err := decompress(ctx, ctxreader.New(ctx, from))
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // it was read
	a := &archive{to: to, parts: map[string]part{}, links: map[string]string{}, dirs: map[string]bool{}}
	a.out = tar.NewWriter(a)
	if err := a.copyAll(tar.NewReader(in)); err != nil {
		return nil, err
	}
	m, err := a.manifest(ref)
	if err != nil {
		return nil, err
	}
	image, err := a.verify(ctx, m)
	if err != nil {
		return nil, err
	}
	return image, a.finish(m)
}

// Names that the copy does not have. They name images.
const (
	manifestName     = "manifest.json"
	indexName        = "index.json"
	layoutName       = "oci-layout"
	repositoriesName = "repositories"
)

// copyAll copies the entries of the archive. What names images is kept apart.
func (a *archive) copyAll(in *tar.Reader) error {
	var total int64
	for n := 0; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if total += h.Size; n >= maxEntries || h.Size < 0 || total > maxUnpacked || total < 0 {
			return fmt.Errorf("the archive has more than %d entries or %d bytes", maxEntries, int64(maxUnpacked))
		}
		name, err := a.name(h)
		if err != nil {
			return err
		}
		if name == "." {
			continue
		}
		if err := a.entry(in, h, name); err != nil {
			return fmt.Errorf("entry %q: %w", name, err)
		}
	}
}

// plainName matches the names of entries. Images have no other characters in them.
var plainName = pattern.Lazy(`^[A-Za-z0-9._/:-]+$`)

// name returns the clean name of an entry.
func (a *archive) name(h *tar.Header) (string, error) {
	name := path.Clean(strings.TrimPrefix(h.Name, "/"))
	switch {
	case len(name) > maxName || !plainName().MatchString(name) || name == ".." || strings.HasPrefix(name, "../"):
		return "", fmt.Errorf("entry %.300q: the name is not that of a file of an image", h.Name)
	case name == ".":
		return name, nil
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, file := a.parts[dir]; file || a.links[dir] != "" {
			return "", fmt.Errorf("entry %q: %q is not a directory", name, dir)
		}
		a.dirs[dir] = true
	}
	_, file := a.parts[name]
	if link := a.links[name] != ""; file || link || a.dirs[name] && h.Typeflag != tar.TypeDir {
		return "", fmt.Errorf("entry %q is there twice", name)
	}
	return name, nil
}

// linkTarget matches the targets of links that older versions of Docker write for equal layers.
var linkTarget = pattern.Lazy(`^\.\./([0-9a-f]{64})/layer\.tar$`)

func (a *archive) entry(in io.Reader, h *tar.Header, name string) error {
	switch h.Typeflag {
	case tar.TypeDir:
		a.dirs[name] = true
		return nil // the reader of the copy creates directories
	case tar.TypeReg:
		return a.file(in, name, h.Size)
	case tar.TypeSymlink:
		dir, base := path.Split(name)
		m := linkTarget().FindStringSubmatch(h.Linkname)
		if m == nil || base != "layer.tar" || strings.Count(dir, "/") != 1 {
			return errors.New("is a link, but not one to a layer")
		}
		a.links[name] = m[1] + "/layer.tar"
		return nil // the manifest of the copy names the target
	}
	return fmt.Errorf("is not a regular file, but of type %q", h.Typeflag)
}

// file copies a regular file.
func (a *archive) file(in io.Reader, name string, size int64) error {
	to := name
	switch name {
	case manifestName, indexName, layoutName, repositoriesName:
		if size > maxText {
			return fmt.Errorf("has %d bytes: at most %d are allowed", size, maxText)
		}
		to = "original/" + name // where no daemon reads it
	}
	if strings.HasPrefix(name, "original/") {
		return errors.New("the name is not that of a file of an image")
	}
	if err := a.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: to, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	a.parts[name] = part{a.wrote, size}
	if n, err := io.Copy(a.out, in); err != nil || n != size {
		return fmt.Errorf("read %d of %d bytes: %w", n, size, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}

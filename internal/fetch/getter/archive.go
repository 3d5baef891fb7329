package getter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	gogetter "github.com/hashicorp/go-getter"

	"github.com/open-nomad/open-nomad/internal/fetch"
)

// maxDepth is the maximum number of elements of a name in an archive.
const maxDepth = 100

// errArchive ends a download that must be unpacked in the next step.
var errArchive = errors.New("the download is an archive")

// keep takes the place of a decompressor during the download: it keeps the archive for the next step.
type keep struct{ path string }

func (k *keep) Decompress(_, src string, _ bool, _ fs.FileMode) error {
	if err := os.Rename(src, k.path); err != nil {
		return err
	}
	return errArchive
}

// keepers returns decompressors that keep the archive.
func keepers(path string) map[string]gogetter.Decompressor {
	out := map[string]gogetter.Decompressor{}
	for kind := range gogetter.Decompressors {
		out[kind] = &keep{path}
	}
	return out
}

// unpackers returns the library's decompressors behind a check. A kind without a check is an error.
func unpackers(limits fetch.Limits) (map[string]gogetter.Decompressor, error) {
	singles := limits.Unpacked
	if singles > 0 {
		singles++ // a file of this size shows that the library has cut it
	}
	out := map[string]gogetter.Decompressor{}
	for kind, d := range gogetter.LimitedDecompressors(limits.Files, singles) {
		switch {
		case kind == "zip":
			out[kind] = &checked{Decompressor: d, limits: limits, check: checkZip}
		case tarLayers[kind] != nil:
			out[kind] = &checked{Decompressor: d, limits: limits, check: tarCheck(tarLayers[kind])}
		case singleKinds[kind]:
			out[kind] = &single{Decompressor: d, limits: limits}
		default:
			return nil, fmt.Errorf("archives of kind %q cannot be checked", kind)
		}
	}
	return out, nil
}

// singleKinds are compressed files that are not archives.
var singleKinds = map[string]bool{"bz2": true, "gz": true, "xz": true, "zst": true}

// checked reads the entries of an archive before the library unpacks it, and compares the files with them
// afterwards. The library would write links and devices as empty files, and would not notice two entries that
// the file system takes for one.
type checked struct {
	gogetter.Decompressor
	limits fetch.Limits
	check  func(src string, e *entries) error
}

func (c *checked) Decompress(dst, src string, dir bool, umask fs.FileMode) error {
	e := &entries{limits: c.limits, names: map[string]bool{}}
	if err := c.check(src, e); err != nil {
		return fmt.Errorf("archive refused: %w", err)
	}
	if !dir && e.count > 1 {
		return fmt.Errorf("the archive has %d entries, but mode is file: remove mode, or set the option archive = \"false\" to keep the archive",
			e.count)
	}
	if err := c.Decompressor.Decompress(dst, src, dir, umask); err != nil || !dir {
		return err
	}
	if err := e.compare(dst); err != nil {
		return fmt.Errorf("archive refused: %w", err)
	}
	return nil
}

// single unpacks one compressed file. The library cuts it at the limit without an error.
type single struct {
	gogetter.Decompressor
	limits fetch.Limits
}

func (s *single) Decompress(dst, src string, dir bool, umask fs.FileMode) error {
	if dir {
		return errors.New("the download is a compressed file, not an archive: set mode = \"file\" to unpack it, or " +
			"the option archive = \"false\" to keep it")
	}
	if err := s.Decompressor.Decompress(dst, src, dir, umask); err != nil {
		return err
	}
	info, err := os.Lstat(dst)
	if err != nil {
		return err
	}
	if s.limits.Unpacked > 0 && info.Size() > s.limits.Unpacked {
		return errors.Join(&tooLarge{"the unpacked file", s.limits.Unpacked}, os.Remove(dst))
	}
	return nil
}

// entries checks the entries of an archive in their order.
type entries struct {
	limits fetch.Limits
	names  map[string]bool // whether the name is a directory
	count  int
}

// add checks one entry. Directories may be repeated.
func (e *entries) add(name string, isDir bool) error {
	e.count++
	if e.limits.Files > 0 && e.count > e.limits.Files {
		return fmt.Errorf("it has more than %d entries", e.limits.Files)
	}
	parts, err := split(name)
	if err != nil {
		return err
	}
	for i := range parts {
		last := i == len(parts)-1
		if err := e.claim(path.Join(parts[:i+1]...), isDir || !last); err != nil {
			return err
		}
	}
	if e.limits.Files > 0 && len(e.names) > e.limits.Files { // with directories that have no entry
		return fmt.Errorf("it has more than %d entries", e.limits.Files)
	}
	return nil
}

// split checks a name and returns its elements, none for the root of the archive.
func split(name string) ([]string, error) {
	switch {
	case strings.ContainsFunc(name, unicode.IsControl):
		return nil, fmt.Errorf("the name %q contains a control character", name)
	case strings.HasPrefix(name, "/"):
		return nil, fmt.Errorf("the name %q is absolute", name)
	case strings.Contains(name, `\`):
		return nil, fmt.Errorf("the name %q contains a backslash", name)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return nil, fmt.Errorf("the name %q contains \"..\"", name)
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) > maxDepth {
		return nil, fmt.Errorf("the name %.100q... has more than %d elements", name, maxDepth)
	}
	return parts, nil
}

// claim records a name. A second file of the name is an error. Names that differ in case are two files.
func (e *entries) claim(name string, isDir bool) error {
	wasDir, taken := e.names[name]
	if taken && !(wasDir && isDir) {
		return fmt.Errorf("it contains %q twice", name)
	}
	e.names[name] = isDir
	return nil
}

// compare checks that the directory has exactly the entries of the archive. A file system that ignores case, or
// that normalizes names, has fewer or other ones.
func (e *entries) compare(dir string) error {
	found := 0
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		if isDir, known := e.names[name]; !known || isDir != d.IsDir() {
			return fmt.Errorf("the file system has stored an entry as %q", name)
		}
		found++
		return nil
	})
	if err == nil && found != len(e.names) {
		err = fmt.Errorf("the file system has stored %d of %d entries: it ignores the case of names or normalizes them", found, len(e.names))
	}
	return err
}

// kindOf names the type of an entry that is neither a file nor a directory.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "not a regular file or directory"
}

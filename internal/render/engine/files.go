package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/open-nomad/open-nomad/internal/render"
)

// maxFile is the maximum size of a source or a file that a template reads.
const maxFile = render.MaxContent

// errOutside omits the path, which can be made of secret values.
var errOutside = errors.New("the path is outside the directories of the task")

// files reads files in the directories of a request. Links that lead out of a directory are
// refused by os.Root.
type files struct {
	dir   string
	roots []openRoot
}

type openRoot struct {
	render.Root
	dir *os.Root
}

// openFiles opens the directories of the request. They stay open.
func openFiles(req *render.Request) (*files, error) {
	f := &files{dir: req.Dir}
	for _, r := range req.Roots {
		dir, err := os.OpenRoot(r.Path)
		if err != nil {
			return nil, fmt.Errorf("open a directory of the task: %w", errors.Unwrap(err))
		}
		f.roots = append(f.roots, openRoot{r, dir})
	}
	return f, nil
}

// open opens a regular file. A relative name begins at the task's directory.
func (f *files) open(name string) (*os.File, fs.FileInfo, error) {
	root, below, err := f.find(name)
	if err != nil {
		return nil, nil, err
	}
	file, err := root.OpenFile(below, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, withoutPath(err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = withoutPath(err)
	case !info.Mode().IsRegular():
		err = errors.New("not a regular file")
	case info.Size() > maxFile:
		err = fmt.Errorf("the file has %d bytes, at most %d are allowed", info.Size(), maxFile)
	default:
		return file, info, nil
	}
	file.Close() // nothing was read
	return nil, nil, err
}

// read reads a regular file.
func (f *files) read(name string) ([]byte, error) {
	file, _, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file)
}

func readAll(file io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("the file is larger than %d bytes", maxFile)
	}
	if err != nil {
		return nil, withoutPath(err)
	}
	return text, nil
}

// find returns the directory of a file and its name below it.
func (f *files) find(name string) (*os.Root, string, error) {
	if !path.IsAbs(name) {
		name = path.Join(f.dir, name)
	}
	name = path.Clean(name)
	for _, r := range f.roots {
		for _, at := range append([]string{r.Path}, r.Names...) {
			if below, ok := strings.CutPrefix(name, strings.TrimSuffix(path.Clean(at), "/")+"/"); ok && at != "" {
				return r.dir, below, nil
			}
		}
	}
	return nil, "", errOutside
}

// withoutPath returns the cause of an error. The path can be made of secret values.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

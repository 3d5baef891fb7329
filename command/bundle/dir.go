package bundle

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of the files.
const (
	maxFile   = 64 << 20
	maxBundle = 2 << 30
	maxLine   = 1 << 20
)

// errFull means that the bundle has reached its limit.
var errFull = fmt.Errorf("the bundle is larger than %d GiB", maxBundle>>30)

// dir is the directory that becomes a bundle. Only its owner can read it.
type dir struct {
	root    *os.Root
	path    string // of the directory of the bundle
	name    string
	archive bool
	scrub   *scrubber

	mu    sync.Mutex
	size  int64
	files []file
}

// file is one file of a bundle in its index.
type file struct {
	Name string
	Size int64
}

// newDir makes the directory: below output, or in a temporary directory.
func newDir(output, name string, s *scrubber) (*dir, error) {
	parent := output
	if output == "" {
		var err error
		if parent, err = os.MkdirTemp("", "nomad-debug-"); err != nil {
			return nil, fmt.Errorf("Error creating a temporary directory: %w", err)
		}
	} else if err := os.MkdirAll(output, 0o700); err != nil {
		return nil, fmt.Errorf("Error creating -output: %w", err)
	}
	d := &dir{path: filepath.Join(parent, name), name: name, archive: output == "", scrub: s}
	err := os.Mkdir(d.path, 0o700)
	if err == nil {
		d.root, err = os.OpenRoot(d.path)
	}
	if err != nil {
		d.close()
		return nil, fmt.Errorf("Error creating the directory of the bundle: %w", err)
	}
	return d, nil
}

// close removes the directory of an archive.
func (d *dir) close() {
	if d.root != nil {
		d.root.Close()
	}
	if d.archive {
		os.RemoveAll(filepath.Dir(d.path)) //nolint:errcheck // the next cleanup of /tmp removes it
	}
}

// create creates a file and its parents.
func (d *dir) create(name string) (*writer, error) {
	if parent := path.Dir(name); parent != "." {
		if err := d.root.MkdirAll(parent, 0o700); err != nil {
			return nil, err
		}
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &writer{f: f, d: d, name: name}, nil
}

// writer writes one file within the limits.
type writer struct {
	f    *os.File
	d    *dir
	name string
	n    int64
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.d.mu.Lock()
	full := w.d.size+int64(len(p)) > maxBundle
	if !full {
		w.d.size += int64(len(p))
	}
	w.d.mu.Unlock()
	switch {
	case full:
		return 0, errFull
	case w.n+int64(len(p)) > maxFile:
		return 0, fmt.Errorf("%s is larger than %d MiB", w.name, maxFile>>20)
	}
	n, err := w.f.Write(p)
	w.n += int64(n)
	return n, err
}

// Close closes the file and adds it to the index.
func (w *writer) Close() error {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.d.files = append(w.d.files, file{w.name, w.n})
	return w.f.Close()
}

// write writes a file at once.
func (d *dir) write(name string, content []byte) error {
	w, err := d.create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return errors.Join(err, w.Close())
}

// json writes a response without its secrets.
func (d *dir) json(name string, from io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxFile:
		return fmt.Errorf("the response is larger than %d MiB", maxFile>>20)
	case len(text) == 0:
		return nil
	}
	clean, ok := d.scrub.json(text)
	if !ok {
		return errors.New("the response is not JSON")
	}
	return d.write(name, clean)
}

// lines writes a stream of lines without its secrets, until its end. clean cleans one line.
func (d *dir) lines(name string, from io.Reader, clean func(string) string) error {
	w, err := d.create(name)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if _, err := io.WriteString(w, clean(lines.Text())+"\n"); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return errors.Join(lines.Err(), w.Close())
}

// copy writes a profile, which has no secrets.
func (d *dir) copy(name string, from io.Reader) error {
	w, err := d.create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, from)
	return errors.Join(err, w.Close())
}

// page is the index for people.
var page = template.Must(template.New("index").Parse(`<!DOCTYPE html><meta charset="utf-8"><title>{{.Name}}</title><h1>{{.Name}}</h1>
<ul>{{range .Files}}<li><a href="{{.Name}}">{{.Name}}</a> ({{.Size}} bytes)</li>
{{end}}</ul>{{with .Errors}}<h2>Errors</h2><ul>{{range .}}<li>{{.}}</li>
{{end}}</ul>{{end}}
`))

// finish writes the indexes and returns the path of the bundle.
func (d *dir) finish(s *summary) (string, error) {
	d.mu.Lock()
	s.Name, s.Files = d.name, slices.Clone(d.files)
	d.mu.Unlock()
	slices.SortFunc(s.Files, func(a, b file) int { return strings.Compare(a.Name, b.Name) })
	text, err := jsonOf(s)
	if err != nil {
		return "", err
	}
	if err := d.write("index.json", text); err != nil {
		return "", err
	}
	html, err := d.create("index.html")
	if err != nil {
		return "", err
	}
	if err := errors.Join(page.Execute(html, s), html.Close()); err != nil {
		return "", err
	}
	if !d.archive {
		return d.path, nil
	}
	return d.pack()
}

// pack writes the archive to the current directory.
func (d *dir) pack() (_ string, err error) {
	name := d.name + ".tar.gz"
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	z := gzip.NewWriter(out)
	t := tar.NewWriter(z)
	err = fs.WalkDir(d.root.FS(), ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return d.pack1(t, at)
	})
	return name, errors.Join(err, t.Close(), z.Close())
}

func (d *dir) pack1(t *tar.Writer, at string) error {
	f, err := d.root.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: path.Join(d.name, at), Mode: 0o600, Size: info.Size(),
		ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

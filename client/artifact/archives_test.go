package artifact_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// entry is an entry of an archive.
type entry struct {
	name, text string
	mode       int64 // 0 is 0644
	kind       byte  // of tar; 0 is a file, or a directory by its name
	link       string
	pax        map[string]string
}

// tarOf returns a tar archive.
func tarOf(t testing.TB, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.text)), Typeflag: e.kind, Linkname: e.link, PAXRecords: e.pax}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(e.name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipOf returns a ZIP archive.
func zipOf(t testing.TB, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		mode := fs.FileMode(e.mode & 0o777)
		if mode == 0 {
			mode = 0o644
		}
		switch {
		case strings.HasSuffix(e.name, "/"):
			mode |= fs.ModeDir
		case e.kind == tar.TypeSymlink:
			mode |= fs.ModeSymlink
		case e.kind == tar.TypeFifo:
			mode |= fs.ModeNamedPipe
		case e.kind == tar.TypeChar:
			mode |= fs.ModeDevice | fs.ModeCharDevice
		}
		if e.mode&0o4000 != 0 {
			mode |= fs.ModeSetuid
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, e.text+e.link); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// gz returns data compressed with gzip.
func gz(t testing.TB, data []byte) []byte {
	t.Helper()
	return compress(t, data, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
}

func compress(t testing.TB, data []byte, to func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := to(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// archives returns the entries as an archive of each kind that Go can write.
func archives(t testing.TB, entries []entry) map[string][]byte {
	t.Helper()
	plain := tarOf(t, entries)
	zipped := gz(t, plain)
	xzed := compress(t, plain, func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) })
	zst := compress(t, plain, zstdWriter)
	return map[string][]byte{
		"tar": plain, "tar.gz": zipped, "tgz": zipped, "tar.xz": xzed, "txz": xzed, "tar.zst": zst, "tzst": zst, "zip": zipOf(t, entries),
	}
}

func zstdWriter(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }

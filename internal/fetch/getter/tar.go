package getter

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/open-nomad/open-nomad/internal/fetch"
)

// maxWindow is the maximum memory that a compressed stream may request for its dictionary, in bytes.
const maxWindow = 128 << 20

// layer returns a reader of the uncompressed stream, and a function that frees it.
type layer func(io.Reader) (io.Reader, func(), error)

// tarLayers are the kinds of tar archives with their compression.
var tarLayers = map[string]layer{
	"tar": uncompressed, "tar.bz2": bzip2Layer, "tbz2": bzip2Layer, "tar.gz": gzipLayer, "tgz": gzipLayer,
	"tar.xz": xzLayer, "txz": xzLayer, "tar.zst": zstdLayer, "tzst": zstdLayer,
}

func uncompressed(r io.Reader) (io.Reader, func(), error) { return r, func() {}, nil }

func bzip2Layer(r io.Reader) (io.Reader, func(), error) { return bzip2.NewReader(r), func() {}, nil }

func gzipLayer(r io.Reader) (io.Reader, func(), error) {
	z, err := gzip.NewReader(r)
	return z, func() {}, err
}

func xzLayer(r io.Reader) (io.Reader, func(), error) {
	z, err := xz.NewReader(r)
	return z, func() {}, err
}

func zstdLayer(r io.Reader) (io.Reader, func(), error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

// tarCheck returns the check of a tar archive. It reads the archive to its end.
func tarCheck(open layer) func(string, *entries) error {
	return func(src string, e *entries) error {
		f, err := os.Open(src)
		if err != nil {
			return err
		}
		defer f.Close()
		stream, free, err := open(bufio.NewReaderSize(f, 64<<10))
		if err != nil {
			return err
		}
		defer free()
		return checkTar(stream, e)
	}
}

// checkTar checks every entry, and the size of the stream: it bounds the content, and what is between.
func checkTar(stream io.Reader, e *entries) error {
	bounded := &boundedReader{r: stream, limit: streamLimit(e.limits)}
	archive := tar.NewReader(bounded)
	var size int64
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := checkTarEntry(h, e); err != nil {
			return err
		}
		if size += h.Size; e.limits.Unpacked > 0 && size > e.limits.Unpacked {
			return &tooLarge{"its content", e.limits.Unpacked}
		}
	}
}

func checkTarEntry(h *tar.Header, e *entries) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
	case tar.TypeXGlobalHeader:
		return e.add("", true) // the library skips it
	case tar.TypeLink:
		return fmt.Errorf("%q is a hard link to %q", h.Name, h.Linkname)
	case tar.TypeSymlink:
		return fmt.Errorf("%q is a symbolic link to %q", h.Name, h.Linkname)
	case tar.TypeGNUSparse:
		return fmt.Errorf("%q is a sparse file", h.Name)
	default:
		return fmt.Errorf("%q is %s (type %q)", h.Name, kindOf(h.FileInfo().Mode()), h.Typeflag)
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return fmt.Errorf("%q is a sparse file", h.Name)
		}
	}
	mode := h.FileInfo().Mode()
	if !mode.IsRegular() && !mode.IsDir() {
		return fmt.Errorf("%q is %s", h.Name, kindOf(mode)) // by the upper bits of its mode
	}
	if mode.IsDir() && h.Mode&0o500 != 0o500 {
		return fmt.Errorf("the directory %q has mode %04o: its owner could not read it", h.Name, h.Mode&0o7777)
	}
	return e.add(h.Name, mode.IsDir())
}

// perEntry is the maximum size of the headers and the padding of an entry, in bytes.
const perEntry = 8 << 10

// streamLimit returns the maximum size of a tar stream: the content of its entries, and what is between. 0 is
// unlimited.
func streamLimit(l fetch.Limits) int64 {
	if l.Unpacked <= 0 || l.Files <= 0 {
		return 0
	}
	return l.Unpacked + int64(l.Files+2)*perEntry
}

// boundedReader fails above its limit.
type boundedReader struct {
	r           io.Reader
	read, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.read += int64(n); b.limit > 0 && b.read > b.limit {
		return 0, &tooLarge{"the uncompressed archive", b.limit}
	}
	return n, err
}

package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/raft"
)

// Limits for the entries, far above the needs of valid archives.
const (
	maxMeta  = 1 << 20
	maxSums  = 64 << 10
	maxState = 64 << 30
)

// version is the only version of the archive format.
const version = 1

// Archive is a complete archive that was read and verified.
type Archive struct {
	// Meta describes the state: its index, term and size.
	Meta raft.SnapshotMeta

	state *os.File
}

// Open reads an archive to its end and verifies its entries, sizes, checksums and version. It
// writes the state to a file in dir, see Temp. The caller must close the archive.
func Open(r io.Reader, dir string) (*Archive, error) {
	f, err := Temp(dir)
	if err != nil {
		return nil, err
	}
	in := reading{archive: &Archive{state: f}, got: map[string]string{}}
	if err := in.all(r); err != nil {
		return nil, errors.Join(fmt.Errorf("snapshot archive: %w", err), f.Close())
	}
	return in.archive, nil
}

// OpenFile is Open for the archive at path.
func OpenFile(path string) (*Archive, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open snapshot archive: %w", err)
	}
	defer f.Close() // read only
	return Open(f, "")
}

// State returns a reader of the state's records from the beginning. Only one reader may be used
// at a time.
func (a *Archive) State() (io.Reader, error) {
	if _, err := a.state.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return io.LimitReader(a.state, a.Meta.Size), nil
}

// Close removes the file with the state.
func (a *Archive) Close() error { return a.state.Close() }

// reading is an archive that is being read.
type reading struct {
	archive *Archive
	got     map[string]string // checksums of the entries that were read
	size    int64             // of the state
	sums    []byte
}

// all reads the archive to its end.
func (in *reading) all(r io.Reader) error {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("it is not a gzip file: %w", truncated(err))
	}
	zip.Multistream(false)
	files := tar.NewReader(zip)
	for {
		head, err := files.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = in.entry(head, files)
		}
		if err != nil {
			return truncated(err)
		}
	}
	if err := atEnd(zip, "after the last entry"); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	return atEnd(r, "after its end")
}

// truncated converts an end of the archive inside an entry into a clear error.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is truncated: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// atEnd fails unless r is at its end.
func atEnd(r io.Reader, where string) error {
	var one [1]byte
	switch _, err := io.ReadFull(r, one[:]); {
	case err == io.EOF:
		return nil
	case err != nil:
		return truncated(err)
	}
	return fmt.Errorf("there is data %s", where)
}

// entry reads one entry.
func (in *reading) entry(head *tar.Header, r io.Reader) error {
	name := head.Name
	limit, known := map[string]int64{metaName: maxMeta, stateName: maxState, sumsName: maxSums}[name]
	_, twice := in.got[name]
	switch {
	case !known:
		return fmt.Errorf("unknown entry %q", name)
	case twice:
		return fmt.Errorf("two entries %q", name)
	case head.Typeflag != tar.TypeReg:
		return fmt.Errorf("%s is not a regular file", name)
	case head.Size > limit:
		return fmt.Errorf("%s has %d bytes, more than %d", name, head.Size, limit)
	}
	sum := sha256.New()
	var text bytes.Buffer
	var to io.Writer = &text
	if name == stateName {
		to, in.size = in.archive.state, head.Size
	}
	n, err := io.Copy(io.MultiWriter(to, sum), r)
	if err == nil && n != head.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	in.got[name] = hex.EncodeToString(sum.Sum(nil))
	switch name {
	case metaName:
		return in.meta(text.Bytes())
	case sumsName:
		in.sums = text.Bytes()
	}
	return nil
}

// meta parses the description of the state.
func (in *reading) meta(text []byte) error {
	m := &in.archive.Meta
	if err := json.Unmarshal(text, m); err != nil {
		return fmt.Errorf("%s: %w", metaName, err)
	}
	if m.Version != version {
		return fmt.Errorf("%s contains snapshot version %d, this program supports %d", metaName, m.Version, version)
	}
	return nil
}

// check compares the entries with their checksums and sizes.
func (in *reading) check() error {
	for _, name := range []string{metaName, stateName, sumsName} {
		if _, ok := in.got[name]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	want := map[string]string{}
	for line := range strings.Lines(string(in.sums)) {
		sum, name, ok := strings.Cut(strings.TrimRight(line, "\n"), "  ")
		if !ok || name != metaName && name != stateName || want[name] != "" {
			return fmt.Errorf("%s has an invalid line", sumsName)
		}
		want[name] = sum
	}
	for _, name := range []string{metaName, stateName} {
		switch want[name] {
		case in.got[name]:
		case "":
			return fmt.Errorf("%s has no checksum of %s", sumsName, name)
		default:
			return fmt.Errorf("%s was modified: its checksum differs from the one in %s", name, sumsName)
		}
	}
	if in.size != in.archive.Meta.Size {
		return fmt.Errorf("%s has %d bytes, %s has size %d", stateName, in.size, metaName, in.archive.Meta.Size)
	}
	return nil
}

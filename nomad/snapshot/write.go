package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/hashicorp/raft"
)

// The entries of an archive.
const (
	metaName  = "meta.json"
	stateName = "state.bin"
	sumsName  = "SHA256SUMS"
)

// Write writes an archive of the state that meta describes. It returns the digest for the HTTP
// header Digest. It uses only a buffer of memory, whatever the size of the state.
func Write(w io.Writer, meta *raft.SnapshotMeta, state io.Reader) (digest string, err error) {
	text, err := json.Marshal(meta)
	if err != nil {
		return "", fmt.Errorf("encode snapshot meta: %w", err)
	}
	all := sha256.New()
	zip, err := gzip.NewWriterLevel(io.MultiWriter(w, all), gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	out := entries{tar.NewWriter(zip), &bytes.Buffer{}}
	text = append(text, '\n')
	err = out.add(metaName, int64(len(text)), bytes.NewReader(text))
	if err == nil {
		err = out.add(stateName, meta.Size, state)
	}
	if err == nil {
		err = out.add(sumsName, int64(out.sums.Len()), bytes.NewReader(out.sums.Bytes()))
	}
	if err == nil {
		err = errors.Join(out.tar.Close(), zip.Close())
	}
	if err != nil {
		return "", fmt.Errorf("write snapshot archive: %w", err)
	}
	return formatDigest(all), nil
}

// entries writes entries and records their checksums.
type entries struct {
	tar  *tar.Writer
	sums *bytes.Buffer
}

func (e entries) add(name string, size int64, r io.Reader) error {
	if err := e.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(e.tar, sum), r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n != size {
		return fmt.Errorf("%s has %d bytes instead of %d", name, n, size)
	}
	fmt.Fprintf(e.sums, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
	return nil
}

func formatDigest(h hash.Hash) string {
	return "sha-256=" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Digest reads r to its end and returns its digest in the format of Write.
func Digest(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return formatDigest(h), nil
}

// Temp returns an unlinked temporary file, which no other process can open. It is created in
// dir, or in the system's temporary directory if dir is empty.
func Temp(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".snapshot-*")
	if err != nil {
		return nil, fmt.Errorf("create a file for the snapshot: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("unlink the file for the snapshot: %w", err), f.Close())
	}
	return f, nil
}

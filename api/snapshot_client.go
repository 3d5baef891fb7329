package api

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"net/http"
)

const snapshotPath = "/v1/operator/snapshot"

// ErrDigest means that the bytes of a snapshot are not those that the server sent.
var ErrDigest = errors.New("the snapshot is not whole: its digest is not the one that the server told")

// Snapshot returns an archive of the whole state of a region. Its reader fails at
// the end with ErrDigest when the archive did not arrive as it was sent.
func (o *Operator) Snapshot(q *QueryOptions) (io.ReadCloser, error) {
	r, err := o.client.newRequest(http.MethodGet, snapshotPath)
	if err != nil {
		return nil, err
	}
	q.apply(r)
	resp, _, err := o.client.send(r)
	if err != nil {
		return nil, err
	}
	return &digested{ReadCloser: resp.Body, sum: sha256.New(), want: resp.Header.Get("Digest")}, nil
}

// SnapshotRestore replaces the whole state of a region by an archive.
func (o *Operator) SnapshotRestore(in io.Reader, q *WriteOptions) (*WriteMeta, error) {
	return o.client.put(snapshotPath, in, nil, q)
}

// digested compares what was read with the digest that came before it.
type digested struct {
	io.ReadCloser
	sum  hash.Hash
	want string
}

// Read implements io.Reader.
func (d *digested) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.sum.Write(p[:n]) // never fails
	if err == io.EOF && d.want != "sha-256="+base64.StdEncoding.EncodeToString(d.sum.Sum(nil)) {
		err = ErrDigest
	}
	return n, err
}

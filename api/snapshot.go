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

// ErrDigest means that the digest of a snapshot does not match the server's digest.
var ErrDigest = errors.New("snapshot is corrupt or incomplete: its digest does not match the server's digest")

// Snapshot returns an archive of the state of a region. At the end, its reader returns
// ErrDigest if the digest does not match.
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

// SnapshotRestore replaces the state of a region with an archive.
func (o *Operator) SnapshotRestore(in io.Reader, q *WriteOptions) (*WriteMeta, error) {
	return o.client.put(snapshotPath, in, nil, q)
}

// digested compares the digest of the read bytes with the expected one at EOF.
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

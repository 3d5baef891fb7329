package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Serve answers a request for the snapshot. The caller has checked the token. A connection with
// an incomplete snapshot is aborted, so that the receiver notices.
func (s Source) Serve(w http.ResponseWriter, r *http.Request) error {
	var offset int64
	if text := r.Header.Get(OffsetHeader); text != "" {
		var err error
		if offset, err = strconv.ParseInt(text, 10, 64); err != nil || offset < 0 {
			return apierror.Errorf(http.StatusBadRequest, "header %s is %q: use the number of bytes that were received", OffsetHeader, text)
		}
		w.Header().Set(OffsetHeader, strconv.FormatInt(offset, 10))
	}
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Trailer", DigestTrailer)
	out := &tail{to: w, skip: offset, sum: sha256.New()}
	if err := s.Write(r.Context(), out); err != nil {
		return err
	}
	if out.skip > 0 {
		return apierror.Errorf(http.StatusRequestedRangeNotSatisfiable, "the snapshot has less than %d bytes", offset)
	}
	w.Header().Set(DigestTrailer, hex.EncodeToString(out.sum.Sum(nil)))
	return nil
}

// tail omits the first bytes of what is written to it. The digest is that of all bytes.
type tail struct {
	to   io.Writer
	skip int64
	sum  hash.Hash
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.sum.Write(p) //nolint:errcheck // a hash never fails
	n := len(p)
	if t.skip >= int64(n) {
		t.skip -= int64(n)
		return n, nil
	}
	p = p[t.skip:]
	t.skip = 0
	if _, err := t.to.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}

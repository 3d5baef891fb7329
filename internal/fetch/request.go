package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Names below the working directory of the program.
const (
	OutName       = "out"       // the artifact
	ArchiveName   = "archive"   // a downloaded archive
	SignatureName = "signature" // a downloaded signature
	TempName      = "tmp"       // TMPDIR
	HomeName      = "home"      // HOME
)

// Modes of a Request.
const (
	ModeAny  = "any"
	ModeFile = "file"
	ModeDir  = "dir"
)

// SignatureSize is the maximum size of a signature file.
const SignatureSize = 16 << 10

// maxRequest is the maximum size of an encoded Request.
const maxRequest = 1 << 20

// Request is the input of the program.
type Request struct {
	Source    string            // with all options in its query
	Signature string            `json:",omitempty"` // source of a signature to download too
	Headers   map[string]string `json:",omitempty"` // of HTTP requests for Source
	Mode      string            // any, file or dir
	Insecure  bool              // accepts any TLS certificate
	Archive   string            `json:",omitempty"` // absolute path of the archive to unpack; "" downloads
	Limits    Limits
	Timeouts  Timeouts
}

// Limits bound an artifact; 0 is unlimited.
type Limits struct {
	Download int64 // bytes of the response
	Unpacked int64 // bytes of the files of an archive
	Files    int   // entries of an archive
}

// Timeouts bound the download by kind of source.
type Timeouts struct{ HTTP, Git, Hg, GCS, S3 time.Duration }

// Longest returns the longest of the timeouts.
func (t Timeouts) Longest() time.Duration { return max(t.HTTP, t.Git, t.Hg, t.GCS, t.S3) }

// Encode returns the encoded request.
func (r *Request) Encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode download request: %w", err)
	}
	if len(b) > maxRequest {
		return nil, fmt.Errorf("source, options and headers have %d bytes: at most %d are allowed", len(b), maxRequest)
	}
	return b, nil
}

// ReadRequest reads and decodes a request.
func ReadRequest(r io.Reader) (*Request, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("read download request: %w", err)
	}
	if len(b) > maxRequest {
		return nil, errors.New("read download request: too large")
	}
	var req Request
	if err := json.Unmarshal(b, &req); err != nil {
		return nil, fmt.Errorf("decode download request: %w", err)
	}
	switch req.Mode {
	case ModeAny, ModeFile, ModeDir:
	default:
		return nil, fmt.Errorf("download request: mode %q: use any, file or dir", req.Mode)
	}
	return &req, nil
}

package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"aead.dev/minisign"

	"github.com/open-nomad/open-nomad/internal/ctxreader"
	"github.com/open-nomad/open-nomad/internal/fetch"
)

// check hashes the file that was taken, and checks its checksum and its signature. It returns the SHA-256.
func (j *job) check(ctx context.Context) (string, error) {
	name := fetch.ArchiveName
	if !j.stage.dir.Exists(name) {
		name = fileName
	}
	f, err := j.stage.dir.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sums := &sums{digest: sha256.New()}
	var from io.Reader = f
	if j.signer != nil {
		sums.signed = minisign.NewReader(f)
		from = sums.signed
	}
	to := io.Writer(sums.digest)
	if j.checksum != nil && j.checksum.Type != "file" {
		sums.expected = j.checksum.Hash()
		to = io.MultiWriter(sums.digest, sums.expected)
	}
	if _, err := io.Copy(to, ctxreader.New(ctx, from)); err != nil {
		return "", fmt.Errorf("read the download: %w", err)
	}
	if sums.expected != nil {
		if got := sums.expected.Sum(nil); !bytes.Equal(got, j.checksum.Value) {
			return "", fmt.Errorf("checksum does not match: expected %s:%x, got %x", j.checksum.Type, j.checksum.Value, got)
		}
	}
	if j.signer != nil {
		if err := j.checkSignature(sums.signed); err != nil {
			return "", fmt.Errorf("verify: %w", err)
		}
	}
	return hex.EncodeToString(sums.digest.Sum(nil)), nil
}

// sums are the hashes of a file, read once.
type sums struct {
	digest   hash.Hash
	expected hash.Hash        // of the checksum, nil if none
	signed   *minisign.Reader // nil without a signature
}

// checkSignature checks the downloaded signature of the file that was read. The trusted comment is part of
// what minisign signs.
func (j *job) checkSignature(file *minisign.Reader) error {
	text, err := j.stage.work.ReadFile(fetch.SignatureName, fetch.SignatureSize)
	if err != nil {
		return fmt.Errorf("read the signature: %w", err)
	}
	var s minisign.Signature
	if err := s.UnmarshalText(text); err != nil {
		return fmt.Errorf("the file at %s is not a signature of minisign", j.signed)
	}
	switch {
	case s.Algorithm != minisign.HashEdDSA:
		return errors.New("the signature is of the legacy kind: sign with a minisign that hashes the file first (0.10 or newer, or option -H)")
	case s.KeyID != j.signer.ID():
		return fmt.Errorf("the signature was made with key %016X, and minisign_key is %016X", s.KeyID, j.signer.ID())
	case !file.Verify(*j.signer, text):
		return errors.New("the signature does not match the file")
	}
	return nil
}

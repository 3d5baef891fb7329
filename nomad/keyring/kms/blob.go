package kms

import (
	"context"
	"errors"
	"fmt"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/open-nomad/open-nomad/nomad"
)

// Bounds of what is handed to a library: a stored key comes from Raft, and Raft from
// snapshots and other servers.
const (
	maxBlob   = 64 << 10
	ivSize    = 12
	maxNumber = 1 << 10 // of purposes
)

// encrypt encrypts text and returns the result as state keeps it.
func encrypt(ctx context.Context, c crypter, text []byte) (*nomad.BlobInfo, error) {
	blob, err := c.Encrypt(ctx, text)
	if err != nil {
		return nil, err
	}
	if blob == nil || len(blob.Ciphertext) == 0 {
		return nil, errors.New("the service returned nothing encrypted")
	}
	return stored(blob), nil
}

// library makes the library's form of a stored blob, a copy, and refuses what no
// service ever made.
func (w *Wrapper) library(b *nomad.BlobInfo) (*wrapping.BlobInfo, error) {
	if b == nil || len(b.Ciphertext) == 0 {
		return nil, errors.New("nothing encrypted is stored")
	}
	out, err := fromStored(b)
	if err != nil {
		return nil, err
	}
	k := out.KeyInfo
	if w.Provider() == string(nomad.KEKProviderVaultTransit) {
		return out, nil
	}
	// The others encrypt by a key of their own that the service wraps; the oldest
	// form of two of them had none.
	direct := w.Provider() != string(nomad.KEKProviderAzureKeyVault) && (k == nil || k.Mechanism == 0)
	if !direct && (k == nil || len(k.WrappedKey) == 0) {
		return nil, errors.New("the key that it is encrypted by is not stored")
	}
	if !direct && len(b.Iv) != ivSize {
		return nil, fmt.Errorf("its nonce has %d bytes, want %d", len(b.Iv), ivSize)
	}
	return out, nil
}

// stored makes what state keeps of a blob.
func stored(b *wrapping.BlobInfo) *nomad.BlobInfo {
	out := &nomad.BlobInfo{Ciphertext: b.Ciphertext, Iv: b.Iv, Hmac: b.Hmac, Plaintext: b.Plaintext}
	//lint:ignore SA1019 stored blobs may have them
	out.Wrapped, out.ValuePath = b.Wrapped, b.ValuePath
	if b.ClientData != nil {
		out.ClientData = b.ClientData.AsMap()
	}
	if k := b.KeyInfo; k != nil {
		out.KeyInfo = &nomad.KeyInfo{Mechanism: k.Mechanism, HmacMechanism: k.HmacMechanism, KeyId: k.KeyId, HmacKeyId: k.HmacKeyId,
			WrappedKey: k.WrappedKey, Flags: k.Flags, KeyType: nomad.KeyType(k.KeyType), Key: k.Key,
			KeyEncoding: nomad.KeyEncoding(k.KeyEncoding), WrappedKeyEncoding: nomad.KeyEncoding(k.WrappedKeyEncoding)}
		for _, p := range k.KeyPurposes {
			out.KeyInfo.KeyPurposes = append(out.KeyInfo.KeyPurposes, nomad.KeyPurpose(p))
		}
	}
	return out
}

// fromStored is the inverse of stored.
func fromStored(b *nomad.BlobInfo) (*wrapping.BlobInfo, error) {
	out := &wrapping.BlobInfo{Ciphertext: b.Ciphertext, Iv: b.Iv, Hmac: b.Hmac, Plaintext: b.Plaintext}
	//lint:ignore SA1019 stored blobs may have them
	out.Wrapped, out.ValuePath = b.Wrapped, b.ValuePath
	size := len(b.Ciphertext) + len(b.Iv) + len(b.Hmac) + len(b.Plaintext) + len(b.ValuePath)
	switch data := b.ClientData.(type) {
	case nil:
	case map[string]any:
		fields, err := structpb.NewStruct(data)
		if err != nil {
			return nil, errors.New("its client data is of no known form")
		}
		out.ClientData = fields
	default:
		return nil, errors.New("its client data is of no known form")
	}
	if k := b.KeyInfo; k != nil {
		size += len(k.WrappedKey) + len(k.Key) + len(k.KeyId) + len(k.HmacKeyId)
		if len(k.KeyPurposes) > maxNumber {
			return nil, fmt.Errorf("its key has %d purposes", len(k.KeyPurposes))
		}
		out.KeyInfo = &wrapping.KeyInfo{Mechanism: k.Mechanism, HmacMechanism: k.HmacMechanism, KeyId: k.KeyId, HmacKeyId: k.HmacKeyId,
			WrappedKey: k.WrappedKey, Flags: k.Flags, KeyType: wrapping.KeyType(k.KeyType), Key: k.Key,
			KeyEncoding: wrapping.KeyEncoding(k.KeyEncoding), WrappedKeyEncoding: wrapping.KeyEncoding(k.WrappedKeyEncoding)}
		for _, p := range k.KeyPurposes {
			out.KeyInfo.KeyPurposes = append(out.KeyInfo.KeyPurposes, wrapping.KeyPurpose(p))
		}
	}
	if size > maxBlob {
		return nil, fmt.Errorf("it has %d bytes, more than %d", size, maxBlob)
	}
	return out, nil
}

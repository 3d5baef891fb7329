package kms

import (
	"context"
	"errors"
	"fmt"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// Limits on the input of the library: a stored key may come from Raft, a snapshot or another
// server.
const (
	maxBlob   = 64 << 10
	ivSize    = 12
	maxNumber = 1 << 10 // of purposes
)

// encrypt encrypts text and returns the result in the form that state stores.
func encrypt(ctx context.Context, c crypter, text []byte) (*rootkey.BlobInfo, error) {
	blob, err := c.Encrypt(ctx, text)
	if err != nil {
		return nil, err
	}
	if blob == nil || len(blob.Ciphertext) == 0 {
		return nil, errors.New("the service returned no ciphertext")
	}
	return stored(blob), nil
}

// library converts a stored blob to the library's form, as a copy. It rejects what no service
// produces.
func (w *Wrapper) library(b *rootkey.BlobInfo) (*wrapping.BlobInfo, error) {
	if b == nil || len(b.Ciphertext) == 0 {
		return nil, errors.New("no ciphertext is stored")
	}
	out, err := fromStored(b)
	if err != nil {
		return nil, err
	}
	k := out.KeyInfo
	if w.Provider() == string(rootkey.KEKProviderVaultTransit) {
		return out, nil
	}
	// The other providers encrypt with a data key that the service wraps. The oldest form of two of
	// them has none.
	direct := w.Provider() != string(rootkey.KEKProviderAzureKeyVault) && (k == nil || k.Mechanism == 0)
	if !direct && (k == nil || len(k.WrappedKey) == 0) {
		return nil, errors.New("the wrapped data key is missing")
	}
	if !direct && len(b.Iv) != ivSize {
		return nil, fmt.Errorf("nonce has %d bytes, want %d", len(b.Iv), ivSize)
	}
	return out, nil
}

// stored converts a blob to the form that state stores.
func stored(b *wrapping.BlobInfo) *rootkey.BlobInfo {
	out := &rootkey.BlobInfo{Ciphertext: b.Ciphertext, Iv: b.Iv, Hmac: b.Hmac, Plaintext: b.Plaintext}
	//lint:ignore SA1019 stored blobs may have them
	out.Wrapped, out.ValuePath = b.Wrapped, b.ValuePath
	if b.ClientData != nil {
		out.ClientData = b.ClientData.AsMap()
	}
	if k := b.KeyInfo; k != nil {
		out.KeyInfo = &rootkey.KeyInfo{Mechanism: k.Mechanism, HmacMechanism: k.HmacMechanism, KeyId: k.KeyId, HmacKeyId: k.HmacKeyId,
			WrappedKey: k.WrappedKey, Flags: k.Flags, KeyType: rootkey.KeyType(k.KeyType), Key: k.Key,
			KeyEncoding: rootkey.KeyEncoding(k.KeyEncoding), WrappedKeyEncoding: rootkey.KeyEncoding(k.WrappedKeyEncoding)}
		for _, p := range k.KeyPurposes {
			out.KeyInfo.KeyPurposes = append(out.KeyInfo.KeyPurposes, rootkey.KeyPurpose(p))
		}
	}
	return out
}

// fromStored reverses stored.
func fromStored(b *rootkey.BlobInfo) (*wrapping.BlobInfo, error) {
	out := &wrapping.BlobInfo{Ciphertext: b.Ciphertext, Iv: b.Iv, Hmac: b.Hmac, Plaintext: b.Plaintext}
	//lint:ignore SA1019 stored blobs may have them
	out.Wrapped, out.ValuePath = b.Wrapped, b.ValuePath
	size := len(b.Ciphertext) + len(b.Iv) + len(b.Hmac) + len(b.Plaintext) + len(b.ValuePath)
	switch data := b.ClientData.(type) {
	case nil:
	case map[string]any:
		fields, err := structpb.NewStruct(data)
		if err != nil {
			return nil, errors.New("unknown form of client data")
		}
		out.ClientData = fields
	default:
		return nil, errors.New("unknown form of client data")
	}
	if k := b.KeyInfo; k != nil {
		size += len(k.WrappedKey) + len(k.Key) + len(k.KeyId) + len(k.HmacKeyId)
		if len(k.KeyPurposes) > maxNumber {
			return nil, fmt.Errorf("key has %d purposes", len(k.KeyPurposes))
		}
		out.KeyInfo = &wrapping.KeyInfo{Mechanism: k.Mechanism, HmacMechanism: k.HmacMechanism, KeyId: k.KeyId, HmacKeyId: k.HmacKeyId,
			WrappedKey: k.WrappedKey, Flags: k.Flags, KeyType: wrapping.KeyType(k.KeyType), Key: k.Key,
			KeyEncoding: wrapping.KeyEncoding(k.KeyEncoding), WrappedKeyEncoding: wrapping.KeyEncoding(k.WrappedKeyEncoding)}
		for _, p := range k.KeyPurposes {
			out.KeyInfo.KeyPurposes = append(out.KeyInfo.KeyPurposes, wrapping.KeyPurpose(p))
		}
	}
	if size > maxBlob {
		return nil, fmt.Errorf("blob has %d bytes, want at most %d", size, maxBlob)
	}
	return out, nil
}

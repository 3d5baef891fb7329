package nomad

import (
	"cmp"
	"slices"
	"time"
)

// The states of a root key.
const (
	RootKeyStateInactive     RootKeyState = "inactive"
	RootKeyStateActive       RootKeyState = "active"
	RootKeyStateRekeying     RootKeyState = "rekeying"
	RootKeyStatePrepublished RootKeyState = "prepublished"
	RootKeyStateDeprecated   RootKeyState = "deprecated"
)

// What a root key is wrapped by, encrypts with and is for, and where its public half
// is served.
const (
	KEKProviderAEAD              KEKProviderName     = "aead"
	KEKProviderAWSKMS            KEKProviderName     = "awskms"
	KEKProviderAzureKeyVault     KEKProviderName     = "azurekeyvault"
	KEKProviderGCPCloudKMS       KEKProviderName     = "gcpckms"
	KEKProviderVaultTransit      KEKProviderName     = "transit"
	EncryptionAlgorithmAES256GCM EncryptionAlgorithm = "aes256-gcm"
	PubKeyUseSig                                     = "sig"
	JWKSPath                                         = "/.well-known/jwks.json"
)

// BlobInfo is an encrypted key with what is needed to decrypt it, as the wrapping
// library stores it.
type BlobInfo struct {
	Ciphertext []byte
	Iv         []byte
	Hmac       []byte
	Wrapped    bool
	Plaintext  []byte
	KeyInfo    *KeyInfo
	ValuePath  string
	ClientData any
}

// EncryptionAlgorithm is the cipher of variables that a root key serves.
type EncryptionAlgorithm string

// KeyEncoding is how the bytes of a key are laid out, in the numbers of the wrapping
// library.
type KeyEncoding int32

// KeyInfo says which key encrypted a BlobInfo, and how.
type KeyInfo struct {
	Mechanism          uint64
	HmacMechanism      uint64
	KeyId              string
	HmacKeyId          string
	WrappedKey         []byte
	Flags              uint64
	KeyType            KeyType
	KeyPurposes        []KeyPurpose
	Key                []byte
	KeyEncoding        KeyEncoding
	WrappedKeyEncoding KeyEncoding
}

// KeyPurpose is what a key may be used for, in the numbers of the wrapping library.
type KeyPurpose int32

// KeyType is the kind of a key, in the numbers of the wrapping library.
type KeyType int32

// KeyringDeleteRootKeyRequest is the request of Keyring.Delete.
type KeyringDeleteRootKeyRequest struct {
	KeyID string
	Force bool
	WriteRequest
}

// KeyringDeleteRootKeyResponse is the reply of Keyring.Delete.
type KeyringDeleteRootKeyResponse struct {
	WriteMeta
}

// KeyringGetConfigResponse is the reply of Keyring.GetConfig.
type KeyringGetConfigResponse struct {
	OIDCDiscovery *OIDCDiscoveryConfig
}

// KeyringListPublicResponse is the reply of Keyring.ListPublic.
type KeyringListPublicResponse struct {
	PublicKeys        []*KeyringPublicKey
	RotationThreshold time.Duration
	QueryMeta
}

// KeyringListRootKeyMetaRequest is the request of Keyring.List.
type KeyringListRootKeyMetaRequest struct {
	QueryOptions
}

// KeyringListRootKeyMetaResponse is the reply of Keyring.List.
type KeyringListRootKeyMetaResponse struct {
	Keys []*RootKeyMeta
	QueryMeta
}

// KeyringPublicKey is the public half of a root key, as JWKS and other servers'
// verifiers need it. CreateTime is in Unix nanoseconds.
type KeyringPublicKey struct {
	KeyID      string
	PublicKey  []byte
	Algorithm  string
	Use        string
	CreateTime int64
}

// KeyringRotateRootKeyRequest is the request of Keyring.Rotate. A PublishTime, in
// Unix nanoseconds, publishes the new key at once and lets it sign from then on;
// Full has everything that older keys encrypted encrypted anew. Both exclude each
// other.
type KeyringRotateRootKeyRequest struct {
	Algorithm   EncryptionAlgorithm
	Full        bool
	PublishTime int64
	WriteRequest
}

// KeyringRotateRootKeyResponse is the reply of Keyring.Rotate.
type KeyringRotateRootKeyResponse struct {
	Key *RootKeyMeta
	WriteMeta
}

// KeyringUpdateRootKeyRequest is the request of Keyring.Update. Servers of ours take
// the state of a key only, never its material.
type KeyringUpdateRootKeyRequest struct {
	RootKey *UnwrappedRootKey
	Rekey   bool
	WriteRequest
}

// KeyringUpdateRootKeyResponse is the reply of Keyring.Update.
type KeyringUpdateRootKeyResponse struct {
	WriteMeta
}

// UnwrappedRootKey is a root key with its plain material, which servers before 1.9
// sent to each other. It does not print.
type UnwrappedRootKey struct {
	Meta   *RootKeyMeta
	Key    []byte
	RSAKey []byte
}

// String shows the key ID only.
func (k *UnwrappedRootKey) String() string {
	if k == nil || k.Meta == nil {
		return "key()"
	}
	return "key(" + k.Meta.KeyID + ")"
}

// GoString is String, so that %#v prints no key either.
func (k *UnwrappedRootKey) GoString() string { return k.String() }

// KeyringUpsertWrappedRootKeyRequest is the Raft entry that stores a root key,
// wrapped.
type KeyringUpsertWrappedRootKeyRequest struct {
	WrappedRootKeys *RootKey
	Rekey           bool
	WriteRequest
}

// OIDCDiscoveryConfig is the answer of /.well-known/openid-configuration.
type OIDCDiscoveryConfig struct {
	Issuer        string
	JWKS          string
	IDTokenAlgs   []string
	ResponseTypes []string
	Subjects      []string
	// Claims are the names of all claims that a token may have (open-nomad only).
	Claims []string
}

// RootKey is a root key as state keeps it: what is known of it, and its material
// wrapped, by the built-in wrapper with what opens it. It prints as its ID only.
type RootKey struct {
	KeyID       string
	Algorithm   EncryptionAlgorithm
	CreateTime  int64
	CreateIndex uint64
	ModifyIndex uint64
	State       RootKeyState
	PublishTime int64
	WrappedKeys []*WrappedKey
	// PublicKey is the public half, as KeyringPublicKey has it: what verifies needs no
	// wrapper, and material that was opened is held against it. Keys of other servers
	// have none.
	PublicKey []byte
}

// Meta returns what is known of the key.
func (k *RootKey) Meta() *RootKeyMeta {
	return &RootKeyMeta{KeyID: k.KeyID, Algorithm: k.Algorithm, CreateTime: k.CreateTime, CreateIndex: k.CreateIndex,
		ModifyIndex: k.ModifyIndex, State: k.State, PublishTime: k.PublishTime, WrappedBy: k.WrappedBy()}
}

// WrappedBy returns the IDs of those who wrapped the key.
func (k *RootKey) WrappedBy() []string {
	var out []string
	for _, w := range k.WrappedKeys {
		if w != nil {
			out = append(out, cmp.Or(w.ProviderID, w.Provider))
		}
	}
	return out
}

// HasRSA reports whether the key has an RSA part, and so signs RS256.
func (k *RootKey) HasRSA() bool {
	return slices.ContainsFunc(k.WrappedKeys, func(w *WrappedKey) bool {
		return w != nil && w.WrappedRSAKey != nil && len(w.WrappedRSAKey.Ciphertext) > 0
	})
}

// RootKeyMeta is what is known of a root key. CreateTime and PublishTime are in Unix
// nanoseconds.
type RootKeyMeta struct {
	KeyID       string
	Algorithm   EncryptionAlgorithm
	CreateTime  int64
	CreateIndex uint64
	ModifyIndex uint64
	State       RootKeyState
	PublishTime int64
	// WrappedBy are the IDs of those who wrapped it, any of whom can open it. Closed
	// says why the server that answers has not opened it, "" when it has. Servers of
	// another make tell neither, and neither is stored.
	WrappedBy []string `json:",omitempty" codec:",omitempty"`
	Closed    string   `json:",omitempty" codec:",omitempty"`
	// Variables is how many variables it encrypted, as above.
	Variables int `json:",omitempty" codec:",omitempty"`
}

// RootKeyState is inactive, active, rekeying, deprecated or prepublished.
type RootKeyState string

// WrappedKey is the material of a root key, encrypted by one provider. It prints as the
// provider only.
type WrappedKey struct {
	Provider                 string
	ProviderID               string
	WrappedDataEncryptionKey *BlobInfo
	WrappedRSAKey            *BlobInfo
	KeyEncryptionKey         []byte
}

// KEKProviderName names who wraps a root key.
type KEKProviderName string

// KeyringUpdateRootKeyMetaRequest is what servers before 1.9 wrote to Raft for a
// root key whose material they kept in files.
type KeyringUpdateRootKeyMetaRequest struct {
	RootKeyMeta *RootKeyMeta
	Rekey       bool
	WriteRequest
}

// Package rootkey defines the root keys of a region: the keys that sign identity tokens and encrypt variables.
//
//	prepublished ──PublishTime──▶ active ──a newer key is active──▶ inactive ──unused──▶ deleted
//	                                │  rotation with rekey            │  ▲
//	                                └────────▶ rekeying ◀─────────────┘  │
//	                                              └──no variable uses it─┘
//
// Keys of older servers may also be deprecated: they are treated as inactive, but are not published.
//
// A Key is a row of the state. Its material is wrapped: encrypted by a provider such as a KMS, see KEKProviderName. Package
// keyring unwraps it, signs and decrypts. Package identity verifies tokens with the public half. Keys and their parts print
// as their IDs. The structs for wrapped material have the field names of the wrapping library of Nomad 2.0.
//
// The package keeps no state and starts no goroutine.
package rootkey

import (
	"cmp"
	"slices"
)

// The states of a root key.
const (
	Inactive     State = "inactive"
	Active       State = "active"
	Rekeying     State = "rekeying"
	Prepublished State = "prepublished"
	Deprecated   State = "deprecated"
)

// The wrapping providers, the encryption algorithm, the use of public keys in JWKS, and the path of the JWKS.
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

// BlobInfo is an encrypted key with the parameters to decrypt it, in the format of the wrapping library.
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

// EncryptionAlgorithm is the cipher that a root key uses for variables.
type EncryptionAlgorithm string

// KeyEncoding is the encoding of a key, as numbered by the wrapping library.
type KeyEncoding int32

// KeyInfo identifies the key and the mechanism that encrypted a BlobInfo.
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

// KeyPurpose is the permitted use of a key, as numbered by the wrapping library.
type KeyPurpose int32

// KeyType is the type of a key, as numbered by the wrapping library.
type KeyType int32

// PublicKey is the public half of a root key, for JWKS and for the verifiers of other servers. CreateTime is in
// Unix nanoseconds.
type PublicKey struct {
	KeyID      string
	PublicKey  []byte
	Algorithm  string
	Use        string
	CreateTime int64
}

// Unwrapped is a root key with plaintext material. Servers before 1.9 sent it to each other. It prints as its ID.
type Unwrapped struct {
	Meta   *Meta
	Key    []byte
	RSAKey []byte
}

// String returns the key ID only.
func (k *Unwrapped) String() string {
	if k == nil || k.Meta == nil {
		return "key()"
	}
	return "key(" + k.Meta.KeyID + ")"
}

// GoString returns the result of String, so that %#v does not print the key.
func (k *Unwrapped) GoString() string { return k.String() }

// Key is a root key in state: its metadata and its wrapped material. With the built-in wrapper, the record also
// contains the key that decrypts the material. It prints as its ID only.
type Key struct {
	KeyID       string
	Algorithm   EncryptionAlgorithm
	CreateTime  int64
	CreateIndex uint64
	ModifyIndex uint64
	State       State
	PublishTime int64
	WrappedKeys []*Wrapped
	// PublicKey is the public half, as in PublicKey. Verification needs no wrapper. Unwrapped
	// material is checked against it. Keys created by other servers do not have it.
	PublicKey []byte
}

// Meta returns the metadata of the key.
func (k *Key) Meta() *Meta {
	return &Meta{KeyID: k.KeyID, Algorithm: k.Algorithm, CreateTime: k.CreateTime, CreateIndex: k.CreateIndex,
		ModifyIndex: k.ModifyIndex, State: k.State, PublishTime: k.PublishTime, WrappedBy: k.WrappedBy()}
}

// WrappedBy returns the IDs of the providers that wrapped the key.
func (k *Key) WrappedBy() []string {
	var out []string
	for _, w := range k.WrappedKeys {
		if w != nil {
			out = append(out, cmp.Or(w.ProviderID, w.Provider))
		}
	}
	return out
}

// HasRSA reports whether the key has an RSA part and thus signs with RS256.
func (k *Key) HasRSA() bool {
	return slices.ContainsFunc(k.WrappedKeys, func(w *Wrapped) bool {
		return w != nil && w.WrappedRSAKey != nil && len(w.WrappedRSAKey.Ciphertext) > 0
	})
}

// Meta is the metadata of a root key. CreateTime and PublishTime are in Unix nanoseconds.
type Meta struct {
	KeyID       string
	Algorithm   EncryptionAlgorithm
	CreateTime  int64
	CreateIndex uint64
	ModifyIndex uint64
	State       State
	PublishTime int64
	// WrappedBy are the IDs of the providers that wrapped the key; each can unwrap it. Closed is the
	// reason why the responding server has not unwrapped it, or "". Neither is stored, and servers of
	// other projects do not send them.
	WrappedBy []string `json:",omitempty" codec:",omitempty"`
	Closed    string   `json:",omitempty" codec:",omitempty"`
	// Variables and Volumes are the numbers of variables, and of CSI volumes with secrets, that are encrypted with the key.
	// They are not stored either.
	Variables int `json:",omitempty" codec:",omitempty"`
	Volumes   int `json:",omitempty" codec:",omitempty"`
}

// State is inactive, active, rekeying, deprecated or prepublished.
type State string

// Wrapped is the material of a root key, encrypted by one provider. It prints as the provider only.
type Wrapped struct {
	Provider                 string
	ProviderID               string
	WrappedDataEncryptionKey *BlobInfo
	WrappedRSAKey            *BlobInfo
	KeyEncryptionKey         []byte
}

// KEKProviderName is the name of a provider that wraps root keys.
type KEKProviderName string

package nomad

import "time"

// States and algorithms of root keys, and where public keys are served.
const (
	PubKeyUseSig                                     = "sig"
	JWKSPath                                         = "/.well-known/jwks.json"
	KEKProviderAEAD              KEKProviderName     = "aead"
	KEKProviderAWSKMS            KEKProviderName     = "awskms"
	KEKProviderAzureKeyVault     KEKProviderName     = "azurekeyvault"
	KEKProviderGCPCloudKMS       KEKProviderName     = "gcpckms"
	KEKProviderVaultTransit      KEKProviderName     = "transit"
	RootKeyStateInactive         RootKeyState        = "inactive"
	RootKeyStateActive           RootKeyState        = "active"
	RootKeyStateRekeying         RootKeyState        = "rekeying"
	RootKeyStatePrepublished     RootKeyState        = "prepublished"
	RootKeyStateDeprecated       RootKeyState        = "deprecated"
	EncryptionAlgorithmAES256GCM EncryptionAlgorithm = "aes256-gcm"
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

// KeyringGetRootKeyRequest is the request of Keyring.Get.
type KeyringGetRootKeyRequest struct {
	KeyID string
	QueryOptions
}

// KeyringGetRootKeyResponse is the reply of Keyring.Get.
type KeyringGetRootKeyResponse struct {
	Key *UnwrappedRootKey
	QueryMeta
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

// KeyringRotateRootKeyRequest is the request of Keyring.Rotate.
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

// KeyringUpdateRootKeyRequest is the request of Keyring.Update.
type KeyringUpdateRootKeyRequest struct {
	RootKey *UnwrappedRootKey
	Rekey   bool
	WriteRequest
}

// KeyringUpdateRootKeyResponse is the reply of Keyring.Update.
type KeyringUpdateRootKeyResponse struct {
	WriteMeta
}

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
}

// RootKey is a root key as state keeps it: what is known of it, and its material
// wrapped. It holds no plain key.
type RootKey struct {
	KeyID       string
	Algorithm   EncryptionAlgorithm
	CreateTime  int64
	CreateIndex uint64
	ModifyIndex uint64
	State       RootKeyState
	PublishTime int64
	WrappedKeys []*WrappedKey
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
}

// RootKeyState is inactive, active, rekeying, deprecated or prepublished.
type RootKeyState string

// UnwrappedRootKey is a root key in plain. It lives in the memory of servers only
// and is never logged, stored or sent.
type UnwrappedRootKey struct {
	Meta   *RootKeyMeta
	Key    []byte
	RSAKey []byte
}

// WrappedKey is the material of a root key, encrypted by one provider.
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

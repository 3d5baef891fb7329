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

// BlobInfo holds the fields of a blob info.
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

// EncryptionAlgorithm holds the fields of an encryption algorithm.
type EncryptionAlgorithm string

// KeyEncoding holds the fields of a key encoding.
type KeyEncoding int32

// KeyInfo holds the fields of a key info.
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

// KeyPurpose holds the fields of a key purpose.
type KeyPurpose int32

// KeyType holds the fields of a key type.
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

// KeyringPublicKey holds the fields of a keyring public key.
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

// KeyringUpsertWrappedRootKeyRequest holds the fields of a keyring upsert wrapped root key request.
type KeyringUpsertWrappedRootKeyRequest struct {
	WrappedRootKeys *RootKey
	Rekey           bool
	WriteRequest
}

// OIDCDiscoveryConfig holds the fields of an oidc discovery config.
type OIDCDiscoveryConfig struct {
	Issuer        string
	JWKS          string
	IDTokenAlgs   []string
	ResponseTypes []string
	Subjects      []string
}

// RootKey holds the fields of a root key.
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

// RootKeyMeta holds the fields of a root key meta.
type RootKeyMeta struct {
	KeyID       string
	Algorithm   EncryptionAlgorithm
	CreateTime  int64
	CreateIndex uint64
	ModifyIndex uint64
	State       RootKeyState
	PublishTime int64
}

// RootKeyState holds the fields of a root key state.
type RootKeyState string

// UnwrappedRootKey holds the fields of an unwrapped root key.
type UnwrappedRootKey struct {
	Meta   *RootKeyMeta
	Key    []byte
	RSAKey []byte
}

// WrappedKey holds the fields of a wrapped key.
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

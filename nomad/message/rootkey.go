package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

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
	OIDCDiscovery *idtoken.DiscoveryConfig
}

// KeyringListPublicResponse is the reply of Keyring.ListPublic.
type KeyringListPublicResponse struct {
	PublicKeys        []*rootkey.PublicKey
	RotationThreshold time.Duration
	QueryMeta
}

// KeyringListRootKeyMetaRequest is the request of Keyring.List.
type KeyringListRootKeyMetaRequest struct {
	QueryOptions
}

// KeyringListRootKeyMetaResponse is the reply of Keyring.List.
type KeyringListRootKeyMetaResponse struct {
	Keys []*rootkey.Meta
	QueryMeta
}

// KeyringRotateRootKeyRequest is the request of Keyring.Rotate. If PublishTime (Unix nanoseconds) is set, the new key is
// published immediately and becomes active at that time. Full re-encrypts all data of older keys. PublishTime and Full
// are mutually exclusive.
type KeyringRotateRootKeyRequest struct {
	Algorithm   rootkey.EncryptionAlgorithm
	Full        bool
	PublishTime int64
	WriteRequest
}

// KeyringRotateRootKeyResponse is the reply of Keyring.Rotate.
type KeyringRotateRootKeyResponse struct {
	Key *rootkey.Meta
	WriteMeta
}

// KeyringUpdateRootKeyRequest is the request of Keyring.Update. Servers of this project accept only the state of a key,
// never its material.
type KeyringUpdateRootKeyRequest struct {
	RootKey *rootkey.Unwrapped
	Rekey   bool
	WriteRequest
}

// KeyringUpdateRootKeyResponse is the reply of Keyring.Update.
type KeyringUpdateRootKeyResponse struct {
	WriteMeta
}

// KeyringUpsertWrappedRootKeyRequest is the Raft entry that stores a wrapped root key.
type KeyringUpsertWrappedRootKeyRequest struct {
	WrappedRootKeys *rootkey.Key
	Rekey           bool
	WriteRequest
}

// KeyringUpdateRootKeyMetaRequest is the Raft entry of servers before 1.9 for a root key whose material is stored in files.
type KeyringUpdateRootKeyMetaRequest struct {
	RootKeyMeta *rootkey.Meta
	Rekey       bool
	WriteRequest
}

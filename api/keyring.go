package api

// RootKeyState is the state of a root key.
type RootKeyState string

// States of a root key.
const (
	RootKeyStateInactive     RootKeyState = "inactive"
	RootKeyStateActive       RootKeyState = "active"
	RootKeyStateRekeying     RootKeyState = "rekeying"
	RootKeyStateDeprecated   RootKeyState = "deprecated"
	RootKeyStatePrepublished RootKeyState = "prepublished"
)

// EncryptionAlgorithm is the cipher of a root key.
type EncryptionAlgorithm string

// EncryptionAlgorithmAES256GCM is the only supported cipher.
const EncryptionAlgorithmAES256GCM EncryptionAlgorithm = "aes256-gcm"

// RootKeyMeta is the metadata of a root key. Times are in Unix nanoseconds.
type RootKeyMeta struct {
	KeyID       string
	Algorithm   EncryptionAlgorithm
	CreateTime  int64
	CreateIndex uint64
	ModifyIndex uint64
	State       RootKeyState
	PublishTime int64
	// WrappedBy lists the IDs of the keyrings that wrapped the key. Each of them can unwrap it.
	// Closed is the reason why the leader has not unwrapped it, or "". Upstream servers
	// send neither.
	WrappedBy []string `json:",omitempty"`
	Closed    string   `json:",omitempty"`
	// Variables is the number of variables encrypted with the key. Upstream servers don't send it.
	Variables int `json:",omitempty"`
}

// KeyringRotateRootKeyResponse contains the metadata of a new root key.
type KeyringRotateRootKeyResponse struct {
	Key *RootKeyMeta
	WriteMeta
}

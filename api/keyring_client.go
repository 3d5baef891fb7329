package api

import (
	"net/http"
	"net/url"
	"strconv"
)

// RootKeyState is how far a root key is in its life.
type RootKeyState string

// The states of a root key.
const (
	RootKeyStateInactive     RootKeyState = "inactive"
	RootKeyStateActive       RootKeyState = "active"
	RootKeyStateRekeying     RootKeyState = "rekeying"
	RootKeyStateDeprecated   RootKeyState = "deprecated"
	RootKeyStatePrepublished RootKeyState = "prepublished"
)

// EncryptionAlgorithm is the cipher that a root key serves.
type EncryptionAlgorithm string

// EncryptionAlgorithmAES256GCM is the only one.
const EncryptionAlgorithmAES256GCM EncryptionAlgorithm = "aes256-gcm"

// RootKeyMeta is what is known of a root key. Times are in nanoseconds since 1970.
type RootKeyMeta struct {
	KeyID       string
	Algorithm   EncryptionAlgorithm
	CreateTime  int64
	CreateIndex uint64
	ModifyIndex uint64
	State       RootKeyState
	PublishTime int64
	// WrappedBy are the IDs of the keyrings that wrapped it, any of which opens it, and
	// Closed says why the leader has not opened it, "" when it has. Servers of another
	// make tell neither.
	WrappedBy []string `json:",omitempty"`
	Closed    string   `json:",omitempty"`
	// Variables is how many variables it encrypted; servers of another make don't tell.
	Variables int `json:",omitempty"`
}

// KeyringRotateOptions say how a new root key begins.
type KeyringRotateOptions struct {
	Full        bool
	Algorithm   EncryptionAlgorithm
	PublishTime int64
}

// KeyringDeleteOptions say which root key goes, by force or not.
type KeyringDeleteOptions struct {
	KeyID string
	Force bool
}

// KeyringRotateRootKeyResponse holds what is known of a new root key.
type KeyringRotateRootKeyResponse struct {
	Key *RootKeyMeta
	WriteMeta
}

// Keyring reads and rotates root keys.
type Keyring struct{ client *Client }

// Keyring returns the handle for root keys.
func (c *Client) Keyring() *Keyring { return &Keyring{c} }

// List lists the root keys.
func (k *Keyring) List(q *QueryOptions) ([]*RootKeyMeta, *QueryMeta, error) {
	return get[[]*RootKeyMeta](k.client, "/v1/operator/keyring/keys", q)
}

// Rotate makes a new root key.
func (k *Keyring) Rotate(opts *KeyringRotateOptions, w *WriteOptions) (*RootKeyMeta, *WriteMeta, error) {
	query := url.Values{}
	if opts != nil {
		if opts.Algorithm != "" {
			query.Set("algo", string(opts.Algorithm))
		}
		if opts.Full {
			query.Set("full", "true")
		}
		if opts.PublishTime > 0 {
			query.Set("publish_time", strconv.FormatInt(opts.PublishTime, 10))
		}
	}
	var out KeyringRotateRootKeyResponse
	meta, err := k.client.put("/v1/operator/keyring/rotate?"+query.Encode(), nil, &out, w)
	if err != nil {
		return nil, nil, err
	}
	return out.Key, meta, nil
}

// Delete forgets a root key.
func (k *Keyring) Delete(opts *KeyringDeleteOptions, w *WriteOptions) (*WriteMeta, error) {
	path := "/v1/operator/keyring/key/" + url.PathEscape(opts.KeyID) + "?force=" + strconv.FormatBool(opts.Force)
	return k.client.write(http.MethodDelete, path, nil, nil, w)
}

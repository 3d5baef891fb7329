package api

import (
	"net/http"
	"net/url"
	"strconv"
)

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
	// Variables and Volumes are the numbers of variables, and of CSI volumes with secrets, that are encrypted with the key.
	// Upstream servers don't send them.
	Variables int `json:",omitempty"`
	Volumes   int `json:",omitempty"`
}

// KeyringRotateRootKeyResponse contains the metadata of a new root key.
type KeyringRotateRootKeyResponse struct {
	Key *RootKeyMeta
	WriteMeta
}

// KeyringRotateOptions are the options of Keyring.Rotate.
type KeyringRotateOptions struct {
	Full        bool
	Algorithm   EncryptionAlgorithm
	PublishTime int64
}

// KeyringDeleteOptions are the options of Keyring.Delete.
type KeyringDeleteOptions struct {
	KeyID string
	Force bool
}

// Keyring is the handle for root keys.
type Keyring struct{ client *Client }

// Keyring returns the handle for root keys.
func (c *Client) Keyring() *Keyring { return &Keyring{c} }

// List lists the root keys.
func (k *Keyring) List(q *QueryOptions) ([]*RootKeyMeta, *QueryMeta, error) {
	return get[[]*RootKeyMeta](k.client, "/v1/operator/keyring/keys", q)
}

// Rotate creates a new root key.
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

// Delete deletes a root key.
func (k *Keyring) Delete(opts *KeyringDeleteOptions, w *WriteOptions) (*WriteMeta, error) {
	path := "/v1/operator/keyring/key/" + url.PathEscape(opts.KeyID) + "?force=" + strconv.FormatBool(opts.Force)
	return k.client.write(call{http.MethodDelete, path, nil, nil}, w)
}

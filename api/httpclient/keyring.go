package httpclient

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// KeyringRotateOptions are the options of Keyring.Rotate.
type KeyringRotateOptions struct {
	Full        bool
	Algorithm   api.EncryptionAlgorithm
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
func (k *Keyring) List(q *QueryOptions) ([]*api.RootKeyMeta, *api.QueryMeta, error) {
	return get[[]*api.RootKeyMeta](k.client, "/v1/operator/keyring/keys", q)
}

// Rotate creates a new root key.
func (k *Keyring) Rotate(opts *KeyringRotateOptions, w *WriteOptions) (*api.RootKeyMeta, *api.WriteMeta, error) {
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
	var out api.KeyringRotateRootKeyResponse
	meta, err := k.client.put("/v1/operator/keyring/rotate?"+query.Encode(), nil, &out, w)
	if err != nil {
		return nil, nil, err
	}
	return out.Key, meta, nil
}

// Delete deletes a root key.
func (k *Keyring) Delete(opts *KeyringDeleteOptions, w *WriteOptions) (*api.WriteMeta, error) {
	path := "/v1/operator/keyring/key/" + url.PathEscape(opts.KeyID) + "?force=" + strconv.FormatBool(opts.Force)
	return k.client.write(http.MethodDelete, path, nil, nil, w)
}
